//! Many gets at once: one call for each server.
//!
//! In rounds. A round finds the region of every row that is still wanted, sends each server what it serves, and takes in
//! what was answered. The rows of a region that failed are the next round's: their [`Attempts`] judge the failure, forget
//! the location, pause, and end it all when there is no use, as for a single get.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use futures::future::{join_all, try_join_all};
use prost::Message;
use tokio::time::Instant;

use super::Table;
use crate::{
    cluster::{Attempts, CallKind, Operation, RegionLocation},
    error::{Effect, Result},
    model::{Get, Row, ServerName},
    rpc::{CallError, Recovery},
    wire::{cell_block::CellBlockDecoder, convert, frame::RemoteFault, pb},
};

/// What is done, for errors.
const NAME: &str = "get_many";

/// What one call asks for at most, unless a single get is larger.
const LIMITS: Limits = Limits {
    // A server warns of more (hbase.rpc.rows.warning.threshold).
    gets: 5_000,
    bytes: 1 << 20,
};

#[derive(Clone, Copy)]
struct Limits {
    gets: usize,
    bytes: usize,
}

/// A get, and its place among the answers.
struct Wanted {
    place: usize,
    row: Bytes,
    message: pb::Get,
}

/// Gets of one region, as far as is known; in order of their rows, one at least.
struct Part<'a> {
    attempts: Attempts<'a>,
    gets: Vec<Wanted>,
}

/// A part, and where its region is.
struct Placed<'a> {
    part: Part<'a>,
    location: Arc<RegionLocation>,
}

/// A part that goes on in the next round, if the failure allows it.
struct Failed<'a> {
    placed: Placed<'a>,
    failure: CallError,
}

impl Table {
    /// Reads many rows, with one call for each server that has any of them, to all of them at the same time. The answers
    /// are in the order of the gets: None for a row that has no cell that was asked for. Two gets of one row get an
    /// answer each.
    ///
    /// A server is asked for at most 5,000 rows in one call, and in at most 1 MiB; what is more goes in further calls, one
    /// after the other. All answers are held in memory. Each row is read by itself: together they need not be
    /// of one moment. Regions that move or are split meanwhile are found again, and only their rows are read once more.
    ///
    /// It is all or nothing: when one row can't be read within the operation timeout, the error says which. A future
    /// that is dropped changes nothing.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), with the first row that the failure was about.
    ///
    /// # Example
    ///
    /// ```no_run
    /// # async fn example(table: hbase_txn::Table) -> hbase_txn::Result<()> {
    /// use hbase_txn::Get;
    ///
    /// let rows = table.get_many(["a", "b"].map(Get::new)).await?;
    /// assert_eq!(rows.len(), 2);
    /// # Ok(()) }
    /// ```
    pub async fn get_many(&self, gets: impl IntoIterator<Item = Get>) -> Result<Vec<Option<Row>>> {
        let deadline = self.deadline();
        let mut wanted = Vec::new();
        for (place, get) in gets.into_iter().enumerate() {
            get.check()
                .map_err(|error| error.at_operation(NAME).at_table(&self.name))?;
            wanted.push(Wanted {
                place,
                message: convert::get_message(&get),
                row: get.row,
            });
        }
        self.read_many(wanted, deadline).await
    }

    async fn read_many(&self, mut wanted: Vec<Wanted>, deadline: Instant) -> Result<Vec<Option<Row>>> {
        let mut rows = vec![None; wanted.len()];
        wanted.sort_by(|one, other| one.row.cmp(&other.row));
        let mut parts: Vec<_> = self.part(wanted, deadline).into_iter().collect();
        while !parts.is_empty() {
            let servers = self.placed(parts, deadline).await?;
            let asked = servers
                .into_values()
                .map(|placed| self.ask_server(placed, deadline));
            let mut failed = Vec::new();
            for (found, failures) in join_all(asked).await {
                for (place, row) in found {
                    rows[place] = row;
                }
                failed.extend(failures);
            }
            // At the same time: each may have a pause to make.
            parts = try_join_all(failed.into_iter().map(Failed::recovered)).await?;
        }
        Ok(rows)
    }

