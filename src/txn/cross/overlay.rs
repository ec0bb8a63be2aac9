//! Lays what a transaction has committed over the cells of a partition in which it is not applied yet. No
//! I/O.

use std::collections::{BTreeMap, btree_map::Entry};

use bytes::Bytes;
use hbase_client::{
    Cell, CellKind, Mutation, Row,
    low_level::{DeleteScope, MutationParts},
};

/// The cells of a row, by family and qualifier.
type Cells = BTreeMap<(Bytes, Bytes), Cell>;

/// Returns the rows, which are in the order of their keys, as they are after these mutations of the rows that
/// are inside. Their new cells have this timestamp.
pub(in crate::txn) fn lay_over(
    rows: Vec<Row>,
    mutations: Vec<Mutation>,
    timestamp: u64,
    is_inside: impl Fn(&Bytes) -> bool,
) -> Vec<Row> {
    let mut changed: BTreeMap<Bytes, Cells> = BTreeMap::new();
    let mut rows: BTreeMap<Bytes, Row> = rows.into_iter().map(|row| (row.key().clone(), row)).collect();
    for mutation in mutations.into_iter().filter(|mutation| is_inside(mutation.row())) {
        let cells = match changed.entry(mutation.row().clone()) {
            Entry::Occupied(cells) => cells.into_mut(),
            Entry::Vacant(cells) => {
                let found = rows
                    .remove(mutation.row())
                    .map(Row::into_cells)
                    .unwrap_or_default();
                let by_column = found
                    .into_iter()
                    .map(|cell| ((cell.family.clone(), cell.qualifier.clone()), cell));
                cells.insert(by_column.collect())
            }
        };
        apply(cells, &mutation, timestamp);
    }
    let changed = changed.into_iter().filter(|(_, cells)| !cells.is_empty());
    rows.extend(changed.map(|(key, cells)| (key.clone(), Row::new(key, cells.into_values().collect()))));
    rows.into_values().collect()
}

/// Applies a mutation that can be in a redo.
fn apply(cells: &mut Cells, mutation: &Mutation, timestamp: u64) {
    match mutation {
        Mutation::Put(put) => {
            for column in put.parts() {
                let (row, value) = (put.row().clone(), column.value.clone());
                let (family, qualifier) = (column.family.clone(), column.qualifier.clone());
                let column = (family.clone(), qualifier.clone());
                let cell = Cell::new(row, family, qualifier, timestamp, CellKind::Put, value);
                cells.insert(column, cell);
            }
        }
        Mutation::Delete(delete) if delete.parts().is_empty() => cells.clear(),
        Mutation::Delete(delete) => {
            for scope in delete.parts() {
                cells.retain(|(of_family, of_qualifier), _| match scope {
                    DeleteScope::Family(family) => family != of_family,
                    DeleteScope::Column { family, qualifier } => {
                        (family, qualifier) != (of_family, of_qualifier)
                    }
                    DeleteScope::FamilyVersion { .. } | DeleteScope::Version { .. } => true,
                });
            }
        }
        Mutation::Increment(_) | Mutation::Append(_) => {}
    }
}
