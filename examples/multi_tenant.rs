//! Multi-tenant rows: each tenant is a partition, can't reach another one's rows, and keeps within
//! its quota.
//!
//! | row | cell | |
//! |---|---|---|
//! | `TENANT/document/NAME` | `f:body` | a document |
//! | `TENANT/quota` | `f:granted` | the quota of the tenant in bytes, a counter |
//! | | `f:left` | the unused part of the quota in bytes, a counter |
//!
//! A partition is the bytes before the first `/`: no tenant's name has one.
//!
//! **Conditions.** Storing: the document is absent, and the rest of the quota is enough for it.
//! Removing: the body is unchanged since it was read.
//!
//! **Invariant.** In every snapshot `f:left` and the sizes of all documents add up to `f:granted`,
//! and nothing is below zero.
//!
//! **Failures.** If two documents compete for the rest of the quota, one is rejected, and the
//! rejection names the condition. A row of another tenant is refused when it is added, and nothing
//! is sent. A batch over tenants is one transaction and one outcome for each: no tenant waits for
//! another, and a failure affects one tenant only. After a lost answer a commit with a record is
//! sent again, and is applied once.
//!
//! Run: `HBASE_TXN_CONNECT=… cargo run --example multi_tenant`

use bytes::Bytes;
use hbase_txn::{
    ErrorKind, Outcome, PartitionRule, PartitionedTable, Result,
    client::{Comparison, Condition, Connection, Delete, Get, Increment, Put},
};

mod support;

/// The result of storing a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The document is stored.
    Done,
    /// Nothing was stored: a document of that name exists.
    Exists,
    /// Nothing was stored: the rest of the quota is too small.
    NoRoom,
}

/// The label of the condition that the document is new.
const IS_NEW: &str = "the document is new";

/// Stores a new document, and subtracts its size from the quota.
pub async fn store(table: &PartitionedTable, tenant: &str, name: &str, body: Bytes) -> Result<Stored> {
    let (quota, document) = (format!("{tenant}/quota"), format!("{tenant}/document/{name}"));
    let size = body.len() as i64;
    // Counters that are not negative compare byte by byte as their numbers do. Nothing is read, so
    // concurrent calls do not conflict.
    let fits = Condition::compare(&quota, "f", "left", Comparison::GreaterOrEqual, size);
    let storing = table
        .transaction(tenant)
        .recorded()
        .condition(Condition::absent(&document, "f", "body").label(IS_NEW))
        .condition(fits)
        .put(Put::new(document).cell("f", "body", body))
        .increment(Increment::new(quota).column("f", "left", -size));
    match storing.commit().await {
        Outcome::Rejected(rejection) => {
            let exists = rejection.failed.iter().any(|failed| failed.label == IS_NEW);
            Ok(if exists { Stored::Exists } else { Stored::NoRoom })
        }
        other => other.into_result().map(|_| Stored::Done),
    }
}

/// Removes a document, and adds its size to the quota. Returns whether this call removed it.
pub async fn remove(table: &PartitionedTable, tenant: &str, name: &str) -> Result<bool> {
    let document = format!("{tenant}/document/{name}");
    let row = table.table().get(Get::new(&document)).await?;
    let Some(body) = row.as_ref().and_then(|row| row.value("f", "body")) else {
        return Ok(false);
    };
    let removal = table
        .transaction(tenant)
        .recorded()
        .condition(Condition::equal(&document, "f", "body", body))
        .delete(Delete::new(document))
        .increment(Increment::new(format!("{tenant}/quota")).column("f", "left", body.len() as i64));
    match removal.commit().await {
        Outcome::Rejected(_) => Ok(false),
        other => other.into_result().map(|_| true),
    }
}

/// Adds bytes to the quota of each tenant. It is one batch with a transaction for each tenant.
pub async fn grant(table: &PartitionedTable, tenants: &[&str], bytes: u32) -> Result<()> {
    let mut batch = table.batch();
    batch.extend(tenants.iter().map(|tenant| {
        let quota = Increment::new(format!("{tenant}/quota"));
        let bytes = i64::from(bytes);
        quota.column("f", "granted", bytes).column("f", "left", bytes)
    }));
    for group in batch.commit().await {
        println!("granted {bytes} bytes: {}", group.outcome);
        group.outcome.into_result()?;
    }
    Ok(())
}

/// Returns the rest of a tenant's quota and the number of its documents.
///
/// # Panics
///
/// Panics if both do not agree.
pub async fn checked(table: &PartitionedTable, tenant: &str) -> Result<(i64, usize)> {
    let snapshot = table.snapshot(tenant).await?;
    let quota = |qualifier| -> Result<i64> {
        let value = snapshot.get(format!("{tenant}/quota"), "f", qualifier)?;
        Ok(value.unwrap_or(0))
    };
    let bodies: Vec<_> = snapshot
        .rows()
        .iter()
        .filter_map(|row| row.value("f", "body"))
        .collect();
    let used: usize = bodies.iter().map(|body| body.len()).sum();
    let (granted, left) = (quota("granted")?, quota("left")?);
    assert_eq!(
        left + used as i64,
        granted,
        "the quota is not what the documents say"
    );
    assert!(left >= 0, "{tenant} uses {used} bytes of {granted}");
    Ok((left, bodies.len()))
}

/// Three tenants store documents until their quotas are used up, and one tries to access another.
pub async fn run(connection: &Connection, table: &str) -> Result<()> {
    let table = support::open(connection, table, &PartitionRule::delimiter("/")?).await?;
    let tenants = ["acme", "globex", "initech"];
    grant(&table, &tenants, 10_000).await?;

    let fill = async |task: usize| {
        let (tenant, mut stored) = (tenants[task % tenants.len()], 0);
        for number in 0..10 {
            let name = format!("{task}-{number}");
            remove(&table, tenant, &name).await?;
            let body = vec![b'x'; fastrand::usize(1..1_500)].into();
            stored += usize::from(store(&table, tenant, &name, body).await? == Stored::Done);
        }
        println!("task {task} stored {stored} of 10 documents of {tenant}");
        Ok::<_, hbase_txn::Error>(())
    };
    futures::future::try_join_all((0..9).map(fill)).await?;
    for tenant in tenants {
        let (left, documents) = checked(&table, tenant).await?;
        println!("{tenant} has {documents} documents, and {left} bytes left");
    }

    let intrusion = Put::new("globex/document/plans").cell("f", "body", "ours now");
    match table.transaction("acme").put(intrusion).commit().await {
        Outcome::Invalid(error) if error.kind() == ErrorKind::OtherPartition => println!("{error}"),
        other => unreachable!("a row of another tenant can't be in the transaction: {other}"),
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let connection = support::connect().await?;
    run(&connection, "pattern_multi_tenant").await?;
    connection.close().await;
    Ok(())
}
