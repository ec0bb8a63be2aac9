//! Guarantees of latches beyond their storage layout: one test for each weakness of the Java
//! library's protocol.

use std::time::{Duration, Instant};

use futures::future::join_all;
use hbase_txn::{
    ClientErrorKind, ErrorKind, Level,
    admin::Admin,
    client::{Cell, Connection, Get, Increment, Table},
    latch::{Latch, LatchManager, LatchState, WaitOutcome},
};

use crate::{
    proxy::{Action, Proxy},
    support::{
        connect, connect_by, eventually,
        latch_rows::{latch_manager, latch_row, latch_table},
        says, spied, standalone,
        table::TestTable,
        within,
    },
};

const HOUR: Duration = Duration::from_secs(3_600);
const SHORT: Duration = Duration::from_millis(1_500);
const PATIENCE: Duration = Duration::from_secs(20);
const LEVELS: [Level; 2] = [Level::Dc, Level::Xdc];
const CLIENT: &str = "svc";

/// The latches of two farms in one table, and the table's rows with their expiry.
struct Farms {
    fra: LatchManager,
    sgp: LatchManager,
    data: Table,
    table: TestTable,
}

impl Farms {
    async fn new(connection: &Connection, what: &str, has_state: bool) -> Self {
        let table = latch_table(connection, what, 4, has_state).await;
        Self {
            fra: latch_manager(connection, &table.name, CLIENT, "fra").await,
            sgp: latch_manager(connection, &table.name, CLIENT, "sgp").await,
            data: table.of(connection).with_expiry(),
            table,
        }
    }

    fn both(&self, level: Level, id: &str) -> (Latch, Latch) {
        (
            self.fra.latch(level, id).unwrap(),
            self.sgp.latch(level, id).unwrap(),
        )
    }

    /// Counts as the Java library does: without a check and without a TTL.
    async fn java_counts(&self, farm: &str, id: &str, by: i64) {
        let increment = Increment::new(latch_row(CLIENT, id)).column("C", format!("count_{farm}"), by);
        self.data.increment(increment).await.unwrap();
    }

    async fn cells(&self, id: &str) -> Vec<Cell> {
        let row = self.data.get(Get::new(latch_row(CLIENT, id))).await.unwrap();
        row.map(|row| row.into_cells()).unwrap_or_default()
    }

    async fn flush(&self) {
        let admin = Admin::new(self.data.connection());
        admin.flush_table(&self.table.name).await.unwrap();
    }
}

async fn state(latch: &Latch) -> (LatchState, Option<u64>) {
    let info = latch.show().await.unwrap();
    (info.state, info.count)
}

/// Returns the state and the error of an expired latch, with or without notes.
fn over(has_state: bool) -> (LatchState, ErrorKind) {
    if has_state {
        (LatchState::Expired, ErrorKind::LatchExpired)
    } else {
        (LatchState::Absent, ErrorKind::LatchAbsent)
    }
}

async fn is_over(latch: &Latch) {
    eventually("the latch is over", async || {
        let (state, _) = state(latch).await;
        matches!(state, LatchState::Absent | LatchState::Expired).then_some(())
    })
    .await;
}

#[tokio::test]
async fn l1_nothing_that_is_counted_makes_a_latch_live_longer() {
    let connection = connect().await;
    for has_state in [true, false] {
        let farms = Farms::new(&connection, "l1", has_state).await;
        for level in LEVELS {
            let id = level.to_string();
            let (ours, theirs) = farms.both(level, &id);
            ours.init(20, HOUR).await.unwrap();
            let ends = farms.cells(&id).await[0].expires_at().unwrap();
            for _ in 0..3 {
                ours.count_down(2).await.unwrap();
                ours.count_up(1).await.unwrap();
                if level == Level::Xdc {
                    theirs.count_down(1).await.unwrap();
                }
            }
            if has_state {
                ours.arrive("worker").await.unwrap();
            }
            let cells = farms.cells(&id).await;
            let counts = if level == Level::Xdc { 2 } else { 1 };
            assert_eq!(cells.len(), counts + if has_state { 2 } else { 0 });
            for cell in &cells {
                let known_after = if cell.qualifier.starts_with(b"n") {
                    7 * 24 * 3_600_000
                } else {
                    0
                };
                assert_eq!(cell.expires_at(), Some(ends + known_after), "{cell:?}");
            }
            // A Java client's count restarts the TTL. A count by this library keeps the end.
            farms.java_counts("fra", &id, -1).await;
            let end = |cells: Vec<Cell>| {
                cells
                    .iter()
                    .find(|cell| cell.qualifier == "count_fra")?
                    .expires_at()
            };
            let prolonged = end(farms.cells(&id).await).unwrap();
            assert!(prolonged > ends);
            ours.count_down(1).await.unwrap();
            assert_eq!(end(farms.cells(&id).await), Some(prolonged));
        }
    }
}

