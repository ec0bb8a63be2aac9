//! Sends waiting transactions of one region in one call.
//!
//! Transactions on disjoint rows may be applied together: if the whole is atomic, so is each part.
//! While a call of a region is in flight, the transactions that arrive wait, and when it ends, the
//! next one takes as many as fit, in their order. No timer collects them: without other calls in
//! flight, a transaction is sent at once.
//!
//! A server takes far longer for two small calls than for one of both. So further calls, on disjoint
//! rows, begin only if they have many mutations, or if each has one transaction. For a server that is far
//! away there are more, because most of its calls are on the way. A call that takes much longer than
//! others is overdue: perhaps it waits for a row that another client keeps locked. It no longer counts,
//! and those that wait and have other rows continue without it.
//!
//! If the call was applied, all are committed. If it was certainly not applied, each is sent again
//! in a call of its own and gets its own outcome, so a transaction that the server refuses does not
//! fail the others. If the outcome is unknown, it is unknown for all.
//!
//! A record makes a transaction conditional: there must be no other record of its id. A call that
//! finds one applies nothing, and answers `false` to all.

mod queue;

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use hbase_client::{
    Durability, Effect,
    low_level::{CallerSpan, CallsInFlight, KEEP_THE_RUNTIME, Pace},
};
use tokio::{
    runtime::Handle,
    sync::oneshot,
    task::yield_now,
    time::{Instant, timeout_at},
};

use self::queue::Queue;
use super::endpoint_request::EndpointRequest;
use crate::{
    error::{ClientErrorKind, Error, Result},
    observe::COALESCED,
};

/// The number of calls to a region from which on transactions wait. While the server executes one,
/// others are under way in both directions.
const LANES: usize = 5;
/// The number of calls of one transaction from which on transactions wait: few callers do not wait for
/// each other, and many share one call.
const SINGLE_LANES: usize = 2;
/// The number of mutations that are worth a call beside others.
const WORTH_A_CALL: usize = 128;
/// The limits of one shared call, which keep it short.
const MAX_MUTATIONS: usize = 512;
const MAX_BYTES: usize = 1 << 20;
/// How long after its deadline a transaction still waits while a shared call carries it. That call
/// ends with the first deadline of its members, and reports the outcome a moment later.
const LAST_MOMENT: Duration = Duration::from_millis(100);

/// Sends requests to the endpoint.
pub(in crate::txn) trait SendRequest: Clone + Send + Sync + 'static {
    /// Returns the runtime of shared calls.
    fn runtime(&self) -> &Handle;

    /// Sends a request by the deadline. Returns `false` if a condition does not hold.
    fn send(&self, request: &EndpointRequest, deadline: Instant)
    -> impl Future<Output = Result<bool>> + Send;
}

/// The hash of a row. Two rows with the same hash only wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::txn) struct RowHash(u64);

