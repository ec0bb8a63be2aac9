//! Updates: read, change and commit, repeated after a conflict.

use std::{
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures::FutureExt;
use hbase_txn::{
    ClientErrorKind, Error, ErrorKind, PartitionedTable, Result, TableDescriptorExt, UpdateOptions,
    UpdateView, Updated,
    admin::Admin,
    client::{Delete, Get, Put, TableDescriptor, TableName},
};
use tokio::{runtime::Handle, task::block_in_place};

use crate::support::{
    connect, eventually, put,
    table::{SharedTable, TestTable, by_three, recorded},
};

static TABLE: SharedTable = SharedTable::new("updates", recorded, &["m"]);
static VERSIONED: SharedTable = SharedTable::new("updates_versioned", versioned, &["m"]);
static BARE: SharedTable = SharedTable::new("updates_bare", by_three, &[]);

fn versioned(name: TableName) -> TableDescriptor {
    recorded(name).with_partition_version()
}

fn count(view: &mut UpdateView<'_>, row: &'static str) -> Result<u32> {
    let value = view.value(row, "f", "q")?;
    Ok(value.map_or(0, |value| std::str::from_utf8(value).unwrap().parse().unwrap()))
}

async fn text(table: &PartitionedTable, row: &'static str) -> Option<String> {
    let row = table.table().get(Get::new(row)).await.unwrap()?;
    Some(String::from_utf8_lossy(row.value("f", "q")?).into_owned())
}

/// Runs a future in the middle of an update, as another client would.
fn meanwhile(future: impl Future) {
    block_in_place(|| {
        Handle::current().block_on(future);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn no_update_of_many_at_once_is_lost() {
    let connection = connect().await;
    for (shared, prefix) in [(&TABLE, "cnt"), (&VERSIONED, "cnt")] {
        let shared = shared.get().await;
        let table = shared.open(&connection).await;
        let add = async || {
            for _ in 0..10 {
                let options = UpdateOptions::new().attempts(1_000);
                let updated = table
                    .update_with(prefix, options, |view| {
                        let number = count(view, "cnt1")? + 1;
                        view.put(put("cnt1", number.to_string()))?;
                        Ok::<_, Error>(number)
                    })
                    .await
                    .unwrap();
                assert!(matches!(updated, Updated::Done { .. }));
            }
        };
        futures::future::join_all((0..8).map(|_| add())).await;
        assert_eq!(text(&table, "cnt1").await.unwrap(), "80");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn update_rereads_rows_changed_since_its_read() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    table.table().put(put("agaa", "1")).await.unwrap();
    let mut runs = 0;
    let updated = table
        .update("aga", |view| {
            let seen = count(view, "agaa")?;
            assert_eq!(view.value("agab", "f", "q")?.is_none(), runs < 2);
            runs += 1;
            match runs {
                1 => meanwhile(table.table().put(put("agaa", "2"))),
                2 => meanwhile(table.table().put(put("agab", "there"))),
                _ => {}
            }
            view.put(put("agac", seen.to_string()))?;
            Ok::<_, Error>(seen)
        })
        .await
        .unwrap();
    assert!(
        matches!(
            updated,
            Updated::Done {
                value: 2,
                attempts: 3,
                ..
            }
        ),
        "{updated:?}"
    );
    assert_eq!(text(&table, "agac").await.unwrap(), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_added_to_a_read_range_is_noticed_with_versions_only() {
    let connection = connect().await;
    for (shared, attempts) in [(&VERSIONED, 2), (&TABLE, 1)] {
        let shared = shared.get().await;
        let table = shared.open(&connection).await;
        let mut runs = 0;
        let updated = table
            .update("pha", |view| {
                let rows = view.rows("phaa", "phab")?.len();
                runs += 1;
                if runs == 1 {
                    let other = table.transaction("pha").put(put("phaa1", "v"));
                    meanwhile(async { assert!(other.commit().await.is_committed()) });
                }
                view.put(put("phasum", rows.to_string()))?;
                Ok::<_, Error>(())
            })
            .await
            .unwrap();
        assert!(
            matches!(updated, Updated::Done { attempts: made, .. } if made == attempts),
            "{updated:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_always_comes_too_late_gives_up_and_says_why() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let mut runs = 0;
    let error = table
        .update_with("lat", UpdateOptions::new().attempts(3), |view| {
            view.value("lat1", "f", "q")?;
            runs += 1;
            meanwhile(table.table().put(put("lat1", runs.to_string())));
            view.put(put("lat2", "v"))?;
            Ok::<_, Error>(())
        })
        .await
        .unwrap_err();
    assert_eq!((error.kind(), runs), (ErrorKind::Conflict, 3), "{error}");
    assert!(error.to_string().contains("lat1 f:q"), "{error}");
    assert_eq!(text(&table, "lat2").await, None);
}

#[tokio::test]
async fn a_closure_that_fails_or_panics_leaves_nothing_behind() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let error = table
        .update("fai", |view| {
            view.put(put("fai1", "v"))?;
            Err::<(), Box<dyn std::error::Error + Send + Sync>>("as I like".into())
        })
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "as I like");
    let panics = table.update("fai", |view| -> Result<()> {
        view.put(put("fai1", "v"))?;
        panic!("as the test wants it")
    });
    assert!(AssertUnwindSafe(panics).catch_unwind().await.is_err());
    assert_eq!(text(&table, "fai1").await, None);
    // The partition is not locked.
    let free = table
        .update("fai", |view| view.put(put("fai2", "v")).map(|_| ()))
        .await;
    free.unwrap();
}

#[tokio::test]
async fn a_closure_that_never_ends_its_reads_is_ended_by_them() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let limit = Duration::from_millis(300);
    let table = shared.open(&connection).await.with_operation_timeout(limit);
    let began = Instant::now();
    let error = table
        .update("nev", |view| -> Result<()> {
            loop {
                view.value("nev1", "f", "q")?;
            }
        })
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error}");
    assert!(began.elapsed() < limit + Duration::from_secs(2));
    let patient = table.clone().with_operation_timeout(Duration::from_secs(30));
    let error = patient
        .update("nev", |view| -> Result<()> {
            for number in 0.. {
                view.value(format!("nev{number}"), "f", "q")?;
            }
            Ok(())
        })
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::LimitExceeded, "{error}");
}

#[tokio::test]
async fn an_update_with_an_id_is_made_once() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let runs = AtomicUsize::new(0);
    let request = UpdateOptions::new().id("request");
    for made in [true, false, false] {
        let updated = table
            .update_with("onc", request.clone(), |view| {
                runs.fetch_add(1, Ordering::Relaxed);
                let number = count(view, "onc1")? + 1;
                view.put(put("onc1", number.to_string())).map(|_| ())
            })
            .await
            .unwrap();
        assert_eq!(updated == Updated::Replayed, !made);
    }
    assert_eq!(runs.into_inner(), 1);
    assert_eq!(text(&table, "onc1").await.unwrap(), "1");
    // A transaction with the id of an update is a different operation.
    let transaction = table.transaction("onc").id("request").put(put("onc2", "v"));
    let outcome = transaction.commit().await;
    assert_eq!(outcome.error().unwrap().kind(), ErrorKind::IdReused, "{outcome}");
}

#[tokio::test]
async fn successive_updates_see_deletes_and_puts() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    for round in 0..100 {
        let deleted = table.update("seq", |view| {
            view.row("seq1")?;
            view.delete(Delete::new("seq1")).map(|_| ())
        });
        deleted.await.unwrap();
        let written = table.update("seq", |view| {
            assert!(view.row("seq1")?.is_none());
            view.put(Put::new("seq1").cell("f", "q", round.to_string()))
                .map(|_| ())
        });
        written.await.unwrap();
        assert_eq!(text(&table, "seq1").await, Some(round.to_string()));
    }
}

#[tokio::test]
async fn a_table_without_records_is_updated_only_on_demand() {
    let connection = connect().await;
    let shared = BARE.get().await;
    let table = shared.open(&connection).await;
    let change = |view: &mut UpdateView<'_>| view.put(put("bar1", "v")).map(|_| ());
    let error = table.update("bar", change).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RecordFamilyMissing, "{error}");
    let unrecorded = UpdateOptions::new().without_record();
    table.update_with("bar", unrecorded, change).await.unwrap();
    assert_eq!(text(&table, "bar1").await.unwrap(), "v");
}

#[tokio::test]
async fn versions_that_a_table_gets_are_noticed_by_who_has_it_open() {
    let connection = connect().await;
    let table = TestTable::create("gets_versions", recorded, &[]).await;
    let opened = table.open(&connection).await;
    let admin = Admin::new(&connection);
    let descriptor = admin.descriptor(&table.name).await.unwrap();
    admin
        .modify_table(&descriptor.with_partition_version())
        .await
        .unwrap();
    eventually("the change is noticed", async || {
        let transaction = opened.transaction("xxx").put(put("xxx1", "v"));
        let outcome = transaction.commit().await;
        let error = outcome.error()?;
        (error.kind() == ErrorKind::PartitionRuleChanged).then_some(())
    })
    .await;
}
