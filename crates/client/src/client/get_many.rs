//! Many gets at once: one call for each server.
//!
//! First the region of every row is found, and each server asked for what it serves. What a server
//! answers is returned at once. The rows of a region that failed, or is nowhere, then go their own
//! way without delaying others: their [`Attempts`] judge the failure, forget the location, pause,
//! and end it all when there is no use, as for a single get.

mod call;

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec,
};

use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt, future::BoxFuture, stream, stream::FuturesUnordered};
use tokio::time::Instant;

use self::call::Limits;
use super::Table;
use crate::{
    cluster::{Attempts, CallKind, Operation, RegionLocation},
    error::{Error, Result},
    model::{Get, RegionInfo, Row, ServerName},
    rpc::CallError,
    wire::{convert, pb},
};

/// What is done, for errors.
const NAME: &str = "get_many";

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

/// A part that is asked for again, if the failure allows it.
struct Failed<'a> {
    placed: Placed<'a>,
    failure: CallError,
}

/// The answer to some of the gets of one call. Each get is identified by its index in the list that
/// was passed.
#[derive(Debug)]
pub enum GetAnswer {
    /// Rows that were read, each with the index of its get. `None` for a row without any requested
    /// cell.
    Found(Vec<(usize, Option<Row>)>),
    /// Gets that failed for good or did not complete before the deadline.
    Failed(Vec<usize>, Error),
}

/// Gets that are on their way.
struct Reading<'a> {
    table: &'a Table,
    limits: Limits,
    deadline: Instant,
    steps: FuturesUnordered<BoxFuture<'a, Step<'a>>>,
    answers: VecDeque<GetAnswer>,
}

/// The calls to one server that are made one after the other.
type Lane<'a> = vec::IntoIter<Vec<Placed<'a>>>;

/// What has become of some gets.
enum Step<'a> {
    /// Their regions were found, but for those that are nowhere just now.
    Placed {
        servers: BTreeMap<ServerName, Vec<Placed<'a>>>,
        away: Vec<Part<'a>>,
    },
    /// A server has answered one call, and what is left of its lane is to be asked.
    Asked {
        found: Vec<(usize, Option<Row>)>,
        failed: Vec<Failed<'a>>,
        lane: Lane<'a>,
    },
    /// They may be asked for again.
    Recovered(Part<'a>),
    GivenUp(Part<'a>, Error),
}

impl Table {
    /// Reads many rows, with one concurrent call per server. Returns the answers in the order of
    /// the gets, with `None` for a row without a requested cell. Two gets of one row have an answer
    /// each.
    ///
    /// A server is asked for at most 5,000 rows in one call, and in at most 1 MiB; what is more
    /// goes in further calls, two at a time. All answers are held in memory. Each row is read by
    /// itself: together they need not be of one moment. Regions that move or are split meanwhile
    /// are found again, and only their rows are read once more.
    ///
    /// It is all or nothing: when one row can't be read within the operation timeout, the error
    /// says which. A future that is dropped changes nothing.
    ///
    /// # Errors
    ///
    /// Returns an error as [`get`](Self::get) does, with the first row that failed.
    ///
    /// # Example
    ///
    /// ```no_run
    /// # async fn example(table: hbase_client::Table) -> hbase_client::Result<()> {
    /// use hbase_client::Get;
    ///
    /// let rows = table.get_many(["a", "b"].map(Get::new)).await?;
    /// assert_eq!(rows.len(), 2);
    /// # Ok(()) }
    /// ```
    pub async fn get_many(&self, gets: impl IntoIterator<Item = Get>) -> Result<Vec<Option<Row>>> {
        let gets: Vec<Get> = gets.into_iter().collect();
        for get in &gets {
            get.check()
                .map_err(|error| error.at_operation(NAME).at_table(&self.name))?;
        }
        let mut rows = vec![None; gets.len()];
        let mut reading = self.reading(gets, Limits::FEW, self.deadline());
        while let Some(answer) = reading.next().await {
            match answer {
                GetAnswer::Found(found) => {
                    for (place, row) in found {
                        rows[place] = row;
                    }
                }
                GetAnswer::Failed(_, error) => return Err(error),
            }
        }
        Ok(rows)
    }

    /// As [`get_many`](Self::get_many), but returns each answer as soon as it is known, what
    /// can't be read holds up nothing else, and a server is asked for at most 1,250 rows in one
    /// call, in four calls at a time. Every get is answered once, by the deadline. The gets must be
    /// [checked](Get::check).
    pub(crate) fn get_each(
        &self,
        gets: Vec<Get>,
        deadline: Instant,
    ) -> impl Stream<Item = GetAnswer> + Send + '_ {
        stream::unfold(self.reading(gets, Limits::SOON, deadline), async |mut reading| {
            let answer = reading.next().await?;
            Some((answer, reading))
        })
    }

    fn reading(&self, gets: Vec<Get>, limits: Limits, deadline: Instant) -> Reading<'_> {
        let wanted = gets.into_iter().enumerate().map(|(place, get)| Wanted {
            place,
            message: convert::get_message(&get),
            row: get.row,
        });
        let mut wanted: Vec<_> = wanted.collect();
        wanted.sort_by(|one, other| one.row.cmp(&other.row));
        let reading = Reading {
            table: self,
            limits,
            deadline,
            steps: FuturesUnordered::new(),
            answers: VecDeque::new(),
        };
        if let Some(part) = self.part(wanted, reading.deadline) {
            reading.place(part);
        }
        reading
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

    /// Cuts a part where its first region ends: what lies behind it, if anything does.
    fn cut<'a>(&'a self, part: &mut Part<'a>, region: &RegionInfo, deadline: Instant) -> Option<Part<'a>> {
        let inside = part.gets.partition_point(|get| region.contains(&get.row));
        self.part(part.gets.split_off(inside.max(1)), deadline)
    }

    /// Finds the regions of all rows of a part, cuts the part where a region ends, and gives the
    /// pieces to the servers.
    async fn placed<'a>(&'a self, part: Part<'a>, deadline: Instant) -> Step<'a> {
        let mut servers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let mut away = Vec::new();
        let mut next = Some(part);
        while let Some(mut part) = next.take() {
            match part.attempts.locate_now().await {
                Ok(location) => {
                    next = self.cut(&mut part, &location.region, deadline);
                    let server = servers.entry(location.server.clone()).or_default();
                    server.push(Placed { part, location });
                }
                Err(region) => {
                    // Where no region is known, nothing is known of what lies behind it.
                    next = region.and_then(|region| self.cut(&mut part, &region, deadline));
                    away.push(part);
                }
            }
        }
        Step::Placed { servers, away }
    }

    /// Reads what is asked for in one call.
    async fn asked<'a>(&'a self, call: Vec<Placed<'a>>, lane: Lane<'a>) -> Step<'a> {
        let (mut found, mut failed) = (Vec::new(), Vec::new());
        if let Some(Placed { part, location }) = call.first() {
            let request = call::message(&call);
            let answer = self
                .call(location, "Multi", &request, part.attempts.attempt_limit())
                .await
                .and_then(|(answer, block)| call::read(&call, answer, block));
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
        Step::Asked { found, failed, lane }
    }
}