    /// The gets as one part; none when there are none.
    fn part(&self, gets: Vec<Wanted>, deadline: Instant) -> Option<Part<'_>> {
        let operation = Operation {
            name: NAME,
            table: &self.name,
            row: Cow::Owned(gets.first()?.row.clone()),
            kind: CallKind::Read,
            deadline,
        };
        Some(Part {
            attempts: Attempts::new(&self.connection.cluster, operation),
            gets,
        })
    }

    /// Finds the regions of all parts, cuts the parts where a region ends, and gives them to the servers.
    async fn placed<'a>(
        &'a self,
        parts: Vec<Part<'a>>,
        deadline: Instant,
    ) -> Result<BTreeMap<ServerName, Vec<Placed<'a>>>> {
        let mut servers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for part in parts {
            let mut next = Some(part);
            while let Some(mut part) = next {
                let location = part.attempts.locate().await?;
                let inside = part
                    .gets
                    .partition_point(|get| location.region.contains(&get.row));
                next = self.part(part.gets.split_off(inside.max(1)), deadline);
                servers
                    .entry(location.server.clone())
                    .or_default()
                    .push(Placed { part, location });
            }
        }
        Ok(servers)
    }

    /// Reads what one server has, with as few calls as the limits allow.
    async fn ask_server<'a>(
        &'a self,
        placed: Vec<Placed<'a>>,
        deadline: Instant,
    ) -> (Vec<(usize, Option<Row>)>, Vec<Failed<'a>>) {
        let (mut found, mut failed) = (Vec::new(), Vec::new());
        for call in self.calls(placed, LIMITS, deadline) {
            let request = message(&call);
            let Some(Placed { part, location }) = call.first() else {
                continue;
            };
            let answer = self
                .call(location, "Multi", &request, part.attempts.attempt_deadline())
                .await
                .and_then(|(answer, block)| read(&call, answer, block));
            match answer {
                Ok(answers) => {
                    for (placed, answer) in call.into_iter().zip(answers) {
                        found.extend(answer.found);
                        failed.extend(placed.without(answer.failures));
                    }
                }
                Err(failure) => failed.extend(call.into_iter().map(|placed| Failed {
                    placed,
                    failure: failure.clone(),
                })),
            }
        }
        (found, failed)
    }

    /// The parts of one server as the calls that they are read with.
    fn calls<'a>(
        &'a self,
        placed: Vec<Placed<'a>>,
        limits: Limits,
        deadline: Instant,
    ) -> Vec<Vec<Placed<'a>>> {
        let mut calls = Vec::new();
        let mut call = Vec::new();
        let mut left = limits;
        for Placed { part, location } in placed {
            let mut next = Some(part);
            while let Some(mut part) = next {
                let mut fitting = 0;
                for get in &part.gets {
                    let bytes = get.message.encoded_len();
                    let first = fitting == 0 && call.is_empty();
                    if !first && (left.gets == 0 || left.bytes < bytes) {
                        break;
                    }
                    left.gets -= 1;
                    left.bytes = left.bytes.saturating_sub(bytes);
                    fitting += 1;
                }
                if fitting == 0 {
                    calls.push(std::mem::take(&mut call));
                    left = limits;
                    next = Some(part);
                    continue;
                }
                next = self.part(part.gets.split_off(fitting), deadline);
                call.push(Placed {
                    part,
                    location: Arc::clone(&location),
                });
            }
        }
        calls.extend(Some(call).filter(|call| !call.is_empty()));
        calls
    }
}

impl<'a> Placed<'a> {
    /// What of the part has failed, if anything has, and is left to read.
    fn without(mut self, mut failures: BTreeMap<usize, CallError>) -> Option<Failed<'a>> {
        // The first failure says how to go on, unless another one says that there is no use.
        let lead = failures
            .iter()
            .find(|(_, failure)| failure.ruling().recovery == Recovery::Fail)
            .or_else(|| failures.iter().next())
            .map(|(at, _)| *at)?;
        // The attempts are those of this row from now on. What failed before it has been read, so there is progress.
        self.part.attempts.relocate_to(self.part.gets[lead].row.clone());
        let failure = failures.get(&lead)?.clone();
        let mut at = 0;
        self.part.gets.retain(|_| {
            at += 1;
            failures.remove(&(at - 1)).is_some()
        });
        Some(Failed {
            placed: self,
            failure,
        })
    }
}

