//! Opens a table after proving that transactions are possible on it.

use std::time::Duration;

use bytes::Bytes;
use hbase_admin::Admin;
use hbase_client::{
    BytesBinary, Connection, RegionInfo, TableDescriptor, TableName,
    low_level::{Limits, TableCalls, table_openings},
};
use tokio::time::Instant;

use super::{probe, proven_table::ProvenTable, rule_watch::RuleWatch, terms::Terms};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    partition::PartitionRule,
    table_descriptor::{TableDescriptorExt, usable_descriptor},
};

/// The number of groups of a batch that are under way at a time if they do not share calls.
pub(in crate::txn) const CONCURRENCY: usize = 16;

/// Which tables are opened, and the limits of their transactions.
#[derive(Clone, Debug)]
pub(in crate::txn) struct Settings {
    pub(in crate::txn) weak_durability: bool,
    pub(in crate::txn) cut_partitions: bool,
    pub(in crate::txn) max_mutations: usize,
    pub(in crate::txn) max_bytes: usize,
    pub(in crate::txn) max_conditions: usize,
    /// The maximum number of groups of a batch that are under way.
    pub(in crate::txn) concurrency: Option<usize>,
    pub(in crate::txn) rule_interval: Duration,
    /// Whether transactions go through the endpoint.
    pub(in crate::txn) endpoint: bool,
}

impl Default for Settings {
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
        }
    }
}

impl ProvenTable {
    /// Opens a table after proving that transactions are possible on it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`PartitionedTable::open`](crate::PartitionedTable::open).
    pub(in crate::txn) async fn open(
        connection: &Connection,
        name: TableName,
        settings: &Settings,
        deadline: Instant,
    ) -> Result<Self> {
        let in_context = |error: Error| error.at_operation("opening for transactions").at_table(&name);
        let admin = Admin::new(connection);
        let descriptor = usable_descriptor(&admin, &name, deadline)
            .await
            .map_err(in_context)?;
        let rule = PartitionRule::from_descriptor(&descriptor).map_err(in_context)?;
        if !settings.weak_durability {
            refuse_weak_durability(&descriptor).map_err(in_context)?;
        }
        refuse_missing_version_family(&descriptor).map_err(in_context)?;
        let replay_window = descriptor.replay_window().map_err(in_context)?;
        refuse_half_of_cross_partition(&descriptor, settings).map_err(in_context)?;
        let regions = table_openings(connection, &name, deadline)
            .await
            .map_err(|error| in_context(error.into()))?;
        if !settings.cut_partitions {
            refuse_cut_partitions(&rule, regions.iter().map(|(region, _)| region)).map_err(in_context)?;
        }
        let table = connection.table(name.clone())?.with_durability_of(&descriptor);
        let left = deadline.saturating_duration_since(Instant::now());
        if settings.endpoint {
            probe::prove_endpoint(&table.clone().with_operation_timeout(left), Bytes::new())
                .await
                .map_err(in_context)?;
        }
        let watch = RuleWatch::new(settings.rule_interval);
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
            cross_partition: descriptor.has_cross_partition(),
            limits: Limits::of(&table),
            max_mutations: settings.max_mutations,
            max_bytes: settings.max_bytes,
            max_conditions: settings.max_conditions,
            replay_window,
            endpoint: settings.endpoint,
            concurrency: settings.concurrency.unwrap_or(CONCURRENCY),
        };
        Ok(Self::new(table, terms, watch))
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

/// Refuses a table that promises transactions across partitions and lacks what they need.
fn refuse_half_of_cross_partition(descriptor: &TableDescriptor, settings: &Settings) -> Result<()> {
    if !descriptor.has_cross_partition() {
        return Ok(());
    }
    if !settings.endpoint {
        return Err(Error::invalid(
            "a table with transactions across partitions needs its endpoint, and is to be opened without it",
        ));
    }
    let family = TableDescriptor::RECORD_FAMILY;
    let missing = match descriptor.family(family) {
        None => format!("has no family {family}"),
        Some(_) if !descriptor.has_partition_version() => "has no versions of partitions".to_owned(),
        Some(_) => return Ok(()),
    };
    let attribute = TableDescriptor::CROSS_PARTITION;
    let what = format!(
        "the table's attribute {attribute} promises transactions across partitions, and it {missing}"
    );
    Err(Error::new(ErrorKind::CrossPartitionUnsupported, what)
        .with_hint("alter the table to allow transactions across partitions"))
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
