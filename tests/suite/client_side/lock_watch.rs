//! Watching locks and elections: each change once, with its reason.

use std::time::Duration;

use futures::{Stream, StreamExt};
use hbase_txn::{
    Level,
    client::{Delete, Put, TableDescriptor, TableName},
    coordination::Election,
    lock::{LockEvent, LockEventKind, LockManager, LockTableOptions},
};

use crate::{
    client_side::dropped::polled,
    proxy::{Action, Proxy},
    support::{
        connect, connect_by, eventually,
        lock_rows::{lock_manager, lock_row},
        standalone,
        table::SharedTable,
        within,
    },
};

static WITH_JAVA: SharedTable = SharedTable::new("lock-watch", with_java_clients, &[]);
static OURS: SharedTable = SharedTable::new("lock-watch-ours", without_java_clients, &[]);

fn with_java_clients(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).descriptor()
}

fn without_java_clients(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).without_java_clients().descriptor()
}

const LEASE: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(20);

async fn next(events: &mut (impl Stream<Item = hbase_txn::Result<LockEvent>> + Unpin)) -> LockEvent {
    within(SOON, events.next()).await.unwrap().unwrap()
}

/// Asserts the kind of the next event, and that the event names its holder.
#[track_caller]
fn seen(event: &LockEvent, kind: LockEventKind, holder: Option<&str>) {
    assert_eq!(event.kind, kind, "{event:?}");
    let name = event.holder.as_ref().map(|holder| holder.name.as_deref());
    assert_eq!(name.flatten(), holder, "{event:?}");
}

fn watch(locks: &LockManager, id: &str) -> impl Stream<Item = hbase_txn::Result<LockEvent>> + Unpin + use<> {
    locks.watch(Level::Dc, id).unwrap()
}

#[tokio::test]
async fn lock_events_name_holder_and_reason_of_each_end() {
    let connection = connect().await;
    for table in [&WITH_JAVA, &OURS] {
        let table = table.get().await;
        let locks = lock_manager(&connection, &table.name, "watch").await;
        let mut events = watch(&locks, "reasons");
        let free = next(&mut events).await;
        seen(&free, LockEventKind::Free, None);
        assert_eq!((free.fencing, free.waiting), (None, Some(0)));
        let request = || locks.lock(Level::Dc, "reasons").unwrap();

        // Long leases are released by a delete, short ones by an empty marker.
        for lease in [LEASE, 10 * LEASE] {
            let guard = request().ttl(lease).acquire().await.unwrap();
            let acquired = next(&mut events).await;
            seen(&acquired, LockEventKind::Acquired, Some("tester"));
            assert_eq!(acquired.holder.as_ref().unwrap().token, Some(guard.token()));
            assert_eq!(acquired.fencing, Some(guard.fencing()));
            seen(
                &next(&mut watch(&locks, "reasons")).await,
                LockEventKind::Held,
                Some("tester"),
            );
            assert!(polled(events.next(), 3).await.is_none());
            let renewed = locks.renew(Level::Dc, "reasons", guard.token(), 2 * lease).await;
            assert_eq!(renewed.unwrap(), Ok(()));
            let renewed = next(&mut events).await;
            seen(&renewed, LockEventKind::Renewed, Some("tester"));
            assert!(renewed.holder.unwrap().lease > acquired.holder.unwrap().lease);
            assert!(guard.release().await.unwrap().is_released());
            seen(&next(&mut events).await, LockEventKind::Released, Some("tester"));
        }

        let _expires = request()
            .ttl(Duration::from_secs(2))
            .acquire()
            .await
            .unwrap()
            .detach();
        seen(&next(&mut events).await, LockEventKind::Acquired, Some("tester"));
        seen(&next(&mut events).await, LockEventKind::Expired, Some("tester"));

        let _revoked = request().ttl(LEASE).acquire().await.unwrap().detach();
        seen(&next(&mut events).await, LockEventKind::Acquired, Some("tester"));
        assert!(locks.force_release(Level::Dc, "reasons").await.unwrap().is_some());
        seen(&next(&mut events).await, LockEventKind::Released, Some("tester"));
    }
}

