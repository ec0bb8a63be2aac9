//! What to write, given what was read. No I/O.
//!
//! All cells that are written expire with the latch, to the millisecond: they are written at the
//! timestamp of a cell that was read, with its remaining life from there as their TTL. So no clock
//! is read, a change does not prolong the latch, no cell expires before the cells under it, and the
//! sum of several farms does not change because one of them expires earlier.
//!
//! Of two versions of a count, a flush keeps the newer one and drops what lies under the older one.
//! That includes the delete marker of an earlier latch, or of a Java client's leftover, whose cells
//! would become visible again when this latch ends. So a count is written at its existing
//! timestamp, or, where that is not possible, above its own delete marker.
//!
//! The condition of a change also names the timestamps of all counts. A Java client that counts up
//! and down again leaves the value unchanged, and its newer cell would hide the one written here.

use std::time::Duration;

use bytes::Bytes;
use hbase_client::{
    Delete, Mutation, Put,
    low_level::{condition, pb, timestamp_after},
};

use super::{
    layout::Cells,
    note::{ChangeId, Ends, NewChange, Note},
    observation::{Count, LatchObservation, ObservedCell, Participants},
    pending::Resolution,
    state::LatchState,
};
use crate::error::{ClientErrorKind, Error, ErrorKind, Result};

/// How long it is recorded that a latch has expired.
pub(crate) const KNOWN_AFTER: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The value of a participant's column.
pub(super) const ARRIVED: Bytes = Bytes::from_static(&[1]);
/// The maximum number of participants of one latch: the server reads all of them with each change.
pub(super) const MAX_PARTICIPANTS: u32 = 1_000;

/// An operation on a latch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LatchOperation {
    Init {
        count: i64,
        ttl: Duration,
    },
    CountUp(i64),
    CountDown(i64),
    /// Counts down by one for the participant of this column.
    Arrive(Bytes),
    /// Deletes the latch and its recorded state.
    Delete,
}

impl LatchOperation {
    /// Returns the participants that the operation must read.
    pub(super) fn participants(&self) -> Participants<'_> {
        match self {
            Self::Arrive(column) => Participants::One(column),
            Self::Delete => Participants::All,
            Self::Init { .. } | Self::CountUp(_) | Self::CountDown(_) => Participants::None,
        }
    }

    /// Returns the column of the arriving participant.
    fn arriving(&self) -> Option<&Bytes> {
        match self {
            Self::Arrive(column) => Some(column),
            _ => None,
        }
    }
}

/// A planned change of a row.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Applied in one call, in order. The last step is the change itself; the others prepare it.
    pub(super) steps: Vec<Step>,
    pub(super) change: ChangeId,
    pub(super) leaves: Leaves,
    /// The remaining count after the change.
    pub(super) left: u64,
    /// The number of the latch after the change. `None` without a note, or if it is deleted.
    pub(super) latch: Option<u64>,
    /// The note that the first step writes, on which the last step is conditional. `None` if the
    /// change is conditional on the observed row.
    pub(super) begun: Option<Note>,
}

/// What a read shows of this farm's count after a plan was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    Nothing,
    Count,
    /// A count with this timestamp or a later one.
    CountFrom(u64),
}

/// Mutations that are applied together on a condition, or not at all.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) mutations: Vec<Mutation>,
    pub(super) condition: pb::Condition,
}

/// Plans an operation. Returns `None` if nothing is to be done: the participant has already
/// arrived, or there is nothing to delete.
///
/// # Errors
///
/// Returns an error if the observed state does not allow the operation.
pub(super) fn plan(
    cells: &Cells,
    operation: &LatchOperation,
    change: NewChange<'_>,
    observation: &LatchObservation,
) -> Result<Option<Plan>> {
    if *operation == LatchOperation::Delete {
        return Ok(delete(cells, change, observation));
    }
    let state = observation.state(cells.level)?;
    let Some(deadline) = observation.deadline(cells.level) else {
        return match *operation {
            LatchOperation::Init { count, ttl } => {
                Ok(Some(init(cells, (count, ttl), state, change, observation)))
            }
            _ => Err(gone(state)),
        };
    };
    if operation.arriving().is_some() {
        if !observation.arrived.is_empty() {
            return Ok(None);
        }
        check_participants(observation)?;
    }
    let Tally { value, left } = tally(cells, operation, state, observation)?;
    let (written, mut mutations) = match observation.own(cells) {
        // All clients that write notes count at one timestamp.
        Some(own) if !own.is_leftover() && is_of_note(own, observation) => {
            (Written::over(own, own.seen.timestamp, deadline), Vec::new())
        }
        Some(own) => {
            let behind = timestamp_after(own.seen.timestamp)?;
            (Written::over(own, behind, deadline), vec![forget(cells, own)])
        }
        None => (
            Written::beside(deadline).from(observation.visible_from),
            Vec::new(),
        ),
    };
    mutations.push(written.put(
        cells,
        cells.counts.clone(),
        &cells.own,
        encode(value),
        Duration::ZERO,
    )?);
    let mut latch = None;
    if let Some(column) = &cells.note {
        let (note, mutation) = next_note(cells, column, observation, change, operation, written)?;
        latch = Some(note.latch);
        mutations.push(mutation);
        if let LatchOperation::Arrive(participant) = operation {
            let written = written.from(observation.visible_from);
            mutations.push(written.put(cells, cells.state.clone(), participant, ARRIVED, Duration::ZERO)?);
        }
    }
    Ok(Some(Plan {
        steps: vec![Step {
            mutations,
            condition: as_seen(cells, observation),
        }],
        change: change.id,
        leaves: Leaves::CountFrom(written.timestamp),
        left,
        latch,
        begun: None,
    }))
}

