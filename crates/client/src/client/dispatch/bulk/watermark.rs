//! The number of mutations, from the first, that are done.

use std::collections::VecDeque;

const WORD: u64 = u64::BITS as u64;

/// Numbers that are done, in any order, and the first one that is not.
#[derive(Debug, Default)]
pub(super) struct Watermark {
    /// A multiple of the width of a word. All numbers below are done.
    base: u64,
    /// A bit for each number from there on.
    done: VecDeque<u64>,
}

impl Watermark {
    /// Marks a number as done.
    pub(super) fn complete(&mut self, number: u64) {
        let Some(offset) = number.checked_sub(self.base) else {
            return;
        };
        let word = usize::try_from(offset / WORD).unwrap_or(usize::MAX);
        if word >= self.done.len() {
            self.done.resize(word + 1, 0);
        }
        self.done[word] |= 1 << (offset % WORD);
        while self.done.front() == Some(&u64::MAX) {
            self.done.pop_front();
            self.base += WORD;
        }
    }

    /// Returns the first number that is not done.
    pub(super) fn first_open(&self) -> u64 {
        let front = self.done.front().copied().unwrap_or(0);
        self.base + u64::from(front.trailing_ones())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_open_number_is_behind_all_that_are_done() {
        let mut watermark = Watermark::default();
        let mut order: Vec<u64> = (0..1_000).collect();
        fastrand::Rng::with_seed(1).shuffle(&mut order);
        let mut open: std::collections::BTreeSet<u64> = (0..1_001).collect();
        for number in order {
            watermark.complete(number);
            open.remove(&number);
            assert_eq!(Some(&watermark.first_open()), open.first());
        }
        assert!(watermark.done.len() <= 1, "{watermark:?}");
    }
}
