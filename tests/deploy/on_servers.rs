//! The effects of settings, lines for the shell, and commands on a cluster with the settings.

use std::{fs, time::Duration};

use bytes::Bytes;
use hbase_provision::{Severity, TableAlteration, TableFile, audit_table};
use hbase_txn::{
    ErrorKind, PartitionRule, PartitionedTable, TableDescriptorExt,
    admin::Admin,
    client::{Connection, FamilyDescriptor, Put, TableDescriptor, TableName},
};
use serde_json::{Map, Value};

use crate::{
    cluster::{Cluster, shared},
    console,
    guides::{GUIDES, Language, blocks, blocks_of},
    settings,
    shell_lines::{self, stand_in},
};

/// A name that no guide has.
fn name(what: &str) -> TableName {
    format!("deploy_{what}_{}", std::process::id()).parse().unwrap()
}

fn plain(name: TableName) -> TableDescriptor {
    TableDescriptor::from(name).with_family(FamilyDescriptor::new("f"))
}

#[tokio::test]
async fn a_table_has_the_endpoint_without_an_attribute() {
    let cluster = shared();
    let connection = cluster.connect().await;
    let name = name("site_wide");
    let rule = PartitionRule::prefix_length(3).unwrap();
    let descriptor = plain(name.clone()).with_partition_rule(&rule);
    assert!(!descriptor.names_multi_row_mutation_endpoint());
    let admin = Admin::new(&connection);
    admin
        .create_table(&descriptor, &[Bytes::from("m")])
        .await
        .unwrap();

    assert_eq!(broken(&connection, &name).await, Vec::<&str>::new());
    let table = PartitionedTable::open(&connection, name.clone()).await.unwrap();
    let mut transaction = table.transaction("xxx");
    for row in ["xxx1", "xxx2"] {
        transaction = transaction.put(Put::new(row).cell("f", "q", "v"));
    }
    assert!(transaction.commit().await.is_committed());
    assert_eq!(table.snapshot("xxx").await.unwrap().len(), 2);
    drop_table(&connection, &name).await;
}

/// The rule for all tables, which is in the file in a comment, applies to tables that state none,
/// and clients do not see it.
#[tokio::test]
async fn site_rule_keeps_splits_off_prefixes_unseen_by_clients() {
    let cluster = shared();
    let connection = cluster.connect().await;
    let name = name("site_rule");
    splits_at(&connection, name.clone(), "xxxm", "xxx").await;
    let error = PartitionedTable::open(&connection, name.clone())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoPartitionRule, "{error}");
    drop_table(&connection, &name).await;
}

#[tokio::test]
async fn table_altered_by_shell_lines_is_fit_for_transactions() {
    let cluster = shared();
    let connection = cluster.connect().await;
    let admin = Admin::new(&connection);
    let blocks = blocks_of("coprocessor/table-attributes.md");
    let alters = blocks
        .iter()
        .filter(|block| block.text.starts_with("alter 'existing', METADATA"));
    for block in alters {
        assert_eq!(shell_lines::perform(&admin, block, "altered").await, ["existing"]);
    }
    let name = stand_in("existing", "altered");
    let by_library = TableAlteration::new()
        .rule(PartitionRule::prefix_length(3).unwrap())
        .endpoint()
        .of(&TableDescriptor::from(name.clone()))
        .unwrap();
    let stored = admin.descriptor(&name).await.unwrap();
    assert!(states(&stored, &by_library), "{stored:?}");
    assert_eq!(broken(&connection, &name).await, Vec::<&str>::new());
    PartitionedTable::open(&connection, name.clone()).await.unwrap();
    drop_table(&connection, &name).await;
}

/// Runs all blocks of all guides in order. Lines for HBase's shell must create the same tables as
/// the commands next to them.
#[tokio::test]
async fn every_command_of_the_guides_runs() {
    let cluster = shared();
    let connection = cluster.connect().await;
    let admin = Admin::new(&connection);
    let before = admin.tables().await.unwrap();
    for guide in GUIDES {
        let folder = tempfile::tempdir().unwrap();
        // Boundaries of the table that the guide expects. The guide on migrating fixes one that
        // cuts a partition.
        let cuts: &[Bytes] = match guide {
            "docs/migrating.md" => &[Bytes::from_static(b"ggg"), Bytes::from_static(b"xxxm")],
            _ => &[],
        };
        let existing = plain("existing".parse().unwrap());
        admin.create_table(&existing, cuts).await.unwrap();
        if !["coprocessor/README.md", "docs/provisioning.md"].contains(&guide) {
            let made = cluster.run("hbase-txn table create orders --family f --prefix-length 3");
            assert!(made.status.success(), "{made:?}");
        }
        let mut printed = String::new();
        for block in blocks_of(guide) {
            match block.language {
                Language::Shell | Language::Console => {
                    let script = match block.language {
                        Language::Console => console::script(&block),
                        _ => block.text.clone(),
                    };
                    let output = cluster.run_in(folder.path(), &script);
                    assert!(output.status.success(), "{block}: {output:?}");
                    printed = String::from_utf8(output.stdout).unwrap();
                }
                Language::HBaseShell => {
                    for table in shell_lines::perform(&admin, &block, "by_shell").await {
                        let by_command = admin.descriptor(&table).await.unwrap();
                        let by_shell = admin.descriptor(&stand_in(&table, "by_shell")).await.unwrap();
                        assert_eq!(by_shell.attributes, by_command.attributes, "{block}: {table}");
                        assert_eq!(by_shell.families, by_command.families, "{block}: {table}");
                    }
                }
                Language::TableFile => {
                    let file = TableFile::parse(&block.to_string(), &block.text).unwrap();
                    let path = folder.path().join(format!("{}.toml", file.name()));
                    fs::write(path, &block.text).unwrap();
                }
                Language::Output => assert!(
                    printed.ends_with(&block.text),
                    "{block}: what is printed is {printed}"
                ),
                // Tested by `settings`, the next test, and the library's documentation tests.
                Language::Yaml | Language::Json | Language::Rust => {}
            }
        }
        // Tables of concurrent tests are not dropped here.
        let made = admin.tables().await.unwrap().into_iter();
        for table in made.filter(|table| !before.contains(table) && !table.to_string().starts_with("deploy_"))
        {
            drop_table(&connection, &table).await;
        }
    }
}