#[tokio::test]
async fn l2_deleted_latch_does_not_return_when_a_shorter_one_ends() {
    let connection = connect().await;
    for has_state in [true, false] {
        let farms = Farms::new(&connection, "l2-deleted", has_state).await;
        let latches = LEVELS.map(|level| farms.both(level, &level.to_string()).0);
        for latch in &latches {
            latch.init(9, HOUR).await.unwrap();
        }
        farms.flush().await;
        for latch in &latches {
            assert!(latch.delete().await.unwrap());
            latch.init(9, SHORT).await.unwrap();
            for _ in 0..3 {
                latch.count_down(1).await.unwrap();
            }
        }
        // The flush keeps one of several versions. Whatever hid the cells under them must survive.
        farms.flush().await;
        for latch in &latches {
            is_over(latch).await;
            assert_eq!(state(latch).await, (over(has_state).0, None));
            let left = farms.cells(&latch.level().to_string()).await;
            assert!(left.iter().all(|cell| cell.family != "C"), "{left:?}");
        }
    }
}

#[tokio::test]
async fn l2_late_count_leaves_nothing_and_java_leftovers_are_cleared() {
    let connection = connect().await;
    for has_state in [true, false] {
        let farms = Farms::new(&connection, "l2", has_state).await;
        let (gone, refusal) = over(has_state);
        for level in LEVELS {
            let id = level.to_string();
            let (ours, theirs) = farms.both(level, &id);
            for counted in [ours.count_down(1).await, ours.count_up(1).await] {
                assert_eq!(counted.unwrap_err().kind(), ErrorKind::LatchAbsent);
            }
            assert_eq!(farms.cells(&id).await, [], "nothing came of it");

            // Java clients count down too late, in one farm twice.
            farms.java_counts("fra", &id, -1).await;
            farms.java_counts("fra", &id, -1).await;
            farms.java_counts("sgp", &id, -1).await;
            assert_eq!(state(&ours).await, (LatchState::Absent, None));
            let error = ours.count_down(1).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LatchAbsent);
            farms.flush().await;

            ours.init(3, SHORT).await.unwrap();
            assert_eq!(state(&ours).await, (LatchState::Open, Some(3)));
            assert_eq!(ours.count_down(1).await.unwrap().left, 2);
            farms.flush().await;
            is_over(&ours).await;
            assert_eq!(state(&ours).await, (gone, None));
            assert_eq!(ours.count_down(1).await.unwrap_err().kind(), refusal);
            let left = farms.cells(&id).await;
            let stayed = left.iter().filter(|cell| cell.family == "C");
            let mine = stayed.filter(|cell| level == Level::Xdc || cell.qualifier == "count_fra");
            assert_eq!(mine.count(), 0, "{left:?}");

            // A Java client counts down in the other farm while the latch lives. Its cell ends with
            // the latch once this library counts there.
            ours.init(5, SHORT).await.unwrap();
            if level == Level::Xdc {
                farms.java_counts("sgp", &id, -1).await;
                assert_eq!(theirs.count_down(1).await.unwrap().left, 3);
            }
            farms.flush().await;
            is_over(&ours).await;
            let left = farms.cells(&id).await;
            assert!(
                left.iter()
                    .all(|cell| cell.expires_at().is_some() || cell.qualifier == "count_sgp")
            );
            assert!(
                level == Level::Dc || left.iter().all(|cell| cell.family != "C"),
                "{left:?}"
            );
        }
    }
}