/// The result of a change of a live latch.
pub(super) struct Tally {
    /// The count of this farm.
    pub(super) value: i64,
    /// The remaining count.
    pub(super) left: u64,
}

/// # Errors
///
/// Returns an error if the change counts down more than is left, or exceeds the maximum of a count.
pub(super) fn tally(
    cells: &Cells,
    operation: &LatchOperation,
    state: LatchState,
    observation: &LatchObservation,
) -> Result<Tally> {
    let left = observation.left()?;
    let delta = match operation {
        LatchOperation::Init { .. } | LatchOperation::Delete => return Err(exists(state, left)),
        LatchOperation::Arrive(_) => -1,
        LatchOperation::CountUp(by) => *by,
        LatchOperation::CountDown(by) => -by,
    };
    let own = observation.own(cells).map_or(0, |count| count.value);
    match (left.checked_add_signed(delta), own.checked_add(delta)) {
        (None, _) => Err(too_far(delta.unsigned_abs(), left)),
        (Some(left), Some(value)) if i64::try_from(left).is_ok() => Ok(Tally { value, left }),
        _ => Err(Error::invalid("the count would exceed eight bytes")),
    }
}

/// Returns the step that must come first: it writes a noted count at its timestamp. `None` if no
/// count is waiting to be written.
pub(super) fn settle(cells: &Cells, observation: &LatchObservation) -> Option<Step> {
    let (note, seen) = observation.note.as_ref()?;
    let pending = note
        .pending
        .as_ref()
        .filter(|_| observation.resolution() == Some(Resolution::Waiting))?;
    let base = observation
        .counts
        .iter()
        .find(|count| count.qualifier == pending.column);
    let put = |family: &Bytes, column: &Bytes, timestamp, value, ttl| {
        Put::new(cells.row.clone())
            .cell_at(family.clone(), column.clone(), timestamp, value)
            .ttl(ttl)
            .into()
    };
    let forgotten = base.map(|base| forget(cells, base));
    let landed = put(
        &cells.counts,
        &pending.column,
        pending.timestamp(seen.timestamp),
        encode(pending.value),
        Duration::from_millis(pending.ttl),
    );
    let note = put(
        &cells.state,
        cells.note.as_ref()?,
        seen.timestamp,
        note.clone().settled().encode(),
        life(seen),
    );
    Some(Step {
        mutations: forgotten.into_iter().chain([landed, note]).collect(),
        condition: as_seen(cells, observation),
    })
}

/// Returns whether the count was last written together with the note, at one timestamp. A count
/// that was noted before it was written may be written at that timestamp again.
fn is_of_note(count: &Count, observation: &LatchObservation) -> bool {
    let note = observation.note.as_ref();
    note.is_some_and(|(note, seen)| note.pending.is_none() && seen.timestamp == count.seen.timestamp)
}

/// Returns the later of two ends; `None` is never.
fn later(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.zip(other).map(|(one, other)| one.max(other))
}

/// The timestamp and end of cells that are written to a live latch.
#[derive(Clone, Copy)]
struct Written {
    timestamp: u64,
    expires: Option<u64>,
}

impl Written {
    fn beside(seen: &ObservedCell) -> Self {
        Self {
            timestamp: seen.timestamp,
            expires: seen.expires,
        }
    }

    /// At this timestamp or later. The end stays.
    fn from(self, timestamp: u64) -> Self {
        Self {
            timestamp: self.timestamp.max(timestamp),
            ..self
        }
    }

    /// At or after the timestamp of an observed count.
    fn over(count: &Count, timestamp: u64, deadline: &ObservedCell) -> Self {
        let own = if count.is_leftover() {
            deadline.expires
        } else {
            count.seen.expires
        };
        Self {
            timestamp,
            // A Java client's change of another farm's count may have prolonged the latch since.
            expires: later(own, deadline.expires),
        }
    }

