//! Reads the partition rule of an open table again, and notes what came of it.

use std::time::Duration;

use hbase_client::{Table, TableDescriptor};
use tokio::time::{Instant, timeout_at};

use super::{
    proven_table::ProvenTable,
    rule_watch::{OLD_RULE_WAIT, RuleAge},
};
use crate::error::{ClientErrorKind, Error, ErrorKind, Result};

/// How long the rule is read at most. A transaction waits that long only behind a region that was
/// reopened.
const RULE_READ: Duration = Duration::from_secs(5);

/// Reads the table's rule in the background as it ages, and fails if it is another one. Waits for
/// that, a moment at most, only if nothing was read within the interval and the master is not known
/// to be silent.
pub(super) async fn keep_fresh(table: &ProvenTable, deadline: Instant) -> Result<()> {
    let age = table.watch().age();
    if matches!(age, RuleAge::Aging | RuleAge::Old) {
        table.watch().start_reading(|| background_reading(table));
    }
    if age == RuleAge::Old {
        table.watch().reading_ended(deadline).await;
    }
    match table.watch().is_changed() {
        true => read_again(table, deadline).await,
        false => Ok(()),
    }
}

/// Reads the rule for the open table, without keeping it open.
fn background_reading(table: &ProvenTable) -> impl Future<Output = ()> + Send + use<> {
    let (weak, table) = (table.downgrade(), table.table().clone());
    async move {
        let asked_at = Instant::now();
        let read = read_descriptor(&table, asked_at + RULE_READ).await;
        if let Some(opened) = weak.upgrade() {
            // Transactions find the outcome in the watch.
            let _ = note(&opened, asked_at, read);
        }
    }
}

/// Reads the table's rule again, and fails if it is another one. A master that does not answer
/// delays a transaction for no longer than [`RULE_READ`]: the rule is read again later.
pub(super) async fn read_again(table: &ProvenTable, deadline: Instant) -> Result<()> {
    let asked_at = Instant::now();
    let read = read_descriptor(table.table(), deadline.min(asked_at + RULE_READ)).await;
    note(table, asked_at, read)
}

/// Notes what came of reading the table's descriptor.
fn note(table: &ProvenTable, asked_at: Instant, read: Result<TableDescriptor>) -> Result<()> {
    let checked = read.and_then(|descriptor| table.terms().check_unchanged(&descriptor));
    let failure = match checked {
        Ok(()) => {
            table.watch().was_read(asked_at, false);
            return Ok(());
        }
        Err(changed)
            if matches!(
                changed.kind(),
                ErrorKind::PartitionRuleChanged | ErrorKind::FeatureUnknown
            ) =>
        {
            table.watch().was_read(asked_at, true);
            return Err(changed);
        }
        Err(failure) => failure,
    };
    tracing::warn!(table = %table.name(), error = %failure, "could not read the partition rule again");
    // A read that ended by its caller's deadline proves nothing about the master.
    if failure.kind() != ClientErrorKind::DeadlineExceeded || asked_at.elapsed() >= OLD_RULE_WAIT {
        table.watch().not_read();
    }
    match table.watch().is_changed() {
        true => Err(Error::new(
            ErrorKind::PartitionRuleChanged,
            "the table had another rule when it was last read, and it can't be read now",
        )
        .with_source(failure)),
        false => Ok(()),
    }
}

async fn read_descriptor(table: &Table, deadline: Instant) -> Result<TableDescriptor> {
    let admin = table.connection().admin();
    let silent = || {
        Error::new(
            ClientErrorKind::DeadlineExceeded,
            "the master did not answer in time",
        )
    };
    let read = timeout_at(deadline, admin.descriptor(table.name())).await;
    Ok(read.map_err(|_| silent())??)
}
