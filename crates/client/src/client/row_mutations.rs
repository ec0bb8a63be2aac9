//! Several mutations of one row at once, also under a condition.

use bytes::Bytes;

use super::{ActionAnswer, CallKind, MultiCall, RegionAction, RegionCall, Table};
use crate::{
    error::{Error, Result},
    model::{BytesBinary, Cell, Condition, DeleteScope, Durability, Mutation, QueryMetrics, Row, in_row},
    wire::{condition, pb},
};

/// The result of [`Table::check_and_mutate`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct CheckAndMutateResult {
    /// Whether the condition held, and all mutations were applied. Otherwise none was.
    pub success: bool,
    /// The new cells of increments and appends; without cells if there were none, or if `success`
    /// is false.
    pub row: Row,
    /// What the server has read for the condition. `None` unless the condition [requests
    /// it](Condition::query_metrics), and from releases without such reports.
    pub metrics: Option<QueryMetrics>,
}

impl CheckAndMutateResult {
    /// Reads the answer to the call of a conditional change.
    pub(super) fn new(row: Bytes, answers: Vec<ActionAnswer>) -> Self {
        let (success, cells, metrics) = match answers.into_iter().next() {
            Some(ActionAnswer::Processed {
                processed,
                cells,
                metrics,
            }) => (processed, cells, metrics),
            _ => (false, Vec::new(), None),
        };
        Self {
            success,
            row: sorted_row(row, cells),
            metrics,
        }
    }
}

