//! What to write, given what was seen. No I/O.

use std::time::Duration;

use bytes::Bytes;
use hbase_client::{
    Mutation, Put,
    low_level::{condition, pb},
};

use super::{
    arrival::{Arrival, absent},
    cells::{ARRIVALS, Arrivals, BARRIER, Name, State},
    observation::BarrierObservation,
};
use crate::{
    error::{Error, ErrorKind, Result},
    latch::{
        layout::STATE,
        note::{ChangeId, Note},
        observation::ObservedCell,
    },
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
    observation: &BarrierObservation,
) -> Result<Option<Plan>> {
    if let Some((state, _)) = &observation.state {
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

/// Plans the arrival of a participant, and in which generation that is. None when it has arrived
/// there.
///
/// # Errors
///
/// [`LatchAbsent`](ErrorKind::LatchAbsent).
pub(super) fn arrive(
    row: &Bytes,
    name: Name,
    change: ChangeId,
    observation: &BarrierObservation,
) -> Result<(Arrival, Option<Plan>)> {
    let Some((seen, cell)) = &observation.state else {
        return Err(absent());
    };
    let present = observation.present();
    if present.is_some_and(|(present, _)| present.names.contains(&name)) {
        return Ok((seen.arrival(), None));
    }
    let state = match observation.is_over() && !observation.hides {
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
    let arrivals = |names| Arrivals {
        barrier: arrival.barrier,
        generation: arrival.generation,
        names,
    };
    match is_full {
        true => mutations.extend(keep_arrivals(row, &arrivals(Vec::new()), observation)),
        false => mutations.push(write_arrivals(row, &arrivals(names), next.time, observation)),
    }
    let value = |cell: &ObservedCell| cell.value.clone();
    let condition = condition::columns_equal(
        row,
        &[
            (STATE, BARRIER, Some(value(cell))),
            (
                STATE,
                ARRIVALS,
                observation.arrivals.as_ref().map(|(_, cell)| value(cell)),
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
fn write_arrivals(row: &Bytes, arrivals: &Arrivals, time: u64, observation: &BarrierObservation) -> Mutation {
    let put = Put::new(row.clone());
    if let Some((
        _,
        ObservedCell {
            timestamp,
            expires: Some(expires),
            ..
        },
    )) = observation.present()
    {
        // It expires when it would have.
        let life = Duration::from_millis(expires.saturating_sub(*timestamp));
        let put = put.cell_at(STATE, ARRIVALS, *timestamp, arrivals.encode());
        return put.ttl(life).into();
    }
    let put = put
        .cell(STATE, ARRIVALS, arrivals.encode())
        .ttl(Duration::from_millis(time));
    let put = match &observation.arrivals {
        // It expires later than it should by as much as that server is ahead.
        Some((_, ahead)) if observation.hides => put.timestamp(ahead.timestamp + 1),
        _ => put,
    };
    put.into()
}

/// Keeps the cell of a generation that opens, without names and without a TTL: a read ends at the
/// newest cell that has not expired, and would look through those of all generations before
/// otherwise. The cell of the next one lies over it.
fn keep_arrivals(row: &Bytes, arrivals: &Arrivals, observation: &BarrierObservation) -> Option<Mutation> {
    let (_, cell) = observation.present()?;
    let put = Put::new(row.clone()).cell_at(STATE, ARRIVALS, cell.timestamp, arrivals.encode());
    Some(put.into())
}