    /// Returns a put that expires at this end, plus `later`.
    fn put(
        self,
        cells: &Cells,
        family: Bytes,
        column: &Bytes,
        value: Bytes,
        later: Duration,
    ) -> Result<Mutation> {
        let put = Put::new(cells.row.clone()).cell_at(family, column.clone(), self.timestamp, value);
        let Some(expires) = self.expires else {
            return Ok(put.into());
        };
        match expires.checked_sub(self.timestamp) {
            None | Some(0) => Err(gone(LatchState::Expired)),
            Some(rest) => Ok(put.ttl(Duration::from_millis(rest) + later).into()),
        }
    }
}

/// Returns the note after a change of a live latch. It expires with the note before it.
fn next_note(
    cells: &Cells,
    column: &Bytes,
    observation: &LatchObservation,
    change: NewChange<'_>,
    operation: &LatchOperation,
    written: Written,
) -> Result<(Note, Mutation)> {
    let arrivals = u32::from(operation.arriving().is_some());
    match &observation.note {
        Some((note, seen)) => {
            let at = Written::beside(seen);
            let note = note.next(change.id, arrivals).ending(written.expires.into());
            let put = at.put(cells, cells.state.clone(), column, note.encode(), Duration::ZERO)?;
            Ok((note, put))
        }
        // A Java client created the latch.
        None => {
            let mut note = Note::first(change).ending(written.expires.into());
            note.arrived = arrivals;
            let put = written.put(cells, cells.state.clone(), column, note.encode(), KNOWN_AFTER)?;
            Ok((note, put))
        }
    }
}

