//! Outbox and inbox: money moves between two partitions, which one transaction can't do, in three
//! repeatable transactions.
//!
//! | row | cell | |
//! |---|---|---|
//! | `ACCOUNT/balance` | `f:cents` | a counter |
//! | `ACCOUNT/outbox/MESSAGE` | `f:to`, `f:cents` | money that has left the account, and may not have arrived |
//! | `ACCOUNT/inbox/MESSAGE` | `f:from`, `f:cents` | the mark of money that has arrived |
//!
//! | step | partition | effect | under the id |
//! |---|---|---|---|
//! | `send` | payer | debit, and an outbox row, if the balance is enough | of the message |
//! | `deliver` | payee | credit, and an inbox mark, if there is no mark | of the message |
//! | `forget` | payer | removes the outbox row | none: it may be repeated |
//!
//! **Conditions.** A debit: the balance is at least the amount. A delivery: the inbox has no mark
//! of the message.
//!
//! **Invariant.** The sum of balances and undelivered outbox rows never changes; each message is
//! credited once.
//!
//! **Failures.** Any process may repeat any step at any time: `send` and `deliver` are answered by
//! their record (for a day), later deliveries by the mark. A process that crashes between two steps
//! leaves an outbox row, and the next relay continues from there. So a mark must outlive every
//! outbox row of its message, and every relay that has read one.
//!
//! A delivery here can't be refused. If yours can, the payee's transaction puts the refusal into
//! *its* outbox, and the money comes back the same way, as a message of its own.
//!
//! Run: `HBASE_TXN_CONNECT=… cargo run --example outbox_inbox`

use std::time::Duration;

use hbase_txn::{
    Outcome, PartitionRule, PartitionedTable, Result,
    client::{Comparison, Condition, Connection, Delete, Increment, Put, Row, Scan},
};

mod support;

/// Money in transit.
#[derive(Clone, Debug)]
pub struct Message {
    /// The message's name, the same in all of its steps.
    pub id: String,
    /// The account that pays.
    pub from: String,
    /// The account that is paid.
    pub to: String,
    /// The amount.
    pub cents: u32,
}

/// Takes the money from the payer and puts it into the outbox. Returns whether there was enough;
/// repeated calls return the same and take nothing.
pub async fn send(bank: &PartitionedTable, message: &Message) -> Result<bool> {
    let Message { id, from, to, cents } = message;
    let balance = format!("{from}/balance");
    // Counters that are not negative compare byte by byte as their numbers do.
    let enough = i64::from(*cents);
    let debit = bank
        .transaction(from)
        .id(id)
        .condition(Condition::compare(
            &balance,
            "f",
            "cents",
            Comparison::GreaterOrEqual,
            enough,
        ))
        .increment(Increment::new(balance).column("f", "cents", -enough))
        .put(
            Put::new(format!("{from}/outbox/{id}"))
                .cell("f", "to", to)
                .cell("f", "cents", enough),
        );
    match debit.commit().await {
        Outcome::Rejected(_) => Ok(false),
        other => other.into_result().map(|_| true),
    }
}

/// Credits the payee. Returns whether this call credited it.
pub async fn deliver(bank: &PartitionedTable, message: &Message) -> Result<bool> {
    let Message { id, from, to, cents } = message;
    let mark = format!("{to}/inbox/{id}");
    let credit = bank
        .transaction(to)
        .id(id)
        .condition(Condition::absent(&mark, "f", "cents"))
        .increment(Increment::new(format!("{to}/balance")).column("f", "cents", i64::from(*cents)))
        .put(
            Put::new(mark)
                .cell("f", "from", from)
                .cell("f", "cents", i64::from(*cents)),
        );
    match credit.commit().await {
        // The record has expired, but the mark exists.
        Outcome::Rejected(_) => Ok(false),
        other => other.into_result().map(|committed| !committed.replayed),
    }
}

/// Removes the outbox row of a message that was delivered.
pub async fn forget(bank: &PartitionedTable, message: &Message) -> Result<()> {
    let row = format!("{}/outbox/{}", message.from, message.id);
    Ok(bank.table().delete(Delete::new(row)).await?)
}

