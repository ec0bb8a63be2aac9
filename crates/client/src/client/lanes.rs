//! Single gets, puts and deletes that share calls.
//!
//! A server spends far more time on a call than on an operation in it. So at most [`GET_LANES`] calls
//! of single gets are in flight to a server, and one of single mutations to a region, or two if each
//! has one mutation. The operations that arrive meanwhile wait, and when a call ends, one call takes
//! as many of them as it may. No timer is involved: without other operations in flight, an operation
//! is sent at once, as a call of its own.
//!
//! A server executes the regions of a call one after the other, and syncs its log after each. So each
//! call has mutations of one region only. Gets need no sync, and share calls beyond their region.
//!
//! Mutations of a region that share a call are one atomic action. So an exception means that none
//! of them was applied, as it does for a single mutation. A server that applies mutations one by
//! one may apply some, and then answer the exception to all of them. If the exception is final, each
//! is sent again in a call of its own, because another one may be the cause.
//!
//! Puts of different cells of one row may share a call, other mutations of one row may not: see
//! [`same_row`](crate::wire::same_row).

mod call;

use std::{
    collections::{BTreeMap, VecDeque},
    future::poll_fn,
    io, mem,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use prost::Message;
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
    task::yield_now,
    time::{Instant, timeout_at},
};

use self::call::SharedCall;
use super::{change_log::ChangeLog, recent_deletes::RecentDeletes, server_clocks::ServerClocks};
use crate::{
    cluster::{Cluster, RegionLocation},
    model::{Get, Mutation, RegionInfo, Row, ServerName},
    observe::{
        GaugeUnit,
        client_metrics::{COALESCED, OPERATIONS_WAITING},
    },
    rpc::{AttemptLimit, CallError, CallOptions, ServiceKind},
    wire::{
        cell_block::CellBlockDecoder,
        convert,
        multi::{EncodedGetRequest, EncodedMutateRequest},
        mutation::MutationMessage,
        pb,
        same_row::RowsOfAction,
    },
};

/// The number of calls of gets to a server from which on gets wait. While the server executes some,
/// the client encodes and decodes others.
const GET_LANES: usize = 4;
/// The number of calls of one mutation to a region from which on its mutations wait: few callers do
/// not wait for each other, and many share one call.
const MUTATION_LANES: usize = 2;
/// The number of all calls of single operations to a server from which on operations wait: more than
/// a server's handlers, far fewer than its queue has places.
const SERVER_LANES: usize = 64;
/// The maximum number of operations in a call, and of bytes unless one operation is larger.
const MOST_OPERATIONS: usize = 1_000;
const MOST_BYTES: usize = 1 << 20;
/// The number of waiting gets of one region that are worth a call of their own.
const WORTH_A_CALL: usize = 16;
/// The longest wait for a call to end. After that, an operation is sent alone: all calls in flight
/// may be stuck at one region.
const PATIENCE: Duration = Duration::from_millis(100);

/// A get or a mutation, encoded once for all attempts. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    row: Bytes,
    message: Bytes,
    is_get: bool,
    /// Whether it needs a call of its own: in an atomic action, the server drops a mutation with an
    /// invalid visibility expression and reports success (`VisibilityController.preBatchMutate`).
    is_alone: bool,
    /// The group of its nonce, if it has one.
    nonce_group: Option<u64>,
}

impl Operation {
    pub(super) fn get(get: &Get) -> Self {
        Self {
            row: get.row.clone(),
            message: convert::get_message(get).encode_to_vec().into(),
            is_get: true,
            is_alone: false,
            nonce_group: None,
        }
    }

    pub(super) fn mutation(mutation: &Mutation) -> Self {
        Self {
            row: mutation.row().clone(),
            message: MutationMessage::new(mutation, mutation.durability()).to_bytes(),
            is_get: false,
            is_alone: mutation.has_visibility(),
            nonce_group: None,
        }
    }

    /// Returns an increment or append with a nonce, by which a server recognises it if it comes
    /// again.
    pub(super) fn with_nonce(mutation: &Mutation, group: u64, nonce: u64) -> Self {
        let message = MutationMessage::new(mutation, mutation.durability()).with_nonce(nonce);
        Self {
            row: mutation.row().clone(),
            message: message.to_bytes(),
            is_get: false,
            is_alone: mutation.has_visibility(),
            nonce_group: Some(group),
        }
    }

