use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::{future::join_all, poll};
use hbase_client::{
    Mutation, Put,
    low_level::{condition, pb},
};
use prost::Message;
use rstest::rstest;
use tokio::{runtime::Builder, time::sleep_until};

use crate::{
    partition::PartitionRule,
    txn::commit::{endpoint_request::encode_mutations, group_commit::*},
};

const SECOND: Duration = Duration::from_secs(1);
/// The time of a call, which is within the patience of those that wait.
const CALL: Duration = Duration::from_millis(30);
const LIMITS: ShareLimits = ShareLimits {
    mutations: 8,
    bytes: 10_000,
};

/// The reaction of the fake server to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Commit,
    /// A condition does not hold.
    Reject,
    Fail,
    Lose,
    Panic,
    /// Does not answer, even after the deadline.
    Hang,
}

/// A server that takes the same time for each call and records the requests.
#[derive(Clone)]
struct Server(Arc<Inner>);

type Script = dyn Fn(usize, &[String]) -> Act + Send + Sync;

struct Inner {
    runtime: Handle,
    act: Box<Script>,
    takes: Duration,
    calls: Mutex<Vec<Vec<String>>>,
    in_flight: Mutex<Vec<String>>,
    /// The number of calls that had rows of other calls in flight, or were too many.
    overlaps: AtomicUsize,
}

impl Server {
    /// `act` chooses the reaction by the number of the call and its rows.
    fn new(takes: Duration, act: impl Fn(usize, &[String]) -> Act + Send + Sync + 'static) -> Self {
        Self::of(Handle::current(), takes, act)
    }

    /// Shared calls to it are in this runtime.
    fn of(
        runtime: Handle,
        takes: Duration,
        act: impl Fn(usize, &[String]) -> Act + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            runtime,
            act: Box::new(act),
            takes,
            calls: Mutex::default(),
            in_flight: Mutex::default(),
            overlaps: AtomicUsize::new(0),
        }))
    }

    /// Returns the rows of each call.
    fn calls(&self) -> Vec<String> {
        let calls = self.0.calls.lock().unwrap();
        calls.iter().map(|rows| rows.join(" ")).collect()
    }

    fn assert_disjoint(&self) {
        assert_eq!(self.0.overlaps.load(Ordering::SeqCst), 0);
    }
}

/// The rows of a call in flight.
struct InFlight<'a>(&'a Inner, Vec<String>);

impl<'a> InFlight<'a> {
    fn new(server: &'a Inner, rows: Vec<String>) -> Self {
        let mut in_flight = server.in_flight.lock().unwrap();
        if rows.iter().any(|row| in_flight.contains(row)) {
            server.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        in_flight.extend(rows.iter().cloned());
        Self(server, rows)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut in_flight = self.0.in_flight.lock().unwrap();
        in_flight.retain(|row| !self.1.contains(row));
    }
}

impl SendRequest for Server {
    fn runtime(&self) -> &Handle {
        &self.0.runtime
    }

