//! The intent by which a transaction across partitions holds a partition. No I/O.
//!
//! | cell in the row of the partition's version | free | held |
//! |---|---|---|
//! | `_version:v` | 8 bytes, which each transaction increments | 1 byte, so that the server refuses each increment |
//! | `_version:s` | empty or absent | the intent |
//!
//! So the server itself refuses each transaction of a held partition that writes: also those of releases
//! that know no intents, and those that share a call with others.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use hbase_client::{
    BytesBinary, Cell, Condition, IntoTableName, Put, Row, TableDescriptor, TableName,
    low_level::{condition, pb},
};
use prost::Message;

use crate::{
    error::{ClientErrorKind, Error, Result},
    partition::Partition,
    table_descriptor::TableDescriptorExt,
    txn::{commit::partition_version, record::TransactionId, reserved_rows::of_lone_row},
};

/// The column of the intent.
pub(in crate::txn) const INTENT: &str = "s";
const FORMAT: u8 = 1;
/// The version of a held partition, which is no counter.
const HELD: &[u8] = b"h";

/// An intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::txn) struct Intent {
    /// The attempt that holds the partition. It is never sent again under the same id.
    pub(in crate::txn) attempt: TransactionId,
    /// Different in each prepare, so that no copy of a call finds its condition met later.
    pub(in crate::txn) nonce: u64,
    /// The partitions of the transaction. The first one is home, which has the decision.
    pub(in crate::txn) parts: Vec<PartAddress>,
    /// The position of the held partition among them.
    pub(in crate::txn) index: usize,
    /// When a visitor may abort the attempt, by the clocks of servers, in milliseconds since 1970.
    pub(in crate::txn) lease_end: u64,
    /// The time from the prepare to the end of the lease.
    pub(in crate::txn) lease: Duration,
}

/// The table of a partition, and its bare prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::txn) struct PartAddress {
    pub(in crate::txn) table: TableName,
    pub(in crate::txn) prefix: Bytes,
}

/// The stored form of an intent, behind the format.
#[derive(Clone, PartialEq, Eq, Message)]
struct Stored {
    #[prost(bytes = "bytes", tag = "1")]
    attempt: Bytes,
    #[prost(fixed64, tag = "2")]
    nonce: u64,
    #[prost(message, repeated, tag = "3")]
    parts: Vec<StoredPart>,
    #[prost(uint32, tag = "4")]
    index: u32,
    #[prost(uint64, tag = "5")]
    lease_end: u64,
    #[prost(uint32, tag = "6")]
    lease_millis: u32,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct StoredPart {
    #[prost(string, tag = "1")]
    table: String,
    #[prost(bytes = "bytes", tag = "2")]
    prefix: Bytes,
}

impl Intent {
    /// Returns the address of home.
    pub(in crate::txn) fn home(&self) -> &PartAddress {
        &self.parts[0]
    }

    fn encode(&self) -> Bytes {
        let stored = Stored {
            attempt: Bytes::copy_from_slice(self.attempt.as_bytes()),
            nonce: self.nonce,
            parts: self.parts.iter().map(PartAddress::stored).collect(),
            index: u32::try_from(self.index).unwrap_or(u32::MAX),
            lease_end: self.lease_end,
            lease_millis: u32::try_from(self.lease.as_millis()).unwrap_or(u32::MAX),
        };
        let mut value = BytesMut::with_capacity(1 + stored.encoded_len());
        value.put_u8(FORMAT);
        value.put_slice(&stored.encode_to_vec());
        value.freeze()
    }

    /// Decodes an intent.
    ///
    /// # Errors
    ///
    /// Returns [`Protocol`](ClientErrorKind::Protocol) if this version can't read it.
    fn decode(value: &[u8]) -> Result<Self> {
        let parse = || {
            let (&FORMAT, rest) = value.split_first()? else {
                return None;
            };
            let stored = Stored::decode(rest).ok()?;
            let parts: Option<Vec<_>> = stored.parts.into_iter().map(PartAddress::of_stored).collect();
            let (parts, index) = (parts?, usize::try_from(stored.index).ok()?);
            (index < parts.len()).then_some(())?;
            Some(Self {
                attempt: TransactionId::new(stored.attempt).ok()?,
                nonce: stored.nonce,
                parts,
                index,
                lease_end: stored.lease_end,
                lease: Duration::from_millis(stored.lease_millis.into()),
            })
        };
        parse().ok_or_else(|| {
            let what = format!("an intent that this version can't read, of {} bytes", value.len());
            Error::new(ClientErrorKind::Protocol, what)
                .with_hint("a newer version of this package, or something else, writes the version family")
        })
    }
}

impl PartAddress {
    pub(in crate::txn) fn new(table: &TableName, partition: &Partition) -> Self {
        Self {
            table: table.clone(),
            prefix: Bytes::copy_from_slice(partition.prefix()),
        }
    }

