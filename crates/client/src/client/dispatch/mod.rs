//! Operations of one kind on many rows, in few calls to each server.
//!
//! The engine of `get_many`, `batch` and `check_and_mutate_many`. It finds the region of every row,
//! groups the operations of a region into actions, and sends the actions of a server in few calls. What
//! failed is sent again on its own, without delaying others: its [`RegionCall`] judges the failure,
//! forgets the location, pauses, or gives up, as for a single operation.
//!
//! If an action was refused for good and nothing of it was applied, each of its operations is sent again
//! as an action of its own, because another one may be the cause. An action that may have been applied
//! is sent again as it is, to the same server, which recognises it, or not at all.
//!
//! | file | contents |
//! |---|---|
//! | `get_many` | many gets at once |
//! | `change_many` | many increments and appends at once |
//! | `check_many` | many conditional changes at once |
//! | `bulk` | many puts and deletes at once: [`Writer`](super::Writer), and a list with one result each |
//! | `lanes` | single gets, puts and deletes that share calls |
//! | `flow` | the large calls in flight to a server, and what waits for them |
//! | `calls_in_flight` | the calls to a server, without those that are overdue, and the time that they take |
//! | `results` | the results in the answer to a call of several actions |

pub(super) mod bulk;
pub(super) mod calls_in_flight;
pub(super) mod change_many;
pub(super) mod check_many;
pub(super) mod flow;
pub(super) mod get_many;
pub(super) mod lanes;
pub(super) mod results;

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::{Instant, timeout_at};

use self::{
    calls_in_flight::RegionsOfCall,
    flow::{EndOfCall, Flow, FlowLimits},
};
use super::{CallKind, FailedAttempt, RegionAttempt, RegionCall, Table};
use crate::{
    cluster::RegionLocation,
    error::{Effect, Error, ErrorKind, Result},
    model::{RegionInfo, ServerName},
    rpc::{AttemptLimit, CallError},
    wire::{cell_block::CellBlockDecoder, multi::EncodedMultiRequest, pb},
};

/// What differs between the kinds of operations.
pub(super) trait Kind: Copy + Send + Sync + 'static {
    type Payload: Send + Sync;
    type Output: Send;

    const CALL_KIND: CallKind;

    fn limits(self) -> FlowLimits;

    /// Returns the group of the nonces of all operations, if they have nonces.
    fn nonce_group(self) -> Option<u64> {
        None
    }

    /// Groups operations of a region, in the order of their rows, into actions.
    fn actions(self, items: Vec<Item<Self::Payload>>) -> Vec<Vec<Item<Self::Payload>>>;

    /// Returns the message of an action.
    fn message(self, region: &RegionInfo, items: &[Item<Self::Payload>]) -> Bytes;

    /// Reads the result of an action, which may be the answer to a repeated one.
    fn read(
        self,
        items: &[Item<Self::Payload>],
        is_repeated: bool,
        result: pb::RegionActionResult,
        block: &mut CellBlockDecoder,
    ) -> Result<ActionResult<Self::Output>, CallError>;

    /// Proves that the server can execute the first operation of a call, and so the others.
    fn prove(
        self,
        _attempt: &mut RegionAttempt<'_, '_>,
        _item: &Item<Self::Payload>,
    ) -> impl Future<Output = Result<(), FailedAttempt>> + Send {
        async { Ok(()) }
    }
}

/// The results of an action's operations, in their order, or the failure of all.
pub(super) type ActionResult<T> = Result<Vec<Result<T, CallError>>, CallError>;

/// An operation on a row, encoded once for all attempts.
#[derive(Debug)]
pub(super) struct Item<P> {
    /// Its index in the caller's list.
    pub(super) place: usize,
    pub(super) row: Bytes,
    /// The number of bytes that it has in a call.
    pub(super) weight: usize,
    pub(super) payload: P,
}

/// Operations that ended.
pub(super) enum Ended<K: Kind> {
    Done(Vec<(Item<K::Payload>, K::Output)>),
    /// They failed for good, or did not end before the deadline.
    Failed(Vec<Item<K::Payload>>, Error),
}

/// Operations in progress.
pub(super) struct Dispatch<'a, K: Kind> {
    table: &'a Table,
    kind: K,
    servers: BTreeMap<ServerName, Flow<Placed<'a, K::Payload>>>,
    steps: FuturesUnordered<BoxFuture<'a, Step<'a, K>>>,
    ended: VecDeque<Ended<K>>,
}

/// Operations that are attempted together, in the order of their rows. Never empty.
struct Part<'a, P> {
    attempts: RegionCall<'a>,
    items: Vec<Item<P>>,
}

