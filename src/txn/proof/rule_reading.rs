//! Rereads the partition rule of an open table, and records the result.

use hbase_admin::Admin;
use hbase_client::{Table, TableDescriptor, low_level::TableCalls};
use tokio::time::{Instant, timeout_at};

use super::{
    proven_table::ProvenTable,
    rule_watch::{OLD_RULE_WAIT, RULE_READ, RuleAge},
};
use crate::error::{ClientErrorKind, Error, ErrorKind, Result};

/// Rereads the table's rule in the background as it ages. Waits for that, briefly, only if nothing
/// was read within the interval and the master is not known to be unresponsive. Returns an error if
/// the rule changed.
pub(in crate::txn) async fn keep_fresh(table: &ProvenTable, deadline: Instant) -> Result<()> {
    let age = table.watch().age();
    if matches!(age, RuleAge::Aging | RuleAge::Old) {
        start_reading(table);
    }
    if age == RuleAge::Old {
        table.watch().reading_ended(deadline).await;
    }
    if table.watch().is_changed() {
        Box::pin(read_again(table, deadline)).await
    } else {
        Ok(())
    }
}

/// Rereads the table's rule after a region turned out to have been opened again; returns an error if it
/// changed. All transactions that wait for that share one read. An unresponsive master delays a
/// transaction for at most [`RULE_READ`]: the rule is read again later. Returns `false` if the rule was
/// not read, and the deadline is earlier than that.
pub(in crate::txn) async fn read_since_opening(table: &ProvenTable, deadline: Instant) -> Result<bool> {
    let (watch, noticed) = (table.watch(), Instant::now());
    let end = deadline.min(noticed + RULE_READ);
    // A read that is in flight may have begun before the region was opened.
    for _ in 0..2 {
        if watch.was_read_since(noticed) {
            break;
        }
        start_reading(table);
        watch.until_read(end).await;
    }
    if watch.is_changed() || !watch.was_read_since(noticed) {
        read_again(table, end).await?;
    }
    Ok(watch.was_read_since(noticed) || noticed.elapsed() >= RULE_READ)
}

/// Reads the rule for the open table in the background, without keeping the table open.
fn start_reading(opened: &ProvenTable) {
    let (weak, table) = (opened.downgrade(), opened.table().clone());
    opened
        .watch()
        .start_reading(opened.table().runtime(), || async move {
            let asked_at = Instant::now();
            let read = read_descriptor(&table, asked_at + RULE_READ).await;
            if let Some(opened) = weak.upgrade() {
                // Transactions find the result in the watch.
                let _ = note(&opened, asked_at, read);
            }
        });
}

/// Rereads the table's rule; returns an error if it changed. An unresponsive master delays a
/// transaction for at most [`RULE_READ`]: the rule is read again later.
pub(super) async fn read_again(table: &ProvenTable, deadline: Instant) -> Result<()> {
    let asked_at = Instant::now();
    let read = read_descriptor(table.table(), deadline.min(asked_at + RULE_READ)).await;
    note(table, asked_at, read)
}

/// Records the result of reading the table's descriptor.
fn note(table: &ProvenTable, asked_at: Instant, read: Result<TableDescriptor>) -> Result<()> {
    let failure = match read {
        Ok(descriptor) => {
            // Whatever is wrong with a descriptor that was read, the table has changed.
            let checked = table.terms().check_unchanged(&descriptor);
            table.watch().was_read(asked_at, checked.is_err());
            return checked;
        }
        Err(failure) => failure,
    };
    tracing::warn!(table = %table.name(), error = %failure, "could not read the partition rule again");
    // A timeout by the caller's earlier deadline proves nothing about the master.
    if failure.kind() != ClientErrorKind::DeadlineExceeded || asked_at.elapsed() >= OLD_RULE_WAIT {
        table.watch().not_read();
    }
    if table.watch().is_changed() {
        Err(Error::new(
            ErrorKind::PartitionRuleChanged,
            "the table had another rule when it was last read, and it can't be read now",
        )
        .with_source(failure))
    } else {
        Ok(())
    }
}

async fn read_descriptor(table: &Table, deadline: Instant) -> Result<TableDescriptor> {
    let admin = Admin::new(table.connection());
    let silent = || {
        Error::new(
            ClientErrorKind::DeadlineExceeded,
            "the master did not answer in time",
        )
    };
    let read = timeout_at(deadline, admin.descriptor(table.name())).await;
    Ok(read.map_err(|_| silent())??)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hbase_client::{FamilyDescriptor, Put};
    use hbase_fake::FakeHBase;
    use tokio::time::sleep;

    use super::*;
    use crate::{
        table_descriptor::TableDescriptorExt as _,
        txn::{OpenOptions, Outcome},
    };

    /// The table gets another durability together with a TTL that is too short for records.
    #[test]
    fn change_beside_an_invalid_attribute_is_noticed() {
        FakeHBase::run(async |hbase| {
            hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
            let connection = hbase.connect().await?;
            let interval = Duration::from_secs(1);
            let options = OpenOptions::new().rule_interval(interval);
            let orders = options.open(&connection, "orders").await?;
            let commit = async || {
                let put = Put::new("xxxa").cell("f", "q", "v");
                orders.transaction("xxx").put(put).commit().await
            };
            assert!(commit().await.is_committed());
            let admin = Admin::new(&connection);
            let records = FamilyDescriptor::new(TableDescriptor::RECORD_FAMILY).with_attribute("TTL", "60");
            let changed = admin.descriptor(orders.name()).await?;
            let changed = changed
                .with_family(records)
                .with_attribute("DURABILITY", "SKIP_WAL");
            admin.modify_table(&changed).await?;
            sleep(2 * interval).await;
            let outcome = commit().await;
            assert!(matches!(outcome, Outcome::Invalid(_)), "{outcome}");
            let kind = outcome.error().map(Error::kind);
            assert_eq!(kind, Some(ErrorKind::PartitionRuleChanged));
            Ok(())
        });
    }
}