    /// Returns what may share a call with it, as a word for metrics.
    fn kind(&self) -> &'static str {
        match self.is_get {
            true => "get",
            false => "mutation",
        }
    }
}

/// The result of one attempt: the row of a get, if it has requested cells.
type Attempted = Result<Option<Row>, CallError>;

/// The answer to an operation in a shared call.
#[derive(Debug)]
enum Answer {
    Attempted(Attempted),
    /// Nothing was applied, and another operation of the call may be the cause.
    Alone,
}

/// An operation that waits for a call.
#[derive(Debug)]
struct Waiting {
    location: Arc<RegionLocation>,
    options: CallOptions,
    operation: Operation,
    limit: AttemptLimit,
    /// Set by the call that takes it, or by the caller that waits no longer.
    claimed: Arc<AtomicBool>,
    /// The runtime in which its caller waits, and which executes its call: no other one may be driven
    /// for as long.
    runtime: Handle,
    answer: oneshot::Sender<Answer>,
    /// Until a call takes it.
    in_queue: Option<GaugeUnit>,
}

/// The caller's end of a [`Waiting`].
struct Ticket {
    claimed: Arc<AtomicBool>,
    answer: oneshot::Receiver<Answer>,
}

/// What the clones of a client share.
pub(super) struct Shared {
    pub(super) cluster: Cluster,
    pub(super) lanes: Lanes,
    pub(super) recent_deletes: RecentDeletes,
    pub(super) server_clocks: ServerClocks,
    pub(super) change_log: Option<Arc<dyn ChangeLog>>,
}

/// The single operations of a client, by server.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    traffic: Mutex<AllTraffic>,
    /// Notified when no call to a server is in flight any more.
    idle: Notify,
}

#[derive(Debug, Default)]
struct AllTraffic {
    servers: BTreeMap<ServerName, Traffic>,
    is_closed: bool,
}

/// What may share a call: gets from a server, which executes those of a call before its mutations,
/// or mutations of a region.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    options: CallOptions,
    /// The region's name.
    mutated: Option<Bytes>,
}

/// What an operation that arrives does.
enum Entry {
    /// It begins a call.
    Lane,
    /// It waits.
    Queue(Ticket),
    Closed,
}

/// The calls of single operations to a server.
#[derive(Debug, Default)]
struct Traffic {
    in_flight: usize,
    groups: BTreeMap<Group, Queue>,
    /// The groups that may begin a call when one to the server ends, in the order of their arrival.
    ready: VecDeque<Group>,
}

/// The operations of a group.
#[derive(Debug, Default)]
struct Queue {
    in_flight: usize,
    /// Whether a call with several mutations has begun since none was in flight.
    is_shared: bool,
    waiting: VecDeque<Waiting>,
    is_ready: bool,
}

/// A call in flight. When it ends, the next one takes its place.
struct Lane {
    client: Arc<Shared>,
    location: Arc<RegionLocation>,
    group: Group,
    /// Whether its call has begun. One that is dropped before, with its runtime, begins no other.
    has_begun: bool,
}

impl Shared {
    /// Executes an operation, alone or in a shared call. Makes one attempt.
    pub(super) async fn execute(
        self: &Arc<Self>,
        location: &Arc<RegionLocation>,
        options: &CallOptions,
        operation: &Operation,
        limit: AttemptLimit,
    ) -> Attempted {
        let alone = || self.execute_alone(location, options, operation, limit.clone());
        let is_shared = self.cluster.config.coalescing() && !operation.is_alone;
        if !is_shared || location.region.table.is_system() {
            return alone().await;
        }
        let began = Instant::now();
        let group = Group::new(&location.region, options, operation);
        let enter = || Waiting::new(location, options, operation, limit.clone());
        let mut ticket = match self.lanes.enter(&location.server, &group, enter) {
            Entry::Queue(ticket) => ticket,
            Entry::Lane => {
                let _lane = Lane {
                    client: Arc::clone(self),
                    location: Arc::clone(location),
                    group,
                    has_begun: true,
                };
                COALESCED.record(1, || [operation.kind()]);
                return alone().await;
            }
            Entry::Closed => return Err(CallError::Closed),
        };
        let until = limit.deadline.min(began + PATIENCE);
        let answer = match timeout_at(until, &mut ticket.answer).await {
            Ok(answer) => answer,
            Err(_) if !ticket.claim() => return alone().await,
            Err(_) => match timeout_at(limit.deadline, ticket.answer).await {
                Ok(answer) => answer,
                Err(_) => {
                    return Err(CallError::Timeout {
                        waited: began.elapsed(),
                        sent: true,
                    });
                }
            },
        };
        match answer {
            Ok(Answer::Attempted(attempted)) => attempted,
            Ok(Answer::Alone) => alone().await,
            Err(_) => Err(CallError::Lost {
                sent: true,
                cause: Arc::new(io::Error::other("the runtime of a shared call has ended")),
            }),
        }
    }