    async fn send(&self, request: &EndpointRequest, _: Instant) -> Result<bool> {
        let message = pb::MutateRowsRequest::decode(request.message()).unwrap();
        let rows: Vec<_> = message
            .mutation_request
            .iter()
            .map(|mutation| String::from_utf8_lossy(&mutation.row.as_ref().unwrap()[3..]).into_owned())
            .collect();
        let _in_flight = InFlight::new(&self.0, rows.clone());
        let number = {
            let mut calls = self.0.calls.lock().unwrap();
            calls.push(rows.clone());
            calls.len() - 1
        };
        tokio::time::sleep(self.0.takes).await;
        match (self.0.act)(number, &rows) {
            Act::Commit => Ok(true),
            Act::Reject => Ok(false),
            Act::Fail => Err(Error::new(ClientErrorKind::Server, "refused by the fake")),
            Act::Lose => {
                Err(Error::new(ClientErrorKind::ConnectionLost, "lost by the fake")
                    .with_effect(Effect::Unknown))
            }
            Act::Panic => panic!("as the test wants it"),
            Act::Hang => futures::future::pending().await,
        }
    }
}

/// One transaction.
#[derive(Clone)]
struct Asked {
    rows: String,
    durability: Durability,
    recorded: bool,
    version: bool,
    patience: Duration,
}

fn ask(rows: &str) -> Asked {
    Asked {
        rows: rows.to_owned(),
        durability: Durability::SyncWal,
        recorded: false,
        version: false,
        patience: 60 * SECOND,
    }
}

fn row(name: &str) -> Bytes {
    format!("xxx{name}").into()
}

fn member(asked: &Asked) -> Member {
    let rule = PartitionRule::prefix_length(3).unwrap();
    let put = |name: &str| Mutation::from(Put::new(row(name)).cell("f", "q", "v"));
    let mutations: Vec<_> = asked.rows.split(' ').map(put).collect();
    let conditions = asked
        .recorded
        .then(|| condition::cell_equals(&row(&asked.rows), &"f".into(), &"r".into(), None));
    Member {
        request: EndpointRequest::new(
            &rule.partition("xxx").unwrap(),
            &mutations,
            conditions.into_iter().collect(),
            asked.durability,
            asked.recorded,
        ),
        rows: asked
            .rows
            .split(' ')
            .map(|name| RowHash::of(&row(name)))
            .collect(),
        mutations: mutations.len(),
        durability: asked.durability,
        version: asked.version.then(|| VersionChange {
            row: RowHash::of(&row("V")),
            message: encode_mutations(&[put("V")], asked.durability),
        }),
        deadline: Instant::now() + asked.patience,
        caller: CallerSpan::current(),
    }
}

async fn commit(group: &Arc<GroupCommit>, server: &Server, asked: Asked) -> Result<bool> {
    group.send(&"region".into(), member(&asked), server).await
}

/// The group of a table whose servers are nearby, though their calls take long.
fn nearby(limits: ShareLimits) -> Arc<GroupCommit> {
    let group = GroupCommit::new(limits);
    group.regions().pace.record(Duration::ZERO);
    group
}

fn group() -> Arc<GroupCommit> {
    nearby(LIMITS)
}

/// Commits all of them concurrently. Before them, as many others take all lanes.
async fn commit_all(server: &Server, all: Vec<Asked>) -> Vec<Result<bool>> {
    let group = group();
    let first = (0..SINGLE_LANES).map(|lane| ask(&format!("lane{lane}")));
    let sent = join_all(first.chain(all).map(|asked| commit(&group, server, asked))).await;
    // The last call ends behind its answers.
    yield_now().await;
    assert_eq!(group.region_count(), 0);
    server.assert_disjoint();
    sent.into_iter().skip(SINGLE_LANES).collect()
}

/// Returns the calls after the first ones of all lanes.
fn later_calls(server: &Server) -> Vec<String> {
    server.calls().split_off(SINGLE_LANES)
}

fn names(sent: &[Result<bool>]) -> String {
    let name = |sent: &Result<bool>| match sent {
        Ok(true) => "applied",
        Ok(false) => "rejected",
        Err(error) if error.is_outcome_unknown() => "unknown",
        Err(_) => "failed",
    };
    sent.iter().map(name).collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn waiting_transactions_share_a_call() {
    let server = Server::new(CALL, |_, _| Act::Commit);
    let began = Instant::now();
    let sent = commit_all(&server, vec![ask("a"), ask("b c"), ask("d"), ask("e")]).await;
    assert_eq!(names(&sent), "applied applied applied applied");
    assert_eq!(later_calls(&server), ["a b c d e"]);
    assert_eq!(began.elapsed(), 2 * CALL);
}

#[rstest]
#[case::the_same_row(vec![ask("b"), ask("c b"), ask("d")], &["b d", "c b"])]
#[case::only_the_same_row(vec![ask("b"), ask("b"), ask("b")], &["b", "b", "b"])]
#[case::a_row_of_one_that_waits(vec![ask("b"), ask("b c"), ask("c"), ask("d")], &["b d", "b c", "c"])]
#[case::another_durability(
    vec![ask("b"), Asked { durability: Durability::FsyncWal, ..ask("c") }, ask("d")],
    &["b d", "c"]
)]
#[case::records_and_none(vec![ask("b"), Asked { recorded: true, ..ask("c") }, ask("d"), Asked { recorded: true, ..ask("e") }], &["b d", "c e"])]
#[case::too_many_mutations(vec![ask("1 2 3 4 5 6"), ask("b c"), ask("d")], &["1 2 3 4 5 6 b c", "d"])]
#[case::larger_than_any_shared_call(vec![ask("1 2 3 4 5 6 7 8 9"), ask("b"), ask("c")], &["1 2 3 4 5 6 7 8 9", "b c"])]
#[case::little_time(
    vec![ask("b"), Asked { patience: 20 * SECOND, ..ask("c") }, Asked { patience: 25 * SECOND, ..ask("d") }],
    &["b", "c d"]
)]
#[case::version_of_a_partition(
    vec![Asked { version: true, ..ask("b") }, Asked { version: true, ..ask("c") }, ask("d")],
    &["b c d V"]
)]
#[tokio::test(start_paused = true)]
async fn only_compatible_transactions_share_a_call(#[case] asked: Vec<Asked>, #[case] calls: &[&str]) {
    let server = Server::new(CALL, |_, _| Act::Commit);
    let sent = commit_all(&server, asked).await;
    assert!(sent.into_iter().all(|applied| applied.unwrap()));
    assert_eq!(later_calls(&server), calls);
}

