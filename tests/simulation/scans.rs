//! Scans of several regions, which move, split and merge meanwhile, and to which others add rows.

use std::{cell::RefCell, collections::BTreeMap, ops::Range, rc::Rc, time::Duration};

use fastrand::Rng;
use hbase_fake::sim::World;
use hbase_txn::{
    Result,
    admin::Admin,
    client::{
        Connection, FamilyDescriptor, ParallelScanner, Put, ResultScanner, Row, Scan, Table, TableDescriptor,
    },
};
use tokio::{
    task::LocalSet,
    time::{sleep, timeout},
};

use crate::bench::{FAMILY, connect};

const ROWS: usize = 50;
/// Every third row exists from the beginning.
const FIRST: usize = 3;
const COLUMNS: [&str; 3] = ["a", "b", "c"];
const WRITERS: usize = 2;
const READERS: usize = 3;
const SCANS: usize = 4;

/// Whether a row was added for certain, or perhaps. Each row is added once.
type Added = Rc<RefCell<BTreeMap<usize, bool>>>;

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let table = create(&plain).await;
    let added = Added::default();
    for number in (0..ROWS).step_by(FIRST) {
        table.put(put(number)).await.unwrap();
        added.borrow_mut().insert(number, true);
    }
    let tasks = LocalSet::new();
    for number in 0..WRITERS + READERS {
        let connection = connect(&world, &mut rng).await;
        let table = connection.table("scans").unwrap();
        let (added, rng) = (Rc::clone(&added), world.rng(1 + number as u64));
        match number {
            0..WRITERS => tasks.spawn_local(add_rows(table, number, added, rng)),
            _ => tasks.spawn_local(scan_often(table, added, rng)),
        };
    }
    world.begin_faults();
    tasks.await;
    world.end_faults().await;
    let scan = Scan::new().caching(7);
    let mut scanner = Scanner::OneByOne(table.scan(scan).unwrap());
    let found = read(&mut scanner, ROWS, &mut rng, false).await;
    check(&found.unwrap(), 0..ROWS, &added.borrow(), &added.borrow());
}

async fn create(connection: &Connection) -> Table {
    let descriptor = TableDescriptor::new("scans")
        .unwrap()
        .with_family(FamilyDescriptor::new(FAMILY));
    let split_keys = [ROWS / 4, ROWS / 2, ROWS - 5].map(|number| key(number).into());
    let admin = Admin::new(connection);
    admin.create_table(&descriptor, &split_keys).await.unwrap();
    connection.table("scans").unwrap()
}

fn key(number: usize) -> String {
    format!("row{number:03}")
}

fn put(number: usize) -> Put {
    let put = Put::new(key(number));
    COLUMNS
        .iter()
        .fold(put, |put, column| put.cell(FAMILY, *column, "v"))
}

async fn add_rows(table: Table, writer: usize, added: Added, mut rng: Rng) {
    for number in 0..ROWS {
        if number % FIRST != 1 + writer {
            continue;
        }
        added.borrow_mut().insert(number, false);
        let done = table.put(put(number)).await;
        added.borrow_mut().insert(number, done.is_ok());
        if done.is_err_and(|error| !error.is_outcome_unknown()) {
            added.borrow_mut().remove(&number);
        }
        sleep(Duration::from_millis(rng.u64(..100))).await;
    }
}

