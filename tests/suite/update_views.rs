//! The reads of an update's closure: a range of rows, not its own writes, and results of other
//! calls that it awaits.

use futures::future::BoxFuture;
use hbase_txn::{
    ClientErrorKind, Error, PartitionedTable, Result, TableDescriptorExt, UpdateOptions, UpdateView, Updated,
    client::{Get, Increment, Put, Table, TableDescriptor, TableName},
};

use crate::support::{
    connect, put, says,
    table::{SharedTable, by_three, recorded},
};

static TABLE: SharedTable = SharedTable::new("update_views", recorded, &["m"]);
static VERSIONED: SharedTable = SharedTable::new("update_views_versioned", versioned, &["m"]);
static BARE: SharedTable = SharedTable::new("update_views_bare", by_three, &[]);

fn versioned(name: TableName) -> TableDescriptor {
    recorded(name).with_partition_version()
}

async fn number(table: &PartitionedTable, row: &'static str) -> Option<i64> {
    let row = table.table().get(Get::new(row)).await.unwrap()?;
    row.get("f", "n").unwrap()
}

fn balance(row: &'static str, number: i64) -> Put {
    Put::new(row).cell("f", "n", number)
}

fn read(view: &mut UpdateView<'_>, row: &str) -> Result<i64> {
    Ok(view.get::<i64>(row, "f", "n")?.unwrap_or(0))
}

fn attempts<T>(updated: &Updated<T>) -> u32 {
    match updated {
        Updated::Done { attempts, .. } => *attempts,
        other => panic!("replayed: {}", matches!(other, Updated::Replayed)),
    }
}

fn refused(updated: Result<Updated<()>>, parts: &[&str]) {
    let error = updated.map(drop).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
    says(&error, parts);
}

