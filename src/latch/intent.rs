//! Plans for a client that can write one cell conditionally, and other cells only unconditionally:
//! through a Thrift gateway. No I/O.
//!
//! The condition is that the note is as it was read. The new note specifies the count to be
//! written, and so locks the latch for all clients that read notes. The count is then put at a
//! timestamp that no other cell has. A native client does both in one call.

use std::time::Duration;

use bytes::Bytes;
use hbase_client::{Environment, low_level::timestamp_after};

use super::{
    layout::Cells,
    note::{ChangeId, Ends, NewChange, Note},
    observation::{Count, LatchObservation},
    optimistic::Verdict,
    pending::{Pending, Resolution},
    plan::{self, KNOWN_AFTER, LatchOperation, Tally},
    state::LatchState,
};
use crate::{
    error::{Error, ErrorKind, Result},
    java_layout::Level,
};

/// A note that replaces the one that was read.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    /// The value that it replaces. `None` if there is no note.
    pub(crate) expected: Option<Bytes>,
    pub(crate) value: Bytes,
    pub(crate) ttl: Duration,
    /// The remaining count after the change.
    pub(crate) left: u64,
    /// When the latch ends. `None` if the latch is created or deleted.
    pub(crate) ends: Option<u64>,
    note: Note,
    change: ChangeId,
    /// The timestamp of the note that it replaces.
    planned_on: Option<u64>,
}

/// Plans a change of the counts.
///
/// # Errors
///
/// Returns an error if the observed state does not allow the operation.
pub(crate) fn intend(
    cells: &Cells,
    operation: &LatchOperation,
    change: NewChange<'_>,
    observation: &LatchObservation,
) -> Result<Intent> {
    check_leftover(cells, observation)?;
    let state = observation.state(cells.level)?;
    let own = observation.own(cells);
    let Some(deadline) = observation.deadline(cells.level) else {
        return match *operation {
            LatchOperation::Init { count, ttl } => {
                Ok(Intent::to_begin(cells, (count, ttl), state, change, observation))
            }
            _ => Err(plan::gone(state)),
        };
    };
    let Tally { value, left } = plan::tally(cells, operation, state, observation)?;
    let (Some((note, seen)), Some(ends)) = (&observation.note, deadline.expires) else {
        return Err(end_not_known());
    };
    // The pending count cannot be written any more: the latch ended before that.
    let (base, at) = match own {
        _ if observation.resolution() == Some(Resolution::Waiting) => {
            return Err(plan::gone(LatchState::Expired));
        }
        Some(own) => (Some(own.seen.timestamp), timestamp_after(own.seen.timestamp)?),
        None => (None, deadline.timestamp),
    };
    let ttl = match ends.checked_sub(at) {
        None => return Err(end_not_known()),
        Some(0) => return Err(plan::gone(LatchState::Expired)),
        Some(ttl) => ttl,
    };
    let pending = Pending {
        column: cells.own.clone(),
        base,
        at: Some(at),
        value,
        ttl,
    };
    let next = note
        .next(change.id, 0)
        .ending(Ends::At(ends))
        .with_pending(pending);
    let rest = Duration::from_millis(ends.saturating_sub(seen.timestamp));
    Ok(Intent {
        expected: Some(seen.value.clone()),
        value: next.encode(),
        ttl: rest + KNOWN_AFTER,
        left,
        ends: Some(ends),
        planned_on: Some(seen.timestamp),
        note: next,
        change: change.id,
    })
}

/// Returns the note of a deleted latch. `None` if the note says so already, or if there is nothing
/// to delete.
pub(crate) fn intend_to_delete(
    cells: &Cells,
    change: NewChange<'_>,
    observation: &LatchObservation,
) -> Option<Intent> {
    // A row that can't be read as a latch was not reached.
    let state = observation.state(cells.level).unwrap_or(LatchState::Open);
    let (note, rest) = match &observation.note {
        Some((note, _)) if note.deleted => return None,
        Some((note, seen)) => {
            let ends = match note.ends {
                Ends::At(ends) => ends,
                Ends::In(_) | Ends::Unknown => seen.timestamp,
            };
            let note = note.clone().ended_in(state).next(change.id, 0);
            (note, ends.saturating_sub(seen.timestamp))
        }
        None if observation.counts.is_empty() => return None,
        None => (Note::first(change), 0),
    };
    let note = note.of_deleted();
    Some(Intent {
        expected: expected(observation),
        value: note.encode(),
        ttl: Duration::from_millis(rest) + KNOWN_AFTER,
        left: 0,
        ends: None,
        planned_on: None,
        note,
        change: change.id,
    })
}

