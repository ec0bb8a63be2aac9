//! Silent connections, and many calls in flight.

use std::time::Duration;

use futures::future::join_all;
use hbase_txn::{
    ClientErrorKind, OpenOptions, Outcome,
    admin::Admin,
    client::{Connection, Failure, FailureKind, Get, Put, Scan, ServiceKind},
};
use tokio::time::Instant;

use super::{COMMIT, Rig, commit};
use crate::{
    cluster::{FAMILY, QUALIFIER},
    history::GroupId,
    proxy::Action,
    settings::Settings,
};

const DEADLINE: Duration = Duration::from_secs(2);
/// The tolerance of deadlines on a busy machine.
const SLACK: Duration = Duration::from_secs(1);

/// Asserts that the error is about the deadline, and names the stage of the call.
fn check_error<K: FailureKind + PartialEq<ClientErrorKind>>(what: &str, error: &Failure<K>) {
    assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{what}: {error}");
    let text = error.to_string();
    assert!(text.contains("stage: "), "{what}, no stage: {text}");
    assert!(
        error.server().is_some() && text.contains("127.0.0.1:"),
        "{what}, no server: {text}"
    );
    assert!(
        error.attempts().is_some() && text.contains("attempt "),
        "{what}, no attempt: {text}"
    );
}

#[tokio::test]
async fn calls_to_silent_servers_end_by_their_deadline_with_a_stage() {
    const TEST: &str = "silence";
    let settings = Settings::of(TEST);
    let mut rig = Rig::new(TEST, &settings, |config| config).await;
    // Old connections become silent, then new ones too; each time the client recovers by itself.
    for action in [Action::Blackhole, Action::DropRequest] {
        rig.proxy.rule(move |request| match request.service {
            ServiceKind::Client => action,
            _ => Action::Pass,
        });
        let quick = rig.table.clone().with_operation_timeout(DEADLINE);
        let table = quick.table();
        let began = Instant::now();
        let scan = async {
            let mut scanner = table.scan(Scan::new()).unwrap();
            scanner.next().await.map(drop)
        };
        let group = rig.group("iii");
        let put = Put::new("aaa-put").cell(FAMILY, QUALIFIER, "v");
        let (get, put, scan, outcome) = tokio::join!(
            async { table.get(Get::new("qqq")).await.map(drop) },
            table.put(put),
            scan,
            commit(&quick, &group),
        );
        assert!(
            began.elapsed() < DEADLINE + SLACK,
            "over after {:?}",
            began.elapsed()
        );
        check_error("get", &get.unwrap_err());
        check_error("scan", &scan.unwrap_err());
        let put = put.unwrap_err();
        check_error("put", &put);
        assert!(put.is_outcome_unknown(), "{put}");
        assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome}");
        check_error("commit", outcome.error().unwrap());
        rig.still_works().await;
        assert!(!rig.is_there(&group).await);
    }
    rig.end().await;
}

#[tokio::test]
async fn only_calls_without_an_answer_fail_among_a_thousand() {
    const TEST: &str = "thousand_calls";
    const CALLS: usize = 1_000;
    let settings = Settings::of(TEST);
    let mut rig = Rig::new(TEST, &settings, |config| config).await;
    // Without admission, because calls in the client's queues are not in flight. The time is enough
    // for a thousand commits on a busy machine.
    let patient = OpenOptions::new()
        .without_admission()
        .open(&rig.connection, rig.table.name().clone())
        .await
        .unwrap()
        .with_operation_timeout(3 * DEADLINE);
    let before = rig.proxy.requests(COMMIT);
    rig.proxy.rule(move |request| {
        if request.method == COMMIT {
            match (request.earlier - before) % 20 {
                3 => Action::DropAnswer,
                13 => Action::DelayAnswer(3 * DEADLINE),
                _ => Action::Pass,
            }
        } else {
            Action::Pass
        }
    });
    let groups: Vec<GroupId> = (0..CALLS)
        .map(|call| rig.group(["aaa", "iii", "qqq"][call % 3]))
        .collect();
    let dialled = rig.proxy.dialled();
    let outcomes = join_all(groups.iter().map(|group| commit(&patient, group))).await;
    assert_eq!(rig.proxy.requests(COMMIT) - before, CALLS, "each was sent once");
    let unknown = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Outcome::Unknown(_)))
        .count();
    let committed = outcomes.iter().filter(|outcome| outcome.is_committed()).count();
    assert_eq!((unknown, committed), (CALLS / 10, CALLS - CALLS / 10));
    assert_eq!(
        rig.proxy.dialled(),
        dialled,
        "a connection that others are answered on was left"
    );
    rig.proxy.pass_all();
    // All requests reached the servers, so each was applied, whether its answer was dropped or
    // late.
    for chunk in groups.chunks(100) {
        for there in join_all(chunk.iter().map(|group| rig.is_there(group))).await {
            assert!(there);
        }
    }
    rig.still_works().await;
    rig.end().await;
}

#[tokio::test]
async fn registry_and_meta_may_be_away_beyond_their_own_timeout() {
    const TEST: &str = "registry_away";
    const AWAY: Duration = Duration::from_secs(2);
    let settings = Settings::of(TEST);
    let mut rig = Rig::new(TEST, &settings, |config| config).await;
    let config = rig.cluster.rpc_config().with_registry_timeout(AWAY / 10);
    // An address that was never reachable is reported at once.
    rig.proxy.refuse_dials(usize::MAX);
    let began = Instant::now();
    let connect = Connection::builder(config.clone()).connector(rig.proxy.clone());
    assert_eq!(
        connect.connect().await.unwrap_err().kind(),
        ClientErrorKind::Unreachable
    );
    assert!(began.elapsed() < AWAY);

    rig.proxy.refuse_dials(0);
    let connect = Connection::builder(config).connector(rig.proxy.clone());
    let connection = connect.connect().await.unwrap();
    let (table, admin) = (
        connection.table(rig.table.name().clone()).unwrap(),
        Admin::new(&connection),
    );
    let back = Instant::now() + AWAY;
    rig.proxy.rule(move |_| {
        if Instant::now() < back {
            Action::CutBeforeRequest
        } else {
            Action::Pass
        }
    });
    let (row, exists) = tokio::join!(table.get(Get::new("aaa")), admin.exists(rig.table.name()));
    row.unwrap();
    assert!(exists.unwrap());
    assert!(Instant::now() >= back, "nothing was away");
    connection.close().await;
    rig.still_works().await;
    rig.end().await;
}
