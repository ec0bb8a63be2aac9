use hbase_client::{FamilyDescriptor, RegionInfo};
use hbase_txn::{TableDescriptorExt, lock::LockTableOptions};
use rstest::rstest;

use super::*;

fn file(lines: &str) -> TableFile {
    let text =
        format!("table = 'orders'\npartition = {{prefix_length = 3}}\nfamily = [{{name = 'f'}}]\n{lines}\n");
    TableFile::parse("t.toml", &text).unwrap()
}

/// A table with this descriptor, whose regions start at these keys.
fn found(descriptor: TableDescriptor, starts: &[&'static str]) -> Found {
    let regions = starts.iter().map(|start| TableRegion {
        region: RegionInfo {
            table: descriptor.name.clone(),
            start_key: (*start).into(),
            end_key: Bytes::new(),
            region_id: 1,
            name: Bytes::new(),
            split: false,
            offline: false,
        },
        server: None,
        replicas: Vec::new(),
    });
    Found {
        regions: regions.collect(),
        descriptor,
        state: TableState::Enabled,
    }
}

fn changes(plan: &Plan) -> Vec<String> {
    let changes = plan.changes().iter();
    changes
        .map(|change| format!("{} {change}", change.sign()))
        .collect()
}

#[test]
fn a_table_that_is_as_the_file_says_is_left_as_it_is() {
    let file = file("cross_partition = true\nreplay_window = '1h'");
    let plan = Plan::to_file(&file, Some(found(file.descriptor(), &["", "abc"])), true);
    assert_eq!(
        (changes(&plan), plan.refusals(), plan.notes()),
        (vec![], vec![], &[][..])
    );
    assert_eq!(plan.reopens(), 0);
}

/// A new table has no data to lose, whatever the file specifies.
#[test]
fn a_table_that_is_made_loses_nothing() {
    let plan = Plan::to_file(&file("replay_window = '1h'"), None, true);
    assert!(plan.refusals().is_empty() && plan.changes().iter().all(|change| change.loses.is_none()));
    let locks = TableFile::parse(
        "t.toml",
        "table = 'l'\nkind = 'locks'\nwithout_java_clients = true",
    )
    .unwrap();
    assert_eq!(Plan::to_file(&locks, None, true).refusals(), []);
}

#[rstest]
#[case("VERSIONS", "3", "versions = 2", Some("versions beyond that"))]
#[case("VERSIONS", "2", "versions = 3", None)]
#[case("VERSIONS", "many", "versions = 3", Some("versions beyond that"))]
#[case("TTL", "7200", "ttl = '1h'", Some("older cells vanish"))]
#[case("TTL", "FOREVER", "ttl = '90d'", Some("older cells vanish"))]
#[case("TTL", "3600", "ttl = 'forever'", None)]
#[case("MIN_VERSIONS", "1", "min_versions = 0", Some("expired versions"))]
#[case(
    "KEEP_DELETED_CELLS",
    "TRUE",
    "keep_deleted_cells = 'ttl'",
    Some("deleted cells")
)]
#[case("KEEP_DELETED_CELLS", "TTL", "keep_deleted_cells = 'true'", None)]
#[case("COMPRESSION", "GZ", "compression = 'none'", None)]
fn lost_families_are_reported(
    #[case] attribute: &'static str,
    #[case] before: &'static str,
    #[case] setting: &str,
    #[case] loses: Option<&str>,
) {
    let text = format!("table = 'orders'\npartition.prefix_length = 3\nfamily = [{{name = 'f', {setting}}}]");
    let file = TableFile::parse("t.toml", &text).unwrap();
    let family = FamilyDescriptor::new("f").with_attribute(attribute, before);
    let plan = Plan::to_file(
        &file,
        Some(found(file.descriptor().with_family(family), &[""])),
        true,
    );
    assert_eq!(plan.changes().len(), 1, "{:?}", changes(&plan));
    let change = &plan.changes()[0];
    assert_eq!(change.from.as_deref(), Some(before));
    match loses {
        Some(why) => assert!(change.loses.as_deref().unwrap().contains(why), "{change}"),
        None => assert_eq!(change.loses, None),
    }
    assert_eq!(plan.refusals().len(), usize::from(loses.is_some()));
    let losses: Vec<_> = plan.changes().iter().filter_map(Change::loss).collect();
    assert!(
        losses.iter().all(|loss| *loss == format!("orders:f:{attribute}")),
        "{losses:?}"
    );
    let of_another = plan
        .clone()
        .allow_data_loss("orders:g")
        .allow_data_loss(format!("orders2:f:{attribute}"));
    assert_eq!(of_another.refusals().len(), losses.len());
    assert_eq!(
        losses.into_iter().fold(plan, Plan::allow_data_loss).refusals(),
        []
    );
}

