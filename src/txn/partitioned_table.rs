//! A table that transactions are possible on, and the proof of it.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    admission::Admission,
    batch::Batch,
    gate::{METHOD, SERVICE},
    group_commit::ShareLimits,
    plan::{Group, Terms},
    rule_watch::RuleWatch,
    servers::Servers,
    transaction::Transaction,
};
use crate::{
    client::{Connection, EndpointCall, Table},
    error::{Error, ErrorKind, Result},
    model::{BytesBinary, Durability, Partition, PartitionRule, RegionInfo, TableDescriptor, TableName},
};

pub(super) const ATTACH_ENDPOINT: &str = "attach MultiRowMutationEndpoint: hbase-txn table alter TABLE --endpoint, or make \
     tables with hbase-txn table create";

/// A table whose rows can change together, partition by partition.
///
/// Opening it proves that they can: the table states a rule that keeps prefixes together, the endpoint answers, no
/// region boundary cuts a partition, and a commit is durable. Cheap to clone. Families and durability are read once: open
/// the table again after a change of them.
///
/// # Example
///
/// ```no_run
/// # async fn example(connection: hbase_txn::Connection) -> hbase_txn::Result<()> {
/// use hbase_txn::{Delete, PartitionedTable, Put};
///
/// let orders = PartitionedTable::open(&connection, "orders".parse()?).await?;
/// let mut transaction = orders.at("xxx")?;
/// transaction.put(Put::new("xxxabc").cell("f", "q", "1"))?;
/// transaction.put(Put::new("xxx123").cell("f", "q", "2"))?;
/// transaction.delete(Delete::new("xxxzzz"))?;
/// transaction.commit().await.into_result()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PartitionedTable {
    table: Table,
    proven: Arc<Proven>,
}

/// What opening the table has proven, and what keeps it true.
struct Proven {
    terms: Terms,
    watch: RuleWatch,
    servers: Servers,
    concurrency: usize,
    /// None when it is turned off.
    admission: Option<Arc<Admission>>,
}

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

    /// Opens a table whose durability is `SKIP_WAL` or `ASYNC_WAL` too: its commits can be lost in a crash.
    pub fn allow_weak_durability(mut self) -> Self {
        self.weak_durability = true;
        self
    }

    /// Opens a table that has cut partitions too. Their transactions are refused one by one, all others work.
    pub fn allow_cut_partitions(mut self) -> Self {
        self.cut_partitions = true;
        self
    }

    /// The most mutations that one transaction may have; 100,000 unless said.
    pub fn max_mutations(mut self, mutations: usize) -> Self {
        self.max_mutations = mutations;
        self
    }

    /// The most bytes of keys and values that one transaction may have; 64 MiB unless said. The server refuses
    /// requests above 256 MiB, whatever is said here.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// The most conditions that one transaction may have; 10,000 unless said. The server checks them while it holds the
    /// rows' locks: 1,000 took it 0.04 to 0.1 s.
    pub fn max_conditions(mut self, conditions: usize) -> Self {
        self.max_conditions = conditions;
        self
    }

    /// Sends transactions through HBase's `Multi` and not through `MultiRowMutationEndpoint`, which then need not be
    /// there. What increments and appends made comes back as [`Committed::results`](super::Committed::results).
    ///
    /// A `Multi` of several rows is applied whole or not at all by all releases from 2.4 to 3.0, but HBase does not
    /// promise it. So nothing falls back to this by itself, and each region server is tried before it is relied on: with
    /// writes of its own, in rows that are reserved and expire within seconds. There are no conditions, records and guarded
    /// timestamps.
    pub fn without_endpoint(mut self) -> Self {
        self.endpoint = false;
        self
    }

    /// How many groups of a batch are on their way at a time; 16 unless said, at least 1. Each holds one of the
    /// server's handlers (30 unless changed there).
    pub fn concurrency(mut self, groups: usize) -> Self {
        self.concurrency = groups.max(1);
        self
    }

    /// How often the table's rule is read again, besides whenever a region is found reopened; 10 s unless said.
    pub fn rule_interval(mut self, interval: Duration) -> Self {
        self.rule_interval = interval;
        self
    }

    /// Sends every transaction at once, however many of its partition are on their way. Unless this is said, there is one
    /// at a time for each partition, from all clones of the table; the others wait in order, and those that have queued up
    /// go in one call where they can. Without that, the server's handlers wait for a hot partition's rows instead, and
    /// other partitions wait for a handler.
    pub fn without_admission(mut self) -> Self {
        self.admission = false;
        self
    }

    /// Opens a table, within the client's operation timeout.
    ///
    /// # Errors
    ///
    /// As [`PartitionedTable::open`].
    pub async fn open(self, connection: &Connection, name: TableName) -> Result<PartitionedTable> {
        let blame = |error: Error| error.at_operation("opening for transactions").at_table(&name);
        let deadline = Instant::now() + connection.config().operation_timeout();
        let admin = connection.admin();
        let descriptor = admin.usable_descriptor(&name, deadline).await.map_err(blame)?;
        let rule = PartitionRule::from_descriptor(&descriptor).map_err(blame)?;
        if !self.weak_durability {
            refuse_weak_durability(&descriptor).map_err(blame)?;
        }
        refuse_missing_version_family(&descriptor).map_err(blame)?;
        let regions = connection.table_openings(&name, deadline).await.map_err(blame)?;
        if !self.cut_partitions {
            refuse_cut_partitions(&rule, regions.iter().map(|(region, _)| region)).map_err(blame)?;
        }
        let table = connection.table(name.clone());
        let left = deadline.saturating_duration_since(Instant::now());
        if self.endpoint {
            prove_endpoint(&table.clone().with_operation_timeout(left), Bytes::new())
                .await
                .map_err(blame)?;
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
            limits: table.limits(),
            max_mutations: self.max_mutations,
            max_bytes: self.max_bytes,
            max_conditions: self.max_conditions,
            replay_window: descriptor.replay_window().map_err(blame)?,
            endpoint: self.endpoint,
        };
        let share_limits = ShareLimits::within(self.max_mutations, self.max_bytes);
        let admission = self.admission.then(|| Admission::new(name, share_limits));
        Ok(PartitionedTable {
            table,
            proven: Arc::new(Proven {
                terms,
                watch,
                servers: Servers::default(),
                concurrency: self.concurrency,
                admission,
            }),
        })
    }
}

