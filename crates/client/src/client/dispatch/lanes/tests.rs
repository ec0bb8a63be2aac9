use std::collections::{BTreeMap, VecDeque};

use rstest::rstest;
use tokio::time::advance;

use super::super::calls_in_flight::Pace;
use super::traffic::{MOST_BYTES, MOST_OPERATIONS, Queue, SERVER_LANES, WORTH_A_CALL};
use crate::{
    client::dispatch::{lanes::*, tests::location},
    model::{Delete, Get, Mutation, Put},
};

const REGION: &str = "t,,1";

fn waiting(region: &str, operation: &Operation) -> (Waiting, Ticket) {
    let limit = AttemptLimit::new(Instant::now() + Duration::from_secs(1), false);
    Waiting::new(&location(region), &CallOptions::default(), operation, limit)
}

fn group(region: &str, operation: &Operation) -> Group {
    Group::new(&location(region), &CallOptions::default(), operation)
}

fn mutation(mutation: impl Into<Mutation>) -> Operation {
    Operation::mutation(&mutation.into())
}

fn rows(taken: &[Waiting]) -> Vec<String> {
    let text = |waiting: &Waiting| String::from_utf8(waiting.operation.row.to_vec()).unwrap();
    taken.iter().map(text).collect()
}

/// The operations of one group.
#[derive(Default)]
struct Waiters {
    queue: Queue,
    tickets: Vec<Ticket>,
}

impl Waiters {
    fn add(&mut self, region: &str, operation: &Operation) {
        let (waiting, ticket) = waiting(region, operation);
        self.queue.waiting.push_back(waiting);
        self.tickets.push(ticket);
    }

    fn put(&mut self, row: &str, value: &[u8]) {
        let put = Put::new(row.to_owned()).cell("f", "q", value.to_vec());
        self.add(REGION, &mutation(put));
    }

    fn get(&mut self, region: &str, row: &str) {
        let get = Get::new(row.to_owned());
        self.add(region, &Operation::get(&get));
    }

    /// Takes one call, and returns its rows.
    fn take(&mut self) -> Vec<String> {
        rows(&self.queue.take())
    }
}

#[tokio::test]
async fn call_has_no_two_mutations_of_one_row() {
    let mut waiters = Waiters::default();
    waiters.put("a", b"1");
    waiters.add(REGION, &mutation(Delete::new("a")));
    waiters.put("b", b"1");
    assert_eq!(waiters.take(), ["a", "b"]);
    assert_eq!(waiters.take(), ["a"]);
    assert!(waiters.take().is_empty());
}

#[tokio::test]
async fn gets_share_calls_with_those_of_other_regions_and_mutations_do_not() {
    let get = Operation::get(&Get::new("a"));
    let put = mutation(Put::new("a").cell("f", "q", "v"));
    assert_eq!(group("one", &get), group("other", &get));
    assert_ne!(group("one", &put), group("other", &put));
    assert_ne!(group("one", &put), group("one", &get));
}

/// The calls and queues of a server.
#[derive(Default)]
struct Server {
    traffic: Traffic,
    tickets: Vec<Ticket>,
    /// The calls in flight to each region, in the order in which they began.
    calls: BTreeMap<String, VecDeque<(Group, u64)>>,
}

impl Server {
    /// Returns whether a put begins a call.
    fn begins(&mut self, region: &str, row: &str) -> bool {
        self.begins_with(region, &mutation(Put::new(row.to_owned()).cell("f", "q", "v")))
    }

    /// Returns whether a get begins a call.
    fn reads(&mut self, region: &str, row: &str) -> bool {
        self.begins_with(region, &Operation::get(&Get::new(row.to_owned())))
    }

    fn begins_with(&mut self, region: &str, operation: &Operation) -> bool {
        let (location, group) = (location(region), group(region, operation));
        let enter = || waiting(region, operation);
        match self.traffic.enter(&location, group, Instant::now(), enter) {
            Entry::Lane(group, number) => {
                self.add_call(region, group, number);
                true
            }
            Entry::Queue(_, ticket) => {
                self.tickets.push(ticket);
                false
            }
            Entry::Closed => unreachable!("only all traffic is closed"),
        }
    }

