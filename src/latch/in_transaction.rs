//! Count-downs of latches as part of a transaction in their partition.

use std::{borrow::Cow, fmt, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use hbase_client::{Comparator, Comparison, Condition, Filter, TableName, low_level::TableCalls};

use super::{
    handle::Latch,
    layout::PARTITION_FAMILY,
    note::NewChange,
    plan::{self, LatchOperation},
};
use crate::{
    error::{Error, ErrorKind, Result},
    txn::{Changes, Outcome, Part, Transaction, UpdateView},
};

/// Latches of the transaction's own partition, from
/// [`PartitionLatches`](crate::latch::PartitionLatches).
impl Transaction {
    /// Counts a latch down with the transaction. If the transaction is committed, all of it is
    /// written and counted. If the latch does not exist, has expired or has less than `by` left,
    /// the transaction is [`Rejected`](Outcome::Rejected) and names the latch, and nothing is
    /// applied. The server checks this when it applies the transaction.
    ///
    /// A transaction with an [id](Transaction::id) counts once, however often it is committed.
    /// Without an id, and without [`recorded`](Transaction::recorded), the outcome of a lost answer
    /// is unknown, as for any transaction.
    ///
    /// Each attempt reads the latch first, and is planned again if another client counted in
    /// between.
    ///
    /// A latch of another partition or table makes the transaction [invalid](Transaction); a latch
    /// table is another table. So do a latch that is already part of the transaction, and a `by`
    /// that is 0 or more than `i64::MAX`.
    pub fn count_down(self, latch: &Latch, by: u64) -> Self {
        self.add_part(|table| Ok(Arc::new(Counting::down(table, latch, by)?)))
    }

    /// Counts a latch down by one for a participant with the transaction, once for each
    /// participant: if the participant has arrived before, the rest is applied and nothing is
    /// counted. So as far as the latch is concerned, a transaction whose outcome is unknown can be
    /// committed again.
    ///
    /// The transaction becomes invalid for the same latches as with
    /// [`count_down`](Self::count_down), and for a name that is empty or has more than 256 bytes.
    /// If 1,000 others have arrived, the commit fails with
    /// [`LimitExceeded`](crate::ClientErrorKind::LimitExceeded).
    pub fn arrive(self, latch: &Latch, participant: &str) -> Self {
        self.add_part(|table| Ok(Arc::new(Counting::arrival(table, latch, participant)?)))
    }
}

/// Latches of the update's own partition, from
/// [`PartitionLatches`](crate::latch::PartitionLatches).
impl UpdateView<'_> {
    /// Counts a latch down with the update; see [`Transaction::count_down`]. If the latch does not
    /// exist, has expired or has less than `by` left, nothing is applied, and the update fails with
    /// [`ConditionNotMet`](crate::ErrorKind::ConditionNotMet).
    ///
    /// # Errors
    ///
    /// - [`OtherPartition`](ErrorKind::OtherPartition) for a latch of another partition;
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a latch of another table, for a
    ///   latch that is in the update already, and for a `by` that is 0 or more than `i64::MAX`;
    /// - [`DeadlineExceeded`](crate::ClientErrorKind::DeadlineExceeded) once the operation timeout
    ///   is over.
    pub fn count_down(&mut self, latch: &Latch, by: u64) -> Result<&mut Self> {
        let counting = Counting::down(self.table(), latch, by)?;
        self.add_part(Arc::new(counting))?;
        Ok(self)
    }

    /// Counts a latch down by one for a participant with the update, once for each participant; see
    /// [`Transaction::arrive`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`count_down`](Self::count_down), and
    /// [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a name that is empty or has more
    /// than 256 bytes.
    pub fn arrive(&mut self, latch: &Latch, participant: &str) -> Result<&mut Self> {
        let counting = Counting::arrival(self.table(), latch, participant)?;
        self.add_part(Arc::new(counting))?;
        Ok(self)
    }
}

/// Refuses a latch that is not in the table to which the transaction is applied. The partition is
/// checked later.
fn check_latch(here: &TableName, latch: &Latch) -> Result<()> {
    let there = latch.location.table.name();
    let why = if latch.location.cells.counts != PARTITION_FAMILY {
        format!("it is in latch table {there}")
    } else if here != there {
        format!("it is in table {there}, and the transaction in {here}")
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "the latch can't be part of the transaction: {why}, which the server that applies the transaction cannot change"
    ))
    .with_hint("take a latch of PartitionLatches, in the partition of the data; or count down when it is committed")
    .at_operation(format!("latch {}", latch.key()))
    .at_table(here))
}