impl PartitionedTable {
    /// Opens a table for transactions, with the defaults of [`OpenOptions`].
    ///
    /// # Errors
    ///
    /// [`TableNotFound`](ErrorKind::TableNotFound), [`TableDisabled`](ErrorKind::TableDisabled);
    /// [`NoPartitionRule`](ErrorKind::NoPartitionRule) for no rule or a broken one;
    /// [`EndpointMissing`](ErrorKind::EndpointMissing) when the endpoint does not answer;
    /// [`PartitionCut`](ErrorKind::PartitionCut) when a region boundary lies inside a partition;
    /// [`WeakDurability`](ErrorKind::WeakDurability) when commits could be lost;
    /// [`FamilyNotFound`](ErrorKind::FamilyNotFound) for a table that promises versions of partitions and has no family
    /// for them. Each says what mends it.
    pub async fn open(connection: &Connection, name: TableName) -> Result<Self> {
        OpenOptions::new().open(connection, name).await
    }

    /// The table itself, for reads, and for writes that are no transactions.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &TableName {
        self.table.name()
    }

    /// The table's partition rule, as it was when the table was opened.
    #[must_use]
    pub fn rule(&self) -> &PartitionRule {
        &self.proven.terms.rule
    }

    /// The same table with another operation timeout for its calls and transactions.
    #[must_use]
    pub fn with_operation_timeout(mut self, timeout: Duration) -> Self {
        self.table = self.table.with_operation_timeout(timeout);
        self
    }

    /// Starts a transaction in the partition of a bare prefix, whether or not any row has it. Under a delimiter
    /// the prefix is without it.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](ErrorKind::InvalidInput) for what is no prefix under the table's rule.
    pub fn at(&self, prefix: impl Into<Bytes>) -> Result<Transaction> {
        let partition = self
            .rule()
            .partition(prefix)
            .map_err(|error| error.at_operation("transaction").at_table(self.name()))?;
        Ok(Transaction::new(self.clone(), Group::new(partition)))
    }

    /// Starts a transaction in the partition of a row; the only way to one of a row that the rule can't cut.
    pub fn at_row(&self, row: impl Into<Bytes>) -> Transaction {
        let partition = self.rule().partition_of(&row.into());
        Transaction::new(self.clone(), Group::new(partition))
    }

    /// Starts a batch of any rows, which are grouped by partition: one transaction each.
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }

    /// The partition that a row belongs to.
    #[must_use]
    pub fn partition_of(&self, row: &Bytes) -> Partition {
        self.rule().partition_of(row)
    }

    pub(super) fn terms(&self) -> &Terms {
        &self.proven.terms
    }

    pub(super) fn watch(&self) -> &RuleWatch {
        &self.proven.watch
    }

    pub(super) fn servers(&self) -> &Servers {
        &self.proven.servers
    }

    /// A family for trials of servers: that of the records, which readers of the user's do not see; where there is
    /// none, any of the user's.
    pub(super) fn trial_family(&self) -> Bytes {
        let families = &self.terms().families;
        families
            .get(TableDescriptor::RECORD_FAMILY.as_bytes())
            .or_else(|| {
                let mut of_user = families.iter();
                of_user.find(|family| !TableDescriptor::reserves_family(family))
            })
            .cloned()
            .unwrap_or_default()
    }

    pub(super) fn admission(&self) -> Option<&Arc<Admission>> {
        self.proven.admission.as_ref()
    }

    pub(super) fn concurrency(&self) -> usize {
        self.proven.concurrency
    }

    /// Fails with [`PartitionRuleChanged`](ErrorKind::PartitionRuleChanged) when the table has another rule now.
    pub(super) async fn check_rule(&self) -> Result<()> {
        let descriptor = self.table().connection().admin().descriptor(self.name()).await?;
        if let (Some(then), Some(now)) = (self.terms().replay_window, descriptor.replay_window()?)
            && now < then
        {
            return Err(Error::new(
                ErrorKind::PartitionRuleChanged,
                format!(
                    "the table remembered transactions for {then:?} when it was opened; now it is {now:?}"
                ),
            )
            .with_hint("open the table again"));
        }
        if descriptor.has_partition_version() && !self.terms().partition_version {
            return Err(Error::new(
                ErrorKind::PartitionRuleChanged,
                "the table had no versions of partitions when it was opened, and has them now",
            )
            .with_hint("open the table again"));
        }
        let now = match PartitionRule::from_descriptor(&descriptor) {
            Ok(rule) if rule == *self.rule() => return Ok(()),
            Ok(rule) => format!("now it is {rule}"),
            Err(error) => format!("now there is none: {error}"),
        };
        Err(Error::new(
            ErrorKind::PartitionRuleChanged,
            format!(
                "the table was opened with the partition rule {}; {now}",
                self.rule()
            ),
        )
        .with_hint("open the table again"))
    }
}