/// Returns the note of a latch whose first count is written, which records that the latch existed.
/// `None` if another client has noted it.
pub(crate) fn begun(environment: &dyn Environment, observation: &LatchObservation) -> Option<Intent> {
    let (note, seen) = observation.note.as_ref()?;
    let pending = note.pending.as_ref()?;
    let is_begun = pending.at.is_none() && observation.resolution() == Some(Resolution::Landed);
    let note = is_begun.then(|| note.clone().settled())?;
    Some(Intent {
        expected: Some(seen.value.clone()),
        value: note.encode(),
        ttl: Duration::from_millis(pending.ttl) + KNOWN_AFTER,
        left: 0,
        ends: None,
        planned_on: None,
        change: ChangeId::unique(environment),
        note,
    })
}

impl Intent {
    fn to_begin(
        cells: &Cells,
        (count, ttl): (i64, Duration),
        state: LatchState,
        change: NewChange<'_>,
        observation: &LatchObservation,
    ) -> Self {
        let note = match &observation.note {
            // If it was written and is not visible, a delete marker of the same timestamp hides it
            // without limit.
            Some((note, seen)) if observation.waiting().is_some() => note
                .clone()
                .read(seen.timestamp, Some(Resolution::Void))
                .of_next_latch(change.id),
            Some((note, _)) => note.clone().ended_in(state).of_next_latch(change.id),
            None => Note::first(change),
        };
        let life = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let pending = Pending {
            column: cells.own.clone(),
            base: observation.own(cells).map(|leftover| leftover.seen.timestamp),
            at: None,
            value: count,
            ttl: life,
        };
        // The latch does not exist until its count is written.
        let note = note.ending(Ends::In(life)).with_pending(pending).of_deleted();
        Self {
            expected: expected(observation),
            value: note.encode(),
            ttl: ttl + KNOWN_AFTER,
            left: count.unsigned_abs(),
            ends: None,
            planned_on: None,
            note,
            change: change.id,
        }
    }

    /// Returns the number of the latch after the change.
    pub(crate) fn latch(&self) -> u64 {
        self.note.latch
    }

    /// Judges the change by what was read after its note was sent. Copies of it may be in flight.
    pub(crate) fn judge(&self, seen: &LatchObservation) -> Verdict {
        let Some((note, there)) = &seen.note else {
            return match self.expected {
                None => Verdict::Open,
                Some(_) => Verdict::Unknown,
            };
        };
        if Some(&there.value) == self.expected.as_ref() {
            return Verdict::Open;
        }
        if there.value == self.value {
            return match seen.resolution() {
                None | Some(Resolution::Landed) => Verdict::Applied,
                Some(Resolution::Waiting) => Verdict::Noted,
                Some(Resolution::Void) => Verdict::NotApplied,
                Some(Resolution::Doubtful) if self.came_too_late(seen) => Verdict::NotApplied,
                Some(Resolution::Doubtful) => Verdict::Unknown,
            };
        }
        match note.has(self.change, Some(&self.note.base())) {
            Some(true) => Verdict::Applied,
            Some(false) => Verdict::NotApplied,
            // Notes that other clients started are unrelated to this change.
            None if self.expected.is_none() && !note.follows(&self.note) => Verdict::NotApplied,
            None => Verdict::Unknown,
        }
    }

    /// Returns whether the existing count was written before this change was noted, by the server's
    /// clock. The noted count then lies under it, whenever it is written. A note that is not later
    /// than the one before it does not show the time.
    fn came_too_late(&self, seen: &LatchObservation) -> bool {
        let (Some(pending), Some((_, note))) = (seen.pending(), &seen.note) else {
            return false;
        };
        let count = seen.counts.iter().find(|count| count.qualifier == pending.column);
        self.planned_on < Some(note.timestamp)
            && pending.at.is_some()
            && count.is_some_and(|count| count.seen.timestamp < note.timestamp)
    }
}

impl LatchObservation {
    /// Sets the ends of the counts from the note, because a gateway does not return when a cell
    /// expires. A count that the note does not cover has no end.
    pub(crate) fn with_noted_ends(mut self) -> Self {
        let ends = match &self.note {
            Some((note, _)) if !note.deleted => note.ends,
            _ => Ends::Unknown,
        };
        if let Ends::At(ends) = ends {
            for count in &mut self.counts {
                // A later count belongs to another latch, or to none.
                count.seen.expires = Some(ends).filter(|ends| count.seen.timestamp < *ends);
            }
        }
        self
    }

    /// Returns the count that the last change noted.
    pub(crate) fn pending(&self) -> Option<&Pending> {
        self.note.as_ref()?.0.pending.as_ref()
    }