impl RowHash {
    pub(in crate::txn) fn of(row: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        row.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// A set of rows, by their hashes.
type RowSet = HashSet<RowHash, BuildHasherDefault<HashOfHash>>;

/// Hashes a [`RowHash`] as itself.
#[derive(Default)]
struct HashOfHash(u64);

impl Hasher for HashOfHash {
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a row hash is one number");
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A transaction that may share a call.
#[derive(Clone, Debug)]
pub(in crate::txn) struct Member {
    pub(in crate::txn) request: EndpointRequest,
    /// The rows of the request's mutations.
    pub(in crate::txn) rows: Vec<RowHash>,
    pub(in crate::txn) mutations: usize,
    pub(in crate::txn) durability: Durability,
    pub(in crate::txn) version: Option<VersionChange>,
    pub(in crate::txn) deadline: Instant,
    /// A call that several transactions share belongs to the span of the first one.
    pub(in crate::txn) caller: CallerSpan,
}

/// A change of the partition's version, which a call has once for each partition.
#[derive(Clone, Debug)]
pub(in crate::txn) struct VersionChange {
    pub(in crate::txn) row: RowHash,
    /// The encoded mutation.
    pub(in crate::txn) message: Bytes,
}

/// The limits of one shared call.
#[derive(Clone, Copy, Debug)]
pub(in crate::txn) struct ShareLimits {
    pub(in crate::txn) mutations: usize,
    pub(in crate::txn) bytes: usize,
}

impl ShareLimits {
    /// Returns limits that keep calls short and stay within those of one transaction.
    pub(in crate::txn) fn within(max_mutations: usize, max_bytes: usize) -> Self {
        Self {
            mutations: max_mutations.min(MAX_MUTATIONS),
            bytes: max_bytes.min(MAX_BYTES),
        }
    }
}

/// The shared calls of one table, by the name of the region.
#[derive(Debug)]
pub(in crate::txn) struct GroupCommit {
    limits: ShareLimits,
    regions: Mutex<Regions>,
}

#[derive(Debug, Default)]
struct Regions {
    of: HashMap<Bytes, RegionCalls>,
    next_ticket: u64,
    pace: Pace,
}

/// The calls of one region, while there are any.
#[derive(Debug, Default)]
struct RegionCalls {
    calls: CallsInFlight<()>,
    /// Whether a call of several transactions has begun since none counted.
    is_shared: bool,
    queue: Queue,
}

#[derive(Debug)]
struct Waiting {
    member: Member,
    /// Whether it must not share a call, after a shared call that was not applied.
    alone: bool,
    /// Set when its call begins, or by the caller whose deadline passes.
    claimed: Arc<AtomicBool>,
    answer: oneshot::Sender<Result<bool>>,
}

/// Transactions of a call, with their tickets.
type Taken = Vec<(u64, Box<Waiting>)>;

/// How a transaction begins.
enum Entered {
    /// With a call of its own.
    Alone(BoxFuture<'static, Result<bool>>),
    Queued(Ticket),
}

/// A transaction's place in the queue of its region. Dropping it leaves the queue.
struct Ticket {
    group: Arc<GroupCommit>,
    region: Bytes,
    number: u64,
    claimed: Arc<AtomicBool>,
    answer: oneshot::Receiver<Result<bool>>,
}

/// A call in flight. Dropping it lets the next ones begin.
struct Lane<S: SendRequest> {
    group: Arc<GroupCommit>,
    region: Bytes,
    number: u64,
    rows: Vec<RowHash>,
    sender: S,
    is_answered: bool,
    /// Whether its call has begun. One that is dropped before, because the runtime has ended, begins no
    /// other: that would be dropped by the same statement.
    has_begun: bool,
}

impl Member {
    fn all_rows(&self) -> impl Iterator<Item = RowHash> {
        let version = self.version.as_ref().map(|version| version.row);
        self.rows.iter().copied().chain(version)
    }

    /// Transactions of one kind may share a call: a call with a record may be sent again.
    fn kind(&self) -> (Durability, bool) {
        (self.durability, self.request.repeatable)
    }

    /// Returns the request of a call of its own.
    fn into_request(self) -> EndpointRequest {
        match self.version {
            None => self.request,
            Some(version) => EndpointRequest::concat(&[&self.request], &[version.message]),
        }
    }
}

impl GroupCommit {
    pub(in crate::txn) fn new(limits: ShareLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            regions: Mutex::default(),
        })
    }

    /// Sends a transaction, alone or together with others of its region. Returns `false` if a
    /// condition does not hold, its own or that of another transaction of the call.
    ///
    /// A future that is dropped while it waits leaves nothing behind. If it is dropped while its
    /// mutations are in flight, a call of its own is abandoned like any other call; a shared call
    /// continues.
    ///
    /// # Errors
    ///
    /// Returns the error of its call.
    pub(in crate::txn) async fn send(
        self: &Arc<Self>,
        region: &Bytes,
        member: Member,
        sender: &impl SendRequest,
    ) -> Result<bool> {
        let deadline = member.deadline;
        let mut ticket = match self.enter(region, member, sender) {
            Entered::Alone(call) => return call.await,
            Entered::Queued(ticket) => ticket,
        };
        let mut limit = deadline.min(Instant::now() + self.patience());
        loop {
            match timeout_at(limit, &mut ticket.answer).await {
                Ok(answer) => return answer.unwrap_or_else(|_| Err(ended(ticket.claim()))),
                Err(_) if limit < deadline => {
                    limit = deadline.min(Instant::now() + self.patience());
                    self.begin_calls(region, sender);
                }
                Err(_) if ticket.claim() => {
                    let was_queued = ticket.leave().is_some();
                    return Err(if was_queued { not_sent() } else { not_begun() });
                }
                Err(_) if limit == deadline => limit += LAST_MOMENT,
                Err(_) => return Err(lost()),
            }
        }
    }

    fn regions(&self) -> MutexGuard<'_, Regions> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time after which a call is overdue.
    fn patience(&self) -> Duration {
        self.regions().pace.patience()
    }

    /// Begins a call of one transaction, or puts it into the queue if it has to wait.
    fn enter<S: SendRequest>(self: &Arc<Self>, region: &Bytes, member: Member, sender: &S) -> Entered {
        let mut regions = self.regions();
        let Regions {
            of,
            next_ticket,
            pace,
        } = &mut *regions;
        let calls = of.entry(region.clone()).or_default();
        let now = Instant::now();
        calls.count_no_overdue(pace, now);
        let is_first = calls.queue.is_empty() && calls.queue.are_free(member.all_rows());
        if is_first && calls.has_lane(pace, Some(&member)) {
            return Entered::Alone(self.begin_alone(region, calls, member, sender));
        }
        let number = *next_ticket;
        *next_ticket += 1;
        let (answer, receiver) = oneshot::channel();
        let claimed = Arc::new(AtomicBool::new(false));
        let waiting = Waiting {
            member,
            alone: false,
            claimed: Arc::clone(&claimed),
            answer,
        };
        calls.queue.insert(number, Box::new(waiting));
        let may_begin = calls.has_lane(pace, None);
        drop(regions);
        if may_begin {
            self.begin_calls(region, sender);
        }
        Entered::Queued(Ticket {
            group: Arc::clone(self),
            region: region.clone(),
            number,
            claimed,
            answer: receiver,
        })
    }

    /// Begins a call of one transaction.
    fn begin_alone<S: SendRequest>(
        self: &Arc<Self>,
        region: &Bytes,
        calls: &mut RegionCalls,
        member: Member,
        sender: &S,
    ) -> BoxFuture<'static, Result<bool>> {
        let number = calls.calls.begin((), Instant::now());
        calls.queue.lock(member.all_rows());
        let mut lane = self.lane(region, number, member.all_rows().collect(), sender);
        lane.has_begun = true;
        lane.send(member)
    }

    /// Begins calls as long as lanes are free, without overdue calls, and transactions wait that may go.
    fn begin_calls<S: SendRequest>(self: &Arc<Self>, region: &Bytes, sender: &S) {
        loop {
            let (number, taken) = {
                let mut regions = self.regions();
                let Regions { of, pace, .. } = &mut *regions;
                let Some(calls) = of.get_mut(region) else {
                    return;
                };
                let now = Instant::now();
                calls.count_no_overdue(pace, now);
                let Some(call) = calls.take(pace, self.limits, now) else {
                    return;
                };
                call
            };
            let rows = taken.iter().flat_map(|(_, waiting)| waiting.member.all_rows());
            let lane = self.lane(region, number, rows.collect(), sender);
            sender.runtime().spawn(share(lane, taken));
        }
    }

    fn lane<S: SendRequest>(
        self: &Arc<Self>,
        region: &Bytes,
        number: u64,
        rows: Vec<RowHash>,
        sender: &S,
    ) -> Lane<S> {
        Lane {
            group: Arc::clone(self),
            region: region.clone(),
            number,
            rows,
            sender: sender.clone(),
            is_answered: false,
            has_begun: false,
        }
    }
}

impl RegionCalls {
    fn count_no_overdue(&mut self, pace: &Pace, now: Instant) {
        while self.calls.next_overdue(pace.patience(), now).is_some() {}
        self.is_shared &= self.calls.counted() > 0;
    }