/// A part that is one action, and the location of its region.
struct Placed<'a, P> {
    part: Part<'a, P>,
    location: Arc<RegionLocation>,
}

/// The end of a step of some operations.
enum Step<'a, K: Kind> {
    /// Their regions were found, except those that are unassigned at the moment.
    Located {
        placed: Vec<Placed<'a, K::Payload>>,
        away: Vec<Part<'a, K::Payload>>,
        /// A part that no server would recognise.
        unrecognised: Option<(Part<'a, K::Payload>, Error)>,
    },
    /// A server has answered a call.
    Answered {
        server: ServerName,
        number: u64,
        results: Vec<CallResult<'a, K>>,
    },
    /// They may be sent again.
    Recovered(Part<'a, K::Payload>),
    GivenUp(Part<'a, K::Payload>, Error),
}

/// The result of an action.
type CallResult<'a, K> = (
    Placed<'a, <K as Kind>::Payload>,
    Result<Vec<Result<<K as Kind>::Output, CallError>>, FailedAttempt>,
);

impl<'a, K: Kind> Dispatch<'a, K> {
    /// Begins operations, which end by the deadline. Nothing is sent before [`next`](Self::next).
    pub(super) fn new(
        table: &'a Table,
        kind: K,
        name: &'static str,
        deadline: Instant,
        mut items: Vec<Item<K::Payload>>,
    ) -> Self {
        items.sort_by(|one, other| one.row.cmp(&other.row));
        let dispatch = Self {
            table,
            kind,
            servers: BTreeMap::new(),
            steps: FuturesUnordered::new(),
            ended: VecDeque::new(),
        };
        if let Some(first) = items.first() {
            let row = first.row.clone();
            let mut attempts = RegionCall::of_row(table, name, Cow::Owned(row), K::CALL_KIND, deadline);
            if kind.nonce_group().is_some() {
                attempts.repeat_on_one_server();
            }
            dispatch.locate(Part { attempts, items });
        }
        dispatch
    }

    /// Returns the next operations that ended, or `None` after the last. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Ended<K>> {
        loop {
            if let Some(ended) = self.ended.pop_front() {
                return Some(ended);
            }
            let overdue = self.servers.values().filter_map(Flow::next_overdue).min();
            let step = match overdue {
                Some(overdue) => timeout_at(overdue, self.steps.next()).await,
                None => Ok(self.steps.next().await),
            };
            match step {
                Ok(step) => self.go_on(step?),
                Err(_) => self.send(Vec::new()),
            }
        }
    }

    fn go_on(&mut self, step: Step<'a, K>) {
        match step {
            Step::Located {
                placed,
                away,
                unrecognised,
            } => {
                self.send(placed);
                self.steps
                    .extend(away.into_iter().map(|part| part.located().boxed()));
                if let Some((part, error)) = unrecognised {
                    self.ended.push_back(Ended::Failed(part.items, error));
                }
            }
            Step::Answered {
                server,
                number,
                results,
            } => self.answered(&server, number, results),
            Step::Recovered(part) => self.locate(part),
            Step::GivenUp(part, error) => self.ended.push_back(Ended::Failed(part.items, error)),
        }
    }

    fn locate(&self, part: Part<'a, K::Payload>) {
        self.steps.push(placed(part, self.kind).boxed());
    }

    fn answered(&mut self, server: &ServerName, number: u64, results: Vec<CallResult<'a, K>>) {
        if let Some(flow) = self.servers.get_mut(server) {
            let failures = results
                .iter()
                .map(|(_, result)| result.as_ref().err().and_then(FailedAttempt::call_error));
            flow.end(number, EndOfCall::of(failures));
        }
        let mut again = Vec::new();
        for (placed, result) in results {
            match result {
                Ok(outputs) => self.take_outputs(placed, outputs),
                Err(failed)
                    if placed.part.items.len() > 1
                        && failed.is_refusal()
                        && placed.part.attempts.effect() == Effect::None =>
                {
                    let each = |items: Vec<_>| items.into_iter().map(|item| vec![item]).collect();
                    again.extend(placed.divided(each));
                }
                Err(failed) => self.steps.push(placed.part.recovered(failed).boxed()),
            }
        }
        self.send(again);
    }

    /// Ends operations with an output. The others are sent again; those that failed in the same way stay
    /// together.
    fn take_outputs(&mut self, placed: Placed<'a, K::Payload>, outputs: Vec<Result<K::Output, CallError>>) {
        let Placed { part, location } = placed;
        let Part { mut attempts, items } = part;
        let (done, failed) = parted(items, outputs);
        if !done.is_empty() {
            self.ended.push_back(Ended::Done(done));
        }
        let mut failed = failed.into_iter();
        let Some((failure, items)) = failed.next() else {
            attempts.succeed();
            return;
        };
        // The rows before this one are done, so there is progress.
        attempts.continue_at(items[0].row.clone());
        for (failure, items) in failed {
            let attempts = attempts.fork(items[0].row.clone());
            self.recover(Part { attempts, items }, &location, failure);
        }
        self.recover(Part { attempts, items }, &location, failure);
    }

    fn recover(&self, mut part: Part<'a, K::Payload>, location: &Arc<RegionLocation>, failure: CallError) {
        let failed = part.attempts.attempt(location).failed(failure);
        self.steps.push(part.recovered(failed).boxed());
    }

    /// Sends actions, and those that wait, as far as their servers are free.
    fn send(&mut self, placed: Vec<Placed<'a, K::Payload>>) {
        for placed in placed {
            let server = placed.location.server.clone();
            let flow = self.servers.entry(server);
            let flow = flow.or_insert_with(|| Flow::new(self.kind.limits()));
            flow.ready.push_back(placed);
        }
        let now = Instant::now();
        for (server, flow) in &mut self.servers {
            while !flow.ready.is_empty() && flow.has_lane(now) {
                let call = flow.take();
                let mut names = call.iter().map(|placed| &placed.location.region.name);
                let Some(first) = names.next() else { break };
                let number = flow.begin(RegionsOfCall::new(first, names), now);
                let called = called(self.table, self.kind, server.clone(), number, call);
                self.steps.push(called.boxed());
            }
        }
    }
}

