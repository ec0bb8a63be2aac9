//! The keys for a table as a whole. A key for tables of another kind is refused.

use std::ops::Range;

use bytes::Bytes;
use hbase_client::{FamilyDescriptor, TableDescriptor, TableName};
use hbase_txn::{DEFAULT_REGIONS, JAVA_REGIONS, PartitionRule};
use hbase_txn::{Result, TableDescriptorExt, latch::LatchTableOptions, lock::LockTableOptions};

use super::{
    TableFile, TableKind, attributes, family,
    faults::Faults,
    section::{Placed, Section},
    split,
};

/// The kinds of table files; below, the keys that only some kinds have.
const KINDS: [(&str, TableKind); 3] = [
    ("transactions", TableKind::Transactions),
    ("locks", TableKind::Locks),
    ("latches", TableKind::Latches),
];
const ONLY_FOR: [(&str, &[TableKind]); 15] = [
    ("partition", &[TableKind::Transactions]),
    ("endpoint", &[TableKind::Transactions]),
    ("record_family", &[TableKind::Transactions]),
    ("replay_window", &[TableKind::Transactions]),
    ("partition_version", &[TableKind::Transactions]),
    ("cross_partition", &[TableKind::Transactions]),
    ("lock_family", &[TableKind::Transactions]),
    ("split_enabled", &[TableKind::Transactions]),
    ("merge_enabled", &[TableKind::Transactions]),
    ("split", &[TableKind::Transactions]),
    ("family", &[TableKind::Transactions]),
    ("regions", &[TableKind::Locks, TableKind::Latches]),
    ("without_java_clients", &[TableKind::Locks]),
    ("protect_java_clients", &[TableKind::Locks]),
    ("state_family", &[TableKind::Latches]),
];

/// The values of all keys.
struct Keys {
    name: Option<TableName>,
    /// The position of the name.
    place: String,
    kind: TableKind,
    create_namespace: bool,
    partition: Option<Option<PartitionRule>>,
    endpoint: bool,
    record_family: bool,
    replay_window: Option<Placed<u64>>,
    partition_version: bool,
    cross_partition: bool,
    lock_family: bool,
    split_enabled: bool,
    merge_enabled: bool,
    split_keys: Vec<Bytes>,
    families: Vec<Placed<FamilyDescriptor>>,
    has_families: bool,
    regions: usize,
    without_java_clients: bool,
    protect_java_clients: bool,
    state_family: bool,
    attributes: Vec<(String, String)>,
}

/// Reads a file. Returns `None` if its mistakes leave no table to describe.
pub(super) fn read(section: Section<'_>, faults: &mut Faults<'_>) -> Option<TableFile> {
    let keys = Keys::read(section, faults);
    match keys.kind {
        TableKind::Transactions => keys.for_transactions(faults),
        TableKind::Locks => keys.for_locks(),
        TableKind::Latches => keys.for_latches(),
    }
}

impl Keys {
    fn read(mut section: Section<'_>, faults: &mut Faults<'_>) -> Self {
        let flag = |section: &mut Section<'_>, key, default, faults: &mut Faults<'_>| {
            section.flag(key, faults).map_or(default, |flag| flag.value)
        };
        let name = name(&mut section, faults);
        let place = name.as_ref().map_or(0..0, |name| name.place.clone());
        let kind = kind(&mut section, faults);
        refuse_keys_of_others(&section, kind, faults);
        let create_namespace = flag(&mut section, "create_namespace", false, faults);
        let partition = section
            .section("partition", faults)
            .map(|partition| rule(partition, faults));
        let rule = partition.clone().flatten();
        let endpoint = flag(&mut section, "endpoint", true, faults);
        let record_family = flag(&mut section, "record_family", true, faults);
        let replay_window = section.seconds("replay_window", faults);
        let partition_version = flag(&mut section, "partition_version", false, faults);
        let cross_partition = flag(&mut section, "cross_partition", false, faults);
        let lock_family = flag(&mut section, "lock_family", false, faults);
        let split_enabled = flag(&mut section, "split_enabled", true, faults);
        let merge_enabled = flag(&mut section, "merge_enabled", true, faults);
        let split = section.section("split", faults);
        let split_keys = split.map(|split| split::read(split, rule.as_ref(), faults));
        let families = section.sections("family", faults);
        let has_families = !families.is_empty();
        let families: Vec<_> = families
            .into_iter()
            .filter_map(|section| family::read(section, faults))
            .collect();
        family::refuse_twins(&families, faults);
        let regions = section.number("regions", 1, JAVA_REGIONS as u64, faults);
        let without_java_clients = flag(&mut section, "without_java_clients", false, faults);
        let protect_java_clients = flag(&mut section, "protect_java_clients", false, faults);
        let state_family = flag(&mut section, "state_family", true, faults);
        let attributes = section.section("attributes", faults);
        let attributes = attributes.map(|section| attributes::of_table(section, faults));
        section.finish(faults);
        Self {
            name: name.map(|name| name.value),
            place: faults.position(&place),
            kind,
            create_namespace,
            partition,
            endpoint,
            record_family,
            replay_window,
            partition_version,
            cross_partition,
            lock_family,
            split_enabled,
            merge_enabled,
            split_keys: split_keys.unwrap_or_default(),
            families,
            has_families,
            regions: regions.map_or(DEFAULT_REGIONS, |regions| regions.value as usize),
            without_java_clients,
            protect_java_clients,
            state_family,
            attributes: attributes.unwrap_or_default(),
        }
    }

