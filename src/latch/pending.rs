//! A count that is noted before it is written, by a client that cannot do both at once: through a
//! Thrift gateway, a condition covers one cell.
//!
//! The note specifies the count and its timestamp, which is later than that of the count on which
//! it was planned. However often and however late the count is written there, it is the same cell,
//! and lies under any later count. If it is missing, the next client that changes the latch writes
//! it first.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The maximum length of a count column, in bytes.
const MAX_COLUMN: usize = 1_024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    /// The count's column.
    pub(crate) column: Bytes,
    /// The timestamp of the count on which it was planned. `None` if there was no count.
    pub(crate) base: Option<u64>,
    /// Its timestamp. `None` if it is the note's own, because the latch begins.
    pub(crate) at: Option<u64>,
    pub(crate) value: i64,
    /// How long it lives after its timestamp, in milliseconds.
    pub(crate) ttl: u64,
}

/// The outcome of a noted count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// It is to be written.
    Waiting,
    /// It is written.
    Landed,
    /// It was not and must not be written: another client may have written a count with the same
    /// timestamp.
    Void,
    /// Unknown: a Java client has counted since, or the latch has ended, and either may have
    /// happened before or after it was written.
    Doubtful,
}

impl Pending {
    /// Returns its timestamp, given that of its note.
    pub(crate) fn timestamp(&self, noted: u64) -> u64 {
        self.at.unwrap_or(noted)
    }

    /// Returns its outcome, given the timestamp of its note and the timestamp and value of
    /// the count in its column. `is_live` is whether the latch exists.
    pub(super) fn resolution(&self, noted: u64, count: Option<(u64, i64)>, is_live: bool) -> Resolution {
        let begins = self.at.is_none();
        let at = self.timestamp(noted);
        if !begins && noted <= at {
            // Only a Java client's count from after this time has another timestamp for certain.
            return Resolution::Void;
        }
        match count {
            Some((timestamp, value)) if timestamp == at && value == self.value => Resolution::Landed,
            // A count over which a latch begins is deleted first.
            None if begins || (self.base.is_none() && is_live) => Resolution::Waiting,
            Some((timestamp, _)) if Some(timestamp) == self.base => Resolution::Waiting,
            _ => Resolution::Doubtful,
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

    /// Returns `None` for a value that no version of this library writes.
    pub(super) fn decode(value: &mut &[u8]) -> Option<Self> {
        let length = usize::from(value.try_get_u16().ok()?);
        if length > MAX_COLUMN {
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

    const BASE: u64 = 1_000;
    const NOTED: u64 = 5_000;

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
    #[case::as_it_was(NOTED, Some((BASE, 3)), Resolution::Waiting)]
    #[case::written(NOTED, Some((BASE + 1, 2)), Resolution::Landed)]
    #[case::counted_by_java(NOTED, Some((NOTED + 1, 2)), Resolution::Doubtful)]
    #[case::over(NOTED, None, Resolution::Doubtful)]
    #[case::noted_too_early(BASE + 1, Some((BASE, 3)), Resolution::Void)]
    fn a_count_on_another_one_is_where_it_was_to_be_or_waits(
        #[case] noted: u64,
        #[case] there: Option<(u64, i64)>,
        #[case] resolution: Resolution,
    ) {
        let pending = pending(Some(BASE), Some(BASE + 1));
        assert_eq!(pending.resolution(noted, there, there.is_some()), resolution);
    }

    #[test]
    fn first_count_needs_a_latch_and_a_beginning_does_not() {
        let beside = pending(None, Some(BASE));
        assert_eq!(beside.resolution(NOTED, None, true), Resolution::Waiting);
        assert_eq!(beside.resolution(NOTED, None, false), Resolution::Doubtful);
        assert_eq!(
            beside.resolution(NOTED, Some((BASE, 2)), true),
            Resolution::Landed
        );
        for base in [None, Some(BASE)] {
            let begins = pending(base, None);
            assert_eq!(begins.resolution(NOTED, None, false), Resolution::Waiting);
            assert_eq!(
                begins.resolution(NOTED, Some((NOTED, 2)), true),
                Resolution::Landed
            );
            assert_eq!(
                begins.resolution(NOTED, Some((NOTED + 1, 1)), true),
                Resolution::Doubtful
            );
        }
    }
}
