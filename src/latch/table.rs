//! Tables for latches.

use std::time::Duration;

use bytes::Bytes;
use hbase_admin::Admin;
use hbase_client::{FamilyDescriptor, IntoTableName, TableDescriptor, TableName};

use crate::{
    error::{ClientErrorKind, Error, Result},
    java_layout::{DEFAULT_REGIONS, JAVA_REGIONS, bucket_split_keys},
    partition::PartitionRule,
    table_descriptor::TableDescriptorExt,
};

/// The prefix that the Java library adds to a table's suffix.
const PREFIX: &str = "D_LTCH_";

/// The options of a latch table to create.
///
/// By default the table has the family of a table of the Java library, a second family for the
/// state that Java's layout can't express, 8 regions, and a split restriction of one byte.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a table is created with them"]
pub struct LatchTableOptions {
    name: TableName,
    regions: usize,
    state_family: bool,
}

impl From<TableName> for LatchTableOptions {
    /// Creates options for the table of this name.
    fn from(name: TableName) -> Self {
        Self {
            name,
            regions: DEFAULT_REGIONS,
            state_family: true,
        }
    }
}

impl LatchTableOptions {
    /// The family of the counts, which may contain nothing else.
    pub const FAMILY: &'static str = "C";
    /// The family of the state beyond the counts: that a latch has expired, the participants that
    /// have arrived, and the latest changes.
    pub const STATE_FAMILY: &'static str = "S";

    /// Creates options for the table of this name.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a valid table name.
    pub fn new(name: impl IntoTableName) -> Result<Self> {
        Ok(Self::from(name.into_table_name()?))
    }

    /// Creates options for the table with this suffix of Java clients: `D_LTCH_` and the suffix.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](ClientErrorKind::InvalidInput) if the suffix is not valid in a
    /// table name.
    pub fn with_suffix(suffix: &str) -> Result<Self> {
        Self::new(format!("{PREFIX}{suffix}"))
    }

    /// Sets the number of regions, 1 to 257; 8 by default. Correctness does not depend on it; each
    /// region costs its server memory, and creating 257 takes seconds.
    pub fn regions(mut self, regions: usize) -> Self {
        self.regions = regions;
        self
    }

    /// Sets the number of regions to 257, as the Java library creates. The second family stays
    /// unless [`no_state_family`](Self::no_state_family) leaves it out.
    pub fn java_layout(self) -> Self {
        self.regions(JAVA_REGIONS)
    }

    /// Leaves out the second family: the table is exactly what the Java library creates.
    ///
    /// A latch that has expired then reads as absent, a change whose answer was lost has an unknown
    /// outcome, and participants cannot arrive, because their names are not stored.
    pub fn no_state_family(mut self) -> Self {
        self.state_family = false;
        self
    }

    /// Returns the table's name.
    #[must_use]
    pub fn name(&self) -> &TableName {
        &self.name
    }

    /// Returns the table's descriptor.
    #[must_use]
    pub fn descriptor(&self) -> TableDescriptor {
        let family = |name: &'static str| {
            FamilyDescriptor::new(name)
                .with_attribute("COMPRESSION", "GZ")
                .with_attribute("VERSIONS", "1")
        };
        let mut descriptor = TableDescriptor::from(self.name.clone()).with_family(family(Self::FAMILY));
        if let Ok(bucket) = PartitionRule::prefix_length(1) {
            descriptor = descriptor.with_partition_rule(&bucket);
        }
        if self.state_family {
            descriptor.with_family(family(Self::STATE_FAMILY))
        } else {
            descriptor
        }
    }

    /// Returns the keys at which its regions begin, except the first.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](ClientErrorKind::InvalidInput) for zero regions or more than 257.
    pub fn split_keys(&self) -> Result<Vec<Bytes>> {
        bucket_split_keys(self.regions)
    }

    /// Creates the table, and returns whether it did. A table that exists, or that another process
    /// creates meanwhile, is left unchanged.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Admin::create_table`], except
    /// [`TableExists`](ClientErrorKind::TableExists).
    pub async fn create(&self, admin: &Admin) -> Result<bool> {
        let split_keys = self.split_keys().map_err(|error| error.at_table(&self.name))?;
        match admin.create_table(&self.descriptor(), &split_keys).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ClientErrorKind::TableExists => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The families of a latch table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Families {
    /// Whether the table has the state family.
    pub(super) state: bool,
    /// The shorter TTL of the two families. `None` if both are without limit.
    pub(super) cells_live: Option<Duration>,
}

impl Families {
    /// Returns those of a partition: one family for everything.
    pub(super) fn in_partition(family: &FamilyDescriptor) -> Self {
        Self {
            state: true,
            cells_live: family.time_to_live(),
        }
    }

    pub(super) fn of(descriptor: &TableDescriptor) -> Result<Self> {
        let counts = descriptor.family(LatchTableOptions::FAMILY).ok_or_else(|| {
            Error::new(
                ClientErrorKind::FamilyNotFound,
                "the table has no family C for counts",
            )
            .with_hint("name a latch table")
        })?;
        let state = descriptor.family(LatchTableOptions::STATE_FAMILY);
        // Participants must be remembered as long as their counts.
        let lives = [Some(counts), state].into_iter().flatten();
        Ok(Self {
            state: state.is_some(),
            cells_live: lives.filter_map(FamilyDescriptor::time_to_live).min(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_javas_and_a_family_more() {
        let options = LatchTableOptions::with_suffix("orders").unwrap();
        assert_eq!(options.name().to_string(), "D_LTCH_orders");
        assert_eq!(options.split_keys().unwrap().len(), 7);
        assert_eq!(options.clone().java_layout().split_keys().unwrap().len(), 256);
        let families = Families::of(&options.descriptor()).unwrap();
        assert!(families.state && families.cells_live.is_none());
        let java = options.no_state_family().descriptor();
        assert!(!Families::of(&java).unwrap().state);
        let short_lived = FamilyDescriptor::new("S").with_attribute("TTL", "60");
        let families = Families::of(&java.clone().with_family(short_lived)).unwrap();
        assert_eq!(families.cells_live, Some(Duration::from_secs(60)));
        let bare = TableDescriptor::new("t").unwrap();
        assert_eq!(
            Families::of(&bare).unwrap_err().kind(),
            ClientErrorKind::FamilyNotFound
        );
        assert!(LatchTableOptions::with_suffix("no such").is_err());
    }
}
