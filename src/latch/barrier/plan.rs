//! What to write, given what was seen. No I/O.

use std::time::Duration;

use bytes::Bytes;

use super::{
    Arrival, absent,
    cells::{ARRIVALS, Arrivals, BARRIER, Name, State},
    sight::Sight,
};
use crate::{
    error::{Error, ErrorKind, Result},
    latch::{
        layout::STATE,
        note::{ChangeId, Note},
        sight::Seen,
    },
    model::{Delete, Mutation, Put},
    wire::{condition, pb},
};

/// A change of both cells, to be made if they are as they were seen.
pub(super) struct Plan {
    pub(super) mutations: Vec<Mutation>,
    pub(super) condition: pb::Condition,
    /// The generation that begins with it, whose cell may be hidden.
    pub(super) begins: Option<Arrival>,
}

/// Plans to make a barrier of this number. None when it is made.
///
/// # Errors
///
/// [`LatchExists`](ErrorKind::LatchExists) when another is there.
pub(super) fn create(
    row: &Bytes,
    (barrier, parties, time): (u64, u32, Duration),
    change: ChangeId,
    sight: &Sight,
) -> Result<Option<Plan>> {
    if let Some((state, _)) = &sight.state {
        // A copy of this very change was before.
        return match state.barrier == barrier {
            true => Ok(None),
            false => Err(Error::new(
                ErrorKind::LatchExists,
                format!("the barrier is there, of {} parties", state.parties),
            )
            .with_hint("delete it first")),
        };
    }
    let state = State {
        barrier,
        parties,
        time: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        generation: 1,
        is_filling: false,
        opened: 0,
        note: Note::first(change),
    };
    let put = Put::new(row.clone()).cell(STATE, BARRIER, state.encode());
    Ok(Some(Plan {
        mutations: vec![put.into()],
        condition: condition::cell_equals(row, &STATE, &BARRIER, None),
        begins: None,
    }))
}

/// Plans the arrival of a participant, and in which generation that is. None when it has arrived there.
///
/// # Errors
///
/// [`LatchAbsent`](ErrorKind::LatchAbsent).
pub(super) fn arrive(
    row: &Bytes,
    name: Name,
    change: ChangeId,
    sight: &Sight,
) -> Result<(Arrival, Option<Plan>)> {
    let Some((seen, cell)) = &sight.state else {
        return Err(absent());
    };
    let present = sight.present();
    if present.is_some_and(|(present, _)| present.names.contains(&name)) {
        return Ok((seen.arrival(), None));
    }
    let state = match sight.is_over() {
        true => seen.clone().after(false),
        false => seen.clone(),
    };
    let arrival = state.arrival();
    let mut names = present.map_or_else(Vec::new, |(present, _)| present.names.clone());
    names.push(name);
    let is_full = names.len() >= state.parties as usize;
    let note = state.note.next(change, 0);
    let next = match is_full {
        true => state.after(true),
        false => State {
            is_filling: true,
            ..state
        },
    };
    let next = State { note, ..next };
    // At its own timestamp, so that no clock decides what is seen.
    let put = Put::new(row.clone()).cell_at(STATE, BARRIER, cell.timestamp, next.encode());
    let mut mutations = vec![put.into()];
    if !is_full {
        let arrivals = Arrivals {
            barrier: arrival.barrier,
            generation: arrival.generation,
            names,
        };
        mutations.extend(write_arrivals(row, &arrivals, next.time, sight));
    }
    let value = |cell: &Seen| cell.value.clone();
    let condition = condition::columns_equal(
        row,
        &[
            (STATE, BARRIER, Some(value(cell))),
            (
                STATE,
                ARRIVALS,
                sight.arrivals.as_ref().map(|(_, cell)| value(cell)),
            ),
        ],
    );
    let begins = (!is_full && present.is_none()).then(|| arrival.clone());
    let plan = Plan {
        mutations,
        condition,
        begins,
    };
    Ok((arrival, Some(plan)))
}

/// Writes who has arrived, so that it expires when the time of the generation is over.
fn write_arrivals(row: &Bytes, arrivals: &Arrivals, time: u64, sight: &Sight) -> Vec<Mutation> {
    let put = Put::new(row.clone());
    if let Some((
        _,
        Seen {
            timestamp,
            expires: Some(expires),
            ..
        },
    )) = sight.present()
    {
        // It expires when it would have.
        let life = Duration::from_millis(expires.saturating_sub(*timestamp));
        let put = put.cell_at(STATE, ARRIVALS, *timestamp, arrivals.encode());
        return vec![put.ttl(life).into()];
    }
    let put = put
        .cell(STATE, ARRIVALS, arrivals.encode())
        .ttl(Duration::from_millis(time));
    // The cell of a generation before would hide this one, if its server's clock was ahead of that of the present server.
    let stale = sight
        .arrivals
        .as_ref()
        .map(|(_, stale)| Delete::new(row.clone()).version(STATE, ARRIVALS, stale.timestamp));
    let stale = stale.map(Mutation::from);
    stale.into_iter().chain([put.into()]).collect()
}
