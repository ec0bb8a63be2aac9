//! Transactions without the endpoint: one atomic region action of a `Multi`, over several rows.
//!
//! The server applies it with the same code as the endpoint's call: exclusive row locks, one edit
//! of the log, all rows at the same time. HBase's own clients, not the server, limit such an action
//! to one row. HBase does not promise that several rows are atomic, so every server is tested
//! first.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use hbase_client::{
    Cell, Mutation, Row, TableDescriptor,
    low_level::{ActionAnswer, CallKind, MultiCall, RegionAction},
};
use tokio::time::Instant;

use super::{
    admission::{Admission, Sharing},
    partition_version,
    prepared::Prepared,
};
use crate::{
    error::Result,
    table_descriptor::TableDescriptorExt,
    txn::{
        outcome::{Committed, Outcome},
        partition_call::PartitionCall,
        proof::{proven_table::ProvenTable, servers::Needs},
    },
};

/// Sends a prepared group when its turn comes.
pub(in crate::txn) async fn commit(
    table: &ProvenTable,
    prepared: &Prepared<'_>,
    admission: Option<&Arc<Admission>>,
    deadline: Instant,
) -> Result<Outcome> {
    let partition = &prepared.group.partition;
    let mut mutations: Vec<Mutation> = prepared.sequence.mutations().unwrap_or_default().to_vec();
    if table.terms().partition_version
        && let Some(bump) = partition_version::bump(table.environment(), partition)
    {
        mutations.push(bump.into());
    }
    let call = MultiCall {
        row: partition.first_key().clone(),
        actions: vec![RegionAction::Atomic(mutations)],
        durability: prepared.durability,
    };
    let needs = Needs {
        // HBase promises that one row is atomic.
        atomic_multi: !partition.is_lone_row(),
        ..Needs::default()
    };
    let turn = match admission {
        Some(admission) => Some(admission.enter(partition, Sharing::Alone, deadline).await?),
        None => None,
    };
    let attempts = PartitionCall::new(table, partition, &call.row, CallKind::Write, deadline);
    let answers = attempts.needing(needs).multi(&call).await?;
    drop(turn);
    let cells = answers.into_iter().find_map(|answer| match answer {
        ActionAnswer::Applied(cells) => Some(cells),
        _ => None,
    });
    Ok(Outcome::Committed(Committed {
        results: rows(cells.unwrap_or_default()),
        ..prepared.committed(false)
    }))
}

/// Groups cells by row, without the cells of reserved families.
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
