//! Tables that locks live in.

use bytes::Bytes;

use super::layout::FAMILY;
use crate::{
    client::Admin,
    error::{Error, ErrorKind, Result},
    model::{FamilyDescriptor, JAVA_REGIONS, PartitionRule, TableDescriptor, TableName, bucket_split_keys},
};

/// A lock table that is to be made.
///
/// Unless said otherwise it is the table that the Java library makes, with what is added: split policy and split restriction
/// of one byte, so that a region boundary never comes between the rows of one lock.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until create is called"]
pub struct LockTableOptions {
    name: TableName,
    regions: usize,
    protect_java: bool,
    ours_alone: bool,
}

impl LockTableOptions {
    /// The family that locks are kept in.
    pub const FAMILY: &'static str = "D";
    /// The table attribute that says, as `false`, that locks have no companion row.
    pub(crate) const COMPANION: &'static str = "hbase-txn.lock-companion";

    /// The table that the Java library makes.
    pub fn new(name: TableName) -> Self {
        Self {
            name,
            regions: JAVA_REGIONS,
            protect_java: false,
            ours_alone: false,
        }
    }

    /// Makes fewer regions than 257: from 1 on. Nothing depends on where they begin; each costs every server memory, and
    /// making the 257 takes seconds.
    pub fn regions(mut self, regions: usize) -> Self {
        self.regions = regions;
        self
    }

    /// Protects Java clients from each other: without it, one that acquires a lock in the millisecond in which another
    /// released it is told that it holds the lock, and the next is told so too. So is, with it as without, one whose request
    /// is on its way for longer than a client of this library acquires and releases the lock.
    ///
    /// It is HBase's `NEW_VERSION_BEHAVIOR` on the family. Locks that are acquired often become slower and slower by it, until
    /// the next major compaction. Clients of this library do not need it.
    pub fn protect_java(mut self) -> Self {
        self.protect_java = true;
        self
    }

    /// Says that no Java client uses the table. Locks then are one row and not two, and acquiring them costs less.
    ///
    /// If one does all the same, its release can delete the lock of a client of this library, and the next gets in.
    /// The choice is read when a manager is opened.
    pub fn ours_alone(mut self) -> Self {
        self.ours_alone = true;
        self
    }

    /// The table's descriptor.
    #[must_use]
    pub fn descriptor(&self) -> TableDescriptor {
        let mut family = FamilyDescriptor::new(FAMILY)
            .with_attribute("COMPRESSION", "GZ")
            .with_attribute("VERSIONS", "1");
        if self.protect_java {
            family = family.with_attribute("NEW_VERSION_BEHAVIOR", "true");
        }
        let mut descriptor = TableDescriptor::new(self.name.clone()).with_family(family);
        if let Ok(bucket) = PartitionRule::prefix_length(1) {
            descriptor = descriptor.with_partition_rule(&bucket);
        }
        match self.ours_alone {
            true => descriptor.with_attribute(Self::COMPANION, "false"),
            false => descriptor,
        }
    }

    /// The keys at which its regions begin, but for the first.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](ErrorKind::InvalidInput) for no regions, or more than 257.
    pub fn split_keys(&self) -> Result<Vec<Bytes>> {
        bucket_split_keys(self.regions)
    }

    /// Whether locks of a table have a companion row, because Java clients may use it too; see
    /// [`ours_alone`](Self::ours_alone).
    #[must_use]
    pub fn has_companions(descriptor: &TableDescriptor) -> bool {
        !descriptor
            .attribute(Self::COMPANION)
            .is_some_and(|value| value.eq_ignore_ascii_case("false"))
    }

    /// Makes the table. One that is there already, or is being made by somebody else, is left as it is; false then.
    ///
    /// # Errors
    ///
    /// As [`Admin::create_table`], but for [`TableExists`](ErrorKind::TableExists).
    pub async fn create(&self, admin: &Admin) -> Result<bool> {
        let split_keys = self.split_keys().map_err(|error| error.at_table(&self.name))?;
        match admin.create_table(&self.descriptor(), &split_keys).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::TableExists => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The family of the locks.
pub(super) fn lock_family(descriptor: &TableDescriptor) -> Result<&FamilyDescriptor> {
    descriptor.family(FAMILY).ok_or_else(|| {
        Error::new(
            ErrorKind::FamilyNotFound,
            "the table has no family D, in which locks are kept",
        )
        .with_hint("name a table that was made for locks; hbase-txn lock acquire makes one that is missing")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> LockTableOptions {
        LockTableOptions::new("dlm_locks".parse().unwrap())
    }

    #[test]
    fn regions_begin_where_asked() {
        let keys = |regions| options().regions(regions).split_keys();
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
            &options().ours_alone().descriptor()
        ));
        let family = lock_family(&options().protect_java().descriptor())
            .unwrap()
            .clone();
        assert_eq!(family.attribute("NEW_VERSION_BEHAVIOR"), Some("true"));
        let bare = TableDescriptor::new("t".parse().unwrap());
        assert_eq!(lock_family(&bare).unwrap_err().kind(), ErrorKind::FamilyNotFound);
    }
}