impl Table {
    /// Applies all mutations of one row, or none, in one call, and returns the new cells of
    /// increments and appends.
    ///
    /// Readers see all of them or none, and no other change comes between them. The server gives
    /// them one timestamp, unless they have their own. The row is that of the first mutation.
    ///
    /// The call is sent again without an answer only if all mutations are puts and deletes with
    /// timestamps of their own; see [`put`](Self::put). Otherwise the error reports that its
    /// [outcome is unknown](crate::Error::is_outcome_unknown).
    ///
    /// # Errors
    ///
    /// Returns an error as [`put`](Self::put) does; and
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput), before anything is sent, for no mutations,
    /// mutations of different rows or durabilities, and two mutations of one cell without distinct
    /// timestamps, of which one would be lost.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::{Delete, Increment, Put};
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// let changes = [
    ///     Put::new("job-7").cell("f", "state", "running").into(),
    ///     Delete::new("job-7").column("f", "error").into(),
    ///     Increment::new("job-7").column("f", "attempts", 1).into(),
    /// ];
    /// let row = table.mutate_row(changes).await?;
    /// assert_eq!(row.get::<i64>("f", "attempts")?, Some(1));
    /// # Ok(()) });
    /// ```
    pub async fn mutate_row(&self, mutations: impl IntoIterator<Item = Mutation>) -> Result<Row> {
        const OPERATION: &str = "mutate row";
        let mutations: Vec<Mutation> = mutations.into_iter().collect();
        let row = mutations
            .first()
            .map_or_else(Bytes::new, |first| first.row().clone());
        let durability = self
            .checked(&row, &mutations)
            .map_err(|error| in_row(error, &row).at_operation(OPERATION).at_table(&self.name))?;
        let kind = if mutations.iter().all(Mutation::is_repeatable) {
            CallKind::IdempotentWrite
        } else {
            CallKind::Write
        };
        let call = MultiCall {
            row,
            actions: vec![RegionAction::Atomic(mutations)],
            durability,
        };
        let attempts = RegionCall::new(self, OPERATION, &call.row, kind, self.deadline());
        self.wait_out_deletes(call.mutations()).await;
        let answers = attempts.multi(&call).await?;
        self.record_deletes(call.mutations());
        let cells = match answers.into_iter().next() {
            Some(ActionAnswer::Applied(cells)) => cells,
            _ => Vec::new(),
        };
        Ok(sorted_row(call.row, cells))
    }

    /// Changes a row if a condition on that row holds, and returns whether it did, with the new
    /// cells of increments and appends. All mutations are applied, or none, and no other change can
    /// come between the check and the mutations.
    ///
    /// A condition has the same meaning as in a transaction: a cell with an empty value counts as
    /// absent. [`Comparison::Less`](crate::Comparison::Less),
    /// [`LessOrEqual`](crate::Comparison::LessOrEqual) and [`Condition::matches`] make the server
    /// read the whole row, the others read one column.
    ///
    /// The server gives all mutations one timestamp, unless they have their own. A put without a
    /// timestamp gets one that is not earlier than that of the cell that the condition read. The
    /// call is sent once. Without an answer the error reports that its [outcome is
    /// unknown](crate::Error::is_outcome_unknown), because a repeated call might see the effect of
    /// the first one and report that the condition does not hold.
    ///
    /// It needs HBase 2.4 or later on every region server: an older one applies the change whether
    /// or not the condition holds. Therefore the client first proves with an extra call that a
    /// server honours conditions, once for each start of the server.
    ///
    /// The change is limited to one row. The crate `hbase-txn` changes several rows at once.
    ///
    /// # Errors
    ///
    /// Returns an error as [`put`](Self::put) does;
    /// [`ConditionsUnsupported`](crate::ErrorKind::ConditionsUnsupported) if the server does not
    /// honour conditions, and nothing was changed; and
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput), before anything is sent, for no mutations,
    /// another row than that of the condition, different durabilities, two mutations of one cell
    /// without distinct timestamps, of which one would be lost, and
    /// [`NotEqual`](crate::Comparison::NotEqual), which is true for an absent cell and which HBase
    /// cannot express.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::{Condition, Increment, Put};
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// let unowned = Condition::absent("job-7", "f", "owner");
    /// let mine = Put::new("job-7").cell("f", "owner", "worker-3");
    /// assert!(table.check_and_mutate(unowned.clone(), [mine.into()]).await?.success);
    ///
    /// let theirs = Put::new("job-7").cell("f", "owner", "worker-4");
    /// assert!(!table.check_and_mutate(unowned, [theirs.into()]).await?.success);
    ///
    /// let mine = Condition::equal("job-7", "f", "owner", "worker-3");
    /// let more = Increment::new("job-7").column("f", "runs", 1);
    /// let result = table.check_and_mutate(mine, [more.into()]).await?;
    /// assert_eq!(result.row.get::<i64>("f", "runs")?, Some(1));
    /// # Ok(()) });
    /// ```
    pub async fn check_and_mutate(
        &self,
        condition: Condition,
        mutations: impl IntoIterator<Item = Mutation>,
    ) -> Result<CheckAndMutateResult> {
        const OPERATION: &str = "check and mutate";
        let call = self.conditional_call(OPERATION, condition, mutations.into_iter().collect())?;
        let attempts = RegionCall::new(self, OPERATION, &call.row, CallKind::Write, self.deadline());
        self.wait_out_deletes(call.mutations()).await;
        let answers = attempts.multi(&call).await?;
        let result = CheckAndMutateResult::new(call.row.clone(), answers);
        self.record_result(&call, &result);
        Ok(result)
    }

    /// Records the deletes of a conditional change that was made.
    pub(super) fn record_result(&self, call: &MultiCall, result: &CheckAndMutateResult) {
        if result.success {
            self.record_deletes(call.mutations());
        }
    }

    /// Returns the call of a conditional change, if it can be sent.
    pub(super) fn conditional_call(
        &self,
        operation: &'static str,
        condition: Condition,
        mutations: Vec<Mutation>,
    ) -> Result<MultiCall> {
        let checked = condition_message(&condition)
            .and_then(|message| Ok((message, self.checked(&condition.row, &mutations)?)));
        let (message, durability) = checked.map_err(|error| {
            in_row(error, &condition.row)
                .at_operation(operation)
                .at_table(&self.name)
        })?;
        Ok(MultiCall {
            row: condition.row,
            actions: vec![RegionAction::Conditional {
                mutations,
                condition: message,
            }],
            durability,
        })
    }

    /// Returns the durability of all mutations, if they can be sent as one change of a row.
    fn checked(&self, row: &Bytes, mutations: &[Mutation]) -> Result<Durability> {
        let Some(first) = mutations.first() else {
            return Err(Error::invalid("no mutation"));
        };
        for mutation in mutations {
            self.check(mutation)?;
            mutation.check_invisible()?;
            if mutation.row() != row {
                return Err(Error::invalid(format!(
                    "a mutation of row {}; all are of one row",
                    BytesBinary(mutation.row())
                )));
            }
            if mutation.durability() != first.durability() {
                return Err(Error::invalid("mutations of different durabilities"));
            }
        }
        for (index, mutation) in mutations.iter().enumerate() {
            let spans = spans(mutation);
            let clash = mutations[..index]
                .iter()
                .flat_map(self::spans)
                .find(|earlier| spans.iter().any(|span| span.clashes_with(earlier)));
            if clash.is_some() {
                return Err(Error::invalid(
                    "two mutations of one cell with one timestamp: one would be lost",
                )
                .with_hint(
                    "give each a timestamp of its own, the later one to what is to be seen; the server stamps \
                     those without one alike",
                ));
            }
        }
        Ok(first.durability())
    }
}

