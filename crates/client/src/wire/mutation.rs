//! Mutations as messages, written straight from the model.
//!
//! A [`pb::MutationProto`](super::pb::MutationProto) costs an allocation for each of its parts before
//! the first byte is written, which would be most of what a client does for a small mutation.

use bytes::Bytes;

use super::{
    convert::durability_code,
    output::{Output, Part, len},
    pb::mutation_proto::{DeleteType, MutationType},
};
use crate::model::{DeleteScope, Durability, Mutation, TimeRange};

/// A mutation as a `MutationProto`.
#[derive(Clone, Copy, Debug)]
pub struct MutationMessage<'a> {
    mutation: &'a Mutation,
    durability: Durability,
    /// Whether the cells are inside, and not in a cell block behind the message.
    has_cells: bool,
    /// 0 for none.
    nonce: u64,
}

impl<'a> MutationMessage<'a> {
    /// Returns the message with its cells inside: the only form that `MultiRowMutationEndpoint`
    /// accepts.
    #[must_use]
    pub fn new(mutation: &'a Mutation, durability: Durability) -> Self {
        Self {
            mutation,
            durability,
            has_cells: true,
            nonce: 0,
        }
    }

    /// Adds the nonce by which a server recognises an increment or append that comes again.
    pub(crate) fn with_nonce(self, nonce: u64) -> Self {
        Self { nonce, ..self }
    }

    /// Returns the message without its cells, which are in a cell block.
    pub(crate) fn without_cells(mutation: &'a Mutation) -> Self {
        Self {
            mutation,
            durability: mutation.durability(),
            has_cells: false,
            nonce: 0,
        }
    }

    /// Appends the bytes of the message.
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        self.write(buffer);
    }

    /// Appends the message as a field of another message.
    pub fn encode_field(&self, number: u32, buffer: &mut Vec<u8>) {
        buffer.message(number, self);
    }

    /// Returns the bytes of the message.
    pub(crate) fn to_bytes(self) -> Bytes {
        let mut buffer = Vec::with_capacity(len(&self));
        self.write(&mut buffer);
        buffer.into()
    }
}

impl Part for MutationMessage<'_> {
    fn write(&self, output: &mut impl Output) {
        let mutation = self.mutation;
        let (kind, timestamp, cells) = match mutation {
            Mutation::Put(put) => (MutationType::Put, put.timestamp, put.cells.len()),
            Mutation::Delete(delete) => (MutationType::Delete, delete.timestamp, delete.scopes.len()),
            Mutation::Increment(increment) => (MutationType::Increment, None, increment.columns.len()),
            Mutation::Append(append) => (MutationType::Append, None, append.cells.len()),
        };
        output.bytes(1, mutation.row());
        output.number(2, kind as u64);
        if self.has_cells {
            // The cells of a family together, at the place of its first one.
            for first in 0..cells {
                let family = Family {
                    mutation,
                    name: value(mutation, first).family,
                    first,
                    cells,
                };
                let is_of = |index| value(mutation, index).family == family.name;
                if !(0..first).any(is_of) {
                    output.message(3, &family);
                }
            }
        }
        if let Some(timestamp) = timestamp {
            output.number(4, timestamp);
        }
        for attribute in mutation.attributes() {
            output.message(5, attribute);
        }
        output.number(6, durability_code(self.durability).unsigned_abs().into());
        if let Some(range) = mutation.time_range() {
            output.message(7, &range);
        }
        if !self.has_cells {
            output.number(8, cells as u64);
        }
        if self.nonce != 0 {
            output.number(9, self.nonce);
        }
    }

    fn expected_len(&self) -> usize {
        // Six bytes besides the row, four of a family, and six of a cell.
        16 + self.mutation.size()
    }
}

impl Part for TimeRange {
    fn write(&self, output: &mut impl Output) {
        output.number(1, self.from);
        output.number(2, self.to);
    }

    fn expected_len(&self) -> usize {
        2 * (1 + size_of::<u64>())
    }
}

/// A `NameBytesPair`.
impl Part for (String, Bytes) {
    fn write(&self, output: &mut impl Output) {
        let (name, value) = self;
        output.bytes(1, name.as_bytes());
        output.bytes(2, value);
    }

