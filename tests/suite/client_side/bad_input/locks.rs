//! Invalid lock requests, useless tokens, and lock tables with foreign cells or schemas.

use std::time::Duration;

use bytes::Bytes;
use hbase_txn::{
    ClientErrorKind, Error, ErrorKind, Level,
    admin::Admin,
    client::{Connection, Delete, FamilyDescriptor, Put, TableDescriptor, TableName},
    lock::{
        LockInfo, LockLoss, LockManager, LockManagerOptions, LockName, LockTableOptions, LockToken,
        ReleaseOutcome,
    },
};

use crate::support::{
    connect,
    lock_rows::{companion_row, held_cell, lock_manager, lock_row, lock_table},
    says, standalone,
    table::{SharedTable, TestTable, plain, unique_name},
    within,
};

const CLIENT: &str = "bad";
const LEASE: Duration = Duration::from_secs(20);
const DEADLINE: Duration = Duration::from_secs(5);

static SHARED: SharedTable = SharedTable::new("badlocks", shared_with_java, &[]);

fn shared_with_java(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).descriptor()
}

fn short_lived(name: TableName) -> TableDescriptor {
    let family = FamilyDescriptor::new("D").with_attribute("TTL", "10");
    TableDescriptor::from(name).with_family(family)
}

async fn impatient() -> Connection {
    Connection::builder(standalone().config().with_operation_timeout(DEADLINE))
        .connect()
        .await
        .unwrap()
}

async fn open(connection: &Connection, name: &TableName) -> Result<LockManager, Error> {
    LockManagerOptions::new(CLIENT)
        .farm("fra")
        .open(connection, name.clone())
        .await
}

/// Asserts that the error has this kind and contains these texts.
fn is(error: &Error, kind: ErrorKind, parts: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    says(error, parts);
}

#[tokio::test]
async fn inexact_lease_is_refused_before_any_call() {
    let connection = connect().await;
    let table = TestTable::create("badttl", short_lived, &[]).await;
    let locks = open(&connection, &table.name).await.unwrap();
    let request = || locks.lock(Level::Dc, "a").unwrap();
    for lease in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_micros(999),
        Duration::from_millis(99),
        Duration::from_micros(99_999),
        Duration::from_millis(10_001),
        Duration::from_secs(90),
        Duration::MAX,
    ] {
        let error = request().ttl(lease).try_acquire().await.unwrap_err();
        is(
            &error,
            ErrorKind::Client(ClientErrorKind::InvalidInput),
            &["100ms", "10s", "DC#fra#bad#a"],
        );
    }
    let error = request()
        .ttl(LEASE / 4)
        .skew_margin(LEASE)
        .acquire()
        .await
        .unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::InvalidInput),
        &["margin"],
    );
    assert_eq!(
        locks.show(Level::Dc, "a").await.unwrap().fencing,
        None,
        "nothing was sent"
    );

    // The longest lease that the family's TTL allows, rounded down to whole milliseconds so that
    // the client never claims more than the server grants.
    let guard = request()
        .ttl(Duration::from_millis(10_000))
        .acquire()
        .await
        .unwrap();
    for lease in [Duration::ZERO, Duration::from_secs(11)] {
        let error = locks
            .renew(Level::Dc, "a", guard.token(), lease)
            .await
            .unwrap_err();
        is(&error, ErrorKind::Client(ClientErrorKind::InvalidInput), &["10s"]);
    }
    assert!(guard.release().await.unwrap().is_released());
    let guard = request().ttl(Duration::from_nanos(1_500_999_999)).acquire().await;
    let guard = guard.unwrap();
    let holder = locks.show(Level::Dc, "a").await.unwrap().holder.unwrap();
    assert_eq!(holder.lease, Some(Duration::from_millis(1_500)));
    assert!(guard.is_held());
}