#[tokio::test]
async fn l3_a_latch_that_is_there_is_not_added_to() {
    let connection = connect().await;
    for has_state in [true, false] {
        let farms = Farms::new(&connection, "l3", has_state).await;
        for level in LEVELS {
            let id = level.to_string();
            let (ours, theirs) = farms.both(level, &id);
            ours.init(3, HOUR).await.unwrap();
            let error = ours.init(3, HOUR).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LatchExists);
            says(&error, &["open", "3 to count down"]);
            if level == Level::Xdc {
                assert_eq!(
                    theirs.init(3, HOUR).await.unwrap_err().kind(),
                    ErrorKind::LatchExists
                );
            }
            assert_eq!(ours.count_down(3).await.unwrap().left, 0);
            let error = ours.init(3, HOUR).await.unwrap_err();
            says(&error, &["reached"]);
            assert_eq!(state(&ours).await, (LatchState::Reached, Some(0)));
            // A latch that is deleted and created again keeps nothing of the earlier one.
            for count in [2, 1] {
                assert!(ours.delete().await.unwrap());
                ours.init(count, HOUR).await.unwrap();
                assert_eq!(state(&ours).await, (LatchState::Open, Some(count)));
            }
        }
    }
}

#[tokio::test]
async fn l4_absent_and_expired_are_no_numbers_and_who_waits_is_told() {
    let connection = connect().await;
    for has_state in [true, false] {
        let farms = Farms::new(&connection, "l4", has_state).await;
        for level in LEVELS {
            let id = level.to_string();
            let (ours, _) = farms.both(level, &id);
            assert_eq!(state(&ours).await, (LatchState::Absent, None));
            let waited = within(PATIENCE, ours.wait(HOUR)).await;
            assert_eq!(waited.unwrap(), WaitOutcome::Absent);

            ours.init(1, SHORT).await.unwrap();
            let waited = within(PATIENCE, ours.wait(HOUR)).await;
            assert_eq!(waited.unwrap(), WaitOutcome::Expired);
            assert_eq!(state(&ours).await, (over(has_state).0, None));

            ours.init(1, HOUR).await.unwrap();
            let waiting = ours.clone();
            let waiting = tokio::spawn(async move { waiting.wait(HOUR).await });
            ours.delete().await.unwrap();
            let outcome = within(PATIENCE, waiting).await.unwrap().unwrap();
            // Without a note, a waiter that has seen the latch cannot tell why it is gone.
            if has_state {
                assert_eq!(outcome, WaitOutcome::Absent);
            } else {
                assert!(matches!(outcome, WaitOutcome::Absent | WaitOutcome::Expired));
            }
        }
    }
}

#[tokio::test]
async fn l5_a_sum_does_not_fall_because_one_farm_is_forgotten_earlier() {
    let connection = connect().await;
    for has_state in [true, false] {
        let farms = Farms::new(&connection, "l5", has_state).await;
        let ids: Vec<String> = (0..20).map(|number| format!("sum-{number}")).collect();
        let each = join_all(ids.iter().map(async |id| {
            let (ours, theirs) = farms.both(Level::Xdc, id);
            ours.init(10, SHORT).await.unwrap();
            theirs.count_up(3).await.unwrap();
            ours.count_down(8).await.unwrap();
            theirs.count_down(4).await.unwrap();
            // The only count that is ever visible, until the latch is gone.
            let mut looks = 0;
            loop {
                let seen = ours.show().await.unwrap();
                let Some(count) = seen.count else { break };
                assert_eq!((seen.state, count), (LatchState::Open, 1), "{:?}", seen.farms);
                assert_eq!(seen.farms.len(), 2);
                looks += 1;
            }
            let left = farms.cells(id).await;
            assert!(left.iter().all(|cell| cell.family != "C"), "{left:?}");
            looks
        }));
        assert!(each.await.iter().sum::<usize>() > 0);
    }
}

