//! Calls that are stuck delay no other operation for long, and clients far away do not wait for each
//! other, on a fake cluster in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that can't arrange its case has failed")]

use std::time::Duration;

use futures::future::join_all;
use hbase_client::{Connection, Get, Put, Table};
use hbase_fake::{Call, FakeHBase, Latency};
use rstest::rstest;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};

/// Starts a cluster whose calls need this time for each way, with two tables.
fn start(one_way: Duration) -> FakeHBase {
    let one_way = one_way..one_way + Duration::from_micros(1);
    let latency = Latency {
        request: one_way.clone(),
        queue: Duration::ZERO..Duration::from_micros(1),
        answer: one_way,
    };
    let hbase = FakeHBase::builder().latency(latency).build();
    hbase.create_table("t", &["f"], &[]);
    hbase.create_table("slow", &["f"], &[]);
    hbase
}

async fn connect(hbase: &FakeHBase, coalescing: bool) -> Connection {
    let config = hbase.config().with_coalescing(coalescing);
    let builder = Connection::builder(config).connector(hbase.connector());
    let connection = builder.environment(hbase.environment()).connect();
    connection.await.unwrap()
}

/// Returns the operations in a second of so many tasks, each with one at a time.
async fn rate(table: &Table, tasks: usize, operation: Operation) -> usize {
    let end = Instant::now() + Duration::from_secs(1);
    let tasks = (0..tasks).map(async |task| {
        let mut done = 0;
        while Instant::now() < end {
            operation.run(table, format!("r{task}")).await;
            done += 1;
        }
        done
    });
    join_all(tasks).await.into_iter().sum()
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Get,
    Put,
}

impl Operation {
    async fn run(self, table: &Table, row: String) {
        match self {
            Self::Get => drop(table.get(Get::new(row)).await.unwrap()),
            Self::Put => table.put(Put::new(row).cell("f", "q", "v")).await.unwrap(),
        }
    }

    fn call(self) -> Call {
        match self {
            Self::Get => Call::Get,
            Self::Put => Call::Mutate,
        }
    }

    /// Starts operations of a table whose calls are stuck.
    async fn start_stuck(self, hbase: &FakeHBase, table: &Table, number: usize) -> Stuck {
        let name = table.name().to_string();
        let held = hbase.fault(self.call().on(name).hold_answer().times(number));
        let tasks = (0..number).map(|task| {
            let table = table.clone();
            tokio::spawn(async move { self.run(&table, format!("stuck{task}")).await })
        });
        let tasks = tasks.collect();
        sleep(Duration::from_millis(5)).await;
        Stuck { held, tasks }
    }
}

struct Stuck {
    held: hbase_fake::FaultHandle,
    tasks: Vec<JoinHandle<()>>,
}

impl Stuck {
    async fn end(self) {
        self.held.release();
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

#[rstest]
#[case::one_put_one_task(Operation::Put, "t", 1, 1)]
#[case::one_put_eight_tasks(Operation::Put, "t", 1, 8)]
#[case::gets_of_the_table(Operation::Get, "t", 4, 16)]
#[case::gets_of_another_table(Operation::Get, "slow", 4, 16)]
#[tokio::test(start_paused = true)]
async fn stuck_calls_slow_down_no_other(
    #[case] operation: Operation,
    #[case] stuck: &str,
    #[case] number: usize,
    #[case] tasks: usize,
) {
    let hbase = start(Duration::from_micros(500));
    let connection = connect(&hbase, true).await;
    let (table, slow) = (connection.table("t").unwrap(), connection.table(stuck).unwrap());
    let before = rate(&table, tasks, operation).await;
    let stuck = operation.start_stuck(&hbase, &slow, number).await;
    // The first operations wait until the stuck ones are overdue.
    let first = rate(&table, tasks, operation).await;
    let then = rate(&table, tasks, operation).await;
    stuck.end().await;
    assert!(first * 100 >= before * 85, "{before} in a second, then {first}");
    assert!(then * 100 >= before * 90, "{before} in a second, then {then}");
}

/// Gets of a stuck region keep coming, and those of other regions are as fast as without.
#[tokio::test(start_paused = true)]
async fn stream_of_gets_of_a_stuck_region_delays_no_other_region() {
    let hbase = start(Duration::from_micros(500));
    let connection = connect(&hbase, true).await;
    let (table, slow) = (connection.table("t").unwrap(), connection.table("slow").unwrap());
    let before = rate(&table, 16, Operation::Get).await;
    let held = hbase.fault(Call::Get.on("slow").hold_answer().times(1_000));
    let shared = hbase.fault(Call::Multi.on("slow").hold_answer().times(1_000));
    let stream: Vec<_> = (0..200)
        .map(|number| {
            let slow = slow.clone();
            tokio::spawn(async move {
                sleep(Duration::from_millis(10 * number)).await;
                let _ = slow.get(Get::new("a")).await;
            })
        })
        .collect();
    sleep(Duration::from_millis(200)).await;
    let beside = rate(&table, 16, Operation::Get).await;
    held.release();
    shared.release();
    for task in stream {
        task.await.unwrap();
    }
    assert!(beside * 100 >= before * 90, "{before} in a second, then {beside}");
}

/// Returns the mean latency of gets that arrive at fixed times.
async fn mean_latency(coalescing: bool, operation: Operation) -> Duration {
    const ARRIVALS: u32 = 2_000;
    let hbase = start(Duration::from_millis(30));
    let connection = connect(&hbase, coalescing).await;
    let table = connection.table("t").unwrap();
    operation.run(&table, "warm".into()).await;
    let began = Instant::now();
    let arrivals = (0..ARRIVALS).map(async |number| {
        // About 700 a second, not in step with the clock of the cluster.
        let arrival = began + Duration::from_micros(1_409) * number;
        sleep_until(arrival).await;
        operation.run(&table, format!("r{}", number % 64)).await;
        arrival.elapsed()
    });
    let times: Duration = join_all(arrivals).await.into_iter().sum();
    times / ARRIVALS
}

#[rstest]
#[case(Operation::Get)]
#[case(Operation::Put)]
#[tokio::test(start_paused = true)]
async fn client_far_away_is_not_slower_with_shared_calls(#[case] operation: Operation) {
    let alone = mean_latency(false, operation).await;
    let shared = mean_latency(true, operation).await;
    assert!(
        shared <= alone.mul_f64(1.05),
        "{alone:?} alone, {shared:?} shared"
    );
}
