//! Puts and deletes that are encoded before their call exists.
//!
//! A message with the cells inside costs several allocations for each mutation. Here a mutation is
//! bytes from the start: its message without cells, and its cells, both in one buffer with those of
//! other mutations. A call copies the cells and refers to the messages.

use std::ops::Range;

use bytes::Bytes;

use super::{
    cell_block::{CellBlockError, CellRef, LATEST, encode_cell, encoded_cells, stamp_cells},
    multi::EncodedRegionAction,
    mutation::MutationMessage,
    output::Output,
    same_row::{PutCell, RowOfAction},
};
use crate::model::{CellKind, Delete, DeleteScope, Mutation, RegionInfo};

/// Mutations in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct EncodedMutations {
    buffer: Vec<u8>,
    mutations: Vec<Encoded>,
}

/// A part of [`EncodedMutations`], in any order.
#[derive(Clone, Debug)]
pub(crate) struct EncodedSlice {
    buffer: Bytes,
    mutations: Vec<Encoded>,
}

/// The position of a mutation in its buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoded {
    /// The number that the caller has given it.
    pub(crate) number: u64,
    /// Whether applying it twice has the same effect as once.
    pub(crate) is_repeatable: bool,
    pub(crate) is_delete: bool,
    pub(crate) is_stamped_by_server: bool,
    row_len: u16,
    start: usize,
    /// The end of the message, which is the start of the cells.
    cells: usize,
    end: usize,
}

impl Encoded {
    /// Returns the number of bytes in the buffer.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// The row is the first field of the message: a tag, the length, the bytes.
    fn row(&self) -> Range<usize> {
        let len = usize::from(self.row_len);
        let start = self.start + 1 + prost::length_delimiter_len(len);
        start..start + len
    }
}

impl EncodedMutations {
    /// Appends a put or a delete. Leaves the buffer unchanged on an error.
    pub(crate) fn push(
        &mut self,
        mutation: &Mutation,
        number: u64,
        is_repeatable: bool,
    ) -> Result<(), CellBlockError> {
        let start = self.buffer.len();
        let row_len = mutation.row().len();
        let row_len = u16::try_from(row_len).map_err(|_| CellBlockError::TooLong {
            part: "row",
            len: row_len,
            limit: i16::MAX as usize,
        })?;
        MutationMessage::without_cells(mutation).encode(&mut self.buffer);
        let cells = self.buffer.len();
        if let Err(error) = encode_cells(&mut self.buffer, mutation) {
            self.buffer.truncate(start);
            return Err(error);
        }
        self.mutations.push(Encoded {
            number,
            is_repeatable,
            is_delete: mutation.is_delete(),
            is_stamped_by_server: mutation.is_stamped_by_server(),
            row_len,
            start,
            cells,
            end: self.buffer.len(),
        });
        Ok(())
    }

