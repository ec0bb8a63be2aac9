//! Calls that are stuck delay no other operation for long, and clients far away do not wait for each
//! other, on a fake cluster in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that can't arrange its case has failed")]

use std::time::Duration;

use futures::future::join_all;
use hbase_client::{Connection, Get, Put, Scan, Table, Writer, WriterOptions};
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

const REGIONS: usize = 20;

fn region(number: usize) -> String {
    format!("{number:02}")
}

/// Starts a cluster with a table of many regions on one server.
async fn start_with_regions(one_way: Duration) -> (FakeHBase, Table) {
    let hbase = start(one_way);
    let keys: Vec<_> = (1..REGIONS).map(region).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    hbase.create_table("regions", &["f"], &keys);
    let table = connect(&hbase, true).await.table("regions").unwrap();
    (hbase, table)
}

/// Holds the answers of shared calls with rows of the first two regions.
fn hold_two_regions(hbase: &FakeHBase) -> hbase_fake::FaultHandle {
    let is_stuck = |row: &bytes::Bytes| row.starts_with(b"00") || row.starts_with(b"01");
    let call = Call::Multi.on("regions");
    hbase.fault(
        call.when(move |call| call.rows.iter().any(is_stuck))
            .hold_answer(),
    )
}

/// Writes to regions from this one on every 20 ms for this time.
async fn write_for(writer: &Writer, from: usize, time: Duration) -> usize {
    let end = Instant::now() + time;
    let mut written = 0;
    while Instant::now() < end {
        for number in from..REGIONS {
            let put = Put::new(format!("{}x{written}", region(number)));
            writer.write(put.cell("f", "q", "v")).await.unwrap();
            written += 1;
        }
        sleep(Duration::from_millis(20)).await;
    }
    written
}

/// Returns the number of rows in all regions from this one on.
async fn stored(table: &Table, from: usize) -> usize {
    let mut rows = table.scan(Scan::new().start_row(region(from))).unwrap();
    let mut number = 0;
    while let Some(row) = rows.next().await.unwrap() {
        number += usize::from(row.key().contains(&b'x'));
    }
    number
}

#[tokio::test(start_paused = true)]
async fn two_stuck_regions_stop_bulk_writes_to_no_other_region() {
    let (hbase, table) = start_with_regions(Duration::from_micros(500)).await;
    let held = hold_two_regions(&hbase);
    let writer = table.writer(WriterOptions::new().buffer_size(64 << 20));
    for stuck in 0..2 {
        writer
            .write(Put::new(region(stuck)).cell("f", "q", "v"))
            .await
            .unwrap();
        sleep(Duration::from_millis(5)).await;
    }
    let written = write_for(&writer, 2, Duration::from_secs(5)).await;
    let stored = stored(&table, 2).await;
    assert!(stored * 100 >= written * 90, "{stored} of {written} after 5 s");
    held.release();
    writer.flush().await.unwrap();
}

/// The first calls have rows of all regions. After their timeouts, those of the stuck regions are sent
/// on their own.
#[tokio::test(start_paused = true)]
async fn regions_that_shared_a_call_with_a_stuck_one_share_no_other_call_with_it() {
    // Calls are in flight all the time.
    let (hbase, table) = start_with_regions(Duration::from_millis(30)).await;
    let held = hold_two_regions(&hbase);
    let options = WriterOptions::new().buffer_size(64 << 20).at_least_once();
    let writer = table.writer(options);
    let time = hbase.config().read_timeout() + Duration::from_secs(10);
    let written = write_for(&writer, 0, time).await / REGIONS * (REGIONS - 2);
    let stored = stored(&table, 2).await;
    assert!(stored * 100 >= written * 90, "{stored} of {written}");
    held.release();
    writer.flush().await.unwrap();
}
