//! Latches: their states, their counts, and the outcomes of waits.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use hbase_txn::{
    ClientErrorKind, ErrorKind, Level,
    admin::Admin,
    client::{Connection, FamilyDescriptor},
    latch::{Latch, LatchManager, LatchState, LatchTableOptions, WaitOutcome},
};

use crate::support::{
    connect, eventually,
    latch_rows::{latch_manager, latch_row, latch_table},
    leftovers::Leftovers,
    rows, says, spied,
    table::TestTable,
    within,
};

const HOUR: Duration = Duration::from_secs(3_600);
const PATIENCE: Duration = Duration::from_secs(30);

/// Opens the latches of one client in two farms.
async fn farms(
    connection: &Connection,
    what: &str,
    has_state: bool,
) -> (TestTable, LatchManager, LatchManager) {
    let table = latch_table(connection, what, 4, has_state).await;
    let one = latch_manager(connection, &table.name, "svc", "fra").await;
    let other = latch_manager(connection, &table.name, "svc", "sgp").await;
    assert_eq!(one.has_state_family(), has_state);
    (table, one, other)
}

fn latch(latches: &LatchManager, level: Level, id: &str) -> Latch {
    latches.latch(level, id).unwrap()
}

async fn state(latch: &Latch) -> (LatchState, Option<u64>) {
    let info = latch.show().await.unwrap();
    (info.state, info.count)
}

#[tokio::test]
async fn a_latch_is_made_counted_down_and_deleted() {
    let connection = connect().await;
    for has_state in [true, false] {
        let (_table, latches, _) = farms(&connection, "latches", has_state).await;
        for level in [Level::Dc, Level::Xdc] {
            let latch = latch(&latches, level, &format!("jobs-{level}"));
            assert_eq!(state(&latch).await, (LatchState::Absent, None));
            latch.init(3, HOUR).await.unwrap();
            let info = latch.show().await.unwrap();
            assert_eq!((info.state, info.count), (LatchState::Open, Some(3)));
            assert_eq!(info.farms, [("fra".to_owned(), 3)].into());
            let rest = info
                .ends
                .unwrap()
                .duration_since(std::time::SystemTime::now())
                .unwrap();
            assert!(rest > HOUR - PATIENCE && rest < HOUR + PATIENCE, "{rest:?}");

            let error = latch.init(3, HOUR).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LatchExists);
            says(
                &error,
                &["open", "3 to count down", &format!("latch {}", latch.key())],
            );

            assert_eq!(latch.count_up(2).await.unwrap().left, 5);
            let counted = latch.count_down(4).await.unwrap();
            assert_eq!((counted.left, counted.counted), (1, true));
            let error = latch.count_down(2).await.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::LimitExceeded);
            says(&error, &["only 1 left"]);
            assert_eq!(latch.count_down(1).await.unwrap().left, 0);
            assert_eq!(state(&latch).await, (LatchState::Reached, Some(0)));
            let error = latch.count_down(1).await.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::LimitExceeded);
            says(&error, &["reached"]);
            // A reached latch exists until it expires.
            assert_eq!(
                latch.init(1, HOUR).await.unwrap_err().kind(),
                ErrorKind::LatchExists
            );
            assert_eq!(latch.show().await.unwrap().ends, info.ends, "to the millisecond");

            assert!(latch.delete().await.unwrap());
            assert!(!latch.delete().await.unwrap());
            assert_eq!(state(&latch).await, (LatchState::Absent, None));
            for by in [latch.count_down(1).await, latch.count_up(1).await] {
                assert_eq!(by.unwrap_err().kind(), ErrorKind::LatchAbsent);
            }
            // A delete marker with the same timestamp would hide the new latch.
            latch.init(2, HOUR).await.unwrap();
            assert_eq!(state(&latch).await, (LatchState::Open, Some(2)));
        }
    }
}

