//! Changes of one row under a condition.

use bytes::Bytes;

use super::{ActionAnswer, CallKind, MultiCall, RegionAction, Table, region_call::AnyRegion};
use crate::{
    error::{Error, Result},
    model::{BytesBinary, Condition, DeleteScope, Durability, Mutation, in_row},
    wire::{condition, pb},
};

impl Table {
    /// Changes a row if a condition on that row holds, and returns whether it did. All mutations
    /// are applied, or none, and no other change can come between the check and the mutations.
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
    /// use hbase_client::{Condition, Put};
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// let unowned = Condition::absent("job-7", "f", "owner");
    /// let mine = Put::new("job-7").cell("f", "owner", "worker-3");
    /// assert!(table.check_and_mutate(unowned.clone(), [mine.into()]).await?);
    ///
    /// let theirs = Put::new("job-7").cell("f", "owner", "worker-4");
    /// assert!(!table.check_and_mutate(unowned, [theirs.into()]).await?);
    /// # Ok(()) });
    /// ```
    pub async fn check_and_mutate(
        &self,
        condition: Condition,
        mutations: impl IntoIterator<Item = Mutation>,
    ) -> Result<bool> {
        const OPERATION: &str = "check and mutate";
        let mutations: Vec<Mutation> = mutations.into_iter().collect();
        let (message, durability) = self.checked(&condition, &mutations).map_err(|error| {
            in_row(error, &condition.row)
                .at_operation(OPERATION)
                .at_table(&self.name)
        })?;
        let call = MultiCall {
            row: condition.row,
            actions: vec![RegionAction::Conditional {
                mutations,
                condition: message,
            }],
            durability,
            kind: CallKind::Write,
        };
        let answers = self
            .multi_where(OPERATION, &call, &AnyRegion, self.deadline())
            .await?;
        Ok(matches!(
            answers.first(),
            Some(ActionAnswer::Processed { processed: true, .. })
        ))
    }

    /// Returns the condition's message and the durability of all mutations, if they can be sent as
    /// one conditional change of a row.
    fn checked(&self, condition: &Condition, mutations: &[Mutation]) -> Result<(pb::Condition, Durability)> {
        condition.check()?;
        let message = condition::single_row_message(condition).ok_or_else(|| {
            Error::invalid("a condition that is true of an absent cell and of other values: HBase has no such one")
                .with_hint(
                    "ask for \"absent\" first and then for the value that was read, or use a transaction's condition",
                )
        })?;
        let Some(first) = mutations.first() else {
            return Err(Error::invalid("no mutation"));
        };
        for mutation in mutations {
            mutation.check(&self.limits())?;
            if mutation.row() != &condition.row {
                return Err(Error::invalid(format!(
                    "a mutation of row {}; condition and mutations are of one row",
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
                    "two mutations of one cell: the server stamps them alike, and one would be lost",
                )
                .with_hint("give both a timestamp, the later one to what is to be seen"));
            }
        }
        Ok((message, first.durability()))
    }
}

/// The part of a row that a mutation changes: the row, a family, or a column.
struct Span<'a> {
    family: Option<&'a Bytes>,
    qualifier: Option<&'a Bytes>,
    is_stamped: bool,
}

impl Span<'_> {
    fn clashes_with(&self, other: &Self) -> bool {
        let meets =
            |one: Option<&Bytes>, other: Option<&Bytes>| one.is_none() || other.is_none() || one == other;
        !(self.is_stamped && other.is_stamped)
            && meets(self.family, other.family)
            && meets(self.qualifier, other.qualifier)
    }
}

fn spans(mutation: &Mutation) -> Vec<Span<'_>> {
    let column = |family, qualifier, is_stamped| Span {
        family: Some(family),
        qualifier: Some(qualifier),
        is_stamped,
    };
    match mutation {
        Mutation::Put(put) => put
            .cells
            .iter()
            .map(|cell| {
                let is_stamped = cell.timestamp.or(put.timestamp).is_some();
                column(&cell.family, &cell.qualifier, is_stamped)
            })
            .collect(),
        Mutation::Append(append) => append
            .cells
            .iter()
            .map(|cell| column(&cell.family, &cell.qualifier, false))
            .collect(),
        Mutation::Increment(increment) => increment
            .columns
            .iter()
            .map(|counter| column(&counter.family, &counter.qualifier, false))
            .collect(),
        Mutation::Delete(delete) if delete.scopes.is_empty() => vec![Span {
            family: None,
            qualifier: None,
            is_stamped: delete.timestamp.is_some(),
        }],
        Mutation::Delete(delete) => delete
            .scopes
            .iter()
            .map(|scope| match scope {
                DeleteScope::Family(family) => Span {
                    family: Some(family),
                    qualifier: None,
                    is_stamped: delete.timestamp.is_some(),
                },
                DeleteScope::Column { family, qualifier } => {
                    column(family, qualifier, delete.timestamp.is_some())
                }
                DeleteScope::Version {
                    family, qualifier, ..
                } => column(family, qualifier, true),
            })
            .collect(),
    }
}