    /// Appends a mutation of a slice.
    pub(crate) fn copy(&mut self, slice: &EncodedSlice, mutation: &Encoded) {
        let start = self.buffer.len();
        self.buffer
            .extend_from_slice(&slice.buffer[mutation.start..mutation.end]);
        self.mutations.push(Encoded {
            start,
            cells: start + (mutation.cells - mutation.start),
            end: self.buffer.len(),
            ..*mutation
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.mutations.is_empty()
    }

    pub(crate) fn count(&self) -> usize {
        self.mutations.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Takes all mutations out. Leaves room for as many again, so that the buffers of the next ones
    /// do not grow in steps.
    pub(crate) fn take(&mut self) -> EncodedSlice {
        let next = Self {
            buffer: Vec::with_capacity(self.buffer.len()),
            mutations: Vec::with_capacity(self.mutations.len()),
        };
        std::mem::replace(self, next).finish()
    }

    pub(crate) fn finish(self) -> EncodedSlice {
        EncodedSlice {
            buffer: self.buffer.into(),
            mutations: self.mutations,
        }
    }
}

fn encode_cells(buffer: &mut Vec<u8>, mutation: &Mutation) -> Result<(), CellBlockError> {
    match mutation {
        Mutation::Put(put) => put.cells.iter().try_for_each(|cell| {
            let cell = CellRef {
                row: &put.row,
                family: &cell.family,
                qualifier: &cell.qualifier,
                timestamp: cell.timestamp.or(put.timestamp).unwrap_or(LATEST),
                kind: CellKind::Put,
                value: &cell.value,
            };
            encode_cell(buffer, &cell)
        }),
        Mutation::Delete(delete) => delete
            .scopes
            .iter()
            .try_for_each(|scope| encode_cell(buffer, &marker(delete, scope))),
        Mutation::Increment(_) | Mutation::Append(_) => Err(CellBlockError::NoCells),
    }
}

fn marker<'a>(delete: &'a Delete, scope: &'a DeleteScope) -> CellRef<'a> {
    let (qualifier, kind): (&[u8], _) = match scope {
        DeleteScope::Family(_) => (&[], CellKind::DeleteFamily),
        DeleteScope::FamilyVersion { .. } => (&[], CellKind::DeleteFamilyVersion),
        DeleteScope::Column { qualifier, .. } => (qualifier, CellKind::DeleteColumn),
        DeleteScope::Version { qualifier, .. } => (qualifier, CellKind::Delete),
    };
    CellRef {
        row: &delete.row,
        family: scope.family(),
        qualifier,
        timestamp: scope.timestamp().or(delete.timestamp).unwrap_or(LATEST),
        kind,
        value: &[],
    }
}

/// Returns the message of a delete of a whole row with a timestamp, which no cell could have. The
/// timestamp is behind the row and the kind, because fields are in the order of their numbers.
fn stamped(message: &[u8], row_end: usize, stamp: u64) -> Vec<u8> {
    const KIND: usize = 2;
    let (row_and_kind, rest) = message.split_at(row_end + KIND);
    let mut stamped = row_and_kind.to_vec();
    stamped.number(4, stamp);
    stamped.extend_from_slice(rest);
    stamped
}

/// Returns mutations in the order of their rows, those of one row in the order of their numbers. Each
/// has a part of its row before it, the same for equal rows.
///
/// Most comparisons need that part alone: eight bytes behind what all rows have in common.
fn in_order_of_rows<'a>(
    mutations: &[Encoded],
    row: impl Fn(&Encoded) -> &'a [u8],
) -> impl Iterator<Item = (u64, Encoded)> {
    let first = mutations.first().map_or(&[][..], &row);
    let in_common = |row: &[u8]| {
        row.iter()
            .zip(first)
            .take_while(|(one, other)| one == other)
            .count()
    };
    let common = mutations.iter().map(|mutation| in_common(row(mutation))).min();
    let key = |row: &[u8]| {
        let behind = &row[common.unwrap_or(0)..];
        let (mut key, len) = ([0; 8], behind.len().min(8));
        key[..len].copy_from_slice(&behind[..len]);
        u64::from_be_bytes(key)
    };
    let mut order: Vec<_> = (0..)
        .zip(mutations)
        .map(|(index, mutation)| (key(row(mutation)), index))
        .collect();
    order.sort_by(|(key, index), (other_key, other_index)| {
        let (one, other) = (&mutations[*index], &mutations[*other_index]);
        key.cmp(other_key)
            .then_with(|| row(one).cmp(row(other)))
            .then_with(|| one.number.cmp(&other.number))
    });
    order.into_iter().map(|(key, index)| (key, mutations[index]))
}

impl EncodedSlice {
    pub(crate) fn mutations(&self) -> &[Encoded] {
        &self.mutations
    }

    /// Returns the row of a mutation, as a part of the buffer.
    pub(crate) fn row(&self, mutation: &Encoded) -> Bytes {
        self.buffer.slice(mutation.row())
    }

    pub(crate) fn row_bytes(&self, mutation: &Encoded) -> &[u8] {
        &self.buffer[mutation.row()]
    }

    /// Removes the mutations from this index on, and returns them.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        Self {
            buffer: self.buffer.clone(),
            mutations: self.mutations.split_off(at),
        }
    }

    /// Removes the mutations that do not satisfy the condition, and returns them.
    pub(crate) fn split_unless(&mut self, keep: impl Fn(&[u8], &Encoded) -> bool) -> Self {
        let buffer = self.buffer.clone();
        let (kept, removed) = std::mem::take(&mut self.mutations)
            .into_iter()
            .partition(|mutation| keep(&buffer[mutation.row()], mutation));
        self.mutations = kept;
        Self {
            buffer,
            mutations: removed,
        }
    }

    /// Returns the cells of a mutation if it is a put.
    pub(crate) fn cells_of_put(&self, mutation: &Encoded) -> Option<Vec<PutCell>> {
        let cells = || encoded_cells(&self.buffer[mutation.cells..mutation.end]);
        (!mutation.is_delete).then(|| cells().map(PutCell::from).collect())
    }

