//! Elections: one leader per term, and terms only grow.

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::StreamExt;
use hbase_txn::{
    ClientErrorKind, ErrorKind, Level,
    client::{Connection, Row, Scan, TableDescriptor, TableName},
    coordination::{Election, Leadership},
    lock::{LockLoss, LockTableOptions},
};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    client_side::dropped::{at_every_wait, polled},
    support::{
        connect, eventually,
        lock_rows::lock_manager,
        rows, says,
        table::{SharedTable, TestTable},
        within,
    },
};

static TABLE: SharedTable = SharedTable::new("elections", lock_table, &[]);

fn lock_table(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).descriptor()
}

const LEASE: Duration = Duration::from_secs(80);
const SOON: Duration = Duration::from_secs(20);

async fn election(connection: &Connection, table: &TestTable, id: &str) -> Election {
    let locks = lock_manager(connection, &table.name, "elect").await;
    Election::new(&locks, Level::Dc, id).unwrap()
}

async fn lead(election: &Election) -> Leadership {
    let campaign = election.campaign().ttl(LEASE).wait(SOON);
    within(SOON, campaign.lead()).await.unwrap()
}

#[tokio::test]
async fn one_process_leads_at_a_time_in_rising_visible_terms() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let one = election(&connection, &table, "terms").await;
    let other = election(&connection, &table, "terms").await;
    assert_eq!(one.leader().await.unwrap(), None);
    let mut last = 0;
    for _ in 0..10 {
        let leadership = lead(&one).await;
        assert!(leadership.term() > last && leadership.is_leader());
        last = leadership.term();
        let error = other.campaign().wait(Duration::ZERO).lead().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LockUnavailable);
        let text = error.to_string();
        assert!(
            text.contains("tester") && text.contains("LEAD#DC#fra#elect#terms"),
            "{text}"
        );
        assert!(other.campaign().try_lead().await.unwrap().is_none());
        // Renewals increment the lock's counter and leave the term unchanged.
        leadership.guard().renew().await.unwrap();
        let leader = other.leader().await.unwrap().unwrap();
        assert_eq!(leader.term, Some(leadership.term()));
        assert_eq!(leader.holder.name.as_deref(), Some("tester"));
        assert!(leadership.resign().await.unwrap().is_released());
        assert_eq!(other.leader().await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_leader_that_crashes_is_followed_when_its_lease_is_over() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let follower = election(&connection, &table, "crash").await;
    let crashing = connect().await;
    let lease = Duration::from_secs(2);
    let campaign = election(&crashing, &table, "crash").await.campaign().ttl(lease);
    let leadership = campaign.lead().await.unwrap();
    let term = leadership.term();
    let began = Instant::now();
    crashing.close().await;
    // Its renewals fail, and it notices the end of its lease by its own clock.
    let lost = async {
        assert_eq!(leadership.lost().await, LockLoss::Expired);
        Instant::now()
    };
    let next = async { (lead(&follower).await, Instant::now()) };
    let (lost, (next, since)) = tokio::join!(lost, next);
    assert!(lost <= since, "it led {:?} beside the next", lost - since);
    assert!(!leadership.is_leader());
    assert!(
        began.elapsed() < lease + Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert!(next.term() > term);
    assert!(next.resign().await.unwrap().is_released());
}

#[tokio::test]
async fn changes_yield_the_leader_once_and_then_each_change() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let (one, other) = (
        election(&connection, &table, "changes").await,
        election(&connection, &table, "changes").await,
    );
    let mut changes = other.changes();
    assert_eq!(within(SOON, changes.next()).await.unwrap().unwrap(), None);
    assert!(polled(changes.next(), 3).await.is_none());
    let lease = Duration::from_secs(2);
    let campaign = one.campaign().ttl(lease);
    let leadership = campaign.try_lead().await.unwrap().unwrap();
    let first = within(SOON, changes.next()).await.unwrap().unwrap();
    assert_eq!(first.and_then(|leader| leader.term), Some(leadership.term()));
    let late = other.changes().next().await.unwrap().unwrap();
    assert_eq!(late.and_then(|leader| leader.term), Some(leadership.term()));
    // A renewal is not a change.
    let same = tokio::time::timeout(3 * lease, changes.next()).await;
    assert!(same.is_err(), "{same:?}");
    assert!(leadership.is_leader());
    assert!(leadership.resign().await.unwrap().is_released());
    assert_eq!(within(SOON, changes.next()).await.unwrap().unwrap(), None);
    // The stream yields the error of a failed poll.
    connection.close().await;
    for _ in 0..2 {
        let error = within(SOON, changes.next()).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Closed, "{error}");
    }
}

#[tokio::test]
async fn lead_waits_until_the_leader_resigns() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let other = election(&connect().await, &table, "wait").await;
    let leadership = lead(&election(&connection, &table, "wait").await).await;
    let next = tokio::spawn(other.campaign().ttl(LEASE).lead());
    sleep(Duration::from_secs(2)).await;
    assert!(!next.is_finished());
    assert!(leadership.resign().await.unwrap().is_released());
    let next = within(SOON, next).await.unwrap().unwrap();
    assert!(next.resign().await.unwrap().is_released());
}

