use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::{future::join_all, poll};
use hbase_client::{PartitionRule, Put};
use rstest::rstest;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const LIMITS: ShareLimits = ShareLimits {
    mutations: 8,
    bytes: 10_000,
};

/// The reaction of the fake server to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Commit,
    Fail,
    Lose,
    Panic,
    /// Does not answer, even after the deadline.
    Hang,
}

/// A server that takes a second for each call and records the requests.
#[derive(Clone)]
struct Server(Arc<Inner>);

type Script = dyn Fn(usize, &Group) -> Act + Send + Sync;

struct Inner {
    act: Box<Script>,
    takes: Duration,
    calls: Mutex<Vec<Vec<String>>>,
    inside: AtomicUsize,
    /// The number of overlapping calls; a panic in a spawned task would go unseen.
    overlaps: AtomicUsize,
}

impl Server {
    /// `act` chooses the reaction by the number of the call and its contents.
    fn new(takes: Duration, act: impl Fn(usize, &Group) -> Act + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            act: Box::new(act),
            takes,
            calls: Mutex::default(),
            inside: AtomicUsize::new(0),
            overlaps: AtomicUsize::new(0),
        }))
    }

    /// Returns the rows of each call.
    fn calls(&self) -> Vec<String> {
        let calls = self.0.calls.lock().unwrap();
        calls.iter().map(|rows| rows.join(" ")).collect()
    }
}

impl SendPrepared for Server {
    async fn send(&self, Prepared { group, .. }: Prepared<'_>, _: Instant) -> Outcome {
        struct Inside<'a>(&'a AtomicUsize);
        impl Drop for Inside<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        if self.0.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            self.0.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        let _inside = Inside(&self.0.inside);
        let number = {
            let rows = group.mutations.iter();
            let rows = rows.map(|mutation| String::from_utf8_lossy(&mutation.row()[3..]).into_owned());
            let mut calls = self.0.calls.lock().unwrap();
            calls.push(rows.collect());
            calls.len() - 1
        };
        tokio::time::sleep(self.0.takes).await;
        match (self.0.act)(number, group) {
            Act::Commit => Outcome::Committed(Committed {
                partition: group.partition.clone(),
                rows: group.rows(),
                mutations: group.mutations.len(),
                replayed: false,
                results: Vec::new(),
            }),
            Act::Fail => Outcome::Aborted(Error::new(ClientErrorKind::Server, "refused by the fake")),
            Act::Lose => Outcome::Unknown(Unsettled::new(
                Error::new(ClientErrorKind::ConnectionLost, "lost by the fake").with_effect(Effect::Unknown),
                None,
            )),
            Act::Panic => panic!("as the test wants it"),
            Act::Hang => futures::future::pending().await,
        }
    }
}

fn group(rows: &str) -> Group {
    let rule = PartitionRule::prefix_length(3).unwrap();
    let mut group = Group::new(rule.partition("xxx").unwrap());
    for row in rows.split(' ') {
        let put = Put::new(format!("xxx{row}")).cell("f", "q", "v");
        group.mutations.push(put.into());
    }
    group
}

fn folded(group: &Group) -> Prepared<'_> {
    Prepared::folded(group, Durability::SyncWal)
}

/// One transaction.
#[derive(Clone)]
struct Asked {
    rows: &'static str,
    durability: Durability,
    patience: Duration,
}

fn ask(rows: &'static str) -> Asked {
    Asked {
        rows,
        durability: Durability::SyncWal,
        patience: 60 * SECOND,
    }
}

fn admission() -> Arc<Admission> {
    Admission::new("t".parse().unwrap(), LIMITS)
}

async fn commit(admission: &Arc<Admission>, server: &Server, asked: Asked) -> Outcome {
    let Asked {
        rows,
        durability,
        patience,
    } = asked;
    let deadline = Instant::now() + patience;
    admission
        .commit_simple(Prepared::folded(&group(rows), durability), deadline, server)
        .await
}

