//! Opens a table for transactions after proving that they are possible on it.

use std::time::Duration;

use bytes::Bytes;
use hbase_admin::Admin;
use hbase_client::{
    BytesBinary, Connection, IntoTableName, RegionInfo, TableDescriptor,
    low_level::{Limits, TableCalls, table_openings},
};
use tokio::time::Instant;

use super::{
    commit::{Committer, admission::Admission, group_commit::ShareLimits},
    partitioned_table::PartitionedTable,
    proof::{probe, proven_table::ProvenTable, rule_watch::RuleWatch, terms::Terms},
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    observe,
    partition::PartitionRule,
    table_descriptor::{TableDescriptorExt, usable_descriptor},
};

/// The number of groups of a batch that are under way at a time if they share calls, and if not.
const SHARED_CONCURRENCY: usize = 256;
const CONCURRENCY: usize = 16;

/// Options for opening a [`PartitionedTable`].
#[derive(Clone, Debug)]
#[must_use = "options do nothing until open is called"]
pub struct OpenOptions {
    weak_durability: bool,
    cut_partitions: bool,
    max_mutations: usize,
    max_bytes: usize,
    max_conditions: usize,
    concurrency: Option<usize>,
    rule_interval: Duration,
    endpoint: bool,
    admission: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            weak_durability: false,
            cut_partitions: false,
            max_mutations: 100_000,
            max_bytes: 64 << 20,
            max_conditions: 10_000,
            concurrency: None,
            rule_interval: Duration::from_secs(10),
            endpoint: true,
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
        self.weak_durability = true;
        self
    }

    /// Also opens a table that has cut partitions. Transactions in a cut partition are refused one
    /// by one, all others work.
    pub fn allow_cut_partitions(mut self) -> Self {
        self.cut_partitions = true;
        self
    }

    /// Sets the maximum number of mutations in one transaction; the default is 100,000.
    pub fn max_mutations(mut self, mutations: usize) -> Self {
        self.max_mutations = mutations;
        self
    }

    /// Sets the maximum size of one transaction, in bytes of keys and values; the default is 64
    /// MiB. The server refuses requests above 256 MiB, whatever this limit is.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the maximum number of conditions in one transaction; the default is 10,000. The server
    /// checks them while it holds the row locks: 1,000 conditions took it 0.04 to 0.1 s. The same number
    /// limits the cells whose timestamps are guarded, by
    /// [`guard_timestamps`](super::Transaction::guard_timestamps) or in an update.
    pub fn max_conditions(mut self, conditions: usize) -> Self {
        self.max_conditions = conditions;
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
        self.endpoint = false;
        self
    }

    /// Sets how many groups of a batch may be under way at a time, at least 1. The default is 256,
    /// because groups of one region share calls. It is 16 if each group takes one of the server's
    /// handlers (30 by default): [without the endpoint](Self::without_endpoint) or [without
    /// admission](Self::without_admission).
    pub fn concurrency(mut self, groups: usize) -> Self {
        self.concurrency = Some(groups.max(1));
        self
    }

    /// Sets the maximum age of the table's rule when a transaction is sent; the default is 10 s.
    /// The rule is reread in the background after three quarters of that time, and whenever a
    /// region turns out to have been reopened. While the master does not answer, the rule may be
    /// older: one transaction waits half a second for it, the others do not wait.
    pub fn rule_interval(mut self, interval: Duration) -> Self {
        self.rule_interval = interval;
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
        let in_context = |error: Error| error.at_operation("opening for transactions").at_table(&name);
        let deadline = Instant::now() + connection.config().operation_timeout();
        let admin = Admin::new(connection);
        let descriptor = usable_descriptor(&admin, &name, deadline)
            .await
            .map_err(in_context)?;
        let rule = PartitionRule::from_descriptor(&descriptor).map_err(in_context)?;
        if !self.weak_durability {
            refuse_weak_durability(&descriptor).map_err(in_context)?;
        }
        refuse_missing_version_family(&descriptor).map_err(in_context)?;
        let regions = table_openings(connection, &name, deadline)
            .await
            .map_err(|error| in_context(error.into()))?;
        if !self.cut_partitions {
            refuse_cut_partitions(&rule, regions.iter().map(|(region, _)| region)).map_err(in_context)?;
        }
        let table = connection.table(name.clone())?.with_durability_of(&descriptor);
        let left = deadline.saturating_duration_since(Instant::now());
        if self.endpoint {
            probe::prove_endpoint(&table.clone().with_operation_timeout(left), Bytes::new())
                .await
                .map_err(in_context)?;
        }
        let watch = RuleWatch::new(self.rule_interval);
        for (region, opening) in regions {
            watch.cover(region.name, opening);
        }
        let terms = Terms {
            rule,
            families: descriptor
                .families
                .iter()
                .map(|family| family.name.clone())
                .collect(),
            durability: descriptor.durability(),
            partition_version: descriptor.has_partition_version(),
            limits: Limits::of(&table),
            max_mutations: self.max_mutations,
            max_bytes: self.max_bytes,
            max_conditions: self.max_conditions,
            replay_window: descriptor.replay_window().map_err(in_context)?,
            endpoint: self.endpoint,
            concurrency: self.concurrency.unwrap_or(if self.endpoint && self.admission {
                SHARED_CONCURRENCY
            } else {
                CONCURRENCY
            }),
        };
        let share_limits = ShareLimits::within(self.max_mutations, self.max_bytes);
        let table = ProvenTable::new(table, terms, watch);
        let admission = self.admission.then(|| Admission::new(share_limits));
        Ok(PartitionedTable::new(Committer::new(table, admission)))
    }
}

fn refuse_weak_durability(descriptor: &TableDescriptor) -> Result<()> {
    if descriptor.durability().is_weak() {
        Err(Error::new(
            ErrorKind::WeakDurability,
            format!(
                "the table's durability is {}: a crash would lose transactions that were called committed",
                descriptor.attribute("DURABILITY").unwrap_or_default()
            ),
        )
        .with_hint("set it to SYNC_WAL, or open the table with allow_weak_durability"))
    } else {
        Ok(())
    }
}

fn refuse_missing_version_family(descriptor: &TableDescriptor) -> Result<()> {
    let family = TableDescriptor::VERSION_FAMILY;
    if !descriptor.has_partition_version() || descriptor.family(family).is_some() {
        return Ok(());
    }
    Err(Error::new(
        ClientErrorKind::FamilyNotFound,
        format!(
            "the table's attribute {} promises versions of partitions, and it has no family {family} for them",
            TableDescriptor::PARTITION_VERSION
        ),
    )
    .with_hint("add the family to the table")
    .with_missing_family(family))
}

fn refuse_cut_partitions<'a>(
    rule: &PartitionRule,
    regions: impl Iterator<Item = &'a RegionInfo>,
) -> Result<()> {
    let cuts: Vec<String> = regions
        .filter_map(|region| {
            let partition = rule.partition_cut_by(&region.start_key)?;
            Some(format!(
                "partition {partition} by the boundary {}",
                BytesBinary(&region.start_key)
            ))
        })
        .collect();
    match cuts.first() {
        None => Ok(()),
        Some(first) => Err(Error::new(
            ErrorKind::PartitionCut,
            match cuts.len() {
                1 => format!("a region boundary cuts {first}"),
                many => format!("{many} region boundaries cut partitions; the first: {first}"),
            },
        )
        .with_hint("open the table with allow_cut_partitions, or merge the regions of each")),
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
