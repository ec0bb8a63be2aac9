use std::time::Duration;

use crate::{
    cluster::attempts::*,
    environment::SystemEnvironment,
    model::{RegionInfo, ServerName},
    rpc::TcpConnector,
    wire::frame::RemoteFault,
};

fn too_busy() -> CallError {
    CallError::Remote(Arc::new(RemoteFault {
        class: "org.apache.hadoop.hbase.RegionTooBusyException".into(),
        ..RemoteFault::default()
    }))
}

fn lost_answer() -> CallError {
    CallError::Timeout {
        waited: Duration::from_secs(1),
        sent: true,
    }
}

fn cluster() -> Cluster {
    let config = crate::config::Config::from_uri("hbase+rpc://127.0.0.1:1").unwrap();
    Cluster::new(config, Arc::new(TcpConnector), Arc::new(SystemEnvironment))
}

fn location() -> RegionLocation {
    RegionLocation::new(RegionInfo::meta(), ServerName::new("h", 1, 1).unwrap())
}

/// Returns the final error of an operation whose attempts fail in this order, the last failure
/// repeated.
async fn end(kind: CallKind, failures: &[fn() -> CallError]) -> Error {
    let (cluster, location) = (cluster(), location());
    let table = TableName::meta();
    let operation = Operation {
        name: "put",
        table: &table,
        row: Cow::Owned("r".into()),
        kind,
        deadline: Instant::now() + Duration::from_secs(60),
    };
    let mut attempts = Attempts::new(&cluster, operation);
    let last = failures.last().unwrap();
    for failure in failures.iter().chain(std::iter::repeat(last)) {
        attempts.attempt += 1;
        if let Err(error) = attempts.recover(failure(), &location).await {
            assert_eq!(error.effect(), attempts.effect());
            return error;
        }
    }
    unreachable!("the failures go on for ever")
}

#[tokio::test(start_paused = true)]
async fn harmless_failure_does_not_hide_an_earlier_unknown_one() {
    let error = end(CallKind::IdempotentWrite, &[lost_answer, too_busy]).await;
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert!(error.is_outcome_unknown() && !error.is_retryable(), "{error}");

    let final_failure: fn() -> CallError = || CallError::Closed;
    let error = end(CallKind::IdempotentWrite, &[lost_answer, too_busy, final_failure]).await;
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(error.is_outcome_unknown(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn unapplied_writes_and_reads_are_not_unknown() {
    for (kind, failures) in [
        (CallKind::IdempotentWrite, &[too_busy as fn() -> CallError][..]),
        (CallKind::Write, &[too_busy]),
        (CallKind::Read, &[lost_answer, too_busy]),
    ] {
        let error = end(kind, failures).await;
        assert_eq!(error.effect(), Effect::None, "{error}");
        assert!(error.is_retryable());
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_is_not_tried_again_once_it_may_have_been_applied() {
    let error = end(CallKind::Write, &[too_busy, lost_answer]).await;
    assert!(error.is_outcome_unknown());
    assert_eq!(error.attempts(), Some(2));
}

/// The answers of a server that aborts.
fn aborting() -> CallError {
    CallError::Remote(Arc::new(RemoteFault {
        class: "java.io.IOException".into(),
        message: "Cannot append; log is closed".into(),
        ..RemoteFault::default()
    }))
}

#[tokio::test(start_paused = true)]
async fn attempts_go_on_until_the_deadline_is_near() {
    for failure in [too_busy as fn() -> CallError, aborting] {
        let began = Instant::now();
        end(CallKind::Read, &[failure]).await;
        let took = began.elapsed();
        assert!(
            Duration::from_secs(59) < took && took <= Duration::from_secs(60),
            "{took:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn attempt_that_the_deadline_cuts_does_not_hide_the_failure_before_it() {
    let (cluster, location, table) = (cluster(), location(), TableName::meta());
    let deadline = Instant::now() + Duration::from_secs(1);
    let operation = Operation {
        name: "put",
        table: &table,
        row: Cow::Owned("r".into()),
        kind: CallKind::Read,
        deadline,
    };
    let mut attempts = Attempts::new(&cluster, operation);
    attempts.recover(too_busy(), &location).await.unwrap();
    let began = Instant::now();
    tokio::time::sleep_until(deadline).await;
    let cut = CallError::DialTimeout(began.elapsed());
    let error = attempts.recover(cut, &location).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert!(error.to_string().contains("RegionTooBusyException"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_scan_that_has_come_further_begins_to_count_anew() {
    let (cluster, table) = (cluster(), TableName::meta());
    let operation = Operation {
        name: "scan",
        table: &table,
        row: Cow::Owned("a".into()),
        kind: CallKind::Read,
        deadline: Instant::now() + Duration::from_secs(60),
    };
    let mut attempts = Attempts::new(&cluster, operation);
    attempts.attempt = 1_000;
    attempts.relocate_to("a".into());
    assert_eq!(attempts.attempt, 1_000);
    attempts.relocate_to("b".into());
    assert_eq!(attempts.attempt, 0);
}
