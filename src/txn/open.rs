//! Opens a table for transactions after proving that they are possible on it.

use std::time::Duration;

use hbase_client::{Connection, IntoTableName};
use tokio::time::Instant;

use super::{
    commit::{Committer, admission::Admission, group_commit::ShareLimits},
    partitioned_table::PartitionedTable,
    proof::{
        opening::{CONCURRENCY, Settings},
        proven_table::ProvenTable,
    },
};
use crate::{error::Result, observe};

/// The number of groups of a batch that are under way at a time if they share calls.
const SHARED_CONCURRENCY: usize = 256;

/// Options for opening a [`PartitionedTable`].
#[derive(Clone, Debug)]
#[must_use = "options do nothing until open is called"]
pub struct OpenOptions {
    settings: Settings,
    admission: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            admission: true,
        }
    }
}

impl OpenOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also opens a table with durability `SKIP_WAL` or `ASYNC_WAL`: commits can be lost in a
    /// crash.
    pub fn allow_weak_durability(mut self) -> Self {
        self.settings.weak_durability = true;
        self
    }

    /// Also opens a table that has cut partitions. Transactions in a cut partition are refused one
    /// by one, all others work.
    pub fn allow_cut_partitions(mut self) -> Self {
        self.settings.cut_partitions = true;
        self
    }

    /// Sets the maximum number of mutations in one transaction; the default is 100,000.
    pub fn max_mutations(mut self, mutations: usize) -> Self {
        self.settings.max_mutations = mutations;
        self
    }

    /// Sets the maximum size of one transaction, in bytes of keys and values; the default is 64
    /// MiB. The server refuses requests above 256 MiB, whatever this limit is.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_bytes = bytes;
        self
    }

    /// Sets the maximum number of conditions in one transaction; the default is 10,000. The server
    /// checks them while it holds the row locks: 1,000 conditions took it 0.04 to 0.1 s. The same number
    /// limits the cells whose timestamps are guarded, by
    /// [`guard_timestamps`](super::Transaction::guard_timestamps) or in an update.
    pub fn max_conditions(mut self, conditions: usize) -> Self {
        self.settings.max_conditions = conditions;
        self
    }

    /// Sends transactions through HBase's `Multi` instead of `MultiRowMutationEndpoint`, which the
    /// table then does not need. The new cells of increments and appends are returned in
    /// [`Committed::results`](super::Committed::results).
    ///
    /// All releases from 2.4 to 3.0 apply a `Multi` of several rows whole or not at all, but HBase
    /// does not promise it. So the client never falls back to this on its own, and tests each
    /// region server before relying on it: with writes of its own, in reserved rows that expire
    /// within seconds. Conditions, records and guarded timestamps are not available.
    pub fn without_endpoint(mut self) -> Self {
        self.settings.endpoint = false;
        self
    }

    /// Sets how many groups of a batch may be under way at a time, at least 1. The default is 256,
    /// because groups of one region share calls. It is 16 if each group takes one of the server's
    /// handlers (30 by default): [without the endpoint](Self::without_endpoint) or [without
    /// admission](Self::without_admission).
    pub fn concurrency(mut self, groups: usize) -> Self {
        self.settings.concurrency = Some(groups.max(1));
        self
    }

    /// Sets the maximum age of the table's rule when a transaction is sent; the default is 10 s.
    /// The rule is reread in the background after three quarters of that time, and whenever a
    /// region turns out to have been reopened. While the master does not answer, the rule may be
    /// older: one transaction waits half a second for it, the others do not wait.
    pub fn rule_interval(mut self, interval: Duration) -> Self {
        self.settings.rule_interval = interval;
        self
    }

    /// Sends every transaction at once, in a call of its own.
    ///
    /// By default, across all clones of the table, one call of a region with transactions without
    /// conditions is in flight at a time, and up to five, on disjoint rows, if many mutations wait;
    /// the transactions that wait for them share the next call. Of the other transactions, one of
    /// each partition is in flight at a time, and the others wait in order. Without these queues, the
    /// server's handlers wait for the rows of a hot partition instead, and other partitions wait for
    /// a handler.
    pub fn without_admission(mut self) -> Self {
        self.admission = false;
        self
    }

    /// Opens a table, within the client's operation timeout.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`PartitionedTable::open`].
    pub async fn open(self, connection: &Connection, name: impl IntoTableName) -> Result<PartitionedTable> {
        observe::describe();
        let name = name.into_table_name()?;
        let Self {
            mut settings,
            admission,
        } = self;
        settings
            .concurrency
            .get_or_insert(if settings.endpoint && admission {
                SHARED_CONCURRENCY
            } else {
                CONCURRENCY
            });
        let deadline = Instant::now() + connection.config().operation_timeout();
        let share_limits = ShareLimits::within(settings.max_mutations, settings.max_bytes);
        let table = ProvenTable::open(connection, name, &settings, deadline).await?;
        let admission = admission.then(|| Admission::new(share_limits));
        Ok(PartitionedTable::new(Committer::new(table, admission)))
    }
}

#[cfg(test)]
mod tests {
    use hbase_fake::{Call, FakeHBase};

    use super::*;

    #[test]
    fn open_whose_answers_are_lost_has_a_known_outcome() {
        FakeHBase::run(async |hbase| {
            hbase.create_partitioned_table("orders", &["f"], 3);
            let connection = hbase.connect().await?;
            hbase.fault(Call::MutateRows.on("orders").lose_answer());
            let error = OpenOptions::new().open(&connection, "orders").await.unwrap_err();
            assert!(!error.is_outcome_unknown() && error.is_retryable(), "{error}");
            Ok(())
        });
    }
}