#[tokio::test]
async fn colliding_and_long_names_are_refused_and_the_longest_works() {
    let connection = connect().await;
    let shared = SHARED.get().await;
    let opened = async |client: &str, farm: &str| {
        let options = LockManagerOptions::new(client).farm(farm);
        options.open(&connection, shared.name.clone()).await
    };
    for (client, farm, what) in [
        ("c#d", "f", "'#'"),
        ("c", "f#c", "'#'"),
        ("", "f", "empty client"),
        ("c", "", "empty farm"),
    ] {
        let error = opened(client, farm).await.unwrap_err();
        is(
            &error,
            ErrorKind::Client(ClientErrorKind::InvalidInput),
            &[what, shared.name.qualifier()],
        );
    }
    let options = LockManagerOptions::new("c").holder("h".repeat(257));
    let error = options.open(&connection, shared.name.clone()).await.unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::InvalidInput),
        &["holder", "256"],
    );
    let no_farm = LockManagerOptions::new("c").open(&connection, shared.name.clone());
    let error = no_farm.await.unwrap().lock(Level::Dc, "a").unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::InvalidInput),
        &["farm"],
    );
    says(&error.hint().unwrap(), &["LockManagerOptions::farm", "xdc"]);

    let locks = open(&connection, &shared.name).await.unwrap();
    let error = locks.lock(Level::Dc, "").unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::InvalidInput),
        &["empty lock id", shared.name.qualifier()],
    );
    // HBase's longest row key, less the leading byte and the suffix of a companion row.
    let room = 32_767 - 1 - b"\xff_own".len() - "DC#fra#bad#".len();
    let error = locks.lock(Level::Dc, &"i".repeat(room + 1)).unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::InvalidInput),
        &["bytes"],
    );
    for id in ["#", "a#b", "ключ", &"i".repeat(room)] {
        let guard = locks.lock(Level::Dc, id).unwrap().acquire().await.unwrap();
        assert!(guard.name().ends_with(&format!("#{id}")));
        assert!(guard.release().await.unwrap().is_released());
    }
    let name = LockName::xdc("a", "b#c").unwrap();
    assert_eq!((name.client(), name.id()), ("a", "b#c"));
}

#[tokio::test]
async fn a_token_is_good_for_one_hold_and_once() {
    let connection = connect().await;
    let shared = SHARED.get().await;
    let locks = lock_manager(&connection, &shared.name, CLIENT).await;
    let other = lock_manager(&connection, &shared.name, CLIENT).await;
    let release = async |token: LockToken| locks.release(Level::Dc, "t", token).await.unwrap();
    let renew = async |token: LockToken| locks.renew(Level::Dc, "t", token, LEASE).await.unwrap();
    let never: LockToken = "0123456789abcdef0123456789abcdef".parse().unwrap();

    // A token that was never issued, for a free lock and for a held one.
    assert_eq!(release(never).await, ReleaseOutcome::Lost(LockLoss::Expired));
    let guard = other
        .lock(Level::Dc, "t")
        .unwrap()
        .ttl(LEASE)
        .acquire()
        .await
        .unwrap();
    let taken = |loss: Result<(), LockLoss>| match loss {
        Err(LockLoss::Taken(holder)) => assert_eq!(holder.token, Some(guard.token())),
        other => panic!("{other:?}"),
    };
    match release(never).await {
        ReleaseOutcome::Lost(loss) => taken(Err(loss)),
        other => panic!("{other}"),
    }
    taken(renew(never).await);
    assert!(guard.is_held());
    guard.renew().await.unwrap();

    // A second release of the same token.
    assert_eq!(release(guard.token()).await, ReleaseOutcome::Released);
    assert!(!release(guard.token()).await.is_released());
    assert_eq!(renew(guard.token()).await, Err(LockLoss::Expired));
    assert_eq!(guard.renew().await.unwrap_err().kind(), ErrorKind::LockLost);
    assert!(!guard.is_held());
    assert!(!guard.release().await.unwrap().is_released());

    // An expired lease.
    let request = locks.lock(Level::Dc, "t").unwrap();
    let guard = request.ttl(Duration::from_secs(2)).acquire().await.unwrap();
    assert_eq!(guard.lost().await, LockLoss::Expired);
    let error = guard.renew().await.unwrap_err();
    is(
        &error,
        ErrorKind::LockLost,
        &["DC#fra#bad#t", "lease expired", shared.name.qualifier()],
    );
    let next = other
        .lock(Level::Dc, "t")
        .unwrap()
        .wait(LEASE)
        .acquire()
        .await
        .unwrap();
    assert!(matches!(renew(guard.token()).await, Err(LockLoss::Taken(_))));
    assert!(next.is_held());
    assert!(next.release().await.unwrap().is_released());
}

