//! The value of the note: the state of a latch beyond its counts.
//!
//! Each change of this library rewrites the note, on the condition that it is as it was read. So of
//! all changes planned on the same note, only one is applied, however often each is sent; and for a
//! while a read shows which changes were applied.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hbase_client::Environment;

use super::{
    pending::{Pending, Resolution},
    state::LatchState,
};
use crate::random;

/// The form of the value: of a latch that exists or existed, and of one that was deleted.
const OF_LATCH: u8 = 1;
const OF_DELETED: u8 = 2;
/// How the value encodes the end of the latch, and whether it has a pending count.
const ENDS_AT: u8 = 1;
const ENDS_IN: u8 = 2;
const PENDING: u8 = 4;
/// Whether the value has the number of the latch, and the ends of those before it.
const NUMBERED: u8 = 8;
/// How many ends of earlier latches are remembered.
const ENDS_REMEMBERED: u64 = 32;
/// How many changes are remembered.
pub(super) const REMEMBERED: usize = 16;

/// The id of one change of a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangeId(u64);

/// A change that is about to be planned: its id, and the environment that draws the first sequence
/// number of a note that it creates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewChange<'a> {
    pub(crate) id: ChangeId,
    pub(super) environment: &'a dyn Environment,
}

impl<'a> NewChange<'a> {
    pub(crate) fn new(environment: &'a dyn Environment) -> Self {
        Self {
            id: ChangeId::unique(environment),
            environment,
        }
    }
}

impl ChangeId {
    /// Replaces a change whose outcome is unknown.
    const DOUBTFUL: Self = Self(0);
    /// Replaces a change that was not applied.
    const VOID: Self = Self(1);

    pub(crate) fn unique(environment: &dyn Environment) -> Self {
        Self(random::bits_64(environment).max(2))
    }
}

/// The end of a latch, as its note records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// The latch never ends, or its end was unknown.
    Unknown,
    At(u64),
    /// This long after the note's own timestamp.
    In(u64),
}

impl From<Option<u64>> for Ends {
    fn from(expires: Option<u64>) -> Self {
        expires.map_or(Self::Unknown, Self::At)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Whether there is no latch: it was deleted, or is about to be created. With this note, a
    /// delayed copy of an earlier change never finds a row without a note.
    pub(super) deleted: bool,
    /// Counts the changes. It starts at a random number, so that a latch that was deleted and
    /// created again has no number of the earlier one.
    pub(super) sequence: u64,
    /// The number of the latch, or of the next one if there is none. It tells the latches of one name
    /// apart, and starts at a random number as the sequence does.
    pub(super) latch: u64,
    /// How the latches before it ended: two bits for each, those of the last one lowest.
    ended: u64,
    /// The number of participants that have arrived.
    pub(super) arrived: u32,
    /// When the latch ends. Its cells have the same end, but a gateway does not return it.
    pub(super) ends: Ends,
    /// The count that the last change has still to write, or has written since.
    pub(super) pending: Option<Pending>,
    /// The last changes, the newest last.
    changes: Vec<ChangeId>,
}

impl Note {
    /// Returns the first note of a latch, by this change.
    pub(super) fn first(change: NewChange<'_>) -> Self {
        Self {
            deleted: false,
            changes: vec![change.id],
            ..Self::of_nothing(change.environment)
        }
    }

    /// Returns the note of a row for which nothing was ever noted.
    pub(super) fn of_nothing(environment: &dyn Environment) -> Self {
        let sequence = random::bits_64(environment);
        Self {
            deleted: true,
            sequence,
            latch: sequence,
            ended: 0,
            arrived: 0,
            ends: Ends::Unknown,
            pending: None,
            changes: Vec::new(),
        }
    }

    /// Returns the note after another change.
    pub(super) fn next(&self, change: ChangeId, arrivals: u32) -> Self {
        let forgotten = (self.changes.len() + 1).saturating_sub(REMEMBERED);
        let mut changes = self.changes[forgotten..].to_vec();
        changes.push(change);
        Self {
            deleted: false,
            sequence: self.sequence.wrapping_add(1),
            latch: self.latch,
            ended: self.ended,
            arrived: self.arrived.saturating_add(arrivals),
            ends: self.ends,
            pending: None,
            changes,
        }
    }

