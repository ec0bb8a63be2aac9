//! Which mutations of one row may be in one atomic action.
//!
//! A server stamps all mutations of an action alike. Of two puts of one cell with one timestamp one would
//! be lost, and a delete would hide what is put beside it. All other puts of a row may be in one action.

use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use bytes::Bytes;
use prost::Message;

use super::{
    cell_block::{EncodedCell, LATEST},
    pb,
};

/// A cell that a put writes: a hash of its column, and its timestamp unless the server sets it. Columns
/// with the same hash are taken for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PutCell {
    column: u64,
    timestamp: Option<u64>,
}

impl PutCell {
    fn new(family: &[u8], qualifier: &[u8], timestamp: u64) -> Self {
        let mut hasher = DefaultHasher::new();
        (family, qualifier).hash(&mut hasher);
        Self {
            column: hasher.finish(),
            timestamp: Some(timestamp).filter(|timestamp| *timestamp != LATEST),
        }
    }
}

impl From<EncodedCell<'_>> for PutCell {
    fn from(cell: EncodedCell<'_>) -> Self {
        Self::new(cell.family, cell.qualifier, cell.timestamp)
    }
}

/// Returns the cells of a mutation that was encoded here, if it is a put.
fn cells_of_put(message: Bytes) -> Option<Vec<PutCell>> {
    let put = pb::MutationProto::decode(message).ok()?;
    if put.mutate_type() != pb::mutation_proto::MutationType::Put {
        return None;
    }
    let of_row = put.timestamp.unwrap_or(LATEST);
    let cells = put.column_value.iter().flat_map(|column| {
        let cell = |value: &pb::mutation_proto::column_value::QualifierValue| {
            PutCell::new(
                &column.family,
                value.qualifier.as_deref().unwrap_or_default(),
                value.timestamp.unwrap_or(of_row),
            )
        };
        column.qualifier_value.iter().map(cell)
    });
    Some(cells.collect())
}

/// The mutations of one row that are in an action.
#[derive(Debug, Default)]
pub(crate) struct RowOfAction {
    cells: HashSet<(u64, Option<u64>)>,
    columns: HashSet<u64>,
    is_closed: bool,
}

impl RowOfAction {
    /// Begins with a mutation: the cells of a put, or `None` for any other.
    pub(crate) fn new(first: Option<Vec<PutCell>>) -> Self {
        let mut row = Self::default();
        match first {
            Some(cells) => row.extend(&cells),
            None => row.is_closed = true,
        }
        row
    }

    /// Whether no other mutation may join.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Adds a mutation if it may be in the action. If not, none behind it may, as they are applied in
    /// their order.
    pub(crate) fn join(&mut self, cells: Option<Vec<PutCell>>) -> bool {
        match cells {
            Some(cells) if !self.is_closed && !cells.iter().any(|cell| self.clashes_with(*cell)) => {
                self.extend(&cells);
                true
            }
            _ => {
                self.is_closed = true;
                false
            }
        }
    }

    fn clashes_with(&self, PutCell { column, timestamp }: PutCell) -> bool {
        match timestamp {
            None => self.columns.contains(&column),
            Some(_) => self.cells.contains(&(column, None)) || self.cells.contains(&(column, timestamp)),
        }
    }

    fn extend(&mut self, cells: &[PutCell]) {
        self.columns.extend(cells.iter().map(|cell| cell.column));
        self.cells
            .extend(cells.iter().map(|cell| (cell.column, cell.timestamp)));
    }
}

/// The rows of an action to which messages of mutations are added.
#[derive(Debug, Default)]
pub(crate) struct RowsOfAction(BTreeMap<Bytes, Mutated>);

#[derive(Debug)]
struct Mutated {
    /// The message of the row's first mutation.
    first: Bytes,
    /// All its mutations, if another one has come.
    all: Option<RowOfAction>,
}

