//! Tables for locks.

use bytes::Bytes;
use hbase_admin::Admin;
use hbase_client::{FamilyDescriptor, IntoTableName, TableDescriptor, TableName};

use super::protocol::layout::FAMILY;
use crate::{
    error::{ClientErrorKind, Error, Result},
    java_layout::{DEFAULT_REGIONS, JAVA_REGIONS, bucket_split_keys},
    partition::PartitionRule,
    table_descriptor::TableDescriptorExt,
};

/// The options of a lock table to create.
///
/// By default the table has the family of a table of the Java library, 8 regions, and a split
/// policy and split restriction of one byte, which keep the rows of one lock in one region.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a table is created with them"]
pub struct LockTableOptions {
    name: TableName,
    regions: usize,
    protect_java_clients: bool,
    without_java_clients: bool,
}

impl From<TableName> for LockTableOptions {
    /// Creates options for the table of this name.
    fn from(name: TableName) -> Self {
        Self {
            name,
            regions: DEFAULT_REGIONS,
            protect_java_clients: false,
            without_java_clients: false,
        }
    }
}

impl LockTableOptions {
    /// The family of locks.
    pub const FAMILY: &'static str = "D";
    /// The table attribute that specifies, as `false`, that locks have no companion row.
    pub const COMPANION: &'static str = "hbase-txn.lock-companion";

    /// Creates options for the table of this name.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a valid table name.
    pub fn new(name: impl IntoTableName) -> Result<Self> {
        Ok(Self::from(name.into_table_name()?))
    }

    /// Sets the number of regions, 1 to 257; 8 by default. Correctness does not depend on it; each
    /// region costs its server memory, and creating 257 takes seconds.
    pub fn regions(mut self, regions: usize) -> Self {
        self.regions = regions;
        self
    }

    /// Sets the number of regions to 257, as the Java library creates.
    pub fn java_layout(self) -> Self {
        self.regions(JAVA_REGIONS)
    }

    /// Protects Java clients from each other. Without it, a Java client that acquires a lock in the
    /// same millisecond in which another client released it believes that it holds the lock, and so
    /// does the next one. The option does not protect a Java client whose request is in flight
    /// while a client of this library acquires and releases the lock.
    ///
    /// It sets HBase's `NEW_VERSION_BEHAVIOR` on the family. Locks that are acquired often then
    /// become slower until the next major compaction. Clients of this library do not need it.
    pub fn protect_java_clients(mut self) -> Self {
        self.protect_java_clients = true;
        self
    }

    /// Declares that no Java client uses the table. A lock is then one row instead of two, and
    /// costs less to acquire.
    ///
    /// If a Java client uses the table nevertheless, its release can delete the lock of a client of
    /// this library, and the next client can acquire it. The option is read when a manager is
    /// opened.
    pub fn without_java_clients(mut self) -> Self {
        self.without_java_clients = true;
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
        let mut family = FamilyDescriptor::new(FAMILY)
            .with_attribute("COMPRESSION", "GZ")
            .with_attribute("VERSIONS", "1");
        if self.protect_java_clients {
            family = family.with_attribute("NEW_VERSION_BEHAVIOR", "true");
        }
        let mut descriptor = TableDescriptor::from(self.name.clone()).with_family(family);
        if let Ok(bucket) = PartitionRule::prefix_length(1) {
            descriptor = descriptor.with_partition_rule(&bucket);
        }
        if self.without_java_clients {
            descriptor.with_attribute(Self::COMPANION, "false")
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

    /// Returns whether the locks of a table have a companion row, because Java clients may use it
    /// too; see [`without_java_clients`](Self::without_java_clients).
    #[must_use]
    pub fn has_companions(descriptor: &TableDescriptor) -> bool {
        !descriptor
            .attribute(Self::COMPANION)
            .is_some_and(|value| value.eq_ignore_ascii_case("false"))
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

/// Returns the family of the locks.
pub(super) fn lock_family(descriptor: &TableDescriptor) -> Result<&FamilyDescriptor> {
    descriptor.family(FAMILY).ok_or_else(|| {
        Error::new(
            ClientErrorKind::FamilyNotFound,
            "the table has no family D for locks",
        )
        .with_hint("name a lock table")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> LockTableOptions {
        LockTableOptions::new("dlm_locks").unwrap()
    }

    #[test]
    fn regions_begin_where_asked() {
        let keys = |regions| options().regions(regions).split_keys();
        assert_eq!(options().split_keys().unwrap().len(), 7);
        assert_eq!(options().java_layout().split_keys().unwrap().len(), 256);
        assert_eq!(keys(257).unwrap().len(), 256);
        assert_eq!(keys(257).unwrap()[0], [0_u8][..]);
        assert_eq!(keys(1).unwrap().len(), 0);
        assert_eq!(keys(4).unwrap(), [&b"\x40"[..], b"\x80", b"\xc0"]);
        assert_eq!(keys(256).unwrap()[0], [1_u8][..]);
        for regions in 1..=257 {
            let keys = keys(regions).unwrap();
            assert_eq!(keys.len(), regions - 1);
            assert!(keys.is_sorted() && keys.windows(2).all(|pair| pair[0] != pair[1]));
        }
        keys(0).unwrap_err();
        keys(258).unwrap_err();
    }

    #[test]
    fn a_table_says_whether_java_clients_use_it() {
        assert!(LockTableOptions::has_companions(&options().descriptor()));
        assert!(!LockTableOptions::has_companions(
            &options().without_java_clients().descriptor()
        ));
        let family = lock_family(&options().protect_java_clients().descriptor())
            .unwrap()
            .clone();
        assert_eq!(family.attribute("NEW_VERSION_BEHAVIOR"), Some("true"));
        let bare = TableDescriptor::new("t").unwrap();
        assert_eq!(
            lock_family(&bare).unwrap_err().kind(),
            ClientErrorKind::FamilyNotFound
        );
    }
}