/// Commits all of them concurrently; the first is sent alone, the others wait for it.
async fn commit_all(server: &Server, all: Vec<Asked>) -> Vec<Outcome> {
    let admission = admission();
    let outcomes = join_all(all.into_iter().map(|asked| commit(&admission, server, asked))).await;
    assert_eq!(admission.lane_count(), 0);
    assert_eq!(server.0.overlaps.load(Ordering::SeqCst), 0);
    outcomes
}

fn names(outcomes: &[Outcome]) -> String {
    outcomes.iter().map(Outcome::name).collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn queued_transactions_share_a_call_and_get_their_own_outcomes() {
    let server = Server::new(SECOND, |_, _| Act::Commit);
    let began = Instant::now();
    let outcomes = commit_all(&server, vec![ask("a"), ask("b c"), ask("d"), ask("e")]).await;
    assert_eq!(server.calls(), ["a", "b c d e"]);
    assert_eq!(began.elapsed(), 2 * SECOND);
    let rows: Vec<_> = outcomes
        .into_iter()
        .map(|outcome| outcome.into_result().unwrap())
        .map(|committed| (committed.rows, committed.mutations))
        .collect();
    assert_eq!(rows, [(1, 1), (2, 2), (1, 1), (1, 1)]);
}

#[rstest]
#[case::the_same_row(vec![ask("a"), ask("b"), ask("c b"), ask("d")], &["a", "b", "c b d"])]
#[case::only_the_same_row(vec![ask("a"), ask("b"), ask("b"), ask("b")], &["a", "b", "b", "b"])]
#[case::another_durability(
    vec![ask("a"), ask("b"), ask("c"), Asked { durability: Durability::FsyncWal, ..ask("d") }, ask("e")],
    &["a", "b c", "d", "e"]
)]
#[case::too_many_mutations(vec![ask("a"), ask("1 2 3 4 5 6"), ask("b c"), ask("d")], &["a", "1 2 3 4 5 6 b c", "d"])]
#[case::larger_than_any_shared_call(vec![ask("a"), ask("1 2 3 4 5 6 7 8 9"), ask("b"), ask("c")], &["a", "1 2 3 4 5 6 7 8 9", "b c"])]
#[case::little_time(
    vec![ask("a"), ask("b"), Asked { patience: 20 * SECOND, ..ask("c") }, Asked { patience: 25 * SECOND, ..ask("d") }],
    &["a", "b", "c d"]
)]
#[tokio::test(start_paused = true)]
async fn incompatible_transactions_keep_their_order(#[case] asked: Vec<Asked>, #[case] calls: &[&str]) {
    let server = Server::new(SECOND, |_, _| Act::Commit);
    let outcomes = commit_all(&server, asked).await;
    assert!(outcomes.iter().all(Outcome::is_committed));
    assert_eq!(server.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn one_who_brings_nothing_to_share_is_not_overtaken() {
    let server = Server::new(SECOND, |_, _| Act::Commit);
    let admission = admission();
    let (first, second, last) = (
        commit(&admission, &server, ask("a")),
        commit(&admission, &server, ask("b")),
        commit(&admission, &server, ask("c")),
    );
    let conditional = async {
        let deadline = Instant::now() + 60 * SECOND;
        let _turn = admission.enter(&group("?").partition, deadline).await.unwrap();
        server.send(folded(&group("?")), deadline).await
    };
    let (a, b, c, d) = futures::join!(first, second, conditional, last);
    assert_eq!(names(&[a, b, c, d]), "committed committed committed committed");
    assert_eq!(server.calls(), ["a", "b", "?", "c"]);
}

#[tokio::test(start_paused = true)]
async fn failed_shared_call_is_sent_again_singly_in_order() {
    let spoilt = |group: &Group| group.mutations.iter().any(|mutation| mutation.row() == "xxxc");
    let server = Server::new(
        SECOND,
        move |_, group| if spoilt(group) { Act::Fail } else { Act::Commit },
    );
    let outcomes = commit_all(&server, vec![ask("a"), ask("b"), ask("c"), ask("d")]).await;
    assert_eq!(names(&outcomes), "committed committed aborted committed");
    assert_eq!(server.calls(), ["a", "b c d", "b", "c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_shared_call_whose_outcome_is_unknown_is_unknown_to_all() {
    let server = Server::new(SECOND, |call, _| if call == 1 { Act::Lose } else { Act::Commit });
    let outcomes = commit_all(&server, vec![ask("a"), ask("b"), ask("c"), ask("b")]).await;
    assert_eq!(names(&outcomes), "committed unknown unknown committed");
    let error = outcomes[1].error().unwrap();
    assert!(error.is_outcome_unknown() && error.kind() == ClientErrorKind::ConnectionLost);
    let text = error.to_string();
    assert!(
        text.contains("carried 2 transactions") && text.contains("lost by the fake"),
        "{text}"
    );
    assert_eq!(server.calls(), ["a", "b c", "b"]);
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_shared_call_leaves_all_outcomes_unknown() {
    let server = Server::new(SECOND, |call, _| if call == 1 { Act::Panic } else { Act::Commit });
    let outcomes = commit_all(&server, vec![ask("a"), ask("b"), ask("c"), ask("b")]).await;
    assert_eq!(names(&outcomes), "committed unknown unknown committed");
    assert!(outcomes[1].error().unwrap().is_outcome_unknown());
}

/// Starts a transaction and polls it once.
macro_rules! start {
    ($future:expr) => {{
        let mut future = Box::pin($future);
        assert!(poll!(&mut future).is_pending());
        future
    }};
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_dropped_before_the_call_is_not_in_it() {
    let server = Server::new(SECOND, |_, _| Act::Commit);
    let admission = admission();
    let first = start!(commit(&admission, &server, ask("a")));
    let b = start!(commit(&admission, &server, ask("b")));
    let c = start!(commit(&admission, &server, ask("c")));
    let d = start!(commit(&admission, &server, ask("d")));
    drop(c);
    let outcomes = join_all([first, b, d]).await;
    assert!(outcomes.iter().all(Outcome::is_committed));
    assert_eq!(server.calls(), ["a", "b d"]);
}

#[rstest]
#[case::before_it_looks(0, &["a", "c d"])]
#[case::before_its_call(1, &["a", "c d"])]
#[case::with_its_call_on_the_way(2, &["a", "b c d"])]
#[tokio::test(start_paused = true)]
async fn one_who_leads_and_is_dropped_takes_nobody_along(#[case] when: usize, #[case] calls: &[&str]) {
    let server = Server::new(SECOND, |_, _| Act::Commit);
    let admission = admission();
    let first = start!(commit(&admission, &server, ask("a")));
    let mut leader = start!(commit(&admission, &server, ask("b")));
    let others = [
        start!(commit(&admission, &server, ask("c"))),
        start!(commit(&admission, &server, ask("d"))),
    ];
    // The leader has the turn now.
    assert!(first.await.is_committed());
    if when >= 1 {
        // The task that sends for all is spawned, and has not run.
        assert!(poll!(&mut leader).is_pending());
    }
    if when >= 2 {
        tokio::time::sleep(SECOND / 2).await;
    }
    drop(leader);
    assert!(join_all(others).await.iter().all(Outcome::is_committed));
    assert_eq!(server.calls(), calls);
    assert_eq!(admission.lane_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn deadline_in_the_queue_means_not_sent() {
    let server = Server::new(10 * SECOND, |_, _| Act::Commit);
    let short = |rows| Asked {
        patience: 3 * SECOND,
        ..ask(rows)
    };
    let began = Instant::now();
    let admission = admission();
    let mut first = start!(commit(&admission, &server, ask("a")));
    let outcomes = join_all([
        commit(&admission, &server, short("b")),
        commit(&admission, &server, short("c")),
    ]);
    let outcomes = tokio::select! {
        outcomes = outcomes => outcomes,
        _ = &mut first => panic!("the first one takes longer"),
    };
    assert_eq!(began.elapsed(), 3 * SECOND);
    assert_eq!(names(&outcomes), "aborted aborted");
    assert!(outcomes[0].error().unwrap().to_string().contains("not sent"));
    assert!(first.await.is_committed());
    assert_eq!(server.calls(), ["a"]);
    assert_eq!(admission.lane_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn deadline_in_flight_means_unknown() {
    let server = Server::new(SECOND, |call, _| if call == 1 { Act::Hang } else { Act::Commit });
    let admission = admission();
    let began = Instant::now();
    let patience = |seconds, rows| Asked {
        patience: seconds * SECOND,
        ..ask(rows)
    };
    let outcomes = join_all([
        commit(&admission, &server, ask("a")),
        commit(&admission, &server, patience(5, "b")),
        commit(&admission, &server, patience(6, "c")),
    ])
    .await;
    assert_eq!(names(&outcomes), "committed unknown unknown");
    let late = began.elapsed().checked_sub(6 * SECOND).unwrap();
    assert!(late < SECOND, "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_at_the_very_deadline_is_heard() {
    let server = Server::new(SECOND, |_, _| Act::Commit);
    let two_seconds = |rows| Asked {
        patience: 2 * SECOND,
        ..ask(rows)
    };
    let outcomes = commit_all(&server, vec![ask("a"), two_seconds("b"), two_seconds("c")]).await;
    assert_eq!(names(&outcomes), "committed committed committed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_transaction_is_applied_once_at_most_with_its_outcome() {
    let applied: Arc<Mutex<HashMap<Bytes, usize>>> = Arc::default();
    let counts = Arc::clone(&applied);
    let server = Server::new(Duration::from_micros(200), move |_, group| {
        let act = match fastrand::u8(0..10) {
            0..6 => Act::Commit,
            6..9 => Act::Fail,
            _ => Act::Lose,
        };
        if act == Act::Commit || act == Act::Lose && fastrand::bool() {
            let mut counts = counts.lock().unwrap();
            for mutation in &group.mutations {
                *counts.entry(mutation.row().clone()).or_default() += 1;
            }
        }
        act
    });
    let admission = admission();
    let tasks = (0..2_000_usize).map(|number| {
        let (admission, server) = (Arc::clone(&admission), server.clone());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_micros(fastrand::u64(0..200_000))).await;
            let group = group(&number.to_string());
            let deadline = Instant::now() + Duration::from_millis(fastrand::u64(20..200));
            let commit = admission.commit_simple(folded(&group), deadline, &server);
            match number % 5 {
                0 => tokio::time::timeout(Duration::from_micros(fastrand::u64(0..5_000)), commit)
                    .await
                    .ok(),
                _ => Some(commit.await),
            }
        })
    });
    let outcomes = join_all(tasks).await;
    let applied = applied.lock().unwrap();
    for (number, outcome) in outcomes.into_iter().enumerate() {
        let row = Bytes::from(format!("xxx{number}"));
        let times = applied.get(&row).copied().unwrap_or_default();
        match outcome.unwrap() {
            Some(Outcome::Committed(_)) => assert_eq!(times, 1),
            Some(Outcome::Aborted(_) | Outcome::Invalid(_) | Outcome::Rejected(_)) => assert_eq!(times, 0),
            Some(Outcome::Unknown(_)) | None => assert!(times <= 1),
        }
    }
    assert_eq!(server.0.overlaps.load(Ordering::SeqCst), 0);
    assert_eq!(admission.lane_count(), 0);
    assert!(
        server.calls().iter().any(|rows| rows.contains(' ')),
        "nothing was shared"
    );
}
