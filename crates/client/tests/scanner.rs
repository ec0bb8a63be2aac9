//! Scans on a fake cluster in virtual time: the call ahead of the caller.

use std::{
    error::Error,
    time::{Duration, Instant as WallClock},
};

use futures::FutureExt;
use hbase_client::{ErrorKind, Put, ResultScanner, Scan, Table};
use hbase_fake::{Call, FakeHBase, Latency};
use hbase_protocol as pb;
use prost::Message;
use rstest::rstest;
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// Creates a table with the rows 0 to 9 and one region.
async fn ten_rows(hbase: &FakeHBase) -> hbase_client::Result<Table> {
    hbase.create_table("t", &["f"], &[]);
    let table = hbase.connect().await?.table("t")?;
    for row in 0..10 {
        table.put(Put::new(row.to_string()).cell("f", "q", "v")).await?;
    }
    Ok(table)
}

async fn next(scanner: &mut ResultScanner) -> hbase_client::Result<Option<u8>> {
    let row = scanner.next().await?;
    Ok(row.map(|row| row.key()[0] - b'0'))
}

async fn rest(scanner: &mut ResultScanner) -> hbase_client::Result<Vec<u8>> {
    let mut rows = Vec::new();
    while let Some(row) = next(scanner).await? {
        rows.push(row);
    }
    Ok(rows)
}

/// Selects the calls that close a scanner.
fn closes() -> Call {
    Call::Scan.on("t").when(|call| {
        pb::ScanRequest::decode(call.parameter.clone()).is_ok_and(|request| request.close_scanner())
    })
}

#[test]
fn next_call_is_sent_before_rows_are_used() {
    FakeHBase::run(async |hbase| {
        let table = ten_rows(hbase).await?;
        let before = hbase.calls("Scan");
        let mut scanner = table.scan(Scan::new().caching(4))?;
        assert_eq!(hbase.calls("Scan"), before);
        assert_eq!(next(&mut scanner).await?, Some(0));
        // Without another await of the caller.
        assert_eq!(hbase.calls("Scan"), before + 2);
        sleep(SECOND).await;
        for row in 1..4 {
            assert_eq!(next(&mut scanner).await?, Some(row));
        }
        assert_eq!(hbase.calls("Scan"), before + 2, "at most one call ahead");
        assert_eq!(next(&mut scanner).await?, Some(4));
        assert_eq!(hbase.calls("Scan"), before + 3);
        assert_eq!(rest(&mut scanner).await?, [5, 6, 7, 8, 9]);
        assert_eq!(hbase.calls("Scan"), before + 3);
        Ok(())
    });
}

#[test]
fn server_works_while_the_caller_does() {
    FakeHBase::run(async |hbase| {
        let table = ten_rows(hbase).await?;
        hbase.fault(Call::Scan.on("t").delay_answer(SECOND));
        let began = Instant::now();
        let mut scanner = table.scan(Scan::new().caching(1))?;
        while next(&mut scanner).await?.is_some() {
            sleep(SECOND).await;
        }
        // One after the other would take 20 s.
        assert!(began.elapsed() <= 12 * SECOND, "{:?}", began.elapsed());
        Ok(())
    });
}

#[rstest]
#[case::in_one_answer(Scan::new(), 10, 1)]
#[case::limit_in_one_answer(Scan::new().limit(4), 4, 1)]
#[case::limit_at_the_end_of_an_answer(Scan::new().limit(4).caching(4), 4, 1)]
#[case::limit_within_an_answer(Scan::new().limit(6).caching(4), 6, 2)]
#[case::limit_row_by_row(Scan::new().limit(3).caching(1), 3, 3)]
#[case::stop_row(Scan::new().stop_row("6").caching(4), 6, 2)]
#[case::nothing(Scan::new().limit(0), 0, 0)]
fn no_needless_call_is_sent(#[case] scan: Scan, #[case] rows: u8, #[case] calls: usize) {
    FakeHBase::run(async |hbase| {
        let table = ten_rows(hbase).await?;
        let before = hbase.calls("Scan");
        let mut scanner = table.scan(scan.clone())?;
        assert_eq!(rest(&mut scanner).await?, (0..rows).collect::<Vec<_>>());
        drop(scanner);
        sleep(SECOND).await;
        assert_eq!(hbase.calls("Scan"), before + calls);
        Ok(())
    });
}

