//! The families and attributes that transactions and locks need in a table's descriptor.

use std::{future::Future, time::Duration};

use hbase_admin::{Admin, low_level::AdminCalls};
use hbase_client::{FamilyDescriptor, TableDescriptor, TableName};
use tokio::time::Instant;

use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    partition::PartitionRule,
};

/// The features of [`TableDescriptor::REQUIRES`] that this release knows.
const FEATURES: [&str; 1] = [CROSS_PARTITION_FEATURE];
/// The feature of tables with transactions across partitions.
const CROSS_PARTITION_FEATURE: &str = "cross-partition";

/// The TTL of the record family, in seconds: a record outlives its replay window by two days.
const RECORD_TTL: &str = "172800";
/// The minimum TTL of the record family, in seconds: a shorter one could expire records that are
/// still queried.
const MIN_RECORD_TTL: u64 = 3_600;
/// The minimum replay window, in seconds (five minutes): a commit plus the maximum clock difference
/// must fit into it.
const MIN_REPLAY_WINDOW: u32 = 300;
/// The replay window of a table without the attribute: one day.
const DEFAULT_REPLAY_WINDOW: Duration = Duration::from_secs(24 * 3_600);

/// The families and attributes of a [`TableDescriptor`] that this crate needs.
///
/// # Example
///
/// A table for transactions, as `hbase-txn table create orders --family f --prefix-length 3` creates it:
///
/// ```
/// use hbase_txn::{
///     PartitionRule, TableDescriptorExt,
///     admin::Admin,
///     client::{FamilyDescriptor, TableDescriptor},
/// };
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # let connection = hbase.connect().await?;
/// let orders = TableDescriptor::new("orders")?
///     .with_family(FamilyDescriptor::new("f"))
///     .with_partition_rule(&PartitionRule::prefix_length(3)?)
///     .with_multi_row_mutation_endpoint()
///     .with_record_family();
/// Admin::new(&connection).create_table(&orders, &[]).await?;
/// # let orders = hbase_txn::PartitionedTable::open(&connection, "orders").await?;
/// # let put = hbase_txn::client::Put::new("xxxabc").cell("f", "q", "1");
/// # assert!(orders.transaction("xxx").put(put).id("request-4711").commit().await.is_committed());
/// # Ok(()) });
/// ```
pub trait TableDescriptorExt: Sized {
    /// The family reserved for the records of transactions.
    const RECORD_FAMILY: &'static str = "_txn";
    /// The family reserved for the version cells of partitions.
    const VERSION_FAMILY: &'static str = "_version";
    /// The family reserved for locks in partitions.
    const LOCK_FAMILY: &'static str = "_lock";
    /// The families reserved for this library, and the purpose of each.
    const RESERVED_FAMILIES: [(&'static str, &'static str); 3] = [
        (Self::RECORD_FAMILY, "the records of transactions"),
        (Self::VERSION_FAMILY, "the versions of partitions"),
        (Self::LOCK_FAMILY, "locks in partitions"),
    ];
    /// The attribute that declares partition versions: if it is `true`, every transaction of the
    /// table changes its partition's version cell.
    const PARTITION_VERSION: &'static str = "hbase-txn.partition-version";

    /// The attribute with the table's replay window: how long a transaction's record is guaranteed
    /// to be kept, in whole seconds. The default is 86,400 (one day), the minimum 300.
    const REPLAY_WINDOW: &'static str = "hbase-txn.replay-window.seconds";

    /// The attribute with the features that every client of the table must know: names, separated
    /// by commas. A release that does not know one of them refuses to use or change the table, so
    /// that it can't bypass the feature. This release knows `cross-partition`.
    const REQUIRES: &'static str = "hbase-txn.requires";

    /// The attribute that allows transactions across partitions on the table if it is `true`.
    const CROSS_PARTITION: &'static str = "hbase-txn.cross-partition";

    /// Sets the partition rule: the split restriction, and the older policy for servers without it.
    #[must_use]
    fn with_partition_rule(self, rule: &PartitionRule) -> Self;