    fn add_call(&mut self, region: &str, group: Group, number: u64) {
        let calls = self.calls.entry(region.to_owned()).or_default();
        calls.push_back((group, number));
    }

    /// Ends the first call to a region, and returns the rows of the next call.
    fn end(&mut self, region: &str) -> Vec<String> {
        let (group, number) = self.calls.get_mut(region).unwrap().pop_front().unwrap();
        self.traffic.end(&group, number, true, Instant::now());
        self.begin()
    }

    /// Begins the next call, and returns its rows.
    fn begin(&mut self) -> Vec<String> {
        let Some(next) = self.traffic.begin(Instant::now()) else {
            return Vec::new();
        };
        let region = &next.operations[0].location.region.name;
        let region = String::from_utf8(region.to_vec()).unwrap();
        self.add_call(&region, next.group, next.number);
        rows(&next.operations)
    }
}

#[tokio::test]
async fn few_mutations_of_a_region_do_not_wait_and_many_share_one_call() {
    let mut puts = Server::default();
    assert!(puts.begins("one", "a") && puts.begins("one", "b"));
    assert!(!puts.begins("one", "c"));
    assert_eq!(puts.end("one"), ["c"]);
    assert!(!puts.begins("one", "d") && !puts.begins("one", "e"));
    // Two wait for the other call, so that they share one.
    assert!(puts.end("one").is_empty());
    assert!(!puts.begins("one", "f"));
    assert_eq!(puts.end("one"), ["d", "e", "f"]);
    assert!(!puts.begins("one", "g"), "a shared call is in flight");
    assert!(puts.begins("other", "x"));
    assert_eq!(puts.end("one"), ["g"]);
    for region in ["one", "other"] {
        assert!(puts.end(region).is_empty());
    }
    assert!(puts.traffic.groups.is_empty() && puts.traffic.in_flight == 0);
}

#[tokio::test]
async fn regions_take_turns_if_the_calls_to_their_server_are_limited() {
    let mut puts = Server::default();
    for number in 0..SERVER_LANES {
        assert!(puts.begins(&number.to_string(), "a"));
    }
    assert!(!puts.begins("one", "b") && !puts.begins("other", "c") && !puts.begins("one", "d"));
    assert!(!puts.begins("0", "e"));
    assert_eq!(puts.end("1"), ["b", "d"]);
    assert_eq!(puts.end("2"), ["c"]);
    assert_eq!(puts.end("3"), ["e"]);
    assert!(puts.end("one").is_empty());
    assert!(puts.begins("one", "f"));
}

#[tokio::test]
async fn operations_whose_callers_have_gone_are_left_out() {
    let mut waiters = Waiters::default();
    for row in ["a", "b", "c"] {
        waiters.put(row, b"1");
    }
    assert!(!waiters.tickets[0].claim());
    drop(waiters.tickets.remove(1));
    let taken = waiters.queue.take();
    assert_eq!(rows(&taken), ["c"]);
    assert!(taken[0].begin());
    assert!(waiters.tickets[1].claim(), "a call with it has begun");
}

/// The runtime of the connection may not be driven: it must not send the operation later.
#[tokio::test]
async fn operation_that_its_caller_has_given_up_is_not_sent() {
    let mut waiters = Waiters::default();
    waiters.put("a", b"1");
    let taken = waiters.queue.take();
    assert!(!waiters.tickets[0].claim(), "no call with it has begun");
    assert!(!taken[0].begin());
}

#[tokio::test]
async fn gets_of_a_region_have_a_call_of_their_own_if_enough_wait() {
    let mut waiters = Waiters::default();
    waiters.get("other", "x");
    waiters.get(REGION, "a");
    assert_eq!(waiters.take(), ["x", "a"]);
    for number in 0..WORTH_A_CALL {
        waiters.get(REGION, &format!("{number:02}"));
        waiters.get("other", &format!("x{number:02}"));
    }
    let rows = waiters.take();
    assert_eq!(rows.len(), WORTH_A_CALL);
    assert!(rows.iter().all(|row| !row.starts_with('x')));
}