#[tokio::test]
async fn farms_count_together_or_each_for_itself() {
    let connection = connect().await;
    for has_state in [true, false] {
        let (_table, here, there) = farms(&connection, "farms", has_state).await;
        let (ours, theirs) = (latch(&here, Level::Xdc, "all"), latch(&there, Level::Xdc, "all"));
        ours.init(5, HOUR).await.unwrap();
        assert_eq!(
            theirs.init(5, HOUR).await.unwrap_err().kind(),
            ErrorKind::LatchExists
        );
        assert_eq!(theirs.count_down(2).await.unwrap().left, 3);
        assert_eq!(ours.count_down(1).await.unwrap().left, 2);
        let info = ours.show().await.unwrap();
        assert_eq!(info.farms, [("fra".to_owned(), 4), ("sgp".to_owned(), -2)].into());
        assert_eq!(
            theirs.count_down(3).await.unwrap_err().kind(),
            ClientErrorKind::LimitExceeded
        );
        assert_eq!(theirs.count_down(2).await.unwrap().left, 0);
        assert_eq!(state(&ours).await, (LatchState::Reached, Some(0)));
        assert_eq!(theirs.show().await.unwrap().ends, info.ends);

        let (ours, theirs) = (latch(&here, Level::Dc, "each"), latch(&there, Level::Dc, "each"));
        ours.init(1, HOUR).await.unwrap();
        assert_eq!(state(&theirs).await, (LatchState::Absent, None));
        assert_eq!(
            theirs.count_down(1).await.unwrap_err().kind(),
            ErrorKind::LatchAbsent
        );
        theirs.init(7, HOUR).await.unwrap();
        assert_eq!(ours.count_down(1).await.unwrap().left, 0);
        assert!(ours.delete().await.unwrap());
        assert_eq!(state(&theirs).await, (LatchState::Open, Some(7)));
    }
}

#[tokio::test]
async fn of_all_who_begin_a_latch_at_once_one_does() {
    let connection = connect().await;
    for has_state in [true, false] {
        let (_table, here, there) = farms(&connection, "beginners", has_state).await;
        for level in [Level::Dc, Level::Xdc] {
            for round in 0..10 {
                let id = format!("{level}-{round}");
                let handles = join_all((0..8).map(async |_| {
                    let latches = latch_manager(&connection, here.table(), "svc", "fra").await;
                    latch(&latches, level, &id)
                }))
                .await;
                let made = join_all(handles.iter().map(|latch| latch.init(4, HOUR))).await;
                let (made, refused): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
                assert_eq!(made.len(), 1, "{level}, {has_state}");
                for error in refused {
                    assert_eq!(error.unwrap_err().kind(), ErrorKind::LatchExists);
                }
                assert_eq!(state(&handles[0]).await, (LatchState::Open, Some(4)));
            }
        }
        // Of two farms exactly one creates the latch. Without notes, each sees only the other's
        // column, and both may fail.
        for round in 0..20 {
            let id = format!("two-{round}");
            let (ours, theirs) = (latch(&here, Level::Xdc, &id), latch(&there, Level::Xdc, &id));
            let (one, other) = tokio::join!(ours.init(4, HOUR), theirs.init(4, HOUR));
            let made = usize::from(one.is_ok()) + usize::from(other.is_ok());
            assert!(made <= 1 && (made == 1 || !has_state), "{one:?}, {other:?}");
            let left = state(&ours).await;
            match made {
                1 => assert_eq!(left, (LatchState::Open, Some(4))),
                _ => assert_eq!(left, (LatchState::Absent, None)),
            }
        }
    }
}

#[tokio::test]
async fn many_count_at_once_and_none_is_lost() {
    let connection = connect().await;
    for has_state in [true, false] {
        let (_table, here, there) = farms(&connection, "many", has_state).await;
        let others = latch_manager(&connection, here.table(), "svc", "fra").await;
        for level in [Level::Dc, Level::Xdc] {
            let id = format!("count-{level}");
            let first = latch(&here, level, &id);
            first.init(120, HOUR).await.unwrap();
            let mut handles = vec![first.clone(), latch(&others, level, &id)];
            if level == Level::Xdc {
                handles.push(latch(&there, level, &id));
            }
            let down = join_all((0..60).map(|number| {
                let latch = handles[number % handles.len()].clone();
                tokio::spawn(async move {
                    latch.count_up(1).await.unwrap();
                    latch.count_down(2).await.unwrap();
                })
            }));
            for done in within(PATIENCE * 2, down).await {
                done.unwrap();
            }
            assert_eq!(
                state(&first).await,
                (LatchState::Open, Some(60)),
                "{level}, {has_state}"
            );
        }
    }
}

