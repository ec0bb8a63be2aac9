//! Native and Java clients that contend for one lock, each with its own connection.
//!
//! Two native clients never hold the lock at the same time. The overlaps of a native and a Java client have one of three
//! causes, which decision 009 names. A raw scan of the lock row shows which one:
//!
//! | cause | cells |
//! |---|---|
//! | `Hidden`: another Java client's release hides a Java client's put, mostly of the same millisecond | a delete marker of the row between the put's timestamp and the begin of the hold |
//! | `Removed`: a Java client releases a lock that it does not hold | a delete marker of the row during the hold |
//! | `Overtaken`: a native client acquires and releases the lock while a Java client's put is in flight | a native owner after the put's timestamp |

use std::{
    collections::{BTreeMap, BTreeSet},
    env, ptr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::{
    future::{join, join_all},
    stream::{self, StreamExt},
};
use hbase_txn::{
    Level,
    client::{CellKind, Connection, Row, Scan, TableName},
};
use tokio::time::{Instant, sleep};

use crate::support::{
    connect,
    java::{JavaSide, Spin},
    lock_rows::{FARM, lock_manager, lock_row, lock_table},
    rows, spied, standalone,
    table::TestTable,
};

const CLIENT: &str = "fleet";
const ID: &str = "one";
/// The number of clients of each side.
const CLIENTS: u32 = 8;
const HOLD: Duration = Duration::from_millis(5);
/// A tenth of the Java library's default, so that its clients do not only find the lock held.
const JAVA_PAUSE: Duration = Duration::from_millis(100);
const LEASE: Duration = Duration::from_secs(60);
/// From this time on, each overlap must have a cause.
const LONG: Duration = Duration::from_secs(60);

/// Microseconds since 1970, by a clock that is not set back.
struct Clock {
    began: Instant,
    offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Native,
    Java,
}

/// A hold of one client. All times but the marker's are in microseconds.
#[derive(Clone, Copy, Debug)]
struct Hold {
    side: Side,
    client: u32,
    /// Of a native client the fencing number, of a Java client the marker's timestamp in milliseconds.
    number: u64,
    /// The time after the acquisition.
    from: u64,
    /// The time before the release.
    until: u64,
    /// The time after the release.
    released: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Hidden,
    Removed,
    Overtaken,
}

/// All holds, and the timestamps of the cells that can hide markers.
#[derive(Default)]
struct Evidence {
    /// In the order of their begin.
    holds: Vec<Hold>,
    row_deletes: BTreeSet<u64>,
    /// Those of native acquisitions: a Java put may replace the marker, but not the owner.
    owners: BTreeSet<u64>,
}

impl Clock {
    fn new() -> Self {
        let began = Instant::now();
        // The thread may be interrupted between the two reads, which makes their difference smaller.
        let offset = || {
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            micros(wall) - micros(began.elapsed())
        };
        Self {
            began,
            offset: (0..100).map(|_| offset()).max().unwrap(),
        }
    }

    fn now(&self) -> u64 {
        self.offset + micros(self.began.elapsed())
    }
}

fn millis(micros: u64) -> u64 {
    micros / 1_000
}

fn micros(time: Duration) -> u64 {
    time.as_micros().try_into().unwrap()
}

impl Evidence {
    /// Reads the cells of the lock row that have not expired.
    async fn read(&mut self, connection: &Connection, table: &TestTable) {
        let row = lock_row(CLIENT, ID);
        let scan = Scan::new().start_row(row.clone()).stop_row_inclusive(row);
        let stored = rows(&table.of(connection), scan.raw().versions(u32::MAX >> 1)).await;
        for cell in stored.iter().flat_map(Row::cells) {
            if cell.kind == CellKind::DeleteFamily {
                self.row_deletes.insert(cell.timestamp);
            } else if cell.kind == CellKind::Put && cell.qualifier == "O" {
                self.owners.insert(cell.timestamp);
            }
        }
    }

    /// Reads the cells again and again, before they expire.
    async fn read_on(&mut self, connection: &Connection, table: &TestTable) -> ! {
        loop {
            sleep(LEASE / 4).await;
            self.read(connection, table).await;
        }
    }

    /// Returns the timestamp of the hold's marker.
    fn marker(&self, hold: &Hold) -> u64 {
        match hold.side {
            Side::Native => *self.owners.range(..=millis(hold.from)).next_back().unwrap(),
            Side::Java => hold.number,
        }
    }

    /// Returns why the server did not show the hold's marker at this time.
    fn loss(&self, lost: &Hold, by: u64) -> Option<Cause> {
        let is_deletion = |hold: &Hold, at| {
            hold.side == Side::Java && (millis(hold.until)..=millis(hold.released)).contains(&at)
        };
        // The client's own delete follows its hold.
        let is_of_another = |at| {
            let mut others = self.holds.iter().filter(|hold| !ptr::eq(*hold, lost));
            others.any(|hold| is_deletion(hold, at))
        };
        let marker = self.marker(lost);
        let until_then = marker..=millis(by).max(marker);
        let mut deletes = self.row_deletes.range(until_then.clone());
        if let Some(&at) = deletes.find(|&&at| is_of_another(at)) {
            let is_hidden = lost.side == Side::Java && at <= millis(lost.from);
            return Some(if is_hidden { Cause::Hidden } else { Cause::Removed });
        }
        // A native client also acquires and releases the lock if others have waited longer.
        let is_of_a_later_hold = |owner: u64| {
            let mut holds = self.holds.iter();
            holds
                .any(|hold| hold.side == Side::Native && hold.until > lost.from && self.marker(hold) == owner)
        };
        let mut hides = |&owner: &u64| owner > marker && !is_of_a_later_hold(owner);
        let is_overtaken = lost.side == Side::Java && self.owners.range(until_then).any(&mut hides);
        is_overtaken.then_some(Cause::Overtaken)
    }

    /// Returns the overlaps of two holds, the one that began earlier first.
    fn overlaps(&self) -> Vec<(&Hold, &Hold)> {
        let mut inside: Vec<&Hold> = Vec::new();
        let mut overlaps = Vec::new();
        for hold in &self.holds {
            inside.retain(|other| other.until > hold.from);
            overlaps.extend(inside.iter().map(|other| (*other, hold)));
            inside.push(hold);
        }
        overlaps
    }
}

/// Holds the lock repeatedly for this time. Returns the holds, and how many of them ended before their release.
async fn contend(
    client: u32,
    connection: &Connection,
    table: &TableName,
    clock: &Clock,
    lasting: Duration,
) -> (Vec<Hold>, usize) {
    let locks = lock_manager(connection, table, CLIENT).await;
    let (began, mut holds, mut lost) = (Instant::now(), Vec::new(), 0);
    while began.elapsed() < lasting {
        let request = locks.lock(Level::Dc, ID).unwrap().ttl(LEASE).wait(LEASE);
        let guard = request.acquire().await.unwrap();
        let from = clock.now();
        sleep(HOLD).await;
        let until = clock.now();
        let number = guard.fencing().try_into().unwrap();
        lost += usize::from(!guard.release().await.unwrap().is_released());
        holds.push(Hold {
            side: Side::Native,
            client,
            number,
            from,
            until,
            released: clock.now(),
        });
    }
    (holds, lost)
}

/// Counts the holds of each client of a side.
fn shares(holds: &[Hold], side: Side) -> Vec<usize> {
    let of = |client| {
        let own = |hold: &&Hold| (hold.side, hold.client) == (side, client);
        holds.iter().filter(own).count()
    };
    (0..CLIENTS).map(of).collect()
}

/// How long the clients contend, in seconds.
fn seconds() -> u64 {
    env::var("HBASE_TXN_TEST_FLEET_SECONDS").map_or(10, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn native_clients_exclude_each_other_beside_java_clients() {
    let lasting = Duration::from_secs(seconds());
    let (java, connection, clock) = (
        JavaSide::start(&standalone()).await,
        connect().await,
        Clock::new(),
    );
    let table = lock_table(&connection, "fleet", 1, false).await;
    let clients: Vec<_> = stream::iter(0..CLIENTS).then(|_| spied()).collect().await;
    let calls = || clients.iter().map(|(_, spy)| spy.multi_calls()).sum::<usize>();
    let calls_before = calls();
    let native = clients
        .iter()
        .zip(0..)
        .map(|((connection, _), client)| contend(client, connection, &table.name, &clock, lasting));
    let spin = java.spin(Spin {
        threads: CLIENTS,
        table: &table.name,
        level: "DC",
        farm: FARM,
        client: CLIENT,
        ids: &[ID],
        ttl_s: 90,
        inside: HOLD,
        pause: JAVA_PAUSE,
        lasting,
    });
    let mut evidence = Evidence::default();
    let (native, cycles) = tokio::select! {
        done = join(join_all(native), spin) => done,
        never = evidence.read_on(&connection, &table) => never,
    };
    evidence.read(&connection, &table).await;
    let (cycles, native_calls) = (cycles.unwrap(), calls() - calls_before);
    let java_calls: usize = cycles.iter().map(|cycle| cycle.attempts + 1).sum();
    let lost: usize = native.iter().map(|(_, lost)| lost).sum();
    let of_java = cycles.iter().map(|cycle| Hold {
        side: Side::Java,
        client: cycle.thread,
        number: cycle.stamp,
        from: cycle.enter,
        until: cycle.leave,
        released: cycle.released,
    });
    let holds = &mut evidence.holds;
    holds.extend(native.into_iter().flat_map(|(holds, _)| holds).chain(of_java));
    holds.sort_by_key(|hold| hold.from);

    let (of_native, of_java) = (
        shares(&evidence.holds, Side::Native),
        shares(&evidence.holds, Side::Java),
    );
    println!(
        "{lasting:?}: native holds {of_native:?} with {native_calls} calls, {lost} of them lost; Java holds {of_java:?} with \
         {java_calls} calls"
    );
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    let mut unexplained = Vec::new();
    for (first, second) in evidence.overlaps() {
        // Answers may arrive in another order than the server acted in.
        let [first_loss, second_loss] = [first, second].map(|hold| evidence.loss(hold, second.from));
        let cause = first_loss.or(second_loss);
        *counts.entry((first.side, second.side, cause)).or_default() += 1;
        let both_are = |side| (first.side, second.side) == (side, side);
        // What Java clients do among themselves is printed only. Causes are found by the clock of the server,
        // from which a clock that is adjusted meanwhile differs: only the long form, alone on its machine,
        // needs one for each overlap.
        let needs_cause = lasting >= LONG && !both_are(Side::Java);
        if both_are(Side::Native) || needs_cause && cause.is_none() {
            unexplained.push((first, second));
        }
    }
    for ((first, second, cause), count) in counts {
        println!("{second:?} began in {first:?}, {cause:?}: {count}");
    }
    for (first, second) in &unexplained {
        let (markers, end) = (
            [first, second].map(|hold| evidence.marker(hold)),
            millis(second.from) + 10,
        );
        let near = markers[0].min(markers[1]).min(end) - 10..=end;
        let [deletes, owners] = [&evidence.row_deletes, &evidence.owners]
            .map(|stamps| stamps.range(near.clone()).collect::<Vec<_>>());
        println!("{second:?} began in {first:?}; row deletes then: {deletes:?}, owners: {owners:?}");
    }
    let native = evidence.holds.iter().filter(|hold| hold.side == Side::Native);
    let fencing: Vec<_> = native.map(|hold| hold.number).collect();
    assert!(unexplained.is_empty(), "two clients held the lock");
    assert!(fencing.is_sorted_by(|one, next| one < next), "{fencing:?}");
    let least = usize::try_from(lasting.as_secs()).unwrap() / 5;
    assert!(of_native.iter().chain(&of_java).all(|holds| *holds >= least));
}