/// Operations that failed in the same way.
type Alike<P> = (CallError, Vec<Item<P>>);
type WithOutputs<P, T> = Vec<(Item<P>, T)>;

/// Parts operations with an output from those that failed.
fn parted<P, T>(
    items: Vec<Item<P>>,
    outputs: Vec<Result<T, CallError>>,
) -> (WithOutputs<P, T>, Vec<Alike<P>>) {
    let mut done = Vec::with_capacity(items.len());
    let mut failed: BTreeMap<String, Alike<P>> = BTreeMap::new();
    for (item, output) in items.into_iter().zip(outputs) {
        match output {
            Ok(output) => done.push((item, output)),
            Err(failure) => {
                let alike = failed.entry(failure.to_string());
                alike.or_insert((failure, Vec::new())).1.push(item);
            }
        }
    }
    (done, failed.into_values().collect())
}

/// Finds the regions of all rows of a part, and divides it into actions.
async fn placed<'a, K: Kind>(part: Part<'a, K::Payload>, kind: K) -> Step<'a, K> {
    let (mut placed, mut away) = (Vec::new(), Vec::new());
    let mut next = Some(part);
    while let Some(mut part) = next.take() {
        let located = part.attempts.locate_now().await;
        if part.attempts.effect() == Effect::Unknown {
            let Ok(location) = located else {
                away.push(part);
                break;
            };
            let unrecognised = match part.check_recognised(&location) {
                Ok(()) => {
                    placed.push(Placed { part, location });
                    None
                }
                Err(error) => Some((part, error)),
            };
            return Step::Located {
                placed,
                away,
                unrecognised,
            };
        }
        match located {
            Ok(location) => {
                next = part.split_behind(&location.region);
                placed.extend(Placed { part, location }.divided(|items| kind.actions(items)));
            }
            Err(region) => {
                // Without a known region, its end is unknown too.
                next = region.and_then(|region| part.split_behind(&region));
                away.push(part);
            }
        }
    }
    Step::Located {
        placed,
        away,
        unrecognised: None,
    }
}

