//! Regions are moved, split and merged under running writers and readers.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use fastrand::Rng;
use futures::future::join_all;
use hbase_txn::client::{Put, Scan, Table};

use crate::{
    cluster::{FAMILY, PATIENCE, TestCluster, create_table, drop_table},
    history::Told,
    regions::Shuffler,
    settings::Settings,
    workload::{Load, Workload},
};

const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_are_whole_under_moves_splits_and_merges() {
    const TEST: &str = "moving_regions";
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let connection = cluster.connect().await;
    let partitions: Vec<String> = (0..24).map(|number| format!("p{number:02}")).collect();
    let boundaries: Vec<String> = partitions.iter().skip(4).step_by(4).cloned().collect();
    let table = create_table(&connection, &settings, TEST, &boundaries)
        .await
        .unwrap();
    let mut workload = Workload::start(
        &table,
        &settings,
        Load {
            partitions: partitions.clone(),
            writers: 4,
            readers: 2,
            deadline: DEADLINE,
            may_run_out: false,
        },
    );
    // A separate client, because the writers' client must detect all changes by itself.
    let shuffler_connection = cluster.connect().await;
    let mut shuffler = Shuffler::new(&shuffler_connection, table.name(), settings.rng(77));
    let rounds = 2 * settings.rounds;
    for _ in 0..rounds {
        shuffler.merge_some(2, PATIENCE).await;
        workload.goes_on(50, PATIENCE).await;
        for _ in 0..2 {
            shuffler.move_one().await;
        }
        for _ in 0..1 + settings.rounds.min(2) / 2 {
            // In the long form every row may be a boundary already; the next merge makes room.
            for _ in 0..partitions.len() {
                let row = shuffler.rng.choice(&partitions).unwrap().clone();
                if shuffler.split_at(&row, PATIENCE).await {
                    break;
                }
            }
        }
        workload.goes_on(50, PATIENCE).await;
    }
    let done = workload.stop().await;
    println!(
        "{TEST}: {:?}, {} scans saw {} groups",
        shuffler.done, done.scans, done.groups_seen
    );
    let changes = shuffler.done;
    assert!(
        changes.moved > 0 && changes.split > 0 && changes.merged > 0,
        "nothing was changed under the writers: {changes:?}"
    );
    done.history.check(TEST, table.table()).await;
    assert_eq!(
        done.history.count(Told::NotApplied),
        0,
        "a region that only moves stops nobody for {DEADLINE:?}"
    );
    drop_table(&connection, &table).await;
    connection.close().await;
}

/// The rows of a table, with the values of their cells.
type Rows = BTreeMap<String, Vec<String>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_in_pieces_return_each_row_once_while_regions_move() {
    const TEST: &str = "moving_scans";
    const ROWS: u32 = 36;
    const CONCURRENT: usize = 8;
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let connection = cluster.connect().await;
    let boundaries = ["r12", "r24"].map(str::to_owned);
    let table = create_table(&connection, &settings, TEST, &boundaries)
        .await
        .unwrap();
    let plain = table.table().clone().with_operation_timeout(DEADLINE);
    let mut rng = settings.rng(1);
    let mut rows: Rows = (0..ROWS).map(|row| (format!("r{row:02}"), Vec::new())).collect();
    rewrite(&plain, &mut rows, |_| true, &mut rng).await;
    let shuffler_connection = cluster.connect().await;
    let mut shuffler = Shuffler::new(&shuffler_connection, table.name(), settings.rng(77));
    let (over, moves) = (AtomicBool::new(false), 12 * settings.rounds as usize);
    let moving = async {
        while shuffler.done.moved < moves {
            shuffler.move_one().await;
        }
        over.store(true, Ordering::Relaxed);
    };
    let scanning = async {
        let mut scans = 0;
        while !over.load(Ordering::Relaxed) {
            // A region that closes flushes, below its scanners.
            let seed = rng.u64(..);
            rewrite(&plain, &mut rows, |row| seed >> row & 1 == 1, &mut rng).await;
            let bounds: Vec<_> = (0..CONCURRENT).map(|_| Bounds::choose(ROWS, &mut rng)).collect();
            join_all(bounds.iter().map(|bounds| bounds.check(&plain, &rows))).await;
            scans += CONCURRENT;
        }
        scans
    };
    let ((), scans) = tokio::join!(moving, scanning);
    println!("{TEST}: {scans} scans beside {moves} moves");
    assert!(scans >= moves, "{scans} scans beside {moves} moves");
    drop_table(&connection, &table).await;
    connection.close().await;
}

/// Gives the rows of these numbers new values, without changing the number of their cells.
async fn rewrite(table: &Table, rows: &mut Rows, chosen: impl Fn(u32) -> bool, rng: &mut Rng) {
    let mut puts = Vec::new();
    for (number, (row, values)) in (0..).zip(rows) {
        if chosen(number) {
            values.resize(1 + number as usize % 6, String::new());
            values.fill_with(|| "x".repeat(rng.usize(1..60)));
            puts.push(
                (0..)
                    .zip(&*values)
                    .fold(Put::new(row.clone()), |put, (column, value)| {
                        let column: u32 = column;
                        put.cell(FAMILY, column.to_string(), value.clone())
                    }),
            );
        }
    }
    for written in table.mutate_many(puts).await {
        written.unwrap();
    }
}

/// A scan, with the rows that it must return, in ascending order.
#[derive(Debug)]
struct Bounds {
    from: String,
    to: String,
    is_reversed: bool,
    scan: Scan,
}

impl Bounds {
    /// Returns a scan whose answers have few rows, or parts of them.
    fn choose(rows: u32, rng: &mut Rng) -> Self {
        let (one, other) = (rng.u32(..rows), rng.u32(..rows));
        let from = format!("r{:02}", one.min(other));
        let to = format!("r{:02}", one.max(other));
        let is_reversed = rng.bool();
        let scan = if is_reversed {
            Scan::new()
                .start_row(to.clone())
                .stop_row_inclusive(from.clone())
                .reversed()
        } else {
            Scan::new().start_row(from.clone()).stop_row_inclusive(to.clone())
        };
        let scan = scan.caching(rng.u32(1..6)).max_result_size(rng.u64(1..600));
        let scan = if rng.u8(..4) == 0 {
            scan.batch(rng.u32(1..4))
        } else {
            scan
        };
        Self {
            from,
            to,
            is_reversed,
            scan,
        }
    }

    async fn check(&self, table: &Table, rows: &Rows) {
        let mut scanner = table.scan(self.scan.clone()).unwrap();
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        while let Some(row) = scanner.next().await.unwrap() {
            let key = String::from_utf8(row.key().to_vec()).unwrap();
            let values = row
                .cells()
                .iter()
                .map(|cell| String::from_utf8(cell.value.to_vec()).unwrap());
            match found.last_mut() {
                Some((last, cells)) if *last == key => cells.extend(values),
                _ => found.push((key, values.collect())),
            }
        }
        if self.is_reversed {
            found.reverse();
        }
        let expected: Vec<_> = rows
            .range(self.from.clone()..=self.to.clone())
            .map(|(row, values)| (row.clone(), values.clone()))
            .collect();
        assert_eq!(found, expected, "{:?}", self.scan);
    }
}