    /// Adds the family for transactions with a record, [`RECORD_FAMILY`](Self::RECORD_FAMILY), or
    /// sets the attributes that it needs.
    ///
    /// One version, because a record is overwritten in the course of its transaction; a TTL,
    /// because no client deletes records; `NEW_VERSION_BEHAVIOR`, so that a delete marker does not
    /// hide a record that is written after it.
    #[must_use]
    fn with_record_family(self) -> Self;

    /// Gives each partition a version cell, which every transaction of this library changes: adds
    /// the family [`VERSION_FAMILY`](Self::VERSION_FAMILY) and sets the attribute
    /// [`PARTITION_VERSION`](Self::PARTITION_VERSION).
    ///
    /// With it, a read-modify-write notices every change by another transaction in the partition,
    /// including rows and columns that were added in the meantime; without it, only changes to what
    /// was read. The price is one more cell in each transaction, and that any two overlapping
    /// transactions of one partition conflict. Clients that have the table open do not notice the
    /// change: open the table again before relying on it.
    #[must_use]
    fn with_partition_version(self) -> Self;

    /// Returns whether every transaction of the table changes its partition's version cell.
    #[must_use]
    fn has_partition_version(&self) -> bool;

    /// Allows transactions across partitions ([`CrossTransaction`](crate::CrossTransaction)): adds the
    /// [record family](Self::with_record_family) and [partition versions](Self::with_partition_version),
    /// sets the attribute [`CROSS_PARTITION`](Self::CROSS_PARTITION), and adds `cross-partition` to the
    /// features that the table [requires](Self::REQUIRES).
    ///
    /// Clients that have the table open do not notice the change at once: stop them, or wait for their
    /// operation timeout, before the first such transaction.
    #[must_use]
    fn with_cross_partition(self) -> Self;

    /// Returns whether the table allows transactions across partitions.
    #[must_use]
    fn has_cross_partition(&self) -> bool;

    /// Adds the family for locks in partitions, [`LOCK_FAMILY`](Self::LOCK_FAMILY), or sets the
    /// attribute that it needs: one version.
    ///
    /// No TTL, because each lock sets its own, and no `NEW_VERSION_BEHAVIOR`, which makes a
    /// frequently acquired lock slower and slower.
    #[must_use]
    fn with_lock_family(self) -> Self;

    /// Returns the features that the table [requires](Self::REQUIRES) but this release lacks.
    fn unknown_features(&self) -> impl Iterator<Item = &str>;

    /// Refuses a table that requires a feature unknown to this release.
    ///
    /// # Errors
    ///
    /// Returns [`FeatureUnknown`](ErrorKind::FeatureUnknown), with the names of the features.
    fn check_features(&self) -> Result<()>;

    /// Returns whether a family is reserved for this library.
    fn reserves_family(family: &[u8]) -> bool;

    /// Returns how long a transaction's record is guaranteed to be kept, or `None` if the table has
    /// no record family. Shorten it only while no client has the table open, and if no older
    /// transaction will be settled.
    ///
    /// # Errors
    ///
    /// Returns [`RecordFamilyMissing`](ErrorKind::RecordFamilyMissing) if the family would lose
    /// records, or the attribute [`REPLAY_WINDOW`](Self::REPLAY_WINDOW) is not a number of seconds
    /// or is below the minimum.
    fn replay_window(&self) -> Result<Option<Duration>>;
}

impl TableDescriptorExt for TableDescriptor {
    fn with_partition_rule(self, rule: &PartitionRule) -> Self {
        let attributes = rule.attributes().into_iter();
        attributes.fold(self, |table, (key, value)| table.with_attribute(key, value))
    }

    fn with_record_family(self) -> Self {
        let family = self
            .family(Self::RECORD_FAMILY)
            .cloned()
            .unwrap_or_else(|| FamilyDescriptor::new(Self::RECORD_FAMILY));
        self.with_family(
            family
                .with_attribute("VERSIONS", "1")
                .with_attribute("TTL", RECORD_TTL)
                .with_attribute("NEW_VERSION_BEHAVIOR", "true"),
        )
    }

