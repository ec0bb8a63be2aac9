//! A group that is ready to send: checked, folded, and with the claim on its record. No I/O.

use hbase_client::{
    BytesBinary, Durability, Mutation, RemoteException,
    low_level::{Limits, MutationParts},
};
use tokio::time::Instant;

use super::{plan::Group, sequence::Sequence};
use crate::{
    error::{Error, Result},
    txn::{
        outcome::Committed,
        proof::{proven_table::ProvenTable, terms::Terms},
        record::{SeenRecord, digest::Digest, settle::Claim},
    },
};

const UNLIMITED: Limits = Limits {
    max_cell_size: usize::MAX,
};

/// A group that is ready to send.
pub(in crate::txn) struct Prepared<'a> {
    pub(in crate::txn) group: &'a Group,
    pub(in crate::txn) sequence: Sequence<'a>,
    pub(in crate::txn) durability: Durability,
    pub(in crate::txn) claim: Option<Claim>,
}

impl<'a> Prepared<'a> {
    /// Checks and folds a group. `claim`: that of earlier attempts.
    ///
    /// # Errors
    ///
    /// Returns an error if no single call can express the group, or the table can't apply it.
    pub(in crate::txn) fn new(
        table: &ProvenTable,
        group: &'a Group,
        claim: Option<Claim>,
        deadline: Instant,
    ) -> Result<Self> {
        let terms = table.terms();
        let durability = group.check(terms)?;
        let limits = if group.sets_version() {
            // What is decided is applied.
            &UNLIMITED
        } else {
            &terms.limits
        };
        let sequence = Sequence::fold(&group.mutations, limits)?;
        if sequence.replaces() && !terms.endpoint {
            return Err(Error::invalid(
                "a cell is deleted and written again in one transaction, which needs the endpoint's conditions",
            )
            .with_hint("leave the delete out, or open the table with its endpoint"));
        }
        let deeds = || {
            group
                .parts
                .iter()
                .map(|part| (part.description(), part.condition().row()))
        };
        let digest = || Digest::of(&group.mutations, &group.conditions, deeds());
        let claim = match &group.record {
            Some(request) => {
                let claim = match claim {
                    Some(claim) => claim,
                    None => Claim::of_request(table, &group.partition, request, digest)?,
                };
                claim.check_window(deadline)?;
                Some(claim)
            }
            None => None,
        };
        Ok(Self {
            group,
            sequence,
            durability,
            claim,
        })
    }

    /// Returns whether the group has no conditions but that on its record, and so may share a call
    /// with others. A delete has conditions on what it deletes.
    pub(super) fn may_share(&self) -> bool {
        let group = self.group;
        group.conditions.is_empty()
            && group.parts.is_empty()
            && !group.guard_timestamps
            && !self.sequence.deletes()
    }

    /// Returns whether its call may be sent again, because a copy is refused.
    pub(super) fn is_repeatable(&self) -> bool {
        self.claim.is_some() || self.group.parts.iter().any(|part| part.applies_once())
    }

    /// Returns whether a part sets the version of the partition.
    pub(super) fn sets_version(&self) -> bool {
        self.group.sets_version()
    }

    /// Returns whether the group is one mutation without conditions. If that deletes a row without
    /// cells, it may count as applied at any time since the row was read.
    pub(super) fn is_one_mutation(&self) -> bool {
        let group = self.group;
        group.mutations.len() == 1 && group.conditions.is_empty() && group.parts.is_empty()
    }

    /// Returns the claim on a record whose id the caller chose, so that there may be a record.
    pub(super) fn claim_of_caller(&self) -> Option<&Claim> {
        let is_of_caller = self.group.record.as_ref().is_some_and(|record| record.of_caller);
        self.claim.as_ref().filter(|_| is_of_caller)
    }

    /// Returns whether another commit wrote this record.
    pub(super) fn is_replay(&self, record: &SeenRecord) -> bool {
        let own = self.claim.as_ref().map(|claim| claim.writer);
        own != Some(record.record.writer)
    }

    pub(in crate::txn) fn committed(&self, replayed: bool) -> Committed {
        Committed {
            partition: self.group.partition.clone(),
            rows: self.group.rows(),
            mutations: self.group.mutations.len(),
            replayed,
            results: Vec::new(),
        }
    }
}

