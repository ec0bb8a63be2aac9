//! Mutations that wait for a call, by region.
//!
//! A queue exists only while it has work, so the regions of a table cost nothing. Its range lies in
//! one region, or is a gap between other queues whose region must be located first.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use bytes::Bytes;

use crate::{
    cluster::{Attempts, RegionLocation},
    model::ServerName,
    wire::encoded::{EncodedMutations, EncodedSlice},
};

/// The maximum number of mutations in a call, and of bytes unless one mutation is larger.
pub(super) const MOST_MUTATIONS: usize = 2_000;
pub(super) const MOST_BYTES: usize = 1 << 20;

/// Mutations of a queue that are attempted together, and the attempts so far.
pub(super) struct Part<'a> {
    pub(super) attempts: Attempts<'a>,
    /// Never empty.
    pub(super) mutations: EncodedSlice,
    pub(super) stamping: Stamping,
}

/// The source of the timestamps of mutations that have none.
#[derive(Clone, Debug)]
pub(super) enum Stamping {
    /// The server, or all have timestamps of their own.
    Server,
    /// The client, so that a copy that comes late is older than later mutations of its row. The server
    /// and the timestamp of the last attempt.
    Client(Option<(ServerName, u64)>),
}

/// The mutations of a range of rows.
#[derive(Default)]
pub(super) struct Queue<'a> {
    /// The first row behind the range. Empty if the range has no end.
    end: Bytes,
    /// The region of the range, if it is known.
    pub(super) location: Option<Arc<RegionLocation>>,
    /// Whether a part is in a call, or recovers from a failure. No other one is sent meanwhile: the
    /// mutations of a row are applied in their order.
    pub(super) is_busy: bool,
    /// Whether it is listed among the queues that its server may take a part of.
    pub(super) is_listed: bool,
    /// Parts that are sent before all others.
    again: VecDeque<Part<'a>>,
    waiting: VecDeque<EncodedSlice>,
    open: EncodedMutations,
}

/// The queues by their first row.
#[derive(Default)]
pub(super) struct Queues<'a> {
    queues: BTreeMap<Bytes, Queue<'a>>,
}

/// What a queue sends next.
pub(super) enum Next<'a> {
    Again(Box<Part<'a>>),
    New(EncodedSlice),
}

impl Stamping {
    /// Returns the timestamp of mutations that have none, unless the server sets it.
    pub(super) fn stamp(&self) -> Option<u64> {
        match self {
            Self::Server => None,
            Self::Client(last) => last.as_ref().map(|(_, stamp)| *stamp),
        }
    }
}

impl<'a> Queue<'a> {
    fn contains(&self, row: &[u8]) -> bool {
        self.end.is_empty() || row < self.end
    }

    pub(super) fn is_empty(&self) -> bool {
        self.again.is_empty() && self.waiting.is_empty() && self.open.is_empty()
    }

    /// Takes at most this many mutations, and bytes unless the first one is larger, all of which may be
    /// in one action.
    pub(super) fn take(&mut self, most: usize, most_bytes: usize) -> Option<Next<'a>> {
        if let Some(part) = self.again.pop_front() {
            return Some(Next::Again(Box::new(part)));
        }
        let mut slice = match self.waiting.pop_front() {
            Some(slice) => slice,
            None if self.open.is_empty() => return None,
            None => self.open.take(),
        };
        let mut bytes = 0;
        let fitting = slice.mutations().iter().take(most).take_while(|mutation| {
            bytes += mutation.len();
            bytes <= most_bytes
        });
        let rest = slice.split_off(fitting.count().max(1));
        let clashing = slice.split_clashing();
        for later in [rest, clashing] {
            if !later.mutations().is_empty() {
                self.waiting.push_front(later);
            }
        }
        Some(Next::New(slice))
    }

    /// Sends a part before all others.
    pub(super) fn send_again(&mut self, part: Part<'a>) {
        self.again.push_front(part);
    }

    /// Removes all mutations that wait.
    pub(super) fn take_waiting(&mut self) -> Vec<EncodedSlice> {
        let mut waiting: Vec<_> = self.waiting.drain(..).collect();
        waiting.extend((!self.open.is_empty()).then(|| self.open.take()));
        waiting
    }

    fn append(&mut self, slice: &EncodedSlice, index: usize) {
        let mutation = &slice.mutations()[index];
        self.open.copy(slice, mutation);
        if self.open.count() >= MOST_MUTATIONS || self.open.bytes() >= MOST_BYTES {
            self.waiting.push_back(self.open.take());
        }
    }
}