#[tokio::test]
async fn l6_latch_of_zero_is_reached_until_a_count_up() {
    let connection = connect().await;
    for has_state in [true, false] {
        let farms = Farms::new(&connection, "l6", has_state).await;
        for level in LEVELS {
            let id = level.to_string();
            let (ours, _) = farms.both(level, &id);
            ours.init(0, HOUR).await.unwrap();
            assert_eq!(state(&ours).await, (LatchState::Reached, Some(0)));
            assert_eq!(ours.wait(PATIENCE).await.unwrap(), WaitOutcome::Reached);
            let cells = farms.cells(&id).await;
            assert_eq!(cells[0].value, 0_i64.to_be_bytes()[..]);
            assert!(cells[0].expires_at().is_some());
            assert_eq!(
                ours.init(0, HOUR).await.unwrap_err().kind(),
                ErrorKind::LatchExists
            );
            let error = ours.count_down(1).await.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::LimitExceeded);
            assert_eq!(ours.count_up(2).await.unwrap().left, 2);
            assert_eq!(state(&ours).await, (LatchState::Open, Some(2)));
        }
    }
}

#[tokio::test]
async fn l7_one_task_polls_for_all_waiters_and_ends_with_them() {
    const LATCHES: usize = 60;
    /// The shortest pause between two polls.
    const PAUSE: Duration = Duration::from_millis(25);
    let (connection, spy) = spied().await;
    let farms = Farms::new(&connect().await, "l7", true).await;
    let here = latch_manager(&connection, &farms.table.name, CLIENT, "fra").await;
    let latches: Vec<Latch> = (0..LATCHES)
        .map(|number| here.latch(Level::Xdc, &format!("l{number}")).unwrap())
        .collect();
    for latch in &latches {
        latch.init(1, HOUR).await.unwrap();
    }
    // Opens everything that the other client needs before the tasks are counted.
    state(&farms.both(Level::Xdc, "l0").1).await;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let waiting: Vec<_> = latches
        .iter()
        .chain(&latches)
        .map(|latch| {
            let latch = latch.clone();
            tokio::spawn(async move { latch.wait(HOUR).await })
        })
        .collect();
    eventually("all wait", async || {
        (alive() > before + waiting.len()).then_some(())
    })
    .await;

    // The table has four regions on one server. Each poll is one call, however many tasks wait.
    let (began, calls) = (Instant::now(), spy.multi_calls());
    let looks = eventually("there were ten looks", async || {
        let looks = spy.multi_calls() - calls;
        (looks >= 10).then_some(looks)
    })
    .await;
    let most = began.elapsed().as_millis() / PAUSE.as_millis() + 3;
    assert!((looks as u128) <= most, "{looks} calls in {:?}", began.elapsed());
    assert!(alive() <= before + waiting.len() + 1, "one task for all");

    for latch in &latches[..10] {
        let (_, theirs) = farms.both(Level::Xdc, latch.key().split_once('_').unwrap().1);
        assert_eq!(theirs.count_down(1).await.unwrap().left, 0);
    }
    for (number, waiting) in waiting.into_iter().enumerate() {
        if number % LATCHES < 10 {
            let outcome = within(PATIENCE, waiting).await.unwrap().unwrap();
            assert_eq!(outcome, WaitOutcome::Reached);
        } else {
            waiting.abort();
            assert!(waiting.await.unwrap_err().is_cancelled());
        }
    }
    eventually("nobody looks", async || (alive() <= before).then_some(())).await;
    let calls = spy.multi_calls();
    assert_eq!(state(&latches[0]).await, (LatchState::Reached, Some(0)));
    assert_eq!(spy.multi_calls(), calls + 1, "only this call of ours");
}

/// The ways in which the client can lose the answer to a call.
const LOST: [Action; 6] = [
    Action::CutBeforeAnswer,
    Action::CutInAnswer,
    Action::DropAnswer,
    Action::Duplicate,
    Action::Again(Duration::from_millis(700)),
    Action::Detour(Duration::from_millis(700)),
];