async fn show(locks: &LockManager, id: &str) -> LockInfo {
    locks.show(Level::Dc, id).await.unwrap()
}

#[tokio::test]
async fn foreign_marker_holds_a_lock_until_it_is_forced() {
    let connection = connect().await;
    let shared = SHARED.get().await;
    let locks = lock_manager(&connection, &shared.name, CLIENT).await;
    let table = shared.of(&connection);
    let garbage = [
        Bytes::new(),
        "?".into(),
        Bytes::from(vec![1; 24]),
        Bytes::from(vec![0; 10]),
        [&[1][..], &[0xff; 48]].concat().into(),
        Bytes::from(vec![1; 1 << 20]),
    ];
    for (number, owner) in garbage.into_iter().enumerate() {
        let id = format!("stranger-{number}");
        let row = lock_row(CLIENT, &id);
        // Shorter than the pause before a second attempt.
        let wait = Duration::from_millis(if number % 2 == 0 { 0 } else { 50 });
        let put = Put::new(row.clone())
            .cell("D", "L", "something else")
            .cell("D", "O", owner)
            .cell("D", "", "no qualifier")
            .cell("D", "other", vec![b'x'; 1 << 16]);
        table.put(put).await.unwrap();
        let request = locks.lock(Level::Dc, &id).unwrap();
        let error = request.clone().wait(wait).acquire().await.unwrap_err();
        is(
            &error,
            ErrorKind::LockUnavailable,
            &["a client that leaves no name", shared.name.qualifier()],
        );
        let holder = show(&locks, &id).await.holder.unwrap();
        assert_eq!((holder.name, holder.token, holder.lease), (None, None, None));
        let listed = locks.list().await.unwrap();
        assert!(
            listed
                .iter()
                .any(|lock| lock.name.as_ref().is_some_and(|name| name.id() == id))
        );
        let hit = locks.force_release(Level::Dc, &id).await.unwrap().unwrap();
        assert_eq!(hit.token, None);
        let guard = request.acquire().await.unwrap();
        assert!(guard.release().await.unwrap().is_released());
        // Cells that do not belong to the lock are left alone.
        let left = table
            .get(hbase_txn::client::Get::new(row))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(left.value("D", "").unwrap(), "no qualifier");
        assert_eq!(left.value("D", "other").unwrap().len(), 1 << 16);
    }
    // An empty marker is not a hold, whatever the other cells; neither is an owner without a
    // marker.
    for (id, marker) in [("empty", Some("")), ("none", None)] {
        for row in [lock_row(CLIENT, id), companion_row(CLIENT, id)] {
            let put = Put::new(row).cell("D", "O", "?").cell("D", "F", "no number");
            let put = match marker {
                Some(marker) => put.cell("D", "L", marker),
                None => put,
            };
            table.put(put).await.unwrap();
        }
        assert_eq!(show(&locks, id).await.holder, None);
        let attempt = locks.lock(Level::Dc, id).unwrap().try_acquire().await;
        // HBase increments only values of eight bytes.
        let error = attempt.unwrap_err();
        is(
            &error,
            ErrorKind::Client(ClientErrorKind::Server),
            &["DC#fra#bad#", "not a long"],
        );
        says(&error.hint().unwrap(), &["delete", "D:F", id]);
        // Follows the hint.
        let delete = Delete::new(companion_row(CLIENT, id)).column("D", "F");
        table.delete(delete).await.unwrap();
        // The client releases in the background the row that the failed attempt won.
        let request = locks.lock(Level::Dc, id).unwrap().wait(LEASE);
        let guard = request.acquire().await.unwrap();
        assert!(guard.release().await.unwrap().is_released());
    }
}