impl<'a> Failed<'a> {
    async fn recovered(self) -> Result<Part<'a>> {
        let Placed { mut part, location } = self.placed;
        part.attempts.recover(self.failure, &location).await?;
        Ok(part)
    }
}

fn message(call: &[Placed<'_>]) -> pb::MultiRequest {
    let region_action = call.iter().map(|Placed { part, location }| pb::RegionAction {
        region: convert::region_specifier(&location.region),
        action: (0..)
            .zip(&part.gets)
            .map(|(index, get)| pb::Action {
                index: Some(index),
                get: Some(get.message.clone()),
                ..pb::Action::default()
            })
            .collect(),
        ..pb::RegionAction::default()
    });
    pb::MultiRequest {
        region_action: region_action.collect(),
        ..pb::MultiRequest::default()
    }
}

/// What the server answered to a part.
struct PartAnswer {
    /// Rows, and their places among the answers.
    found: Vec<(usize, Option<Row>)>,
    /// What went wrong, by the place of the get in the part.
    failures: BTreeMap<usize, CallError>,
}

/// Reads the answers to all parts of a call.
fn read(
    call: &[Placed<'_>],
    answer: pb::MultiResponse,
    mut block: CellBlockDecoder,
) -> Result<Vec<PartAnswer>, CallError> {
    let results = answer.region_action_result;
    if results.len() != call.len() {
        let (results, parts) = (results.len(), call.len());
        return Err(bad(format!("{results} answers to {parts} region actions")));
    }
    call.iter()
        .zip(results)
        .map(|(placed, result)| read_part(&placed.part.gets, result, &mut block))
        .collect()
}

/// The exception of a get, or of a region with all its gets. They are reads, and leave nothing behind.
fn failure(exception: &pb::NameBytesPair) -> CallError {
    CallError::Action {
        fault: Arc::new(RemoteFault::of_action(exception)),
        effect: Effect::None,
    }
}

fn bad(what: impl Into<Arc<str>>) -> CallError {
    CallError::BadAnswer(what.into())
}

fn read_part(
    gets: &[Wanted],
    result: pb::RegionActionResult,
    block: &mut CellBlockDecoder,
) -> Result<PartAnswer, CallError> {
    let mut answer = PartAnswer {
        found: Vec::with_capacity(gets.len()),
        failures: BTreeMap::new(),
    };
    if let Some(exception) = &result.exception {
        let failure = failure(exception);
        answer.failures = (0..gets.len()).map(|at| (at, failure.clone())).collect();
        return Ok(answer);
    }
    let mut answered = vec![false; gets.len()];
    // In the order of the message, in which the cells are too; which get a result is of, its index says.
    for part in result.result_or_exception {
        let at = part.index.and_then(|index| usize::try_from(index).ok());
        let (at, get) = match at.and_then(|at| Some((at, gets.get(at)?, answered.get_mut(at)?))) {
            Some((at, get, answered @ false)) => {
                *answered = true;
                (at, get)
            }
            _ => return Err(bad("a result of no get of the call, or a second one of the same")),
        };
        match (&part.exception, part.result) {
            (Some(exception), _) => {
                answer.failures.insert(at, failure(exception));
            }
            (None, Some(result)) => {
                let row = convert::row(result, block).map_err(|error| bad(error.to_string()))?;
                if row.as_ref().is_some_and(|row| *row.key() != get.row) {
                    return Err(bad("another row than the one that was asked for"));
                }
                answer.found.push((get.place, row));
            }
            (None, None) => return Err(bad("no result to a get")),
        }
    }
    match answered.contains(&false) {
        true => Err(bad("a get without an answer")),
        false => Ok(answer),
    }
}

#[cfg(test)]
mod tests;