async fn behind(proxy: &Proxy) -> Connection {
    let config = standalone()
        .config()
        .with_write_timeout(Duration::from_millis(300))
        .with_read_timeout(Duration::from_secs(2))
        .with_operation_timeout(Duration::from_secs(8));
    connect_by(proxy.clone(), config).await
}

/// Applies the action to the second `Multi`, the one that writes.
fn lose(proxy: &Proxy, action: Action) {
    let mut calls = 0;
    proxy.rule(move |request| {
        calls += usize::from(request.method == "Multi");
        if calls == 2 && request.method == "Multi" {
            action
        } else {
            Action::Pass
        }
    });
}

#[tokio::test]
async fn l8_count_with_a_lost_answer_counts_once_or_is_unknown() {
    let connection = connect().await;
    for has_state in [true, false] {
        let farms = Farms::new(&connection, "l8", has_state).await;
        let proxy = Proxy::new();
        let behind = behind(&proxy).await;
        let here = latch_manager(&behind, &farms.table.name, CLIENT, "fra").await;
        for level in LEVELS {
            // The server may execute the second of two copies on one connection first. No network
            // does that, and only a note could reveal it.
            let lost = LOST
                .into_iter()
                .filter(|action| has_state || *action != Action::Duplicate);
            for (number, action) in lost.enumerate() {
                let id = format!("{level}-{number}");
                let ours = here.latch(level, &id).unwrap();
                let (direct, _) = farms.both(level, &id);

                lose(&proxy, action);
                let made = ours.init(5, HOUR).await;
                assert!(has_state || made.is_ok() || made.as_ref().unwrap_err().is_outcome_unknown());
                assert!(!has_state || made.is_ok(), "{action:?}: {made:?}");
                let mut left = 5;
                for step in 0..2 {
                    lose(&proxy, action);
                    let counted = match (step, has_state) {
                        (0, true) => ours.arrive("worker").await,
                        _ => ours.count_down(1).await,
                    };
                    match counted {
                        Ok(counted) => {
                            left -= 1;
                            assert_eq!((counted.left, counted.counted), (left, true), "{action:?}");
                        }
                        // The server may still receive the request.
                        Err(error) => {
                            assert!(!has_state && error.is_outcome_unknown(), "{action:?}: {error}");
                            eventually("nothing is on its way", async || {
                                (proxy.under_way() == 0).then_some(())
                            })
                            .await;
                            let (_, found) = state(&direct).await;
                            let found = found.unwrap();
                            assert!([left, left - 1].contains(&found), "{action:?}: {found}");
                            left = found;
                        }
                    }
                }
                eventually("nothing is on its way", async || {
                    (proxy.under_way() == 0).then_some(())
                })
                .await;
                assert_eq!(state(&direct).await, (LatchState::Open, Some(left)), "{action:?}");
                assert!(ours.delete().await.unwrap());
            }
        }
        behind.close().await;
    }
}