    /// Returns the note of a latch that is created after an earlier one.
    pub(super) fn of_next_latch(&self, change: ChangeId) -> Self {
        Self {
            arrived: 0,
            ..self.next(change, 0)
        }
    }

    /// Returns the note after the latch has ended in this state: it was deleted, or has expired.
    pub(super) fn ended_in(self, state: LatchState) -> Self {
        let end = match state {
            LatchState::Absent => return self,
            LatchState::Open => 0,
            LatchState::Reached => 1,
            LatchState::Expired => 2,
        };
        Self {
            latch: self.latch.wrapping_add(1),
            ended: self.ended << 2 | end,
            ..self
        }
    }

    /// Returns how the latch of this number ended, which is absent if it was deleted before it was
    /// reached, or too many others have ended since. `None` if no other latch has followed.
    pub(super) fn end_of(&self, latch: u64) -> Option<LatchState> {
        let since = self.latch.wrapping_sub(latch).checked_sub(1)?;
        let end = if since < ENDS_REMEMBERED {
            self.ended >> (2 * since) & 3
        } else {
            0
        };
        Some(match end {
            1 => LatchState::Reached,
            2 => LatchState::Expired,
            _ => LatchState::Absent,
        })
    }

    /// Returns the note of the deleted latch.
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

    /// Returns the note of a change that is to write this count.
    #[cfg(feature = "thrift")]
    pub(super) fn with_pending(self, pending: Pending) -> Self {
        Self {
            pending: Some(pending),
            ..self
        }
    }

    /// Returns a note that is one change earlier.
    #[cfg(feature = "thrift")]
    pub(super) fn base(&self) -> Self {
        Self {
            sequence: self.sequence.wrapping_sub(1),
            ..self.clone()
        }
    }

    /// Returns whether this note may follow from the earlier one, after any number of changes:
    /// unrelated notes start at random numbers.
    #[cfg(feature = "thrift")]
    pub(super) fn follows(&self, earlier: &Self) -> bool {
        self.sequence.wrapping_sub(earlier.sequence) < u64::from(u32::MAX)
    }

    /// Returns the note after the pending count was written.
    pub(super) fn settled(self) -> Self {
        Self {
            deleted: false,
            pending: None,
            ..self
        }
    }

    /// Returns the note as read: `noted` is its timestamp, `resolution` the outcome of its pending
    /// count.
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

    /// Returns whether this change was applied. `None` if it may be older than the remembered
    /// changes, or its outcome is unknown.
    ///
    /// `base` is the note on which the change was planned. The change is applied directly on it or
    /// never.
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
        let mut value = BytesMut::with_capacity(38 + 8 * self.changes.len());
        value.put_u8(if self.deleted { OF_DELETED } else { OF_LATCH });
        value.put_u64(self.sequence);
        value.put_u32(self.arrived);
        let (how, ends) = match self.ends {
            Ends::Unknown => (0, 0),
            Ends::At(ends) => (ENDS_AT, ends),
            Ends::In(life) => (ENDS_IN, life),
        };
        let pending = if self.pending.is_some() { PENDING } else { 0 };
        // A note of a release that numbers no latches.
        let is_numbered = (self.latch, self.ended) != (0, 0);
        value.put_u8(how | pending | if is_numbered { NUMBERED } else { 0 });
        value.put_u64(ends);
        if is_numbered {
            value.put_u64(self.latch);
            value.put_u64(self.ended);
        }
        if let Some(pending) = &self.pending {
            pending.encode(&mut value);
        }
        for change in &self.changes {
            value.put_u64(change.0);
        }
        value.freeze()
    }

