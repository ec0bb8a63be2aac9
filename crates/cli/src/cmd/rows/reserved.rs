//! Refuses writes of rows in which the library keeps its own data.

use clap::Args;
use hbase_txn::{
    PartitionRule,
    admin::Admin,
    client::{Connection, Table, TableName},
};

use crate::exit::Failure;

/// The bytes behind the first key of a partition in each reserved row.
const MARK: &[u8] = b"\xff_txn\xff";

/// Whether reserved rows may be written.
#[derive(Debug, Args)]
pub(super) struct Reserved {
    /// Write also a row in which transactions, locks or latches of a partition are recorded
    #[arg(long)]
    reserved: bool,
}

impl Reserved {
    /// Returns the table, unless the row belongs to the library by the table's partition rule. Reads
    /// the rule only if the key looks like that.
    pub(super) async fn table(
        &self,
        connection: &Connection,
        name: TableName,
        row: &[u8],
    ) -> Result<Table, Failure> {
        let is_marked = row.windows(MARK.len()).any(|part| part == MARK);
        if is_marked && !self.reserved {
            let descriptor = Admin::new(connection).descriptor(&name).await?;
            // A table without a rule has no partitions.
            let rule = PartitionRule::from_descriptor(&descriptor).ok();
            if rule.is_some_and(|rule| rule.partition_of(row.to_vec()).reserves(row)) {
                return Err(Failure::Refused(format!(
                    "table {name}: the row is reserved for the records of transactions, and for the locks and latches of the partition; write it with --reserved"
                )));
            }
        }
        Ok(connection.table(name)?)
    }
}
