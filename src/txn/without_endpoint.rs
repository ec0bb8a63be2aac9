//! Transactions without the endpoint: one atomic region action of a `Multi`, over several rows.
//!
//! The server applies it with the same code as the endpoint's call: exclusive row locks, one edit of the log, one moment.
//! That there is one row only is checked by HBase's own clients, not by the server. Nobody promises this, so every
//! server is tried first.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    TransactionId,
    admission::Admission,
    commit::{Prepared, turn},
    gate::Place,
    outcome::{Committed, Outcome},
    partition_version,
    partitioned_table::PartitionedTable,
    servers::Needs,
};
use crate::{
    client::{ActionAnswer, CallKind, MultiCall, RegionAction},
    error::{Error, ErrorKind, Result},
    model::{Cell, Durability, Get, Increment, Mutation, Partition, Put, Row, TableDescriptor},
};

/// How long the rows of a trial are kept.
const TRIAL_TTL: Duration = Duration::from_secs(5);
/// A family that no table has.
const NO_FAMILY: &str = "_txn-no-such-family";

impl PartitionedTable {
    pub(super) async fn commit_by_multi(
        &self,
        prepared: &Prepared<'_>,
        admission: Option<&Arc<Admission>>,
        deadline: Instant,
    ) -> Result<Outcome> {
        let partition = &prepared.group.partition;
        let mut mutations: Vec<Mutation> = prepared.sequence.mutations().unwrap_or_default().to_vec();
        if self.terms().partition_version
            && let Some(bump) = partition_version::bump(partition)
        {
            mutations.push(bump.into());
        }
        let call = MultiCall {
            row: partition.first_key().clone(),
            actions: vec![RegionAction::Atomic(mutations)],
            durability: prepared.durability,
            kind: CallKind::Write,
        };
        let needs = Needs {
            // That of one row is HBase's promise.
            atomic_multi: !partition.is_lone_row(),
            ..Needs::default()
        };
        let turn = turn(admission, prepared, deadline).await?;
        let answers = self.multi_gated(partition, &call, needs, deadline).await?;
        drop(turn);
        let cells = answers.into_iter().find_map(|answer| match answer {
            ActionAnswer::Applied(cells) => Some(cells),
            _ => None,
        });
        Ok(Outcome::Committed(Committed {
            partition: partition.clone(),
            rows: prepared.group.rows(),
            mutations: prepared.group.mutations.len(),
            replayed: false,
            results: rows(cells.unwrap_or_default()),
        }))
    }

    /// Tries both sides of atomicity in rows of our own: two rows that are changed together, and a change that must
    /// not be made because another one of the same call can't be.
    pub(super) async fn prove_atomic_multi(&self, partition: &Partition, deadline: Instant) -> Result<()> {
        let (Some(one), Some(other)) = (
            partition.reserved_row(b"trial-1"),
            partition.reserved_row(b"trial-2"),
        ) else {
            return Ok(());
        };
        let family = self.trial_family();
        let qualifier = Bytes::copy_from_slice(TransactionId::unique().as_bytes());
        let increment = |row: &Bytes| {
            Increment::new(row.clone())
                .column(family.clone(), qualifier.clone(), 1)
                .ttl(TRIAL_TTL)
        };
        let place = Place::of(partition);
        let send = async |actions| {
            let call = MultiCall {
                row: one.clone(),
                actions,
                durability: Durability::AsyncWal,
                // What the counters have come to is not looked at.
                kind: CallKind::IdempotentWrite,
            };
            self.table()
                .multi_where("trying an atomic Multi", &call, &place, deadline)
                .await
        };
        let both = vec![increment(&one).into(), increment(&other).into()];
        let answers = send(vec![RegionAction::Atomic(both)]).await?;
        let counted = matches!(answers.as_slice(), [ActionAnswer::Applied(cells)] if cells.len() == 2);
        let hidden = Bytes::from_static(b"half");
        let half = vec![
            Put::new(one.clone())
                .cell(family.clone(), hidden.clone(), "x")
                .ttl(TRIAL_TTL)
                .into(),
            Put::new(other.clone()).cell(NO_FAMILY, "", "x").into(),
        ];
        let refused = match send(vec![RegionAction::Atomic(half)]).await {
            Err(error) if error.kind() == ErrorKind::FamilyNotFound => true,
            Err(error) => return Err(error),
            Ok(_) => false,
        };
        let get = Get::new(one.clone()).column(family.clone(), hidden);
        let found = send(vec![RegionAction::Get(get)]).await?;
        let absent = matches!(found.as_slice(), [ActionAnswer::Row(None)]);
        let Some(server) = place.into_only_server() else {
            // The region moved meanwhile, and none of the servers has seen it all: the gate asks for another trial.
            return Ok(());
        };
        if counted && refused && absent {
            self.servers().applies_multi_atomically(server);
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::AtomicityUnsupported,
            "the region server does not apply a Multi over several rows whole or not at all",
        )
        .at_server(&server.address())
        .with_hint("attach MultiRowMutationEndpoint to the table and open it with that"))
    }
}

/// Cells by row, without what this package added.
fn rows(cells: Vec<Cell>) -> Vec<Row> {
    let mut rows: BTreeMap<Bytes, Vec<Cell>> = BTreeMap::new();
    for cell in cells {
        if !TableDescriptor::reserves_family(&cell.family) {
            rows.entry(cell.row.clone()).or_default().push(cell);
        }
    }
    rows.into_iter()
        .map(|(key, cells)| Row::new(key, cells))
        .collect()
}