#[tokio::test]
async fn an_empty_marker_alone_is_a_free_lock() {
    let connection = connect().await;
    let shared = SHARED.get().await;
    let locks = lock_manager(&connection, &shared.name, CLIENT).await;
    let other = lock_manager(&connection, &shared.name, CLIENT).await;
    let table = shared.of(&connection);
    let rows = |id: &str| [lock_row(CLIENT, id), companion_row(CLIENT, id)];
    for (id, which) in [
        ("empty-lock", &[0][..]),
        ("empty-own", &[1]),
        ("empty-both", &[0, 1]),
    ] {
        for index in which {
            let put = Put::new(rows(id)[*index].clone()).cell("D", "L", "");
            table.put(put).await.unwrap();
        }
        assert_eq!(show(&locks, id).await.holder, None, "{id}");
        let guard = locks
            .lock(Level::Dc, id)
            .unwrap()
            .ttl(LEASE)
            .acquire()
            .await
            .unwrap();
        let refused = other.lock(Level::Dc, id).unwrap().try_acquire().await.unwrap();
        assert!(refused.is_none(), "{id}");
        guard.renew().await.unwrap();
        assert!(guard.release().await.unwrap().is_released(), "{id}");
    }
}

#[tokio::test]
async fn imitated_owner_cells_are_revoked_by_force() {
    let connection = connect().await;
    let shared = SHARED.get().await;
    let locks = lock_manager(&connection, &shared.name, CLIENT).await;
    let table = shared.of(&connection);
    let (id, token) = ("apart", 7);
    for row in [lock_row(CLIENT, id), companion_row(CLIENT, id)] {
        // The marker and the owner cell of a hold by this library always have the same timestamp.
        let put = Put::new(row).cell_at("D", "L", 1_000_000, "M").cell_at(
            "D",
            "O",
            1_000_001,
            held_cell(token, 1 << 40, "stranger"),
        );
        table.put(put).await.unwrap();
    }
    let request = || locks.lock(Level::Dc, id).unwrap().ttl(LEASE);
    let error = request().acquire().await.unwrap_err();
    is(&error, ErrorKind::LockUnavailable, &["stranger"]);
    let hit = locks.force_release(Level::Dc, id).await.unwrap().unwrap();
    assert_eq!(hit.name.as_deref(), Some("stranger"));
    assert_eq!(show(&locks, id).await.holder, None, "it is free");
    assert_eq!(locks.force_release(Level::Dc, id).await.unwrap(), None);
    let guard = request().acquire().await.unwrap();
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
async fn unfit_table_gives_the_reason_and_other_families_are_fine() {
    let connection = impatient().await;
    let missing = unique_name("nolocks");
    let error = within(DEADLINE, open(&connection, &missing)).await.unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::TableNotFound),
        &["LockManagerOptions::open_or_create", missing.qualifier()],
    );

    let without = TestTable::create("nofamily", plain, &[]).await;
    let error = open(&connection, &without.name).await.unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::FamilyNotFound),
        &["no family D", without.name.qualifier()],
    );
    assert!(error.hint().is_some());

    let besides = |name| shared_with_java(name).with_family(FamilyDescriptor::new("f"));
    let table = TestTable::create("families", besides, &[]).await;
    let locks = open(&connection, &table.name).await.unwrap();
    let row = lock_row(CLIENT, "a");
    let put = Put::new(row.clone()).cell("f", "L", "M").cell("f", "O", "O");
    table.of(&connection).put(put).await.unwrap();
    let guard = locks.lock(Level::Dc, "a").unwrap().acquire().await.unwrap();
    assert!(guard.release().await.unwrap().is_released());
    let left = table
        .of(&connection)
        .get(hbase_txn::client::Get::new(row))
        .await
        .unwrap();
    assert_eq!(left.unwrap().value("f", "L").unwrap(), "M");

    Admin::new(&connection).disable_table(&table.name).await.unwrap();
    let error = within(DEADLINE, open(&connection, &table.name))
        .await
        .unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::TableDisabled),
        &["enable", table.name.qualifier()],
    );
    let request = locks.lock(Level::Dc, "b").unwrap();
    let error = within(DEADLINE, request.acquire()).await.unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::TableDisabled),
        &["enable", "DC#fra#bad#b"],
    );
}

