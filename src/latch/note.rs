//! The value of the note: what is known of a latch beside its counts.
//!
//! Each change of ours rewrites it, under the condition that it is as it was seen. So of all changes that were planned on one
//! sight only one is made, however often each is sent; and for a while it can be told which ones were.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The form of the value, of a latch that is or was, and of one that was deleted.
const OF_LATCH: u8 = 1;
const OF_DELETED: u8 = 2;
/// How many changes are remembered.
pub(super) const REMEMBERED: usize = 16;

/// What tells one change of a latch from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChangeId(u64);

impl ChangeId {
    pub(super) fn unique() -> Self {
        Self(fastrand::u64(..))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// That there is no latch: it was deleted, or is about to be made. Copies of what was planned before then find no latch without a note.
    pub(super) deleted: bool,
    /// Counts the changes. It begins by chance, so that a latch that was deleted and made again has no number of before.
    pub(super) sequence: u64,
    /// How many participants have arrived.
    pub(super) arrived: u32,
    /// The last changes, the newest last.
    changes: Vec<ChangeId>,
}

impl Note {
    /// That of a latch of which nothing was noted.
    pub(super) fn first(change: ChangeId) -> Self {
        Self {
            deleted: false,
            sequence: fastrand::u64(..),
            arrived: 0,
            changes: vec![change],
        }
    }

    /// That nothing was ever noted of the row, from now on.
    pub(super) fn of_nothing() -> Self {
        Self {
            deleted: true,
            sequence: fastrand::u64(..),
            arrived: 0,
            changes: Vec::new(),
        }
    }

    /// The note after another change.
    pub(super) fn next(&self, change: ChangeId, arrivals: u32) -> Self {
        let forgotten = (self.changes.len() + 1).saturating_sub(REMEMBERED);
        let mut changes = self.changes[forgotten..].to_vec();
        changes.push(change);
        Self {
            deleted: false,
            sequence: self.sequence.wrapping_add(1),
            arrived: self.arrived.saturating_add(arrivals),
            changes,
        }
    }

    /// The note when a latch is made where one was before.
    pub(super) fn of_next_latch(&self, change: ChangeId) -> Self {
        Self {
            arrived: 0,
            ..self.next(change, 0)
        }
    }

    /// The note when the latch is deleted.
    pub(super) fn of_deleted(self) -> Self {
        Self {
            deleted: true,
            arrived: 0,
            ..self
        }
    }

    /// Whether this change was made; none if it may have been before what is remembered here.
    ///
    /// `base` is the note on which the change was planned; it is made directly on it or never.
    pub(super) fn has(&self, change: ChangeId, base: Option<&Self>) -> Option<bool> {
        if self.changes.contains(&change) {
            return Some(true);
        }
        let since = self.sequence.wrapping_sub(base?.sequence);
        match usize::try_from(since) {
            Ok(since) if since <= self.changes.len() => Some(false),
            _ => None,
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut value = BytesMut::with_capacity(13 + 8 * self.changes.len());
        value.put_u8(if self.deleted { OF_DELETED } else { OF_LATCH });
        value.put_u64(self.sequence);
        value.put_u32(self.arrived);
        for change in &self.changes {
            value.put_u64(change.0);
        }
        value.freeze()
    }

    /// None for what no version of this library writes.
    pub(super) fn decode(mut value: &[u8]) -> Option<Self> {
        let deleted = match value.try_get_u8().ok()? {
            OF_LATCH => false,
            OF_DELETED => true,
            _ => return None,
        };
        let sequence = value.try_get_u64().ok()?;
        let arrived = value.try_get_u32().ok()?;
        if value.len() > 8 * REMEMBERED || !value.len().is_multiple_of(8) {
            return None;
        }
        let mut changes = Vec::with_capacity(value.len() / 8);
        while let Ok(change) = value.try_get_u64() {
            changes.push(ChangeId(change));
        }
        Some(Self {
            deleted,
            sequence,
            arrived,
            changes,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_note_tells_whether_a_change_was_made_as_long_as_it_remembers() {
        let mine = ChangeId::unique();
        let base = Note::first(ChangeId::unique());
        assert_eq!(base.has(mine, Some(&base)), Some(false));
        let mut with = base.next(mine, 0);
        let mut without = base.next(ChangeId::unique(), 1);
        for others in 1..REMEMBERED {
            assert_eq!(with.has(mine, Some(&base)), Some(true), "{others}");
            assert_eq!(without.has(mine, Some(&base)), Some(false), "{others}");
            with = with.next(ChangeId::unique(), 0);
            without = without.next(ChangeId::unique(), 1);
        }
        assert_eq!(with.has(mine, Some(&base)), Some(true));
        let forgotten = with.next(ChangeId::unique(), 0);
        assert_eq!(forgotten.has(mine, Some(&base)), None);
        assert_eq!(without.arrived, 16);
        // Made anew: nothing is known of what was planned on the one before, or on none.
        assert_eq!(Note::first(ChangeId::unique()).has(mine, Some(&base)), None);
        assert_eq!(base.has(mine, None), None);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(deleted: bool, sequence: u64, arrived: u32, changes in prop::collection::vec(any::<u64>(), 0..=REMEMBERED)) {
            let note = Note { deleted, sequence, arrived, changes: changes.into_iter().map(ChangeId).collect() };
            prop_assert_eq!(Note::decode(&note.encode()), Some(note));
        }

        #[test]
        fn no_value_is_too_odd(value: Vec<u8>) {
            if let Some(note) = Note::decode(&value) {
                prop_assert_eq!(&note.encode()[..], &value[..]);
            }
        }
    }
}