    fn expected_len(&self) -> usize {
        let (name, value) = self;
        4 + name.len() + value.len()
    }
}

/// A `ColumnValue`: the cells from this one on that are of its family.
struct Family<'a> {
    mutation: &'a Mutation,
    name: &'a [u8],
    first: usize,
    cells: usize,
}

impl Part for Family<'_> {
    fn write(&self, output: &mut impl Output) {
        output.bytes(1, self.name);
        for index in self.first..self.cells {
            let value = value(self.mutation, index);
            if value.family == self.name {
                output.message(2, &value);
            }
        }
    }

    fn expected_len(&self) -> usize {
        // Most families have one cell, or cells of the same size.
        let cell = value(self.mutation, self.first).expected_len();
        2 + self.name.len() + (2 + cell) * (self.cells - self.first)
    }
}

/// A `QualifierValue`, and its family.
struct Value<'a> {
    family: &'a [u8],
    qualifier: Option<&'a [u8]>,
    content: Content<'a>,
    timestamp: Option<u64>,
}

enum Content<'a> {
    Bytes(&'a [u8]),
    Amount(i64),
    // The server reads a missing type as "one version", which would delete something else.
    Delete(DeleteType),
}

impl Part for Value<'_> {
    fn write(&self, output: &mut impl Output) {
        if let Some(qualifier) = self.qualifier {
            output.bytes(1, qualifier);
        }
        match self.content {
            Content::Bytes(bytes) => output.bytes(2, bytes),
            Content::Amount(amount) => output.bytes(2, &amount.to_be_bytes()),
            Content::Delete(_) => {}
        }
        if let Some(timestamp) = self.timestamp {
            output.number(3, timestamp);
        }
        if let Content::Delete(kind) = self.content {
            output.number(4, kind as u64);
        }
    }

    fn expected_len(&self) -> usize {
        let content = match self.content {
            Content::Bytes(bytes) => bytes.len(),
            Content::Amount(_) => size_of::<i64>(),
            Content::Delete(_) => 0,
        };
        4 + self.qualifier.map_or(0, <[u8]>::len) + content
    }
}