#[tokio::test]
async fn a_participant_counts_once() {
    let connection = connect().await;
    let (table, here, there) = farms(&connection, "arrivals", true).await;
    for level in [Level::Dc, Level::Xdc] {
        let ours = latch(&here, level, "parts");
        ours.init(3, HOUR).await.unwrap();
        let counted = ours.arrive("worker-1").await.unwrap();
        assert_eq!((counted.left, counted.counted), (2, true));
        for _ in 0..3 {
            let counted = ours.arrive("worker-1").await.unwrap();
            assert_eq!((counted.left, counted.counted), (2, false));
        }
        assert_eq!(ours.show().await.unwrap().arrived, Some(1));
        let second = match level {
            Level::Dc => ours.clone(),
            Level::Xdc => latch(&there, level, "parts"),
        };
        assert!(!second.arrive("worker-1").await.unwrap().counted);
        assert_eq!(second.arrive("worker-2").await.unwrap().left, 1);
        assert_eq!(ours.count_down(1).await.unwrap().left, 0);
        assert_eq!(
            ours.arrive("worker-3").await.unwrap_err().kind(),
            ClientErrorKind::LimitExceeded
        );
        // An earlier arrival is still recognized when nothing is left to count.
        assert!(!ours.arrive("worker-2").await.unwrap().counted);
        assert!(ours.delete().await.unwrap());
        assert_eq!(
            ours.arrive("worker-1").await.unwrap_err().kind(),
            ErrorKind::LatchAbsent
        );
        ours.init(1, HOUR).await.unwrap();
        assert!(ours.arrive("worker-1").await.unwrap().counted, "of a new latch");
        assert!(ours.delete().await.unwrap());
    }
    // A deleted latch leaves only a note of its deletion, for a limited time.
    let left = rows(
        &table.of(&connection),
        hbase_txn::client::Scan::prefix(latch_row("svc", "parts")),
    )
    .await;
    assert_eq!(
        left.iter().map(|row| row.cells().len()).sum::<usize>(),
        2,
        "{left:?}"
    );
}

#[tokio::test]
async fn participants_are_refused_where_their_names_have_no_place() {
    let connection = connect().await;
    let (table, here, _) = farms(&connection, "nameless", false).await;
    for level in [Level::Dc, Level::Xdc] {
        let ours = latch(&here, level, &format!("parts-{level}"));
        ours.init(2, HOUR).await.unwrap();
        let error = ours.arrive("worker-1").await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound);
        says(&error, &["no family S", "add the family"]);
        assert_eq!(error.missing_family(), Some("S"));
        assert_eq!(state(&ours).await, (LatchState::Open, Some(2)));
    }
    let family = FamilyDescriptor::new(LatchTableOptions::STATE_FAMILY);
    let admin = Admin::new(&connection);
    let descriptor = admin.descriptor(&table.name).await.unwrap();
    admin.modify_table(&descriptor.with_family(family)).await.unwrap();
    let again = latch_manager(&connection, &table.name, "svc", "fra").await;
    for level in [Level::Dc, Level::Xdc] {
        // Created without a note, as Java clients create them.
        let ours = latch(&again, level, &format!("parts-{level}"));
        assert_eq!(ours.arrive("worker-1").await.unwrap().left, 1);
        assert!(!ours.arrive("worker-1").await.unwrap().counted);
        assert_eq!(state(&ours).await, (LatchState::Open, Some(1)));
    }
}

#[tokio::test]
async fn latch_expires_on_time_whatever_the_counts() {
    const LIFE: Duration = Duration::from_secs(3);
    let connection = connect().await;
    for has_state in [true, false] {
        let (_table, here, there) = farms(&connection, "expiry", has_state).await;
        let dc = latch(&here, Level::Dc, "short");
        let (xdc, far) = (
            latch(&here, Level::Xdc, "short-x"),
            latch(&there, Level::Xdc, "short-x"),
        );
        let began = Instant::now();
        dc.init(40, LIFE).await.unwrap();
        xdc.init(40, LIFE).await.unwrap();
        let mut left = 40;
        while began.elapsed() < LIFE * 2 / 3 && left > 4 {
            dc.count_down(1).await.unwrap();
            xdc.count_down(1).await.unwrap();
            far.count_down(1).await.unwrap();
            xdc.count_up(1).await.unwrap();
            left -= 1;
        }
        let waiting = join_all([&dc, &xdc, &far].map(|latch| latch.wait(PATIENCE)));
        for outcome in waiting.await {
            assert_eq!(outcome.unwrap(), WaitOutcome::Expired);
        }
        assert!(began.elapsed() < LIFE * 2, "{:?}", began.elapsed());
        let gone = if has_state {
            (LatchState::Expired, ErrorKind::LatchExpired)
        } else {
            (LatchState::Absent, ErrorKind::LatchAbsent)
        };
        for latch in [&dc, &xdc, &far] {
            assert_eq!(state(latch).await, (gone.0, None));
            assert_eq!(latch.count_down(1).await.unwrap_err().kind(), gone.1);
            assert_eq!(latch.count_up(1).await.unwrap_err().kind(), gone.1);
        }
        // The next latch contains nothing of the expired one.
        dc.init(2, HOUR).await.unwrap();
        far.init(2, HOUR).await.unwrap();
        assert_eq!(state(&dc).await, (LatchState::Open, Some(2)));
        assert_eq!(state(&xdc).await, (LatchState::Open, Some(2)));
    }
}

