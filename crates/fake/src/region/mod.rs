//! One region: its cells, and what reads and writes do to them. No clock: callers pass the time.
//!
//! | file | what |
//! |---|---|
//! | `family` | settings of families |
//! | `store`, `files` | cells in order, flushes and compactions |
//! | `read` | which cells a read finds |
//! | `get`, `scan` | the calls that read |
//! | `mutation` | mutations as messages have them |
//! | `write` | what mutations write |
//! | `condition` | conditions of one row and of several |
//! | `calls` | single mutations, batches, and mutations of several rows |

mod calls;
mod condition;
mod entry;
mod family;
mod files;
mod get;
mod mutation;
mod read;
mod release;
mod scan;
mod store;
#[cfg(test)]
mod tests;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bytes::Bytes;
use hbase_protocol as pb;

pub use self::release::{Release, UnknownRelease};
use self::{entry::Logged, family::Family, store::Store};
pub(crate) use self::{
    family::attribute,
    get::Read,
    scan::{Call, Scanner},
};
use crate::{
    cell::Cell,
    exception::{Exception, Result},
};

/// The order of a region's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowOrder {
    /// By their bytes.
    Bytes,
    /// By table, start key and id, as in `hbase:meta`.
    Meta,
}

/// The cells of a region.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    families: BTreeMap<Bytes, Family>,
    start_key: Bytes,
    end_key: Bytes,
    release: Release,
    /// How mutations that do not say it are logged.
    durability: Logged,
    /// Whether files are compacted. Requests are ignored otherwise.
    compacts: bool,
    store: Store,
    /// The number of the last write.
    sequence: u64,
    /// The read points of the open scanners.
    scanners: Vec<Weak<u64>>,
    files: u32,
    /// Those of the server that has it open.
    nonces: Nonces,
}

/// The nonces of increments and appends that a server has applied, in any of its regions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nonces(Arc<Mutex<BTreeSet<(u64, u64)>>>);

impl Nonces {
    /// Returns whether the nonce is new.
    fn insert(&self, nonce: (u64, u64)) -> bool {
        let mut nonces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        nonces.insert(nonce)
    }
}

impl Region {
    /// Creates an empty region.
    pub(crate) fn new(
        schema: &pb::TableSchema,
        start_key: Bytes,
        end_key: Bytes,
        order: RowOrder,
        release: Release,
    ) -> Result<Self> {
        let mut region = Self {
            families: BTreeMap::new(),
            start_key,
            end_key,
            release,
            durability: Logged::Synced,
            compacts: true,
            store: Store::new(order),
            sequence: 1,
            scanners: Vec::new(),
            files: 0,
            nonces: Nonces::default(),
        };
        region.reopen(schema, Nonces::default())?;
        Ok(region)
    }

    /// Opens the region again, with the present schema of its table.
    pub(crate) fn reopen(&mut self, schema: &pb::TableSchema, nonces: Nonces) -> Result<()> {
        self.families = family::families(schema)?;
        self.compacts =
            attribute(schema, "COMPACTION_ENABLED").is_none_or(|value| value.eq_ignore_ascii_case(b"true"));
        self.durability = match attribute(schema, "DURABILITY") {
            Some(b"SKIP_WAL") => Logged::Not,
            Some(b"ASYNC_WAL") => Logged::Async,
            _ => Logged::Synced,
        };
        let families = &self.families;
        self.store.retain(|key, _| families.contains_key(&key.family));
        self.nonces = nonces;
        Ok(())
    }

    /// The number of the last write.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    fn family(&self, name: &Bytes) -> Result<&Family> {
        self.families.get(name).ok_or_else(|| {
            Exception::new(
                "regionserver.NoSuchColumnFamilyException",
                format!("Column family {} does not exist", name.escape_ascii()),
            )
        })
    }

    fn contains(&self, row: &[u8]) -> bool {
        self.start_key <= row && (self.end_key.is_empty() || row < &self.end_key[..])
    }

    /// Returns the number of the last write that all open scanners see
    /// (`HRegion#getSmallestReadPoint`).
    fn smallest_read_point(&self) -> u64 {
        let open = self.scanners.iter().filter_map(Weak::upgrade);
        open.map(|point| *point).fold(self.sequence, u64::min)
    }

    /// Returns the numbers of the files.
    pub(crate) fn files(&self) -> BTreeSet<u32> {
        self.store.entries().filter_map(|(_, entry)| entry.file).collect()
    }

    /// Returns the bytes in files, and in memory.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.store
            .entries()
            .fold((0, 0), |(files, memory), (key, entry)| {
                let bytes = key.family.len() + key.qualifier.len() + entry.value.len();
                match entry.file {
                    Some(_) => (files + bytes, memory),
                    None => (files, memory + bytes),
                }
            })
    }

    /// Cuts the region in two at a row.
    pub(crate) fn split(mut self, at: &Bytes) -> (Self, Self) {
        let high = Self {
            start_key: at.clone(),
            store: self.store.split_off(at),
            nonces: Nonces::default(),
            ..self.clone()
        };
        self.end_key = at.clone();
        (self, high)
    }

    /// Joins the region with its right neighbour.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.end_key = other.end_key;
        self.sequence = self.sequence.max(other.sequence);
        self.files = self.files.max(other.files);
        self.store.append(other.store);
        self
    }

    /// Loses what was neither synced nor flushed. Of writes that were logged without a sync, the
    /// caller decides which are kept, from the oldest on until it returns false.
    pub(crate) fn crash(&mut self, mut keep_async: impl FnMut() -> bool) {
        let mut unsynced = BTreeSet::new();
        self.store.retain(|key, entry| {
            if entry.file.is_none() && entry.logged == Logged::Async {
                unsynced.insert(key.sequence.0);
            }
            true
        });
        let kept: BTreeSet<u64> = unsynced.iter().copied().take_while(|_| keep_async()).collect();
        self.store.retain(|key, entry| {
            entry.file.is_some()
                || match entry.logged {
                    Logged::Synced => true,
                    Logged::Async => kept.contains(&key.sequence.0),
                    Logged::Not => false,
                }
        });
    }

    /// Returns all stored cells, markers included, in order.
    pub(crate) fn dump(&self) -> Vec<Cell> {
        use std::ops::Bound::Unbounded;
        let rows = self.store.range((Unbounded, Unbounded));
        rows.flat_map(|(key, row)| {
            row.iter()
                .map(|(cell, entry)| store::to_cell(&key.row, cell, entry))
        })
        .collect()
    }
}