    /// Executes an operation in a call of its own. Makes one attempt.
    pub(super) async fn execute_alone(
        &self,
        location: &RegionLocation,
        options: &CallOptions,
        operation: &Operation,
        limit: AttemptLimit,
    ) -> Attempted {
        let region = Some(convert::region_specifier(&location.region));
        let message = Some(operation.message.clone());
        let (result, mut block) = if operation.is_get {
            let request = EncodedGetRequest { region, get: message };
            let answer = self.call(location, options, "Get", &request, limit).await;
            let (answer, block): (pb::GetResponse, _) = answer?;
            (answer.result, block)
        } else {
            let mutation = message;
            let request = EncodedMutateRequest {
                region,
                mutation,
                nonce_group: operation.nonce_group,
            };
            let answer = self.call(location, options, "Mutate", &request, limit).await;
            let (answer, block): (pb::MutateResponse, _) = answer?;
            (answer.result, block)
        };
        convert::row(result.unwrap_or_default(), &mut block)
            .map_err(|error| CallError::BadAnswer(error.to_string().into()))
    }

    /// Calls a method of the region server that serves a region. Makes one attempt.
    pub(super) async fn call<M: Message, R: Message + Default>(
        &self,
        location: &RegionLocation,
        options: &CallOptions,
        method: &'static str,
        request: &M,
        limit: AttemptLimit,
    ) -> Result<(R, CellBlockDecoder), CallError> {
        self.cluster
            .call_region_server(location, ServiceKind::Client, options, method, request, limit)
            .await
    }
}

impl Group {
    fn new(region: &RegionInfo, options: &CallOptions, operation: &Operation) -> Self {
        Self {
            options: options.clone(),
            mutated: (!operation.is_get).then(|| region.name.clone()),
        }
    }

    fn is_of_gets(&self) -> bool {
        self.mutated.is_none()
    }
}

impl Ticket {
    /// Claims the operation for its caller. Returns whether a call has taken it before.
    fn claim(&self) -> bool {
        self.claimed.swap(true, Ordering::Relaxed)
    }
}

impl Waiting {
    fn new(
        location: &Arc<RegionLocation>,
        options: &CallOptions,
        operation: &Operation,
        limit: AttemptLimit,
    ) -> (Self, Ticket) {
        let (answer, answered) = oneshot::channel();
        let claimed = Arc::new(AtomicBool::new(false));
        let ticket = Ticket {
            claimed: Arc::clone(&claimed),
            answer: answered,
        };
        let waiting = Self {
            location: Arc::clone(location),
            options: options.clone(),
            operation: operation.clone(),
            limit,
            claimed,
            runtime: Handle::current(),
            answer,
            in_queue: Some(OPERATIONS_WAITING.raise()),
        };
        (waiting, ticket)
    }

    /// Returns whether its caller waits for a call.
    fn is_waited_for(&self) -> bool {
        !self.claimed.load(Ordering::Relaxed) && !self.answer.is_closed()
    }

    fn mutated_row(&self) -> Option<&Bytes> {
        (!self.operation.is_get).then_some(&self.operation.row)
    }
}