/// The lines of a plan in the guide are those of a real plan.
#[tokio::test]
async fn the_lines_of_a_plan_are_as_the_guide_shows_them() {
    let cluster = shared();
    let connection = cluster.connect().await;
    let name = name("plan");
    let family = |name: &'static str| FamilyDescriptor::new(name).with_attribute("VERSIONS", "1");
    let found = TableDescriptor::from(name.clone())
        .with_family(family("f"))
        .with_family(family("g"))
        .with_attribute("MAX_FILESIZE", "10737418240");
    Admin::new(&connection)
        .create_table(&found, &[Bytes::from("abcd")])
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file =
        format!("table = '{name}'\npartition.prefix_length = 3\nfamily = [{{name = 'f', versions = 3}}]\n");
    fs::write(folder.path().join("orders.toml"), file).unwrap();
    let output = cluster.run_in(
        folder.path(),
        "hbase-txn --output json provision plan orders.toml",
    );
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let objects = |text: &str| -> Vec<Map<String, Value>> {
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let printed = objects(&String::from_utf8(output.stdout).unwrap());
    let shown = blocks(Language::Json);
    let shown = objects(&shown[0].text.replace("\"orders\"", &format!("\"{name}\"")));
    assert!(shown.len() >= 4);
    for shown in shown {
        // Dots stand for omitted text.
        let alike = |printed: &&Map<String, Value>| {
            printed.len() == shown.len()
                && shown.iter().all(|(key, value)| {
                    value == "…" && printed.contains_key(key) || printed.get(key) == Some(value)
                })
        };
        assert!(
            printed.iter().any(|printed| alike(&printed)),
            "{shown:?} is not in {printed:#?}"
        );
    }
    drop_table(&connection, &name).await;
}

/// The other rule in a comment of the file.
#[tokio::test]
async fn the_rule_by_a_delimiter_keeps_a_split_off_a_prefix_too() {
    let rule = settings::rules_in_comment().remove(1);
    let rule: Vec<String> = rule.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let rule: Vec<&str> = rule.iter().map(String::as_str).collect();
    let cluster = Cluster::boot("delimiter", &rule);
    let connection = cluster.connect().await;
    splits_at(&connection, name("site_delimiter"), "c42/7", "c42").await;
}

/// Coprocessors by attribute that are off for all servers protect nothing, and stop splits.
#[tokio::test]
async fn a_table_switches_attributes_on_again_and_no_split_completes_without() {
    let cluster = Cluster::boot("attributes", &["hbase.coprocessor.user.enabled=false"]);
    let connection = cluster.connect().await;
    let admin = Admin::new(&connection);
    let name = name("switched_on");
    let descriptor = plain(name.clone())
        .with_partition_rule(&PartitionRule::prefix_length(3).unwrap())
        .with_multi_row_mutation_endpoint();
    admin.create_table(&descriptor, &[]).await.unwrap();
    assert!(broken(&connection, &name).await.contains(&"endpoint-missing"));
    let stored = admin.descriptor(&name).await.unwrap();
    let altered = stored.with_attribute("hbase.coprocessor.user.enabled", "true");
    admin.modify_table(&altered).await.unwrap();
    assert!(!broken(&connection, &name).await.contains(&"endpoint-missing"));

    let whole = admin.regions(&name).await.unwrap().remove(0).region;
    let split = admin.split_region(&whole, Some(Bytes::from("m")));
    let ended = tokio::time::timeout(Duration::from_secs(10), split).await;
    assert!(ended.is_err(), "{ended:?}");
    assert_eq!(admin.regions(&name).await.unwrap().len(), 1);
}

/// Asserts that a split of a new table without a rule, at one key, results in a boundary at
/// another.
async fn splits_at(connection: &Connection, name: TableName, at: &'static str, out: &'static str) {
    let admin = Admin::new(connection);
    admin.create_table(&plain(name.clone()), &[]).await.unwrap();
    let whole = admin.regions(&name).await.unwrap().remove(0).region;
    admin.split_region(&whole, Some(Bytes::from(at))).await.unwrap();
    let regions = admin.regions(&name).await.unwrap();
    let boundaries: Vec<_> = regions
        .iter()
        .map(|found| found.region.start_key.clone())
        .collect();
    assert_eq!(boundaries, ["", out]);
}

/// Returns whether a table has all attributes of another. The master adds its own attributes.
fn states(stored: &TableDescriptor, wanted: &TableDescriptor) -> bool {
    let wanted = wanted.attributes.iter();
    wanted
        .into_iter()
        .all(|(key, value)| stored.attributes.get(key) == Some(value))
}

async fn broken(connection: &Connection, name: &TableName) -> Vec<&'static str> {
    let findings = audit_table(connection, name).await.unwrap();
    let broken = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Broken);
    broken.map(|finding| finding.finding).collect()
}

async fn drop_table(connection: &Connection, name: &TableName) {
    let admin = Admin::new(connection);
    admin.disable_table(name).await.unwrap();
    admin.delete_table(name).await.unwrap();
}