fn condition_message(condition: &Condition) -> Result<pb::Condition> {
    condition.check()?;
    condition::single_row_message(condition).ok_or_else(|| {
        Error::invalid(
            "a condition that is true of an absent cell and of other values: HBase has no such one",
        )
        .with_hint(
            "ask for \"absent\" first and then for the value that was read, or use a transaction's condition",
        )
    })
}

/// Returns the row of cells that several mutations wrote.
pub(super) fn sorted_row(row: Bytes, mut cells: Vec<Cell>) -> Row {
    cells.sort_by(|one, other| (&one.family, &one.qualifier).cmp(&(&other.family, &other.qualifier)));
    Row::new(row, cells)
}

/// The part of a row that a mutation changes: the row, a family, or a column.
struct Span<'a> {
    family: Option<&'a Bytes>,
    qualifier: Option<&'a Bytes>,
    /// `None` if the server sets it.
    timestamp: Option<u64>,
    is_deleted: bool,
}

impl Span<'_> {
    fn clashes_with(&self, other: &Self) -> bool {
        let meets =
            |one: Option<&Bytes>, other: Option<&Bytes>| one.is_none() || other.is_none() || one == other;
        let is_stamped_apart = match (self.timestamp, other.timestamp) {
            // Deletes with one timestamp do not hide each other.
            (Some(one), Some(other_one)) => one != other_one || self.is_deleted && other.is_deleted,
            _ => false,
        };
        !is_stamped_apart && meets(self.family, other.family) && meets(self.qualifier, other.qualifier)
    }
}

fn spans(mutation: &Mutation) -> Vec<Span<'_>> {
    let is_deleted = matches!(mutation, Mutation::Delete(_));
    let span = |family, qualifier, timestamp| Span {
        family,
        qualifier,
        timestamp,
        is_deleted,
    };
    let column = |family, qualifier, timestamp| span(Some(family), Some(qualifier), timestamp);
    match mutation {
        Mutation::Put(put) => {
            let cells = put.cells.iter();
            let stamped = cells.map(|cell| (cell, cell.timestamp.or(put.timestamp)));
            stamped
                .map(|(cell, timestamp)| column(&cell.family, &cell.qualifier, timestamp))
                .collect()
        }
        Mutation::Append(append) => append
            .cells
            .iter()
            .map(|cell| column(&cell.family, &cell.qualifier, None))
            .collect(),
        Mutation::Increment(increment) => increment
            .columns
            .iter()
            .map(|counter| column(&counter.family, &counter.qualifier, None))
            .collect(),
        Mutation::Delete(delete) if delete.scopes.is_empty() => vec![span(None, None, delete.timestamp)],
        Mutation::Delete(delete) => delete
            .scopes
            .iter()
            .map(|scope| {
                let timestamp = scope.timestamp().or(delete.timestamp);
                match scope {
                    DeleteScope::Family(family) | DeleteScope::FamilyVersion { family, .. } => {
                        span(Some(family), None, timestamp)
                    }
                    DeleteScope::Column { family, qualifier }
                    | DeleteScope::Version {
                        family, qualifier, ..
                    } => column(family, qualifier, timestamp),
                }
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Delete, Put};

    #[test]
    fn mutations_of_one_cell_have_distinct_timestamps() {
        let put = |at: Option<u64>| -> Mutation {
            match at {
                Some(at) => Put::new("r").cell_at("f", "q", at, "v").into(),
                None => Put::new("r").cell("f", "q", "v").into(),
            }
        };
        let delete: Mutation = Delete::new("r").version("f", "q", 5).into();
        let family: Mutation = Delete::new("r").family("f").timestamp(5).into();
        for (one, other, clash) in [
            (put(None), put(None), true),
            (put(Some(5)), put(None), true),
            (put(Some(5)), put(Some(5)), true),
            (put(Some(5)), put(Some(6)), false),
            (delete.clone(), put(Some(5)), true),
            (delete.clone(), put(Some(6)), false),
            (family.clone(), put(Some(5)), true),
            (family.clone(), put(Some(6)), false),
            (family, delete, false),
        ] {
            let clashes = spans(&one)
                .iter()
                .any(|one| spans(&other).iter().any(|other| one.clashes_with(other)));
            assert_eq!(clashes, clash, "{one:?} and {other:?}");
        }
    }
}