    fn with_partition_version(self) -> Self {
        let family = self
            .family(Self::VERSION_FAMILY)
            .cloned()
            .unwrap_or_else(|| FamilyDescriptor::new(Self::VERSION_FAMILY));
        self.with_family(family.with_attribute("VERSIONS", "1"))
            .with_attribute(Self::PARTITION_VERSION, "true")
    }

    fn has_partition_version(&self) -> bool {
        is_true(self, Self::PARTITION_VERSION)
    }

    fn with_cross_partition(self) -> Self {
        let required = self.attribute(Self::REQUIRES).unwrap_or_default();
        let mut features: Vec<_> = features(required).collect();
        if !features.contains(&CROSS_PARTITION_FEATURE) {
            features.push(CROSS_PARTITION_FEATURE);
        }
        let required = features.join(",");
        self.with_record_family()
            .with_partition_version()
            .with_attribute(Self::CROSS_PARTITION, "true")
            .with_attribute(Self::REQUIRES, required)
    }

    fn has_cross_partition(&self) -> bool {
        is_true(self, Self::CROSS_PARTITION)
    }

    fn with_lock_family(self) -> Self {
        let family = self
            .family(Self::LOCK_FAMILY)
            .cloned()
            .unwrap_or_else(|| FamilyDescriptor::new(Self::LOCK_FAMILY));
        self.with_family(family.with_attribute("VERSIONS", "1"))
    }

    fn unknown_features(&self) -> impl Iterator<Item = &str> {
        let required = self.attribute(Self::REQUIRES).unwrap_or_default();
        features(required).filter(|feature| !FEATURES.contains(feature))
    }

    fn check_features(&self) -> Result<()> {
        let unknown: Vec<_> = self.unknown_features().collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::FeatureUnknown,
            format!(
                "the table requires features that this release does not know: {}",
                unknown.join(", ")
            ),
        )
        .at_table(&self.name)
        .with_hint("use a newer release of this library with the table"))
    }

    fn reserves_family(family: &[u8]) -> bool {
        Self::RESERVED_FAMILIES
            .iter()
            .any(|(kept, _)| kept.as_bytes() == family)
    }

    fn replay_window(&self) -> Result<Option<Duration>> {
        let Some(family) = self.family(Self::RECORD_FAMILY) else {
            return Ok(None);
        };
        let bad = |what: String| Error::new(ErrorKind::RecordFamilyMissing, what).at_table(&self.name);
        if let Some(ttl) = family.attribute("TTL")
            && ttl.parse::<u64>().is_ok_and(|ttl| ttl < MIN_RECORD_TTL)
        {
            return Err(bad(format!(
                "family {} forgets records after {ttl} s; it must keep them for {MIN_RECORD_TTL} s at least",
                Self::RECORD_FAMILY
            )));
        }
        match self.attribute(Self::REPLAY_WINDOW) {
            None => Ok(Some(DEFAULT_REPLAY_WINDOW)),
            Some(text) => match text.parse::<u32>() {
                Ok(seconds) if seconds >= MIN_REPLAY_WINDOW => Ok(Some(Duration::from_secs(seconds.into()))),
                _ => Err(bad(format!(
                    "attribute {} is {text:?}; it is a number of seconds, {MIN_REPLAY_WINDOW} at least",
                    Self::REPLAY_WINDOW
                ))),
            },
        }
    }
}