impl<'a> Queues<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    pub(super) fn get_mut(&mut self, first: &[u8]) -> Option<&mut Queue<'a>> {
        self.queues.get_mut(first)
    }

    /// Returns the first row of the queue of a row. Creates the queue if there is none, in the region
    /// that `locate` returns, or in the gap between its neighbours.
    fn queue_of(
        &mut self,
        row: &[u8],
        locate: impl FnOnce(&[u8]) -> Option<Arc<RegionLocation>>,
    ) -> (Bytes, &mut Queue<'a>) {
        let upto = (Bound::Unbounded, Bound::Included(row));
        let before = self.queues.range::<[u8], _>(upto).next_back();
        let first = match before {
            Some((first, queue)) if queue.contains(row) => first.clone(),
            _ => {
                let mut first = before.map_or_else(Bytes::new, |(_, queue)| queue.end.clone());
                let behind = (Bound::Excluded(row), Bound::Unbounded);
                let behind = self.queues.range::<[u8], _>(behind).next();
                let mut end = behind.map_or_else(Bytes::new, |(first, _)| first.clone());
                let location = locate(row);
                if let Some(RegionLocation { region, .. }) = location.as_deref() {
                    first = first.max(region.start_key.clone());
                    if end.is_empty() || !region.end_key.is_empty() && region.end_key < end {
                        end = region.end_key.clone();
                    }
                }
                let queue = Queue {
                    end,
                    location,
                    ..Queue::default()
                };
                self.queues.insert(first.clone(), queue);
                first
            }
        };
        let queue = self.queues.entry(first.clone()).or_default();
        (first, queue)
    }

    /// Appends mutations to their queues. Returns the first rows of the queues.
    pub(super) fn add(
        &mut self,
        slice: &EncodedSlice,
        locate: impl Fn(&[u8]) -> Option<Arc<RegionLocation>>,
    ) -> Vec<Bytes> {
        let mut changed = Vec::new();
        let mut index = 0;
        let count = slice.mutations().len();
        while index < count {
            let row = slice.row_bytes(&slice.mutations()[index]);
            let (first, queue) = self.queue_of(row, &locate);
            // Rows often arrive in order, and then the next ones are in the same queue.
            while let Some(mutation) = slice.mutations().get(index) {
                let row = slice.row_bytes(mutation);
                if row < &*first || !queue.contains(row) {
                    break;
                }
                queue.append(slice, index);
                index += 1;
            }
            if changed.last() != Some(&first) {
                changed.push(first);
            }
        }
        changed
    }

    /// Replaces a queue whose region may have changed by the queues of the regions that are known
    /// now. A part of it goes first. Returns the first rows of the queues.
    pub(super) fn replace(
        &mut self,
        first: &[u8],
        part: Part<'a>,
        locate: impl Fn(&[u8]) -> Option<Arc<RegionLocation>>,
    ) -> Vec<Bytes> {
        let mut old = self.queues.remove(first).unwrap_or_default();
        let mut changed = Vec::new();
        for part in [part].into_iter().chain(std::mem::take(&mut old.again)) {
            let Part {
                mut attempts,
                mut mutations,
                stamping,
            } = part;
            while let Some(front) = mutations.mutations().first() {
                let row = mutations.row(front);
                let (first, queue) = self.queue_of(&row, &locate);
                let others = mutations.split_unless(|row, _| *first <= *row && queue.contains(row));
                attempts.move_to(row);
                let next = others.mutations().first();
                let next = next.map(|next| attempts.fork(others.row(next)));
                queue.again.push_back(Part {
                    attempts,
                    mutations,
                    stamping: stamping.clone(),
                });
                changed.push(first);
                let Some(next) = next else { break };
                (attempts, mutations) = (next, others);
            }
        }
        for slice in old.take_waiting() {
            changed.extend(self.add(&slice, &locate));
        }
        changed
    }

    /// Removes a queue if it has no work.
    pub(super) fn remove_idle(&mut self, first: &[u8]) {
        if self
            .queues
            .get(first)
            .is_some_and(|queue| queue.is_empty() && !queue.is_busy)
        {
            self.queues.remove(first);
        }
    }
}