impl Lanes {
    fn traffic(&self) -> MutexGuard<'_, AllTraffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(
        &self,
        server: &ServerName,
        group: &Group,
        waiting: impl FnOnce() -> (Waiting, Ticket),
    ) -> Entry {
        let mut all = self.traffic();
        if all.is_closed {
            return Entry::Closed;
        }
        if let Some(traffic) = all.servers.get_mut(server) {
            return traffic.enter(group, waiting);
        }
        // Servers that have restarted have other names.
        all.servers.retain(|_, traffic| !traffic.is_idle());
        let traffic = all.servers.entry(server.clone()).or_default();
        traffic.enter(group, waiting)
    }

    /// Returns the next call, which takes the place of one of this group that has ended.
    fn next(&self, server: &ServerName, ended: &Group) -> Option<(Group, Vec<Waiting>)> {
        let mut all = self.traffic();
        let traffic = all.servers.get_mut(server)?;
        traffic.end(ended);
        let next = traffic.begin();
        self.note_idle(traffic);
        next
    }

    /// Ends a call without a next one.
    fn leave(&self, server: &ServerName, ended: &Group) {
        if let Some(traffic) = self.traffic().servers.get_mut(server) {
            traffic.end(ended);
            self.note_idle(traffic);
        }
    }

    fn note_idle(&self, traffic: &Traffic) {
        if traffic.in_flight == 0 {
            self.idle.notify_waiters();
        }
    }

    /// Refuses further operations, and returns when none is in flight or waits.
    pub(super) async fn close(&self) {
        loop {
            let mut idle = pin!(self.idle.notified());
            idle.as_mut().enable();
            {
                let mut all = self.traffic();
                all.is_closed = true;
                if all.servers.values().all(|traffic| traffic.in_flight == 0) {
                    return;
                }
            }
            idle.await;
        }
    }
}

impl Traffic {
    fn enter(&mut self, group: &Group, waiting: impl FnOnce() -> (Waiting, Ticket)) -> Entry {
        let queue = self.groups.entry(group.clone()).or_default();
        let has_lane = queue.has_lane(group, queue.waiting.len() + 1);
        if has_lane && self.in_flight < SERVER_LANES {
            queue.in_flight += 1;
            self.in_flight += 1;
            return Entry::Lane;
        }
        let (waiting, ticket) = waiting();
        queue.waiting.push_back(waiting);
        if has_lane {
            self.make_ready(group);
        }
        Entry::Queue(ticket)
    }

    fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.groups.values().all(|queue| queue.waiting.is_empty())
    }

    fn make_ready(&mut self, group: &Group) {
        if let Some(queue) = self.groups.get_mut(group)
            && !mem::replace(&mut queue.is_ready, true)
        {
            self.ready.push_back(group.clone());
        }
    }

    /// Ends a call.
    fn end(&mut self, group: &Group) {
        self.in_flight -= 1;
        if let Some(queue) = self.groups.get_mut(group) {
            queue.in_flight -= 1;
            queue.is_shared &= queue.in_flight > 0;
        }
        self.make_ready(group);
    }

    /// Begins the next call, if operations wait for it.
    fn begin(&mut self) -> Option<(Group, Vec<Waiting>)> {
        while let Some(group) = self.ready.pop_front() {
            let Some(queue) = self.groups.get_mut(&group) else {
                continue;
            };
            queue.is_ready = false;
            if !queue.has_lane(&group, queue.waiting.len()) {
                continue;
            }
            let taken = queue.take();
            if !taken.is_empty() {
                queue.in_flight += 1;
                queue.is_shared |= taken.len() > 1;
                self.in_flight += 1;
                return Some((group, taken));
            }
            if queue.in_flight == 0 {
                self.groups.remove(&group);
            }
        }
        None
    }
}

impl Queue {
    /// Returns whether so many operations may begin a call. If not, one in flight makes the group ready
    /// when it ends.
    fn has_lane(&self, group: &Group, operations: usize) -> bool {
        match self.in_flight {
            0 => true,
            calls if group.is_of_gets() => calls < GET_LANES,
            calls => calls < MUTATION_LANES && !self.is_shared && operations <= 1,
        }
    }

