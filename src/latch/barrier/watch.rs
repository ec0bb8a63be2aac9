//! Waiting for barriers.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{
    StreamExt,
    stream::{self, BoxStream, FuturesUnordered},
};
use hbase_client::{
    Table,
    low_level::{GetAnswer, TableCalls},
};
use tokio::{runtime::Handle, time::Instant};

use super::{
    arrival::{Arrival, BarrierOutcome},
    location::BarrierLocation,
    observation::{self, BarrierObservation},
};
use crate::{
    error::{Error, Result},
    latch::watch::{Extent, PollResult, Progress, Source},
};

/// The source of reads of the barriers of a table.
#[derive(Clone)]
pub(in crate::latch) struct BarrierTable(pub(in crate::latch) Table);

/// The last known state of an awaited barrier.
#[derive(Clone, Debug, Default)]
pub(in crate::latch) struct BarrierProgress {
    seen: Option<BarrierObservation>,
    /// Whether it cannot be read: each waiter reads it itself for the error.
    has_failed: bool,
}

impl BarrierProgress {
    /// Returns how the generation of an arrival ended, or why that is not known any more. `None` if it has
    /// not ended, and for an arrival at another barrier of this name.
    pub(super) fn ended(&self, arrival: &Arrival) -> Option<Result<BarrierOutcome>> {
        let seen = self.seen.as_ref().filter(|seen| seen.is_of(arrival))?;
        seen.ended(arrival).transpose()
    }

    /// Returns whether a waiter knows the end, or must read the barrier itself to know.
    pub(super) fn is_decided(&self, arrival: &Arrival) -> bool {
        match &self.seen {
            Some(seen) if seen.is_of(arrival) => self.ended(arrival).is_some(),
            Some(_) => true,
            None => false,
        }
    }
}

impl Progress for BarrierProgress {
    type Key = Bytes;
    type Seen = BarrierObservation;

    fn see(&mut self, _: u64, _: &Bytes, _: Extent, seen: Result<BarrierObservation>) -> Option<bool> {
        match seen {
            Ok(seen) => {
                let before = self.seen.as_ref().map(BarrierObservation::arrival);
                let is_new = before != Some(seen.arrival());
                self.seen = Some(seen);
                Some(is_new)
            }
            Err(error) => {
                self.has_failed = !error.is_retryable();
                Some(self.has_failed)
            }
        }
    }

    fn fail(&mut self, _: u64, error: &Error, _: &Arc<str>) -> bool {
        self.has_failed = !error.is_retryable();
        self.has_failed
    }

    fn has_ended(&self) -> bool {
        self.has_failed
    }

    fn left(&self) -> Option<u64> {
        self.seen.as_ref().map(BarrierObservation::left)
    }

    fn expires(&self) -> Option<u64> {
        let (_, cell) = self.seen.as_ref()?.present()?;
        cell.expires
    }
}

impl Source for BarrierTable {
    type Progress = BarrierProgress;

    fn runtime(&self) -> &Handle {
        TableCalls::runtime(&self.0)
    }

    fn deadline(&self) -> Instant {
        TableCalls::deadline(&self.0)
    }

    fn distance(&self, time: u64) -> Duration {
        Source::distance(&self.0, time)
    }

    /// Also ends the generations whose time is over.
    fn read_each(
        &self,
        barriers: &[(Arc<Bytes>, Extent)],
        deadline: Instant,
    ) -> BoxStream<'_, PollResult<BarrierObservation>> {
        let locations: Vec<_> = barriers.iter().map(|(row, _)| self.location(row)).collect();
        let gets = barriers.iter().map(|(row, _)| observation::get(row)).collect();
        // No barrier waits for the end of another one to be written.
        let seen = move |answer| match answer {
            GetAnswer::Found(found) => {
                let (mut seen, ending) = (Vec::new(), FuturesUnordered::new());
                for (place, row) in found {
                    match BarrierObservation::of(row.as_ref()) {
                        Ok(over) if over.is_over() => {
                            let location = locations[place].clone();
                            ending.push(async move {
                                let ended = location.end_if_over(over, deadline).await;
                                PollResult::Found(vec![(place, ended)])
                            });
                        }
                        other => seen.push((place, other)),
                    }
                }
                stream::iter([PollResult::Found(seen)]).chain(ending).boxed()
            }
            GetAnswer::Failed(places, error) => {
                stream::iter([PollResult::Failed(places, error.into())]).boxed()
            }
        };
        let answers = self.0.get_each(gets, deadline);
        answers.flat_map_unordered(None, seen).boxed()
    }
}

impl BarrierTable {
    fn location(&self, row: &Bytes) -> BarrierLocation {
        BarrierLocation {
            table: self.0.clone(),
            row: row.clone(),
        }
    }
}
