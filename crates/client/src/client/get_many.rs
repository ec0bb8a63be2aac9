//! Many gets at once, with one call for each server.
//!
//! The client finds the region of every row, asks each server for the rows that it serves, and
//! returns each answer at once. The rows of a failed or unassigned region are then retried on their
//! own, without delaying others: their [`Attempts`] judge the failure, forget the location, pause,
//! or give up, as for a single get.

mod call;
mod exists;

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec,
};

use bytes::Bytes;
use futures::{
    FutureExt, Stream, StreamExt, TryFutureExt, TryStreamExt,
    future::{BoxFuture, try_join},
    stream,
    stream::FuturesUnordered,
};
use prost::Message;
use tokio::time::Instant;

use self::call::Limits;
use super::Table;
use crate::{
    cluster::{Attempts, CallKind, Operation, RegionLocation},
    error::{Error, Result},
    model::{Consistency, Get, RegionInfo, Row, ServerName},
    rpc::{AttemptLimit, CallError},
    wire::{convert, pb},
};

/// A get, and its index in the caller's list.
struct Wanted {
    place: usize,
    row: Bytes,
    message: Bytes,
}

/// The operation that gets belong to.
#[derive(Clone, Copy)]
struct ReadMany {
    name: &'static str,
    deadline: Instant,
}

/// Gets that are in one region according to the cache, in the order of their rows. Never empty.
struct Part<'a> {
    attempts: Attempts<'a>,
    gets: Vec<Wanted>,
}

/// A part and the location of its region.
struct Placed<'a> {
    part: Part<'a>,
    location: Arc<RegionLocation>,
}

/// A part that is requested again if the failure allows it.
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

/// Gets in progress.
struct Reading<'a> {
    table: &'a Table,
    limits: Limits,
    operation: ReadMany,
    steps: FuturesUnordered<BoxFuture<'a, Step<'a>>>,
    answers: VecDeque<GetAnswer>,
}

/// Calls to one server that are made one after the other.
type Lane<'a> = vec::IntoIter<Vec<Placed<'a>>>;

/// The result of a step for some gets.
enum Step<'a> {
    /// Their regions were found, except those that are unassigned at the moment.
    Placed {
        servers: BTreeMap<ServerName, Vec<Placed<'a>>>,
        away: Vec<Part<'a>>,
    },
    /// A server has answered one call. The rest of its lane follows.
    Asked {
        found: Vec<(usize, Option<Row>)>,
        failed: Vec<Failed<'a>>,
        lane: Lane<'a>,
    },
    /// They may be requested again.
    Recovered(Part<'a>),
    GivenUp(Part<'a>, Error),
}

/// A read of one row that a replica may answer, within the deadline.
type ReadTimeline<'a> = fn(&'a Table, Get, Instant) -> BoxFuture<'a, Result<Option<Row>>>;

/// The number of gets with [`Consistency::Timeline`] that are in flight at a time.
const TIMELINE_GETS: usize = 64;

impl Table {
    /// Reads many rows, with one concurrent call per server. Returns the answers in the order of
    /// the gets, with `None` for a row without a requested cell. Two gets of one row have an answer
    /// each.
    ///
    /// One call requests at most 5,000 rows of a server, in at most 1 MiB. Further rows go in
    /// further calls, two at a time. All answers are held in memory. Each row is read on its own,
    /// so the rows may be from different moments. If regions move or split meanwhile, only their
    /// rows are located and read again.
    ///
    /// A get with [`Consistency::Timeline`](crate::Consistency::Timeline) goes in a call of its own, 64 of
    /// them at a time, and replicas may answer it as a single one.
    ///
    /// The call is all or nothing: if a row cannot be read within the operation timeout, the error
    /// names it. Dropping the future has no effect on the data.
    ///
    /// # Errors
    ///
    /// Returns an error as [`get`](Self::get) does, with the first row that failed.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::Get;
    ///
    /// # use hbase_client::Put;
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// # table.put(Put::new("a").cell("f", "q", "v")).await?;
    /// let rows = table.get_many(["a", "b"].map(Get::new)).await?;
    /// assert!(rows[0].is_some() && rows[1].is_none());
    /// # Ok(()) });
    /// ```
    pub async fn get_many(&self, gets: impl IntoIterator<Item = Get>) -> Result<Vec<Option<Row>>> {
        self.read_many("get_many", gets, convert::get_message, |table, get, deadline| {
            Box::pin(async move { table.get_timeline("get_many", &get, deadline).await })
        })
        .await
    }