#[tokio::test]
async fn a_table_that_goes_away_ends_whoever_holds_renews_or_waits() {
    let connection = impatient().await;
    for deleted in [false, true] {
        let table = lock_table(&connection, "goes", 1, false).await;
        let locks = open(&connection, &table.name).await.unwrap();
        let other = open(&connection, &table.name).await.unwrap();
        let request = |locks: &LockManager, id| locks.lock(Level::Dc, id).unwrap();
        let held = request(&locks, "held").ttl(LEASE).acquire().await.unwrap();
        let short = Duration::from_secs(2);
        let renewed = request(&locks, "renewed")
            .ttl(short)
            .auto_renew()
            .acquire()
            .await
            .unwrap();
        let waiting = tokio::spawn(request(&other, "held").wait(LEASE * 10).acquire());
        assert_eq!(
            request(&other, "renewed").try_acquire().await.unwrap().map(drop),
            None
        );

        let admin = Admin::new(&connection);
        let kind = if deleted {
            admin.delete_table(&table.name).await.unwrap();
            ClientErrorKind::TableNotFound
        } else {
            admin.disable_table(&table.name).await.unwrap();
            ClientErrorKind::TableDisabled
        };
        let error = within(DEADLINE, waiting).await.unwrap().unwrap_err();
        // HBase disables a table before it deletes it.
        assert!(
            error.kind() == kind || error.kind() == ClientErrorKind::TableDisabled,
            "{error}"
        );
        says(&error, &["DC#fra#bad#held", table.name.qualifier()]);
        let error = within(DEADLINE, held.renew()).await.unwrap_err();
        is(&error, kind.into(), &["DC#fra#bad#held", table.name.qualifier()]);
        assert!(held.is_held(), "its lease goes on as far as anybody knows");
        // Renewals fail, and the lease expires in time.
        assert_eq!(within(short, renewed.lost()).await, LockLoss::Expired);
        let error = within(DEADLINE, held.release()).await.unwrap_err();
        is(&error, kind.into(), &["DC#fra#bad#held", table.name.qualifier()]);
        let error = within(DEADLINE, locks.show(Level::Dc, "held")).await.unwrap_err();
        is(&error, kind.into(), &[table.name.qualifier()]);
        let error = within(DEADLINE, locks.force_release(Level::Dc, "held"))
            .await
            .unwrap_err();
        is(&error, kind.into(), &["DC#fra#bad#held"]);
        let error = within(DEADLINE, locks.list()).await.unwrap_err();
        is(&error, kind.into(), &[table.name.qualifier()]);
    }
}

#[tokio::test]
async fn boundary_in_a_lock_is_named_and_other_locks_work() {
    let connection = impatient().await;
    let no_restriction = |name| TableDescriptor::from(name).with_family(FamilyDescriptor::new("D"));
    let table = TestTable::unmade("cutlock");
    let cut = companion_row(CLIENT, "cut");
    let admin = Admin::new(&connection);
    admin
        .create_table(&no_restriction(table.name.clone()), &[cut])
        .await
        .unwrap();
    let locks = open(&connection, &table.name).await.unwrap();
    let request = locks.lock(Level::Dc, "cut").unwrap();
    let error = within(DEADLINE, request.clone().acquire()).await.unwrap_err();
    is(
        &error,
        ErrorKind::PartitionCut,
        &["region boundary", "DC#fra#bad#cut", table.name.qualifier()],
    );
    says(&error.hint().unwrap(), &["merge"]);
    let guard = locks.lock(Level::Dc, "whole").unwrap().acquire().await.unwrap();
    assert!(guard.release().await.unwrap().is_released());
    table.merge_both(&connection).await;
    let guard = request.acquire().await.unwrap();
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
async fn only_open_or_create_creates_a_missing_table() {
    let connection = connect().await;
    let table = TestTable::unmade("createlocks");
    let options = LockManagerOptions::new(CLIENT).farm("fra");
    let open = |regions| {
        let create = LockTableOptions::from(table.name.clone()).without_java_clients();
        options
            .clone()
            .open_or_create(&connection, create.regions(regions))
    };
    let error = open(258).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
    let error = options
        .clone()
        .open(&connection, table.name.clone())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableNotFound, "{error}");

    let (one, two) = futures::join!(open(3), open(3));
    let guard = one
        .unwrap()
        .lock(Level::Dc, "a")
        .unwrap()
        .acquire()
        .await
        .unwrap();
    let refused = two.unwrap().lock(Level::Dc, "a").unwrap().try_acquire().await;
    assert!(refused.unwrap().is_none());
    assert!(guard.release().await.unwrap().is_released());
    // An existing table is not changed.
    assert!(!open(1).await.unwrap().has_companions());
    assert_eq!(
        Admin::new(&connection).regions(&table.name).await.unwrap().len(),
        3
    );
}
