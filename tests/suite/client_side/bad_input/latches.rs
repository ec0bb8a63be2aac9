//! Invalid latches, and latch tables with foreign cells or schemas.

use std::time::Duration;

use hbase_txn::{
    ClientErrorKind, Error, ErrorKind, Level,
    admin::Admin,
    client::{Connection, FamilyDescriptor, Put, TableDescriptor, TableName},
    latch::{Latch, LatchManager, LatchManagerOptions, LatchTableOptions, WaitOutcome},
};

use crate::support::{
    connect,
    latch_rows::{latch_manager, latch_row, latch_table},
    says, standalone,
    table::{TestTable, plain, unique_name},
    within,
};

const CLIENT: &str = "bad";
const HOUR: Duration = Duration::from_secs(3_600);
const DEADLINE: Duration = Duration::from_secs(5);
const LEVELS: [Level; 2] = [Level::Dc, Level::Xdc];

async fn open(connection: &Connection, name: &TableName) -> Result<LatchManager, Error> {
    LatchManagerOptions::new(CLIENT, "fra")
        .open(connection, name.clone())
        .await
}

fn latch(latches: &LatchManager, level: Level, id: &str) -> Latch {
    latches.latch(level, id).unwrap()
}

/// Asserts that the error has this kind and contains these texts.
#[track_caller]
fn is(error: &Error, kind: ErrorKind, parts: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(!error.is_outcome_unknown(), "{error}");
    says(error, parts);
}

#[tokio::test]
async fn colliding_and_long_names_are_refused_and_the_longest_works() {
    let connection = connect().await;
    let table = latch_table(&connection, "badnames", 1, true).await;
    let (long, longest) = ("f".repeat(256), "f".repeat(255));
    for (client, farm, what) in [
        ("a_b", "fra", "'_'"),
        ("", "fra", "empty client"),
        ("c", "", "empty farm"),
        ("c", long.as_str(), "256 bytes"),
    ] {
        let options = LatchManagerOptions::new(client, farm);
        let error = options.open(&connection, table.name.clone()).await.unwrap_err();
        is(
            &error,
            ErrorKind::Client(ClientErrorKind::InvalidInput),
            &[what, table.name.qualifier()],
        );
    }
    let latches = latch_manager(&connection, &table.name, CLIENT, &longest).await;
    for (id, what) in [(String::new(), "empty latch id"), ("i".repeat(32_763), "bytes")] {
        let error = latches.latch(Level::Dc, &id).unwrap_err();
        is(
            &error,
            ErrorKind::Client(ClientErrorKind::InvalidInput),
            &[what, table.name.qualifier()],
        );
    }
    let ours = latch(&latches, Level::Dc, &"_".repeat(32_762));
    ours.init(2, HOUR).await.unwrap();
    for name in [String::new(), "p".repeat(257)] {
        let error = ours.arrive(&name).await.unwrap_err();
        is(
            &error,
            ErrorKind::Client(ClientErrorKind::InvalidInput),
            &["participant", "256"],
        );
    }
    let arrived = ours.arrive(&"p".repeat(256)).await.unwrap();
    assert_eq!((arrived.left, arrived.counted), (1, true));
}

#[tokio::test]
async fn invalid_lifetimes_are_refused_and_counts_of_zero_do_nothing() {
    let connection = connect().await;
    for family in ["C", "S"] {
        let descriptor = |name| {
            let of = |name| {
                if name == family {
                    FamilyDescriptor::new(name).with_attribute("TTL", "10")
                } else {
                    FamilyDescriptor::new(name)
                }
            };
            TableDescriptor::from(name)
                .with_family(of("C"))
                .with_family(of("S"))
        };
        let table = TestTable::create("badlives", descriptor, &[]).await;
        let latches = open(&connection, &table.name).await.unwrap();
        for level in LEVELS {
            let ours = latch(&latches, level, &level.to_string());
            for life in [
                Duration::ZERO,
                Duration::from_millis(99),
                Duration::from_micros(99_999),
                Duration::from_millis(10_001),
                Duration::MAX,
            ] {
                let error = ours.init(1, life).await.unwrap_err();
                is(
                    &error,
                    ErrorKind::Client(ClientErrorKind::InvalidInput),
                    &["100ms", "10s", ours.key()],
                );
            }
            ours.init(3, Duration::from_secs(10)).await.unwrap();
            assert_eq!(ours.count_down(0).await.unwrap().left, 3);
            assert_eq!(ours.count_up(0).await.unwrap().left, 3);
            for by in [u64::MAX, 1 << 63] {
                for counted in [ours.count_up(by).await, ours.count_down(by).await] {
                    is(
                        &counted.unwrap_err(),
                        ErrorKind::Client(ClientErrorKind::InvalidInput),
                        &["count of"],
                    );
                }
            }
            let error = ours.count_up((1 << 63) - 1).await.unwrap_err();
            is(
                &error,
                ErrorKind::Client(ClientErrorKind::InvalidInput),
                &["eight bytes"],
            );
            let error = ours.count_down((1 << 63) - 1).await.unwrap_err();
            is(
                &error,
                ErrorKind::Client(ClientErrorKind::LimitExceeded),
                &["only 3 left"],
            );
            assert_eq!(ours.show().await.unwrap().count, Some(3));
        }
    }
}

