//! The settings of one family, for checks and fixes.

use hbase_client::{FamilyDescriptor, TableDescriptor};

use super::{finding::Finding, name::Name};
use crate::command;

/// A family of a table.
#[derive(Clone, Copy)]
pub(super) struct Family<'a> {
    pub(super) table: &'a TableDescriptor,
    pub(super) family: &'a FamilyDescriptor,
}

impl Family<'_> {
    fn number(&self, attribute: &str) -> Option<u64> {
        self.family.attribute(attribute)?.parse().ok()
    }

    pub(super) fn is_on(&self, attribute: &str) -> bool {
        let value = self.family.attribute(attribute);
        value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Its TTL in seconds; `None` if unlimited.
    pub(super) fn ttl(&self) -> Option<u64> {
        self.family.time_to_live().map(|life| life.as_secs())
    }

    pub(super) fn older_versions_kept(&self, why: &str) -> Option<Finding> {
        let versions = self.number("VERSIONS").filter(|versions| *versions > 1)?;
        Some(self.note(
            Name::OlderVersionsKept,
            format!("family {} keeps {versions} versions", self.family),
            why,
            ("VERSIONS", "1"),
            "",
        ))
    }

    pub(super) fn min_versions(&self, why: &str) -> Option<Finding> {
        let versions = self.number("MIN_VERSIONS").filter(|versions| *versions > 0)?;
        Some(self.note(
            Name::MinVersions,
            format!(
                "family {} keeps at least {versions} versions past its TTL",
                self.family
            ),
            why,
            ("MIN_VERSIONS", "0"),
            "",
        ))
    }

    pub(super) fn deleted_cells_kept(&self, why: &str) -> Option<Finding> {
        let kept = self.family.attribute("KEEP_DELETED_CELLS")?;
        if kept.eq_ignore_ascii_case("false") {
            return None;
        }
        Some(self.note(
            Name::DeletedCellsKept,
            format!(
                "family {} keeps deleted cells (KEEP_DELETED_CELLS {kept})",
                self.family
            ),
            why,
            ("KEEP_DELETED_CELLS", "FALSE"),
            "",
        ))
    }

    pub(super) fn new_version_behavior(&self, why: &str) -> Option<Finding> {
        if !self.is_on("NEW_VERSION_BEHAVIOR") {
            return None;
        }
        Some(self.note(
            Name::NewVersionBehavior,
            format!("family {} has NEW_VERSION_BEHAVIOR", self.family),
            why,
            ("NEW_VERSION_BEHAVIOR", "false"),
            "",
        ))
    }

    pub(super) fn replicated(&self, why: &str, remark: &str) -> Option<Finding> {
        let scope = self.number("REPLICATION_SCOPE").filter(|scope| *scope > 0)?;
        Some(self.note(
            Name::Replicated,
            format!("family {} is replicated (REPLICATION_SCOPE {scope})", self.family),
            why,
            ("REPLICATION_SCOPE", "0"),
            remark,
        ))
    }

    /// Returns a note, fixed by the command that sets an attribute.
    pub(super) fn note(
        &self,
        name: Name,
        what: String,
        why: &str,
        (attribute, value): (&str, &str),
        remark: &str,
    ) -> Finding {
        let table = &self.table.name;
        let command = command::alter_family(table, self.family, attribute, value);
        Finding::note(name, what, why)
            .of_table(table)
            .fixed_by(command, remark)
    }
}
