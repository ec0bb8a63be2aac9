//! What to write, given what was read. No I/O.

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
        note::{NewChange, Note},
        observation::ObservedCell,
    },
};

/// A change of both cells, on the condition that they are as they were read.
pub(super) struct Plan {
    pub(super) mutations: Vec<Mutation>,
    pub(super) condition: pb::Condition,
    /// The generation that begins with it. Its cell may be hidden.
    pub(super) begins: Option<Arrival>,
}

/// Plans the creation of a barrier with this number. Returns `None` if it is created already.
///
/// # Errors
///
/// Returns [`LatchExists`](ErrorKind::LatchExists) if there is another barrier.
pub(super) fn create(
    row: &Bytes,
    (barrier, parties, time): (u64, u32, Duration),
    change: NewChange<'_>,
    observation: &BarrierObservation,
) -> Result<Option<Plan>> {
    if let Some((state, _)) = &observation.state {
        // A copy of this change was applied before.
        return if state.barrier == barrier {
            Ok(None)
        } else {
            Err(Error::new(
                ErrorKind::LatchExists,
                format!("the barrier exists, with {} parties", state.parties),
            )
            .with_hint("delete it first"))
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

/// Plans the arrival of a participant, in this generation if it is specified, and returns its
/// generation. The plan is `None` if the participant has arrived in it already, or if the specified
/// generation is over.
///
/// # Errors
///
/// Returns [`LatchAbsent`](ErrorKind::LatchAbsent) if the barrier does not exist, and
/// [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the specified generation cannot have
/// begun.
pub(super) fn arrive(
    row: &Bytes,
    name: Name,
    specified: Option<u64>,
    change: NewChange<'_>,
    observation: &BarrierObservation,
) -> Result<(Arrival, Option<Plan>)> {
    let Some((seen, cell)) = &observation.state else {
        return Err(absent());
    };
    let state = if observation.is_over() && !observation.hides {
        seen.clone().after(false)
    } else {
        seen.clone()
    };
    let arrival = state.arrival();
    if let Some(generation) = specified.filter(|generation| *generation != arrival.generation) {
        if generation > arrival.generation {
            return Err(not_begun(generation, arrival.generation));
        }
        let barrier = arrival.barrier;
        return Ok((Arrival { barrier, generation }, None));
    }
    let present = observation.present();
    if present.is_some_and(|(present, _)| present.names.contains(&name)) {
        return Ok((arrival, None));
    }
    let mut names = present.map_or_else(Vec::new, |(present, _)| present.names.clone());
    names.push(name);
    let is_full = names.len() >= state.parties as usize;
    let note = state.note.next(change.id, 0);
    let next = if is_full {
        state.after(true)
    } else {
        State {
            is_filling: true,
            ..state
        }
    };
    let next = State { note, ..next };
    let mut mutations = vec![write_state(row, cell, &next)];
    let arrivals = |names| Arrivals {
        barrier: arrival.barrier,
        generation: arrival.generation,
        names,
    };
    if is_full {
        mutations.extend(keep_arrivals(row, &arrivals(Vec::new()), observation));
    } else {
        mutations.push(write_arrivals(row, &arrivals(names), next.time, observation));
    }
    let begins = (!is_full && present.is_none()).then(|| arrival.clone());
    let plan = Plan {
        mutations,
        condition: unchanged(row, observation),
        begins,
    };
    Ok((arrival, Some(plan)))
}

fn not_begun(generation: u64, present: u64) -> Error {
    Error::invalid(format!(
        "generation {generation} has not begun: the next arrival is in generation {present}"
    ))
    .with_hint("a participant may arrive in a generation when it knows how the one before ended")
}

/// Plans the end of a generation that [is over](BarrierObservation::is_over). `None` if it is not.
pub(super) fn end(row: &Bytes, observation: &BarrierObservation) -> Option<Plan> {
    let (state, cell) = observation.state.as_ref().filter(|_| observation.is_over())?;
    Some(Plan {
        mutations: vec![write_state(row, cell, &state.clone().after(false))],
        condition: unchanged(row, observation),
        begins: None,
    })
}

/// Returns the condition that both cells are as they were read.
fn unchanged(row: &Bytes, observation: &BarrierObservation) -> pb::Condition {
    let state = observation.state.as_ref().map(|(_, cell)| cell.value.clone());
    let arrivals = observation.arrivals.as_ref().map(|(_, cell)| cell.value.clone());
    condition::columns_equal(row, &[(STATE, BARRIER, state), (STATE, ARRIVALS, arrivals)])
}

/// Returns the put of the state, at the timestamp of the cell that it replaces, so that no clock
/// decides what is visible.
fn write_state(row: &Bytes, replaced: &ObservedCell, state: &State) -> Mutation {
    Put::new(row.clone())
        .cell_at(STATE, BARRIER, replaced.timestamp, state.encode())
        .into()
}

/// Returns the put of the arrivals, which expires when the time of the generation is over.
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
        // Keeps the end of the existing cell.
        let life = Duration::from_millis(expires.saturating_sub(*timestamp));
        let put = put.cell_at(STATE, ARRIVALS, *timestamp, arrivals.encode());
        return put.ttl(life).into();
    }
    let put = put
        .cell(STATE, ARRIVALS, arrivals.encode())
        .ttl(Duration::from_millis(time));
    let put = match &observation.arrivals {
        // This cell expires late by as much as that server's clock is ahead.
        Some((_, ahead)) if observation.hides => put.timestamp(ahead.timestamp + 1),
        _ => put,
    };
    put.into()
}

/// Returns the put that keeps the cell of an opened generation, without names and without a TTL. A
/// read ends at the newest cell that has not expired, and would otherwise go through the expired
/// cells of all earlier generations. The next generation's cell lies over it.
fn keep_arrivals(row: &Bytes, arrivals: &Arrivals, observation: &BarrierObservation) -> Option<Mutation> {
    let (_, cell) = observation.present()?;
    let put = Put::new(row.clone()).cell_at(STATE, ARRIVALS, cell.timestamp, arrivals.encode());
    Some(put.into())
}
