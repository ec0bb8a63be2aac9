//! Many mutations at once: few large calls, one for each region at a time.
//!
//! | file | contents |
//! |---|---|
//! | `queues` | mutations that wait for a call, by region |
//! | `call` | one call with mutations of several regions, and its answer |
//! | `load` | the load of regions that servers report, and the pauses of their mutations |
//! | `mutate_many` | a list of mutations, with one result each |
//! | `ingest` | a stream of mutations that becomes a stream of their progress |
//! | `writer` | a stream of mutations with bounded memory |
//! | `stamps` | timestamps of mutations that may be sent again |
//! | `watermark` | the number of mutations, from the first, that are done |
//!
//! The mutations of a region that share a call are one atomic action, as in the module of `lanes`:
//! so an exception means that none of them was applied. If the exception is final, the halves of the
//! part are sent again, until only the mutations that cause it fail.
//!
//! One part of a region is in flight at a time, and it is retried before others are sent. So the
//! mutations of a row are applied in their order.

mod call;
mod ingest;
mod load;
mod mutate_many;
mod queues;
mod stamps;
mod watermark;
mod writer;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

pub use self::ingest::IngestEvent;
pub use self::writer::{FailedWrite, Writer, WriterOptions};

use self::{
    call::Placed,
    load::ReportedLoad,
    queues::{MOST_BYTES, MOST_MUTATIONS, Next, Part, Queues, Stamping},
};
use super::{
    calls_in_flight::RegionsOfCall,
    flow::{EndOfCall, Flow, FlowLimits, LANES},
};
use crate::{
    client::{Table, region_call::failed_attempt::is_refusal},
    cluster::{Attempts, CallKind, Operation, RegionLocation},
    error::{Error, ErrorKind},
    model::{BytesBinary, ServerName},
    observe::{Timer, client_metrics::PUSHBACK_DURATION},
    rpc::CallError,
    wire::encoded::EncodedSlice,
};

const LIMITS: FlowLimits = FlowLimits {
    lanes: LANES,
    operations: MOST_MUTATIONS,
    bytes: MOST_BYTES,
};

/// What applies to all mutations.
#[derive(Clone, Copy)]
struct Rules {
    /// The name of the operation in errors.
    name: &'static str,
    /// The deadline of all mutations. Otherwise each part has the table's operation timeout.
    deadline: Option<Instant>,
    /// Whether a mutation is sent again although it may have been applied.
    at_least_once: bool,
}

/// Mutations in progress.
struct Bulk<'a> {
    table: &'a Table,
    rules: Rules,
    queues: Queues<'a>,
    /// The calls to servers, and the first rows of queues that may send a part.
    servers: BTreeMap<ServerName, Flow<Bytes>>,
    steps: FuturesUnordered<BoxFuture<'a, Step<'a>>>,
    completed: Vec<Completed>,
    /// The number of parts that are applied, but not done.
    settling: usize,
}

/// Mutations that are done, with their error if they failed.
struct Completed {
    mutations: EncodedSlice,
    failure: Option<Error>,
}