/// Adds the transaction's table and partition to an error, and the increment that it is about.
pub(in crate::txn) fn in_context(table: &ProvenTable, group: &Group, error: Error) -> Error {
    let error = name_counter(error, group, table.terms());
    let error = error.at_operation("transaction").at_table(table.name());
    group.partition.in_context(error)
}

/// Names the column of an increment that the server refused because the stored value has another
/// length: `HRegion` throws the exception without row and column.
fn name_counter(error: Error, group: &Group, terms: &Terms) -> Error {
    if !error.remote().is_some_and(RemoteException::is_no_counter) {
        return error;
    }
    let increments: Vec<_> = group
        .mutations
        .iter()
        .filter_map(|mutation| match mutation {
            Mutation::Increment(increment) => Some(increment),
            _ => None,
        })
        .collect();
    // Versions, marks of deletions, locks and latches have counters of their own.
    let deletes = |mutation: &Mutation| matches!(mutation, Mutation::Delete(_));
    let only_of_caller =
        !terms.partition_version && group.parts.is_empty() && !group.mutations.iter().any(deletes);
    let counters = increments.iter().flat_map(|increment| increment.parts());
    match (&increments[..], &counters.collect::<Vec<_>>()[..]) {
        ([], _) => error,
        ([increment], [counter]) if only_of_caller => error.with_hint(format!(
            "store an i64 (8 bytes) in column {}:{} of row {} before it is incremented",
            BytesBinary(&counter.family),
            BytesBinary(&counter.qualifier),
            BytesBinary(increment.row())
        )),
        _ => error.with_hint("a column that is incremented holds a value that is not an i64 (8 bytes)"),
    }
}

#[cfg(test)]
mod tests {
    use hbase_client::{Condition, Increment, Put};
    use hbase_fake::{Call, FakeHBase};

    use crate::PartitionedTable;

    #[test]
    fn error_names_the_partition_and_the_increment_of_no_counter() {
        FakeHBase::run(async |hbase| {
            hbase.create_partitioned_table("shop", &["f", "_txn"], 4);
            let shop = PartitionedTable::open(&hbase.connect().await?, "shop").await?;
            let five = Put::new("anna/bill").cell("f", "cents", 5);
            shop.table().put(five).await?;
            let add = |qualifier: &'static str| Increment::new("anna/bill").column("f", qualifier, 1);
            let one = shop.transaction("anna").increment(add("cents"));
            let error = one.commit().await.into_result().unwrap_err().to_string();
            assert!(
                error.starts_with("transaction, table shop, partition anna, server "),
                "{error}"
            );
            let hint = "; store an i64 (8 bytes) in column f:cents of row anna/bill before it is incremented";
            assert!(error.ends_with(hint), "{error}");
            let two = shop
                .transaction("anna")
                .increment(add("cents").column("f", "n", 1));
            let error = two.commit().await.into_result().unwrap_err().to_string();
            let hint = "; a column that is incremented holds a value that is not an i64 (8 bytes)";
            assert!(error.ends_with(hint), "{error}");
            Ok(())
        });
    }

    #[test]
    fn lost_answers_to_a_proof_leave_no_doubt_of_the_transaction() {
        FakeHBase::run(async |hbase| {
            hbase.create_partitioned_table("shop", &["f", "_txn"], 4);
            let shop = PartitionedTable::open(&hbase.connect().await?, "shop").await?;
            hbase.fault(Call::MutateRows.on("shop").lose_answer());
            let conditional = shop
                .transaction("anna")
                .put(Put::new("anna/bill").cell("f", "cents", 5i64))
                .condition(Condition::absent("anna/bill", "f", "cents"));
            let outcome = conditional.commit().await;
            assert!(outcome.is_not_applied(), "{outcome}");
            let error = outcome.into_result().unwrap_err().to_string();
            assert!(
                error.starts_with("transaction, table shop, partition anna, server "),
                "{error}"
            );
            assert!(error.contains(", stage: proving conditions, "), "{error}");
            assert!(!error.contains("may have been applied"), "{error}");
            assert!(error.contains("; nothing was applied"), "{error}");
            Ok(())
        });
    }
}