/// Fails with [`EndpointMissing`](ErrorKind::EndpointMissing) when the endpoint does not answer in the region of a
/// row. Sends a transaction with nothing in it, which every version answers and none does anything for.
pub(crate) async fn prove_endpoint(table: &Table, row: Bytes) -> Result<()> {
    let probe = EndpointCall::new(row, SERVICE, METHOD, Bytes::new()).idempotent();
    match table.call_endpoint(&probe).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::EndpointMissing => Err(Error::new(
            ErrorKind::EndpointMissing,
            "MultiRowMutationEndpoint does not answer on the table",
        )
        .with_source(error)
        .with_hint(ATTACH_ENDPOINT)),
        Err(error) => Err(error),
    }
}

fn refuse_weak_durability(descriptor: &TableDescriptor) -> Result<()> {
    match descriptor.durability() {
        Durability::SkipWal | Durability::AsyncWal => Err(Error::new(
            ErrorKind::WeakDurability,
            format!(
                "the table's durability is {}: a crash would lose transactions that were called committed",
                descriptor.attribute("DURABILITY").unwrap_or_default()
            ),
        )
        .with_hint("set it to SYNC_WAL, or open the table with allow_weak_durability")),
        _ => Ok(()),
    }
}

fn refuse_missing_version_family(descriptor: &TableDescriptor) -> Result<()> {
    let family = TableDescriptor::VERSION_FAMILY;
    if !descriptor.has_partition_version() || descriptor.family(family).is_some() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::FamilyNotFound,
        format!(
            "the table's attribute {} promises versions of partitions, and it has no family {family} for them",
            TableDescriptor::PARTITION_VERSION
        ),
    )
    .with_hint(format!(
        "add the family: hbase-txn table alter {} --partition-version",
        descriptor.name
    )))
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
        .with_hint(
            "rejoin them: hbase-txn table repair TABLE (hbase-txn table check lists them); or open the table with \
             allow_cut_partitions",
        )),
    }
}

impl fmt::Debug for PartitionedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartitionedTable({}, by {})", self.name(), self.rule())
    }
}