    /// Sorts the mutations by row, and removes those that can't be in one action with an earlier one of
    /// their row. Returns the removed ones in their order.
    pub(crate) fn split_clashing(&mut self) -> Self {
        let row = |mutation: &Encoded| &self.buffer[mutation.row()];
        let mut clashing = Vec::new();
        if !self.mutations.is_sorted_by(|one, next| row(one) < row(next)) {
            let mut sorted: Vec<(u64, Encoded)> = Vec::with_capacity(self.mutations.len());
            // The row of the last mutation, if another one of it has come.
            let mut repeated: Option<RowOfAction> = None;
            for (key, mutation) in in_order_of_rows(&self.mutations, row) {
                match sorted.last() {
                    Some((last_key, last)) if *last_key == key && row(last) == row(&mutation) => {
                        let row = repeated.get_or_insert_with(|| RowOfAction::new(self.cells_of_put(last)));
                        let cells = || self.cells_of_put(&mutation);
                        if row.is_closed() || !row.join(cells()) {
                            clashing.push(mutation);
                            continue;
                        }
                    }
                    _ => repeated = None,
                }
                sorted.push((key, mutation));
            }
            self.mutations = sorted.into_iter().map(|(_, mutation)| mutation).collect();
            clashing.sort_by_key(|mutation| mutation.number);
        }
        Self {
            buffer: self.buffer.clone(),
            mutations: clashing,
        }
    }

    /// Returns the number of bytes of all cells.
    pub(crate) fn cells_len(&self) -> usize {
        self.mutations.iter().map(|one| one.end - one.cells).sum()
    }

    /// Returns the request for a region, in which the mutations are one atomic action, and appends
    /// their cells. What has no timestamp gets this one, or that of the server.
    pub(crate) fn region_action(
        &self,
        region: &RegionInfo,
        stamp: Option<u64>,
        cells: &mut Vec<u8>,
    ) -> Bytes {
        let messages = self.mutations.iter().map(|one| one.cells - one.start).sum();
        let mut action = EncodedRegionAction::new(region)
            .with_room(self.mutations.len(), messages)
            .atomic();
        for mutation in &self.mutations {
            let (first, message) = (cells.len(), &self.buffer[mutation.start..mutation.cells]);
            cells.extend_from_slice(&self.buffer[mutation.cells..mutation.end]);
            match stamp.filter(|_| mutation.is_stamped_by_server) {
                None => action.mutation(message),
                Some(stamp) if first == cells.len() => {
                    let row_end = mutation.row().end - mutation.start;
                    action.mutation(&stamped(message, row_end, stamp));
                }
                Some(stamp) => {
                    stamp_cells(&mut cells[first..], LATEST, stamp);
                    action.mutation(message);
                }
            }
        }
        action.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, btree_map::Entry};

    use proptest::{collection::vec, prelude::*};
    use prost::Message;

    use super::*;
    use crate::{
        model::Put,
        wire::{
            cell_block::{CellBlockDecoder, Codec},
            convert,
            multi::EncodedMultiRequest,
            pb,
        },
    };

    fn region() -> RegionInfo {
        RegionInfo::meta()
    }

    fn encoded(mutations: &[Mutation]) -> EncodedSlice {
        let mut encoded = EncodedMutations::default();
        for (number, mutation) in (0..).zip(mutations) {
            encoded.push(mutation, number, false).unwrap();
        }
        encoded.finish()
    }

    fn numbers(slice: &EncodedSlice) -> Vec<u64> {
        slice.mutations().iter().map(|mutation| mutation.number).collect()
    }