/// Returns a cell of a mutation.
fn value(mutation: &Mutation, index: usize) -> Value<'_> {
    let (columns, timestamp) = match mutation {
        Mutation::Put(put) => (&put.cells, None),
        Mutation::Append(append) => (&append.cells, append.timestamp),
        Mutation::Increment(increment) => {
            let counter = &increment.columns[index];
            return Value {
                family: &counter.family,
                qualifier: Some(&counter.qualifier),
                content: Content::Amount(counter.amount),
                timestamp: counter.timestamp.or(increment.timestamp),
            };
        }
        Mutation::Delete(delete) => {
            let scope = &delete.scopes[index];
            let (qualifier, kind): (Option<&[u8]>, _) = match scope {
                DeleteScope::Family(_) => (None, DeleteType::DeleteFamily),
                DeleteScope::FamilyVersion { .. } => (None, DeleteType::DeleteFamilyVersion),
                DeleteScope::Column { qualifier, .. } => {
                    (Some(qualifier), DeleteType::DeleteMultipleVersions)
                }
                DeleteScope::Version { qualifier, .. } => (Some(qualifier), DeleteType::DeleteOneVersion),
            };
            return Value {
                family: scope.family(),
                qualifier,
                content: Content::Delete(kind),
                timestamp: scope.timestamp().or(delete.timestamp),
            };
        }
    };
    let column = &columns[index];
    Value {
        family: &column.family,
        qualifier: Some(&column.qualifier),
        content: Content::Bytes(&column.value),
        timestamp: column.timestamp.or(timestamp),
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use prost::Message;
    use rstest::rstest;

    use super::*;
    use crate::{
        model::{Append, Delete, Increment, Put},
        wire::pb::{
            self,
            mutation_proto::{ColumnValue, column_value::QualifierValue},
        },
    };

    /// Reads the message of a mutation, and checks that it is written as any other message.
    fn message(mutation: impl Into<Mutation>) -> pb::MutationProto {
        let mutation = mutation.into();
        let written = MutationMessage::new(&mutation, Durability::SyncWal);
        let bytes = written.to_bytes();
        let read = pb::MutationProto::decode(bytes.clone()).unwrap();
        assert_eq!(read.encode_to_vec(), bytes);
        assert_eq!(read.row.as_ref(), Some(mutation.row()));
        assert_eq!(read.durability(), pb::mutation_proto::Durability::SyncWal);
        let mut field = Vec::new();
        written.encode_field(1, &mut field);
        let request = pb::MutateRowsRequest::decode(&*field).unwrap();
        assert!(request.mutation_request.iter().eq([&read]));
        read
    }

    #[test]
    fn cells_are_grouped_by_family_in_their_order() {
        let put = Put::new("r")
            .cell("f", "a", "1")
            .cell_at("g", "", 7, "2")
            .cell("f", "b", "");
        let value = |qualifier: &'static str, value: &'static str, timestamp| QualifierValue {
            qualifier: Some(qualifier.into()),
            value: Some(value.into()),
            timestamp,
            ..QualifierValue::default()
        };
        let family = |family: &'static str, qualifier_value| ColumnValue {
            family: family.into(),
            qualifier_value,
        };
        let of_f = family("f", vec![value("a", "1", None), value("b", "", None)]);
        let of_g = family("g", vec![value("", "2", Some(7))]);
        let message = message(put.timestamp(u64::MAX >> 1).attribute("name", "x"));
        assert_eq!(message.column_value, [of_f, of_g]);
        assert_eq!(message.timestamp, Some(u64::MAX >> 1));
        assert_eq!(message.attribute.len(), 1);
        assert_eq!(message.attribute[0].value.as_deref(), Some(&b"x"[..]));
    }

    #[test]
    fn a_delete_always_says_what_sort_it_is() {
        let delete = Delete::new("r")
            .family("f")
            .column("f", "a")
            .version("g", "b", 7)
            .timestamp(9);
        let message = message(delete);
        let kinds: Vec<_> = message
            .column_value
            .iter()
            .flat_map(|group| &group.qualifier_value)
            .map(|value| (value.delete_type.unwrap(), value.timestamp))
            .collect();
        assert_eq!(kinds, [(2, Some(9)), (1, Some(9)), (0, Some(7))]);
        assert_eq!(message.column_value.len(), 2);
    }

    #[test]
    fn amounts_and_suffixes_are_values() {
        let value = |message: pb::MutationProto| message.column_value[0].qualifier_value[0].value.clone();
        let added = message(Increment::new("r").column("f", "q", -2));
        assert_eq!(value(added).unwrap(), (-2_i64).to_be_bytes()[..]);
        let appended = message(Append::new("r").cell("f", "q", "tail"));
        assert_eq!(value(appended).unwrap(), "tail");
    }

    #[test]
    fn increments_and_appends_have_times() {
        let range = TimeRange { from: 3, to: 7 };
        let increment = Increment::new("r").column("f", "a", 1).column("f", "b", 1);
        let append = Append::new("r").cell("f", "a", "x").cell("f", "b", "y");
        for message in [
            message(increment.timestamp(5).time_range(range)),
            message(append.timestamp(5).time_range(range)),
        ] {
            let values = &message.column_value[0].qualifier_value;
            assert!(values.len() == 2 && values.iter().all(|value| value.timestamp == Some(5)));
            let range = message.time_range.unwrap();
            assert_eq!((range.from, range.to), (Some(3), Some(7)));
        }
    }

    #[rstest]
    #[case::one_byte(0..130)]
    #[case::two_bytes(110..400)]
    #[case::three_bytes(16_330..16_400)]
    fn lengths_have_as_few_bytes_as_they_need(#[case] lens: Range<usize>) {
        for len in lens {
            let value = vec![b'v'; len];
            message(Put::new("r").cell("f", "q", value.clone()));
            let put = Put::new("r").cell("f", "q", "").cell("f", "r", value.clone());
            message(put.cell("g", value.clone(), "").attribute("name", value));
        }
    }

    #[test]
    fn cells_behind_a_message_are_counted() {
        let put = Put::new("r").cell("f", "a", "1").cell("g", "b", "2").into();
        let bytes = MutationMessage::without_cells(&put).to_bytes();
        let message = pb::MutationProto::decode(bytes).unwrap();
        assert_eq!(
            (message.associated_cell_count, message.column_value.len()),
            (Some(2), 0)
        );
    }
}