fn is_true(descriptor: &TableDescriptor, attribute: &str) -> bool {
    let value = descriptor.attribute(attribute);
    value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Returns the features in the value of [`TableDescriptor::REQUIRES`].
fn features(required: &str) -> impl Iterator<Item = &str> {
    let features = required.split(',').map(str::trim);
    features.filter(|feature| !feature.is_empty())
}

/// Reads the descriptor of a table before it is used, by the given deadline.
///
/// # Errors
///
/// Returns an error if a call fails, the table is disabled, or it requires a feature that this
/// release does not know.
pub async fn usable_descriptor(
    admin: &Admin,
    table: &TableName,
    deadline: Instant,
) -> Result<TableDescriptor> {
    let descriptor = admin.enabled_descriptor(table, deadline).await?;
    descriptor.check_features()?;
    Ok(descriptor)
}

/// Reads the descriptor of a table for locks or latches. If the table is missing, awaits `create`
/// first.
///
/// # Errors
///
/// Returns the errors of [`usable_descriptor`] in the caller's context, or the error of creating
/// the table.
pub(crate) async fn usable_or_created(
    admin: &Admin,
    name: &TableName,
    timeout: Duration,
    create: Option<impl Future<Output = Result<bool>> + Send>,
    missing: &'static str,
    in_context: impl Fn(Error) -> Error + Send + Sync,
) -> Result<TableDescriptor> {
    let mut descriptor = usable_descriptor(admin, name, Instant::now() + timeout).await;
    if let (Err(error), Some(creating)) = (&descriptor, create)
        && error.kind() == ClientErrorKind::TableNotFound
    {
        creating.await?;
        descriptor = usable_descriptor(admin, name, Instant::now() + timeout).await;
    }
    descriptor.map_err(|error| {
        in_context(match error.kind() {
            ErrorKind::Client(ClientErrorKind::TableNotFound) => error.with_hint(missing),
            _ => error,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TableDescriptor {
        TableDescriptor::new("t").unwrap()
    }

    #[test]
    fn record_family_has_its_own_settings_beside_other_families() {
        let own = FamilyDescriptor::new("_txn").with_attribute("COMPRESSION", "SNAPPY");
        let descriptor = table()
            .with_family(FamilyDescriptor::new("f"))
            .with_family(own)
            .with_record_family();
        let names: Vec<_> = descriptor.families.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["_txn", "f"]);
        let family = descriptor.family(TableDescriptor::RECORD_FAMILY).unwrap();
        assert_eq!(family.attribute("NEW_VERSION_BEHAVIOR"), Some("true"));
        assert_eq!(family.attribute("COMPRESSION"), Some("SNAPPY"));
    }

    #[test]
    fn the_lock_family_has_one_version_and_is_kept_for_the_toolkit() {
        let descriptor = table().with_lock_family();
        let family = descriptor.family(TableDescriptor::LOCK_FAMILY).unwrap();
        assert_eq!(family.attribute("VERSIONS"), Some("1"));
        assert_eq!(family.attribute("TTL"), None);
        for family in ["_txn", "_version", "_lock"] {
            assert!(TableDescriptor::reserves_family(family.as_bytes()));
        }
        assert!(!TableDescriptor::reserves_family(b"lock"));
    }

    #[test]
    fn partition_version_is_a_family_and_an_attribute() {
        let descriptor = table().with_partition_version();
        assert!(descriptor.has_partition_version() && !table().has_partition_version());
        let family = descriptor.family(TableDescriptor::VERSION_FAMILY).unwrap();
        assert_eq!(family.attribute("VERSIONS"), Some("1"));
        let off = descriptor.with_attribute(TableDescriptor::PARTITION_VERSION, "false");
        assert!(!off.has_partition_version());
    }

    #[test]
    fn cross_partition_brings_what_it_needs_and_keeps_older_releases_out() {
        let descriptor = table().with_cross_partition().with_cross_partition();
        assert!(descriptor.has_cross_partition() && descriptor.has_partition_version());
        assert!(descriptor.replay_window().unwrap().is_some());
        assert_eq!(
            descriptor.attribute(TableDescriptor::REQUIRES),
            Some("cross-partition")
        );
        descriptor.check_features().unwrap();
        let other = table().with_attribute(TableDescriptor::REQUIRES, "time-travel");
        let both = other.with_cross_partition();
        assert_eq!(both.unknown_features().collect::<Vec<_>>(), ["time-travel"]);
    }
}