#[tokio::test]
async fn two_events_tell_that_a_lock_changed_hands_between_polls() {
    let (connection, table) = (connect().await, OURS.get().await);
    let locks = lock_manager(&connection, &table.name, "watch").await;
    let request = |ttl| locks.lock(Level::Dc, "hands").unwrap().ttl(ttl);
    let mut events = watch(&locks, "hands");
    let guard = request(LEASE).acquire().await.unwrap();
    seen(&next(&mut events).await, LockEventKind::Held, Some("tester"));
    assert!(guard.release().await.unwrap().is_released());
    let expiring = request(Duration::from_millis(200)).acquire().await.unwrap();
    let first = expiring.fencing();
    seen(&next(&mut events).await, LockEventKind::Released, Some("tester"));
    let acquired = next(&mut events).await;
    seen(&acquired, LockEventKind::Acquired, Some("tester"));
    assert_eq!(acquired.fencing, Some(first));
    let _expired = expiring.detach();
    let guard = request(LEASE).wait(SOON).acquire().await.unwrap();
    seen(&next(&mut events).await, LockEventKind::Expired, Some("tester"));
    seen(&next(&mut events).await, LockEventKind::Acquired, Some("tester"));
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
async fn waiting_processes_are_counted_while_they_wait() {
    let connections = [connect().await, connect().await, connect().await];
    let table = OURS.get().await;
    let mut managers = Vec::new();
    for connection in &connections {
        managers.push(lock_manager(connection, &table.name, "watch").await);
    }
    let request = |of: usize| managers[of].lock(Level::Dc, "queue").unwrap().ttl(LEASE);
    let guard = request(0).acquire().await.unwrap();
    let mut events = watch(&managers[0], "queue");
    seen(&next(&mut events).await, LockEventKind::Held, Some("tester"));
    let waiting = [1, 2].map(|of| tokio::spawn(request(of).wait(SOON).acquire()));
    let mut most = 0;
    while most < 2 {
        let event = next(&mut events).await;
        seen(&event, LockEventKind::Waiting, Some("tester"));
        most = event.waiting.unwrap();
    }
    for waits in &waiting {
        waits.abort();
    }
    while next(&mut events).await.waiting != Some(0) {}
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
async fn end_of_a_java_hold_is_named_as_far_as_it_is_known() {
    let (connection, table) = (connect().await, WITH_JAVA.get().await);
    let locks = lock_manager(&connection, &table.name, "watch").await;
    let rows = connection.table(table.name.clone()).unwrap();
    let row = lock_row("watch", "java");
    let mut events = watch(&locks, "java");
    seen(&next(&mut events).await, LockEventKind::Free, None);
    let marker = Put::new(row.clone()).cell("D", "L", "M").ttl(LEASE);
    rows.put(marker).await.unwrap();
    let acquired = next(&mut events).await;
    seen(&acquired, LockEventKind::Acquired, None);
    assert!(acquired.holder.is_some());
    rows.delete(Delete::new(row)).await.unwrap();
    seen(&next(&mut events).await, LockEventKind::Ended, None);
}

#[tokio::test]
async fn events_of_an_election_have_terms() {
    let (connection, table) = (connect().await, WITH_JAVA.get().await);
    let locks = lock_manager(&connection, &table.name, "watch").await;
    let election = Election::new(&locks, Level::Dc, "leaders").unwrap();
    let mut events = election.watch();
    seen(&next(&mut events).await, LockEventKind::Free, None);
    let campaign = || election.campaign().ttl(Duration::from_secs(2));
    let leadership = campaign().lead().await.unwrap();
    let elected = next(&mut events).await;
    seen(&elected, LockEventKind::Acquired, Some("tester"));
    assert_eq!(
        (elected.fencing, elected.waiting),
        (Some(leadership.term()), None)
    );
    seen(&next(&mut events).await, LockEventKind::Renewed, Some("tester"));
    assert!(leadership.resign().await.unwrap().is_released());
    let mut last = next(&mut events).await;
    while last.kind == LockEventKind::Renewed {
        last = next(&mut events).await;
    }
    seen(&last, LockEventKind::Released, Some("tester"));
    // The renewal is lost with the guard's task.
    let _expires = campaign().lead().await.unwrap().into_guard().detach();
    seen(&next(&mut events).await, LockEventKind::Acquired, Some("tester"));
    seen(&next(&mut events).await, LockEventKind::Expired, Some("tester"));
}

#[tokio::test]
async fn watch_fails_in_time_and_continues_when_servers_answer_again() {
    let (proxy, table) = (Proxy::new(), OURS.get().await);
    let config = standalone()
        .config()
        .with_operation_timeout(Duration::from_secs(2));
    let connection = connect_by(proxy.clone(), config).await;
    let locks = lock_manager(&connection, &table.name, "watch").await;
    let mut events = watch(&locks, "lost");
    seen(&next(&mut events).await, LockEventKind::Free, None);
    proxy.rule(|request| match request.method.as_str() {
        "Multi" => Action::Hold,
        _ => Action::Pass,
    });
    for _ in 0..2 {
        let error = within(Duration::from_secs(3), events.next()).await.unwrap();
        let error = error.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        assert!(error.to_string().contains("lost"), "{error}");
    }
    proxy.rule(|_| Action::Pass);
    proxy.release().await;
    let others = lock_manager(&connect().await, &table.name, "watch").await;
    let guard = others
        .lock(Level::Dc, "lost")
        .unwrap()
        .ttl(LEASE)
        .acquire()
        .await
        .unwrap();
    let event = eventually("the watch has an event", async || {
        within(SOON, events.next()).await.unwrap().ok()
    });
    seen(&event.await, LockEventKind::Acquired, Some("tester"));
    assert!(guard.release().await.unwrap().is_released());
    connection.close().await;
}