#[rstest]
#[case("7200", "replay_window = '1h'", true)]
#[case("3600", "replay_window = '2h'", false)]
#[case("172800", "replay_window = '24h'", true)]
fn a_shorter_replay_window_forgets_transactions(
    #[case] before: &'static str,
    #[case] lines: &str,
    #[case] loses: bool,
) {
    let descriptor = file("").descriptor();
    let descriptor = descriptor.with_attribute(TableDescriptor::REPLAY_WINDOW, before);
    let plan = Plan::to_file(&file(lines), Some(found(descriptor, &[""])), true);
    assert_eq!(plan.changes().len(), 1);
    assert_eq!(plan.changes()[0].loses.is_some(), loses);
}

#[rstest]
#[case("SYNC_WAL", "ASYNC_WAL", true)]
#[case("USE_DEFAULT", "skip_wal", true)]
#[case("ASYNC_WAL", "SKIP_WAL", true)]
#[case("SKIP_WAL", "ASYNC_WAL", false)]
#[case("ASYNC_WAL", "SYNC_WAL", false)]
#[case("SYNC_WAL", "FSYNC_WAL", false)]
fn a_weaker_durability_loses_what_a_crash_takes(
    #[case] before: &'static str,
    #[case] after: &'static str,
    #[case] loses: bool,
) {
    let of = |durability| file("").descriptor().with_attribute("DURABILITY", durability);
    let plan = Plan::to_descriptor(&of(after), found(of(before), &[""]));
    assert_eq!(plan.changes().len(), 1);
    assert_eq!(plan.changes()[0].loses.is_some(), loses);
}

#[test]
fn configuration_of_a_family_is_stated_and_kept() {
    let text = "table = 'orders'\npartition.prefix_length = 3\n\
                family = [{name = 'f', configuration = {a = 1, b = 2}}]";
    let file = TableFile::parse("t.toml", text).unwrap();
    let of = |settings: &[(&str, &str)]| {
        let family = settings
            .iter()
            .fold(FamilyDescriptor::new("f"), |family, (key, value)| {
                family.with_configuration(*key, *value)
            });
        file.descriptor().with_family(family)
    };
    let now = found(of(&[("a", "1"), ("b", "3"), ("c", "4")]), &[""]);
    let plan = Plan::to_file(&file, Some(now.clone()), true);
    assert_eq!(changes(&plan), ["~ family f: b 3 → 2"]);
    assert_eq!(plan.notes()[0].what, "not in the file, left alone: family f: c 4");
    assert_eq!(plan.wanted, of(&[("a", "1"), ("b", "2"), ("c", "4")]));
    // A descriptor is complete.
    let plan = Plan::to_descriptor(&of(&[("a", "1")]), now.clone());
    assert_eq!(changes(&plan), ["- family f: b 3", "- family f: c 4"]);
    let without = TableDescriptor::from(file.name().clone());
    let plan = Plan::to_descriptor(&file.descriptor(), found(without, &[""]));
    assert!(
        changes(&plan).contains(&"+ family f: a 1, b 2".to_owned()),
        "{:?}",
        changes(&plan)
    );
}

