//! What layers above keep in a partition: rows that are reserved, in a family of their own.

use bytes::Bytes;

use super::partitioned_table::PartitionedTable;
use crate::{
    error::{Error, ErrorKind, Result},
    model::{FamilyDescriptor, TableDescriptor},
};

impl PartitionedTable {
    /// The reserved row of a thing of this id, a `lock` or a `latch`, in the partition of a bare prefix.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](ErrorKind::InvalidInput) for what is no prefix under the table's rule or no id, and for a
    /// partition that can't have such a row.
    pub(crate) fn reserved_row(&self, prefix: Bytes, thing: &str, kind: u8, id: &str) -> Result<Bytes> {
        let row = || {
            if id.is_empty() {
                return Err(Error::invalid(format!("an empty {thing} id")));
            }
            let partition = self.rule().partition(prefix)?;
            let reserved = [&[kind], id.as_bytes()].concat();
            match partition.reserved_row(&reserved) {
                Some(row) => Ok(row),
                None if partition.is_lone_row() => Err(Error::invalid(format!(
                    "{partition} can't have a {thing}, which is a row itself and may be parted from it"
                ))),
                None => Err(Error::invalid(format!(
                    "a {thing}'s id of {} bytes, which is too long for a row key behind the prefix",
                    id.len()
                ))),
            }
        };
        row().map_err(|error| {
            error
                .at_operation(format!("naming a {thing}"))
                .at_table(self.name())
        })
    }

    /// The family of locks and latches, as it is now.
    ///
    /// # Errors
    ///
    /// [`FamilyNotFound`](ErrorKind::FamilyNotFound) without it; those of reading the table's descriptor.
    pub(crate) async fn lock_family(&self, things: &str) -> Result<FamilyDescriptor> {
        let admin = self.table().connection().admin();
        let descriptor = admin.until(self.table().deadline()).descriptor(self.name()).await;
        let family = descriptor.and_then(|descriptor| {
            let name = TableDescriptor::LOCK_FAMILY;
            descriptor.family(name).cloned().ok_or_else(|| {
                Error::new(
                    ErrorKind::FamilyNotFound,
                    format!("the table has no family {name}, in which the {things} of its partitions are kept"),
                )
                .with_hint(format!(
                    "add it: hbase-txn table alter {} --lock-family; or make tables with it: hbase-txn table create --lock-family",
                    descriptor.name
                ))
            })
        });
        family.map_err(|error| {
            error
                .at_operation(format!("opening for {things}"))
                .at_table(self.name())
        })
    }
}
