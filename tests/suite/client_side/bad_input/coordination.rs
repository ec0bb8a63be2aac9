//! Invalid semaphores, elections and read/write locks, and rows with foreign cells.

use std::time::Duration;

use bytes::Bytes;
use hbase_txn::{
    ClientErrorKind, Error, ErrorKind, Level,
    client::{Condition, Connection, FamilyDescriptor, Put, Scan, TableDescriptor, TableName},
    coordination::{Election, ReadWriteLock, Semaphore},
    lock::{LockManager, LockManagerOptions, LockTableOptions},
};

use crate::support::{
    connect,
    lock_rows::lock_manager,
    rows, says,
    table::{SharedTable, TestTable},
};

static TABLE: SharedTable = SharedTable::new("badcoordination", lock_table, &[]);

fn lock_table(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).descriptor()
}

const LEASE: Duration = Duration::from_secs(20);
const LEVEL: Level = Level::Dc;

async fn locks(connection: &Connection, table: &TestTable) -> LockManager {
    lock_manager(connection, &table.name, "bad").await
}

fn is(error: &Error, kind: ErrorKind, parts: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    says(error, parts);
}

/// Returns the table's row of a key.
async fn row_of(connection: &Connection, table: &TestTable, key: &str) -> Bytes {
    let found = rows(&connection.table(table.name.clone()).unwrap(), Scan::new()).await;
    let row = found.iter().find(|row| &row.key()[1..] == key.as_bytes());
    row.unwrap().key().clone()
}

#[tokio::test]
async fn invalid_permit_numbers_are_refused_before_any_call() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let locks = locks(&connection, &table).await;
    for permits in [0, 1_025, u32::MAX] {
        let error = Semaphore::create(&locks, LEVEL, "range", permits)
            .await
            .unwrap_err();
        is(
            &error,
            ErrorKind::Client(ClientErrorKind::InvalidInput),
            &["1 to 1024", "SEM#DC#fra#bad#range"],
        );
    }
    let error = Semaphore::open(&locks, LEVEL, "range").await.unwrap_err();
    is(
        &error,
        ErrorKind::SemaphoreAbsent,
        &["Semaphore::create", "SEM#DC#fra#bad#range"],
    );
    for permits in [1, 1_024] {
        let semaphore = Semaphore::create(&locks, LEVEL, &format!("range-{permits}"), permits)
            .await
            .unwrap();
        for count in [0, permits + 1, u32::MAX] {
            let error = semaphore.acquire_many(count).acquire().await.unwrap_err();
            is(
                &error,
                ErrorKind::Client(ClientErrorKind::InvalidInput),
                &[&count.to_string(), "from 1 to"],
            );
        }
        for permits in [0, 1_025] {
            let error = semaphore.resize(permits).await.unwrap_err();
            is(
                &error,
                ErrorKind::Client(ClientErrorKind::InvalidInput),
                &["1 to 1024"],
            );
        }
        // All permits of the semaphore.
        let guard = semaphore
            .acquire_many(permits)
            .ttl(LEASE)
            .acquire()
            .await
            .unwrap();
        assert_eq!(semaphore.show().await.unwrap().available, 0);
        assert!(semaphore.permit().try_acquire().await.unwrap().is_none());
        guard.renew().await.unwrap();
        assert!(guard.release().await.unwrap().is_released());
        assert_eq!(semaphore.show().await.unwrap().available, permits);
    }
}

#[tokio::test]
async fn a_semaphore_of_another_size_is_refused_and_left_as_it_is() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let locks = locks(&connection, &table).await;
    Semaphore::create(&locks, LEVEL, "size", 3).await.unwrap();
    let error = Semaphore::create(&locks, LEVEL, "size", 4).await.unwrap_err();
    is(
        &error,
        ErrorKind::DefinitionMismatch,
        &["4 permits", "with 3", "resize"],
    );
    assert_eq!(Semaphore::open(&locks, LEVEL, "size").await.unwrap().permits(), 3);
}

#[tokio::test]
async fn ids_that_can_t_be_are_refused_and_others_never_share_a_row() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let locks = locks(&connection, &table).await;
    for (id, what) in [("", "empty lock id"), (&"i".repeat(32_767), "bytes")] {
        let errors = [
            Semaphore::create(&locks, LEVEL, id, 1).await.unwrap_err(),
            Election::new(&locks, LEVEL, id).unwrap_err(),
            ReadWriteLock::new(&locks, LEVEL, id).unwrap_err(),
        ];
        for error in errors {
            is(&error, ErrorKind::Client(ClientErrorKind::InvalidInput), &[what]);
        }
    }
    // The longest id of a lock is valid for every primitive, and an id may contain `#`.
    let longest = "i".repeat(32_767 - 1 - "\u{e9}_own".len() + 1 - "DC#fra#bad#".len() - 1);
    for id in [&longest[..], "a#b", "a#", "#"] {
        let lock = locks.lock(LEVEL, id).unwrap().ttl(LEASE).acquire().await.unwrap();
        let semaphore = Semaphore::create(&locks, LEVEL, id, 1).await.unwrap();
        let permit = semaphore.permit().ttl(LEASE).acquire().await.unwrap();
        let leader = Election::new(&locks, LEVEL, id)
            .unwrap()
            .campaign()
            .ttl(LEASE)
            .lead();
        let leader = leader.await.unwrap();
        let writer = ReadWriteLock::new(&locks, LEVEL, id)
            .unwrap()
            .write()
            .ttl(LEASE)
            .acquire();
        let writer = writer.await.unwrap();
        // The list of locks contains the lock only, not the other primitives.
        let listed = locks.list().await.unwrap();
        assert!(listed.iter().any(|found| found.key == lock.name()));
        for other in [&permit, leader.guard(), &writer] {
            assert!(listed.iter().all(|found| found.key != other.name()), "{other:?}");
        }
        for guard in [lock, permit, leader.into_guard(), writer] {
            assert!(guard.release().await.unwrap().is_released());
        }
    }
    let no_farm = LockManagerOptions::new("bad")
        .open(&connection, table.name.clone())
        .await
        .unwrap();
    let error = Election::new(&no_farm, LEVEL, "a").unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::InvalidInput),
        &["no farm"],
    );
}

