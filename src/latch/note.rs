//! The value of the note: the state of a latch beside its counts.
//!
//! Each change of ours rewrites it, under the condition that it is as it was seen. So of all
//! changes that were planned on one sight only one is made, however often each is sent; and for a
//! while it can be told which ones were.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::pending::{Pending, Resolution};
use crate::random;

/// The form of the value, of a latch that is or was, and of one that was deleted.
const OF_LATCH: u8 = 1;
const OF_DELETED: u8 = 2;
/// How it says when the latch ends; and, beside that, that there is a count to be written.
const ENDS_AT: u8 = 1;
const ENDS_IN: u8 = 2;
const PENDING: u8 = 4;
/// How many changes are remembered.
pub(super) const REMEMBERED: usize = 16;

/// Identifies one change of a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangeId(u64);

impl ChangeId {
    /// In place of a change whose outcome is unknown.
    const DOUBTFUL: Self = Self(0);
    /// In place of one that was not made.
    const VOID: Self = Self(1);

    pub(crate) fn unique() -> Self {
        Self(random::bits_64().max(2))
    }
}

/// When a latch ends, as its note has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// It never does, or that was unknown.
    Unknown,
    At(u64),
    /// So long after the note's own timestamp.
    In(u64),
}

impl From<Option<u64>> for Ends {
    fn from(expires: Option<u64>) -> Self {
        expires.map_or(Self::Unknown, Self::At)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// That there is no latch: it was deleted, or is about to be made. Copies of what was planned
    /// before then find no latch without a note.
    pub(super) deleted: bool,
    /// Counts the changes. It begins by chance, so that a latch that was deleted and made again has
    /// no number of before.
    pub(super) sequence: u64,
    /// How many participants have arrived.
    pub(super) arrived: u32,
    /// When the latch ends. Its cells say it too, but not to everybody: a gateway leaves it out.
    pub(super) ends: Ends,
    /// What the last change has still to write, or has written since.
    pub(super) pending: Option<Pending>,
    /// The last changes, the newest last.
    changes: Vec<ChangeId>,
}

impl Note {
    /// That of a latch of which nothing was noted.
    pub(super) fn first(change: ChangeId) -> Self {
        Self {
            deleted: false,
            changes: vec![change],
            ..Self::of_nothing()
        }
    }