/// Commits two transactions alone, and two that share a call in the runtime of the connection, from another
/// runtime.
fn commit_in_two_runtimes(connection: &Handle) -> (Server, Vec<Result<bool>>) {
    let mut other = Builder::new_current_thread();
    let other = other.enable_time().start_paused(true).build().unwrap();
    other.block_on(async {
        let server = Server::of(connection.clone(), CALL, |_, _| Act::Commit);
        let (group, ends_soon) = (group(), |rows| Asked {
            patience: SECOND,
            ..ask(rows)
        });
        let sent = ["a", "b", "c", "d"].map(|rows| commit(&group, &server, ends_soon(rows)));
        let sent = join_all(sent).await;
        assert_eq!(names(&sent[..2]), "applied applied");
        for failed in sent[2..].iter().map(|failed| failed.as_ref().unwrap_err()) {
            assert!(!failed.is_outcome_unknown(), "{failed}");
            assert!(
                failed.to_string().contains("the runtime of the connection"),
                "{failed}"
            );
        }
        (server, sent)
    })
}

#[test]
fn shared_call_in_a_runtime_that_has_ended_is_not_sent() {
    let connection = Builder::new_current_thread().build().unwrap();
    let handle = connection.handle().clone();
    drop(connection);
    let (_, sent) = commit_in_two_runtimes(&handle);
    assert_eq!(sent[2].as_ref().unwrap_err().kind(), ClientErrorKind::Closed);
}