#[tokio::test]
async fn lead_while_runs_its_work_again_after_each_loss() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let watching = election(&connection, &table, "while").await;
    let campaign = election(&connect().await, &table, "while").await.campaign();
    let (running, terms) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let leading = tokio::spawn({
        let (running, terms) = (Arc::clone(&running), Arc::clone(&terms));
        async move {
            let campaign = campaign.ttl(Duration::from_secs(3));
            let work = async |leadership: Arc<Leadership>| {
                assert!(leadership.is_leader());
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two run");
                let _stopped = Counted(&running);
                let number = {
                    let mut terms = terms.lock().unwrap();
                    terms.push(leadership.term());
                    terms.len()
                };
                match number {
                    3 => "done",
                    _ => pending().await,
                }
            };
            campaign.lead_while(work).await
        }
    });
    for _ in 0..2 {
        let leader = eventually("it leads", async || watching.leader().await.unwrap()).await;
        let evicted = watching
            .force_release(leader.holder.token.unwrap())
            .await
            .unwrap();
        assert!(evicted.is_some());
        let token = leader.holder.token;
        eventually("it leads again, or is through", async || {
            let next = watching.leader().await.unwrap();
            let is_next = next.is_some_and(|next| next.holder.token != token);
            (is_next || leading.is_finished()).then_some(())
        })
        .await;
    }
    assert_eq!(within(SOON, leading).await.unwrap().unwrap(), "done");
    assert_eq!(watching.leader().await.unwrap(), None);
    assert_eq!(running.load(Ordering::SeqCst), 0);
    let terms = terms.lock().unwrap();
    assert!(terms.len() == 3 && terms.is_sorted(), "{terms:?}");
}

/// Counts down when the work that it belongs to is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn lead_while_that_is_dropped_or_fails_leaves_no_leader() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let other = election(&connect().await, &table, "dropped").await;
    let campaign = election(&connection, &table, "dropped")
        .await
        .campaign()
        .ttl(LEASE);
    let leading = tokio::spawn(campaign.clone().lead_while(async |_| pending::<()>().await));
    eventually("it leads", async || other.leader().await.unwrap()).await;
    leading.abort();
    let leadership = lead(&other).await;
    let error = campaign
        .clone()
        .wait(Duration::ZERO)
        .lead_while(async |_| panic!("it does not lead"));
    assert_eq!(error.await.unwrap_err().kind(), ErrorKind::LockUnavailable);
    let error = campaign.ttl(Duration::ZERO).lead_while(async |_| ());
    assert_eq!(error.await.unwrap_err().kind(), ClientErrorKind::InvalidInput);
    assert!(leadership.resign().await.unwrap().is_released());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_campaign_one_leads_at_a_time() {
    /// Longer only on a machine that is too busy for a few terms.
    const SPINS: Duration = Duration::from_secs(3);
    let table = TABLE.get().await;
    let inside = Arc::new(AtomicUsize::new(0));
    let terms = Arc::new(Mutex::new(Vec::new()));
    let began = Instant::now();
    let mut owners = JoinSet::new();
    for _ in 0..6 {
        let election = election(&connect().await, &table, "many").await;
        let (inside, terms) = (Arc::clone(&inside), Arc::clone(&terms));
        owners.spawn(async move {
            let are_few = || terms.lock().unwrap().len() <= 20;
            while began.elapsed() < SPINS || (are_few() && began.elapsed() < SOON) {
                let leadership = lead(&election).await;
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two lead");
                terms.lock().unwrap().push(leadership.term());
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                assert!(leadership.resign().await.unwrap().is_released());
            }
        });
    }
    while let Some(ended) = owners.join_next().await {
        ended.unwrap();
    }
    let terms = terms.lock().unwrap();
    assert!(terms.len() > 20, "{}", terms.len());
    assert!(terms.windows(2).all(|pair| pair[0] < pair[1]), "{terms:?}");
}

#[tokio::test]
async fn a_dropped_campaign_leaves_no_leader() {
    let (other, table) = (connect().await, TABLE.get().await);
    at_every_wait(async |times, connection| {
        let id = format!("dropped-{times}");
        let mine = election(&connection, &table, &id).await;
        let done = polled(mine.campaign().ttl(LEASE).lead(), times).await;
        let over = done.is_some();
        drop(done);
        let others = election(&other, &table, &id).await;
        assert!(lead(&others).await.resign().await.unwrap().is_released());
        assert!(lead(&mine).await.resign().await.unwrap().is_released());
        over
    })
    .await;
}

#[tokio::test]
async fn candidate_that_waits_writes_nothing() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let leadership = lead(&election(&connect().await, &table, "waits").await).await;
    let stored_row = async || {
        let all = rows(&table.of(&connection), Scan::new().raw()).await;
        let is_own = |row: &Row| row.key().ends_with(b"LEAD#DC#fra#elect#waits");
        all.into_iter().find(is_own).unwrap()
    };
    let before = stored_row().await;
    let waiting = election(&connection, &table, "waits").await;
    let error = waiting.campaign().wait(Duration::from_secs(1)).lead();
    assert_eq!(error.await.unwrap_err().kind(), ErrorKind::LockUnavailable);
    assert_eq!(stored_row().await, before);
    assert!(leadership.resign().await.unwrap().is_released());
}

#[tokio::test]
async fn local_waiter_is_given_the_leader_in_its_error() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let other = election(&connection, &table, "queue").await;
    let one = election(&connection, &table, "queue").await;
    let leadership = lead(&other).await;
    let wait = |wait| one.campaign().wait(wait).lead();
    let error = tokio::select! {
        biased;
        first = wait(SOON) => panic!("{first:?}"),
        second = wait(Duration::from_secs(3)) => second.unwrap_err(),
    };
    assert_eq!(error.kind(), ErrorKind::LockUnavailable);
    says(&error, &["tester", "came first", "LEAD#DC#fra#elect#queue"]);
    assert!(leadership.resign().await.unwrap().is_released());
}
