//! The calls in flight to a server, and the operations that wait for one. No I/O.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use tokio::{sync::oneshot, time::Instant};

use super::{
    super::calls_in_flight::{CallsInFlight, Pace, RegionsOfCall},
    operation::{Answer, Operation},
};
use crate::{
    cluster::RegionLocation,
    observe::{GaugeUnit, client_metrics::OPERATIONS_WAITING},
    rpc::{AttemptLimit, CallOptions},
    wire::same_row::RowsOfAction,
};

/// The number of calls of gets to a server from which on gets wait. While the server executes some,
/// the client encodes and decodes others.
const GET_LANES: usize = 4;
/// The number of calls of one mutation to a region from which on its mutations wait: few callers do
/// not wait for each other, and many share one call.
const MUTATION_LANES: usize = 2;
/// The number of all calls of single operations to a server from which on operations wait: more than
/// a server's handlers, far fewer than its queue has places.
pub(super) const SERVER_LANES: usize = 64;
/// The maximum number of operations in a call, and of bytes unless one operation is larger.
pub(super) const MOST_OPERATIONS: usize = 1_000;
pub(super) const MOST_BYTES: usize = 1 << 20;
/// The number of waiting gets of one region that are worth a call of their own.
pub(super) const WORTH_A_CALL: usize = 16;

/// An operation that waits for a call.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) location: Arc<RegionLocation>,
    pub(super) options: CallOptions,
    pub(super) operation: Operation,
    pub(super) limit: AttemptLimit,
    /// Set when its call begins, or by the caller whose deadline passes.
    claimed: Arc<AtomicBool>,
    pub(super) answer: oneshot::Sender<Answer>,
    /// Until a call takes it.
    in_queue: Option<GaugeUnit>,
}

/// The caller's end of a [`Waiting`].
pub(super) struct Ticket {
    claimed: Arc<AtomicBool>,
    pub(super) answer: oneshot::Receiver<Answer>,
}

/// What may share a call: gets from a server, gets from a region that is suspected not to answer, or
/// mutations of a region.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    options: CallOptions,
    is_of_gets: bool,
    /// The region's name; `None` for all regions.
    region: Option<Bytes>,
}

/// What an operation that arrives does.
pub(super) enum Entry {
    /// It begins a call, with this number.
    Lane(Group, u64),
    /// It waits.
    Queue(Group, Ticket),
    Closed,
}

/// The calls of single operations to a server.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// All calls in flight.
    pub(super) in_flight: usize,
    /// Those that are not overdue.
    counted: usize,
    pub(super) pace: Pace,
    pub(super) groups: BTreeMap<Group, Queue>,
    /// The groups that may begin a call when one to the server ends, in the order of their arrival.
    ready: VecDeque<Group>,
    /// The names of the regions with overdue calls of gets.
    suspects: BTreeSet<Bytes>,
}

/// The operations of a group.
#[derive(Debug, Default)]
pub(super) struct Queue {
    calls: CallsInFlight<RegionsOfCall>,
    /// Whether a call with several mutations has begun since none was counted.
    is_shared: bool,
    pub(super) waiting: VecDeque<Waiting>,
    is_ready: bool,
}

/// A call that begins.
pub(super) struct NextCall {
    pub(super) group: Group,
    pub(super) number: u64,
    pub(super) operations: Vec<Waiting>,
}

impl Group {
    pub(super) fn new(location: &RegionLocation, options: &CallOptions, operation: &Operation) -> Self {
        Self {
            options: options.clone(),
            is_of_gets: operation.is_get,
            region: (!operation.is_get).then(|| location.region.name.clone()),
        }
    }
}

impl Ticket {
    /// Returns whether a call with the operation has begun.
    pub(super) fn is_taken(&self) -> bool {
        self.claimed.load(Ordering::Relaxed)
    }

    /// Claims the operation for its caller. Returns whether a call with it has begun before.
    pub(super) fn claim(&self) -> bool {
        self.claimed.swap(true, Ordering::Relaxed)
    }
}

impl Waiting {
    pub(super) fn new(
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
            answer,
            in_queue: Some(OPERATIONS_WAITING.raise()),
        };
        (waiting, ticket)
    }

    /// Returns whether its caller waits for a call.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.claimed.load(Ordering::Relaxed) && !self.answer.is_closed()
    }

    /// Claims the operation for a call that begins. Returns whether its caller waits for that.
    pub(super) fn begin(&self) -> bool {
        !self.claimed.swap(true, Ordering::Relaxed)
    }

    pub(super) fn mutated_row(&self) -> Option<&Bytes> {
        (!self.operation.is_get).then_some(&self.operation.row)
    }
}