    /// Returns the noted count if it is still to be written.
    pub(crate) fn waiting(&self) -> Option<&Pending> {
        self.pending()
            .filter(|_| self.resolution() == Some(Resolution::Waiting))
    }
}

/// Refuses a negative count of one farm that cannot be told apart from what a Java client left that
/// counted down too late.
pub(crate) fn check_leftover(cells: &Cells, observation: &LatchObservation) -> Result<()> {
    let is_leftover = |count: &Count| match &observation.note {
        Some((note, _)) => {
            note.deleted || matches!(note.ends, Ends::At(ends) if ends <= count.seen.timestamp)
        }
        None => false,
    };
    match observation.own(cells) {
        Some(own) if cells.level == Level::Dc && own.is_leftover() && !is_leftover(own) => Err(Error::new(
            ErrorKind::LatchCorrupt,
            format!(
                "the count is {}, and a gateway does not show whether it belongs to a latch or was left over by one",
                own.value
            ),
        )
        .with_hint("a Java client has counted too far down, or too late: delete the latch, or use a native client")),
        _ => Ok(()),
    }
}

fn end_not_known() -> Error {
    Error::new(
        ErrorKind::LatchCorrupt,
        "the end of the latch is unknown: a gateway does not show it",
    )
    .with_hint(
        "a Java client created the latch, or extended its lifetime: count natively, or once natively and then through a gateway",
    )
}

fn expected(observation: &LatchObservation) -> Option<Bytes> {
    observation.note.as_ref().map(|(_, seen)| seen.value.clone())
}

#[cfg(test)]
mod tests {
    use hbase_client::SystemEnvironment;

    use super::*;
    use crate::latch::note::new_change;
    use crate::{error::ClientErrorKind, latch::observation::ObservedCell};
    use hbase_client::low_level::LATEST_TIMESTAMP;

    const BEGAN: u64 = 1_000;
    const ENDS: u64 = 61_000;
    const NOTED: u64 = 5_000;

    fn cells() -> Cells {
        Cells::new("r".into(), Level::Dc, "fra", true)
    }

    fn seen(value: Bytes, timestamp: u64) -> ObservedCell {
        ObservedCell {
            value,
            timestamp,
            expires: None,
        }
    }

    /// Returns what a gateway shows of one count and of a note.
    fn observation(count: Option<(u64, i64)>, note: Option<(u64, &Note)>) -> LatchObservation {
        let mut observation = LatchObservation {
            counts: count
                .map(|(timestamp, value)| Count {
                    qualifier: "count_fra".into(),
                    seen: seen(plan::encode(value), timestamp),
                    value,
                })
                .into_iter()
                .collect(),
            note: note.map(|(timestamp, note)| (note.clone(), seen(note.encode(), timestamp))),
            arrived: Vec::new(),
            visible_from: 0,
        };
        let resolution = observation.resolution();
        observation.note = observation
            .note
            .map(|(note, seen)| (note.read(seen.timestamp, resolution), seen));
        observation.with_noted_ends()
    }

    fn live() -> Note {
        Note::first(new_change()).ending(Ends::At(ENDS))
    }

    #[test]
    fn count_is_planned_without_other_changes_and_keeps_the_end() {
        let note = live();
        let base = observation(Some((BEGAN, 3)), Some((BEGAN, &note)));
        let intent = intend(&cells(), &LatchOperation::CountDown(1), new_change(), &base).unwrap();
        let pending = intent.note.pending.clone().unwrap();
        assert_eq!((pending.base, pending.at), (Some(BEGAN), Some(BEGAN + 1)));
        assert_eq!((pending.value, intent.left), (2, 2));
        assert_eq!(BEGAN + 1 + pending.ttl, ENDS);
        assert_eq!(intent.expected, Some(note.encode()));
        assert_eq!(Note::decode(&intent.value), Some(intent.note));
    }

    #[test]
    fn count_at_the_end_of_time_is_not_counted_over() {
        let note = Note::first(new_change()).ending(Ends::At(u64::MAX));
        let counted = |timestamp| {
            let late = observation(Some((timestamp, 3)), Some((BEGAN, &note)));
            intend(&cells(), &LatchOperation::CountDown(1), new_change(), &late).unwrap_err()
        };
        for timestamp in [LATEST_TIMESTAMP - 1, u64::MAX - 1] {
            assert_eq!(counted(timestamp).kind(), ClientErrorKind::InvalidInput);
        }
        // It would expire at its own timestamp.
        assert_eq!(counted(u64::MAX).kind(), ErrorKind::LatchCorrupt);
    }

