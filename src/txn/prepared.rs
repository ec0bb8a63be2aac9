//! A group that is ready to send: checked, folded, and with the claim on its record. No I/O.

use hbase_client::{BytesBinary, Durability, TableName};
use tokio::time::Instant;

use super::{
    digest::Digest, outcome::Committed, plan::Group, proven_table::ProvenTable, record::SeenRecord,
    sequence::Sequence, settle::Claim,
};
use crate::error::{Error, Result};

/// A group that is ready to send.
pub(super) struct Prepared<'a> {
    pub(super) group: &'a Group,
    pub(super) sequence: Sequence<'a>,
    pub(super) durability: Durability,
    pub(super) claim: Option<Claim>,
}

impl<'a> Prepared<'a> {
    /// Checks and folds a group. `claim`: that of earlier attempts.
    ///
    /// # Errors
    ///
    /// Returns an error if no single call can express the group, or the table can't apply it.
    pub(super) fn new(
        table: &ProvenTable,
        group: &'a Group,
        claim: Option<Claim>,
        deadline: Instant,
    ) -> Result<Self> {
        let terms = table.terms();
        let durability = group.check(terms)?;
        let sequence = Sequence::fold(&group.mutations, &terms.limits)?;
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

    pub(super) fn committed(&self, replayed: bool) -> Committed {
        Committed {
            partition: self.group.partition.clone(),
            rows: self.group.rows(),
            mutations: self.group.mutations.len(),
            replayed,
            results: Vec::new(),
        }
    }
}

/// Adds the transaction's table and partition to an error.
pub(super) fn in_context(table: &TableName, group: &Group, error: Error) -> Error {
    error
        .at_operation("transaction")
        .at_table(table)
        .at_row(&BytesBinary(group.partition.prefix()))
}