impl Traffic {
    pub(super) fn enter(
        &mut self,
        location: &RegionLocation,
        mut group: Group,
        now: Instant,
        waiting: impl FnOnce() -> (Waiting, Ticket),
    ) -> Entry {
        let region = &location.region.name;
        if group.is_of_gets && self.suspects.contains(region) {
            group.region = Some(region.clone());
        }
        self.count_no_overdue(&group, false, now);
        let (is_full, on_the_way) = (self.is_full(), self.pace.on_the_way());
        let queue = self.groups.entry(group.clone()).or_default();
        let has_lane = queue.has_lane(&group, queue.waiting.len() + 1, on_the_way);
        if has_lane && !is_full {
            self.in_flight += 1;
            self.counted += 1;
            let number = queue.calls.begin(RegionsOfCall::new(region, []), now);
            return Entry::Lane(group, number);
        }
        let (waiting, ticket) = waiting();
        if queue.waiting.len() == queue.waiting.capacity() {
            // Those whose callers have gone need no place.
            queue.waiting.retain(Waiting::is_waited_for);
        }
        queue.waiting.push_back(waiting);
        if has_lane {
            self.make_ready(&group);
        }
        Entry::Queue(group, ticket)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.groups.values().all(|queue| queue.waiting.is_empty())
    }

    /// Returns whether the server has enough calls.
    pub(super) fn is_full(&self) -> bool {
        self.counted >= SERVER_LANES.max(4 * self.pace.on_the_way())
    }

    pub(super) fn make_ready(&mut self, group: &Group) {
        if let Some(queue) = self.groups.get_mut(group)
            && !mem::replace(&mut queue.is_ready, true)
        {
            self.ready.push_back(group.clone());
        }
    }

    /// Counts the overdue calls of a group no more, or those of every group.
    pub(super) fn count_no_overdue(&mut self, group: &Group, of_every_group: bool, now: Instant) {
        let patience = self.pace.patience();
        let queues = if of_every_group {
            self.groups.range_mut::<Group, _>(..)
        } else {
            self.groups.range_mut(group..=group)
        };
        for (group, queue) in queues {
            while let Some(call) = queue.calls.next_overdue(patience, now) {
                self.counted -= 1;
                if group.is_of_gets {
                    self.suspects.extend(call.what().iter().cloned());
                }
            }
            queue.is_shared &= queue.calls.counted() > 0;
        }
    }

    /// Ends a call.
    pub(super) fn end(&mut self, group: &Group, number: u64, is_answered: bool, now: Instant) {
        self.in_flight -= 1;
        if let Some(queue) = self.groups.get_mut(group)
            && let Some(ended) = queue.calls.end(number)
        {
            if !ended.is_overdue() {
                self.counted -= 1;
                queue.is_shared &= queue.calls.counted() > 0;
            }
            if is_answered {
                self.pace.record(now.saturating_duration_since(ended.began()));
                for region in ended.what().iter() {
                    self.suspects.remove(region);
                }
            }
        }
        self.make_ready(group);
    }

    /// Begins the next call, if operations wait for it.
    pub(super) fn begin(&mut self, now: Instant) -> Option<NextCall> {
        let on_the_way = self.pace.on_the_way();
        while !self.is_full()
            && let Some(group) = self.ready.pop_front()
        {
            let Some(queue) = self.groups.get_mut(&group) else {
                continue;
            };
            queue.is_ready = false;
            if !queue.has_lane(&group, queue.waiting.len(), on_the_way) {
                continue;
            }
            let operations = queue.take();
            let Some(first) = operations.first() else {
                if queue.calls.is_empty() {
                    self.groups.remove(&group);
                }
                continue;
            };
            queue.is_shared |= operations.len() > 1;
            let names = operations.iter().map(|waiting| &waiting.location.region.name);
            let regions = RegionsOfCall::new(&first.location.region.name, names);
            self.in_flight += 1;
            self.counted += 1;
            let number = queue.calls.begin(regions, now);
            return Some(NextCall {
                group,
                number,
                operations,
            });
        }
        None
    }
}

impl Queue {
    /// Returns whether so many operations may begin a call. If not, one in flight makes the group ready
    /// when it ends.
    fn has_lane(&self, group: &Group, operations: usize, on_the_way: usize) -> bool {
        match self.calls.counted() {
            0 => true,
            calls if calls < on_the_way => true,
            calls if group.is_of_gets => calls < GET_LANES,
            calls => calls < MUTATION_LANES && !self.is_shared && operations <= 1,
        }
    }

    /// Takes the operations of one call: the first, and those that may go with it.
    pub(super) fn take(&mut self) -> Vec<Waiting> {
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
            let fits = taken.is_empty()
                || taken.len() < MOST_OPERATIONS
                    && bytes + len <= MOST_BYTES
                    && (!of_one_region || is_beside(&waiting))
                    && waiting
                        .mutated_row()
                        .is_none_or(|row| rows.admit(row, &waiting.operation.message));
            if !fits {
                self.waiting.push_back(waiting);
            } else {
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
