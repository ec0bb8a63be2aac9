//! Single gets, puts and deletes that share calls.
//!
//! A server spends far more time on a call than on an operation in it. So a few calls
//! of single gets are in flight to a server, and one of single mutations to a region, or two if each
//! has one mutation. The operations that arrive meanwhile wait, and when a call ends, one call takes
//! as many of them as it may. No timer is involved: without other operations in flight, an operation
//! is sent at once, as a call of its own. For a server that is far away there are more lanes, because
//! most of its calls are on the way.
//!
//! A call that takes much longer than others is overdue. It no longer counts, and those that wait
//! continue without it. The regions of an overdue call of gets share no call with other regions until
//! one of their calls is answered, so that a region that does not answer delays no other one.
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
mod operation;
mod traffic;

use std::{
    collections::BTreeMap,
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use tokio::{
    sync::Notify,
    task::yield_now,
    time::{Instant, timeout_at},
};

pub(in crate::client) use self::operation::Operation;
use self::{
    call::SharedCall,
    operation::{Answer, Attempted},
    traffic::{Entry, Group, NextCall, Ticket, Traffic, Waiting},
};
use super::calls_in_flight::PATIENCE;
use crate::{
    client::{change_log::ChangeLog, recent_deletes::RecentDeletes, server_clocks::ServerClocks},
    cluster::{Cluster, RegionLocation},
    model::ServerName,
    observe::client_metrics::COALESCED,
    rpc::{AttemptLimit, CallError, CallOptions, ServiceKind},
    wire::{
        convert,
        multi::{EncodedGetRequest, EncodedMutateRequest},
        pb,
    },
};

/// What the clones of a client share.
pub(in crate::client) struct Shared {
    pub(in crate::client) cluster: Cluster,
    pub(in crate::client) lanes: Lanes,
    pub(in crate::client) recent_deletes: RecentDeletes,
    pub(in crate::client) server_clocks: ServerClocks,
    pub(in crate::client) change_log: Option<Arc<dyn ChangeLog>>,
}

/// The single operations of a client, by server.
#[derive(Debug, Default)]
pub(in crate::client) struct Lanes {
    traffic: Mutex<AllTraffic>,
    /// Notified when no call to a server is in flight any more.
    idle: Notify,
}

#[derive(Debug, Default)]
struct AllTraffic {
    servers: BTreeMap<ServerName, Traffic>,
    is_closed: bool,
}

/// The place of a call in flight. When it ends, the next one takes its place.
struct Lane {
    client: Arc<Shared>,
    location: Arc<RegionLocation>,
    group: Group,
    number: u64,
    /// Whether its call has begun. One that is dropped before, because the runtime has ended, begins no
    /// other: that would be dropped by the same statement.
    has_begun: bool,
    is_answered: bool,
}

impl Shared {
    /// Executes an operation, alone or in a shared call. Makes one attempt.
    ///
    /// One that has a second chance, and whose call is stuck, perhaps at another region, enters the lanes
    /// once more, while the first call may still answer it. Only gets may have one.
    pub(in crate::client) async fn execute(
        self: &Arc<Self>,
        location: &Arc<RegionLocation>,
        options: &CallOptions,
        operation: &Operation,
        limit: AttemptLimit,
        has_second_chance: bool,
    ) -> Attempted {
        let alone = || self.execute_alone(location, options, operation, limit.clone());
        let is_shared = self.cluster.config.coalescing() && !operation.is_alone;
        if !is_shared || location.region.table.is_system() {
            return alone().await;
        }
        let began = Instant::now();
        let enter = || Waiting::new(location, options, operation, limit.clone());
        let group = Group::new(location, options, operation);
        let entry = self.lanes.enter(location, group, began, enter);
        let (group, mut ticket) = match entry {
            Entry::Queue(group, ticket) => (group, ticket),
            Entry::Lane(group, number) => {
                let mut lane = Lane {
                    client: Arc::clone(self),
                    location: Arc::clone(location),
                    group,
                    number,
                    has_begun: true,
                    is_answered: false,
                };
                COALESCED.record(1, || [operation.kind()]);
                let attempted = alone().await;
                lane.is_answered = is_answered(&attempted);
                return attempted;
            }
            Entry::Closed => return Err(CallError::Closed),
        };
        let (mut patience, mut taken_since) = (PATIENCE, None);
        let answer = loop {
            let until = limit.deadline.min(Instant::now() + patience);
            if let Ok(answer) = timeout_at(until, &mut ticket.answer).await {
                break answer;
            }
            let now = Instant::now();
            if now >= limit.deadline {
                let (waited, sent) = (began.elapsed(), ticket.claim());
                let failure = CallError::Timeout { waited, sent };
                return Err(self.cluster.unless_not_driven(failure));
            }
            patience = self.lanes.patience(&location.server);
            self.begin_without_overdue(&location.server, &group, now);
            if has_second_chance && ticket.is_taken() && taken_since.replace(now).is_some() {
                let again = self.execute(location, options, operation, limit.clone(), false);
                tokio::select! {
                    biased;
                    answer = &mut ticket.answer => break answer,
                    attempted = Box::pin(again) => return attempted,
                }
            }
        };
        match answer {
            Ok(Answer::Attempted(attempted)) => attempted,
            Ok(Answer::Alone) => alone().await,
            Err(_) => Err(CallError::RuntimeEnded { sent: ticket.claim() }),
        }
    }

    /// Begins calls of what waits in a group, if those in flight are overdue.
    fn begin_without_overdue(self: &Arc<Self>, server: &ServerName, group: &Group, now: Instant) {
        let mut overdue = Some(group);
        while let Some(next) = self.lanes.begin(server, overdue.take(), now) {
            self.spawn(next);
        }
    }

    /// Executes a call in the runtime of the connection.
    fn spawn(self: &Arc<Self>, next: NextCall) {
        let NextCall {
            group,
            number,
            operations,
        } = next;
        let Some(first) = operations.first() else { return };
        let lane = Lane {
            client: Arc::clone(self),
            location: Arc::clone(&first.location),
            group,
            number,
            has_begun: false,
            is_answered: false,
        };
        self.cluster.runtime().spawn(lane.execute(operations));
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
            let answer = self
                .cluster
                .call_region_server(location, ServiceKind::Client, options, "Get", &request, limit)
                .await;
            let (answer, block): (pb::GetResponse, _) = answer?;
            (answer.result, block)
        } else {
            let mutation = message;
            let request = EncodedMutateRequest {
                region,
                mutation,
                nonce_group: operation.nonce_group,
            };
            let answer = self
                .cluster
                .call_region_server(location, ServiceKind::Client, options, "Mutate", &request, limit)
                .await;
            let (answer, block): (pb::MutateResponse, _) = answer?;
            (answer.result, block)
        };
        convert::row(result.unwrap_or_default(), &mut block)
            .map_err(|error| CallError::BadAnswer(error.to_string().into()))
    }
}