    /// Takes the operations of one call: the first, and those that may go with it.
    fn take(&mut self) -> Vec<Waiting> {
        self.waiting.retain(Waiting::is_waited_for);
        let Some(first) = self.waiting.front() else {
            return Vec::new();
        };
        let location = Arc::clone(&first.location);
        let is_beside = |waiting: &Waiting| waiting.location.region.name == location.region.name;
        let beside = self.waiting.iter().filter(|waiting| is_beside(waiting));
        let of_one_region = beside.take(WORTH_A_CALL).count() == WORTH_A_CALL;
        let mut taken = Vec::with_capacity(self.waiting.len().min(MOST_OPERATIONS));
        let mut rows = RowsOfAction::default();
        let mut bytes = 0;
        for mut waiting in mem::take(&mut self.waiting) {
            let len = waiting.operation.message.len();
            // The caller of the front one may claim it meanwhile; then another one is the first.
            let fits = taken.first().is_none_or(|first: &Waiting| {
                taken.len() < MOST_OPERATIONS
                    && bytes + len <= MOST_BYTES
                    && (!of_one_region || is_beside(&waiting))
                    && waiting.runtime.id() == first.runtime.id()
                    && waiting
                        .mutated_row()
                        .is_none_or(|row| rows.admit(row, &waiting.operation.message))
            });
            if !fits {
                self.waiting.push_back(waiting);
            } else if !waiting.claimed.swap(true, Ordering::Relaxed) {
                if let Some(row) = waiting.mutated_row() {
                    rows.add(row, &waiting.operation.message);
                }
                bytes += len;
                waiting.in_queue = None;
                taken.push(waiting);
            }
        }
        taken
    }
}

impl Lane {
    /// Executes the operations in one call. Ends early if no caller waits for any of them.
    async fn execute(mut self, mut operations: Vec<Waiting>) {
        self.has_begun = true;
        let Some(limit) = limit_of(&operations) else {
            return;
        };
        COALESCED.record(operations.len(), || [operations[0].operation.kind()]);
        let attempted = match &*operations {
            [alone] => {
                let Waiting {
                    location,
                    options,
                    operation,
                    ..
                } = alone;
                let (location, options, operation) =
                    (Arc::clone(location), options.clone(), operation.clone());
                let executed = self.client.execute_alone(&location, &options, &operation, limit);
                let executed = until_abandoned(&mut operations, executed).await;
                executed.map(|attempted| vec![Answer::Attempted(attempted)])
            }
            _ => {
                let call = SharedCall::new(&operations);
                let location = &self.location;
                let options = operations[0].options.clone();
                let answer = self
                    .client
                    .call(location, &options, "Multi", &call.request, limit);
                let answer = until_abandoned(&mut operations, answer).await;
                answer.map(|answer| {
                    let answers = answer.and_then(|(answer, block)| call.read(&operations, answer, block));
                    answers.unwrap_or_else(|failure| {
                        let failed = || Answer::Attempted(Err(failure.clone()));
                        operations.iter().map(|_| failed()).collect()
                    })
                })
            }
        };
        for (operation, answer) in operations.into_iter().zip(attempted.unwrap_or_default()) {
            // A caller that has gone needs no answer.
            let _ = operation.answer.send(answer);
        }
        // The callers may have further operations, which then share the next call.
        yield_now().await;
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let Self {
            client,
            location,
            group,
            has_begun,
        } = self;
        if !*has_begun {
            return client.lanes.leave(&location.server, group);
        }
        if let Some((group, operations)) = client.lanes.next(&location.server, group)
            && let Some(first) = operations.first()
        {
            let runtime = first.runtime.clone();
            let next = Self {
                client: Arc::clone(client),
                location: Arc::clone(&first.location),
                group,
                has_begun: false,
            };
            runtime.spawn(next.execute(operations));
        }
    }
}

/// Returns the limit of a call with these operations. Each caller also keeps its own.
fn limit_of(operations: &[Waiting]) -> Option<AttemptLimit> {
    let limits = operations.iter().map(|waiting| waiting.limit.clone());
    limits.reduce(AttemptLimit::with)
}

/// Returns the output of a call, or `None` if no caller waits for it any more.
async fn until_abandoned<F: Future>(operations: &mut [Waiting], call: F) -> Option<F::Output> {
    let mut left = operations.iter_mut();
    let mut watched = left.next();
    let abandoned = poll_fn(move |context| {
        while let Some(waiting) = &mut watched {
            if waiting.answer.poll_closed(context).is_pending() {
                return Poll::Pending;
            }
            watched = left.next();
        }
        Poll::Ready(())
    });
    tokio::select! {
        biased;
        output = call => Some(output),
        () = abandoned => None,
    }
}

#[cfg(test)]
mod tests;
