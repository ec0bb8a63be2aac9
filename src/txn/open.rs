//! Opens a table for transactions, and proves that they are possible on it.

use std::time::Duration;

use bytes::Bytes;
use hbase_client::{
    BytesBinary, Connection, IntoTableName, PartitionRule, RegionInfo, TableDescriptor,
    low_level::{Limits, TableCalls, table_openings},
};
use tokio::time::Instant;

use super::{
    admission::Admission, commit::Committer, group_commit::ShareLimits, partitioned_table::PartitionedTable,
    probe, proven_table::ProvenTable, rule_watch::RuleWatch, terms::Terms,
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    table_descriptor::{TableDescriptorExt, usable_descriptor},
};

/// How a [`PartitionedTable`] is opened, when the defaults are not enough.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until open is called"]
pub struct OpenOptions {
    weak_durability: bool,
    cut_partitions: bool,
    max_mutations: usize,
    max_bytes: usize,
    max_conditions: usize,
    concurrency: usize,
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
            concurrency: 16,
            rule_interval: Duration::from_secs(10),
            endpoint: true,
            admission: true,
        }
    }
}

impl OpenOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a table whose durability is `SKIP_WAL` or `ASYNC_WAL` too: its commits can be lost in
    /// a crash.
    pub fn allow_weak_durability(mut self) -> Self {
        self.weak_durability = true;
        self
    }

    /// Opens a table that has cut partitions too. Their transactions are refused one by one, all
    /// others work.
    pub fn allow_cut_partitions(mut self) -> Self {
        self.cut_partitions = true;
        self
    }

    /// The most mutations that one transaction may have; 100,000 unless said.
    pub fn max_mutations(mut self, mutations: usize) -> Self {
        self.max_mutations = mutations;
        self
    }

    /// The most bytes of keys and values that one transaction may have; 64 MiB unless said. The
    /// server refuses requests above 256 MiB, whatever is said here.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// The most conditions that one transaction may have; 10,000 unless said. The server checks
    /// them while it holds the rows' locks: 1,000 took it 0.04 to 0.1 s.
    pub fn max_conditions(mut self, conditions: usize) -> Self {
        self.max_conditions = conditions;
        self
    }

    /// Sends transactions through HBase's `Multi` and not through `MultiRowMutationEndpoint`, which
    /// then need not be there. What increments and appends made comes back as
    /// [`Committed::results`](super::Committed::results).
    ///
    /// A `Multi` of several rows is applied whole or not at all by all releases from 2.4 to 3.0,
    /// but HBase does not promise it. So nothing falls back to this by itself, and each region
    /// server is tried before it is relied on: with writes of its own, in rows that are reserved
    /// and expire within seconds. There are no conditions, records and guarded timestamps.
    pub fn without_endpoint(mut self) -> Self {
        self.endpoint = false;
        self
    }

    /// How many groups of a batch are on their way at a time; 16 unless said, at least 1. Each
    /// holds one of the server's handlers (30 unless changed there).
    pub fn concurrency(mut self, groups: usize) -> Self {
        self.concurrency = groups.max(1);
        self
    }

    /// How old the table's rule may be when a transaction goes; 10 s unless specified. It is read
    /// again in the background once three quarters of that are over, and whenever a region is found
    /// reopened. While the master does not answer, the rule may be older: one transaction waits
    /// half a second for it, the others do not wait.
    pub fn rule_interval(mut self, interval: Duration) -> Self {
        self.rule_interval = interval;
        self
    }

    /// Sends every transaction at once, however many of its partition are on their way. Unless this
    /// is said, there is one at a time for each partition, from all clones of the table; the others
    /// wait in order, and those that have queued up go in one call where they can. Without that,
    /// the server's handlers wait for a hot partition's rows instead, and other partitions wait for
    /// a handler.
    pub fn without_admission(mut self) -> Self {
        self.admission = false;
        self
    }

    /// Opens a table, within the client's operation timeout.
    ///
    /// # Errors
    ///
    /// As [`PartitionedTable::open`].
    pub async fn open(self, connection: &Connection, name: impl IntoTableName) -> Result<PartitionedTable> {
        let name = name.into_table_name()?;
        let in_context = |error: Error| error.at_operation("opening for transactions").at_table(&name);
        let deadline = Instant::now() + connection.config().operation_timeout();
        let admin = connection.admin();
        let descriptor = usable_descriptor(&admin, &name, deadline)
            .await
            .map_err(in_context)?;
        let rule = PartitionRule::from_descriptor(&descriptor).map_err(|error| in_context(error.into()))?;
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
            concurrency: self.concurrency,
        };
        let share_limits = ShareLimits::within(self.max_mutations, self.max_bytes);
        let admission = self.admission.then(|| Admission::new(name, share_limits));
        let table = ProvenTable::new(table, terms, watch);
        let committer = Committer::new(table, admission);
        Ok(PartitionedTable::new(committer))
    }
}

fn refuse_weak_durability(descriptor: &TableDescriptor) -> Result<()> {
    match descriptor.durability().is_weak() {
        true => Err(Error::new(
            ErrorKind::WeakDurability,
            format!(
                "the table's durability is {}: a crash would lose transactions that were called committed",
                descriptor.attribute("DURABILITY").unwrap_or_default()
            ),
        )
        .with_hint("set it to SYNC_WAL, or open the table with allow_weak_durability")),
        false => Ok(()),
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
            ClientErrorKind::PartitionCut,
            match cuts.len() {
                1 => format!("a region boundary cuts {first}"),
                many => format!("{many} region boundaries cut partitions; the first: {first}"),
            },
        )
        .with_hint("open the table with allow_cut_partitions, or merge the regions of each")),
    }
}
