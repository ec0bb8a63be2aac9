//! Sessions, groups, and writers that become readers.

use std::time::Duration;

use futures::{StreamExt, future::try_join_all};
use hbase_txn::{
    ErrorKind, Level,
    client::{Connection, TableDescriptor, TableName},
    coordination::{Group, ReadWriteLock, Semaphore},
    lock::{LockLoss, LockManager, LockTableOptions, SessionEnd},
};
use tokio::time::sleep;

use crate::{
    client_side::dropped::{at_every_wait, polled},
    support::{
        connect, eventually,
        lock_rows::lock_manager,
        table::{SharedTable, TestTable},
        within,
    },
};

static TABLE: SharedTable = SharedTable::new("sessions", lock_table, &[]);

fn lock_table(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).descriptor()
}

const LEASE: Duration = Duration::from_secs(80);
/// Renewals are due within a test.
const SHORT: Duration = Duration::from_secs(3);
const SOON: Duration = Duration::from_secs(20);

/// Creates the locks of a separate process.
async fn process(connection: &Connection, table: &TestTable) -> LockManager {
    lock_manager(connection, &table.name, "session").await
}

#[tokio::test]
async fn revocation_of_one_hold_ends_the_session_and_frees_the_others() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let (mine, others) = (
        process(&connection, &table).await,
        process(&connect().await, &table).await,
    );
    let session = mine.session("worker").unwrap().ttl(SHORT);
    let request = mine.lock(Level::Dc, "revoked").unwrap();
    let lock = request.session(&session).acquire().await.unwrap();
    let semaphore = Semaphore::create(&mine, Level::Dc, "revoked", 1).await.unwrap();
    let permit = semaphore.permit().session(&session).acquire().await.unwrap();
    sleep(SHORT).await;
    assert!(session.is_open() && lock.is_held() && permit.is_held());
    let seen = others.show(Level::Dc, "revoked").await.unwrap().holder.unwrap();
    assert_eq!(seen.name.as_deref(), Some("worker"));

    others.force_release(Level::Dc, "revoked").await.unwrap();
    let end = within(SOON, session.lost()).await;
    assert!(
        matches!(&end, SessionEnd::Lost { hold, loss: LockLoss::Removed } if hold == lock.name()),
        "{end}"
    );
    assert_eq!(permit.lost().await, LockLoss::SessionEnded);
    let theirs = Semaphore::open(&others, Level::Dc, "revoked").await.unwrap();
    let next = within(SOON, theirs.permit().wait(SOON).acquire()).await.unwrap();
    assert!(next.fencing() > permit.fencing());
    assert_eq!(session.close().await.unwrap(), end);
}

#[tokio::test]
async fn closed_session_has_released_its_holds() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let locks = process(&connection, &table).await;
    let session = locks.session("worker").unwrap().ttl(LEASE);
    let requests = (0..20).map(|number| {
        let request = locks.lock(Level::Dc, &format!("closed-{number}")).unwrap();
        request.session(&session).acquire()
    });
    let guards = within(SOON, try_join_all(requests)).await.unwrap();
    assert!(session.close().await.unwrap().is_closed());
    for guard in &guards {
        assert!(!guard.is_held());
    }
    let others = process(&connect().await, &table).await;
    for number in 0..20 {
        let request = others.lock(Level::Dc, &format!("closed-{number}")).unwrap();
        assert!(request.try_acquire().await.unwrap().is_some(), "lock {number}");
    }
}

#[tokio::test]
async fn many_members_join_at_once_and_keep_their_data() {
    const MEMBERS: usize = 60;
    let (connection, table) = (connect().await, TABLE.get().await);
    let locks = process(&connection, &table).await;
    let session = locks.session("worker").unwrap().ttl(SHORT);
    let group = Group::new(&locks, Level::Dc, "many").unwrap();
    let observer = Group::new(&process(&connect().await, &table).await, Level::Dc, "many").unwrap();
    let mut changes = observer.changes();
    assert_eq!(changes.next().await.unwrap().unwrap(), []);
    let joins = (0..MEMBERS).map(|number| group.join(&session, format!("\0data {number}")));
    let guards = within(SOON, try_join_all(joins)).await.unwrap();
    let listed = async || {
        let members = observer.members().await.unwrap();
        let find = |guard: &hbase_txn::lock::LockGuard| {
            let member = members
                .iter()
                .find(|member| member.holder.token == Some(guard.token()));
            member.map(|member| String::from_utf8(member.data.to_vec()).unwrap())
        };
        guards.iter().map(find).collect::<Option<Vec<String>>>()
    };
    let expected: Vec<_> = (0..MEMBERS).map(|number| format!("\0data {number}")).collect();
    assert_eq!(listed().await.as_ref(), Some(&expected));
    assert_eq!(changes.next().await.unwrap().unwrap().len(), MEMBERS);
    sleep(SHORT * 2).await;
    assert_eq!(listed().await.as_ref(), Some(&expected));
    assert!(session.close().await.unwrap().is_closed());
    assert_eq!(observer.members().await.unwrap(), []);
    assert_eq!(within(SOON, changes.next()).await.unwrap().unwrap(), []);
}

