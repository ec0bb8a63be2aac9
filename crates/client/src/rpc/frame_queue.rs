//! Requests that wait for the socket.

use std::{collections::VecDeque, io::IoSlice};

use bytes::{Buf, Bytes};

/// Pieces of requests in the order in which they are written, so that all queued requests are sent
/// in one vectored write without copying.
#[derive(Debug, Default)]
pub(super) struct FrameQueue {
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

impl FrameQueue {
    /// Appends a piece. Leaves out empty ones: `Buf::chunk` must not be empty while bytes remain.
    pub(super) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.bytes += piece.len();
            self.pieces.push_back(piece);
        }
    }
}

impl Buf for FrameQueue {
    fn remaining(&self) -> usize {
        self.bytes
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.front().map_or(&[], |piece| piece)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = IoSlice::new(piece);
            filled += 1;
        }
        filled
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.bytes, "advanced past the queue's end");
        self.bytes -= count;
        while let Some(front) = self.pieces.front_mut() {
            if count < front.len() {
                front.advance(count);
                return;
            }
            count -= front.len();
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_leave_in_the_order_they_came_whatever_the_socket_takes(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 0..9),
            steps in proptest::collection::vec(1usize..7, 1..60),
        ) {
            let expected: Vec<u8> = pieces.concat();
            let mut queue = FrameQueue::default();
            for piece in pieces {
                queue.push(piece.into());
            }
            let mut written = Vec::new();
            for step in steps.into_iter().cycle() {
                if !queue.has_remaining() {
                    break;
                }
                let mut slices = [IoSlice::new(&[]); 3];
                let filled = queue.chunks_vectored(&mut slices);
                let offered: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.to_vec()).collect();
                let taken = step.min(offered.len());
                written.extend_from_slice(&offered[..taken]);
                queue.advance(taken);
            }
            prop_assert_eq!(written, expected);
        }
    }
}