    fn for_transactions(self, faults: &mut Faults<'_>) -> Option<TableFile> {
        if self.partition.is_none() {
            let reason =
                "no [partition]: a table for transactions needs prefix_length = N or delimiter = 'D' there";
            faults.add(0..0, reason);
        }
        if !self.has_families {
            faults.add(0..0, "no [[family]]: a table needs at least one");
        }
        let rule = self.partition.clone().flatten()?;
        let mut table = TableDescriptor::from(self.name.clone()?).with_partition_rule(&rule);
        for family in self.families.clone() {
            table = table.with_family(family.value);
        }
        if self.record_family {
            table = table.with_record_family();
        }
        if let Some(window) = &self.replay_window {
            table = table.with_attribute(TableDescriptor::REPLAY_WINDOW, window.value.to_string());
            match table.replay_window() {
                Ok(Some(_)) => {}
                Ok(None) => faults.add(
                    window.place.clone(),
                    "replay_window needs the records of transactions; set record_family = true",
                ),
                Err(_) => faults.add(
                    window.place.clone(),
                    "replay_window is shorter than 5m; a lost transaction could then be applied twice",
                ),
            }
        }
        if self.partition_version {
            table = table.with_partition_version();
        }
        // It brings the families for records and versions.
        if self.cross_partition {
            table = table.with_cross_partition();
        }
        if self.lock_family {
            table = table.with_lock_family();
        }
        for (attribute, enabled) in [
            ("SPLIT_ENABLED", self.split_enabled),
            ("MERGE_ENABLED", self.merge_enabled),
        ] {
            table = table.with_attribute(attribute, enabled.to_string());
        }
        let (endpoint, split_keys) = (self.endpoint, self.split_keys.clone());
        Some(TableFile {
            endpoint,
            ..self.file(table, Some(rule), Ok(split_keys))?
        })
    }

    fn for_locks(self) -> Option<TableFile> {
        let mut options = LockTableOptions::from(self.name.clone()?).regions(self.regions);
        if self.without_java_clients {
            options = options.without_java_clients();
        }
        if self.protect_java_clients {
            options = options.protect_java_clients();
        }
        let table = options.descriptor();
        let rule = PartitionRule::from_descriptor(&table).ok();
        self.file(table, rule, options.split_keys())
    }

    fn for_latches(self) -> Option<TableFile> {
        let mut options = LatchTableOptions::from(self.name.clone()?).regions(self.regions);
        if !self.state_family {
            options = options.no_state_family();
        }
        let table = options.descriptor();
        let rule = PartitionRule::from_descriptor(&table).ok();
        self.file(table, rule, options.split_keys())
    }

    fn file(
        self,
        table: TableDescriptor,
        rule: Option<PartitionRule>,
        split_keys: Result<Vec<Bytes>>,
    ) -> Option<TableFile> {
        let stated = self
            .attributes
            .into_iter()
            .fold(table, |table, (name, value)| table.with_attribute(name, value));
        Some(TableFile {
            kind: self.kind,
            stated,
            rule,
            endpoint: false,
            split_keys: split_keys.ok()?,
            create_namespace: self.create_namespace,
            place: self.place,
        })
    }
}

fn name(section: &mut Section<'_>, faults: &mut Faults<'_>) -> Option<Placed<TableName>> {
    let Some(name) = section.text("table", faults) else {
        if section.place_of("table").is_none() {
            faults.add(0..0, "no key table, which is the table's name");
        }
        return None;
    };
    match name.value.parse::<TableName>() {
        Ok(table) if table.is_system() => {
            faults.add(name.place, format!("{table} is one of HBase's own tables"));
            None
        }
        Ok(value) => Some(Placed {
            value,
            place: name.place,
        }),
        Err(error) => {
            faults.add(name.place, error.to_string());
            None
        }
    }
}

fn kind(section: &mut Section<'_>, faults: &mut Faults<'_>) -> TableKind {
    let word = section.word("kind", &KINDS.map(|(word, _)| word), faults);
    let kind = word.and_then(|word| KINDS.iter().find(|(known, _)| *known == word.value));
    kind.map_or(TableKind::Transactions, |(_, kind)| *kind)
}

fn refuse_keys_of_others(section: &Section<'_>, kind: TableKind, faults: &mut Faults<'_>) {
    for (key, kinds) in ONLY_FOR {
        let place: Option<Range<usize>> = section.place_of(key).filter(|_| !kinds.contains(&kind));
        if let Some(place) = place {
            let of: Vec<_> = KINDS
                .iter()
                .filter(|(_, kind)| kinds.contains(kind))
                .map(|(word, _)| *word)
                .collect();
            faults.add(
                place,
                format!("{key} is for tables of kind {} only", of.join(" and ")),
            );
        }
    }
}

/// Reads the partition rule. Returns `None` if it is invalid.
fn rule(mut section: Section<'_>, faults: &mut Faults<'_>) -> Option<PartitionRule> {
    let length = section.number("prefix_length", 1, i16::MAX as u64, faults);
    let delimiter = section.bytes("delimiter", faults);
    let place = section.place();
    let given = ["prefix_length", "delimiter"].map(|key| section.place_of(key).is_some());
    section.finish(faults);
    match given {
        [true, true] => {
            faults.add(
                place,
                "[partition] has both prefix_length and delimiter; only one of them is allowed",
            );
            None
        }
        [false, false] => {
            faults.add(place, "[partition] has neither prefix_length nor delimiter");
            None
        }
        _ => match (length, delimiter) {
            (Some(length), _) => PartitionRule::prefix_length(length.value as usize).ok(),
            (None, Some(delimiter)) => PartitionRule::delimiter(delimiter.value)
                .inspect_err(|error| faults.add(delimiter.place, error.to_string()))
                .ok(),
            (None, None) => None,
        },
    }
}
