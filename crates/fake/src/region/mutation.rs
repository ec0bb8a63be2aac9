//! Mutations, as messages have them.

use bytes::Bytes;
use hbase_protocol as pb;
use pb::mutation_proto::{DeleteType, Durability, MutationType};

use super::{entry::Logged, read};
use crate::{
    cell::{Cell, Cells, Heap, Kind, LATEST},
    exception::{Exception, Result},
};

/// The longest row key.
const MAX_ROW: usize = i16::MAX as usize;

/// A change of one row.
#[derive(Clone, Debug)]
pub(super) struct Mutation {
    pub(super) kind: MutationType,
    pub(super) row: Bytes,
    /// The cells to put, to add, to append or to delete. Their timestamp is [`LATEST`] if the server
    /// chooses it.
    pub(super) cells: Vec<Cell>,
    /// The time of a delete of the whole row.
    pub(super) timestamp: u64,
    pub(super) ttl: Option<u64>,
    pub(super) durability: Option<Logged>,
    /// Which versions an increment or append reads.
    pub(super) time_range: (u64, u64),
    pub(super) returns_result: bool,
    pub(super) nonce: u64,
}

impl Mutation {
    pub(super) fn read(mutation: &pb::MutationProto, block: &mut Cells) -> Result<Self> {
        let pb::MutationProto {
            row,
            mutate_type: _,
            column_value,
            timestamp,
            attribute,
            durability: _,
            time_range,
            associated_cell_count,
            nonce,
        } = mutation;
        let kind = mutation.mutate_type();
        let row = row.clone().unwrap_or_default();
        if row.is_empty() || row.len() > MAX_ROW {
            return Err(Exception::io("Row length is 0 or too long"));
        }
        let time = timestamp.unwrap_or(LATEST);
        let mut cells = Vec::new();
        for column in column_value {
            for value in &column.qualifier_value {
                let cell = cell_of(kind, &row, &column.family, value, time)?;
                if cell.kind == Kind::DeleteFamily {
                    // Java's builder of deletes drops what the family had before.
                    cells.retain(|other: &Cell| other.family != cell.family);
                }
                cells.push(cell);
            }
        }
        let count = usize::try_from(associated_cell_count.unwrap_or(0)).unwrap_or(0);
        for cell in block.take(count)? {
            if cell.row != row {
                return Err(Exception::io("a cell of another row than its mutation's"));
            }
            cells.push(cell);
        }
        if cells.is_empty() && kind != MutationType::Delete {
            return Err(Exception::io("No columns to write"));
        }
        let mut read = Self {
            kind,
            row,
            cells,
            timestamp: time,
            ttl: None,
            durability: match mutation.durability() {
                Durability::UseDefault => None,
                Durability::SkipWal => Some(Logged::Not),
                Durability::AsyncWal => Some(Logged::Async),
                Durability::SyncWal | Durability::FsyncWal => Some(Logged::Synced),
            },
            time_range: read::time_range(time_range.as_ref())?,
            returns_result: true,
            nonce: nonce.unwrap_or(0),
        };
        for attribute in attribute {
            let value = attribute.value();
            match &*attribute.name {
                "_ttl" => {
                    let bytes = value.try_into();
                    let bytes = bytes.map_err(|_| Exception::io("the TTL is not an 8-byte number"))?;
                    read.ttl = Some(u64::from_be_bytes(bytes));
                }
                "_rr_" => read.returns_result = value.first() != Some(&0),
                name => return Err(Exception::not_modelled(format!("attribute {name} of a mutation"))),
            }
        }
        Ok(read)
    }
}

fn cell_of(
    kind: MutationType,
    row: &Bytes,
    family: &Bytes,
    value: &pb::mutation_proto::column_value::QualifierValue,
    time: u64,
) -> Result<Cell> {
    let pb::mutation_proto::column_value::QualifierValue {
        qualifier,
        value: bytes,
        timestamp,
        delete_type: _,
        tags,
    } = value;
    if tags.as_ref().is_some_and(|tags| !tags.is_empty()) {
        return Err(Exception::not_modelled("tags that a client sends"));
    }
    let (cell_kind, timestamp) = match kind {
        MutationType::Delete => {
            let kind = match value.delete_type() {
                DeleteType::DeleteOneVersion => Kind::Delete,
                DeleteType::DeleteMultipleVersions => Kind::DeleteColumn,
                DeleteType::DeleteFamily => Kind::DeleteFamily,
                DeleteType::DeleteFamilyVersion => Kind::DeleteFamilyVersion,
            };
            (kind, timestamp.unwrap_or(LATEST))
        }
        MutationType::Put => (Kind::Put, timestamp.unwrap_or(time)),
        // The time of the mutation itself does not count.
        MutationType::Increment | MutationType::Append => (Kind::Put, timestamp.unwrap_or(LATEST)),
    };
    if kind != MutationType::Delete && bytes.is_none() {
        return Err(Exception::do_not_retry("Missing required field: qualifier value"));
    }
    Ok(Cell {
        row: row.clone(),
        family: family.clone(),
        qualifier: if cell_kind.is_of_family() {
            Bytes::new()
        } else {
            qualifier.clone().unwrap_or_default()
        },
        timestamp,
        kind: cell_kind,
        sequence: 0,
        value: match cell_kind {
            Kind::Put => bytes.clone().unwrap_or_default(),
            _ => Bytes::new(),
        },
        ttl: None,
        heap: Heap::default(),
    })
}