#[tokio::test]
async fn waiters_are_notified_of_the_end() {
    let connection = connect().await;
    let (_table, here, there) = farms(&connection, "waiters", true).await;
    let waits = |latch: &Latch| {
        let latch = latch.clone();
        tokio::spawn(async move { latch.wait(PATIENCE).await })
    };
    let nothing = latch(&here, Level::Dc, "nothing");
    assert_eq!(nothing.wait(PATIENCE).await.unwrap(), WaitOutcome::Absent);

    let ours = latch(&here, Level::Xdc, "awaited");
    let theirs = latch(&there, Level::Xdc, "awaited");
    ours.init(2, HOUR).await.unwrap();
    assert_eq!(
        ours.wait(Duration::from_millis(300)).await.unwrap(),
        WaitOutcome::TimedOut
    );
    assert_eq!(ours.wait(Duration::ZERO).await.unwrap(), WaitOutcome::TimedOut);
    let waiting: Vec<_> = (0..4).map(|_| waits(&ours)).collect();
    theirs.count_down(2).await.unwrap();
    for waited in waiting {
        assert_eq!(waited.await.unwrap().unwrap(), WaitOutcome::Reached);
    }
    assert_eq!(
        ours.wait(Duration::ZERO).await.unwrap(),
        WaitOutcome::Reached,
        "at once"
    );
}

#[tokio::test]
async fn waiters_of_a_deleted_latch_are_notified() {
    let connection = connect().await;
    for (has_state, expected) in [(true, WaitOutcome::Absent), (false, WaitOutcome::Expired)] {
        let (_table, here, _) = farms(&connection, "deleted", has_state).await;
        let deleted = latch(&here, Level::Dc, "deleted");
        deleted.init(1, HOUR).await.unwrap();
        let (watching, spy) = spied().await;
        let theirs = latch_manager(&watching, here.table(), "svc", "fra").await;
        let theirs = latch(&theirs, Level::Dc, "deleted");
        let before = spy.multi_calls();
        let waiting = tokio::spawn(async move { theirs.wait(PATIENCE).await });
        // A second poll means that the first one found the latch open.
        eventually("it was seen open", async || {
            (spy.multi_calls() >= before + 2).then_some(())
        })
        .await;
        assert!(deleted.delete().await.unwrap());
        assert_eq!(waiting.await.unwrap().unwrap(), expected, "{has_state}");
    }
}

#[tokio::test]
async fn a_table_that_goes_away_ends_all_waiting() {
    let connection = connect().await;
    let (_table, here, _) = farms(&connection, "vanishing", true).await;
    let ours = latch(&here, Level::Dc, "one");
    ours.init(1, HOUR).await.unwrap();
    let waiter = ours.clone();
    let waiting = tokio::spawn(async move { waiter.wait(PATIENCE).await });
    Admin::new(&connection).disable_table(here.table()).await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableDisabled, "{error}");
}

#[test]
fn waiting_leaves_nothing_behind() {
    Leftovers::of(async |mut leftovers| {
        let connection = connect().await;
        let (_table, here, _) = farms(&connection, "leaving", true).await;
        let ours = Arc::new(latch(&here, Level::Dc, "one"));
        ours.init(1, HOUR).await.unwrap();
        leftovers.begin();
        let waiting = (0..20)
            .map(|_| {
                let latch = Arc::clone(&ours);
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
