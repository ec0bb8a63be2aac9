//! Latches of one name, one after the other: a wait ends with the latch for which it began.
//!
//! In virtual time, because the moment of a poll decides what it sees.

use std::time::Duration;

use hbase_fake::{Call, FakeHBase};
use hbase_txn::{
    Level,
    client::{Connection, Increment, Scan},
    latch::{Latch, LatchManagerOptions, LatchTableOptions, WaitOutcome},
};
use rstest::rstest;
use tokio::time::sleep;

const TABLE: &str = "latches";
const LIFE: Duration = Duration::from_secs(3_600);
const WAIT: Duration = Duration::from_secs(10);

/// Opens the latch as a process of its own.
async fn open(hbase: &FakeHBase, process: u64) -> hbase_txn::Result<Latch> {
    let environment = hbase.environment().seed(process);
    let config = hbase.config().with_user(format!("process-{process}"));
    let connection = Connection::builder(config).connector(hbase.connector());
    let connection = connection.environment(environment).connect().await?;
    let options = LatchManagerOptions::new("billing", "fra");
    let table = LatchTableOptions::new(TABLE)?.regions(1);
    options
        .open_or_create(&connection, table)
        .await?
        .latch(Level::Dc, "round")
}

/// What becomes of a latch of which one is left to count.
#[derive(Clone, Copy, Debug)]
enum End {
    Reached,
    Deleted,
    Expired,
}

#[rstest]
#[case::reached(End::Reached, WaitOutcome::Reached)]
#[case::deleted(End::Deleted, WaitOutcome::Absent)]
#[case::expired(End::Expired, WaitOutcome::Expired)]
fn wait_ends_with_its_latch_although_the_next_one_is_there(
    #[case] end: End,
    #[case] outcome: WaitOutcome,
    #[values(true, false)] is_next_created: bool,
) {
    FakeHBase::run(async |hbase| {
        let first = open(hbase, 1).await?;
        let waiting = open(hbase, 2).await?;
        let life = Duration::from_secs(2);
        first.init(1, life).await?;
        let replace = async {
            // The waiter has seen the latch open, and sees nothing until the next one is there.
            sleep(Duration::from_millis(500)).await;
            let poll = Call::Any.on(TABLE).by("process-2");
            hbase.fault(poll.delay_request(Duration::from_millis(2_500)).times(1));
            sleep(Duration::from_millis(100)).await;
            match end {
                End::Reached => drop(first.count_down(1).await?),
                End::Deleted => {}
                End::Expired => sleep(life).await,
            }
            if !matches!(end, End::Expired) {
                assert!(first.delete().await?);
            }
            if is_next_created {
                first.init(7, LIFE).await?;
            }
            Ok::<_, hbase_txn::Error>(())
        };
        let (waited, replaced) = tokio::join!(waiting.wait(WAIT), replace);
        replaced?;
        assert_eq!(waited?, outcome);
        // Another wait is for the latch that exists.
        let next = match (is_next_created, end) {
            (true, _) => WaitOutcome::TimedOut,
            (false, End::Expired) => WaitOutcome::Expired,
            (false, _) => WaitOutcome::Absent,
        };
        assert_eq!(waiting.wait(Duration::from_secs(1)).await?, next);
        Ok(())
    });
}

/// Each process counts down in each round; the first one deletes the latch when it is reached, and
/// creates the next.
#[test]
fn no_process_misses_a_round_of_a_latch_that_is_used_again() {
    const PROCESSES: u64 = 4;
    const ROUNDS: usize = 20;
    FakeHBase::run(async |hbase| {
        let first = open(hbase, 0).await?;
        first.init(PROCESSES, LIFE).await?;
        let mut processes = Vec::new();
        for number in 0..PROCESSES {
            let latch = open(hbase, 1 + number).await?;
            processes.push(async move {
                for round in 0..ROUNDS {
                    // The latch of this round may not be created yet, or may still be the last one.
                    while latch.count_down(1).await.is_err() {
                        sleep(Duration::from_millis(1)).await;
                    }
                    let waited = latch.wait(WAIT).await?;
                    assert_eq!(waited, WaitOutcome::Reached, "process {number}, round {round}");
                    if number == 0 {
                        latch.delete().await?;
                        latch.init(PROCESSES, LIFE).await?;
                    }
                }
                Ok::<_, hbase_txn::Error>(())
            });
        }
        for ended in futures::future::join_all(processes).await {
            ended?;
        }
        Ok(())
    });
}

/// The waiter begins when the next latch exists, after it has counted the one before.
#[test]
fn process_that_counted_waits_for_the_latch_that_it_counted() {
    FakeHBase::run(async |hbase| {
        let (first, second) = (open(hbase, 1).await?, open(hbase, 2).await?);
        first.init(2, LIFE).await?;
        second.count_down(1).await?;
        first.count_down(1).await?;
        first.delete().await?;
        first.init(2, LIFE).await?;
        assert_eq!(second.wait(WAIT).await?, WaitOutcome::Reached);
        assert_eq!(second.wait(Duration::from_secs(1)).await?, WaitOutcome::TimedOut);
        Ok(())
    });
}

/// A Java client of another farm counted on a server whose clock was ahead, and the latch was deleted
/// and created again where it is not.
#[test]
fn first_count_of_a_farm_is_visible_over_an_older_delete_marker() {
    FakeHBase::run(async |_| {
        let hbase = FakeHBase::builder().servers(2).build();
        let connection = hbase.connect().await?;
        let open = async |farm: &str| {
            let options = LatchManagerOptions::new("billing", farm);
            let table = LatchTableOptions::new(TABLE)?.regions(1);
            options
                .open_or_create(&connection, table)
                .await?
                .latch(Level::Xdc, "round")
        };
        let (first, second) = (open("a").await?, open("b").await?);
        hbase.move_region(TABLE, "", 1);
        hbase.settled().await;
        first.init(3, LIFE).await?;
        second.arrive("worker").await?;
        hbase.server(0).set_clock_ahead(20_000);
        hbase.move_region(TABLE, "", 0);
        hbase.settled().await;
        let table = connection.table(TABLE)?;
        let row = table.scan(Scan::new())?.next().await?.unwrap().key().clone();
        table
            .increment(Increment::new(row).column("C", "count_b", -1))
            .await?;
        second.arrive("other").await?;
        assert!(first.delete().await?);
        hbase.move_region(TABLE, "", 1);
        hbase.settled().await;
        sleep(Duration::from_millis(500)).await;
        first.init(4, LIFE).await?;
        let arrived = second.arrive("worker").await?;
        assert_eq!((arrived.left, arrived.counted), (3, true));
        assert_eq!(second.count_down(1).await?.left, 2);
        let again = first.arrive("worker").await?;
        assert_eq!((again.left, again.counted), (2, false));
        let other = first.arrive("other").await?;
        assert_eq!((other.left, other.counted), (1, true));
        assert!(!second.arrive("other").await?.counted);
        assert_eq!(second.arrive("third").await?.left, 0);
        Ok(())
    });
}