/// Delivers the messages in an account's outbox. Any number of relays may run at once, and may be
/// killed at any moment.
pub async fn relay(bank: &PartitionedTable, from: &str) -> Result<()> {
    let mut outbox = bank.table().scan(Scan::prefix(format!("{from}/outbox/")))?;
    while let Some(row) = outbox.next().await? {
        let message = message(from, &row)?;
        deliver(bank, &message).await?;
        forget(bank, &message).await?;
    }
    Ok(())
}

fn message(from: &str, row: &Row) -> Result<Message> {
    let cents = row.get::<i64>("f", "cents")?;
    Ok(Message {
        id: support::text(&row.key()[from.len() + "/outbox/".len()..]),
        from: from.into(),
        to: row.get("f", "to")?.unwrap_or_default(),
        cents: cents
            .and_then(|cents| cents.try_into().ok())
            .expect("an outbox row has an amount"),
    })
}

/// Opens an account if it does not exist.
pub async fn open(bank: &PartitionedTable, name: &str, cents: i64) -> Result<()> {
    let row = format!("{name}/balance");
    let opening = bank
        .transaction(name)
        .recorded()
        .condition(Condition::absent(&row, "f", "cents"))
        .put(Put::new(row).cell("f", "cents", cents));
    match opening.commit().await {
        Outcome::Rejected(_) => Ok(()),
        other => other.into_result().map(drop),
    }
}

/// Returns the money in accounts and in transit between them, and the number of messages. It is
/// right only while no client makes changes: there is no snapshot over several partitions.
pub async fn total(bank: &PartitionedTable, names: &[&str]) -> Result<(i64, usize)> {
    let mut accounts = Vec::new();
    for name in names {
        accounts.push(bank.snapshot(name).await?);
    }
    let (mut cents, mut on_their_way) = (0, 0);
    for (name, account) in names.iter().zip(&accounts) {
        cents += account
            .get::<i64>(format!("{name}/balance"), "f", "cents")?
            .unwrap_or(0);
        for row in account.rows_with_prefix(format!("{name}/outbox/")) {
            let message = message(name, row)?;
            let mark = format!("{}/inbox/{}", message.to, message.id);
            // A message with a mark has arrived, even if its outbox row still exists.
            if accounts.iter().all(|account| account.row(&mark).is_none()) {
                cents += i64::from(message.cents);
                on_their_way += 1;
            }
        }
    }
    Ok((cents, on_their_way))
}

/// Three payers send ten messages each, while their relays are killed again and again; then a last
/// relay finishes.
pub async fn run(connection: &Connection, table: &str) -> Result<()> {
    let bank = support::open(connection, table, &PartitionRule::delimiter("/")?).await?;
    let names = ["alice", "bob", "carol"];
    for name in names {
        open(&bank, name, 10_000).await?;
        relay(&bank, name).await?;
    }
    let (before, _) = total(&bank, &names).await?;

    let run_id = support::run_id();
    let pay = async |payer: usize| {
        for number in 0..10 {
            let message = Message {
                id: format!("{run_id}-{payer}-{number}"),
                from: names[payer].into(),
                to: names[(payer + 1) % names.len()].into(),
                cents: fastrand::u32(1..2_000),
            };
            send(&bank, &message).await?;
            let time_to_live = Duration::from_micros(fastrand::u64(500..5_000));
            let doomed = relay(&bank, &message.from);
            if tokio::time::timeout(time_to_live, doomed).await.is_err() {
                println!("the relay of {} was killed after {time_to_live:?}", message.from);
            }
        }
        Ok::<_, hbase_txn::Error>(())
    };
    futures::future::try_join_all((0..names.len()).map(pay)).await?;
    for name in names {
        relay(&bank, name).await?;
    }

    let (after, on_their_way) = total(&bank, &names).await?;
    assert_eq!((after, on_their_way), (before, 0), "money was made or lost");
    println!("all messages have arrived; the sum is {after} cents, as it was before");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let connection = support::connect().await?;
    run(&connection, "pattern_outbox_inbox").await?;
    connection.close().await;
    Ok(())
}