async fn scan_often(table: Table, added: Added, mut rng: Rng) {
    for _ in 0..SCANS {
        let (one, other) = (rng.usize(..ROWS), rng.usize(..=ROWS));
        let range = match rng.u8(..3) {
            // Equal bounds are that row.
            0 => one.min(other)..one.max(other).max(one.min(other) + 1),
            _ => 0..ROWS,
        };
        let is_reversed = rng.u8(..3) == 0;
        let mut scan = if is_reversed {
            Scan::new()
                .start_row_exclusive(key(range.end))
                .stop_row_inclusive(key(range.start))
                .reversed()
        } else {
            Scan::new().start_row(key(range.start)).stop_row(key(range.end))
        };
        scan = scan.caching(rng.u32(1..12));
        let limit = match rng.u8(..3) {
            0 => rng.usize(1..ROWS),
            _ => ROWS,
        };
        if limit < ROWS {
            scan = scan.limit(limit as u64);
        }
        if rng.bool() {
            scan = scan.max_result_size(rng.u64(1..1_000));
        }
        let before = added.borrow().clone();
        let sorts = limit == ROWS && rng.u8(..3) == 0;
        let mut scanner = if sorts || rng.bool() {
            let scanner = table.scan_regions(scan, rng.usize(1..5)).unwrap();
            Scanner::Parallel(if sorts { scanner } else { scanner.in_order() })
        } else {
            Scanner::OneByOne(table.scan(scan).unwrap())
        };
        let drops = rng.bool();
        let Some(mut rows) = read(&mut scanner, limit, &mut rng, drops).await else {
            continue;
        };
        // A limited scan ends at its last row.
        let range = match rows.last() {
            Some(last) if limit < ROWS && rows.len() == limit => {
                if is_reversed {
                    number(last)..range.end
                } else {
                    range.start..number(last) + 1
                }
            }
            _ => range,
        };
        if sorts {
            rows.sort_by(|row, other| row.key().cmp(other.key()));
        } else if is_reversed {
            rows.reverse();
        }
        check(&rows, range, &before, &added.borrow());
    }
}

#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
enum Scanner {
    OneByOne(ResultScanner),
    Parallel(ParallelScanner),
}

impl Scanner {
    async fn next(&mut self) -> Result<Option<Row>> {
        match self {
            Self::OneByOne(scanner) => Ok(scanner.next().await?),
            Self::Parallel(scanner) => Ok(scanner.next().await?),
        }
    }
}

/// Reads all rows of a scan, with pauses in which its region may change, and drops some calls
/// midway. A scan continues after an error. Returns `None` if it fails often.
async fn read(scanner: &mut Scanner, limit: usize, rng: &mut Rng, drops: bool) -> Option<Vec<Row>> {
    let mut rows = Vec::new();
    let mut errors = 0;
    loop {
        assert!(rows.len() <= limit, "{} rows of {limit}", rows.len());
        if rng.u8(..8) == 0 {
            sleep(Duration::from_millis(rng.u64(..200))).await;
        }
        let patience = if drops && rng.u8(..4) == 0 {
            Duration::from_micros(rng.u64(..20_000))
        } else {
            Duration::from_secs(3_600)
        };
        match timeout(patience, scanner.next()).await {
            Ok(Ok(Some(row))) => rows.push(row),
            Ok(Ok(None)) => return Some(rows),
            Ok(Err(error)) if errors > 3 => {
                assert!(error.is_retryable(), "{error}");
                return None;
            }
            Ok(Err(_)) => errors += 1,
            Err(_) => assert!(patience < Duration::from_secs(1), "a scan does not end"),
        }
    }
}

fn number(row: &Row) -> usize {
    String::from_utf8_lossy(row.key())[3..].parse().unwrap()
}

/// Checks that each row comes once, whole and in order, that none of those is missing that were
/// added before the scan, and that there are no others than those added before its end.
fn check(rows: &[Row], range: Range<usize>, before: &BTreeMap<usize, bool>, after: &BTreeMap<usize, bool>) {
    let found: Vec<usize> = rows.iter().map(number).collect();
    assert!(
        found.is_sorted_by(|one, next| one < next),
        "out of order: {found:?}"
    );
    for row in rows {
        let whole = row.cells().len() == COLUMNS.len();
        assert!(whole, "{} has {} cells", key(number(row)), row.cells().len());
        let is_expected = range.contains(&number(row)) && after.contains_key(&number(row));
        assert!(
            is_expected,
            "{} was not added, or is outside of {range:?}",
            key(number(row))
        );
    }
    let certain = before.iter().filter(|(_, certain)| **certain);
    let missing: Vec<_> = certain
        .map(|(number, _)| *number)
        .filter(|number| range.contains(number) && found.binary_search(number).is_err())
        .collect();
    assert!(missing.is_empty(), "{missing:?} are missing in {found:?}");
}
