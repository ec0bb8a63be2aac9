//! Elections: one leader a term, and terms rise.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use hbase_txn::{
    Connection, Election, ErrorKind, Leadership, Level, LockLoss, LockTableOptions, TableDescriptor,
    TableName,
};
use tokio::task::JoinSet;

use crate::{
    dropped::{at_every_wait, polled},
    support::{
        connect,
        lock_rows::lock_manager,
        says,
        table::{SharedTable, TestTable},
        within,
    },
};

static TABLE: SharedTable = SharedTable::new("elections", lock_table, &[]);

fn lock_table(name: TableName) -> TableDescriptor {
    LockTableOptions::new(name).descriptor()
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
async fn one_leads_at_a_time_in_terms_that_rise_and_everybody_can_see_who() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let one = election(&connection, &table, "terms").await;
    let other = election(&connection, &table, "terms").await;
    assert_eq!(one.leader().await.unwrap(), None);
    let mut last = 0;
    for _ in 0..10 {
        let leadership = lead(&one).await;
        assert!(leadership.term() > last && leadership.is_leader());
        last = leadership.term();
        let error = other.campaign().lead().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LockUnavailable);
        let text = error.to_string();
        assert!(
            text.contains("tester") && text.contains("LEAD#DC#fra#elect#terms"),
            "{text}"
        );
        // Renewals count on what the lock counts, and leave the term as it is.
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
    // Its renewals fail, and it knows by its own clock.
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
async fn a_leadership_is_renewed_and_its_changes_are_told() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let (one, other) = (
        election(&connection, &table, "changes").await,
        election(&connection, &table, "changes").await,
    );
    assert_eq!(other.changed(None, Duration::ZERO).await.unwrap(), None);
    let soon = tokio::spawn({
        let other = other.clone();
        async move { other.changed(None, SOON).await.unwrap() }
    });
    let lease = Duration::from_secs(2);
    let leadership = one.campaign().ttl(lease).lead().await.unwrap();
    let first = soon.await.unwrap().expect("somebody leads");
    assert_eq!(first.term, Some(leadership.term()));
    // Nothing changes while it is renewed.
    let same = other.changed(Some(&first), 3 * lease).await.unwrap().unwrap();
    assert_eq!(same.term, first.term);
    assert!(leadership.is_leader());
    assert!(leadership.resign().await.unwrap().is_released());
    assert_eq!(other.changed(Some(&first), SOON).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_campaign_one_leads_at_a_time() {
    let table = TABLE.get().await;
    let inside = Arc::new(AtomicUsize::new(0));
    let terms = Arc::new(Mutex::new(Vec::new()));
    let end = Instant::now() + Duration::from_secs(3);
    let mut owners = JoinSet::new();
    for _ in 0..6 {
        let election = election(&connect().await, &table, "many").await;
        let (inside, terms) = (Arc::clone(&inside), Arc::clone(&terms));
        owners.spawn(async move {
            while Instant::now() < end {
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
async fn one_that_waits_behind_others_of_its_process_is_told_who_leads() {
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