#[tokio::test]
async fn leases_out_of_range_are_refused() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let locks = locks(&connection, &table).await;
    let semaphore = Semaphore::create(&locks, LEVEL, "leases", 1).await.unwrap();
    let lock = ReadWriteLock::new(&locks, LEVEL, "leases").unwrap();
    let election = Election::new(&locks, LEVEL, "leases").unwrap();
    for lease in [Duration::ZERO, Duration::from_millis(99), Duration::MAX] {
        let errors = [
            semaphore.permit().ttl(lease).acquire().await.unwrap_err(),
            lock.read().ttl(lease).acquire().await.unwrap_err(),
            lock.write().ttl(lease).acquire().await.unwrap_err(),
            election.campaign().ttl(lease).lead().await.unwrap_err(),
        ];
        for error in errors {
            is(
                &error,
                ErrorKind::Client(ClientErrorKind::InvalidInput),
                &["100ms", "#DC#fra#bad#leases"],
            );
        }
    }
}

#[tokio::test]
async fn foreign_definition_is_named_and_hands_out_nothing() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let locks = locks(&connection, &table).await;
    let semaphore = Semaphore::create(&locks, LEVEL, "garbage", 2).await.unwrap();
    let row = row_of(&connection, &table, semaphore.key()).await;
    let data = connection.table(table.name.clone()).unwrap();
    let garbage: [&[u8]; 5] = [b"0", b"1025", b"two", b"\xff\x00", &[b'9'; 100_000]];
    for value in garbage {
        data.put(Put::new(row.clone()).cell("D", "P", value.to_vec()))
            .await
            .unwrap();
        for error in [
            semaphore.permit().acquire().await.unwrap_err(),
            semaphore.show().await.unwrap_err(),
            semaphore.resize(3).await.unwrap_err(),
            Semaphore::open(&locks, LEVEL, "garbage").await.unwrap_err(),
            Semaphore::create(&locks, LEVEL, "garbage", 2).await.unwrap_err(),
        ] {
            is(
                &error,
                ErrorKind::DefinitionMismatch,
                &["D:P", "SEM#DC#fra#bad#garbage"],
            );
            assert!(error.to_string().len() < 2_000);
        }
    }
    // An empty `D:P` cell is not a semaphore.
    data.put(Put::new(row.clone()).cell("D", "P", "")).await.unwrap();
    let error = semaphore.permit().acquire().await.unwrap_err();
    is(&error, ErrorKind::SemaphoreAbsent, &[]);
    data.put(Put::new(row.clone()).cell("D", "P", "2")).await.unwrap();
    assert_eq!(
        semaphore.show().await.unwrap().available,
        2,
        "what was tried was given back"
    );
}

#[tokio::test]
async fn columns_that_a_stranger_wrote_keep_out_at_most() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let locks = locks(&connection, &table).await;
    let semaphore = Semaphore::create(&locks, LEVEL, "columns", 2).await.unwrap();
    let row = row_of(&connection, &table, semaphore.key()).await;
    let data = connection.table(table.name.clone()).unwrap();
    let put = Put::new(row.clone())
        .cell("D", "L0", "M")
        .cell("D", "O1", "no owner")
        .cell("D", "L\u{e9}", "M")
        .cell("D", Bytes::from_static(b"L\xff"), "M")
        .cell("D", "", "?")
        .cell("D", "L", "M")
        .cell("D", "Lx", "M");
    data.put(put).await.unwrap();
    let guard = semaphore.permit().ttl(LEASE).acquire().await.unwrap();
    let error = semaphore.permit().acquire().await.unwrap_err();
    is(&error, ErrorKind::LockUnavailable, &["held"]);
    assert!(guard.release().await.unwrap().is_released());
    let info = semaphore.show().await.unwrap();
    assert_eq!(info.available, 1);
    // A number cell that is not 8 bytes wide fails the call, and no permit is granted.
    let odd = Put::new(row.clone()).cell("D", "N", "abc");
    assert!(
        data.check_and_mutate(Condition::present(row, "D", "P"), [odd.into()])
            .await
            .unwrap()
            .success
    );
    let error = semaphore.permit().acquire().await.unwrap_err();
    assert!(error.remote().is_some(), "{error}");
}

#[tokio::test]
async fn table_with_a_ttl_and_other_tables_refuse_semaphores() {
    let connection = connect().await;
    let short_lived = TestTable::create(
        "badsemttl",
        |name| {
            TableDescriptor::from(name).with_family(FamilyDescriptor::new("D").with_attribute("TTL", "10"))
        },
        &[],
    )
    .await;
    let forgets = locks(&connection, &short_lived).await;
    let error = Semaphore::create(&forgets, LEVEL, "a", 1).await.unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::InvalidInput),
        &["10s", "TTL"],
    );
    let leader = Election::new(&forgets, LEVEL, "a")
        .unwrap()
        .campaign()
        .ttl(LEASE / 4)
        .lead();
    assert!(leader.await.unwrap().resign().await.unwrap().is_released());
}