    /// Returns whether the transactions that may go, and this one, may begin a call.
    fn has_lane(&self, pace: &Pace, arriving: Option<&Member>) -> bool {
        let in_flight = self.calls.counted();
        if in_flight == 0 || in_flight < pace.on_the_way() {
            return true;
        }
        if in_flight >= LANES {
            return false;
        }
        let transactions = self.queue.ready().len() + usize::from(arriving.is_some());
        let are_few = transactions <= 1 && in_flight < SINGLE_LANES && !self.is_shared;
        let first = self.queue.ready().next();
        let is_alone = first.is_some_and(|(_, waiting)| waiting.alone);
        let waiting = self.queue.ready().map(|(_, waiting)| &waiting.member);
        let mut mutations = 0;
        let mut is_worth_a_call = |member: &Member| {
            mutations += member.mutations;
            mutations >= WORTH_A_CALL
        };
        are_few || is_alone || waiting.chain(arriving).any(&mut is_worth_a_call)
    }

    /// Takes the transactions of one call out of the queue, and begins it. Returns its number and them;
    /// none if all lanes are taken, or all that wait have rows of calls in flight.
    fn take(&mut self, pace: &Pace, limits: ShareLimits, now: Instant) -> Option<(u64, Taken)> {
        if !self.has_lane(pace, None) {
            return None;
        }
        let mut call = SharedCall::default();
        // The versions of transactions that are passed over: later ones must not overtake them.
        let (mut passed_over, mut parked) = (RowSet::default(), Vec::new());
        for (ticket, waiting) in self.queue.ready() {
            let member = &waiting.member;
            if !call.has_room(member, limits) {
                break;
            }
            let version = member.version.as_ref().map(|version| version.row);
            if version.is_some_and(|row| self.queue.is_locked(row)) {
                parked.push(ticket);
            } else if version.is_some_and(|row| passed_over.contains(&row)) || !call.fits(waiting, now) {
                passed_over.extend(version);
            } else {
                call.add(ticket, waiting);
            }
        }
        for ticket in parked {
            self.queue.check(ticket);
        }
        if call.tickets.is_empty() {
            return None;
        }
        self.is_shared |= call.tickets.len() > 1;
        let tickets = call.tickets.into_iter();
        let taken = tickets.filter_map(|ticket| Some((ticket, self.queue.take(ticket)?)));
        let taken = taken.collect();
        Some((self.calls.begin((), now), taken))
    }
}

/// A call that is being put together.
#[derive(Debug, Default)]
struct SharedCall {
    tickets: Vec<u64>,
    like: Option<Like>,
    mutations: usize,
    bytes: usize,
}

/// What the members of a call have in common.
#[derive(Debug)]
struct Like {
    kind: (Durability, bool),
    alone: bool,
    earliest_deadline: Instant,
    latest_deadline: Instant,
}

impl SharedCall {
    fn has_room(&self, member: &Member, limits: ShareLimits) -> bool {
        let is_within = self.mutations + member.mutations <= limits.mutations
            && self.bytes + member.request.len() <= limits.bytes;
        self.tickets.is_empty() || is_within
    }