impl Lanes {
    fn traffic(&self) -> MutexGuard<'_, AllTraffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(
        &self,
        location: &RegionLocation,
        group: Group,
        now: Instant,
        waiting: impl FnOnce() -> (Waiting, Ticket),
    ) -> Entry {
        let mut all = self.traffic();
        if all.is_closed {
            return Entry::Closed;
        }
        if let Some(traffic) = all.servers.get_mut(&location.server) {
            return traffic.enter(location, group, now, waiting);
        }
        // Servers that have restarted have other names.
        all.servers.retain(|_, traffic| !traffic.is_idle());
        let traffic = all.servers.entry(location.server.clone()).or_default();
        traffic.enter(location, group, now, waiting)
    }

    /// Begins the next call to a server, if there is one. The overdue calls of a group are not counted
    /// any more.
    fn begin(&self, server: &ServerName, overdue: Option<&Group>, now: Instant) -> Option<NextCall> {
        let mut all = self.traffic();
        let traffic = all.servers.get_mut(server)?;
        if let Some(group) = overdue {
            traffic.count_no_overdue(group, traffic.is_full(), now);
            traffic.make_ready(group);
        }
        traffic.begin(now)
    }

    /// Returns the next call, which takes the place of one that has ended.
    fn next(&self, lane: &Lane) -> Option<NextCall> {
        let mut all = self.traffic();
        let traffic = all.servers.get_mut(&lane.location.server)?;
        let now = Instant::now();
        traffic.end(&lane.group, lane.number, lane.is_answered, now);
        let next = lane.has_begun.then(|| traffic.begin(now)).flatten();
        if traffic.in_flight == 0 {
            self.idle.notify_waiters();
        }
        next
    }

    /// Returns the time after which a call to a server is overdue.
    fn patience(&self, server: &ServerName) -> Duration {
        let all = self.traffic();
        let traffic = all.servers.get(server);
        traffic.map_or(PATIENCE, |traffic| traffic.pace.patience())
    }

    /// Refuses further operations, and returns when none is in flight or waits.
    pub(in crate::client) async fn close(&self) {
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

impl Lane {
    /// Executes the operations in one call. Ends early if no caller waits for any of them.
    async fn execute(mut self, mut operations: Vec<Waiting>) {
        self.has_begun = true;
        operations.retain(Waiting::begin);
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
                self.is_answered = executed.as_ref().is_some_and(is_answered);
                executed.map(|attempted| vec![Answer::Attempted(attempted)])
            }
            _ => {
                let call = SharedCall::new(&operations);
                let location = &self.location;
                let options = operations[0].options.clone();
                let answer = self.client.cluster.call_region_server(
                    location,
                    ServiceKind::Client,
                    &options,
                    "Multi",
                    &call.request,
                    limit,
                );
                let answer = until_abandoned(&mut operations, answer).await;
                self.is_answered = answer.as_ref().is_some_and(is_answered);
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
        if let Some(next) = self.client.lanes.next(self) {
            self.client.spawn(next);
        }
    }
}

/// Returns whether the server has answered.
fn is_answered<T>(attempted: &Result<T, CallError>) -> bool {
    attempted.as_ref().err().is_none_or(CallError::is_answer)
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
