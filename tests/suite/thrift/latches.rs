//! Latches that are counted through a gateway, natively, and by Java clients.

use std::time::{Duration, Instant};

use futures::future::join_all;
use hbase_txn::{
    ClientErrorKind, ErrorKind, Level,
    admin::Admin,
    client::{Cell, Connection, Get, Increment, Scan, Table},
    latch::{Latch, LatchInfo, LatchManager, LatchState, WaitOutcome},
    thrift::{ThriftConnection, ThriftLatch, ThriftLatchManager},
};

use super::{GATEWAY, connect_to, gateway, latches_of, port, scale};
use crate::support::{
    connect, eventually,
    forwarder::Forwarder,
    java::{JavaLatch, JavaSide},
    latch_rows::{latch_manager, latch_row, latch_table},
    leftovers::Leftovers,
    rows, says, standalone,
    table::TestTable,
    within,
};

const HOUR: Duration = Duration::from_secs(3_600);
const WEEK: u64 = 7 * 24 * 3_600_000;
const PATIENCE: Duration = Duration::from_secs(30);
const LEVELS: [Level; 2] = [Level::Dc, Level::Xdc];
const CLIENT: &str = "svc";

/// One table, used through the gateway and natively by two farms.
struct Sides {
    table: TestTable,
    gateway: ThriftConnection,
    visitors: [ThriftLatchManager; 2],
    natives: [LatchManager; 2],
    data: Table,
}

impl Sides {
    async fn new(connection: &Connection, what: &str) -> Self {
        let table = latch_table(connection, what, 2, true).await;
        let gateway = gateway().await;
        Self {
            visitors: [
                latches_of(&gateway, &table.name, CLIENT, "fra").await,
                latches_of(&gateway, &table.name, CLIENT, "sgp").await,
            ],
            natives: [
                latch_manager(connection, &table.name, CLIENT, "fra").await,
                latch_manager(connection, &table.name, CLIENT, "sgp").await,
            ],
            gateway,
            data: table.of(connection).with_expiry(),
            table,
        }
    }

    fn visitor(&self, level: Level, id: &str) -> ThriftLatch {
        self.visitors[0].latch(level, id).unwrap()
    }

    fn native(&self, level: Level, id: &str) -> Latch {
        self.natives[0].latch(level, id).unwrap()
    }

    /// Counts as the Java library does: without a check and without a TTL.
    async fn java_counts(&self, id: &str, by: i64) {
        let increment = Increment::new(latch_row(CLIENT, id)).column("C", "count_fra", by);
        self.data.increment(increment).await.unwrap();
    }

    async fn cells(&self, id: &str) -> Vec<Cell> {
        let row = self.data.get(Get::new(latch_row(CLIENT, id))).await.unwrap();
        row.map(|row| row.into_cells()).unwrap_or_default()
    }

