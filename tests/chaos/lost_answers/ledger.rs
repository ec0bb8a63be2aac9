//! A table of accounts, and the transactions on it.
//!
//! A partition has accounts, a gate that is open or shut, and one row of marks. Every transaction
//! moves money between two accounts and adds one to the mark of its name, so the marks count how
//! often each was applied, which the sum of the accounts does not show.

use std::{collections::HashMap, time::Duration};

use fastrand::Rng;
use futures::future::join_all;
use hbase_txn::{
    PartitionedTable, Result, Snapshot, SnapshotOptions, TableDescriptorExt, TransactionId,
    client::{Condition, Connection, Get, Increment, Put},
};

use crate::{
    cluster::{FAMILY, QUALIFIER, create_table_as},
    settings::Settings,
};

/// The family of the marks, which are never deleted.
pub(crate) const MARKS: &str = "m";
const ACCOUNTS: u8 = 8;
const INITIAL: i64 = 1_000;

/// The kind of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Transfer,
    /// Two tasks commit it at once, each with its own client.
    Twice,
    /// It is conditional on an open gate.
    Gated,
    /// It opens or shuts the gate.
    Gate(bool),
}

/// The id of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recording {
    None,
    Own,
    Caller,
}

/// A transaction that is applied as often as its name is committed.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// A unique name.
    pub(crate) name: String,
    pub(crate) partition: String,
    pub(crate) kind: Kind,
    pub(crate) recording: Recording,
    /// The deadline of a commit.
    pub(crate) patience: Duration,
    from: u8,
    to: u8,
    amount: i64,
}

impl Work {
    /// Chooses a random transaction.
    pub(crate) fn choose(name: String, partitions: &[String], recorded: bool, rng: &mut Rng) -> Self {
        let kind = match rng.u32(..100) {
            0..60 => Kind::Transfer,
            60..75 if recorded => Kind::Twice,
            60..90 => Kind::Gated,
            _ => Kind::Gate(rng.bool()),
        };
        let recording = match kind {
            _ if !recorded => Recording::None,
            Kind::Twice => Recording::Caller,
            _ if rng.bool() => Recording::Caller,
            _ => Recording::Own,
        };
        let from = rng.u8(..ACCOUNTS);
        Self {
            name,
            partition: rng.choice(partitions).unwrap().clone(),
            kind,
            recording,
            // Some have time for one or two attempts, and are left with a lost answer; others
            // repeat until the outcome is known.
            patience: Duration::from_millis(if rng.u32(..4) == 0 { 700 } else { 3_000 }),
            from,
            to: (from + rng.u8(1..ACCOUNTS)) % ACCOUNTS,
            amount: rng.i64(1..100),
        }
    }

    /// Returns the caller's id, if it has one.
    pub(crate) fn id(&self) -> TransactionId {
        TransactionId::new(self.name.clone()).unwrap()
    }

    /// Returns the transaction, ready to be committed.
    pub(crate) fn transaction(&self, table: &PartitionedTable) -> hbase_txn::Transaction {
        let table = table.clone().with_operation_timeout(self.patience);
        let mut transaction = table.transaction(self.partition.clone());
        for (account, amount) in [(self.from, -self.amount), (self.to, self.amount)] {
            let row = account_row(&self.partition, account);
            transaction = transaction.increment(Increment::new(row).column(FAMILY, QUALIFIER, amount));
        }
        let mark = Increment::new(marks_row(&self.partition)).column(MARKS, self.name.clone(), 1);
        transaction = transaction.increment(mark);
        let gate = gate_row(&self.partition);
        match self.kind {
            Kind::Gated => {
                transaction = transaction.condition(Condition::equal(gate, FAMILY, QUALIFIER, "open"));
            }
            Kind::Gate(open) => {
                let put = Put::new(gate).cell(FAMILY, QUALIFIER, if open { "open" } else { "shut" });
                transaction = transaction.put(put);
            }
            Kind::Transfer | Kind::Twice => {}
        }
        match self.recording {
            Recording::None => transaction,
            Recording::Own => transaction.recorded(),
            Recording::Caller => transaction.id(self.id()),
        }
    }
}

fn account_row(partition: &str, account: u8) -> String {
    format!("{partition}a{account}")
}

fn gate_row(partition: &str) -> String {
    format!("{partition}gate")
}

pub(crate) fn marks_row(partition: &str) -> String {
    format!("{partition}marks")
}

/// Returns the names of this many partitions.
pub(crate) fn partitions(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("p{number:02}")).collect()
}

/// Creates a table with these partitions and fills all accounts.
pub(crate) async fn create(
    connection: &Connection,
    settings: &Settings,
    test: &str,
    partitions: &[String],
) -> PartitionedTable {
    let boundaries: Vec<String> = partitions.iter().skip(8).step_by(8).cloned().collect();
    let name = create_table_as(connection, settings, test, &boundaries, |descriptor| {
        descriptor
            .with_family(hbase_txn::client::FamilyDescriptor::new(MARKS))
            .with_record_family()
    })
    .await
    .unwrap();
    let table = PartitionedTable::open(connection, name).await.unwrap();
    let filled = partitions.iter().map(async |partition| {
        let mut transaction = table.transaction(partition.clone());
        for account in 0..ACCOUNTS {
            let value = INITIAL.to_be_bytes().to_vec();
            let put = Put::new(account_row(partition, account)).cell(FAMILY, QUALIFIER, value);
            transaction = transaction.put(put);
        }
        let outcome = transaction.commit().await;
        assert!(outcome.is_committed(), "{outcome}");
    });
    join_all(filled).await;
    table
}

/// Returns the accounts of a partition at one moment.
pub(crate) async fn accounts(table: &PartitionedTable, partition: &str) -> Result<Snapshot> {
    // A few rows a call, so that the snapshot takes several calls.
    let options = SnapshotOptions::new().stop_row(gate_row(partition)).caching(3);
    table.snapshot_with(partition.to_owned(), options).await
}

/// Asserts that the sum of the accounts is unchanged.
pub(crate) fn check_balance(partition: &str, accounts: &Snapshot) {
    assert_eq!(
        accounts.len(),
        usize::from(ACCOUNTS),
        "{partition}: accounts are missing"
    );
    let sum: i64 = accounts
        .rows()
        .iter()
        .map(|row| number(row.value(FAMILY, QUALIFIER).unwrap()))
        .sum();
    assert_eq!(
        sum,
        INITIAL * i64::from(ACCOUNTS),
        "{partition} does not add up: {accounts:?}"
    );
}

/// Returns how often each transaction was applied, by its name.
pub(crate) async fn marks(table: &PartitionedTable, partitions: &[String]) -> HashMap<String, i64> {
    let mut marks = HashMap::new();
    for partition in partitions {
        let get = Get::new(marks_row(partition)).family(MARKS);
        let Some(row) = table.table().get(get).await.unwrap() else {
            continue;
        };
        marks.extend(row.cells().iter().map(|cell| {
            let name = String::from_utf8_lossy(&cell.qualifier).into_owned();
            (name, number(&cell.value))
        }));
    }
    marks
}

pub(crate) fn number(value: &[u8]) -> i64 {
    i64::from_be_bytes(value.try_into().unwrap())
}
