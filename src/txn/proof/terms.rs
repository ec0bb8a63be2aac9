//! The properties of a table opened for transactions. No I/O.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use hbase_client::{Durability, TableDescriptor, low_level::Limits};

use crate::{
    error::{Error, ErrorKind, Result},
    partition::PartitionRule,
    table_descriptor::TableDescriptorExt,
};

/// The properties of an open table that its transactions rely on.
#[derive(Clone, Debug)]
pub(in crate::txn) struct Terms {
    pub(in crate::txn) rule: PartitionRule,
    pub(in crate::txn) families: BTreeSet<Bytes>,
    /// The durability of mutations that don't name one; `UseDefault` if the table leaves it to its
    /// region servers.
    pub(in crate::txn) durability: Durability,
    pub(in crate::txn) limits: Limits,
    pub(in crate::txn) max_mutations: usize,
    pub(in crate::txn) max_bytes: usize,
    pub(in crate::txn) max_conditions: usize,
    /// How long records are kept, or `None` if the table has no family for them.
    pub(in crate::txn) replay_window: Option<Duration>,
    /// Whether each transaction changes the version cell of its partition.
    pub(in crate::txn) partition_version: bool,
    /// Whether transactions across partitions are possible, so that a partition may have an intent.
    pub(in crate::txn) cross_partition: bool,
    /// Whether transactions go through the endpoint, or through `Multi`.
    pub(in crate::txn) endpoint: bool,
    /// The maximum number of groups of a batch that are under way.
    pub(in crate::txn) concurrency: usize,
}

impl Terms {
    /// Returns how long records are kept.
    ///
    /// # Errors
    ///
    /// Returns [`RecordFamilyMissing`](ErrorKind::RecordFamilyMissing) if the table can't keep
    /// records.
    pub(in crate::txn) fn record_window(&self) -> Result<Duration> {
        self.replay_window.ok_or_else(|| {
            Error::new(
                ErrorKind::RecordFamilyMissing,
                format!(
                    "the table has no family {} that keeps the records of transactions",
                    TableDescriptor::RECORD_FAMILY
                ),
            )
            .with_hint("open the table again after adding the family")
            .with_missing_family(TableDescriptor::RECORD_FAMILY)
        })
    }

    /// Returns the families that are not reserved.
    pub(in crate::txn) fn user_families(&self) -> impl Iterator<Item = &Bytes> {
        self.families
            .iter()
            .filter(|family| !TableDescriptor::reserves_family(family))
    }

    /// Returns a family for tests of servers: the record family, which the user's readers do not
    /// see, or any of the user's families if the table does not have it.
    pub(super) fn trial_family(&self) -> Bytes {
        self.families
            .get(TableDescriptor::RECORD_FAMILY.as_bytes())
            .or_else(|| self.user_families().next())
            .cloned()
            .unwrap_or_default()
    }

    /// Checks that a table with this descriptor still has these properties.
    ///
    /// # Errors
    ///
    /// - [`PartitionRuleChanged`](ErrorKind::PartitionRuleChanged) if it does not;
    /// - [`FeatureUnknown`](ErrorKind::FeatureUnknown) if the table requires a feature that this
    ///   release does not know.
    pub(super) fn check_unchanged(&self, descriptor: &TableDescriptor) -> Result<()> {
        descriptor.check_features()?;
        let changed = |what: String| {
            Err(Error::new(ErrorKind::PartitionRuleChanged, what).with_hint("open the table again"))
        };
        if let Some(then) = self.replay_window {
            match descriptor.replay_window() {
                Ok(Some(now)) if now >= then => {}
                Ok(Some(now)) => {
                    return changed(format!(
                        "the table remembered transactions for {then:?} when it was opened; now it is {now:?}"
                    ));
                }
                Ok(None) => {
                    return changed(format!(
                        "the table had the family {} when it was opened, and has lost it",
                        TableDescriptor::RECORD_FAMILY
                    ));
                }
                Err(error) => {
                    return changed(format!(
                        "the table remembered transactions for {then:?} when it was opened; now it is not known for how long: {error}"
                    ));
                }
            }
        }
        if descriptor.durability().is_weak() && self.durability == Durability::UseDefault {
            return changed(format!(
                "the table's writes survived a crash when it was opened; now its DURABILITY is {}",
                descriptor.attribute("DURABILITY").unwrap_or_default()
            ));
        }
        if descriptor.has_partition_version() && !self.partition_version {
            return changed(
                "the table had no versions of partitions when it was opened, and has them now".to_owned(),
            );
        }
        if descriptor.has_cross_partition() && !self.cross_partition {
            return changed(
                "the table had no transactions across partitions when it was opened, and has them now"
                    .to_owned(),
            );
        }
        let now = match PartitionRule::from_descriptor(descriptor) {
            Ok(rule) if rule == self.rule => return Ok(()),
            Ok(rule) => format!("now it is {rule}"),
            Err(error) => format!("now there is none: {error}"),
        };
        changed(format!(
            "the table was opened with the partition rule {}; {now}",
            self.rule
        ))
    }
}

#[cfg(test)]
mod tests {
    use hbase_client::FamilyDescriptor;
    use rstest::rstest;

    use super::*;

    fn descriptor(rule_length: usize) -> TableDescriptor {
        let rule = PartitionRule::prefix_length(rule_length).unwrap();
        TableDescriptor::new("orders")
            .unwrap()
            .with_family(FamilyDescriptor::new("f"))
            .with_partition_rule(&rule)
            .with_record_family()
    }

    fn with_record_ttl(ttl: &'static str) -> TableDescriptor {
        let family = FamilyDescriptor::new(TableDescriptor::RECORD_FAMILY);
        descriptor(3).with_family(family.with_attribute("TTL", ttl))
    }

    fn without_record_family() -> TableDescriptor {
        let mut descriptor = descriptor(3);
        descriptor.families.retain(|family| family.name == "f");
        descriptor
    }

    #[rstest]
    #[case::ttl_of_records(with_record_ttl("60"), "not known for how long")]
    #[case::no_record_family(without_record_family(), "has lost it")]
    #[case::window(descriptor(3).with_attribute(TableDescriptor::REPLAY_WINDOW, "soon"), "not known for how long")]
    #[case::shorter_window(descriptor(3).with_attribute(TableDescriptor::REPLAY_WINDOW, "3600"), "now it is")]
    #[case::rule(descriptor(4), "partition rule")]
    #[case::durability(descriptor(3).with_attribute("DURABILITY", "SKIP_WAL"), "DURABILITY")]
    #[case::version(descriptor(3).with_partition_version(), "versions of partitions")]
    #[case::cross(descriptor(3).with_attribute(TableDescriptor::CROSS_PARTITION, "true"), "across partitions")]
    fn any_change_of_the_terms_is_noticed(#[case] now: TableDescriptor, #[case] why: &str) {
        let opened = descriptor(3);
        let terms = Terms {
            rule: PartitionRule::from_descriptor(&opened).unwrap(),
            families: opened.families.iter().map(|family| family.name.clone()).collect(),
            durability: Durability::UseDefault,
            limits: Limits::default(),
            max_mutations: 1,
            max_bytes: 1,
            max_conditions: 1,
            replay_window: opened.replay_window().unwrap(),
            partition_version: false,
            cross_partition: false,
            endpoint: true,
            concurrency: 1,
        };
        terms.check_unchanged(&opened).unwrap();
        let error = terms.check_unchanged(&now).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PartitionRuleChanged);
        assert!(error.to_string().contains(why), "{error}");
    }
}