#[tokio::test]
async fn a_table_that_is_not_for_latches_or_is_not_served_says_so() {
    let connection = connect().await;
    let missing = unique_name("badnone");
    is(
        &open(&connection, &missing).await.unwrap_err(),
        ErrorKind::Client(ClientErrorKind::TableNotFound),
        &["LatchManagerOptions::open_or_create", missing.qualifier()],
    );
    let other = TestTable::create("badother", plain, &[]).await;
    is(
        &open(&connection, &other.name).await.unwrap_err(),
        ErrorKind::Client(ClientErrorKind::FamilyNotFound),
        &["family C", other.name.qualifier()],
    );
    for regions in [0, 258] {
        let options = LatchTableOptions::from(unique_name("badregions")).regions(regions);
        let error = options.create(&Admin::new(&connection)).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
    }

    let config = standalone().config().with_operation_timeout(DEADLINE);
    let impatient = Connection::builder(config).connect().await.unwrap();
    let table = latch_table(&connection, "baddisabled", 1, true).await;
    let latches = open(&impatient, &table.name).await.unwrap();
    let ours = latch(&latches, Level::Dc, "a");
    ours.init(2, HOUR).await.unwrap();
    Admin::new(&connection).disable_table(&table.name).await.unwrap();
    let error = open(&impatient, &table.name).await.unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::TableDisabled),
        &["enable"],
    );
    for counted in [
        within(DEADLINE, ours.count_down(1)).await,
        within(DEADLINE, ours.arrive("one")).await,
    ] {
        is(
            &counted.unwrap_err(),
            ErrorKind::Client(ClientErrorKind::TableDisabled),
            &[ours.key()],
        );
    }
    let error = within(DEADLINE, ours.init(1, HOUR)).await.unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::TableDisabled),
        &[ours.key()],
    );

    // The table is deleted while a task waits.
    Admin::new(&connection).enable_table(&table.name).await.unwrap();
    let waiter = ours.clone();
    let waiting = tokio::spawn(async move { waiter.wait(HOUR).await });
    assert_eq!(ours.count_down(1).await.unwrap().left, 1);
    Admin::new(&connection).delete_table(&table.name).await.unwrap();
    let error = within(DEADLINE * 4, waiting).await.unwrap().unwrap_err();
    assert!(
        matches!(
            error.kind(),
            ErrorKind::Client(ClientErrorKind::TableNotFound)
                | ErrorKind::Client(ClientErrorKind::TableDisabled)
        ),
        "{error}"
    );
    let error = within(DEADLINE, ours.count_down(1)).await.unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::TableNotFound),
        &[ours.key()],
    );
    // Recreates the table, because the test deletes it at its end.
    assert!(
        LatchTableOptions::from(table.name.clone())
            .regions(1)
            .create(&Admin::new(&connection))
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn foreign_cells_in_a_latch_are_named_and_not_counted() {
    let connection = connect().await;
    for has_state in [true, false] {
        let table = latch_table(&connection, "badcells", 1, has_state).await;
        let latches = open(&connection, &table.name).await.unwrap();
        let data = table.of(&connection);
        let mut cells = vec![
            ("C", "count_fra", &b"1234567"[..], "has 7 bytes", true),
            ("C", "count_fra", b"123456789", "has 9 bytes", true),
            ("C", "count_fra", b"", "has 0 bytes", true),
            // The sum of all farms covers every cell of the family.
            ("C", "other", b"12345678", "is no count", false),
            ("C", "count_nyc", b"short", "has 5 bytes", false),
        ];
        if has_state {
            cells.push(("S", "nfra", b"\x09", "is no note", true));
            cells.push(("S", "n", b"\x01short", "is no note", false));
        }
        for (number, (family, column, value, what, own)) in cells.into_iter().enumerate() {
            for level in LEVELS {
                let id = format!("{level}-{number}");
                let ours = latch(&latches, level, &id);
                ours.init(3, HOUR).await.unwrap();
                let stranger = Put::new(latch_row(CLIENT, &id)).cell(family, column, value);
                data.put(stranger).await.unwrap();
                let is_seen = match (level, family) {
                    (Level::Dc, _) => own,
                    (_, "S") => !own,
                    _ => true,
                };
                if !is_seen {
                    assert_eq!(ours.count_down(1).await.unwrap().left, 2, "{column}");
                    continue;
                }
                let parts = [what, column, ours.key()];
                is(&ours.show().await.unwrap_err(), ErrorKind::LatchCorrupt, &parts);
                is(
                    &ours.count_down(1).await.unwrap_err(),
                    ErrorKind::LatchCorrupt,
                    &parts,
                );
                is(
                    &ours.init(1, HOUR).await.unwrap_err(),
                    ErrorKind::LatchCorrupt,
                    &parts,
                );
                let waited = within(DEADLINE, ours.wait(HOUR)).await;
                is(&waited.unwrap_err(), ErrorKind::LatchCorrupt, &parts);
            }
        }
        // A waiter for another latch of the table is not affected.
        let good = latch(&latches, Level::Xdc, "good");
        good.init(1, HOUR).await.unwrap();
        let waiter = good.clone();
        let waiting = tokio::spawn(async move { waiter.wait(HOUR).await });
        let bad = latch(&latches, Level::Dc, "DC-0");
        let waited = within(DEADLINE, bad.wait(HOUR)).await;
        assert_eq!(waited.unwrap_err().kind(), ErrorKind::LatchCorrupt);
        good.count_down(1).await.unwrap();
        let told = within(DEADLINE, waiting).await.unwrap().unwrap();
        assert_eq!(told, WaitOutcome::Reached);
    }
}

#[tokio::test]
async fn too_many_participants_are_refused_and_the_others_kept() {
    const MOST: u64 = 1_000;
    let connection = connect().await;
    let table = latch_table(&connection, "badcrowd", 1, true).await;
    let latches = open(&connection, &table.name).await.unwrap();
    let ours = latch(&latches, Level::Dc, "crowd");
    ours.init(MOST + 10, HOUR).await.unwrap();
    for number in 0..MOST {
        let arrived = ours.arrive(&number.to_string()).await.unwrap();
        assert_eq!((arrived.left, arrived.counted), (MOST + 9 - number, true));
    }
    let error = ours.arrive("one more").await.unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::LimitExceeded),
        &["1000", "participants", ours.key()],
    );
    for number in [0, MOST / 2, MOST - 1] {
        assert!(!ours.arrive(&number.to_string()).await.unwrap().counted);
    }
    assert_eq!(ours.count_down(10).await.unwrap().left, 0);
    assert_eq!(ours.show().await.unwrap().arrived, Some(1_000));
    // A latch that is created again has room for as many participants.
    assert!(ours.delete().await.unwrap());
    ours.init(1, HOUR).await.unwrap();
    assert!(ours.arrive("one more").await.unwrap().counted);
}

#[tokio::test]
async fn only_open_or_create_creates_a_missing_table() {
    let connection = connect().await;
    let table = TestTable::unmade("createlatches");
    let options = LatchManagerOptions::new(CLIENT, "fra");
    let error = open(&connection, &table.name).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableNotFound, "{error}");

    let create = LatchTableOptions::from(table.name.clone())
        .no_state_family()
        .regions(2);
    for _ in 0..2 {
        let latches = options
            .clone()
            .open_or_create(&connection, create.clone())
            .await
            .unwrap();
        assert!(!latches.has_state_family());
    }
    assert_eq!(
        Admin::new(&connection).regions(&table.name).await.unwrap().len(),
        2
    );
}