/// Adds one to the value that it reads. Another client may change the value meanwhile.
fn interfering<'v>(
    view: &'v mut UpdateView<'_>,
    other: Table,
    interfere: bool,
) -> BoxFuture<'v, Result<i64>> {
    Box::pin(async move {
        let number = read(view, "asy1")?;
        if interfere {
            other.put(balance("asy1", 7)).await?;
        }
        view.put(balance("asy1", number + 1))?;
        Ok(number)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn async_closure_waits_and_is_repeated_after_a_conflict() {
    let shared = TABLE.get().await;
    let table = shared.open(&connect().await).await;
    table.table().put(balance("asy1", 5)).await.unwrap();
    let (updating, other) = (table.clone(), table.table().clone());
    let update = async move {
        let mut interfere = true;
        updating
            .update_async("asy", UpdateOptions::new(), |view| {
                interfering(view, other.clone(), std::mem::take(&mut interfere))
            })
            .await
    };
    let updated = tokio::spawn(update).await.unwrap().unwrap();
    assert_eq!(attempts(&updated), 2);
    assert_eq!(updated.into_value(), Some(7));
    assert_eq!(number(&table, "asy1").await, Some(8));
    let failed = table
        .update_async("asy", UpdateOptions::new().id("asy-1"), |view| {
            Box::pin(async move {
                view.put(balance("asy1", 0))?;
                Err::<(), _>(Error::invalid("as the closure wants it"))
            })
        })
        .await;
    says(&failed.map(drop).unwrap_err(), &["as the closure wants it"]);
    assert_eq!(number(&table, "asy1").await, Some(8));
}

#[tokio::test(flavor = "multi_thread")]
async fn update_of_a_range_reads_only_its_rows() {
    for (shared, bound) in [(&TABLE, "ran"), (&BARE, "ran"), (&VERSIONED, "ran")] {
        let shared = shared.get().await;
        let table = shared.open(&connect().await).await;
        for row in ["rana", "ranb", "ranc", "rand"] {
            table.table().put(balance(row, 1)).await.unwrap();
        }
        let range = || {
            let options = UpdateOptions::new().without_record();
            options
                .start_row(format!("{bound}b"))
                .stop_row(format!("{bound}d"))
        };
        let updated = table
            .update_with("ran", range(), |view| {
                let rows = view.rows("", "")?;
                let sum: i64 = rows
                    .iter()
                    .filter_map(|row| row.get::<i64>("f", "n").unwrap())
                    .sum();
                // Outside of the range that is read.
                view.put(balance("rand", 10 * sum))?;
                Ok::<_, Error>(rows.len())
            })
            .await
            .unwrap();
        assert_eq!((attempts(&updated), updated.into_value()), (1, Some(2)));
        assert_eq!(number(&table, "rand").await, Some(20));
        let with_prefix = UpdateOptions::new().without_record().rows_with_prefix("ranb");
        let prefixed = table.update_with("ran", with_prefix, |view| {
            assert!(view.row("rana").is_err(), "outside of the range");
            view.rows_with_prefix("ranb").map(<[_]>::len)
        });
        assert_eq!(prefixed.await.unwrap().into_value(), Some(1));

        let outside = &["outside of the range of the update, from ranb to rand"];
        let read_row = |row: &'static str| {
            let table = table.clone();
            async move {
                table
                    .update_with("ran", range(), |view| view.row(row).map(drop))
                    .await
            }
        };
        refused(read_row("rana").await, outside);
        refused(read_row("rand").await, outside);
        read_row("ranb").await.unwrap();
        for (start, stop) in [("rana", "ranc"), ("ranc", "rane"), ("", "rane")] {
            let read = table.update_with("ran", range(), |view| view.rows(start, stop).map(drop));
            refused(read.await, outside);
        }
        let cell = table.update_with("ran", range(), |view| read(view, "rana").map(drop));
        refused(cell.await, outside);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn update_of_a_range_notices_changes_in_it_and_with_versions_beside_it() {
    for (shared, row, expected) in [
        (&TABLE, "notb", 2),
        (&TABLE, "notz", 1),
        (&VERSIONED, "notb", 2),
        (&VERSIONED, "notz", 2),
    ] {
        let shared = shared.get().await;
        let table = shared.open(&connect().await).await;
        table.table().put(balance("notb", 1)).await.unwrap();
        let mut interfere = true;
        let options = UpdateOptions::new().start_row("notb").stop_row("notc");
        let updated = table
            .update_async("not", options, |view| {
                let other = std::mem::take(&mut interfere).then(|| table.transaction("not"));
                Box::pin(async move {
                    let number = read(view, "notb")?;
                    if let Some(other) = other {
                        other.put(balance(row, 5)).commit().await.into_result()?;
                    }
                    view.put(balance("nota", number))?;
                    Ok::<_, Error>(())
                })
            })
            .await
            .unwrap();
        assert_eq!(attempts(&updated), expected, "{row}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_that_the_update_has_written_is_not_read() {
    let shared = TABLE.get().await;
    let table = shared.open(&connect().await).await;
    table.table().put(balance("wri1", 1)).await.unwrap();
    type Read = fn(&mut UpdateView<'_>) -> Result<()>;
    let reads: [Read; 4] = [
        |view| view.get::<i64>("wri1", "f", "n").map(drop),
        |view| view.cell("wri1", "f", "other").map(drop),
        |view| view.row("wri1").map(drop),
        |view| view.rows("", "").map(drop),
    ];
    for read in reads {
        let updated = table.update("wri", |view| {
            view.put(balance("wri1", 2))?;
            read(view)
        });
        refused(updated.await, &["cannot read row wri1", "has written it"]);
    }
    // Rows that the update has not written can still be read.
    let updated = table.update("wri", |view| {
        view.put(put("wri2", "v"))?;
        view.rows("wri", "wri2")?;
        read(view, "wri3")
    });
    updated.await.unwrap();
    assert_eq!(number(&table, "wri1").await, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn transfer_from_an_account_to_itself_is_refused_or_adds_up() {
    let shared = TABLE.get().await;
    let table = shared.open(&connect().await).await;
    table.table().put(balance("self", 100)).await.unwrap();
    let (from, to) = ("self", "self");
    let one_after_the_other = table.update("sel", |view| {
        let debited = read(view, from)? - 30;
        view.put(balance(from, debited))?;
        let credited = read(view, to)? + 30;
        view.put(balance(to, credited)).map(drop)
    });
    refused(one_after_the_other.await, &["cannot read row self"]);
    assert_eq!(number(&table, "self").await, Some(100));
    let by_increments = table.update("sel", |view| {
        read(view, from)?;
        view.increment(Increment::new(from).column("f", "n", -30))?;
        view.increment(Increment::new(to).column("f", "n", 30)).map(drop)
    });
    by_increments.await.unwrap();
    assert_eq!(number(&table, "self").await, Some(100));
}