impl RowsOfAction {
    /// Returns whether a mutation of the row may be added.
    pub(crate) fn admit(&mut self, row: &Bytes, message: &Bytes) -> bool {
        self.0.get_mut(row).is_none_or(|Mutated { first, all }| {
            let all = all.get_or_insert_with(|| RowOfAction::new(cells_of_put(first.clone())));
            !all.is_closed() && all.join(cells_of_put(message.clone()))
        })
    }

    /// Adds a mutation that was admitted.
    pub(crate) fn add(&mut self, row: &Bytes, message: &Bytes) {
        let first = || Mutated {
            first: message.clone(),
            all: None,
        };
        self.0.entry(row.clone()).or_insert_with(first);
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{
        model::{Delete, Mutation, Put},
        wire::{encoded::EncodedMutations, mutation::MutationMessage},
    };

    fn cells(mutation: &Mutation) -> Option<Vec<PutCell>> {
        cells_of_put(MutationMessage::new(mutation, mutation.durability()).to_bytes())
    }

    fn join(mutations: &[Mutation]) -> Vec<bool> {
        let mut row = RowOfAction::new(cells(&mutations[0]));
        mutations[1..].iter().map(|next| row.join(cells(next))).collect()
    }

    #[test]
    fn only_puts_of_other_cells_join() {
        let put = |qualifier: &'static str| Put::new("r").cell("f", qualifier, "v");
        let at = |time: u64| -> Mutation { Put::new("r").cell_at("f", "a", time, "v").into() };
        let delete: Mutation = Delete::new("r").column("f", "z").into();
        let (a, b, c): (Mutation, Mutation, Mutation) = (put("a").into(), put("b").into(), put("c").into());
        assert_eq!(join(&[a.clone(), b.clone(), c.clone()]), [true, true]);
        assert_eq!(join(&[at(1), at(2), at(3)]), [true, true]);
        // Those behind one that waits wait too.
        assert_eq!(join(&[at(1), at(2), at(1), b.clone()]), [true, false, false]);
        assert_eq!(join(&[a.clone(), at(1), b.clone()]), [false, false]);
        assert_eq!(join(&[at(1), a.clone()]), [false]);
        assert_eq!(join(&[a.clone(), a.clone()]), [false]);
        assert_eq!(join(&[a, delete.clone(), b.clone()]), [false, false]);
        assert_eq!(join(&[delete, b]), [false]);
    }

    proptest! {
        /// Both encodings of a put have the same cells.
        #[test]
        fn cells_are_those_of_the_put(
            columns in vec((any::<[u8; 1]>(), vec(any::<u8>(), 0..3), proptest::option::of(0..5_u64)), 1..5),
            of_row in proptest::option::of(0..5_u64),
        ) {
            let mut put = Put::new("r");
            if let Some(time) = of_row {
                put = put.timestamp(time);
            }
            for (family, qualifier, time) in &columns {
                put = match time {
                    None => put.cell(family, qualifier, "v"),
                    Some(time) => put.cell_at(family, qualifier, *time, "v"),
                };
            }
            let put = Mutation::from(put);
            let wanted: Vec<_> = columns
                .iter()
                .map(|(family, qualifier, time)| PutCell::new(family, qualifier, time.or(of_row).unwrap_or(LATEST)))
                .collect();
            let mut of_message = cells(&put).unwrap();
            let mut encoded = EncodedMutations::default();
            encoded.push(&put, 0, true).unwrap();
            let slice = encoded.finish();
            let mut of_cells = slice.cells_of_put(&slice.mutations()[0]).unwrap();
            let key = |cell: &PutCell| (cell.column, cell.timestamp);
            let mut wanted = wanted;
            for cells in [&mut of_message, &mut of_cells, &mut wanted] {
                cells.sort_by_key(key);
            }
            prop_assert_eq!(&of_message, &wanted);
            prop_assert_eq!(&of_cells, &wanted);
        }
    }
}