/// The count-down of a latch, if enough is left.
struct Counting {
    latch: Latch,
    operation: LatchOperation,
    /// What must be left of the count.
    least: u64,
    condition: Condition,
    deed: String,
}

impl Counting {
    fn down(here: &TableName, latch: &Latch, by: u64) -> Result<Self> {
        check_latch(here, latch)?;
        let amount = latch.whole(by)?;
        if amount == 0 {
            return Err(latch.in_context(Error::invalid("nothing to count down")));
        }
        let cells = &latch.location.cells;
        // No count is negative here, so the bytes sort like the numbers.
        let condition = Condition::compare(
            cells.row.clone(),
            cells.counts.clone(),
            cells.own.clone(),
            Comparison::GreaterOrEqual,
            plan::encode(amount),
        );
        Ok(Self {
            latch: latch.clone(),
            operation: LatchOperation::CountDown(amount),
            least: by,
            condition: condition.label(format!("latch {}", latch.key())),
            deed: format!("count down by {by}"),
        })
    }

    fn arrival(here: &TableName, latch: &Latch, participant: &str) -> Result<Self> {
        check_latch(here, latch)?;
        let column = latch.column_of(participant)?;
        let cells = &latch.location.cells;
        let of_column = |column: &Bytes, comparison, value| {
            Filter::column_value(
                cells.counts.clone(),
                column.clone(),
                comparison,
                Comparator::binary(value),
            )
        };
        let condition = Condition::matches(
            cells.row.clone(),
            Filter::any([
                of_column(&column, Comparison::Equal, plan::ARRIVED),
                of_column(&cells.own, Comparison::GreaterOrEqual, plan::encode(1)),
            ]),
        );
        Ok(Self {
            latch: latch.clone(),
            operation: LatchOperation::Arrive(column),
            least: 1,
            condition: condition.label(format!("latch {}", latch.key())),
            deed: format!("arrival of {participant}"),
        })
    }

    async fn look_and_plan(&self) -> Result<Changes> {
        let Latch { location, .. } = &self.latch;
        let cells = &location.cells;
        let observation = location
            .read(self.operation.participants(), location.table.deadline())
            .await?;
        if observation.own(cells).is_some_and(|own| own.value < 0) {
            // The server would compare its bytes as a large number.
            return Err(
                Error::new(ErrorKind::LatchCorrupt, "the latch has a negative count")
                    .with_hint("another program writes to this row; delete the latch"),
            );
        }
        let seen = plan::as_seen(cells, &observation);
        match plan::plan(
            cells,
            &self.operation,
            NewChange::new(location.table.connection().environment()),
            &observation,
        ) {
            Ok(Some(plan)) => {
                // Only the creation of a latch has more than one step.
                let step = plan.steps.into_iter().next_back();
                Ok(step.map_or_else(Changes::default, |step| Changes {
                    mutations: step.mutations,
                    seen: Some(step.condition),
                }))
            }
            // The participant has arrived at this latch already.
            Ok(None) => Ok(Changes {
                mutations: Vec::new(),
                seen: Some(seen),
            }),
            // In this state the condition of the transaction does not hold, so the rejection names
            // the latch.
            Err(_) if observation.deadline(cells.level).is_none() || observation.left()? < self.least => {
                Ok(Changes {
                    mutations: Vec::new(),
                    seen: Some(seen),
                })
            }
            Err(error) => Err(error),
        }
    }
}

impl Part for Counting {
    fn description(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.deed)
    }

    fn condition(&self) -> &Condition {
        &self.condition
    }

    fn failure(&self) -> String {
        let key = self.latch.key();
        match self.operation {
            LatchOperation::Arrive(_) => format!("latch {key} is not open for the {}", self.deed),
            _ => format!("latch {key} has fewer than {} to count down", self.least),
        }
    }

    fn writes(&self) -> bool {
        true
    }

    fn changes(&self) -> BoxFuture<'_, Result<Changes>> {
        async {
            self.look_and_plan()
                .await
                .map_err(|error| self.latch.in_context(error))
        }
        .boxed()
    }

    fn ended(&self, outcome: Option<&Outcome>) {
        if let Some(Outcome::Committed(_)) = outcome {
            self.latch.shared.watch.poll_now(&self.latch.location.cells);
        }
    }
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of latch {}", self.deed, self.latch.key())
    }
}
