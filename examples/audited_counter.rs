//! Audited counter: every change of a number leaves a row that describes it, and none is counted
//! twice.
//!
//! | row | cell | |
//! |---|---|---|
//! | `TENANT/counter/NAME` | `f:value` | the number, a counter |
//! | `TENANT/audit/NAME/CHANGE` | `f:amount`, `f:by` | one change of it |
//!
//! **Conditions.** The audit row is absent. The transaction's id is that of the change.
//!
//! **Invariant.** The number is the sum of its audit rows, in every snapshot.
//!
//! **Failures.** Nothing is read, so there are no conflicts. If the answer is lost or the caller
//! crashes, it sends the same change again. For a day (the table's replay window) the record shows
//! that the change was applied; after that the audit row does, without limit.
//!
//! Run: `HBASE_TXN_CONNECT=… cargo run --example audited_counter`

use hbase_txn::{
    Outcome, PartitionRule, PartitionedTable, Result,
    client::{Condition, Connection, Increment, Put},
};

mod support;

/// One change of a counter.
#[derive(Clone, Debug)]
pub struct Change {
    /// The change's name, the same if it is sent again.
    pub id: String,
    /// The amount that is added.
    pub amount: i64,
    /// The user that makes the change.
    pub by: String,
}

/// Adds to a counter, once for each change. Returns whether this call added it.
pub async fn apply(
    counters: &PartitionedTable,
    tenant: &str,
    counter: &str,
    change: &Change,
) -> Result<bool> {
    let audit_row = format!("{tenant}/audit/{counter}/{}", change.id);
    let transaction = counters
        .transaction(tenant)
        .id(format!("{counter}/{}", change.id))
        .condition(Condition::absent(&audit_row, "f", "amount"))
        .increment(Increment::new(format!("{tenant}/counter/{counter}")).column("f", "value", change.amount))
        .put(
            Put::new(audit_row)
                .cell("f", "amount", change.amount)
                .cell("f", "by", &change.by),
        );
    match transaction.commit().await {
        // The record has expired, but the audit row exists.
        Outcome::Rejected(_) => Ok(false),
        other => other.into_result().map(|committed| !committed.replayed),
    }
}

/// Returns a counter's number and the number of its audit rows at one moment.
///
/// # Panics
///
/// Panics if they do not agree.
pub async fn checked(counters: &PartitionedTable, tenant: &str, counter: &str) -> Result<(i64, usize)> {
    let snapshot = counters.snapshot(tenant).await?;
    let value = snapshot.get(format!("{tenant}/counter/{counter}"), "f", "value")?;
    let value: i64 = value.unwrap_or(0);
    let rows = snapshot.rows_with_prefix(format!("{tenant}/audit/{counter}/"));
    let amounts = rows
        .iter()
        .filter_map(|row| row.get::<i64>("f", "amount").transpose());
    let sum = amounts.sum::<Result<i64, _>>()?;
    assert_eq!(value, sum, "the counter is not the sum of its audit rows");
    Ok((value, rows.len()))
}

/// Eight tasks count, and send every change twice, as callers do after a lost answer.
pub async fn run(connection: &Connection, table: &str) -> Result<()> {
    let counters = support::open(connection, table, &PartitionRule::delimiter("/")?).await?;
    let (_, before) = checked(&counters, "acme", "visits").await?;
    let run_id = support::run_id();
    let count = async |task: usize| {
        let mut applied = 0;
        for number in 0..5 {
            let change = Change {
                id: format!("{run_id}-{task}-{number}"),
                amount: fastrand::i64(1..10),
                by: format!("task {task}"),
            };
            for _ in 0..2 {
                applied += usize::from(apply(&counters, "acme", "visits", &change).await?);
            }
        }
        Ok::<_, hbase_txn::Error>(applied)
    };
    let applied: usize = futures::future::try_join_all((0..8).map(count))
        .await?
        .iter()
        .sum();

    let (value, changes) = checked(&counters, "acme", "visits").await?;
    assert_eq!(
        (applied, changes),
        (40, before + 40),
        "a change was lost, or counted twice"
    );
    println!("80 calls, {applied} changes: the counter is at {value}, the sum of its {changes} audit rows");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let connection = support::connect().await?;
    run(&connection, "pattern_audited_counter").await?;
    connection.close().await;
    Ok(())
}