    /// That nothing was ever noted of the row, from now on.
    pub(super) fn of_nothing() -> Self {
        Self {
            deleted: true,
            sequence: random::bits_64(),
            arrived: 0,
            ends: Ends::Unknown,
            pending: None,
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
            ends: self.ends,
            pending: None,
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

    pub(super) fn ending(self, ends: Ends) -> Self {
        Self { ends, ..self }
    }

    /// The note of a change that is to write this.
    #[cfg(feature = "thrift")]
    pub(super) fn with_pending(self, pending: Pending) -> Self {
        Self {
            pending: Some(pending),
            ..self
        }
    }

    /// One that is a change earlier.
    #[cfg(feature = "thrift")]
    pub(super) fn base(&self) -> Self {
        Self {
            sequence: self.sequence.wrapping_sub(1),
            ..self.clone()
        }
    }

    /// Whether this note may have come of that one, however many changes later: others begin by
    /// chance.
    #[cfg(feature = "thrift")]
    pub(super) fn follows(&self, earlier: &Self) -> bool {
        self.sequence.wrapping_sub(earlier.sequence) < u64::from(u32::MAX)
    }

    /// The note when what was to be written is there.
    pub(super) fn settled(self) -> Self {
        Self {
            deleted: false,
            pending: None,
            ..self
        }
    }

    /// What a note says that was written at that time, when this became of what it had to write.
    pub(super) fn read(mut self, noted: u64, resolution: Option<Resolution>) -> Self {
        if let Ends::In(life) = self.ends {
            self.ends = Ends::At(noted.saturating_add(life));
        }
        let last = self.changes.last_mut();
        match (resolution, last) {
            (Some(Resolution::Landed), _) => self.deleted = false,
            (Some(Resolution::Void), Some(last)) => *last = ChangeId::VOID,
            (Some(Resolution::Doubtful), Some(last)) => *last = ChangeId::DOUBTFUL,
            _ => {}
        }
        self
    }

    /// Whether this change was made; none if it may have been before what is remembered here, or
    /// nobody knows.
    ///
    /// `base` is the note on which the change was planned; it is made directly on it or never.
    pub(super) fn has(&self, change: ChangeId, base: Option<&Self>) -> Option<bool> {
        if self.changes.contains(&change) {
            return Some(true);
        }
        let since = usize::try_from(self.sequence.wrapping_sub(base?.sequence)).ok()?;
        let before = self.changes.len().checked_sub(since)?;
        let is_sure = !self.changes[before..].contains(&ChangeId::DOUBTFUL);
        is_sure.then_some(false)
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut value = BytesMut::with_capacity(22 + 8 * self.changes.len());
        value.put_u8(if self.deleted { OF_DELETED } else { OF_LATCH });
        value.put_u64(self.sequence);
        value.put_u32(self.arrived);
        let (how, ends) = match self.ends {
            Ends::Unknown => (0, 0),
            Ends::At(ends) => (ENDS_AT, ends),
            Ends::In(life) => (ENDS_IN, life),
        };
        let pending = if self.pending.is_some() { PENDING } else { 0 };
        value.put_u8(how | pending);
        value.put_u64(ends);
        if let Some(pending) = &self.pending {
            pending.encode(&mut value);
        }
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
        let form = value.try_get_u8().ok()?;
        let ends = match (form & !PENDING, value.try_get_u64().ok()?) {
            (0, 0) => Ends::Unknown,
            (ENDS_AT, ends) => Ends::At(ends),
            (ENDS_IN, life) => Ends::In(life),
            _ => return None,
        };
        let pending = match form & PENDING {
            0 => None,
            _ => Some(Pending::decode(&mut value)?),
        };
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
            ends,
            pending,
            changes,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn note_resolves_a_change_while_it_remembers_it() {
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
        // Created again: nothing is known of what was planned on the one before, or on none.
        assert_eq!(Note::first(ChangeId::unique()).has(mine, Some(&base)), None);
        assert_eq!(base.has(mine, None), None);
    }

    #[test]
    fn of_a_change_that_nobody_is_sure_of_nothing_is_told() {
        let base = Note::first(ChangeId::unique());
        let mine = ChangeId::unique();
        for (resolution, told) in [
            (Resolution::Waiting, Some(true)),
            (Resolution::Landed, Some(true)),
            (Resolution::Void, Some(false)),
            (Resolution::Doubtful, None),
        ] {
            let seen = base.next(mine, 0).read(7, Some(resolution));
            assert_eq!(seen.has(mine, Some(&base)), told, "{resolution:?}");
            let later = seen.next(ChangeId::unique(), 0);
            assert_eq!(later.has(mine, Some(&base)), told, "{resolution:?}");
            // A change that was planned on it is known.
            assert_eq!(later.has(ChangeId::unique(), Some(&seen)), Some(false));
        }
        assert_eq!(base.ending(Ends::In(5)).read(7, None).ends, Ends::At(12));
    }

    fn ends() -> impl Strategy<Value = Ends> {
        prop_oneof![
            Just(Ends::Unknown),
            any::<u64>().prop_map(Ends::At),
            any::<u64>().prop_map(Ends::In)
        ]
    }

    fn pending() -> impl Strategy<Value = Pending> {
        let time = || prop::option::of(0..u64::MAX);
        let parts = ("[a-z_]{0,20}", time(), time(), any::<i64>(), any::<u64>());
        parts.prop_map(|(column, base, at, value, ttl)| Pending {
            column: column.into(),
            base,
            at,
            value,
            ttl,
        })
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(deleted: bool, sequence: u64, arrived: u32, ends in ends(), pending in prop::option::of(pending()), changes in prop::collection::vec(any::<u64>(), 0..=REMEMBERED)) {
            let note = Note { deleted, sequence, arrived, ends, pending, changes: changes.into_iter().map(ChangeId).collect() };
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
