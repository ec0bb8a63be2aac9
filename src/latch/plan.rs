//! What to write, given what was seen. No I/O.
//!
//! All cells that are written expire when the latch does, to the millisecond: at the timestamp of a cell that was seen, and
//! with what is left from there as their TTL. So no clock is asked, a change does not prolong the latch, no cell expires
//! before what lies under it, and the sum of several farms does not change because one of them is forgotten earlier.

use std::time::Duration;

use bytes::Bytes;

use super::{
    layout::{COUNTS, Cells, STATE},
    note::{ChangeId, Note},
    sight::{Count, Participants, Seen, Sight},
    state::LatchState,
};
use crate::{
    error::{Error, ErrorKind, Result},
    model::{Delete, Mutation, Put},
    wire::{condition, pb},
};

/// How long it is known of a latch that it has expired.
pub(super) const KNOWN_AFTER: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The most participants that may arrive at one latch: the server reads all of them with each change.
pub(super) const MOST_PARTICIPANTS: u32 = 1_000;

/// What somebody wants of a latch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Init {
        count: i64,
        ttl: Duration,
    },
    CountUp(i64),
    CountDown(i64),
    /// Counts one down for the participant of this column.
    Arrive(Bytes),
    /// Deletes the latch, and what is known of it.
    Delete,
}

impl Wish {
    /// The participants that must be seen for it.
    pub(super) fn participants(&self) -> Participants<'_> {
        match self {
            Self::Arrive(column) => Participants::One(column),
            Self::Delete => Participants::All,
            Self::Init { .. } | Self::CountUp(_) | Self::CountDown(_) => Participants::None,
        }
    }

    /// The column of the participant who arrives.
    fn arriving(&self) -> Option<&Bytes> {
        match self {
            Self::Arrive(column) => Some(column),
            _ => None,
        }
    }
}

/// A change that is to be made of a row.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Done in one call, in this order. The last one makes the change; the others go before it.
    pub(super) steps: Vec<Step>,
    pub(super) change: ChangeId,
    pub(super) leaves: Leaves,
}

/// What is seen of this farm's count when a plan was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    Nothing,
    Count,
    /// One of this timestamp, or a later one.
    CountFrom(u64),
}

/// What is written under a condition, or not at all.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) mutations: Vec<Mutation>,
    pub(super) condition: pb::Condition,
}

/// Plans the change that was wished for. None when nothing is to be done: the participant has
/// arrived already, or there is nothing to delete.
///
/// # Errors
///
/// When what was seen does not allow it.
pub(super) fn plan(cells: &Cells, wish: &Wish, change: ChangeId, sight: &Sight) -> Result<Option<Plan>> {
    if *wish == Wish::Delete {
        return Ok(delete(cells, change, sight));
    }
    let state = sight.state(cells.level)?;
    let Some(deadline) = sight.deadline(cells.level) else {
        return match *wish {
            Wish::Init { count, ttl } => Ok(Some(init(cells, count, ttl, change, sight))),
            _ => Err(gone(state)),
        };
    };
    let left = sight.left()?;
    let delta = match wish {
        Wish::Init { .. } | Wish::Delete => return Err(exists(state, left)),
        Wish::Arrive(_) if !sight.arrived.is_empty() => return Ok(None),
        Wish::Arrive(_) => -1,
        Wish::CountUp(by) => *by,
        Wish::CountDown(by) => -by,
    };
    let own = sight.own(cells);
    let value = own.map_or(0, |count| count.value).checked_add(delta);
    let value = match (left.checked_add_signed(delta), value) {
        (None, _) => return Err(too_far(delta.unsigned_abs(), left)),
        (Some(left), Some(value)) if i64::try_from(left).is_ok() => value,
        _ => return Err(Error::invalid("the count would be more than eight bytes can say")),
    };
    if wish.arriving().is_some() {
        check_participants(sight)?;
    }

    let (written, mut mutations) = match own {
        // It ends with the latch. What it was would show again then.
        Some(own) if own.is_leftover() => {
            let under = own.seen.timestamp;
            let at = Written {
                timestamp: under + 1,
                expires: deadline.expires,
            };
            (at, vec![forget(cells, own)])
        }
        Some(own) => {
            // Where no note tells changes apart, their timestamps must.
            let step = u64::from(cells.note.is_none());
            let at = Written {
                timestamp: own.seen.timestamp + step,
                expires: own.seen.expires,
            };
            (at, Vec::new())
        }
        None => (Written::beside(deadline), Vec::new()),
    };
    mutations.push(written.put(cells, COUNTS, &cells.own, encode(value), Duration::ZERO)?);
    if let Some(column) = &cells.note {
        mutations.push(next_note(cells, column, sight, change, wish, written)?);
        if let Wish::Arrive(participant) = wish {
            let arrived = Bytes::from_static(&[1]);
            mutations.push(written.put(cells, STATE, participant, arrived, Duration::ZERO)?);
        }
    }
    Ok(Some(Plan {
        steps: vec![Step {
            mutations,
            condition: as_seen(cells, sight),
        }],
        change,
        leaves: Leaves::CountFrom(written.timestamp),
    }))
}

