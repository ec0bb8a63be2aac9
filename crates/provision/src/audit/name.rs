//! The names of findings. They are the same in all versions, and docs/auditing.md lists them.

macro_rules! names {
    ($($(#[$attribute:meta])* $name:ident $text:literal)*) => {
        /// The name of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(in crate) enum Name {
            $($(#[$attribute])* $name,)*
        }

        impl Name {
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$name,)*];

            pub(in crate) const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

names! {
    AuditIncomplete "audit-incomplete"
    BoundaryInsideLock "boundary-inside-lock"
    BoundaryInsidePartition "boundary-inside-partition"
    ClockDistant "clock-distant"
    ClocksApart "clocks-apart"
    ConditionsIgnored "conditions-ignored"
    DeletedCellsKept "deleted-cells-kept"
    EndpointMissing "endpoint-missing"
    EndpointRefused "endpoint-refused"
    FamilyTtl "family-ttl"
    FeatureUnknown "feature-unknown"
    FirstPartitionGiant "first-partition-giant"
    JavaUnprotected "java-unprotected"
    #[cfg_attr(not(feature = "kerberos"), allow(dead_code, reason = "there is no clock to compare with"))]
    KdcClockDistant "kdc-clock-distant"
    MergesDisabled "merges-disabled"
    MergesSwitchedOff "merges-switched-off"
    MinVersions "min-versions"
    NewVersionBehavior "new-version-behavior"
    OlderVersionsKept "older-versions-kept"
    PartitionGiant "partition-giant"
    ReadOnly "read-only"
    RecordFamilyMissing "record-family-missing"
    RecordsUnusable "records-unusable"
    RegionHot "region-hot"
    RegionUnavailable "region-unavailable"
    RegionsInTransition "regions-in-transition"
    Replicated "replicated"
    RightsMissing "rights-missing"
    RuleInvalid "rule-invalid"
    RuleMissing "rule-missing"
    ServersDead "servers-dead"
    SplitRestrictionMissing "split-restriction-missing"
    SplitsDisabled "splits-disabled"
    SplitsSwitchedOff "splits-switched-off"
    StateFamilyMissing "state-family-missing"
    TableDisabled "table-disabled"
    VersionFamilyMissing "version-family-missing"
    VersionTooOld "version-too-old"
    WeakDurability "weak-durability"
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::Name;

    /// docs/auditing.md has all names.
    #[test]
    fn findings_are_called_as_the_page_on_auditing_has_them() {
        let page = Path::new(env!("REPOSITORY")).join("docs/auditing.md");
        let page = fs::read_to_string(page).unwrap();
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        let cells = rows.filter_map(|row| row.split('|').nth(1));
        let names_in_table: BTreeSet<_> = cells
            .flat_map(|cell| cell.split('`').skip(1).step_by(2))
            .collect();
        let names: BTreeSet<_> = Name::ALL.iter().map(|name| name.text()).collect();
        assert_eq!(names_in_table, names);
    }
}