    #[test]
    fn a_change_is_judged_by_its_note_and_by_its_count() {
        let note = live();
        let base = observation(Some((BEGAN, 3)), Some((BEGAN, &note)));
        let intent = intend(&cells(), &LatchOperation::CountDown(1), new_change(), &base).unwrap();
        let mine = &intent.note;
        let judged = |count, note: &Note| intent.judge(&observation(count, Some((NOTED, note))));
        assert_eq!(intent.judge(&base), Verdict::Open);
        assert_eq!(judged(Some((BEGAN, 3)), mine), Verdict::Noted);
        assert_eq!(judged(Some((BEGAN + 1, 2)), mine), Verdict::Applied);
        // Java clients counted before the change was noted, or after it.
        assert_eq!(judged(Some((NOTED - 1, 2)), mine), Verdict::NotApplied);
        assert_eq!(judged(Some((NOTED + 1, 2)), mine), Verdict::Unknown);
        assert_eq!(judged(None, mine), Verdict::Unknown);
        // Too early to tell the count apart from a Java client's.
        let early = observation(Some((BEGAN, 3)), Some((BEGAN + 1, mine)));
        assert_eq!(intent.judge(&early), Verdict::NotApplied);
        // Other clients made further changes.
        let other = note.next(new_change().id, 0);
        assert_eq!(judged(Some((BEGAN, 2)), &other), Verdict::NotApplied);
        let after = mine.clone().settled().next(new_change().id, 0);
        assert_eq!(judged(Some((BEGAN + 2, 1)), &after), Verdict::Applied);
        let in_doubt = mine.clone().read(NOTED, Some(Resolution::Doubtful));
        let after = in_doubt.next(new_change().id, 0);
        assert_eq!(judged(Some((BEGAN + 2, 1)), &after), Verdict::Unknown);
    }

    #[test]
    fn a_beginning_is_told_from_that_of_somebody_else() {
        let operation = LatchOperation::Init {
            count: 4,
            ttl: Duration::from_secs(60),
        };
        let nothing = observation(None, None);
        let intent = intend(&cells(), &operation, new_change(), &nothing).unwrap();
        let judged = |count, note: &Note| intent.judge(&observation(count, Some((NOTED, note))));
        assert_eq!(intent.judge(&nothing), Verdict::Open);
        assert_eq!(judged(None, &intent.note), Verdict::Noted);
        assert_eq!(judged(Some((NOTED, 4)), &intent.note), Verdict::Applied);
        let theirs = Note::first(new_change());
        assert_eq!(judged(Some((NOTED, 4)), &theirs), Verdict::NotApplied);
        // Until its count is written, the latch does not exist; then its existence is noted.
        let waiting = observation(None, Some((NOTED, &intent.note)));
        assert_eq!(waiting.state(Level::Dc).unwrap(), LatchState::Absent);
        assert!(begun(&SystemEnvironment, &waiting).is_none());
        let there = observation(Some((NOTED, 4)), Some((NOTED, &intent.note)));
        let noted = begun(&SystemEnvironment, &there).unwrap();
        let after = observation(None, Some((NOTED, &noted.note)));
        assert_eq!(after.state(Level::Dc).unwrap(), LatchState::Expired);
        assert_eq!(there.counts[0].seen.expires, Some(NOTED + 60_000));
        // If another latch was begun over it, it is unknown whether it existed in between.
        let next = intend(&cells(), &operation, new_change(), &waiting).unwrap();
        assert_eq!(judged(Some((NOTED + 9, 4)), &next.note), Verdict::Unknown);
    }

    #[test]
    fn count_needs_a_noted_end_and_never_falls_below_zero() {
        let refused = |operation: &LatchOperation, observation: &LatchObservation| {
            intend(&cells(), operation, new_change(), observation)
                .unwrap_err()
                .kind()
        };
        let down = LatchOperation::CountDown(1);
        let note = live();
        for unknown in [
            observation(Some((BEGAN, 3)), None),
            observation(Some((ENDS, 3)), Some((BEGAN, &note))),
            observation(Some((BEGAN, -1)), None),
        ] {
            assert_eq!(refused(&down, &unknown), ErrorKind::LatchCorrupt);
        }
        let left_over = observation(Some((ENDS, -1)), Some((BEGAN, &note)));
        assert_eq!(refused(&down, &left_over), ErrorKind::LatchExpired);
        let reached = observation(Some((BEGAN, -1)), Some((BEGAN, &note)));
        assert_eq!(refused(&down, &reached), ClientErrorKind::LimitExceeded);
    }
}
