//! A count that is noted before it is written, by a client that can't do both at once: through a Thrift gateway, a condition goes with
//! one cell.
//!
//! The note says what is to be written, and where: later than the count on which it was planned. However often and however late it is written
//! there, it is the same cell, and lies under whatever is counted next. Whoever would change the latch writes it first, if it is not there.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::sight::Count;

/// The most bytes of a count column.
const LONGEST_COLUMN: usize = 1_024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    /// The count's column.
    pub(crate) column: Bytes,
    /// The timestamp of the count on which it was planned; none when there was none.
    pub(crate) base: Option<u64>,
    /// Its timestamp; none when that is the note's own: a latch begins.
    pub(crate) at: Option<u64>,
    pub(crate) value: i64,
    /// How long it lives from its timestamp on, in milliseconds.
    pub(crate) ttl: u64,
}

/// What became of a count that was noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is to be written.
    Waiting,
    /// It is there.
    Landed,
    /// It is not to be written, and was not: there might be a count of that very timestamp that somebody else wrote.
    Void,
    /// A Java client has counted since, or the latch has ended: before or behind it, nobody can tell.
    Doubtful,
}

impl Pending {
    /// Where it is written, as its note was at that time.
    pub(crate) fn timestamp(&self, noted: u64) -> u64 {
        self.at.unwrap_or(noted)
    }

    /// What became of it, as its note was written at that time and its column has this count; `is_live` is whether there is a latch.
    pub(super) fn fate(&self, noted: u64, count: Option<&Count>, is_live: bool) -> Fate {
        let begins = self.at.is_none();
        let at = self.timestamp(noted);
        if !begins && noted <= at {
            // Only later than this can a Java client's count not have the same timestamp.
            return Fate::Void;
        }
        match count.map(|count| count.seen.timestamp) {
            Some(timestamp) if timestamp == at && count.is_some_and(|count| count.value == self.value) => {
                Fate::Landed
            }
            // What a latch begins over is cleared away first.
            None if begins || (self.base.is_none() && is_live) => Fate::Waiting,
            Some(timestamp) if Some(timestamp) == self.base => Fate::Waiting,
            _ => Fate::Doubtful,
        }
    }

    pub(super) fn encode(&self, value: &mut BytesMut) {
        let optional = |number: Option<u64>| number.map_or(0, |number| number.saturating_add(1));
        value.put_u16(u16::try_from(self.column.len()).unwrap_or(u16::MAX));
        value.put_slice(&self.column);
        value.put_u64(optional(self.base));
        value.put_u64(optional(self.at));
        value.put_i64(self.value);
        value.put_u64(self.ttl);
    }

    /// None for what no version of this library writes.
    pub(super) fn decode(value: &mut &[u8]) -> Option<Self> {
        let length = usize::from(value.try_get_u16().ok()?);
        if length > LONGEST_COLUMN {
            return None;
        }
        let (column, rest) = value.split_at_checked(length)?;
        let column = Bytes::copy_from_slice(column);
        *value = rest;
        Some(Self {
            column,
            base: value.try_get_u64().ok()?.checked_sub(1),
            at: value.try_get_u64().ok()?.checked_sub(1),
            value: value.try_get_i64().ok()?,
            ttl: value.try_get_u64().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::latch::sight::Seen;

    const BASE: u64 = 1_000;
    const NOTED: u64 = 5_000;

    fn count(timestamp: u64, value: i64) -> Count {
        Count {
            qualifier: "count_fra".into(),
            seen: Seen {
                value: Bytes::copy_from_slice(&value.to_be_bytes()),
                timestamp,
                expires: None,
            },
            value,
        }
    }

    fn pending(base: Option<u64>, at: Option<u64>) -> Pending {
        Pending {
            column: "count_fra".into(),
            base,
            at,
            value: 2,
            ttl: 60_000,
        }
    }

    #[rstest]
    #[case::as_it_was(NOTED, Some(count(BASE, 3)), Fate::Waiting)]
    #[case::written(NOTED, Some(count(BASE + 1, 2)), Fate::Landed)]
    #[case::counted_by_java(NOTED, Some(count(NOTED + 1, 2)), Fate::Doubtful)]
    #[case::over(NOTED, None, Fate::Doubtful)]
    #[case::noted_too_early(BASE + 1, Some(count(BASE, 3)), Fate::Void)]
    fn a_count_on_another_one_is_where_it_was_to_be_or_waits(
        #[case] noted: u64,
        #[case] there: Option<Count>,
        #[case] fate: Fate,
    ) {
        let pending = pending(Some(BASE), Some(BASE + 1));
        assert_eq!(pending.fate(noted, there.as_ref(), there.is_some()), fate);
    }

    #[test]
    fn a_first_count_waits_as_long_as_there_is_a_latch_and_a_beginning_always() {
        let beside = pending(None, Some(BASE));
        assert_eq!(beside.fate(NOTED, None, true), Fate::Waiting);
        assert_eq!(beside.fate(NOTED, None, false), Fate::Doubtful);
        assert_eq!(beside.fate(NOTED, Some(&count(BASE, 2)), true), Fate::Landed);
        for base in [None, Some(BASE)] {
            let begins = pending(base, None);
            assert_eq!(begins.fate(NOTED, None, false), Fate::Waiting);
            assert_eq!(begins.fate(NOTED, Some(&count(NOTED, 2)), true), Fate::Landed);
            assert_eq!(
                begins.fate(NOTED, Some(&count(NOTED + 1, 1)), true),
                Fate::Doubtful
            );
        }
    }
}
