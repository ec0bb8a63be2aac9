//! The families of the table of an import, which are checked before a line is sent.

use std::collections::BTreeSet;

use bytes::Bytes;
use hbase_client::{Connection, ErrorKind};
use hbase_txn::{
    TableDescriptorExt,
    admin::Admin,
    client::{BytesBinary, TableDescriptor, TableName},
};

use crate::exit::Failure;

/// The families of a table.
#[derive(Debug)]
pub(super) struct Families(BTreeSet<Bytes>);

impl Families {
    /// Reads the families of a table. Returns `None` if the user may write to the table, but not read its
    /// descriptor: its servers refuse what is wrong then.
    ///
    /// Refuses a table that takes no writes.
    pub(super) async fn read(connection: &Connection, table: &TableName) -> Result<Option<Self>, Failure> {
        let descriptor = match Admin::new(connection).descriptor(table).await {
            Err(error) if error.kind() == ErrorKind::AccessDenied => return Ok(None),
            descriptor => descriptor?,
        };
        let read_only = descriptor.attribute("READONLY");
        if read_only.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Err(Failure::Refused(format!(
                "table {table} is read-only; allow writes with: hbase-txn table alter {table} --attribute READONLY=false"
            )));
        }
        let families = descriptor.families.into_iter().map(|family| family.name);
        Ok(Some(Self(families.collect())))
    }

    /// Returns the reason why these families can't be written, if one is not in the table.
    pub(super) fn check<'f>(&self, mut named: impl Iterator<Item = &'f Bytes>) -> Result<(), String> {
        let Some(family) = named.find(|family| !self.0.contains(*family)) else {
            return Ok(());
        };
        let known = self
            .0
            .iter()
            .filter(|family| !TableDescriptor::reserves_family(family));
        let known: Vec<_> = known.map(|family| BytesBinary(family).to_string()).collect();
        Err(format!(
            "the table has no family {}; it has {}",
            BytesBinary(family),
            known.join(", ")
        ))
    }
}
