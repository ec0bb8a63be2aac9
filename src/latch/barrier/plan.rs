//! What to write, given what was read. No I/O.

use std::time::Duration;

use bytes::Bytes;
use hbase_client::{
    Mutation, Put,
    low_level::{condition, pb},
};

use super::{
    arrival::{Arrival, BarrierPhase, absent},
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

/// What a participant does.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// Arrives at a barrier, in this generation if it is specified.
    Arrive(Option<u64>),
    /// Enters a double barrier, in this generation if it is specified.
    Enter(Option<u64>),
    /// Leaves a double barrier: this generation, and the barrier with this number if it is
    /// specified.
    Leave { generation: u64, barrier: Option<u64> },
}

impl Step {
    /// Returns the specified generation, as the cells count.
    fn specified(self) -> Option<u64> {
        match self {
            Self::Arrive(generation) => generation,
            Self::Enter(generation) => generation.map(|generation| generation.saturating_mul(2) - 1),
            Self::Leave { generation, .. } => Some(generation.saturating_mul(2)),
        }
    }
}

/// Plans the creation of a barrier with this number. Returns `None` if it is created already.
///
/// # Errors
///
/// Returns [`LatchExists`](ErrorKind::LatchExists) if there is another barrier.
pub(super) fn create(
    row: &Bytes,
    (barrier, is_double): (u64, bool),
    (parties, time): (u32, Duration),
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
        is_double,
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

/// Plans what a participant does, and returns its generation, as the cells count. The plan is `None` if
/// the participant has arrived in it already, or if the specified generation is over. For a participant
/// that enters it is `None`, and the generation one of leaving, if that must end first.
///
/// # Errors
///
/// - [`LatchAbsent`](ErrorKind::LatchAbsent) if the barrier does not exist;
/// - [`DefinitionMismatch`](ErrorKind::DefinitionMismatch) if it is one of the other kind;
/// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the specified generation cannot have
///   begun, or cannot be left.
pub(super) fn arrive(
    row: &Bytes,
    name: Name,
    step: Step,
    change: NewChange<'_>,
    observation: &BarrierObservation,
) -> Result<(Arrival, Option<Plan>)> {
    let (seen, cell) = observation.of_kind(!matches!(step, Step::Arrive(_)))?;
    if let Step::Leave {
        barrier: Some(barrier),
        ..
    } = step
        && barrier != seen.barrier
    {
        return Err(absent());
    }
    let state = if observation.is_over() && !observation.hides {
        seen.clone().after(false)
    } else {
        seen.clone()
    };
    let arrival = state.arrival();
    let inside = observation.inside(&state);
    if let Some(phase) = must_wait(step, &state, inside.contains(&name))? {
        return Ok((phase, None));
    }
    let specified = step.specified();
    if let Some(generation) = specified.filter(|generation| *generation != arrival.generation) {
        if generation > arrival.generation {
            return Err(not_begun(step, &state));
        }
        let barrier = arrival.barrier;
        return Ok((Arrival { barrier, generation }, None));
    }
    let present = observation.present();
    if present.is_some_and(|(present, _)| present.names.contains(&name)) {
        return Ok((arrival, None));
    }
    if let Step::Leave { generation, .. } = step
        && !inside.contains(&name)
    {
        return Err(
            Error::invalid(format!("the participant has not entered generation {generation}"))
                .with_hint("leave under the name that has entered"),
        );
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
    let arrivals = |names, inside| Arrivals {
        barrier: arrival.barrier,
        generation: arrival.generation,
        names,
        inside,
    };
    if is_full {
        // Those that have entered are known until they have left.
        let kept = if matches!(step, Step::Enter(_)) {
            names
        } else {
            Vec::new()
        };
        mutations.extend(keep_arrivals(row, &arrivals(kept, Vec::new()), cell, observation));
    } else {
        let inside = inside.iter().copied().filter(|inside| *inside != name).collect();
        mutations.push(write_arrivals(
            row,
            &arrivals(names, inside),
            next.time,
            observation,
        ));
    }
    let begins = (!is_full && present.is_none()).then(|| arrival.clone());
    let plan = Plan {
        mutations,
        condition: unchanged(row, observation),
        begins,
    };
    Ok((arrival, Some(plan)))
}

/// Returns the generation for whose end a participant waits if it enters while parties leave: the one
/// that they leave or, if it has not left itself, the one that it has entered.
///
/// # Errors
///
/// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if it would wait for itself.
fn must_wait(step: Step, state: &State, is_inside: bool) -> Result<Option<Arrival>> {
    let Step::Enter(specified) = step else {
        return Ok(None);
    };
    let leaving = state.arrival();
    let is_next = step.specified() == Some(leaving.generation.saturating_add(1));
    if leaving.phase() == BarrierPhase::Entering || specified.is_some() && !is_next {
        return Ok(None);
    }
    match specified {
        _ if !is_inside => Ok(Some(leaving)),
        None => Ok(Some(Arrival {
            generation: leaving.generation - 1,
            ..leaving
        })),
        Some(_) => {
            let before = state.number(leaving.generation);
            let error = format!("the participant has not left generation {before}");
            Err(Error::invalid(error).with_hint("leave it first"))
        }
    }
}

fn not_begun(step: Step, state: &State) -> Error {
    let present = state.number(state.generation);
    match step {
        Step::Leave { generation, .. } => Error::invalid(format!(
            "generation {generation} is not open: not all have entered"
        ))
        .with_hint("leave it when enter returns that it has opened"),
        Step::Arrive(generation) | Step::Enter(generation) => Error::invalid(format!(
            "generation {} has not begun: the next arrival is in generation {present}",
            generation.unwrap_or_default()
        ))
        .with_hint("a participant may arrive in a generation when it knows how the one before ended"),
    }
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

/// Returns the put that keeps the cell of an opened generation, without a TTL, and without names
/// unless they have entered a double barrier. A read ends at the newest cell that has not expired, and
/// would otherwise go through the expired cells of all earlier generations. The next generation's cell
/// lies over it.
fn keep_arrivals(
    row: &Bytes,
    arrivals: &Arrivals,
    state: &ObservedCell,
    observation: &BarrierObservation,
) -> Option<Mutation> {
    let cell = match observation.present() {
        Some((_, cell)) => cell,
        None if arrivals.names.is_empty() => return None,
        // The only party. Nothing hides a cell at the timestamp of one that is visible; no delete
        // marker hides one as late as the state.
        None => observation.arrivals.as_ref().map_or(state, |(_, cell)| cell),
    };
    let put = Put::new(row.clone()).cell_at(STATE, ARRIVALS, cell.timestamp, arrivals.encode());
    Some(put.into())
}