impl<'a> Failed<'a> {
    async fn recovered(self) -> Step<'a> {
        let Placed { mut part, location } = self.placed;
        match part.attempts.recover(self.failure, &location).await {
            Ok(()) => Step::Recovered(part),
            Err(error) => Step::GivenUp(part, error),
        }
    }
}

impl<'a> Part<'a> {
    /// Waits for its first region to be somewhere.
    async fn located(mut self) -> Step<'a> {
        match self.attempts.locate().await {
            Ok(_) => Step::Recovered(self),
            Err(error) => Step::GivenUp(self, error),
        }
    }
}

impl<'a> Reading<'a> {
    /// The next answer, or `None` after the last.
    async fn next(&mut self) -> Option<GetAnswer> {
        loop {
            if let Some(answer) = self.answers.pop_front() {
                return Some(answer);
            }
            let step = self.steps.next().await?;
            self.go_on(step);
        }
    }

    fn go_on(&mut self, step: Step<'a>) {
        match step {
            Step::Placed { servers, away } => {
                for placed in servers.into_values() {
                    self.ask_server(placed);
                }
                self.steps
                    .extend(away.into_iter().map(|part| part.located().boxed()));
            }
            Step::Asked { found, failed, lane } => {
                self.ask(lane);
                self.steps
                    .extend(failed.into_iter().map(|failed| failed.recovered().boxed()));
                self.answers
                    .extend((!found.is_empty()).then_some(GetAnswer::Found(found)));
            }
            Step::Recovered(part) => self.place(part),
            Step::GivenUp(part, error) => {
                let places = part.gets.iter().map(|get| get.place).collect();
                self.answers.push_back(GetAnswer::Failed(places, error));
            }
        }
    }

    fn place(&self, part: Part<'a>) {
        self.steps.push(self.table.placed(part, self.deadline).boxed());
    }

    /// Asks one server for what it has, in as few calls as the limits allow.
    fn ask_server(&self, placed: Vec<Placed<'a>>) {
        let calls = self.table.calls(placed, self.limits, self.deadline);
        let mut lanes: Vec<Vec<_>> = Vec::new();
        lanes.resize_with(self.limits.lanes, Vec::new);
        for (number, call) in calls.into_iter().enumerate() {
            lanes[number % self.limits.lanes].push(call);
        }
        for lane in lanes {
            self.ask(lane.into_iter());
        }
    }

    fn ask(&self, mut lane: Lane<'a>) {
        if let Some(call) = lane.next() {
            self.steps.push(self.table.asked(call, lane).boxed());
        }
    }
}

#[cfg(test)]
mod tests;