#[tokio::test]
async fn l8_late_count_is_not_applied_to_a_changed_latch() {
    let connection = connect().await;
    for has_state in [true, false] {
        let farms = Farms::new(&connection, "l8-late", has_state).await;
        let proxy = Proxy::new();
        let behind = behind(&proxy).await;
        let here = latch_manager(&behind, &farms.table.name, CLIENT, "fra").await;
        for level in LEVELS {
            for what in ["java-up-and-down", "deleted", "made-again", "farm-down"] {
                let id = format!("{level}-{what}");
                let (direct, far) = farms.both(level, &id);
                direct.init(2, HOUR).await.unwrap();
                let ours = here.latch(level, &id).unwrap();
                assert_eq!(state(&ours).await, (LatchState::Open, Some(2)));
                lose(&proxy, Action::Hold);
                let before = proxy.requests("Multi");
                let counting = tokio::spawn(async move { ours.count_down(2).await });
                eventually("it is held", async || {
                    (proxy.requests("Multi") >= before + 2).then_some(())
                })
                .await;
                match what {
                    "java-up-and-down" => {
                        farms.java_counts("fra", &id, 1).await;
                        farms.java_counts("fra", &id, -1).await;
                    }
                    "deleted" => assert!(direct.delete().await.unwrap()),
                    "made-again" => {
                        assert!(direct.delete().await.unwrap());
                        direct.init(2, HOUR).await.unwrap();
                    }
                    _ if level == Level::Xdc => {
                        assert_eq!(far.count_down(2).await.unwrap().left, 0);
                    }
                    _ => {}
                }
                eventually("it is let go", async || {
                    (proxy.release().await == 1).then_some(())
                })
                .await;
                let counted = within(PATIENCE, counting).await.unwrap();
                let after = state(&direct).await;
                match (what, counted) {
                    (_, Ok(counted)) => {
                        assert!(what != "deleted" && counted.left == 0, "{what}: {counted:?}");
                        assert_eq!(after, (LatchState::Reached, Some(0)), "{what}");
                        let info = direct.show().await.unwrap();
                        assert_eq!(info.farms.values().sum::<i64>(), 0, "{what}: {info:?}");
                    }
                    ("deleted", Err(_)) => assert_eq!(after, (LatchState::Absent, None)),
                    ("farm-down", Err(error)) => {
                        assert!(error.is_outcome_unknown() || error.kind() == ClientErrorKind::LimitExceeded);
                        let info = direct.show().await.unwrap();
                        assert_eq!(info.farms.values().sum::<i64>(), 0, "{what}: {info:?}");
                    }
                    (_, Err(error)) => {
                        assert!(error.is_outcome_unknown(), "{what}: {error}");
                        assert_eq!(after, (LatchState::Open, Some(2)), "{what}");
                    }
                }
            }
        }
        behind.close().await;
    }
}

#[tokio::test]
async fn l9_counts_below_nothing_or_above_all_are_refused() {
    let connection = connect().await;
    for has_state in [true, false] {
        let farms = Farms::new(&connection, "l9", has_state).await;
        for level in LEVELS {
            let id = level.to_string();
            let (ours, theirs) = farms.both(level, &id);
            let error = ours.init(i64::MAX.unsigned_abs() + 1, HOUR).await.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
            assert_eq!(farms.cells(&id).await, []);
            ours.init(i64::MAX.unsigned_abs() - 1, HOUR).await.unwrap();
            assert_eq!(ours.count_up(1).await.unwrap().left, i64::MAX.unsigned_abs());
            assert_eq!(
                ours.count_up(1).await.unwrap_err().kind(),
                ClientErrorKind::InvalidInput
            );
            if level == Level::Xdc {
                assert_eq!(
                    theirs.count_up(1).await.unwrap_err().kind(),
                    ClientErrorKind::InvalidInput
                );
            }
            assert_eq!(ours.count_down(i64::MAX.unsigned_abs()).await.unwrap().left, 0);
            for by in [1, i64::MAX.unsigned_abs()] {
                assert_eq!(
                    ours.count_down(by).await.unwrap_err().kind(),
                    ClientErrorKind::LimitExceeded
                );
            }
            assert_eq!(
                ours.count_down(u64::MAX).await.unwrap_err().kind(),
                ClientErrorKind::InvalidInput
            );
            assert_eq!(state(&ours).await, (LatchState::Reached, Some(0)));
        }
        // A count that a Java client starts below zero is reached, and is not counted down further.
        let (ours, _) = farms.both(Level::Dc, "java");
        let begun = Increment::new(latch_row(CLIENT, "java"))
            .column("C", "count_fra", -5)
            .ttl(HOUR);
        farms.data.increment(begun).await.unwrap();
        assert_eq!(state(&ours).await, (LatchState::Reached, Some(0)));
        assert_eq!(ours.wait(PATIENCE).await.unwrap(), WaitOutcome::Reached);
        assert_eq!(
            ours.count_down(1).await.unwrap_err().kind(),
            ClientErrorKind::LimitExceeded
        );
        assert_eq!(farms.cells("java").await[0].value, (-5_i64).to_be_bytes()[..]);
    }
}