/// Where cells of a live latch are written.
#[derive(Clone, Copy)]
struct Written {
    timestamp: u64,
    expires: Option<u64>,
}

impl Written {
    fn beside(seen: &Seen) -> Self {
        Self {
            timestamp: seen.timestamp,
            expires: seen.expires,
        }
    }

    /// A put that is forgotten so long after the latch.
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

/// The note after a change of a live latch. It is forgotten when it would have been.
fn next_note(
    cells: &Cells,
    column: &Bytes,
    sight: &Sight,
    change: ChangeId,
    wish: &Wish,
    written: Written,
) -> Result<Mutation> {
    let arrivals = u32::from(wish.arriving().is_some());
    match &sight.note {
        Some((note, seen)) => {
            let at = Written::beside(seen);
            at.put(
                cells,
                STATE,
                column,
                note.next(change, arrivals).encode(),
                Duration::ZERO,
            )
        }
        // A Java client made the latch.
        None => {
            let mut note = Note::first(change);
            note.arrived = arrivals;
            written.put(cells, STATE, column, note.encode(), KNOWN_AFTER)
        }
    }
}

fn init(cells: &Cells, count: i64, ttl: Duration, change: ChangeId, sight: &Sight) -> Plan {
    // What lies under a cell with a shorter life would show again.
    let forgotten = sight.counts.iter().map(|leftover| forget(cells, leftover));
    let begun = Put::new(cells.row.clone())
        .cell(COUNTS, cells.own.clone(), encode(count))
        .ttl(ttl);
    let mut mutations: Vec<Mutation> = forgotten.chain([begun.into()]).collect();
    let known = ttl + KNOWN_AFTER;
    let mut steps = Vec::new();
    let condition = match (&cells.note, &sight.note) {
        (None, _) => as_seen(cells, sight),
        (Some(column), Some((note, seen))) => {
            // A note is written later than the one under it, so this is enough to outlive it.
            let known = known.max(life(seen));
            mutations.push(put_note(cells, column, &note.of_next_latch(change), known));
            as_seen(cells, sight)
        }
        // Of a row without cells no filter is true. A copy that arrives when the latch is over must find that it was there.
        (Some(column), None) => {
            let first = Note::first(change);
            mutations.push(put_note(cells, column, &first.next(change, 0), known));
            steps.push(Step {
                mutations: vec![put_note(cells, column, &first, known)],
                condition: condition::cell_equals(&cells.row, &STATE, column, None),
            });
            let noted = (STATE, column.clone(), Some(first.encode()));
            let columns: Vec<_> = counts_as_seen(cells, sight).chain([noted]).collect();
            condition::columns_equal(&cells.row, &columns)
        }
    };
    steps.push(Step { mutations, condition });
    Plan {
        steps,
        change,
        leaves: Leaves::Count,
    }
}

fn delete(cells: &Cells, change: ChangeId, sight: &Sight) -> Option<Plan> {
    let row = || cells.row.clone();
    let counts = sight.counts.iter().map(|count| forget(cells, count));
    let mut mutations: Vec<Mutation> = counts.collect();
    if let Some(column) = &cells.note {
        let note = match &sight.note {
            None if mutations.is_empty() => return None,
            Some((note, _)) if mutations.is_empty() && note.deleted => return None,
            // It is forgotten when it would have been, and so is the one under it.
            Some((note, seen)) => Put::new(row())
                .cell_at(
                    STATE,
                    column.clone(),
                    seen.timestamp,
                    note.next(change, 0).of_deleted().encode(),
                )
                .ttl(life(seen))
                .into(),
            None => put_note(cells, column, &Note::first(change).of_deleted(), KNOWN_AFTER),
        };
        mutations.push(note);
        // Only what was seen: a participant of the next latch may arrive in this millisecond.
        if let Some(last) = sight.arrived.iter().map(|(_, timestamp)| *timestamp).max() {
            let columns = sight.arrived.iter().map(|(column, _)| column.clone());
            let delete = columns.fold(Delete::new(row()), |delete, column| delete.column(STATE, column));
            mutations.push(delete.timestamp(last).into());
        }
    }
    (!mutations.is_empty()).then(|| Plan {
        steps: vec![Step {
            mutations,
            condition: as_seen(cells, sight),
        }],
        change,
        leaves: Leaves::Nothing,
    })
}

fn put_note(cells: &Cells, column: &Bytes, note: &Note, ttl: Duration) -> Mutation {
    Put::new(cells.row.clone())
        .cell(STATE, column.clone(), note.encode())
        .ttl(ttl)
        .into()
}

/// Deletes all of a count that was seen, and what lies under it.
pub(super) fn forget(cells: &Cells, count: &Count) -> Mutation {
    Delete::new(cells.row.clone())
        .column(COUNTS, count.qualifier.clone())
        .timestamp(count.seen.timestamp)
        .into()
}

/// How long a cell lives from its timestamp on.
fn life(seen: &Seen) -> Duration {
    let millis = seen
        .expires
        .map_or(0, |expires| expires.saturating_sub(seen.timestamp));
    Duration::from_millis(millis)
}

/// That nothing has changed of what the plan was made on.
fn as_seen(cells: &Cells, sight: &Sight) -> pb::Condition {
    let Cells { row, own, .. } = cells;
    match (&cells.note, sight.own(cells)) {
        // Any change of the column has a later timestamp.
        (None, Some(seen)) => condition::absent_from(row, &COUNTS, own, seen.seen.timestamp + 1),
        (None, None) => condition::cell_equals(row, &COUNTS, own, None),
        (Some(column), _) => {
            let note = sight.note.as_ref().map(|(_, seen)| seen.value.clone());
            let noted = (STATE, column.clone(), note);
            let columns: Vec<_> = counts_as_seen(cells, sight).chain([noted]).collect();
            condition::columns_equal(row, &columns)
        }
    }
}

/// The counts, and that of this farm where there is none.
fn counts_as_seen(cells: &Cells, sight: &Sight) -> impl Iterator<Item = (Bytes, Bytes, Option<Bytes>)> {
    let seen = |count: &Count| (COUNTS, count.qualifier.clone(), Some(count.seen.value.clone()));
    let missing = sight
        .own(cells)
        .is_none()
        .then(|| (COUNTS, cells.own.clone(), None));
    sight.counts.iter().map(seen).chain(missing)
}

fn encode(count: i64) -> Bytes {
    Bytes::copy_from_slice(&count.to_be_bytes())
}

fn check_participants(sight: &Sight) -> Result<()> {
    match &sight.note {
        Some((note, _)) if note.arrived >= MOST_PARTICIPANTS => Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("{} participants have arrived; a latch takes no more than {MOST_PARTICIPANTS}", note.arrived),
        )
        .with_hint("give parts of the participants latches of their own, and count down a common one when such a latch is reached")),
        _ => Ok(()),
    }
}

/// The error of a change of a latch that is not there.
pub(super) fn gone(state: LatchState) -> Error {
    match state {
        LatchState::Expired => Error::new(ErrorKind::LatchExpired, "the latch has expired"),
        _ => Error::new(ErrorKind::LatchAbsent, "there is no such latch").with_hint(
            "init makes it; in a table without the state family this may also be one that has expired",
        ),
    }
}

fn exists(state: LatchState, left: u64) -> Error {
    Error::new(
        ErrorKind::LatchExists,
        format!("the latch is there: {state}, {left} to count down"),
    )
    .with_hint("delete it first, or add to it by counting up")
}

fn too_far(by: u64, left: u64) -> Error {
    Error::new(
        ErrorKind::LimitExceeded,
        match left {
            0 => "the latch is reached, nothing is left to count down".to_owned(),
            left => format!("{by} can't be counted down, only {left} are left"),
        },
    )
}