    /// Returns `None` for a value that no version of this library writes.
    pub(super) fn decode(mut value: &[u8]) -> Option<Self> {
        let deleted = match value.try_get_u8().ok()? {
            OF_LATCH => false,
            OF_DELETED => true,
            _ => return None,
        };
        let sequence = value.try_get_u64().ok()?;
        let arrived = value.try_get_u32().ok()?;
        let form = value.try_get_u8().ok()?;
        let ends = match (form & !(PENDING | NUMBERED), value.try_get_u64().ok()?) {
            (0, 0) => Ends::Unknown,
            (ENDS_AT, ends) => Ends::At(ends),
            (ENDS_IN, life) => Ends::In(life),
            _ => return None,
        };
        let (latch, ended) = match form & NUMBERED {
            0 => (0, 0),
            _ => (value.try_get_u64().ok()?, value.try_get_u64().ok()?),
        };
        if form & NUMBERED != 0 && (latch, ended) == (0, 0) {
            return None;
        }
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
            latch,
            ended,
            arrived,
            ends,
            pending,
            changes,
        })
    }
}

/// Returns a change with the random numbers of the system.
#[cfg(test)]
pub(super) fn new_change() -> NewChange<'static> {
    NewChange::new(&hbase_client::SystemEnvironment)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn note_resolves_a_change_while_it_remembers_it() {
        let mine = new_change().id;
        let base = Note::first(new_change());
        assert_eq!(base.has(mine, Some(&base)), Some(false));
        let mut with = base.next(mine, 0);
        let mut without = base.next(new_change().id, 1);
        for others in 1..REMEMBERED {
            assert_eq!(with.has(mine, Some(&base)), Some(true), "{others}");
            assert_eq!(without.has(mine, Some(&base)), Some(false), "{others}");
            with = with.next(new_change().id, 0);
            without = without.next(new_change().id, 1);
        }
        assert_eq!(with.has(mine, Some(&base)), Some(true));
        let forgotten = with.next(new_change().id, 0);
        assert_eq!(forgotten.has(mine, Some(&base)), None);
        assert_eq!(without.arrived, 16);
        // Created again: changes that were planned on the earlier note, or on none, are unknown.
        assert_eq!(Note::first(new_change()).has(mine, Some(&base)), None);
        assert_eq!(base.has(mine, None), None);
    }

    #[test]
    fn of_a_change_that_nobody_is_sure_of_nothing_is_told() {
        let base = Note::first(new_change());
        let mine = new_change().id;
        for (resolution, counted) in [
            (Resolution::Waiting, Some(true)),
            (Resolution::Landed, Some(true)),
            (Resolution::Void, Some(false)),
            (Resolution::Doubtful, None),
        ] {
            let seen = base.next(mine, 0).read(7, Some(resolution));
            assert_eq!(seen.has(mine, Some(&base)), counted, "{resolution:?}");
            let later = seen.next(new_change().id, 0);
            assert_eq!(later.has(mine, Some(&base)), counted, "{resolution:?}");
            // A change that was planned on this note has a known outcome.
            assert_eq!(later.has(new_change().id, Some(&seen)), Some(false));
        }
        assert_eq!(base.ending(Ends::In(5)).read(7, None).ends, Ends::At(12));
    }

    #[test]
    fn note_remembers_how_the_latches_before_it_ended() {
        let first = Note::first(new_change());
        let known = first.latch;
        assert_eq!(first.end_of(known), None);
        let mut note = first
            .ended_in(LatchState::Reached)
            .ended_in(LatchState::Absent)
            .ended_in(LatchState::Open)
            .ended_in(LatchState::Expired)
            .next(new_change().id, 0);
        let ends = [LatchState::Reached, LatchState::Absent, LatchState::Expired];
        for (number, end) in (known..).zip(ends) {
            assert_eq!(note.end_of(number), Some(end));
        }
        assert_eq!(note.end_of(known + 3), None, "the latch is there");
        for _ in 0..ENDS_REMEMBERED {
            note = note.ended_in(LatchState::Reached);
        }
        assert_eq!(note.end_of(known + 3), Some(LatchState::Reached));
        assert_eq!(note.end_of(known), Some(LatchState::Absent), "it is forgotten");
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
        fn encoded_notes_decode(deleted: bool, sequence: u64, latch: u64, ended: u64, arrived: u32, ends in ends(), pending in prop::option::of(pending()), changes in prop::collection::vec(any::<u64>(), 0..=REMEMBERED)) {
            let note = Note { deleted, sequence, latch, ended, arrived, ends, pending, changes: changes.into_iter().map(ChangeId).collect() };
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
