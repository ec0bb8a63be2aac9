//! Transfer: money moves between two accounts of one tenant.
//!
//! | row | cell | |
//! |---|---|---|
//! | `TENANT/account/NAME` | `f:cents` | the balance, an `i64` |
//!
//! A partition is a tenant: the bytes before the first `/`.
//!
//! **Conditions.** None in this code. `update` reads both balances, and commits on the condition
//! that they are unchanged.
//!
//! **Invariant.** No balance is below zero, and the sum is the same in every snapshot.
//!
//! **Failures.** If another transfer has changed one of the balances meanwhile, the closure runs
//! again with the new ones. If the answer is lost, the update determines by its record whether it
//! was applied. If the caller crashes or gets an error, it repeats the request with the same id,
//! and the money moves once.
//!
//! `update` reads the whole partition, which is right for a tenant of thousands of rows. For larger
//! ones read the two cells, and write under conditions on them, as `unique_index` does.
//!
//! Run: `HBASE_TXN_CONNECT=… cargo run --example transfer`

use hbase_txn::{
    Outcome, PartitionRule, PartitionedTable, Result, TransactionId, UpdateOptions, UpdateView,
    client::{Condition, Connection, Put},
};

mod support;

/// The application's error: a closure of `update` may return any error type that converts from this
/// package's error.
type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The result of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// The money was moved.
    Done,
    /// An earlier call with the same request id moved the money.
    DoneBefore,
    /// Nothing was moved: the payer's balance is too small.
    NotEnough,
    /// Nothing was moved: one of the accounts does not exist.
    NoAccount,
}

/// Moves money, once for each request id.
pub async fn transfer(
    bank: &PartitionedTable,
    tenant: &str,
    request: &TransactionId,
    (from, to): (&str, &str),
    cents: u64,
) -> Result<Transfer, AnyError> {
    let once = UpdateOptions::new().id(request.clone());
    let updated = bank
        .update_with(tenant, once, |view| {
            let (Some(payer), Some(payee)) = (balance(view, tenant, from)?, balance(view, tenant, to)?)
            else {
                return Ok(Transfer::NoAccount);
            };
            let Some(left) = payer.checked_sub(cents) else {
                return Ok(Transfer::NotEnough);
            };
            // A view does not show changes made through it: a transfer from an account to itself
            // would add `cents` to it.
            if from != to {
                view.put(account(tenant, from, left)?)?;
                view.put(account(tenant, to, payee + cents)?)?;
            }
            Ok::<_, AnyError>(Transfer::Done)
        })
        .await?;
    Ok(updated.into_value().unwrap_or(Transfer::DoneBefore))
}

/// Returns the balance of an account, or `None` if it does not exist. A balance that can't be
/// decoded is an error, not zero.
fn balance(view: &mut UpdateView<'_>, tenant: &str, name: &str) -> Result<Option<u64>, AnyError> {
    let cents = view.get::<i64>(format!("{tenant}/account/{name}"), "f", "cents")?;
    Ok(cents.map(u64::try_from).transpose()?)
}

fn account(tenant: &str, name: &str, cents: u64) -> Result<Put, AnyError> {
    let cents = i64::try_from(cents)?;
    Ok(Put::new(format!("{tenant}/account/{name}")).cell("f", "cents", cents))
}

/// Opens an account if it does not exist.
pub async fn open(bank: &PartitionedTable, tenant: &str, name: &str, cents: u64) -> Result<(), AnyError> {
    let put = account(tenant, name, cents)?;
    let opening = bank
        .transaction(tenant)
        .recorded()
        .condition(Condition::absent(put.row(), "f", "cents"))
        .put(put);
    match opening.commit().await {
        Outcome::Rejected(_) => Ok(()),
        other => Ok(other.into_result().map(drop)?),
    }
}

/// Returns all balances of a tenant at one moment, by row.
pub async fn balances(bank: &PartitionedTable, tenant: &str) -> Result<Vec<(String, u64)>, AnyError> {
    let snapshot = bank.snapshot(tenant).await?;
    let balance = |row: &hbase_txn::client::Row| {
        let cents: Option<i64> = row.get("f", "cents")?;
        let cents = cents.ok_or("an account without a balance")?;
        Ok((support::text(row.key()), cents.try_into()?))
    };
    snapshot.rows().iter().map(balance).collect()
}

/// Eight tasks pay each other at random.
pub async fn run(connection: &Connection, table: &str) -> Result<(), AnyError> {
    let bank = support::open(connection, table, &PartitionRule::delimiter("/")?).await?;
    let names = ["alice", "bob", "carol", "dave"];
    for name in names {
        open(&bank, "acme", name, 10_000).await?;
    }
    let before: u64 = balances(&bank, "acme")
        .await?
        .iter()
        .map(|account| account.1)
        .sum();

    let pay = async || {
        for _ in 0..5 {
            let any = || names[fastrand::usize(..names.len())];
            let request = TransactionId::unique();
            let (between, cents) = ((any(), any()), fastrand::u64(1..6_000));
            let ended = transfer(&bank, "acme", &request, between, cents).await?;
            println!("{} pays {} {cents} cents: {ended:?}", between.0, between.1);
        }
        Ok::<_, AnyError>(())
    };
    futures::future::try_join_all((0..8).map(|_| pay())).await?;

    let after = balances(&bank, "acme").await?;
    for (row, cents) in &after {
        println!("{row}: {cents} cents");
    }
    let sum: u64 = after.iter().map(|account| account.1).sum();
    assert_eq!(sum, before, "money was made or lost");
    println!("the sum is {sum} cents, as it was before");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let connection = support::connect().await?;
    run(&connection, "pattern_transfer").await?;
    connection.close().await;
    Ok(())
}