/// Polls each call of `next` once, or for a part of the time of a call, and drops it.
#[rstest]
#[case::after_one_poll(None)]
#[case::while_the_call_is_in_flight(Some(Duration::from_millis(300)))]
fn dropped_next_loses_no_row_and_no_call(#[case] patience: Option<Duration>) {
    FakeHBase::run(async |hbase| {
        let table = ten_rows(hbase).await?;
        hbase.fault(Call::Scan.on("t").delay_answer(SECOND));
        let before = hbase.calls("Scan");
        let mut scanner = table.scan(Scan::new().caching(3))?;
        let (mut rows, mut dropped) = (Vec::new(), 0);
        loop {
            let row = match patience {
                Some(patience) => timeout(patience, next(&mut scanner)).await.ok(),
                None => next(&mut scanner).now_or_never(),
            };
            match row {
                Some(Ok(Some(row))) => rows.push(row),
                Some(end) => break assert_eq!(end?, None),
                None => {
                    dropped += 1;
                    assert!(dropped < 1_000, "{rows:?}");
                    sleep(Duration::from_millis(10)).await;
                }
            }
        }
        assert_eq!(rows, (0..10).collect::<Vec<_>>());
        assert!(dropped > 4, "{dropped}");
        assert_eq!(hbase.calls("Scan"), before + 4);
        Ok(())
    });
}

#[test]
fn answer_ahead_is_kept_for_a_slow_caller() {
    FakeHBase::run(async |hbase| {
        let table = ten_rows(hbase).await?.with_operation_timeout(5 * SECOND);
        hbase.fault(Call::Scan.on("t").nth(2).delay_answer(4 * SECOND));
        let before = hbase.calls("Scan");
        let mut scanner = table.scan(Scan::new().caching(2))?;
        assert_eq!(next(&mut scanner).await?, Some(0));
        sleep(3_600 * SECOND).await;
        assert_eq!(next(&mut scanner).await?, Some(1));
        assert_eq!(hbase.calls("Scan"), before + 2);
        assert_eq!(next(&mut scanner).await?, Some(2));
        // The scanner's lease has expired meanwhile.
        assert_eq!(rest(&mut scanner).await?, [3, 4, 5, 6, 7, 8, 9]);
        Ok(())
    });
}

#[test]
fn lost_answer_ahead_is_no_error_for_a_slow_caller() {
    FakeHBase::run(async |hbase| {
        let table = ten_rows(hbase).await?.with_operation_timeout(5 * SECOND);
        hbase.fault(Call::Scan.on("t").nth(2).lose_answer());
        let mut scanner = table.scan(Scan::new().caching(2))?;
        assert_eq!(next(&mut scanner).await?, Some(0));
        sleep(600 * SECOND).await;
        assert_eq!(rest(&mut scanner).await?, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        Ok(())
    });
}

#[test]
fn error_ahead_is_returned_after_the_rows_before_it() {
    FakeHBase::run(async |hbase| {
        let table = ten_rows(hbase).await?;
        let denied = "security.AccessDeniedException";
        hbase.fault(Call::Scan.on("t").nth(2).fail_before(denied, "no"));
        let mut scanner = table.scan(Scan::new().caching(3))?;
        for row in 0..3 {
            assert_eq!(next(&mut scanner).await?, Some(row));
        }
        let error = next(&mut scanner).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AccessDenied);
        assert_eq!(rest(&mut scanner).await?, [3, 4, 5, 6, 7, 8, 9]);
        Ok(())
    });
}

#[tokio::test(start_paused = true)]
async fn next_ends_in_time_if_answers_have_no_rows() {
    let latency = Latency {
        answer: SECOND..2 * SECOND,
        ..Latency::NONE
    };
    let hbase = FakeHBase::builder().latency(latency).build();
    let table = ten_rows(&hbase).await.unwrap().with_operation_timeout(5 * SECOND);
    hbase.fault(Call::Scan.on("t").heartbeat_after(1));
    let began = Instant::now();
    let mut scanner = table.scan(Scan::new().column("f", "absent")).unwrap();
    let error = scanner.next().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert!(began.elapsed() <= 6 * SECOND, "{:?}", began.elapsed());
}