/// The end of a step of a queue. The queue is identified by its first row.
enum Step<'a> {
    /// A server has answered a call.
    Answered {
        server: ServerName,
        number: u64,
        results: Vec<(Placed<'a>, Result<ReportedLoad, CallError>)>,
    },
    /// The region of a part was found, or a failed part may be sent again.
    Ready(Bytes, Part<'a>, Option<Arc<RegionLocation>>),
    /// The clock of the server has passed the timestamp of mutations that are applied.
    Settled(EncodedSlice),
    /// The pause of a region under load has ended.
    Paused(Bytes),
    GivenUp(Bytes, Part<'a>, Error),
}

impl<'a> Bulk<'a> {
    fn new(table: &'a Table, rules: Rules) -> Self {
        Self {
            table,
            rules,
            queues: Queues::default(),
            servers: BTreeMap::new(),
            steps: FuturesUnordered::new(),
            completed: Vec::new(),
            settling: 0,
        }
    }

    /// Adds mutations behind all that were added before, and sends what can be sent.
    fn add(&mut self, slice: &EncodedSlice) {
        let table = self.table;
        let changed = self.queues.add(slice, |row| table.known_location(row));
        self.send(changed);
    }

    /// Returns whether all mutations are done.
    fn is_done(&self) -> bool {
        self.queues.is_empty() && self.settling == 0
    }

    /// Waits for the next step and returns the mutations that are done by it, perhaps none. Returns
    /// at once if nothing is in progress. Cancel safe.
    async fn next(&mut self) -> Vec<Completed> {
        let overdue = self.servers.values().filter_map(Flow::next_overdue).min();
        let step = match overdue {
            Some(overdue) => timeout_at(overdue, self.steps.next()).await,
            None => Ok(self.steps.next().await),
        };
        match step {
            Ok(Some(step)) => self.go_on(step),
            Ok(None) => {}
            Err(_) => {
                let servers: Vec<_> = self.servers.keys().cloned().collect();
                for server in servers {
                    self.send_to(&server);
                }
            }
        }
        std::mem::take(&mut self.completed)
    }

    fn go_on(&mut self, step: Step<'a>) {
        match step {
            Step::Answered {
                server,
                number,
                results,
            } => self.answered(&server, number, results),
            Step::Ready(queue, part, found) => {
                let table = self.table;
                // Not each location that was found is cached.
                let locate = |row: &[u8]| {
                    let found = || found.clone().filter(|found| found.region.contains(row));
                    table.known_location(row).or_else(found)
                };
                let changed = self.queues.replace(&queue, part, locate);
                self.send(changed);
            }
            Step::Settled(mutations) => {
                self.settling -= 1;
                self.table.record_encoded_deletes(&mutations);
                self.complete(mutations, None);
            }
            Step::Paused(queue) => self.release(vec![queue]),
            Step::GivenUp(queue, part, error) => self.given_up(&queue, part, error),
        }
    }

    fn answered(
        &mut self,
        server: &ServerName,
        number: u64,
        results: Vec<(Placed<'a>, Result<ReportedLoad, CallError>)>,
    ) {
        if let Some(flow) = self.servers.get_mut(server) {
            let failures = results.iter().map(|(_, result)| result.as_ref().err());
            flow.end(number, EndOfCall::of(failures));
        }
        let mut free = Vec::new();
        for (placed, result) in results {
            let Placed {
                queue: first,
                part,
                location,
            } = placed;
            match result {
                Ok(load) => {
                    let mut part = part;
                    part.attempts.succeed();
                    let left = part.attempts.time_left();
                    match part.stamping {
                        Stamping::Client(Some((server, stamp))) => {
                            let clocks = &self.table.connection.shared.server_clocks;
                            let end = clocks.reaches(&server, stamp);
                            self.settling += 1;
                            self.steps.push(settled(part.mutations, end).boxed());
                        }
                        _ => {
                            self.table.record_encoded_deletes(&part.mutations);
                            self.complete(part.mutations, None);
                        }
                    }
                    match self.pause(&first, load, left) {
                        Some(pause) => self.steps.push(paused(first, pause).boxed()),
                        None => free.push(first),
                    }
                }
                Err(failure) if part.mutations.mutations().len() > 1 && is_refusal(&failure) => {
                    if let Some(queue) = self.queues.get_mut(&first) {
                        for half in part.halves() {
                            queue.send_again(half);
                        }
                    }
                    free.push(first);
                }
                Err(failure) => {
                    let recovered = part.recovered(first, failure, location);
                    self.steps.push(recovered.boxed());
                }
            }
        }
        self.release(free);
        self.send_to(server);
    }

    /// Reports the mutations of a part as failed, and those of its queue that have no time left.
    fn given_up(&mut self, first: &Bytes, mut part: Part<'a>, error: Error) {
        // Those that have the same effect if they are applied twice are sent again.
        if error.is_outcome_unknown() && part.attempts.kind() == CallKind::Write {
            let others = part.mutations.split_unless(|_, mutation| !mutation.is_repeatable);
            if let (Some(front), Some(queue)) = (others.mutations().first(), self.queues.get_mut(first)) {
                let mut attempts = part.attempts.fork(others.row(front));
                attempts.make_idempotent();
                queue.send_again(Part {
                    attempts,
                    mutations: others,
                    stamping: Stamping::Server,
                });
            }
        }
        if error.kind() == ErrorKind::DeadlineExceeded
            && let Some(queue) = self.queues.get_mut(first)
        {
            // They have waited for as long, and nothing of them was sent.
            let unsent = Error::new(
                ErrorKind::DeadlineExceeded,
                "not sent: earlier writes of the region timed out",
            )
            .with_retryable(true)
            .at_operation(self.rules.name)
            .at_table(self.table.name())
            .with_source(error.clone());
            for waiting in queue.take_waiting() {
                self.complete(waiting, Some(unsent.clone()));
            }
        }
        self.complete(part.mutations, Some(error));
        self.release(vec![first.clone()]);
    }

    /// Returns the pause of a queue whose region reports this load, in the time that is left. `None`
    /// if no mutation waits for its end.
    fn pause(&mut self, first: &Bytes, load: ReportedLoad, left: Duration) -> Option<Duration> {
        let config = &self.table.connection.shared.cluster.config;
        let queue = self.queues.get_mut(first)?;
        if queue.is_empty() || !config.backpressure() {
            return None;
        }
        load.pause(config.overloaded_pause(), left)
    }

    fn complete(&mut self, mutations: EncodedSlice, failure: Option<Error>) {
        if !mutations.mutations().is_empty() {
            self.completed.push(Completed { mutations, failure });
        }
    }

    /// Lets queues send their next parts.
    fn release(&mut self, queues: Vec<Bytes>) {
        for first in &queues {
            if let Some(queue) = self.queues.get_mut(first) {
                queue.is_busy = false;
            }
            self.queues.remove_idle(first);
        }
        self.send(queues);
    }

    /// Locates the regions of queues, or sends their parts when their servers are free.
    fn send(&mut self, queues: Vec<Bytes>) {
        let (table, rules) = (self.table, self.rules);
        for first in queues {
            let Some(queue) = self.queues.get_mut(&first) else {
                continue;
            };
            if queue.is_busy || queue.is_empty() {
                continue;
            }
            match &queue.location {
                Some(location) => {
                    let server = location.server.clone();
                    let flow = self
                        .servers
                        .entry(server.clone())
                        .or_insert_with(|| Flow::new(LIMITS));
                    if !std::mem::replace(&mut queue.is_listed, true) {
                        flow.ready.push_back(first);
                    }
                    self.send_to(&server);
                }
                None => {
                    if let Some(next) = queue.take(MOST_MUTATIONS, MOST_BYTES) {
                        queue.is_busy = true;
                        let part = next.part(table, rules);
                        self.steps.push(part.located(first).boxed());
                    }
                }
            }
        }
    }

    /// Begins calls to a server while it is free and queues are ready.
    fn send_to(&mut self, server: &ServerName) {
        let (table, rules) = (self.table, self.rules);
        let Some(flow) = self.servers.get_mut(server) else {
            return;
        };
        while flow.has_lane(Instant::now()) {
            let (mut parts, mut left, mut left_bytes) = (Vec::new(), flow.limits().operations, MOST_BYTES);
            while left > 0 && left_bytes > 0 {
                let Some(first) = flow.ready.pop_front() else {
                    break;
                };
                let Some(queue) = self.queues.get_mut(&first) else {
                    continue;
                };
                queue.is_listed = false;
                if queue.is_busy {
                    continue;
                }
                let Some(location) = queue
                    .location
                    .clone()
                    .filter(|location| location.server == *server)
                else {
                    continue;
                };
                let is_suspect = flow.is_suspect(&location.region.name);
                if is_suspect && !parts.is_empty() {
                    queue.is_listed = true;
                    flow.ready.push_front(first);
                    break;
                }
                let Some(next) = queue.take(left, left_bytes) else {
                    continue;
                };
                queue.is_busy = true;
                let part = next.part(table, rules);
                if let Some(end) = table.end_of_pause(&part) {
                    self.steps.push(held(first, part, end).boxed());
                    continue;
                }
                for mutation in part.mutations.mutations() {
                    left = left.saturating_sub(1);
                    left_bytes = left_bytes.saturating_sub(mutation.len());
                }
                if is_suspect {
                    left = 0;
                }
                parts.push(Placed {
                    queue: first,
                    part,
                    location,
                });
            }
            let Some(first) = parts.first() else {
                break;
            };
            let names = parts.iter().map(|placed| &placed.location.region.name);
            let regions = RegionsOfCall::new(&first.location.region.name, names);
            let number = flow.begin(regions, Instant::now());
            self.steps
                .push(table.written(server.clone(), number, parts).boxed());
        }
    }
}

/// Holds a part with puts of rows that were deleted just now.
async fn held(queue: Bytes, part: Part<'_>, until: Instant) -> Step<'_> {
    sleep_until(until).await;
    Step::Ready(queue, part, None)
}

/// Waits until the clock of the server has passed the timestamp of mutations.
async fn settled<'a>(mutations: EncodedSlice, end: Instant) -> Step<'a> {
    sleep_until(end).await;
    Step::Settled(mutations)
}

async fn paused<'a>(queue: Bytes, pause: Duration) -> Step<'a> {
    let timer = Timer::start();
    sleep(pause).await;
    PUSHBACK_DURATION.record_since(timer, || []);
    Step::Paused(queue)
}

impl Rules {
    fn part<'a>(&self, table: &'a Table, mutations: EncodedSlice) -> Part<'a> {
        let mut all = mutations.mutations().iter();
        let is_repeatable = self.at_least_once || all.all(|mutation| mutation.is_repeatable);
        let mut all = mutations.mutations().iter();
        let stamping = if self.at_least_once && all.any(|mutation| mutation.is_stamped_by_server) {
            Stamping::Client(None)
        } else {
            Stamping::Server
        };
        let first = mutations.mutations().first();
        let operation = Operation {
            name: self.name,
            table: table.name(),
            row: Cow::Owned(first.map_or_else(Bytes::new, |first| mutations.row(first))),
            kind: if is_repeatable {
                CallKind::IdempotentWrite
            } else {
                CallKind::Write
            },
            deadline: self.deadline.unwrap_or_else(|| table.deadline()),
        };
        Part {
            attempts: Attempts::new(&table.connection.shared.cluster, operation),
            mutations,
            stamping,
        }
    }
}

impl<'a> Next<'a> {
    fn part(self, table: &'a Table, rules: Rules) -> Part<'a> {
        match self {
            Self::Again(part) => *part,
            Self::New(mutations) => rules.part(table, mutations),
        }
    }
}

impl<'a> Part<'a> {
    /// Returns the second half, and then the first one.
    fn halves(mut self) -> [Self; 2] {
        let second = self.mutations.split_off(self.mutations.mutations().len() / 2);
        let first = second.mutations().first();
        let row = first.map_or_else(Bytes::new, |first| second.row(first));
        let second = Self {
            attempts: self.attempts.fork(row),
            mutations: second,
            stamping: self.stamping.clone(),
        };
        [second, self]
    }

    async fn located(mut self, queue: Bytes) -> Step<'a> {
        match self.attempts.locate().await {
            Ok(location) => Step::Ready(queue, self, Some(location)),
            Err(error) => Step::GivenUp(queue, self, error),
        }
    }

    async fn recovered(
        mut self,
        queue: Bytes,
        failure: CallError,
        location: Arc<RegionLocation>,
    ) -> Step<'a> {
        match self.attempts.recover(failure, &location).await {
            Ok(()) => Step::Ready(queue, self, None),
            Err(error) => Step::GivenUp(queue, self, error),
        }
    }
}

impl Table {
    /// Returns the location of a row if it is cached.
    fn known_location(&self, row: &[u8]) -> Option<Arc<RegionLocation>> {
        self.connection.shared.cluster.known_location(&self.name, row)
    }

    /// Returns when mutations may be sent that the server stamps, or `None` if that is now.
    fn end_of_pause(&self, part: &Part<'_>) -> Option<Instant> {
        // The client's timestamps are later than those of acknowledged deletes.
        if matches!(part.stamping, Stamping::Client(_)) {
            return None;
        }
        let slice = &part.mutations;
        let mutations = slice.mutations().iter();
        let stamped = mutations.filter(|mutation| !mutation.is_delete && mutation.is_stamped_by_server);
        let rows = stamped.map(|mutation| slice.row_bytes(mutation));
        let recent = &self.connection.shared.recent_deletes;
        recent.end_of_pause(&self.name, rows)
    }

    /// Records the deletes of mutations that were applied.
    fn record_encoded_deletes(&self, applied: &EncodedSlice) {
        let mutations = applied.mutations().iter();
        let deletes = mutations.filter(|mutation| mutation.is_delete && mutation.is_stamped_by_server);
        let rows = deletes.map(|mutation| applied.row_bytes(mutation));
        let recent = &self.connection.shared.recent_deletes;
        recent.add(&self.name, rows);
    }

    /// Sends the parts of one call.
    async fn written<'a>(&'a self, server: ServerName, number: u64, mut parts: Vec<Placed<'a>>) -> Step<'a> {
        if let Err(failure) = self.stamp(&mut parts).await {
            let results = parts.into_iter().map(|placed| (placed, Err(failure.clone())));
            return Step::Answered {
                server,
                number,
                results: results.collect(),
            };
        }
        let limits = parts
            .iter()
            .map(|placed| placed.part.attempts.attempt_limit(&placed.location));
        let limit = limits.reduce(|one, other| one.with(other));
        let results = match (parts.first(), limit) {
            (Some(first), Some(limit)) => {
                let (request, cells) = call::request(&parts);
                let cluster = &self.connection.shared.cluster;
                let answer = cluster
                    .mutate_regions(&first.location, &request, cells, &self.options.call, limit)
                    .await;
                answer.and_then(|answer| call::read(&parts, answer))
            }
            _ => Ok(Vec::new()),
        };
        let results = results.unwrap_or_else(|failure| parts.iter().map(|_| Err(failure.clone())).collect());
        Step::Answered {
            server,
            number,
            results: parts.into_iter().zip(results).collect(),
        }
    }
}

impl Completed {
    /// Returns the number of each mutation and its error.
    fn results(&self) -> impl Iterator<Item = (u64, Option<Error>)> {
        self.mutations.mutations().iter().map(|mutation| {
            let row = || BytesBinary(self.mutations.row_bytes(mutation));
            let failure = self.failure.clone();
            (mutation.number, failure.map(|failure| failure.of_row(&row())))
        })
    }
}