    fn stored(&self) -> StoredPart {
        StoredPart {
            table: self.table.to_string(),
            prefix: self.prefix.clone(),
        }
    }

    fn of_stored(stored: StoredPart) -> Option<Self> {
        Some(Self {
            table: stored.table.into_table_name().ok()?,
            prefix: stored.prefix,
        })
    }
}

impl std::fmt::Display for PartAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "partition {} of table {}",
            BytesBinary(&self.prefix),
            self.table
        )
    }
}

/// The version and the intent of a partition as they were read.
#[derive(Clone, Debug, Default)]
pub(in crate::txn) struct PartitionState {
    version: Option<Cell>,
    holder: Option<Holder>,
    /// The newest timestamp of both.
    newest: u64,
}

/// The intent that holds a partition, as it was read.
#[derive(Clone, Debug)]
pub(in crate::txn) struct Holder {
    pub(in crate::txn) intent: Intent,
    /// The value in the table.
    pub(in crate::txn) value: Bytes,
    /// The newest timestamp of the version and the intent.
    newest: u64,
}

impl PartitionState {
    /// Takes the state out of the row of a partition's version.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Intent::decode`].
    pub(in crate::txn) fn of(row: Option<&Row>) -> Result<Self> {
        let cell = |qualifier| row?.cell(TableDescriptor::VERSION_FAMILY, qualifier);
        let (version, intent) = (cell(partition_version::QUALIFIER), cell(INTENT));
        let newest = [version, intent].into_iter().flatten().map(|cell| cell.timestamp);
        let newest = newest.max().unwrap_or(0);
        let holder = match intent.filter(|cell| !cell.value.is_empty()) {
            Some(cell) => Some(Holder {
                intent: Intent::decode(&cell.value)?,
                value: Bytes::copy_from_slice(&cell.value),
                newest,
            }),
            None => None,
        };
        Ok(Self {
            version: version.cloned(),
            holder,
            newest,
        })
    }

    #[cfg(test)]
    pub(in crate::txn) fn version(&self) -> Option<&Cell> {
        self.version.as_ref()
    }

    pub(in crate::txn) fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// Returns whether no transaction changed or held the partition between two reads.
    pub(in crate::txn) fn is_same(&self, other: &Self) -> bool {
        let version = |state: &Self| state.version.as_ref().map(|cell| cell.value.clone());
        let holder = |state: &Self| state.holder.as_ref().map(|holder| holder.value.clone());
        version(self) == version(other) && holder(self) == holder(other)
    }

    /// Returns the condition that no transaction has changed or held the partition since it was read.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](ClientErrorKind::InvalidInput) for a partition that is a single row.
    pub(in crate::txn) fn unchanged(&self, partition: &Partition) -> Result<Condition> {
        let row = version_row(partition)?;
        let (family, qualifier) = (TableDescriptor::VERSION_FAMILY, partition_version::QUALIFIER);
        let condition = match self.version.as_ref().filter(|cell| !cell.value.is_empty()) {
            Some(cell) => Condition::equal(row, family, qualifier, cell.value.clone()),
            None => Condition::absent(row, family, qualifier),
        };
        Ok(condition.label(format!("partition {partition} unchanged")))
    }

    /// Returns the put that holds the partition. `now`: a time that no clock of a server has passed.
    pub(in crate::txn) fn hold(
        &self,
        partition: &Partition,
        intent: &Intent,
        now: u64,
    ) -> Result<(Put, Holder)> {
        let newest = after(self.newest, now);
        let value = intent.encode();
        let put = put_state(partition, newest, HELD, &value)?;
        let holder = Holder {
            intent: intent.clone(),
            value,
            newest,
        };
        Ok((put, holder))
    }
}

impl Holder {
    /// Returns the newest timestamp of the version and the intent.
    pub(in crate::txn) fn newest(&self) -> u64 {
        self.newest
    }

    /// Returns the condition that the intent still holds the partition.
    pub(in crate::txn) fn unchanged(&self, partition: &Partition) -> Result<Condition> {
        let row = version_row(partition)?;
        let condition = Condition::equal(row, TableDescriptor::VERSION_FAMILY, INTENT, self.value.clone());
        Ok(condition.label(format!("partition {partition} held by {}", self.intent.attempt)))
    }

