//! The settings of one family, as a check reads and mends them.

use super::finding::Finding;
use crate::{
    model::{FamilyDescriptor, TableDescriptor},
    provision::command,
};

/// A family of a table.
#[derive(Clone, Copy)]
pub(super) struct Family<'a> {
    pub(super) table: &'a TableDescriptor,
    pub(super) family: &'a FamilyDescriptor,
}

impl Family<'_> {
    pub(super) fn number(&self, attribute: &str) -> Option<u64> {
        self.family.attribute(attribute)?.parse().ok()
    }

    pub(super) fn is_on(&self, attribute: &str) -> bool {
        let value = self.family.attribute(attribute);
        value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Its TTL in seconds, unless that is for ever.
    pub(super) fn ttl(&self) -> Option<u64> {
        self.family.time_to_live().map(|life| life.as_secs())
    }

    /// What it says of deleted cells, unless that is not to keep them.
    pub(super) fn keeps_deleted(&self) -> Option<&str> {
        let kept = self.family.attribute("KEEP_DELETED_CELLS")?;
        (!kept.eq_ignore_ascii_case("false")).then_some(kept)
    }

    /// A note, and the command that sets an attribute.
    pub(super) fn note(
        &self,
        finding: &'static str,
        what: String,
        why: &str,
        (attribute, value): (&str, &str),
        remark: &str,
    ) -> Finding {
        let table = &self.table.name;
        let command = command::alter_family(table, self.family, attribute, value);
        Finding::note(finding, what, why)
            .of_table(table)
            .mended_by(command, remark)
    }
}
