use super::*;
use crate::model::{Delete, Get, Put, RegionInfo};

const REGION: &str = "t,,1";

struct Waiters {
    traffic: Traffic,
    tickets: Vec<Ticket>,
}

impl Waiters {
    fn new() -> Self {
        Self {
            traffic: Traffic::default(),
            tickets: Vec::new(),
        }
    }

    fn add(&mut self, region: &str, operation: Operation) {
        let location = Arc::new(RegionLocation {
            region: RegionInfo {
                name: region.to_owned().into(),
                ..RegionInfo::meta()
            },
            server: ServerName::new("h", 1, 1),
            open_sequence: 1,
        });
        let limit = AttemptLimit {
            deadline: Instant::now() + Duration::from_secs(1),
            repeatable: false,
        };
        let (waiting, ticket) = Waiting::new(&location, Codec::KeyValue, &operation, limit);
        self.traffic.queue.push_back(waiting);
        self.tickets.push(ticket);
    }

    fn put(&mut self, region: &str, row: &str, value: &[u8]) {
        let put = Put::new(row.to_owned()).cell("f", "q", value.to_vec());
        self.add(
            region,
            Operation::Mutation(convert::mutation_message(&put.into())),
        );
    }

    fn get(&mut self, row: &str) {
        let get = Get::new(row.to_owned());
        self.add(REGION, Operation::Get(convert::get_message(&get)));
    }

    /// Takes one call, and returns its rows.
    fn take(&mut self) -> Vec<String> {
        let row = |operation: &Operation| match operation {
            Operation::Get(get) => get.row.clone(),
            Operation::Mutation(mutation) => mutation.row.clone().unwrap(),
        };
        let taken = self.traffic.take();
        taken
            .iter()
            .map(|waiting| String::from_utf8(row(&waiting.operation).to_vec()).unwrap())
            .collect()
    }
}

#[tokio::test]
async fn call_has_no_two_mutations_of_one_row_and_gets_are_apart() {
    let mut waiters = Waiters::new();
    waiters.put(REGION, "a", b"1");
    waiters.get("a");
    let delete = Delete::new("a").into();
    waiters.add(REGION, Operation::Mutation(convert::mutation_message(&delete)));
    waiters.put(REGION, "b", b"1");
    waiters.get("a");
    assert_eq!(waiters.take(), ["a", "b"]);
    assert_eq!(waiters.take(), ["a", "a"]);
    assert_eq!(waiters.take(), ["a"]);
    assert!(waiters.take().is_empty());
}

#[tokio::test]
async fn operations_whose_callers_have_gone_are_left_out() {
    let mut waiters = Waiters::new();
    for row in ["a", "b", "c"] {
        waiters.put(REGION, row, b"1");
    }
    assert!(!waiters.tickets[0].claim());
    drop(waiters.tickets.remove(1));
    assert_eq!(waiters.take(), ["c"]);
    assert!(waiters.tickets[1].claim(), "the call has taken it");
}

#[tokio::test]
async fn region_has_a_call_of_its_own_if_enough_wait_for_it() {
    let mut waiters = Waiters::new();
    waiters.put("other", "x", b"1");
    waiters.put(REGION, "a", b"1");
    assert_eq!(waiters.take(), ["x", "a"]);
    for number in 0..WORTH_A_CALL {
        waiters.put(REGION, &format!("{number:02}"), b"1");
        waiters.put("other", &format!("x{number:02}"), b"1");
    }
    let rows = waiters.take();
    assert_eq!(rows.len(), WORTH_A_CALL);
    assert!(rows.iter().all(|row| !row.starts_with('x')));
}

#[tokio::test]
async fn call_is_limited_in_operations_and_bytes_but_takes_one() {
    let mut waiters = Waiters::new();
    for number in 0..=MOST_OPERATIONS {
        waiters.put(REGION, &format!("{number:04}"), b"1");
    }
    assert_eq!(waiters.take().len(), MOST_OPERATIONS);
    assert_eq!(waiters.take().len(), 1);
    let large = vec![0; MOST_BYTES];
    waiters.put(REGION, "a", &large);
    waiters.put(REGION, "b", &large[..MOST_BYTES / 2]);
    waiters.put(REGION, "c", b"1");
    assert_eq!(waiters.take(), ["a"]);
    assert_eq!(waiters.take(), ["b", "c"]);
}
