//! A line's transactions: the one of its partition, or one for each partition that it touches.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use hbase_txn::{BytesBinary, Mutation, Partition, PartitionedTable};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    answers::Answer,
    format::{LineMutation, Transaction},
    lines::{InputLine, TooLong},
};

/// What becomes of a line, or of a part of it.
#[derive(Debug)]
pub(super) enum Step {
    /// It is refused before anything is sent.
    Refused(Answer),
    /// It is a transaction.
    Commit(Group),
}

/// A transaction of a line.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) partition: Partition,
    pub(super) transaction: hbase_txn::Transaction,
    /// Whether it has deletes that the server stamps with its own time.
    pub(super) deletes_now: bool,
    line: u64,
    rows: usize,
    /// The line's part of what may be held at a time.
    _held: Arc<OwnedSemaphorePermit>,
}

/// The transactions of a line, or its refusal.
pub(super) fn steps(table: &PartitionedTable, line: InputLine, held: OwnedSemaphorePermit) -> Vec<Step> {
    let InputLine { number, text } = line;
    let parsed = match text {
        Ok(text) => Transaction::parse(number, &text),
        Err(TooLong { longest }) => Err(format!("line {number} is longer than {longest} bytes")),
    };
    let Transaction { prefix, mutations } = match parsed {
        Ok(transaction) => transaction,
        Err(error) => return vec![Step::Refused(Answer::refused(number, None, None, error))],
    };
    let held = Arc::new(held);
    let group = |partition: Partition, transaction, mutations: Vec<LineMutation>| {
        let group = Group {
            line: number,
            rows: rows(&mutations),
            deletes_now: mutations.iter().any(|line| line.deletes_now),
            _held: Arc::clone(&held),
            partition,
            transaction,
        };
        group.fill(mutations)
    };
    if let Some(prefix) = prefix {
        return vec![match table.at(prefix.clone()) {
            Ok(transaction) => group(transaction.partition().clone(), transaction, mutations),
            Err(error) => Step::Refused(Answer::refused(
                number,
                Some(BytesBinary(&prefix).to_string()),
                Some(rows(&mutations)),
                error.to_string(),
            )),
        }];
    }
    by_partition(table, mutations)
        .into_iter()
        .map(|(partition, mutations)| {
            let transaction = table.at_row(partition.first_key().clone());
            group(partition, transaction, mutations)
        })
        .collect()
}

impl Group {
    /// Adds the mutations. One that can't be part of the transaction refuses all of it.
    fn fill(mut self, mutations: Vec<LineMutation>) -> Step {
        for LineMutation { mutation, .. } in mutations {
            if let Err(error) = self.transaction.add(mutation) {
                let prefix = self.prefix();
                return Step::Refused(Answer::refused(
                    self.line,
                    Some(prefix),
                    Some(self.rows),
                    error.to_string(),
                ));
            }
        }
        Step::Commit(self)
    }

    /// Sends it.
    pub(super) async fn commit(self) -> Answer {
        let prefix = self.prefix();
        let outcome = self.transaction.commit().await;
        Answer {
            line: self.line,
            prefix: Some(prefix),
            outcome: outcome.name(),
            rows: Some(self.rows),
            error: outcome.error().map(ToString::to_string),
        }
    }

    fn prefix(&self) -> String {
        BytesBinary(self.partition.prefix()).to_string()
    }
}

fn rows(mutations: &[LineMutation]) -> usize {
    let rows: HashSet<_> = mutations.iter().map(|line| line.mutation.row()).collect();
    rows.len()
}

/// The mutations by partition, in the order in which the partitions first appear.
fn by_partition(
    table: &PartitionedTable,
    mutations: Vec<LineMutation>,
) -> Vec<(Partition, Vec<LineMutation>)> {
    let mut groups: Vec<(Partition, Vec<LineMutation>)> = Vec::new();
    let mut places: HashMap<Partition, usize> = HashMap::new();
    for line in mutations {
        let partition = table.partition_of(Mutation::row(&line.mutation));
        let place = *places.entry(partition.clone()).or_insert_with(|| {
            groups.push((partition, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(line);
    }
    groups
}
