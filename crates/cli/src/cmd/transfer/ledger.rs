//! The lines in flight, in the order of the file.

use std::collections::VecDeque;

use crate::cmd::input_lines::InputLine;

/// The memory of a line besides its text.
const OVERHEAD: usize = 128;

/// The lines whose mutations are not done, and the lines behind them.
///
/// The mutations of an import are numbered from 0 by its writer, in the order of the lines.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    lines: VecDeque<PendingLine>,
    /// The number of the next mutation.
    next: u64,
    held: usize,
}

/// A line, and why it is rejected, if it is.
#[derive(Debug)]
pub(super) struct PendingLine {
    pub(super) number: u64,
    /// The position in the file behind the line.
    pub(super) end: u64,
    /// The text, unless the line was too long to keep.
    pub(super) text: Option<Vec<u8>>,
    pub(super) rejection: Option<Rejection>,
    /// The number of the first mutation behind those of this line.
    mutations_end: u64,
}

/// The reason why a line is rejected, with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) why: String,
    /// Whether the line may have been stored all the same.
    pub(super) is_unknown: bool,
}

impl Rejection {
    /// Creates the rejection of a line that is not stored.
    pub(super) fn new(why: String) -> Self {
        Self {
            why,
            is_unknown: false,
        }
    }
}

impl Ledger {
    /// Adds a line with this number of mutations, which the writer gets next.
    pub(super) fn add(&mut self, line: InputLine, mutations: usize) {
        self.next += mutations as u64;
        let text = line.text.ok();
        self.held += held(text.as_deref());
        self.lines.push_back(PendingLine {
            number: line.number,
            end: line.end,
            text,
            rejection: None,
            mutations_end: self.next,
        });
    }

    /// Rejects the last line, this many of whose mutations the writer does not get.
    pub(super) fn reject_last(&mut self, left_out: usize, rejection: Rejection) {
        self.next -= left_out as u64;
        if let Some(last) = self.lines.back_mut() {
            last.mutations_end = self.next;
            last.rejection = Some(rejection);
        }
    }

    /// Rejects the line of a mutation that has failed. Returns `false` if the line was rejected before.
    pub(super) fn reject(&mut self, mutation: u64, reject: impl FnOnce(u64) -> Rejection) -> bool {
        let index = self.lines.partition_point(|line| line.mutations_end <= mutation);
        match self.lines.get_mut(index) {
            Some(line) if line.rejection.is_none() => {
                line.rejection = Some(reject(line.number));
                true
            }
            _ => false,
        }
    }

    /// Returns the next line if all mutations up to it are done: those with a number below this one.
    pub(super) fn take_done(&mut self, watermark: u64) -> Option<PendingLine> {
        if self.lines.front()?.mutations_end > watermark {
            return None;
        }
        let line = self.lines.pop_front()?;
        self.held -= held(line.text.as_deref());
        Some(line)
    }

    /// Makes a line that was taken the next one again.
    pub(super) fn put_back(&mut self, line: PendingLine) {
        self.held += held(line.text.as_deref());
        self.lines.push_front(line);
    }

    /// Returns the number of lines.
    pub(super) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Returns the number of bytes in memory.
    pub(super) fn held(&self) -> usize {
        self.held
    }
}

fn held(text: Option<&[u8]>) -> usize {
    OVERHEAD + text.map_or(0, <[u8]>::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64) -> InputLine {
        InputLine {
            number,
            end: number * 10,
            text: Ok(vec![b'x'; 9]),
        }
    }

    fn done(ledger: &mut Ledger, watermark: u64) -> Vec<(u64, Option<String>)> {
        std::iter::from_fn(|| ledger.take_done(watermark))
            .map(|line| (line.number, line.rejection.map(|rejection| rejection.why)))
            .collect()
    }

    #[test]
    fn lines_are_done_in_their_order() {
        let mut ledger = Ledger::default();
        ledger.add(line(1), 1);
        ledger.add(line(2), 0);
        ledger.reject_last(0, Rejection::new("broken".to_owned()));
        ledger.add(line(3), 2);
        assert_eq!(done(&mut ledger, 0), []);
        assert!(ledger.reject(1, |number| Rejection::new(format!("refused {number}"))));
        assert!(!ledger.reject(2, |_| Rejection::new("again".to_owned())));
        let first = ledger.take_done(2).unwrap();
        ledger.put_back(first);
        assert_eq!(done(&mut ledger, 2), [(1, None), (2, Some("broken".to_owned()))]);
        assert_eq!(done(&mut ledger, 3), [(3, Some("refused 3".to_owned()))]);
        assert_eq!(ledger.held(), 0);
    }

    #[test]
    fn mutations_that_the_writer_did_not_get_have_no_numbers() {
        let mut ledger = Ledger::default();
        ledger.add(line(1), 3);
        ledger.reject_last(2, Rejection::new("invalid".to_owned()));
        ledger.add(line(2), 1);
        assert!(ledger.reject(1, |number| Rejection::new(format!("refused {number}"))));
        let rejections = done(&mut ledger, 2).into_iter().map(|(_, why)| why.unwrap());
        assert_eq!(rejections.collect::<Vec<_>>(), ["invalid", "refused 2"]);
    }
}