#[test]
fn a_strict_plan_refuses_what_is_not_in_the_file() {
    let file = file("");
    let family = FamilyDescriptor::new("f")
        .with_attribute("IN_MEMORY", "true")
        .with_attribute("VERSIONS", "1")
        .with_attribute("own", "1")
        .with_configuration("a", "1");
    let table = file
        .descriptor()
        .with_family(family)
        .with_attribute("owner", "me");
    let plan = Plan::to_file(&file, Some(found(table, &[""])), true);
    assert_eq!((plan.refusals(), plan.notes().len()), (vec![], 1));
    let plan = plan.strict();
    let refusals = plan.refusals();
    let refused: Vec<_> = refusals
        .iter()
        .map(|refusal| (refusal.what.as_str(), refusal.fix.as_str()))
        .collect();
    assert_eq!(
        refused,
        [
            (
                "not in the file: owner me",
                "add it there, or remove it: hbase-txn table alter orders --attribute 'owner='"
            ),
            (
                "not in the file: family f: IN_MEMORY true",
                "add it there, or remove it: hbase-txn table alter orders --family-attribute 'f:IN_MEMORY=false'"
            ),
            ("not in the file: family f: own 1", "add it there"),
            (
                "not in the file: family f: a 1",
                "add it there, or remove it: hbase-txn table alter orders --family-configuration 'f:a='"
            ),
        ]
    );
    assert!(refusals.iter().all(|refusal| refusal.refused == "not-in-file"));
    assert_eq!((plan.changes(), plan.notes()), (&[][..], &[][..]));
    let fine = Plan::to_file(&file, Some(found(file.descriptor(), &[""])), true).strict();
    assert_eq!(fine.refusals(), []);
}

#[test]
fn lifetimes_are_shown_with_their_units() {
    let text = "table = 'orders'\npartition.prefix_length = 3\nfamily = [{name = 'f', ttl = '90d'}]";
    let file = TableFile::parse("t.toml", text).unwrap();
    let family = FamilyDescriptor::new("f").with_attribute("TTL", "2147483647");
    let plan = Plan::to_file(
        &file,
        Some(found(file.descriptor().with_family(family), &[""])),
        true,
    );
    assert_eq!(
        changes(&plan),
        ["~ family f: TTL forever → 90d (loses data: older cells vanish)"]
    );
    // Programs get the numbers.
    assert_eq!(plan.changes()[0].to.as_deref(), Some("7776000"));
}

#[test]
fn companions_change_under_running_clients_only_with_a_refusal() {
    let options = LockTableOptions::new("l").unwrap().without_java_clients();
    let file = TableFile::parse("t.toml", "table = 'l'\nkind = 'locks'\nregions = 1").unwrap();
    let plan = Plan::to_file(&file, Some(found(options.descriptor(), &[""])), true);
    assert_eq!(changes(&plan).len(), 1);
    assert!(plan.refusals()[0].what.contains("a lock may be held twice"));
}

#[test]
fn files_and_rule_changes_refuse_boundaries_in_partitions() {
    let file = file("");
    let cut = found(file.descriptor(), &["", "abcd"]);
    let plan = Plan::to_file(&file, Some(cut.clone()), true);
    assert_eq!(plan.refusals()[0].refused, "boundary-inside-partition");

    let other = cut.descriptor.clone().with_attribute("PRIORITY", "3");
    let plan = Plan::to_descriptor(&other, cut.clone());
    assert_eq!(
        (plan.refusals(), changes(&plan)),
        (vec![], vec!["+ PRIORITY 3".to_owned()])
    );
    let rule = PartitionRule::prefix_length(2).unwrap();
    let plan = Plan::to_descriptor(&cut.descriptor.clone().with_partition_rule(&rule), cut);
    let refused: Vec<_> = plan.refusals().iter().map(|refusal| refusal.refused).collect();
    assert_eq!(refused, ["boundary-inside-partition", "data-loss"]);
}

#[test]
fn a_descriptor_is_meant_as_a_whole() {
    let file = file("");
    let now = found(file.descriptor().with_attribute("owner", "me"), &[""]);
    let plan = Plan::to_descriptor(&file.descriptor(), now);
    assert_eq!(changes(&plan), ["- owner me"]);
    assert_eq!(plan.unmet(&file.descriptor()), []);
    let unmet = plan.unmet(&file.descriptor().with_attribute("owner", "me"));
    assert_eq!(unmet.len(), 1);
    // An attribute that the server added is not a missing change.
    assert_eq!(plan.unmet(&file.descriptor().with_attribute("added", "1")), []);
}

#[test]
fn endpoint_is_attached_only_if_no_server_loads_it() {
    let file = file("endpoint = false");
    let plan = Plan::to_file(&file, Some(found(file.descriptor(), &[""])), true);
    assert!(plan.changes().is_empty() && plan.needs_endpoint());
    let attached = file.descriptor().with_multi_row_mutation_endpoint();
    let plan = Plan::to_file(&file, Some(found(attached, &[""])), true);
    assert_eq!(plan.changes(), []);
    assert!(plan.notes()[0].what.contains("MultiRowMutationEndpoint"));
}