    /// Returns the put that frees the partition. `version`: a random number.
    pub(in crate::txn) fn free(&self, partition: &Partition, version: u64, now: u64) -> Result<Put> {
        put_state(partition, after(self.newest, now), &version.to_be_bytes(), b"")
    }

    /// Returns the error of a transaction that the holder keeps waiting.
    pub(in crate::txn) fn in_the_way(&self, why: &str) -> Error {
        let Intent { attempt, .. } = &self.intent;
        let what = format!(
            "the partition is held by transaction {attempt}, whose home is {}: {why}",
            self.intent.home()
        );
        Error::new(crate::ErrorKind::PartitionHeld, what).with_retryable(true)
    }
}

/// Returns the condition that the partition of this version row has this intent, or none.
pub(in crate::txn) fn is(row: &Bytes, intent: Option<&Bytes>) -> pb::Condition {
    let family = Bytes::from_static(TableDescriptor::VERSION_FAMILY.as_bytes());
    condition::cell_equals(row, &family, &Bytes::from_static(INTENT.as_bytes()), intent)
}

/// Returns the row of the version and the intent of a partition.
pub(in crate::txn) fn version_row(partition: &Partition) -> Result<Bytes> {
    partition_version::row(partition)
        .ok_or_else(|| of_lone_row(partition, "a part in a transaction across partitions"))
}

/// Returns a timestamp that hides the newest one, and what servers have stamped until now.
fn after(newest: u64, now: u64) -> u64 {
    newest.saturating_add(1).max(now)
}

fn put_state(partition: &Partition, timestamp: u64, version: &[u8], intent: &[u8]) -> Result<Put> {
    let family = TableDescriptor::VERSION_FAMILY;
    let put = Put::new(version_row(partition)?);
    Ok(put
        .cell_at(family, partition_version::QUALIFIER, timestamp, version.to_vec())
        .cell_at(family, INTENT, timestamp, intent.to_vec()))
}

#[cfg(test)]
pub(in crate::txn) mod tests {
    use hbase_client::IntoTableName;
    use proptest::prelude::*;

    use super::*;
    use crate::partition::PartitionRule;

    pub(in crate::txn) fn intent() -> Intent {
        let part = |table: &'static str, prefix| PartAddress {
            table: table.into_table_name().unwrap(),
            prefix: Bytes::from_static(prefix),
        };
        Intent {
            attempt: TransactionId::new("txn-1").unwrap(),
            nonce: 7,
            parts: vec![part("accounts", b"alice"), part("shop:ledger", b"\xff\x00")],
            index: 1,
            lease_end: 1_700_000_000_000,
            lease: Duration::from_secs(2),
        }
    }

    #[test]
    fn an_intent_has_this_form_for_ever() {
        let expected = b"\x01\x0a\x05txn-1\x11\x07\0\0\0\0\0\0\0\x1a\x11\x0a\x08accounts\x12\x05alice\
            \x1a\x11\x0a\x0bshop:ledger\x12\x02\xff\x00\x20\x01\x28\x80\xd0\x95\xff\xbc\x31\x30\xd0\x0f";
        assert_eq!(
            BytesBinary(&intent().encode()).to_string(),
            BytesBinary(expected).to_string()
        );
        assert_eq!(Intent::decode(&intent().encode()).unwrap(), intent());
    }

    #[test]
    fn holding_and_freeing_are_visible_over_any_timestamp() {
        let partition = PartitionRule::prefix_length(3).unwrap().partition("xxx").unwrap();
        let far_ahead = PartitionState {
            newest: u64::MAX / 4,
            ..PartitionState::default()
        };
        let (put, holder) = far_ahead.hold(&partition, &intent(), 1_000).unwrap();
        let stamp = |put: &Put| {
            put.cells()
                .map(|cell| cell.timestamp.unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(stamp(&put), [u64::MAX / 4 + 1; 2]);
        assert_eq!(
            stamp(&holder.free(&partition, 1, 1_000).unwrap()),
            [u64::MAX / 4 + 2; 2]
        );
        let (put, _) = PartitionState::default()
            .hold(&partition, &intent(), 1_000)
            .unwrap();
        assert_eq!(stamp(&put), [1_000; 2]);
    }

    proptest! {
        #[test]
        fn unknown_intents_are_errors_and_no_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(intent) = Intent::decode(&bytes) {
                prop_assert_eq!(Intent::decode(&intent.encode()).unwrap(), intent);
            }
        }
    }
}