#[tokio::test]
async fn writer_becomes_a_reader_and_lets_no_writer_in_between() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let mine = ReadWriteLock::new(&process(&connection, &table).await, Level::Dc, "down").unwrap();
    let theirs = process(&connect().await, &table).await;
    let theirs = ReadWriteLock::new(&theirs, Level::Dc, "down").unwrap();
    for _ in 0..10 {
        let writer = mine.write().ttl(LEASE).wait(SOON).acquire().await.unwrap();
        let (token, number) = (writer.token(), writer.fencing());
        let waiting = tokio::spawn(theirs.write().ttl(LEASE).wait(SOON).acquire());
        sleep(Duration::from_millis(20)).await;
        let reader = mine.downgrade(writer).await.unwrap();
        assert!(reader.fencing() > number && reader.token() != token);
        let state = theirs.show().await.unwrap();
        assert_eq!(state.readers.len(), 1);
        assert_ne!(state.writer.and_then(|writer| writer.token), Some(token));
        sleep(Duration::from_millis(20)).await;
        assert!(!waiting.is_finished(), "a writer beside a reader");
        assert!(reader.release().await.unwrap().is_released());
        let next = within(SOON, waiting).await.unwrap().unwrap();
        assert!(next.release().await.unwrap().is_released());
    }
    let reader = mine.read().ttl(LEASE).wait(SOON).acquire().await.unwrap();
    let error = mine.downgrade(reader).await.unwrap_err();
    assert_eq!(error.kind(), hbase_txn::ClientErrorKind::InvalidInput);
    let revoked = mine.write().ttl(LEASE).wait(SOON).acquire().await.unwrap();
    theirs.force_release(revoked.token()).await.unwrap();
    let error = mine.downgrade(revoked).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockLost);
    eventually("neither is held", async || {
        let state = theirs.show().await.unwrap();
        (state.readers.is_empty() && state.writer.is_none()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn dropped_downgrade_leaves_neither_hold() {
    let table = TABLE.get().await;
    let other = process(&connect().await, &table).await;
    at_every_wait(async |times, connection| {
        let id = format!("down-dropped-{times}");
        let mine = process(&connection, &table).await;
        let mine = ReadWriteLock::new(&mine, Level::Dc, &id).unwrap();
        let writer = mine.write().ttl(LEASE).acquire().await.unwrap();
        let done = polled(mine.downgrade(writer), times).await;
        let is_over = done.is_some();
        drop(done);
        let next = ReadWriteLock::new(&other, Level::Dc, &id).unwrap();
        let next = within(SOON, next.write().wait(SOON).acquire()).await.unwrap();
        assert!(next.release().await.unwrap().is_released());
        is_over
    })
    .await;
}

#[tokio::test]
async fn dropped_join_leaves_no_member() {
    let table = TABLE.get().await;
    let other = process(&connect().await, &table).await;
    at_every_wait(async |times, connection| {
        let id = format!("join-dropped-{times}");
        let mine = process(&connection, &table).await;
        let session = mine.session("worker").unwrap().ttl(LEASE);
        let group = Group::new(&mine, Level::Dc, &id).unwrap();
        let done = polled(group.join(&session, "data"), times).await;
        let is_over = done.is_some();
        drop(done);
        within(SOON, mine.background_done()).await;
        let seen = Group::new(&other, Level::Dc, &id).unwrap();
        let is_gone = async || seen.members().await.unwrap().is_empty().then_some(());
        eventually("the member is gone", is_gone).await;
        assert!(session.is_open());
        is_over
    })
    .await;
}
