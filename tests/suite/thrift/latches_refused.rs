//! Operations on latches that a gateway does not allow, and cells that are no latch.

use std::time::Duration;

use hbase_txn::{
    ClientErrorKind, Error, ErrorKind, Level, Result,
    admin::Admin,
    client::{Increment, Put, TableName},
    latch::{LatchState, WaitOutcome},
    thrift::{ThriftLatchManager, ThriftLatchManagerOptions},
};

use super::{GATEWAY, gateway, latches_of};
use crate::support::{
    connect, eventually,
    latch_rows::{latch_manager, latch_row, latch_table},
    says,
    table::{TestTable, plain},
};

const HOUR: Duration = Duration::from_secs(3_600);
const LEVELS: [Level; 2] = [Level::Dc, Level::Xdc];
const CLIENT: &str = "svc";

fn is(error: &Error, kind: ErrorKind, parts: &[&str]) {
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(!error.is_outcome_unknown(), "{error:?}");
    says(error, parts);
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn tables_and_names_in_which_no_latch_can_be_are_refused() {
    let _gateway = GATEWAY.read().await;
    let (connection, gateway) = (connect().await, gateway().await);
    let open = async |client: &str, farm: &str, table: &TableName| -> Result<ThriftLatchManager> {
        let options = ThriftLatchManagerOptions::new(client, farm);
        options.open(&gateway, table.clone()).await
    };
    let missing = "thrift_no_such_latches".parse().unwrap();
    let error = open(CLIENT, "fra", &missing).await.unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::TableNotFound),
        &[
            "looking at the table",
            "thrift_no_such_latches",
            "LatchManagerOptions::open_or_create",
            "server 127.0.0.1",
        ],
    );
    let other = TestTable::create("thrift-nolatch", plain, &[]).await;
    let error = open(CLIENT, "fra", &other.name).await.unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::FamilyNotFound),
        &["no family C", "made for latches"],
    );
    Admin::new(&connection).disable_table(&other.name).await.unwrap();
    // The gateway learns of it when its cache turns out to be wrong.
    eventually("the gateway knows that the table is disabled", async || {
        let kind = open(CLIENT, "fra", &other.name).await.unwrap_err().kind();
        (kind == ClientErrorKind::TableDisabled).then_some(())
    })
    .await;
    let table = latch_table(&connection, "thrift-badlatch", 1, true).await;
    for (client, farm) in [
        ("a_b", "fra"),
        ("", "fra"),
        (CLIENT, ""),
        (CLIENT, &*"f".repeat(256)),
    ] {
        let error = open(client, farm, &table.name).await.unwrap_err();
        is(
            &error,
            ErrorKind::Client(ClientErrorKind::InvalidInput),
            &["opening for latches"],
        );
    }
    let latches = open(CLIENT, "fra", &table.name).await.unwrap();
    assert!(latches.has_state_family());
    for id in [String::new(), "i".repeat(40_000)] {
        let error = latches.latch(Level::Dc, &id).unwrap_err();
        is(
            &error,
            ErrorKind::Client(ClientErrorKind::InvalidInput),
            &["naming a latch"],
        );
    }
    let ours = latches.latch(Level::Dc, "a").unwrap();
    for life in [Duration::from_millis(99), Duration::from_secs(367 * 24 * 3_600)] {
        let error = ours.init(1, life).await.unwrap_err();
        is(
            &error,
            ErrorKind::Client(ClientErrorKind::InvalidInput),
            &["out of range", "100ms", ours.key()],
        );
    }
    let most = i64::MAX.unsigned_abs();
    let error = ours.init(most + 1, HOUR).await.unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::InvalidInput),
        &["at most 9223372036854775807"],
    );
    ours.init(most, HOUR).await.unwrap();
    let error = ours.count_up(1).await.unwrap_err();
    is(
        &error,
        ErrorKind::Client(ClientErrorKind::InvalidInput),
        &["eight bytes"],
    );
    assert_eq!(ours.count_down(most).await.unwrap().left, 0);
    for error in [ours.count_down(u64::MAX).await, ours.count_up(most + 1).await] {
        is(
            &error.unwrap_err(),
            ErrorKind::Client(ClientErrorKind::InvalidInput),
            &[ours.key()],
        );
    }
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn gateway_without_notes_only_shows_waits_and_deletes() {
    let _gateway = GATEWAY.read().await;
    let (connection, gateway) = (connect().await, gateway().await);
    let table = latch_table(&connection, "thrift-nonotes", 1, false).await;
    let latches = latches_of(&gateway, &table.name, CLIENT, "fra").await;
    assert!(!latches.has_state_family());
    let native = latch_manager(&connection, &table.name, CLIENT, "fra").await;
    for level in LEVELS {
        let id = format!("a-{level}");
        let (ours, theirs) = (
            latches.latch(level, &id).unwrap(),
            native.latch(level, &id).unwrap(),
        );
        let refused = "without which a gateway changes no latch";
        let error = ours.init(2, HOUR).await.unwrap_err();
        is(
            &error,
            ErrorKind::Client(ClientErrorKind::FamilyNotFound),
            &[refused, "add the family"],
        );
        theirs.init(2, HOUR).await.unwrap();
        for counted in [ours.count_down(1).await, ours.count_up(1).await] {
            is(
                &counted.unwrap_err(),
                ErrorKind::Client(ClientErrorKind::FamilyNotFound),
                &[refused],
            );
        }
        let info = ours.show().await.unwrap();
        assert_eq!(
            (info.state, info.count, info.ends),
            (LatchState::Open, Some(2), None)
        );
        theirs.count_down(2).await.unwrap();
        assert_eq!(ours.wait(HOUR).await.unwrap(), WaitOutcome::Reached);
        assert!(ours.delete().await.unwrap());
        assert_eq!(theirs.show().await.unwrap().state, LatchState::Absent);
    }
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn cells_that_a_gateway_cannot_identify_are_named() {
    let _gateway = GATEWAY.read().await;
    let (connection, gateway) = (connect().await, gateway().await);
    let table = latch_table(&connection, "thrift-cells", 1, true).await;
    let (latches, data) = (
        latches_of(&gateway, &table.name, CLIENT, "fra").await,
        table.of(&connection),
    );
    for (number, (family, column, value, what)) in [
        ("C", "count_fra", &b"1234567"[..], "has 7 bytes"),
        ("C", "other", b"12345678", "is no count"),
        ("S", "n", b"\x09", "is no note"),
        // A note that is shorter than it declares.
        (
            "S",
            "n",
            b"\x01sequence1234\x04\0\0\0\0\0\0\0\0\xff\xff",
            "is no note",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("stranger-{number}");
        let ours = latches.latch(Level::Xdc, &id).unwrap();
        ours.init(3, HOUR).await.unwrap();
        let stranger = Put::new(latch_row(CLIENT, &id)).cell(family, column, value);
        data.put(stranger).await.unwrap();
        for error in [
            ours.count_down(1).await.map(drop),
            ours.show().await.map(drop),
            ours.wait(HOUR).await.map(drop),
        ] {
            is(
                &error.unwrap_err(),
                ErrorKind::LatchCorrupt,
                &[column, what, ours.key()],
            );
        }
    }
    // A Java client counts down a missing latch. The cell may be a latch that Java clients created
    // and counted below zero, or a remnant of one.
    let count = |id: &str, by| Increment::new(latch_row(CLIENT, id)).column("C", "count_fra", by);
    data.increment(count("late", -1)).await.unwrap();
    let late = latches.latch(Level::Dc, "late").unwrap();
    for error in [
        late.init(2, HOUR).await,
        late.show().await.map(drop),
        late.wait(HOUR).await.map(drop),
    ] {
        let parts = ["the count is -1", "delete the latch", late.key()];
        is(&error.unwrap_err(), ErrorKind::LatchCorrupt, &parts);
    }
    assert!(late.delete().await.unwrap());
    late.init(2, HOUR).await.unwrap();
    assert_eq!(late.show().await.unwrap().count, Some(2));
    // The remnant of a sum of farms is no latch, and is not part of the next one.
    data.increment(count("farms", -1)).await.unwrap();
    let farms = latches.latch(Level::Xdc, "farms").unwrap();
    assert_eq!(farms.show().await.unwrap().state, LatchState::Absent);
    farms.init(2, HOUR).await.unwrap();
    assert_eq!(farms.show().await.unwrap().count, Some(2));
}