fn init(
    cells: &Cells,
    (count, ttl): (i64, Duration),
    state: LatchState,
    change: NewChange<'_>,
    observation: &LatchObservation,
) -> Plan {
    // Cells under a cell with a shorter life would become visible again.
    let forgotten = observation.counts.iter().map(|leftover| forget(cells, leftover));
    let made = Put::new(cells.row.clone())
        .cell(cells.counts.clone(), cells.own.clone(), encode(count))
        .ttl(ttl);
    let mut mutations: Vec<Mutation> = forgotten.chain([made.into()]).collect();
    let known = ttl + KNOWN_AFTER;
    // Latch and note begin at the same timestamp, which the server sets.
    let ends = Ends::In(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    let (mut steps, mut begun, mut latch) = (Vec::new(), None, None);
    let condition = match (&cells.note, &observation.note) {
        (None, _) => as_seen(cells, observation),
        (Some(column), Some((note, seen))) => {
            // A note is written later than the one under it, so the same life is enough to outlive
            // it.
            let known = known.max(life(seen));
            let note = note.clone().ended_in(state).of_next_latch(change.id).ending(ends);
            latch = Some(note.latch);
            mutations.push(put_note(cells, column, &note, known));
            as_seen(cells, observation)
        }
        // No filter matches a row without cells. A copy that arrives after the end of the latch
        // must find that the latch existed.
        (Some(column), None) => {
            let nothing = Note::of_nothing(change.environment);
            let note = nothing.next(change.id, 0).ending(ends);
            latch = Some(note.latch);
            mutations.push(put_note(cells, column, &note, known));
            steps.push(Step {
                mutations: vec![put_note(cells, column, &nothing, known)],
                condition: condition::cell_equals(&cells.row, &cells.state, column, None),
            });
            let noted = nothing.encode();
            begun = Some(nothing);
            all_as_seen(cells, observation, Some((column, Some(noted))))
        }
    };
    steps.push(Step { mutations, condition });
    Plan {
        steps,
        change: change.id,
        leaves: Leaves::Count,
        left: count.unsigned_abs(),
        latch,
        begun,
    }
}

fn delete(cells: &Cells, change: NewChange<'_>, observation: &LatchObservation) -> Option<Plan> {
    let row = || cells.row.clone();
    let counts = observation.counts.iter().map(|count| forget(cells, count));
    let mut mutations: Vec<Mutation> = counts.collect();
    if let Some(column) = &cells.note {
        // A row that can't be read as a latch was not reached.
        let state = observation.state(cells.level).unwrap_or(LatchState::Open);
        let note = match &observation.note {
            None if mutations.is_empty() => return None,
            Some((note, _)) if mutations.is_empty() && note.deleted => return None,
            // The new note expires with the one under it.
            Some((note, seen)) => Put::new(row())
                .cell_at(
                    cells.state.clone(),
                    column.clone(),
                    seen.timestamp,
                    note.clone()
                        .ended_in(state)
                        .next(change.id, 0)
                        .of_deleted()
                        .encode(),
                )
                .ttl(life(seen))
                .into(),
            None => put_note(cells, column, &Note::first(change).of_deleted(), KNOWN_AFTER),
        };
        mutations.push(note);
        // Only the observed ones: a participant of the next latch may arrive in this millisecond.
        if let Some(last) = observation.arrived.iter().map(|(_, timestamp)| *timestamp).max() {
            let columns = observation.arrived.iter().map(|(column, _)| column.clone());
            let delete = columns.fold(Delete::new(row()), |delete, column| {
                delete.column(cells.state.clone(), column)
            });
            mutations.push(delete.timestamp(last).into());
        }
    }
    (!mutations.is_empty()).then(|| Plan {
        steps: vec![Step {
            mutations,
            condition: as_seen(cells, observation),
        }],
        change: change.id,
        leaves: Leaves::Nothing,
        left: 0,
        latch: None,
        begun: None,
    })
}

fn put_note(cells: &Cells, column: &Bytes, note: &Note, ttl: Duration) -> Mutation {
    Put::new(cells.row.clone())
        .cell(cells.state.clone(), column.clone(), note.encode())
        .ttl(ttl)
        .into()
}

/// Returns the delete of an observed count, and of the cells under it.
pub(super) fn forget(cells: &Cells, count: &Count) -> Mutation {
    Delete::new(cells.row.clone())
        .column(cells.counts.clone(), count.qualifier.clone())
        .timestamp(count.seen.timestamp)
        .into()
}

/// Returns how long a cell lives after its timestamp.
fn life(seen: &ObservedCell) -> Duration {
    let millis = seen
        .expires
        .map_or(0, |expires| expires.saturating_sub(seen.timestamp));
    Duration::from_millis(millis)
}

/// Returns the condition that the row is unchanged since it was observed.
pub(super) fn as_seen(cells: &Cells, observation: &LatchObservation) -> pb::Condition {
    let note = observation.note.as_ref().map(|(_, seen)| seen.value.clone());
    match (&cells.note, &note) {
        // No filter matches a row without cells.
        (None, _) if observation.counts.is_empty() => {
            condition::cell_equals(&cells.row, &cells.counts, &cells.own, None)
        }
        (None, _) => all_as_seen(cells, observation, None),
        (Some(column), _) => all_as_seen(cells, observation, Some((column, note))),
    }
}

fn all_as_seen(
    cells: &Cells,
    observation: &LatchObservation,
    note: Option<(&Bytes, Option<Bytes>)>,
) -> pb::Condition {
    let seen = |count: &Count| {
        let value = Some(count.seen.value.clone());
        (cells.counts.clone(), count.qualifier.clone(), value)
    };
    let note = note.map(|(column, value)| (cells.state.clone(), column.clone(), value));
    let columns: Vec<_> = observation.counts.iter().map(seen).chain(note).collect();
    let at = |count: &Count| (count.qualifier.clone(), count.seen.timestamp);
    let counts: Vec<_> = observation.counts.iter().map(at).collect();
    condition::columns_as_seen(&cells.row, &columns, &cells.count_columns(), &counts)
}

pub(crate) fn encode(count: i64) -> Bytes {
    Bytes::copy_from_slice(&count.to_be_bytes())
}

fn check_participants(observation: &LatchObservation) -> Result<()> {
    match &observation.note {
        Some((note, _)) if note.arrived >= MAX_PARTICIPANTS => Err(Error::new(
            ClientErrorKind::LimitExceeded,
            format!("{} participants have arrived; a latch takes no more than {MAX_PARTICIPANTS}", note.arrived),
        )
        .with_hint("give parts of the participants latches of their own, and count down a common one when such a latch is reached")),
        _ => Ok(()),
    }
}

/// Returns the error of a change of a latch that does not exist.
pub(crate) fn gone(state: LatchState) -> Error {
    match state {
        LatchState::Expired => Error::new(ErrorKind::LatchExpired, "the latch has expired")
            .with_hint("create it again with init, for as long as the counted work may take"),
        _ => Error::new(ErrorKind::LatchAbsent, "there is no such latch")
            .with_hint("create it with init; in a table without the state family it may also have expired"),
    }
}

fn exists(state: LatchState, left: u64) -> Error {
    Error::new(
        ErrorKind::LatchExists,
        format!("the latch exists: {state}, {left} to count down"),
    )
    .with_hint("delete it first, or add to it by counting up")
}

fn too_far(by: u64, left: u64) -> Error {
    Error::new(
        ClientErrorKind::LimitExceeded,
        match left {
            0 => "the latch is reached, nothing is left to count down".to_owned(),
            left => format!("cannot count down by {by}: only {left} left"),
        },
    )
    .with_hint("use arrive, which counts each participant once; or add to the count with count_up")
}

#[cfg(test)]
mod tests;