    /// Reads many rows, with gets of this form on the wire.
    async fn read_many<'a>(
        &'a self,
        name: &'static str,
        gets: impl IntoIterator<Item = Get>,
        message: impl Fn(&Get) -> pb::Get,
        read_timeline: ReadTimeline<'a>,
    ) -> Result<Vec<Option<Row>>> {
        let gets: Vec<Get> = gets.into_iter().collect();
        for get in &gets {
            get.check()
                .map_err(|error| error.at_operation(name).at_table(&self.name))?;
        }
        let mut rows = vec![None; gets.len()];
        let deadline = self.deadline();
        let (strong, timeline): (Vec<_>, Vec<_>) = gets
            .into_iter()
            .enumerate()
            .partition(|(_, get)| get.selection.consistency == Consistency::Strong);
        let (places, strong): (Vec<_>, Vec<_>) = strong.into_iter().unzip();
        let mut reading = self.reading(strong, message, Limits::FEW, ReadMany { name, deadline });
        let shared = async {
            let mut all = Vec::with_capacity(places.len());
            while let Some(answer) = reading.next().await {
                match answer {
                    GetAnswer::Found(found) => all.extend(found),
                    GetAnswer::Failed(_, error) => return Err(error),
                }
            }
            Ok(all)
        };
        let single = stream::iter(timeline)
            .map(|(place, get)| read_timeline(self, get, deadline).map_ok(move |row| (place, row)))
            .buffer_unordered(TIMELINE_GETS)
            .try_collect::<Vec<_>>();
        let (shared, single) = try_join(shared, single).await?;
        for (place, row) in shared {
            rows[places[place]] = row;
        }
        for (place, row) in single {
            rows[place] = row;
        }
        Ok(rows)
    }

    /// Reads as [`get_many`](Self::get_many) does, but returns each answer as soon as it is known.
    /// A row that cannot be read does not delay the others. One call requests at most 1,250 rows of
    /// a server, in four calls at a time. Every get is answered once, by the deadline. The gets
    /// must be [checked](Get::check).
    pub(crate) fn get_each(
        &self,
        name: &'static str,
        gets: Vec<Get>,
        deadline: Instant,
    ) -> impl Stream<Item = GetAnswer> + Send + '_ {
        let reading = self.reading(
            gets,
            convert::get_message,
            Limits::SOON,
            ReadMany { name, deadline },
        );
        stream::unfold(reading, async |mut reading| {
            let answer = reading.next().await?;
            Some((answer, reading))
        })
    }

    fn reading(
        &self,
        gets: Vec<Get>,
        message: impl Fn(&Get) -> pb::Get,
        limits: Limits,
        operation: ReadMany,
    ) -> Reading<'_> {
        let wanted = gets.into_iter().enumerate().map(|(place, get)| Wanted {
            place,
            message: message(&get).encode_to_vec().into(),
            row: get.row,
        });
        let mut wanted: Vec<_> = wanted.collect();
        wanted.sort_by(|one, other| one.row.cmp(&other.row));
        let reading = Reading {
            table: self,
            limits,
            operation,
            steps: FuturesUnordered::new(),
            answers: VecDeque::new(),
        };
        if let Some(part) = self.part(wanted, operation) {
            reading.place(part);
        }
        reading
    }

    /// Returns the gets as one part, or `None` if there are none.
    fn part(&self, gets: Vec<Wanted>, operation: ReadMany) -> Option<Part<'_>> {
        let ReadMany { name, deadline } = operation;
        let operation = Operation {
            name,
            table: &self.name,
            row: Cow::Owned(gets.first()?.row.clone()),
            kind: CallKind::Read,
            deadline,
        };
        Some(Part {
            attempts: Attempts::new(&self.connection.shared.cluster, operation),
            gets,
        })
    }

    /// Cuts a part at the end of its first region, and returns the rest, if there is one.
    fn cut<'a>(&'a self, part: &mut Part<'a>, region: &RegionInfo, operation: ReadMany) -> Option<Part<'a>> {
        let inside = part.gets.partition_point(|get| region.contains(&get.row));
        self.part(part.gets.split_off(inside.max(1)), operation)
    }

    /// Locates the regions of all rows of a part, cuts the part where a region ends, and groups the
    /// pieces by server.
    async fn placed<'a>(&'a self, part: Part<'a>, operation: ReadMany) -> Step<'a> {
        let mut servers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let mut away = Vec::new();
        let mut next = Some(part);
        while let Some(mut part) = next.take() {
            match part.attempts.locate_now().await {
                Ok(location) => {
                    next = self.cut(&mut part, &location.region, operation);
                    let server = servers.entry(location.server.clone()).or_default();
                    server.push(Placed { part, location });
                }
                Err(region) => {
                    // Without a known region, its end is unknown too.
                    next = region.and_then(|region| self.cut(&mut part, &region, operation));
                    away.push(part);
                }
            }
        }
        Step::Placed { servers, away }
    }

    /// Reads all parts of one call.
    async fn asked<'a>(&'a self, call: Vec<Placed<'a>>, lane: Lane<'a>) -> Step<'a> {
        let (mut found, mut failed) = (Vec::new(), Vec::new());
        let limits = call
            .iter()
            .map(|Placed { part, location }| part.attempts.attempt_limit(location));
        if let (Some(limit), Some(first)) = (limits.reduce(AttemptLimit::with), call.first()) {
            let (request, location) = (call::message(&call), &first.location);
            let answer = self
                .call(location, "Multi", &request, limit)
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
    /// Waits until its first region is served.
    async fn located(mut self) -> Step<'a> {
        match self.attempts.locate().await {
            Ok(_) => Step::Recovered(self),
            Err(error) => Step::GivenUp(self, error),
        }
    }
}

impl<'a> Reading<'a> {
    /// Returns the next answer, or `None` after the last.
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
        self.steps.push(self.table.placed(part, self.operation).boxed());
    }

    /// Requests all parts of one server, in as few calls as the limits allow.
    fn ask_server(&self, placed: Vec<Placed<'a>>) {
        let calls = self.table.calls(placed, self.limits, self.operation);
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