#[tokio::test]
async fn call_is_limited_in_operations_and_bytes_but_takes_one() {
    let mut waiters = Waiters::default();
    for number in 0..=MOST_OPERATIONS {
        waiters.put(&format!("{number:04}"), b"1");
    }
    assert_eq!(waiters.take().len(), MOST_OPERATIONS);
    assert_eq!(waiters.take().len(), 1);
    let large = vec![0; MOST_BYTES];
    waiters.put("a", &large);
    waiters.put("b", &large[..MOST_BYTES / 2]);
    waiters.put("c", b"1");
    assert_eq!(waiters.take(), ["a"]);
    assert_eq!(waiters.take(), ["b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn overdue_call_is_not_counted() {
    let mut server = Server::default();
    assert!(server.begins("one", "stuck"));
    assert!(server.begins("one", "a") && !server.begins("one", "b") && !server.begins("one", "c"));
    let ended = server.calls.get_mut("one").unwrap().pop_back().unwrap();
    server.traffic.end(&ended.0, ended.1, true, Instant::now());
    assert!(
        server.begin().is_empty(),
        "two wait for the stuck call, and then share one"
    );
    advance(PATIENCE).await;
    assert!(server.begins("one", "d"), "no call is counted any more");
    server.calls.get_mut("one").unwrap().rotate_left(1);
    assert_eq!(server.end("one"), ["b", "c"]);
    assert!(!server.begins("one", "e"), "a shared call is in flight");
    server.calls.get_mut("one").unwrap().rotate_left(1);
    assert_eq!(server.end("one"), ["e"]);
    for _ in 0..2 {
        assert!(server.end("one").is_empty());
    }
    assert!(server.traffic.is_idle() && server.traffic.in_flight == 0);
}

#[tokio::test(start_paused = true)]
async fn region_with_an_overdue_get_shares_no_call_until_it_answers() {
    let mut server = Server::default();
    assert!(server.reads("stuck", "a") && server.reads("one", "b"));
    assert!(server.end("one").is_empty());
    advance(PATIENCE).await;
    assert!(server.reads("one", "b"), "counts no overdue call");
    for row in ["c", "d", "e", "f"] {
        assert!(server.reads("stuck", row));
    }
    assert!(!server.reads("stuck", "g"), "the region has lanes of its own");
    for row in ["h", "i", "j"] {
        assert!(server.reads("one", row));
    }
    assert!(!server.reads("one", "k"));
    assert_eq!(server.end("one"), ["k"], "without the get of the other region");
    assert!(
        server.end("stuck").is_empty(),
        "the stuck one, which frees no lane"
    );
    assert!(
        !server.reads("stuck", "l"),
        "it shares the lanes of all gets again"
    );
}

#[rstest]
#[case::nearby(200, 0)]
#[case::in_another_zone(1_100, 1)]
#[case::on_another_continent(60_000, 60)]
#[case::very_far(900_000, 64)]
fn server_far_away_has_lanes_for_calls_on_the_way(#[case] micros: u64, #[case] lanes: usize) {
    let mut pace = Pace::default();
    for slower in [5, 1, 3] {
        pace.record(Duration::from_micros(micros * slower));
    }
    assert_eq!(pace.on_the_way(), lanes);
}

#[test]
fn patience_follows_the_usual_time_and_not_one_stuck_call() {
    let mut pace = Pace::default();
    for _ in 0..100 {
        pace.record(Duration::from_millis(1));
    }
    assert_eq!(pace.patience(), PATIENCE);
    pace.record(Duration::from_secs(20));
    assert_eq!(pace.patience(), PATIENCE);
    for _ in 0..100 {
        pace.record(Duration::from_secs(1));
    }
    let patience = pace.patience();
    assert!(
        (Duration::from_millis(1_900)..=Duration::from_secs(2)).contains(&patience),
        "{patience:?}"
    );
}

#[tokio::test]
async fn queue_behind_a_stuck_call_keeps_nothing_of_callers_that_have_gone() {
    let mut server = Server::default();
    assert!(server.begins("one", "stuck") && server.begins("one", "stuck too"));
    for _ in 0..1_000 {
        assert!(!server.begins("one", "a"));
        server.tickets.clear();
    }
    let queues = server.traffic.groups.values();
    assert!(queues.map(|queue| queue.waiting.len()).sum::<usize>() < 10);
}