    fn fits(&self, waiting: &Waiting, now: Instant) -> bool {
        let Waiting { member, alone, .. } = waiting;
        let Some(like) = &self.like else {
            return true;
        };
        // The call ends with the earliest deadline, and a later answer is lost to all members. The
        // deadlines must be similar, so that no member loses much of its time to another.
        let left = |deadline: Instant| deadline.saturating_duration_since(now);
        let shortest = left(like.earliest_deadline.min(member.deadline));
        let longest = left(like.latest_deadline.max(member.deadline));
        let is_alike = like.kind == member.kind();
        !alone && !like.alone && is_alike && shortest >= longest / 2
    }

    fn add(&mut self, number: u64, waiting: &Waiting) {
        let member = &waiting.member;
        let like = self.like.get_or_insert_with(|| Like {
            kind: member.kind(),
            alone: waiting.alone,
            earliest_deadline: member.deadline,
            latest_deadline: member.deadline,
        });
        like.earliest_deadline = like.earliest_deadline.min(member.deadline);
        like.latest_deadline = like.latest_deadline.max(member.deadline);
        self.tickets.push(number);
        self.mutations += member.mutations;
        self.bytes += member.request.len();
    }
}

impl Waiting {
    /// Claims the transaction for a call that begins. Returns whether its caller waits for that.
    fn begin(&self) -> bool {
        !self.claimed.swap(true, Ordering::Relaxed)
    }

    /// Reports the end of its call. A caller that waits no longer needs no answer.
    fn end(self, answer: Result<bool>) {
        drop(self.answer.send(answer));
    }
}

impl Ticket {
    /// Claims the transaction for its caller. Returns whether no call with it has begun.
    fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::Relaxed)
    }

    /// Leaves the queue. Returns `None` if a call has taken the transaction.
    fn leave(&self) -> Option<Box<Waiting>> {
        let mut regions = self.group.regions();
        let calls = regions.of.get_mut(&self.region)?;
        let waiting = calls.queue.remove(self.number);
        regions.remove_if_idle(&self.region);
        waiting
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // One that was answered has left the queue.
        if !self.answer.is_terminated() {
            self.leave();
        }
    }
}

impl Regions {
    fn remove_if_idle(&mut self, region: &Bytes) {
        let is_idle = |calls: &RegionCalls| calls.calls.is_empty() && calls.queue.is_empty();
        if self.of.get(region).is_some_and(is_idle) {
            self.of.remove(region);
        }
    }
}

impl<S: SendRequest> Lane<S> {
    /// Sends a transaction in a call of its own.
    fn send(self, member: Member) -> BoxFuture<'static, Result<bool>> {
        COALESCED.record(1, || []);
        let deadline = member.deadline;
        Box::pin(async move {
            let mut lane = self;
            let sent = lane.sender.send(&member.into_request(), deadline).await;
            lane.is_answered = sent.is_ok();
            sent
        })
    }

    /// Puts transactions back into the queue, each for a call of its own.
    fn send_back(&self, members: Taken) {
        let mut regions = self.group.regions();
        let calls = regions.of.entry(self.region.clone()).or_default();
        for (number, mut waiting) in members {
            // The caller of one whose receiver is closed waits no longer.
            if !waiting.answer.is_closed() {
                waiting.alone = true;
                waiting.claimed.store(false, Ordering::Relaxed);
                calls.queue.insert(number, waiting);
            }
        }
    }
}