#[test]
fn shared_call_that_begins_after_the_deadline_is_not_sent() {
    let connection = Builder::new_current_thread().enable_time().build().unwrap();
    let (server, sent) = commit_in_two_runtimes(connection.handle());
    assert_eq!(
        sent[2].as_ref().unwrap_err().kind(),
        ClientErrorKind::DeadlineExceeded
    );
    connection.block_on(yield_now());
    assert_eq!(server.calls(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn version_of_a_partition_is_in_one_call_at_a_time() {
    let server = Server::new(CALL, |_, _| Act::Commit);
    let group = group();
    let versioned = ["a", "b", "c"].map(|rows| Asked {
        version: true,
        ..ask(rows)
    });
    let sent = join_all(versioned.map(|asked| commit(&group, &server, asked))).await;
    assert!(sent.into_iter().all(|applied| applied.unwrap()));
    assert_eq!(server.calls(), ["a V", "b c V"]);
    server.assert_disjoint();
}

#[tokio::test(start_paused = true)]
async fn failed_shared_call_is_sent_again_singly() {
    let act = |_, rows: &[String]| {
        if rows.iter().any(|row| row == "c") {
            Act::Fail
        } else {
            Act::Commit
        }
    };
    let server = Server::new(CALL, act);
    let sent = commit_all(&server, vec![ask("b"), ask("c"), ask("d")]).await;
    assert_eq!(names(&sent), "applied failed applied");
    assert_eq!(later_calls(&server), ["b c d", "b", "c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn record_that_is_found_rejects_all_of_the_call() {
    let server = Server::new(CALL, |call, _| {
        if call == SINGLE_LANES {
            Act::Reject
        } else {
            Act::Commit
        }
    });
    let recorded = ["b", "c"].map(|rows| Asked {
        recorded: true,
        ..ask(rows)
    });
    let sent = commit_all(&server, recorded.to_vec()).await;
    assert_eq!(names(&sent), "rejected rejected");
    assert_eq!(later_calls(&server), ["b c"]);
}

#[tokio::test(start_paused = true)]
async fn shared_call_of_unknown_outcome_is_unknown_to_all() {
    let server = Server::new(CALL, |call, _| {
        if call == SINGLE_LANES {
            Act::Lose
        } else {
            Act::Commit
        }
    });
    let sent = commit_all(&server, vec![ask("b"), ask("c"), ask("b")]).await;
    assert_eq!(names(&sent), "unknown unknown applied");
    let error = sent[0].as_ref().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::ConnectionLost);
    assert!(error.to_string().contains("carried 2 transactions"), "{error}");
    assert_eq!(later_calls(&server), ["b c", "b"]);
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_shared_call_leaves_all_outcomes_unknown() {
    let server = Server::new(CALL, |call, _| {
        if call == SINGLE_LANES {
            Act::Panic
        } else {
            Act::Commit
        }
    });
    let sent = commit_all(&server, vec![ask("b"), ask("c"), ask("b")]).await;
    assert_eq!(names(&sent), "unknown unknown applied");
}

/// Starts a transaction and polls it once.
macro_rules! start {
    ($future:expr) => {{
        let mut future = Box::pin($future);
        assert!(poll!(&mut future).is_pending());
        future
    }};
}

/// Takes all lanes.
macro_rules! start_lanes {
    ($group:expr, $server:expr) => {{
        let mut lanes = Vec::new();
        for lane in 0..SINGLE_LANES {
            lanes.push(start!(commit($group, $server, ask(&format!("lane{lane}")))));
        }
        lanes
    }};
}

#[tokio::test(start_paused = true)]
async fn further_calls_begin_only_with_many_mutations() {
    let server = Server::new(CALL, |_, _| Act::Commit);
    let group = nearby(ShareLimits {
        mutations: 2 * WORTH_A_CALL,
        bytes: 1 << 20,
    });
    let mut waiting = start_lanes!(&group, &server);
    let free = LANES - SINGLE_LANES;
    for number in 0..(free + 1) * WORTH_A_CALL {
        yield_now().await;
        let calls = SINGLE_LANES + number / WORTH_A_CALL;
        assert_eq!(server.calls().len(), calls, "{number}");
        waiting.push(start!(commit(&group, &server, ask(&format!("row{number}")))));
    }
    yield_now().await;
    assert_eq!(server.calls().len(), LANES, "no more calls than lanes");
    let sent = join_all(waiting).await;
    assert!(sent.into_iter().all(Result::unwrap));
    assert_eq!(server.calls().len(), LANES + 1);
    server.assert_disjoint();
}

#[rstest]
#[case::before_its_call(false, &["b d"])]
#[case::with_its_call_in_flight(true, &["b c d"])]
#[tokio::test(start_paused = true)]
async fn dropped_transaction_takes_none_along(#[case] in_flight: bool, #[case] calls: &[&str]) {
    let server = Server::new(CALL, |_, _| Act::Commit);
    let group = group();
    let lanes = start_lanes!(&group, &server);
    let b = start!(commit(&group, &server, ask("b")));
    let c = start!(commit(&group, &server, ask("c")));
    let d = start!(commit(&group, &server, ask("d")));
    let leave = async {
        if in_flight {
            tokio::time::sleep(CALL * 3 / 2).await;
        }
        drop(c);
    };
    let (lanes, others, ()) = futures::join!(join_all(lanes), join_all([b, d]), leave);
    assert_eq!(names(&lanes), ["applied"; SINGLE_LANES].join(" "));
    assert_eq!(names(&others), "applied applied");
    assert_eq!(later_calls(&server), calls);
    yield_now().await;
    assert_eq!(group.region_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn transaction_goes_without_overdue_calls_unless_its_rows_are_locked() {
    let server = Server::new(10 * SECOND, |_, _| Act::Commit);
    let began = Instant::now();
    let group = group();
    let lanes = join_all((0..SINGLE_LANES).map(|lane| commit(&group, &server, ask(&format!("lane{lane}")))));
    let timed = async |rows: &str| {
        let applied = commit(&group, &server, ask(rows)).await;
        (applied.unwrap(), began.elapsed())
    };
    let (_, free, locked) = futures::join!(lanes, timed("b"), timed("c lane1"));
    assert_eq!(free, (true, Pace::default().patience() + 10 * SECOND));
    assert_eq!(locked, (true, 20 * SECOND));
    server.assert_disjoint();
}

/// Returns the commits in five seconds of eight tasks, each with one at a time.
async fn rate(group: &Arc<GroupCommit>, server: &Server) -> usize {
    let end = Instant::now() + 5 * SECOND;
    let tasks = (0..8).map(async |task| {
        let mut done = 0;
        while Instant::now() < end {
            commit(group, server, ask(&format!("row{task}"))).await.unwrap();
            done += 1;
        }
        done
    });
    join_all(tasks).await.into_iter().sum()
}

#[rstest]
#[case::alone(&["stuck"])]
#[case::two(&["stuck", "stuck too"])]
#[case::shared(&["a", "b", "stuck", "stuck too"])]
#[tokio::test(start_paused = true)]
async fn stuck_commits_slow_down_no_other_of_their_region(#[case] first: &'static [&'static str]) {
    let is_stuck = |rows: &[String]| rows.iter().any(|row| row == "stuck" || row == "too");
    let server = Server::new(
        CALL,
        move |_, rows| if is_stuck(rows) { Act::Hang } else { Act::Commit },
    );
    let group = group();
    let before = rate(&group, &server).await;
    let stuck: Vec<_> = first
        .iter()
        .map(|rows| {
            let (group, server) = (Arc::clone(&group), server.clone());
            tokio::spawn(async move { commit(&group, &server, ask(rows)).await })
        })
        .collect();
    // Those that share a call wait for the first ones.
    tokio::time::sleep(3 * CALL).await;
    let beside = rate(&group, &server).await;
    assert!(beside * 100 >= before * 90, "{before} commits, then {beside}");
    for stuck in stuck {
        stuck.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn commits_far_away_do_not_wait_for_each_other() {
    const ARRIVALS: u32 = 500;
    let server = Server::new(2 * CALL, |_, _| Act::Commit);
    let group = GroupCommit::new(LIMITS);
    assert!(commit(&group, &server, ask("first")).await.unwrap());
    let began = Instant::now();
    let arrivals = (0..ARRIVALS).map(async |number| {
        let arrival = began + Duration::from_millis(7) * number;
        sleep_until(arrival).await;
        commit(&group, &server, ask(&format!("row{number}")))
            .await
            .unwrap();
        arrival.elapsed()
    });
    let times: Duration = join_all(arrivals).await.into_iter().sum();
    assert!(
        times <= (2 * CALL).mul_f64(1.05) * ARRIVALS,
        "{:?}",
        times / ARRIVALS
    );
}

#[tokio::test(start_paused = true)]
async fn deadline_in_the_queue_means_not_sent() {
    let server = Server::new(10 * SECOND, |_, _| Act::Commit);
    let group = group();
    let mut lanes = start_lanes!(&group, &server);
    let began = Instant::now();
    let waiting = Asked {
        patience: 3 * SECOND,
        ..ask("b lane0")
    };
    let sent = tokio::select! {
        sent = commit(&group, &server, waiting) => sent,
        _ = &mut lanes[0] => panic!("the first one takes longer"),
    };
    assert_eq!(began.elapsed(), 3 * SECOND);
    let error = sent.unwrap_err();
    assert!(
        !error.is_outcome_unknown() && error.to_string().contains("not sent"),
        "{error}"
    );
    assert_eq!(names(&join_all(lanes).await), ["applied"; SINGLE_LANES].join(" "));
    assert_eq!(server.calls().len(), SINGLE_LANES);
    assert_eq!(group.region_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn deadline_in_flight_means_unknown() {
    let server = Server::new(CALL, |call, _| {
        if call == SINGLE_LANES {
            Act::Hang
        } else {
            Act::Commit
        }
    });
    let began = Instant::now();
    let patience = |seconds, rows| Asked {
        patience: seconds * SECOND,
        ..ask(rows)
    };
    let group = group();
    let first = (0..SINGLE_LANES).map(|lane| ask(&format!("lane{lane}")));
    let all = first.chain([patience(5, "b"), patience(6, "c")]);
    let sent = join_all(all.map(|asked| commit(&group, &server, asked))).await;
    assert_eq!(names(&sent[SINGLE_LANES..]), "unknown unknown");
    let late = began.elapsed().checked_sub(6 * SECOND).unwrap();
    assert!(late < SECOND, "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn answer_at_the_deadline_is_reported() {
    let server = Server::new(CALL, |_, _| Act::Commit);
    let two_calls = |rows| Asked {
        patience: 2 * CALL,
        ..ask(rows)
    };
    let sent = commit_all(&server, vec![two_calls("b"), two_calls("c")]).await;
    assert_eq!(names(&sent), "applied applied");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_transaction_is_applied_at_most_once_as_reported() {
    let applied: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let counts = Arc::clone(&applied);
    let server = Server::new(Duration::from_micros(200), move |_, rows| {
        let act = match fastrand::u8(0..10) {
            0..6 => Act::Commit,
            6..9 => Act::Fail,
            _ => Act::Lose,
        };
        if act == Act::Commit || act == Act::Lose && fastrand::bool() {
            let mut counts = counts.lock().unwrap();
            for row in rows {
                *counts.entry(row.clone()).or_default() += 1;
            }
        }
        act
    });
    let group = group();
    let tasks = (0..2_000_usize).map(|number| {
        let (group, server) = (Arc::clone(&group), server.clone());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_micros(fastrand::u64(0..200_000))).await;
            let asked = Asked {
                patience: Duration::from_millis(fastrand::u64(20..200)),
                // Some have a row in common.
                ..ask(&format!("{number} common{}", number % 97))
            };
            let commit = commit(&group, &server, asked);
            match number % 5 {
                0 => tokio::time::timeout(Duration::from_micros(fastrand::u64(0..5_000)), commit)
                    .await
                    .ok(),
                _ => Some(commit.await),
            }
        })
    });
    let sent = join_all(tasks).await;
    {
        let applied = applied.lock().unwrap();
        for (number, sent) in sent.into_iter().enumerate() {
            let times = applied.get(&number.to_string()).copied().unwrap_or_default();
            match sent.unwrap() {
                Some(Ok(is_applied)) => assert_eq!(times, usize::from(is_applied)),
                Some(Err(error)) if !error.is_outcome_unknown() => assert_eq!(times, 0),
                Some(Err(_)) | None => assert!(times <= 1),
            }
        }
    }
    // Shared calls of transactions that are dropped may be in flight.
    let settled = async {
        while group.region_count() > 0 {
            yield_now().await;
        }
    };
    tokio::time::timeout(10 * SECOND, settled).await.unwrap();
    server.assert_disjoint();
    let shared = server.calls().iter().any(|rows| rows.matches(' ').count() > 1);
    assert!(shared, "nothing was shared");
}
