//! A barrier as it was read.

use bytes::Bytes;
use hbase_client::{Get, Row};

use super::{
    arrival::{Arrival, BarrierOutcome, absent},
    cells::{ARRIVALS, Arrivals, BARRIER, State},
};
use crate::{
    error::{Error, ErrorKind, Result},
    latch::{layout::STATE, observation::ObservedCell},
};

/// What a cell says, and the cell.
type Decoded<T> = (T, ObservedCell);

/// A barrier at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BarrierObservation {
    pub(super) state: Option<Decoded<State>>,
    /// The cell of who has arrived; it may be that of a generation before.
    pub(super) arrivals: Option<Decoded<Arrivals>>,
    /// Whether that cell hid one that was written after it: the clock of the server that stamped it
    /// was ahead.
    pub(super) hides: bool,
}

/// What is read of a barrier.
pub(super) fn get(row: &Bytes) -> Get {
    Get::new(row.clone())
        .column(STATE, BARRIER)
        .column(STATE, ARRIVALS)
}

impl BarrierObservation {
    /// Reads a row.
    ///
    /// # Errors
    ///
    /// [`LatchCorrupt`](ErrorKind::LatchCorrupt) for what no version of this library writes.
    pub(super) fn of(row: Option<&Row>) -> Result<Self> {
        Ok(Self {
            state: decoded(row, &BARRIER, State::decode)?,
            arrivals: decoded(row, &ARRIVALS, Arrivals::decode)?,
            hides: false,
        })
    }

    /// Returns the arrivals in the present generation. `None` if there are none, or its time is
    /// over.
    pub(super) fn present(&self) -> Option<&Decoded<Arrivals>> {
        let (state, _) = self.state.as_ref()?;
        let is_present = |(arrivals, _): &&Decoded<Arrivals>| {
            state.is_filling && (arrivals.barrier, arrivals.generation) == (state.barrier, state.generation)
        };
        self.arrivals.as_ref().filter(is_present)
    }

    /// Whether the present generation was not full when its time was over.
    pub(super) fn is_over(&self) -> bool {
        self.state.as_ref().is_some_and(|(state, _)| state.is_filling) && self.present().is_none()
    }

    /// How the generation of an arrival ended; none as long as it has not.
    ///
    /// # Errors
    ///
    /// [`LatchAbsent`](ErrorKind::LatchAbsent) when there is no such barrier any more;
    /// [`LatchExpired`](ErrorKind::LatchExpired) when too many others have ended since.
    pub(super) fn ended(&self, arrival: &Arrival) -> Result<Option<BarrierOutcome>> {
        let state = match &self.state {
            Some((state, _)) if state.barrier == arrival.barrier => state,
            _ => return Err(absent()),
        };
        if state.generation <= arrival.generation {
            return Ok(self.is_over().then_some(BarrierOutcome::Broken));
        }
        match state.ended(arrival.generation) {
            Some(outcome) => Ok(Some(outcome)),
            None => Err(Error::new(
                ErrorKind::LatchExpired,
                format!("how generation {} ended is forgotten", arrival.generation),
            )
            .with_hint("wait for a generation at once when its participant has arrived; show tells which is filling now")),
        }
    }

    /// Whether the generation of an arrival was not full when its time was over, or looks so
    /// because its cell is hidden.
    pub(super) fn is_broken(&self, arrival: &Arrival) -> bool {
        matches!(self.ended(arrival), Ok(Some(BarrierOutcome::Broken)))
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
            "the barrier's cells are none that this version can read",
        )
        .with_hint("delete the barrier")
    })?;
    Ok(Some((read, ObservedCell::of(cell))))
}