    /// Asserts that both kinds of clients see this state.
    async fn is(&self, level: Level, id: &str, state: LatchState, count: Option<u64>) {
        let of = |info: LatchInfo| (info.state, info.count);
        let seen = self.visitor(level, id).show().await.unwrap();
        assert_eq!(of(seen), (state, count), "{id}, through the gateway");
        let seen = self.native(level, id).show().await.unwrap();
        assert_eq!(of(seen), (state, count), "{id}, natively");
    }
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn gateway_and_native_latch_operations_are_equal() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let sides = Sides::new(&connection, "thrift-latch").await;
    for level in LEVELS {
        let id = format!("jobs-{level}");
        let (ours, theirs) = (sides.visitor(level, &id), sides.native(level, &id));
        sides.is(level, &id, LatchState::Absent, None).await;
        assert!(!ours.delete().await.unwrap());
        assert_eq!(
            ours.count_down(1).await.unwrap_err().kind(),
            ErrorKind::LatchAbsent
        );
        ours.init(3, HOUR).await.unwrap();
        sides.is(level, &id, LatchState::Open, Some(3)).await;
        let begun = theirs.show().await.unwrap();
        assert_eq!(ours.show().await.unwrap(), begun);
        for error in [ours.init(3, HOUR).await, theirs.init(3, HOUR).await] {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LatchExists);
            says(
                &error,
                &["open", "3 to count down", &format!("latch {}", ours.key())],
            );
        }
        assert_eq!(ours.count_up(2).await.unwrap().left, 5);
        assert_eq!(theirs.count_down(1).await.unwrap().left, 4);
        assert!(theirs.arrive("worker").await.unwrap().counted);
        let counted = ours.count_down(2).await.unwrap();
        assert_eq!((counted.left, counted.counted), (1, true));
        let error = ours.count_down(2).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::LimitExceeded);
        says(&error, &["only 1 left", "svc_jobs"]);
        assert_eq!(ours.count_down(1).await.unwrap().left, 0);
        sides.is(level, &id, LatchState::Reached, Some(0)).await;
        assert_eq!(
            ours.count_down(1).await.unwrap_err().kind(),
            ClientErrorKind::LimitExceeded
        );
        let seen = ours.show().await.unwrap();
        assert_eq!(seen.ends, begun.ends, "to the millisecond");
        assert_eq!(seen.arrived, Some(1));
        // The stored cells expire with the latch, except its notes.
        let ends = begun.ends.unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
        let ends = u64::try_from(ends.as_millis()).unwrap();
        for cell in sides.cells(&id).await {
            let expires = cell.expires_at().expect("nothing is immortal");
            if cell.qualifier.starts_with(b"n") {
                assert!(
                    (ends + WEEK..ends + WEEK + 3_600_000).contains(&expires),
                    "{cell:?}"
                );
            } else {
                assert_eq!(expires, ends, "{cell:?}");
            }
        }
        assert!(ours.delete().await.unwrap());
        assert!(!ours.delete().await.unwrap());
        sides.is(level, &id, LatchState::Absent, None).await;
        assert_eq!(
            theirs.count_down(1).await.unwrap_err().kind(),
            ErrorKind::LatchAbsent
        );
        // The participant had arrived at the earlier latch.
        ours.init(2, HOUR).await.unwrap();
        assert!(theirs.arrive("worker").await.unwrap().counted);
        assert!(theirs.delete().await.unwrap());
        sides.is(level, &id, LatchState::Absent, None).await;
        // A latch that is created natively is counted through the gateway.
        theirs.init(2, HOUR).await.unwrap();
        assert_eq!(ours.count_down(1).await.unwrap().left, 1);
        sides.is(level, &id, LatchState::Open, Some(1)).await;
    }
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn farms_of_both_kinds_count_together_and_never_below_nothing() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let sides = Sides::new(&connection, "thrift-farms").await;
    let ours = sides.visitor(Level::Xdc, "all");
    let there = sides.visitors[1].latch(Level::Xdc, "all").unwrap();
    let theirs = sides.natives[1].latch(Level::Xdc, "all").unwrap();
    ours.init(6, HOUR).await.unwrap();
    assert_eq!(
        there.init(6, HOUR).await.unwrap_err().kind(),
        ErrorKind::LatchExists
    );
    assert_eq!(there.count_down(2).await.unwrap().left, 4);
    assert_eq!(theirs.count_down(1).await.unwrap().left, 3);
    assert_eq!(ours.count_down(1).await.unwrap().left, 2);
    let info = there.show().await.unwrap();
    assert_eq!(info.farms, [("fra".to_owned(), 5), ("sgp".to_owned(), -3)].into());
    assert_eq!(
        there.count_down(3).await.unwrap_err().kind(),
        ClientErrorKind::LimitExceeded
    );
    assert_eq!(there.count_down(2).await.unwrap().left, 0);
    assert_eq!(theirs.show().await.unwrap(), there.show().await.unwrap());
    assert_eq!(info.ends, there.show().await.unwrap().ends);
    // A latch of one farm does not exist in the other.
    let alone = sides.visitors[1].latch(Level::Dc, "alone").unwrap();
    sides.visitor(Level::Dc, "alone").init(1, HOUR).await.unwrap();
    assert_eq!(alone.show().await.unwrap().state, LatchState::Absent);
    assert_eq!(
        alone.count_down(1).await.unwrap_err().kind(),
        ErrorKind::LatchAbsent
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn one_of_many_concurrent_inits_by_gateway_or_native_wins() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let sides = Sides::new(&connection, "thrift-begin").await;
    for round in 0..10 * scale() {
        for level in LEVELS {
            let id = format!("{level}-{round}");
            let visitors = join_all((0..3).map(async |_| {
                let latches = latches_of(&sides.gateway, &sides.table.name, CLIENT, "fra").await;
                latches.latch(level, &id).unwrap()
            }));
            let visitors = visitors.await;
            let native = sides.native(level, &id);
            let (made, natively) = tokio::join!(
                join_all(visitors.iter().map(|latch| latch.init(4, HOUR))),
                native.init(4, HOUR)
            );
            let made: Vec<_> = made.into_iter().chain([natively]).collect();
            assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "{made:?}");
            for error in made.into_iter().filter_map(Result::err) {
                assert_eq!(error.kind(), ErrorKind::LatchExists, "{error:?}");
            }
            sides.is(level, &id, LatchState::Open, Some(4)).await;
            // Once more, over the cells that remain of it.
            let again = sides.visitor(level, &id);
            assert!(again.delete().await.unwrap());
            again.init(2, HOUR).await.unwrap();
            sides.is(level, &id, LatchState::Open, Some(2)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn concurrent_gateway_and_native_counts_are_all_counted() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let sides = Sides::new(&connection, "thrift-many").await;
    let others = latches_of(&sides.gateway, &sides.table.name, CLIENT, "fra").await;
    for level in LEVELS {
        let id = format!("many-{level}");
        let each = 8 * u64::from(scale());
        sides.visitor(level, &id).init(4 * each, HOUR).await.unwrap();
        let visit = async |latch: ThriftLatch| {
            for _ in 0..each {
                latch.count_up(1).await.unwrap();
                latch.count_down(2).await.unwrap();
            }
        };
        let far = match level {
            Level::Dc => 0,
            Level::Xdc => 1,
        };
        let native = sides.natives[far].latch(level, &id).unwrap();
        let natively = async {
            for _ in 0..each {
                native.count_up(1).await.unwrap();
                native.count_down(2).await.unwrap();
            }
        };
        within(PATIENCE * 4 * scale(), async {
            tokio::join!(
                visit(sides.visitor(level, &id)),
                visit(others.latch(level, &id).unwrap()),
                natively
            )
        })
        .await;
        sides.is(level, &id, LatchState::Open, Some(each)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn gateway_native_and_java_counts_are_exact_or_unknown() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let sides = Sides::new(&connection, "thrift-mixed").await;
    for level in LEVELS {
        let id = format!("mixed-{level}");
        let (ours, theirs) = (sides.visitor(level, &id), sides.native(level, &id));
        let each = 30 * u64::from(scale());
        let all = 10 * each;
        ours.init(all, HOUR).await.unwrap();
        let is_over = tokio::sync::watch::Sender::new(false);
        let visit = async {
            let mut counted = (0, 0);
            for _ in 0..each {
                match ours.count_down(1).await {
                    Ok(_) => counted.0 += 1,
                    Err(error) if error.is_outcome_unknown() => counted.1 += 1,
                    Err(error) => panic!("{error:?}"),
                }
            }
            is_over.send_replace(true);
            counted
        };
        let natively = async {
            for _ in 0..each {
                theirs.count_down(1).await.unwrap();
            }
        };
        // About as often as the others.
        let java = async {
            let mut counted = 0;
            while !*is_over.borrow() && counted < 3 * each {
                sides.java_counts(&id, -1).await;
                counted += 1;
                tokio::time::sleep(Duration::from_millis(fastrand::u64(..150))).await;
            }
            counted
        };
        let ((known, unknown), (), java) = within(PATIENCE * 3 * scale(), async {
            tokio::join!(visit, natively, java)
        })
        .await;
        let left = theirs.show().await.unwrap().count.unwrap();
        let most = all - known - each - java;
        println!("{level}: {known} known and {unknown} unknown beside {java} of a Java client");
        assert!(
            (most - unknown..=most).contains(&left),
            "{left} of {most}, {unknown} unknown"
        );
        assert!(known > 0, "{unknown} of {each} unknown");
        assert_eq!(ours.show().await.unwrap().count, Some(left));
        // Exact again without concurrent counts.
        assert_eq!(ours.count_down(1).await.unwrap().left, left - 1);
        assert_eq!(theirs.count_down(1).await.unwrap().left, left - 2);
    }
}

/// The result of a count with a Java count in between, and the count that is left of ten.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Between {
    Exact(u64),
    Unknown(u64),
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn java_count_between_two_gateway_calls_counts_or_is_reported() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let sides = Sides::new(&connection, "thrift-between").await;
    let forwarder = Forwarder::to(port()).await;
    let slow = ThriftConnection::builder(format!("127.0.0.1:{}", forwarder.port));
    let slow = slow.connections(1).connect().await.unwrap();
    let slow = latches_of(&slow, &sides.table.name, CLIENT, "fra").await;
    // The client reads, writes a note, reads, writes the count, reads, and clears the cells below.
    let places = [
        ("behind the look", 1, Between::Exact(8)),
        ("behind the note", 2, Between::Unknown(9)),
        ("behind the look at the note", 3, Between::Unknown(9)),
        ("behind the count", 4, Between::Unknown(8)),
        ("behind the look at the count", 5, Between::Exact(8)),
    ];
    let mut seen = Vec::new();
    for level in LEVELS {
        for (what, calls, _) in places {
            let id = format!("between-{level}-{calls}");
            let theirs = sides.native(level, &id);
            theirs.init(10, HOUR).await.unwrap();
            let ours = slow.latch(level, &id).unwrap();
            forwarder.stop_behind(calls);
            let counting = tokio::spawn(async move { ours.count_down(1).await });
            eventually(what, async || forwarder.has_stopped().then_some(())).await;
            sides.java_counts(&id, -1).await;
            forwarder.go_on();
            let counted = within(PATIENCE, counting).await.unwrap();
            let left = theirs.show().await.unwrap().count.unwrap();
            seen.push((
                level,
                what,
                match counted {
                    Ok(counted) => {
                        assert!(counted.counted);
                        Between::Exact(left)
                    }
                    Err(error) => {
                        assert!(error.is_outcome_unknown(), "{level}, {what}: {error:?}");
                        Between::Unknown(left)
                    }
                },
            ));
            sides.is(level, &id, LatchState::Open, Some(left)).await;
            // Exact again without concurrent counts.
            let ours = sides.visitor(level, &id);
            assert_eq!(ours.count_down(1).await.unwrap().left, left - 1);
        }
    }
    let expected: Vec<_> = LEVELS
        .iter()
        .flat_map(|level| places.map(|(what, _, expected)| (*level, what, expected)))
        .collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn the_java_library_reads_and_counts_what_a_gateway_counts() {
    let _gateway = GATEWAY.read().await;
    let (java, connection) = (JavaSide::start(&standalone()).await, connect().await);
    let sides = Sides::new(&connection, "thrift-java").await;
    for level in LEVELS {
        let id = format!("java-{level}");
        let theirs = |farm| JavaLatch {
            table: &sides.table.name,
            farm,
            client: CLIENT,
            id: &id,
        };
        let is = async |count: u64| {
            let read = java.get_latch(theirs("fra"), &level.to_string()).await.unwrap();
            assert_eq!(read, Some(count.cast_signed()));
            let state = if count == 0 {
                LatchState::Reached
            } else {
                LatchState::Open
            };
            sides.is(level, &id, state, Some(count)).await;
        };
        let ours = sides.visitor(level, &id);
        ours.init(9, HOUR).await.unwrap();
        is(9).await;
        let mut left = 9;
        while left > 1 {
            ours.count_down(1).await.unwrap();
            is(left - 1).await;
            java.count_latch(theirs("fra"), -1).await.unwrap();
            left -= 2;
            is(left).await;
        }
        sides.native(level, &id).count_down(1).await.unwrap();
        is(0).await;
        // A latch created by the Java client is readable at once, and can be counted after a native
        // client has noted its end.
        assert!(ours.delete().await.unwrap());
        java.init_latch(theirs("fra"), 5, 3_600).await.unwrap();
        is(5).await;
        assert_eq!(
            ours.init(5, HOUR).await.unwrap_err().kind(),
            ErrorKind::LatchExists
        );
        let error = ours.count_down(1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LatchCorrupt);
        says(&error, &["the end of the latch", "once natively"]);
        assert_eq!(sides.native(level, &id).count_down(1).await.unwrap().left, 4);
        assert_eq!(ours.count_down(1).await.unwrap().left, 3);
        is(3).await;
    }
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn latch_expires_on_time_whatever_a_gateway_counts() {
    const LIFE: Duration = Duration::from_secs(8);
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let sides = Sides::new(&connection, "thrift-expiry").await;
    let admin = Admin::new(&connection);
    for level in LEVELS {
        let id = format!("short-{level}");
        let (ours, theirs) = (sides.visitor(level, &id), sides.native(level, &id));
        // The cells below live longer and must not become visible again.
        ours.init(7, HOUR).await.unwrap();
        ours.count_down(1).await.unwrap();
        assert!(ours.delete().await.unwrap());
        admin.flush_table(&sides.table.name).await.unwrap();
        let began = Instant::now();
        ours.init(100, LIFE).await.unwrap();
        let ends = theirs.show().await.unwrap().ends;
        while began.elapsed() < LIFE / 4 {
            ours.count_down(1).await.unwrap();
            theirs.count_up(1).await.unwrap();
            ours.count_up(1).await.unwrap();
        }
        assert_eq!(theirs.show().await.unwrap().ends, ends);
        admin.flush_table(&sides.table.name).await.unwrap();
        ours.count_down(1).await.unwrap();
        let (one, other) = tokio::join!(ours.wait(PATIENCE), theirs.wait(PATIENCE));
        assert_eq!(
            (one.unwrap(), other.unwrap()),
            (WaitOutcome::Expired, WaitOutcome::Expired)
        );
        assert!(began.elapsed() < LIFE * 2, "{:?}", began.elapsed());
        sides.is(level, &id, LatchState::Expired, None).await;
        assert_eq!(
            ours.count_down(1).await.unwrap_err().kind(),
            ErrorKind::LatchExpired
        );
        assert_eq!(
            ours.count_up(1).await.unwrap_err().kind(),
            ErrorKind::LatchExpired
        );
        admin.flush_table(&sides.table.name).await.unwrap();
        admin.major_compact_table(&sides.table.name).await.unwrap();
        sides.is(level, &id, LatchState::Expired, None).await;
        // A late count-down by a Java client leaves a cell that no client takes for a latch, and
        // that is not part of the next latch.
        sides.java_counts(&id, -1).await;
        sides.is(level, &id, LatchState::Expired, None).await;
        ours.init(2, HOUR).await.unwrap();
        sides.is(level, &id, LatchState::Open, Some(2)).await;
    }
    // No cell is left without an expiry.
    let left = rows(&sides.data, Scan::new()).await;
    for cell in left.iter().flat_map(hbase_txn::client::Row::cells) {
        assert!(cell.expires_at().is_some(), "{cell:?}");
    }
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn gateway_waiters_are_notified_of_the_end() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let sides = Sides::new(&connection, "thrift-wait").await;
    let waits = |latch: &ThriftLatch| {
        let latch = latch.clone();
        tokio::spawn(async move { latch.wait(PATIENCE).await })
    };
    let nothing = sides.visitor(Level::Dc, "nothing");
    assert_eq!(nothing.wait(PATIENCE).await.unwrap(), WaitOutcome::Absent);
    // Both levels of one name share a row.
    for (level, id) in [(Level::Dc, "one"), (Level::Xdc, "all")] {
        let ours = sides.visitor(level, id);
        ours.init(2, HOUR).await.unwrap();
        assert_eq!(ours.wait(Duration::ZERO).await.unwrap(), WaitOutcome::TimedOut);
        let patience = Duration::from_millis(300);
        assert_eq!(ours.wait(patience).await.unwrap(), WaitOutcome::TimedOut);
    }
    let (one, all) = (sides.visitor(Level::Dc, "one"), sides.visitor(Level::Xdc, "all"));
    let waiting: Vec<_> = [&one, &one, &all, &all].map(waits).into();
    sides.native(Level::Dc, "one").count_down(2).await.unwrap();
    all.count_down(2).await.unwrap();
    for waited in waiting {
        assert_eq!(waited.await.unwrap().unwrap(), WaitOutcome::Reached);
    }
    // A native waiter of a latch that is counted through the gateway.
    let theirs = sides.native(Level::Dc, "theirs");
    theirs.init(1, HOUR).await.unwrap();
    let waiting = tokio::spawn(async move { theirs.wait(PATIENCE).await });
    sides.visitor(Level::Dc, "theirs").count_down(1).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), WaitOutcome::Reached);
    let forwarder = Forwarder::to(port()).await;
    let watching = connect_to(forwarder.port).await;
    let watching = latches_of(&watching, &sides.table.name, CLIENT, "fra").await;
    let deleted = watching.latch(Level::Dc, "deleted").unwrap();
    deleted.init(1, HOUR).await.unwrap();
    let before = forwarder.asked();
    let waiting = waits(&deleted);
    // A second poll means that the first one found the latch open.
    eventually("it was seen open", async || {
        (forwarder.asked() >= before + 2).then_some(())
    })
    .await;
    sides.native(Level::Dc, "deleted").delete().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), WaitOutcome::Absent);
}

#[test]
#[ignore = "needs a Thrift gateway"]
fn waiting_through_a_gateway_leaves_nothing_behind() {
    Leftovers::of(async |mut leftovers| {
        let _gateway = GATEWAY.read().await;
        let connection = connect().await;
        let sides = Sides::new(&connection, "thrift-leaving").await;
        let ours = sides.visitor(Level::Dc, "one");
        ours.init(1, HOUR).await.unwrap();
        leftovers.begin();
        let waiting = (0..20)
            .map(|_| {
                let latch = ours.clone();
                tokio::spawn(async move { latch.wait(PATIENCE).await })
            })
            .collect();
        leftovers.abandon(waiting).await;
        leftovers.none().await;
        assert_eq!(ours.count_down(1).await.unwrap().left, 0);
        assert_eq!(ours.wait(PATIENCE).await.unwrap(), WaitOutcome::Reached);
        leftovers.none().await;
    });
}
