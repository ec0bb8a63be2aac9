use super::*;
use crate::model::{Delete, Get, Mutation, Put};

const REGION: &str = "t,,1";

fn location(region: &str) -> Arc<RegionLocation> {
    Arc::new(RegionLocation {
        region: RegionInfo {
            name: region.to_owned().into(),
            ..RegionInfo::meta()
        },
        server: ServerName::new("h", 1, 1).unwrap(),
        open_sequence: 1,
        opened_at: None,
        replicas: Vec::new(),
        asked_at: Instant::now(),
    })
}

fn waiting(region: &str, operation: &Operation) -> (Waiting, Ticket) {
    let limit = AttemptLimit::new(Instant::now() + Duration::from_secs(1), false);
    Waiting::new(&location(region), &CallOptions::default(), operation, limit)
}

fn group(region: &str, operation: &Operation) -> Group {
    Group::new(&location(region).region, &CallOptions::default(), operation)
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

/// The calls and queues of a server, with one put after the other.
#[derive(Default)]
struct Puts {
    traffic: Traffic,
    tickets: Vec<Ticket>,
}

impl Puts {
    /// Returns whether the put begins a call.
    fn begins(&mut self, region: &str, row: &str) -> bool {
        let put = mutation(Put::new(row.to_owned()).cell("f", "q", "v"));
        match self.traffic.enter(&group(region, &put), || waiting(region, &put)) {
            Entry::Lane => true,
            Entry::Queue(ticket) => {
                self.tickets.push(ticket);
                false
            }
            Entry::Closed => unreachable!("only all traffic is closed"),
        }
    }

    /// Ends a call to a region, and returns the rows of the next call.
    fn end(&mut self, region: &str) -> Vec<String> {
        let put = mutation(Put::new("a").cell("f", "q", "v"));
        self.traffic.end(&group(region, &put));
        let next = self.traffic.begin();
        next.map_or_else(Vec::new, |(_, operations)| rows(&operations))
    }
}

#[tokio::test]
async fn few_mutations_of_a_region_do_not_wait_and_many_share_one_call() {
    let mut puts = Puts::default();
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
    let mut puts = Puts::default();
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
    assert_eq!(waiters.take(), ["c"]);
    assert!(waiters.tickets[1].claim(), "the call has taken it");
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