#[rstest]
#[case::forward(false)]
#[case::reversed(true)]
#[tokio::test(start_paused = true)]
async fn cursor_moves_while_a_scan_finds_no_row(#[case] reversed: bool) {
    let latency = Latency {
        answer: SECOND..2 * SECOND,
        ..Latency::NONE
    };
    let hbase = FakeHBase::builder().latency(latency).build();
    let table = ten_rows(&hbase).await.unwrap();
    hbase.fault(Call::Scan.on("t").heartbeat_after(1));
    let scan = if reversed {
        Scan::new().reversed()
    } else {
        Scan::new()
    };
    let scan = scan.column("f", "absent");
    let mut scanner = table.scan(scan).unwrap();
    assert_eq!(scanner.cursor(), None);
    let mut cursors = Vec::new();
    while timeout(SECOND, scanner.next()).await.is_err() {
        cursors.extend(scanner.cursor().cloned());
    }
    assert_eq!(scanner.cursor(), None, "the scan has ended");
    cursors.dedup();
    assert!(cursors.len() >= 9, "{cursors:?}");
    assert!(
        cursors.is_sorted_by(|one, next| (one < next) != reversed),
        "{cursors:?}"
    );

    // With one row in each answer, the cursor is at the row that was returned last.
    let mut scanner = table.scan(Scan::new()).unwrap();
    for _ in 0..3 {
        next(&mut scanner).await.unwrap();
    }
    let cursor = scanner.cursor().unwrap().clone();
    let mut continued = table.scan(Scan::new().start_row(cursor)).unwrap();
    assert_eq!(rest(&mut continued).await.unwrap(), [2, 3, 4, 5, 6, 7, 8, 9]);
}

#[rstest]
#[case::opening(1)]
#[case::ahead(2)]
fn dropped_scanner_is_closed_after_the_call_in_flight(#[case] slow: u64) {
    FakeHBase::run(async |hbase| {
        let table = ten_rows(hbase).await?;
        let closed = hbase.fault(closes().delay_answer(Duration::ZERO));
        hbase.fault(Call::Scan.on("t").nth(slow).delay_answer(SECOND));
        let began = Instant::now();
        let mut scanner = table.scan(Scan::new().caching(2))?;
        let _ = timeout(SECOND / 2, next(&mut scanner)).await;
        drop(scanner);
        timeout(60 * SECOND, closed.wait_for(1)).await?;
        assert!(began.elapsed() >= SECOND, "{:?}", began.elapsed());
        assert_eq!(closed.happened(), 1);
        Ok(())
    });
}

#[test]
fn scanner_that_has_ended_is_not_closed() {
    FakeHBase::run(async |hbase| {
        let table = ten_rows(hbase).await?;
        let before = hbase.calls("Scan");
        let mut scanner = table.scan(Scan::new().caching(9))?;
        assert_eq!(next(&mut scanner).await?, Some(0));
        drop(scanner);
        sleep(10 * SECOND).await;
        assert_eq!(hbase.calls("Scan"), before + 2);
        Ok(())
    });
}

#[test]
fn scan_ends_with_the_runtime_of_its_connection() -> Result<(), Box<dyn Error>> {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let servers = runtime()?;
    let hbase = servers.block_on(FakeHBase::builder().listen())?;
    let uri = hbase.uri();
    hbase.create_table("t", &["f"], &[]);
    std::thread::spawn(move || servers.block_on(std::future::pending::<()>()));
    let first = runtime()?;
    let mut scanner = first.block_on(async {
        let table = hbase_client::Connection::connect(&uri).await?.table("t")?;
        for row in 0..10 {
            table.put(Put::new(row.to_string()).cell("f", "q", "v")).await?;
        }
        let mut scanner = table.scan(Scan::new().caching(2))?;
        assert_eq!(next(&mut scanner).await?, Some(0));
        Ok::<_, hbase_client::Error>(scanner)
    })?;
    drop(first);
    let began = WallClock::now();
    let error = runtime()?.block_on(rest(&mut scanner)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert!(began.elapsed() < 10 * SECOND);
    Ok(())
}