impl<S: SendRequest> Drop for Lane<S> {
    fn drop(&mut self) {
        {
            let mut regions = self.group.regions();
            let Regions { of, pace, .. } = &mut *regions;
            if let Some(calls) = of.get_mut(&self.region) {
                if let Some(ended) = calls.calls.end(self.number).filter(|_| self.is_answered) {
                    pace.record(ended.began().elapsed());
                }
                calls.is_shared &= calls.calls.counted() > 0;
                calls.queue.unlock(&self.rows);
            }
            regions.remove_if_idle(&self.region);
        }
        if self.has_begun {
            self.group.begin_calls(&self.region, &self.sender);
        }
    }
}

/// Sends one call for transactions, and reports to them how it ended.
async fn share<S: SendRequest>(mut lane: Lane<S>, mut members: Taken) {
    lane.has_begun = true;
    members.retain(|(_, waiting)| waiting.begin());
    let all = || members.iter().map(|(_, waiting)| &waiting.member);
    let Some(deadline) = all().map(|member| member.deadline).min() else {
        return;
    };
    let requests: Vec<_> = all().map(|member| &member.request).collect();
    let mut versions = RowSet::default();
    let changes = all().filter_map(|member| member.version.as_ref());
    let changes: Vec<_> = changes
        .filter(|version| versions.insert(version.row))
        .map(|version| version.message.clone())
        .collect();
    let request = EndpointRequest::concat(&requests, &changes);
    let count = members.len();
    COALESCED.record(count, || []);
    tracing::trace!(partition = %request.partitions[0], members = count, "sharing a call");
    let caller = all().next().map(|member| member.caller.clone());
    let sent = lane.sender.send(&request, deadline);
    let sent = caller.unwrap_or_else(CallerSpan::current).within(sent).await;
    lane.is_answered = sent.is_ok();
    match sent {
        Err(error) if count > 1 && !error.is_outcome_unknown() => {
            tracing::debug!(partition = %request.partitions[0], members = count, %error, "sending singly");
            lane.send_back(members);
        }
        Err(error) if count > 1 => {
            let error = Arc::new(error);
            members
                .into_iter()
                .for_each(|(_, waiting)| waiting.end(Err(shared_error(&error, count))));
        }
        Ok(applied) => members
            .into_iter()
            .for_each(|(_, waiting)| waiting.end(Ok(applied))),
        Err(error) => {
            if let Some((_, only)) = members.into_iter().next() {
                only.end(Err(error));
            }
        }
    }
    // The callers may have further transactions, which then share the next call.
    yield_now().await;
}

/// Returns the error of a transaction that waited until its deadline.
pub(super) fn not_sent() -> Error {
    Error::new(
        ClientErrorKind::DeadlineExceeded,
        "not sent: its turn did not come, other transactions of the partition or its region went before it",
    )
    .with_retryable(true)
}

/// Returns the error of a transaction whose call did not begin before its deadline.
fn not_begun() -> Error {
    let what = "not sent: the runtime of the connection is not driven, or is busy";
    let error = Error::new(ClientErrorKind::DeadlineExceeded, what);
    error.with_retryable(true).with_hint(KEEP_THE_RUNTIME)
}

/// Returns the error of a transaction whose call was dropped.
fn ended(before_it_began: bool) -> Error {
    let error = Error::new(ClientErrorKind::Closed, "the runtime of the connection has ended");
    let error = error.with_hint(KEEP_THE_RUNTIME);
    if before_it_began {
        error
    } else {
        error.with_effect(Effect::Unknown)
    }
}

/// Returns the error of one member of a failed call.
fn shared_error(error: &Arc<Error>, members: usize) -> Error {
    let what = format!("its call, which carried {members} transactions, failed");
    let shared = Error::new(error.kind(), what).with_effect(error.effect());
    let shared = match error.remote() {
        Some(remote) => shared.with_remote(remote.clone()),
        None => shared,
    };
    shared.with_source(Arc::clone(error))
}

fn lost() -> Error {
    Error::new(
        ClientErrorKind::DeadlineExceeded,
        "the call that carried it and others was not answered in time",
    )
    .with_effect(Effect::Unknown)
}

#[cfg(test)]
impl GroupCommit {
    /// Returns the number of regions that have calls.
    fn region_count(&self) -> usize {
        self.regions().of.len()
    }
}

#[cfg(test)]
mod tests;
