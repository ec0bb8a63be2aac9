//! A barrier as it was read.

use bytes::Bytes;
use hbase_client::{Get, Row, Scan};

use super::{
    arrival::{Arrival, BarrierOutcome, BarrierPhase, absent},
    cells::{ARRIVALS, Arrivals, BARRIER, Name, State},
};
use crate::{
    error::{Error, ErrorKind, Result},
    latch::{layout::STATE, observation::ObservedCell},
};

/// A decoded cell, and the cell itself.
type Decoded<T> = (T, ObservedCell);

/// A barrier at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::latch) struct BarrierObservation {
    pub(super) state: Option<Decoded<State>>,
    /// The cell of the arrivals, which may be from an earlier generation.
    pub(super) arrivals: Option<Decoded<Arrivals>>,
    /// Whether that cell hid a cell that was written after it, because the clock of the server that
    /// stamped it was ahead.
    pub(super) hides: bool,
}

/// Returns the read of a barrier.
pub(super) fn get(row: &Bytes) -> Get {
    Get::new(row.clone())
        .column(STATE, BARRIER)
        .column(STATE, ARRIVALS)
}

/// Returns the scan of all barriers of a table.
pub(in crate::latch) fn scan() -> Scan {
    Scan::new().column(STATE, BARRIER).column(STATE, ARRIVALS)
}

impl BarrierObservation {
    /// Decodes a row.
    ///
    /// # Errors
    ///
    /// Returns [`LatchCorrupt`](ErrorKind::LatchCorrupt) for cells that no version of this library
    /// writes.
    pub(in crate::latch) fn of(row: Option<&Row>) -> Result<Self> {
        Ok(Self {
            state: decoded(row, &BARRIER, State::decode)?,
            arrivals: decoded(row, &ARRIVALS, Arrivals::decode)?,
            hides: false,
        })
    }

    /// Returns the arrivals in the current generation. `None` if there are none, or its time is
    /// over.
    pub(super) fn present(&self) -> Option<&Decoded<Arrivals>> {
        let (state, _) = self.state.as_ref()?;
        let is_present = |(arrivals, _): &&Decoded<Arrivals>| {
            state.is_filling && (arrivals.barrier, arrivals.generation) == (state.barrier, state.generation)
        };
        self.arrivals.as_ref().filter(is_present)
    }

    /// Returns the state of a barrier, double or not.
    ///
    /// # Errors
    ///
    /// - [`LatchAbsent`](ErrorKind::LatchAbsent) if the barrier does not exist;
    /// - [`DefinitionMismatch`](ErrorKind::DefinitionMismatch) if it is one of the other kind.
    pub(super) fn of_kind(&self, is_double: bool) -> Result<&Decoded<State>> {
        let found = self.state.as_ref().ok_or_else(absent)?;
        if found.0.is_double == is_double {
            return Ok(found);
        }
        let (what, hint) = if is_double {
            ("it is not a double barrier", "arrive at it, or use another name")
        } else {
            (
                "it is a double barrier",
                "enter and leave it, or use another name",
            )
        };
        Err(Error::new(ErrorKind::DefinitionMismatch, what).with_hint(hint))
    }

    /// Returns the participants that have entered a double barrier and not left it. Empty unless this
    /// state, which is the read one or the one after it, is in the phase of leaving.
    pub(super) fn inside(&self, state: &State) -> &[Name] {
        let Some((arrivals, _)) = &self.arrivals else {
            return &[];
        };
        let is_leaving = state.phase() == Some(BarrierPhase::Leaving);
        if !is_leaving || arrivals.barrier != state.barrier {
            return &[];
        }
        match state.generation.checked_sub(arrivals.generation) {
            Some(0) => &arrivals.inside,
            // No participant has left.
            Some(1) => &arrivals.names,
            _ => &[],
        }
    }

    /// Returns an arrival in the current generation. `None` if the barrier does not exist.
    pub(super) fn arrival(&self) -> Option<Arrival> {
        self.state.as_ref().map(|(state, _)| state.arrival())
    }

    /// Returns whether it is the barrier of this arrival.
    pub(super) fn is_of(&self, arrival: &Arrival) -> bool {
        self.state
            .as_ref()
            .is_some_and(|(state, _)| state.barrier == arrival.barrier)
    }

    /// Returns how many parties are missing in the current generation.
    pub(super) fn left(&self) -> u64 {
        let parties = self.state.as_ref().map_or(0, |(state, _)| state.parties);
        let arrived = self.present().map_or(0, |(present, _)| present.names.len());
        u64::from(parties).saturating_sub(arrived as u64)
    }

    /// Returns whether the current generation was not full when its time was over.
    pub(super) fn is_over(&self) -> bool {
        self.state.as_ref().is_some_and(|(state, _)| state.is_filling) && self.present().is_none()
    }

    /// Returns how the generation of an arrival ended. `None` if no change has ended it yet, even if
    /// it [is over](Self::is_over).
    ///
    /// # Errors
    ///
    /// - [`LatchAbsent`](ErrorKind::LatchAbsent) if the barrier does not exist any more;
    /// - [`LatchExpired`](ErrorKind::LatchExpired) if too many other generations have ended since.
    pub(super) fn ended(&self, arrival: &Arrival) -> Result<Option<BarrierOutcome>> {
        let state = match &self.state {
            Some((state, _)) if state.barrier == arrival.barrier => state,
            _ => return Err(absent()),
        };
        if state.generation <= arrival.generation {
            return Ok(None);
        }
        match state.ended(arrival.generation) {
            Some(outcome) => Ok(Some(outcome)),
            None => Err(Error::new(
                ErrorKind::LatchExpired,
                format!(
                    "the end of generation {} is no longer recorded",
                    state.number(arrival.generation)
                ),
            )
            .with_hint(
                "wait for a generation right after the arrival; show returns the number of the present one",
            )),
        }
    }

    /// Returns whether the generation of an arrival was not full when its time was over, or appears
    /// so because its cell is hidden.
    pub(super) fn is_broken(&self, arrival: &Arrival) -> bool {
        match self.ended(arrival) {
            Ok(None) => self.is_over(),
            Ok(Some(outcome)) => outcome == BarrierOutcome::Broken,
            Err(_) => false,
        }
    }
}

fn decoded<T>(
    row: Option<&Row>,
    column: &Bytes,
    decode: fn(&[u8]) -> Option<T>,
) -> Result<Option<Decoded<T>>> {
    let Some(cell) = row.and_then(|row| row.cell(&STATE, column)) else {
        return Ok(None);
    };
    let read = decode(&cell.value).ok_or_else(|| {
        Error::new(
            ErrorKind::LatchCorrupt,
            "this version cannot read the barrier's cells",
        )
        .with_hint("delete the barrier")
    })?;
    Ok(Some((read, ObservedCell::of(cell))))
}