    #[test]
    fn a_call_of_encoded_mutations_is_the_message_of_their_protocol() {
        let put = Put::new("r")
            .cell("f", "q", "v")
            .cell_at("g", "", 7, "w")
            .timestamp(5);
        let delete = Delete::new("s").family("f").column("f", "q").version("f", "v", 3);
        let slice = encoded(&[put.into(), delete.into(), Delete::new("t").into()]);
        let mut cells = Vec::new();
        let request = EncodedMultiRequest::new(vec![slice.region_action(&region(), None, &mut cells)]);
        let read = pb::MultiRequest::decode(&*request.encode_to_vec()).unwrap();
        let [action] = &*read.region_action else {
            panic!("{read:?}")
        };
        assert_eq!(action.region, convert::region_specifier(&region()));
        assert_eq!(action.atomic, Some(true));
        let counts = action.action.iter().map(|action| {
            let mutation = action.mutation.as_ref().unwrap();
            (mutation.row.clone().unwrap(), mutation.associated_cell_count)
        });
        let expected = [("r", 2), ("s", 3), ("t", 0)].map(|(row, cells)| (row.into(), Some(cells)));
        assert_eq!(counts.collect::<Vec<(Bytes, _)>>(), expected);
        let cells: Vec<_> = CellBlockDecoder::new(cells.into(), Codec::KeyValue)
            .map(|cell| {
                let cell = cell.unwrap();
                (cell.row, cell.timestamp, cell.kind)
            })
            .collect();
        let expected = [
            ("r", 5, CellKind::Put),
            ("r", 7, CellKind::Put),
            ("s", LATEST, CellKind::DeleteFamily),
            ("s", LATEST, CellKind::DeleteColumn),
            ("s", 3, CellKind::Delete),
        ];
        assert_eq!(cells, expected.map(|(row, time, kind)| (row.into(), time, kind)));
    }

    #[test]
    fn stamp_is_that_of_all_parts_without_one() {
        let put = Put::new("r").cell("f", "q", "v").cell_at("f", "", 7, "w");
        let delete = Delete::new("s").family("f").version("f", "v", 3);
        let whole_row = Delete::new("t").attribute("name", "x");
        let own = Delete::new("u").timestamp(5);
        let slice = encoded(&[put.into(), delete.into(), whole_row.into(), own.into()]);
        let mut cells = Vec::new();
        let request = EncodedMultiRequest::new(vec![slice.region_action(&region(), Some(9), &mut cells)]);
        let read = pb::MultiRequest::decode(&*request.encode_to_vec()).unwrap();
        let timestamps = read.region_action[0].action.iter().map(|action| {
            let mutation = action.mutation.as_ref().unwrap();
            mutation.timestamp
        });
        assert_eq!(timestamps.collect::<Vec<_>>(), [None, None, Some(9), Some(5)]);
        let cells = CellBlockDecoder::new(cells.into(), Codec::KeyValue);
        let timestamps: Vec<_> = cells.map(|cell| cell.unwrap().timestamp).collect();
        assert_eq!(timestamps, [9, 7, 9, 3]);
    }

    #[test]
    fn only_the_first_mutation_of_a_row_stays_and_rows_are_sorted() {
        let rows = ["b", "a", "b", "c", "a", "a"];
        let mut slice = encoded(&rows.map(|row| Put::new(row).cell("f", "q", "v").into()));
        let clashing = slice.split_clashing();
        assert_eq!(numbers(&slice), [1, 0, 3]);
        assert_eq!(numbers(&clashing), [2, 4, 5]);
    }

    proptest! {
        #[test]
        fn rows_are_in_their_order_whatever_they_have_in_common(
            prefix in vec(any::<u8>(), 0..10),
            rows in vec(vec(0..2u8, 0..10), 1..30),
        ) {
            let rows: Vec<Vec<u8>> = rows.iter().map(|row| [&*prefix, row].concat()).collect();
            let puts = rows.iter().map(|row| Put::new(row.clone()).cell("f", "q", "v").into());
            let mut slice = encoded(&puts.collect::<Vec<_>>());
            let clashing = slice.split_clashing();
            let mut first: BTreeMap<&[u8], u64> = BTreeMap::new();
            let mut others = Vec::new();
            for (number, row) in (0..).zip(&rows) {
                match first.entry(row) {
                    Entry::Vacant(place) => drop(place.insert(number)),
                    Entry::Occupied(_) => others.push(number),
                }
            }
            prop_assert_eq!(numbers(&slice), first.into_values().collect::<Vec<_>>());
            prop_assert_eq!(numbers(&clashing), others);
        }
    }

    #[test]
    fn a_copy_has_the_same_bytes() {
        let slice = encoded(&["a", "b"].map(|row| Put::new(row).cell("f", "q", "v").into()));
        let mut copied = EncodedMutations::default();
        copied.copy(&slice, &slice.mutations()[1]);
        let copied = copied.finish();
        assert_eq!(copied.row(&copied.mutations()[0]), "b");
        let block = |slice: &EncodedSlice, index: usize| {
            let one = slice.mutations()[index];
            slice.buffer.slice(one.start..one.end)
        };
        assert_eq!(block(&copied, 0), block(&slice, 1));
    }
}
