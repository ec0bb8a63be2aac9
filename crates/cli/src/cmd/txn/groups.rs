//! The transactions of a line: one in its partition, or one for each partition that it touches.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use hbase_txn::{
    Partition, PartitionedTable, TransactionId,
    client::{BytesBinary, Condition, Mutation},
};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    answers::Answer,
    format::{RowTypes, Transaction},
};
use crate::{
    cmd::{
        input_lines::{InputLine, TooLong},
        json_line::LineMutation,
    },
    exit::Failure,
    value_type::ValueType,
};

/// The handling of a line, or of a part of it.
#[derive(Debug)]
pub(super) enum Step {
    /// A line that is refused before anything is sent.
    Refused(Answer),
    /// A transaction to commit.
    Commit(Box<Group>),
}

/// A transaction of a line.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) partition: Partition,
    pub(super) transaction: hbase_txn::Transaction,
    /// Whether it has deletes that get the server's time.
    pub(super) deletes_now: bool,
    table: PartitionedTable,
    line: u64,
    rows: usize,
    /// The types of the values that an answer may have: those of conditions and of counters.
    value_types: RowTypes,
    /// The line's share of the memory for lines.
    _held: Arc<OwnedSemaphorePermit>,
}

/// Returns the transactions of a line, or its refusal.
pub(super) fn steps(
    table: &PartitionedTable,
    line: InputLine,
    held: OwnedSemaphorePermit,
    guard_timestamps: bool,
) -> Vec<Step> {
    let InputLine { number, text, .. } = line;
    let parsed = match text {
        Ok(text) => Transaction::parse(number, &text),
        Err(TooLong { longest }) => Err(format!("line {number} is longer than {longest} bytes")),
    };
    let line = match parsed {
        Ok(line) => line,
        Err(error) => return vec![Step::Refused(Answer::refused(number, None, None, error))],
    };
    let held = Arc::new(held);
    let start = |partition: Partition, rows| {
        let transaction = table.transaction_for_row(partition.first_key().clone());
        Group {
            table: table.clone(),
            line: number,
            rows,
            value_types: RowTypes::new(),
            deletes_now: false,
            _held: Arc::clone(&held),
            partition,
            transaction: if guard_timestamps {
                transaction.guard_timestamps()
            } else {
                transaction
            },
        }
    };
    if !line.is_whole() {
        return by_partition(table, line.mutations)
            .into_iter()
            .map(|(partition, mutations)| {
                let rows = rows(&mutations);
                start(partition, rows).fill(None, (Vec::new(), RowTypes::new()), mutations)
            })
            .collect();
    }
    let rows = rows(&line.mutations);
    let partition = match &line.prefix {
        Some(prefix) => table.rule().partition(prefix).map_err(|error| {
            let error = error.at_operation("transaction").at_table(table.name());
            Failure::from(error).to_string()
        }),
        None => only_partition(table, &line).map_err(|why| format!("line {number}: {why}")),
    };
    vec![match partition {
        Ok(partition) => {
            start(partition, rows).fill(line.id, (line.conditions, line.value_types), line.mutations)
        }
        Err(error) => {
            let prefix = line.prefix.map(|prefix| BytesBinary(&prefix).to_string());
            Step::Refused(Answer::refused(number, prefix, Some(rows), error))
        }
    }]
}

impl Group {
    /// Adds conditions and mutations. Refuses the whole transaction if one of them can't be part of
    /// it.
    fn fill(
        mut self,
        id: Option<TransactionId>,
        (conditions, value_types): (Vec<Condition>, RowTypes),
        mutations: Vec<LineMutation>,
    ) -> Step {
        self.value_types = value_types;
        self.deletes_now = mutations.iter().any(|line| line.deletes_now);
        if let Some(id) = id {
            self.transaction = self.transaction.id(id);
        }
        let add = || {
            for condition in conditions {
                self.transaction.try_add(condition)?;
            }
            for LineMutation {
                mutation, counter, ..
            } in mutations
            {
                if let Some(column) = counter {
                    let of_row = self.value_types.entry(mutation.row().clone()).or_default();
                    of_row.add(column, ValueType::Long);
                }
                self.transaction.try_add(mutation)?;
            }
            Ok::<_, hbase_txn::Error>(())
        };
        match add() {
            Ok(()) => Step::Commit(Box::new(self)),
            Err(error) => Step::Refused(Answer::refused(
                self.line,
                Some(self.prefix()),
                Some(self.rows),
                Failure::from(error).to_string(),
            )),
        }
    }

    /// Sends the transaction.
    pub(super) async fn commit(self) -> Answer {
        if let Some(id) = self.transaction.transaction_id() {
            // A settlement by another process that the client has not seen before it begins would end the
            // commit. What prevents the reading prevents the commit, which reports it.
            drop(self.table.outcome(self.partition.prefix().to_vec(), id).await);
        }
        let prefix = self.prefix();
        let outcome = self.transaction.commit().await;
        Answer::of(self.line, prefix, self.rows, &self.value_types, outcome)
    }

    fn prefix(&self) -> String {
        BytesBinary(self.partition.prefix()).to_string()
    }
}

fn rows(mutations: &[LineMutation]) -> usize {
    let rows: HashSet<_> = mutations.iter().map(|line| line.mutation.row()).collect();
    rows.len()
}

/// Returns the partition of all rows that a line names.
fn only_partition(table: &PartitionedTable, line: &Transaction) -> Result<Partition, String> {
    let conditions = line.conditions.iter().map(Condition::row);
    let mutations = line.mutations.iter().map(|line| line.mutation.row());
    let mut rows = mutations
        .chain(conditions)
        .map(|row| (row, table.partition_of(row)));
    let Some((row, partition)) = rows.next() else {
        return Err("neither mutations nor conditions".to_owned());
    };
    match rows.find(|(_, of_other)| *of_other != partition) {
        None => Ok(partition),
        Some((other, of_other)) => Err(format!(
            "row {} is in partition {partition}, row {} in partition {of_other}; what has an `id` or `conditions` is one \
             transaction, of one partition: write a line for each",
            BytesBinary(row),
            BytesBinary(other)
        )),
    }
}

/// Groups mutations by partition, in the order in which the partitions first appear.
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
