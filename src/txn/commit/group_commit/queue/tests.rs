use std::{mem::take, time::Duration};

use hbase_client::{Durability, low_level::CallerSpan};
use proptest::prelude::*;
use tokio::{runtime::Builder, sync::oneshot, time::Instant};

use crate::{
    partition::PartitionRule,
    txn::commit::{
        endpoint_request::EndpointRequest,
        group_commit::{Member, VersionChange, queue::*},
    },
};

fn waiting(rows: &[u8], version: Option<u8>) -> Box<Waiting> {
    let rule = PartitionRule::prefix_length(3).unwrap();
    let partition = rule.partition("xxx").unwrap();
    let request = EndpointRequest::new(&partition, &[], Vec::new(), Durability::SyncWal, false);
    Box::new(Waiting {
        member: Member {
            request,
            rows: rows.iter().map(|row| RowHash(u64::from(*row))).collect(),
            mutations: rows.len(),
            durability: Durability::SyncWal,
            version: version.map(|row| VersionChange {
                row: RowHash(u64::from(row)),
                message: bytes::Bytes::new(),
            }),
            deadline: Instant::now() + Duration::from_secs(60),
            caller: CallerSpan::current(),
        },
        alone: false,
        claimed: std::sync::Arc::default(),
        answer: oneshot::channel().0,
    })
}

#[derive(Clone, Debug)]
enum Step {
    Arrive(Vec<u8>, Option<u8>),
    Leave(usize),
    /// Takes up to so many for a call.
    Call(usize),
    /// Ends a call. Some of its transactions come back.
    End(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let rows = prop::collection::vec(0u8..8, 1..4);
    prop_oneof![
        4 => (rows, prop::option::of(100u8..102)).prop_map(|(rows, version)| Step::Arrive(rows, version)),
        1 => any::<usize>().prop_map(Step::Leave),
        2 => (1usize..4).prop_map(Step::Call),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(index, back)| Step::End(index, back)),
    ]
}

type Ask = (Vec<u8>, Option<u8>);

/// The queue beside what it stands for.
#[derive(Default)]
struct Checked {
    queue: Queue,
    waiting: BTreeMap<u64, Ask>,
    calls: Vec<Vec<(u64, Ask)>>,
    next: u64,
}

impl Checked {
    fn in_flight(&self) -> BTreeSet<u8> {
        let asks = self.calls.iter().flatten().map(|(_, ask)| ask);
        asks.flat_map(|(rows, version)| rows.iter().copied().chain(*version))
            .collect()
    }

    /// Returns those that may go: no call in flight and no earlier one has any of their rows.
    fn expected(&self) -> Vec<u64> {
        let (in_flight, mut earlier) = (self.in_flight(), BTreeSet::<u8>::new());
        let mut ready = Vec::new();
        for (ticket, (rows, version)) in &self.waiting {
            let is_free = |row: &u8| !in_flight.contains(row) && !earlier.contains(row);
            let version_is_free = version.is_none_or(|version| !in_flight.contains(&version));
            if rows.iter().all(is_free) && version_is_free {
                ready.push(*ticket);
            }
            earlier.extend(rows);
        }
        ready
    }

    fn arrive(&mut self, ticket: u64, (rows, version): Ask) {
        self.queue.insert(ticket, waiting(&rows, version));
        self.waiting.insert(ticket, (rows, version));
    }

    fn call(&mut self, most: usize) {
        let taken: Vec<u64> = self.queue.ready().map(|(ticket, _)| ticket).take(most).collect();
        let mut call = Vec::new();
        for ticket in taken {
            let ask = self.waiting.remove(&ticket).unwrap();
            self.queue.take(ticket).unwrap();
            call.push((ticket, ask));
        }
        // As the call is put together, those of its versions that are left are parked.
        for (ticket, ask) in &self.waiting {
            if ask.1.is_some() {
                self.queue.check(*ticket);
            }
        }
        if !call.is_empty() {
            self.calls.push(call);
        }
    }

    fn end(&mut self, index: usize, back: bool) {
        if self.calls.is_empty() {
            return;
        }
        let mut call = self.calls.remove(index % self.calls.len());
        let asks = call.iter().map(|(_, ask)| ask);
        let rows: Vec<RowHash> = asks
            .flat_map(|(rows, version)| rows.iter().copied().chain(*version))
            .map(|row| RowHash(u64::from(row)))
            .collect();
        if back {
            for (ticket, ask) in take(&mut call) {
                self.arrive(ticket, ask);
            }
        }
        self.queue.unlock(&rows);
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Arrive(rows, version) => {
                self.next += 1;
                self.arrive(self.next, (rows, version));
            }
            Step::Leave(index) => {
                let ticket = self
                    .waiting
                    .keys()
                    .nth(index % self.waiting.len().max(1))
                    .copied();
                if let Some(ticket) = ticket {
                    self.waiting.remove(&ticket);
                    assert!(self.queue.remove(ticket).is_some());
                }
            }
            Step::Call(most) => self.call(most),
            Step::End(index, back) => self.end(index, back),
        }
    }
}

proptest! {
    #[test]
    fn those_that_may_go_are_first_of_their_rows_and_in_no_call(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let mut checked = Checked::default();
        for step in steps {
            checked.apply(step);
            let ready: Vec<u64> = checked.queue.ready().map(|(ticket, _)| ticket).collect();
            prop_assert_eq!(ready, checked.expected());
        }
        while !checked.waiting.is_empty() {
            checked.end(0, false);
            checked.call(1);
        }
        checked.calls.clear();
        prop_assert!(checked.queue.is_empty() && checked.queue.by_row.is_empty());
        prop_assert!(checked.queue.by_version.is_empty() && checked.queue.ready.is_empty());
    }
}

#[tokio::test]
async fn those_that_wait_for_one_row_are_not_looked_at() {
    let mut queue = Queue::default();
    for ticket in 0..4_000 {
        queue.insert(ticket, waiting(&[1], None));
    }
    queue.take(0);
    assert_eq!(queue.ready().len(), 0);
    queue.insert(4_000, waiting(&[2], None));
    let ready: Vec<_> = queue.ready().map(|(ticket, _)| ticket).collect();
    assert_eq!(ready, [4_000]);
    queue.unlock(&[RowHash(1)]);
    assert_eq!(queue.ready().len(), 2);
}