/// Sends the actions of one call.
async fn called<'a, K: Kind>(
    table: &Table,
    kind: K,
    server: ServerName,
    number: u64,
    mut call: Vec<Placed<'a, K::Payload>>,
) -> Step<'a, K> {
    let mut results: Vec<CallResult<'a, K>> = Vec::with_capacity(call.len());
    while let Some(Placed { part, location }) = call.first_mut() {
        let Err(failed) = kind
            .prove(&mut part.attempts.attempt(location), &part.items[0])
            .await
        else {
            break;
        };
        // The probe has the family of this one, which may not exist.
        let others = if failed.kind() == ErrorKind::FamilyNotFound {
            call.split_off(1)
        } else {
            Vec::new()
        };
        results.extend(call.into_iter().map(|placed| {
            let failed = failed.at(&placed.location);
            (placed, Err(failed))
        }));
        call = others;
    }
    let limits = call
        .iter_mut()
        .map(|Placed { part, location }| part.attempts.attempt(location).limit());
    let answer = match (limits.reduce(AttemptLimit::with), call.first()) {
        (Some(limit), Some(first)) => {
            let messages = call
                .iter()
                .map(|placed| kind.message(&placed.location.region, &placed.part.items));
            let request = EncodedMultiRequest {
                region_action: messages.collect(),
                nonce_group: kind.nonce_group(),
            };
            let answer = table.call(&first.location, "Multi", &request, limit).await;
            answer.and_then(|(answer, block)| read(kind, &call, answer, block))
        }
        _ => Ok(Vec::new()),
    };
    let of_call = answer.unwrap_or_else(|failure| call.iter().map(|_| Err(failure.clone())).collect());
    results.extend(call.into_iter().zip(of_call).map(|(mut placed, result)| {
        let attempt = placed.part.attempts.attempt(&placed.location);
        let result = result.map_err(|failure| attempt.failed(failure));
        (placed, result)
    }));
    Step::Answered {
        server,
        number,
        results,
    }
}

/// Reads the results of all actions of a call.
fn read<K: Kind>(
    kind: K,
    call: &[Placed<'_, K::Payload>],
    answer: pb::MultiResponse,
    mut block: CellBlockDecoder,
) -> Result<Vec<ActionResult<K::Output>>, CallError> {
    let results = results::of_actions(answer.region_action_result, call.len())?;
    let results = call.iter().zip(results).map(|(Placed { part, .. }, result)| {
        let is_repeated = part.attempts.effect() == Effect::Unknown;
        kind.read(&part.items, is_repeated, result, &mut block)
    });
    results.collect()
}

impl<'a, P> Part<'a, P> {
    /// Splits the part where a region ends that was found for it, and returns the rest, if there is one.
    fn split_behind(&mut self, region: &RegionInfo) -> Option<Self> {
        let inside = self.items.partition_point(|item| region.contains(&item.row));
        let items = self.items.split_off(inside.max(1));
        let first = items.first()?;
        let attempts = self.attempts.fork_before_look_up(first.row.clone());
        Some(Self { attempts, items })
    }

    /// Checks that the server of a part that may have been applied would recognise it.
    fn check_recognised(&mut self, location: &RegionLocation) -> Result<()> {
        if self.items.iter().all(|item| location.region.contains(&item.row)) {
            self.attempts.check_recognised(location)
        } else {
            Err(self.attempts.unrecognised("its region was split"))
        }
    }

    /// Waits until its first region is served.
    async fn located<K: Kind<Payload = P>>(mut self) -> Step<'a, K> {
        match self.attempts.locate().await {
            Ok(_) => Step::Recovered(self),
            Err(error) => Step::GivenUp(self, error),
        }
    }

    async fn recovered<K: Kind<Payload = P>>(mut self, failed: FailedAttempt) -> Step<'a, K> {
        match self.attempts.recover(failed).await {
            Ok(()) => Step::Recovered(self),
            Err(error) => Step::GivenUp(self, error),
        }
    }
}

impl<P> Placed<'_, P> {
    /// Divides the part into several, each of which continues its attempts.
    fn divided(self, divide: impl FnOnce(Vec<Item<P>>) -> Vec<Vec<Item<P>>>) -> Vec<Self> {
        let Self { part, location } = self;
        let Part { attempts, items } = part;
        let mut parts = divide(items).into_iter();
        let first = parts.next();
        let others = parts.map(|items| Part {
            attempts: attempts.fork(items[0].row.clone()),
            items,
        });
        let others: Vec<_> = others.collect();
        let first = first.map(|items| Part { attempts, items });
        let placed = |part| Self {
            part,
            location: Arc::clone(&location),
        };
        first.into_iter().chain(others).map(placed).collect()
    }
}

impl<'a, P> Flow<Placed<'a, P>> {
    /// Takes the actions of the next call: at least one, and those of a suspect region alone.
    fn take(&mut self) -> Vec<Placed<'a, P>> {
        let limits = self.limits();
        let (mut operations, mut bytes, mut call) = (0, 0, Vec::new());
        while let Some(next) = self.ready.front() {
            let items = &next.part.items;
            operations += items.len();
            bytes += items.iter().map(|item| item.weight).sum::<usize>();
            let is_suspect = self.is_suspect(&next.location.region.name);
            let fits = operations <= limits.operations && bytes <= limits.bytes && !is_suspect;
            if !fits && !call.is_empty() {
                break;
            }
            call.extend(self.ready.pop_front());
            if is_suspect {
                break;
            }
        }
        call
    }
}

#[cfg(test)]
mod tests;
