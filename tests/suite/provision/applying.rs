//! The effects of an applied plan on a cluster.

use hbase_provision::{Applied, ApplyWatcher, Plan, TableFile, audit_table};
use hbase_txn::{
    ClientErrorKind, ErrorKind, PartitionRule, PartitionedTable, Result, TableDescriptorExt,
    admin::Admin,
    client::{Connection, Scan, TableDescriptor, TableName},
    latch::LatchTableOptions,
    lock::LockTableOptions,
};
use rstest::rstest;

use super::{Steps, allowing_losses, apply, by_three, file, is_settled, plan, told, unmade};
use crate::support::{
    connect, keys, put, rows, says,
    table::{TestTable, plain, unique_name, with_endpoint},
};

#[tokio::test]
async fn missing_table_is_created_verified_and_usable() {
    let connection = connect().await;
    let table = unmade("provision");
    let file = by_three(
        &table.name,
        "split = {keys = ['ggg', 'ppp']}\nlock_family = true\npartition_version = true",
    );
    let steps = Steps::default();
    let applied = plan(&connection, &file)
        .await
        .apply(&connection, &steps)
        .await
        .unwrap();
    assert_eq!(steps.done(), ["create-table", "read-back", "probe"]);
    assert_eq!(
        (applied.changed, applied.regions, applied.disabled),
        (true, 3, false)
    );
    let findings = audit_table(&connection, &table.name).await.unwrap();
    assert_eq!(findings, []);
    let opened = PartitionedTable::open(&connection, table.name.clone())
        .await
        .unwrap();
    let transaction = opened
        .transaction("xxx")
        .put(put("xxx1", "v"))
        .put(put("xxx2", "v"));
    assert!(transaction.commit().await.is_committed());
    assert_eq!(
        keys(opened.table(), Scan::new().family("f")).await,
        ["xxx1", "xxx2"]
    );
    is_settled(&connection, &file).await;
}

#[tokio::test]
async fn plain_table_gets_fit_for_transactions_and_keeps_its_data() {
    let connection = connect().await;
    let table = TestTable::create("retrofit", plain, &["ggg", "ppp"]).await;
    for row in ["aaa1", "hhh1", "qqq1"] {
        table.of(&connection).put(put(row, "v")).await.unwrap();
    }
    let refused = PartitionedTable::open(&connection, table.name.clone())
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoPartitionRule);
    let file = by_three(&table.name, "attributes = {MAX_FILESIZE = 1073741824}");
    let steps = Steps::default();
    let plan = plan(&connection, &file).await;
    assert_eq!(plan.reopens(), 3);
    let applied = plan.apply(&connection, &steps).await.unwrap();
    assert_eq!(steps.done(), ["modify-table", "read-back", "probe"]);
    assert!(applied.changed && applied.regions == 3);
    assert_eq!(audit_table(&connection, &table.name).await.unwrap(), []);
    let opened = table.open(&connection).await;
    assert_eq!(rows(opened.table(), Scan::new()).await.len(), 3);
    let transaction = opened.transaction("hhh").put(put("hhh2", "v"));
    assert!(transaction.commit().await.is_committed());
    is_settled(&connection, &file).await;
}

/// Settings that a file does not name stay unchanged, and may prevent transactions.
#[rstest]
#[case::durability("DURABILITY", "ASYNC_WAL", ErrorKind::WeakDurability, "ASYNC_WAL")]
#[case::window(
    TableDescriptor::REPLAY_WINDOW,
    "a day",
    ErrorKind::RecordFamilyMissing,
    "a number of seconds, 300 at least"
)]
#[tokio::test]
async fn a_table_that_would_not_be_opened_is_not_called_proven(
    #[case] attribute: &'static str,
    #[case] value: &'static str,
    #[case] kind: ErrorKind,
    #[case] hint: &str,
) {
    let connection = connect().await;
    let spoilt = |name| plain(name).with_attribute(attribute, value);
    let table = TestTable::create("unfit", spoilt, &[]).await;
    let file = by_three(&table.name, "");
    for _ in 0..2 {
        let plan = plan(&connection, &file).await;
        let error = plan.apply(&connection, &()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        says(&error, &[hint, table.name.qualifier()]);
    }
    let refused = PartitionedTable::open(&connection, table.name.clone()).await;
    assert_eq!(refused.unwrap_err().kind(), kind);
}

/// Until regions are opened with the rule, HBase may split them at any row.
#[tokio::test]
async fn boundary_added_between_plan_and_apply_is_refused() {
    let connection = connect().await;
    let by_file = TestTable::create("cutmeanwhile", with_endpoint, &[]).await;
    let by_alter = TestTable::create("cutmeanwhile", with_endpoint, &[]).await;
    let file = by_three(&by_file.name, "");
    let of_file = plan(&connection, &file).await;
    let rule = PartitionRule::prefix_length(3).unwrap();
    let ruled = with_endpoint(by_alter.name.clone()).with_partition_rule(&rule);
    let of_alter = Plan::read_for(&connection, &ruled).await.unwrap();
    for (table, plan) in [(&by_file, of_file), (&by_alter, of_alter)] {
        table.split_at(&connection, "xxxm").await;
        let error = plan.apply(&connection, &()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PartitionCut, "{error}");
        says(
            &error,
            &[
                "xxxm",
                "partition xxx",
                "choose a rule that fits",
                table.name.qualifier(),
            ],
        );
        let found = Admin::new(&connection).descriptor(&table.name).await.unwrap();
        assert!(
            PartitionRule::from_descriptor(&found).is_err(),
            "the rule was set"
        );
    }
}

#[tokio::test]
async fn families_and_attributes_are_added_changed_and_dropped() {
    let connection = connect().await;
    let table = unmade("families");
    let first = file(
        &table.name,
        "partition = {delimiter = '/'}\nfamily = [{name = 'f', versions = 5, ttl = '2h'}, {name = 'g'}]\n\
         split_enabled = false\nattributes = {PRIORITY = 7}",
    );
    apply(&connection, &first).await;
    is_settled(&connection, &first).await;
    let second = file(
        &table.name,
        "partition = {delimiter = '/'}\n\
         family = [{name = 'f', versions = 2, ttl = '3h', compression = 'gz'}, {name = 'h', in_memory = true}]",
    );
    let plan = plan(&connection, &second).await;
    let expected = [
        "~ SPLIT_ENABLED false → true",
        "~ family f: COMPRESSION NONE → GZ",
        "~ family f: TTL 2h → 3h",
        "~ family f: VERSIONS 5 → 2 (loses data: versions beyond that are dropped)",
        "+ family h: IN_MEMORY true",
        "- family g (loses data: all of its cells (name it in the file to keep it))",
    ];
    assert_eq!(told(&plan), expected);
    assert_eq!(plan.notes()[0].note, "left-alone");
    says(&plan.notes()[0], &["PRIORITY 7"]);
    let before = Admin::new(&connection).descriptor(&table.name).await.unwrap();
    let refused = plan.clone().apply(&connection, &()).await.unwrap_err();
    assert_eq!(refused.kind(), ClientErrorKind::InvalidInput);
    says(
        &refused,
        &[
            "VERSIONS 5 → 2",
            "- family g",
            "allow_data_loss",
            table.name.qualifier(),
        ],
    );
    assert_eq!(
        Admin::new(&connection).descriptor(&table.name).await.unwrap(),
        before
    );

    let applied = allowing_losses(plan).apply(&connection, &()).await.unwrap();
    assert!(applied.changed);
    let after = Admin::new(&connection).descriptor(&table.name).await.unwrap();
    let names: Vec<_> = after.families.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["_txn", "f", "h"]);
    assert_eq!(after.family("f").unwrap().attribute("TTL"), Some("10800"));
    assert_eq!(after.attribute("PRIORITY"), Some("7"));
    is_settled(&connection, &second).await;
}

#[tokio::test]
async fn lock_and_latch_tables_are_created_as_their_options_do() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    for (kind, options) in [
        (
            "locks",
            LockTableOptions::from(unique_name("x")).regions(4).descriptor(),
        ),
        (
            "latches",
            LatchTableOptions::from(unique_name("x")).regions(4).descriptor(),
        ),
    ] {
        let table = unmade(kind);
        let file = file(&table.name, &format!("kind = '{kind}'\nregions = 4"));
        let applied = apply(&connection, &file).await;
        assert_eq!((applied.changed, applied.regions), (true, 4));
        is_settled(&connection, &file).await;
        assert_no_findings(&connection, &table.name).await;
        let made = admin.descriptor(&table.name).await.unwrap();
        for (name, value) in &options.attributes {
            assert_eq!(made.attributes.get(name), Some(value));
        }
        for family in &options.families {
            let made = made.family(&family.name).unwrap();
            assert!(
                family
                    .attributes
                    .iter()
                    .all(|(name, value)| made.attributes.get(name) == Some(value))
            );
        }
    }
}

/// A table created by a Java library gets what it lacks, and keeps its family.
#[tokio::test]
async fn a_lock_table_without_a_restriction_gets_one() {
    let connection = connect().await;
    let java = |name: TableName| {
        let mut descriptor = LockTableOptions::from(name).descriptor();
        descriptor.attributes.clear();
        descriptor
    };
    let table = TestTable::create("javalocks", java, &["A", "Bb"]).await;
    let file = file(&table.name, "kind = 'locks'");
    let plan = plan(&connection, &file).await;
    assert_eq!(plan.refusals(), []);
    assert_eq!(told(&plan)[0], "+ a partition is: the first byte");
    let notes: Vec<_> = plan.notes().iter().map(|note| note.note).collect();
    assert_eq!(notes, ["splits-differ", "boundary-inside-bucket"]);
    plan.apply(&connection, &()).await.unwrap();
    assert_no_findings(&connection, &table.name).await;
}

#[tokio::test]
async fn a_disabled_table_is_changed_and_said_to_be_unproven() {
    let connection = connect().await;
    let table = TestTable::create("disabled", plain, &[]).await;
    Admin::new(&connection).disable_table(&table.name).await.unwrap();
    let file = by_three(&table.name, "");
    let plan = plan(&connection, &file).await;
    assert_eq!(plan.reopens(), 0);
    assert_eq!(plan.notes()[0].note, "table-disabled");
    let applied = plan.apply(&connection, &()).await.unwrap();
    assert_eq!(
        (applied.changed, applied.regions, applied.disabled),
        (true, 0, true)
    );
    Admin::new(&connection).enable_table(&table.name).await.unwrap();
    is_settled(&connection, &file).await;
    assert_eq!(audit_table(&connection, &table.name).await.unwrap(), []);
}

async fn alter(
    connection: &Connection,
    wanted: &TableDescriptor,
    watcher: &dyn ApplyWatcher,
) -> Result<Applied> {
    let plan = Plan::read_for(connection, wanted).await?;
    plan.apply(connection, watcher).await
}

#[tokio::test]
async fn a_descriptor_of_ones_own_is_applied_and_proven_too() {
    let connection = connect().await;
    let table = TestTable::create("alter", with_endpoint, &["ggg"]).await;
    let found = Admin::new(&connection).descriptor(&table.name).await.unwrap();
    let rule = PartitionRule::prefix_length(3).unwrap();
    let wanted = found.with_partition_rule(&rule).with_record_family();
    let steps = Steps::default();
    let applied = alter(&connection, &wanted, &steps).await.unwrap();
    assert_eq!(steps.done(), ["modify-table", "read-back", "probe"]);
    assert!(applied.changed && applied.regions == 2);
    assert_eq!(audit_table(&connection, &table.name).await.unwrap(), []);
    let applied = alter(&connection, &wanted, &()).await.unwrap();
    assert!(!applied.changed);

    let mut fewer = Admin::new(&connection).descriptor(&table.name).await.unwrap();
    fewer.families.retain(|family| family.name != "_txn");
    let error = alter(&connection, &fewer, &()).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
    says(&error, &["- family _txn", "the records of transactions"]);
    let missing = plain(unique_name("none"));
    let error = alter(&connection, &missing, &()).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableNotFound);
}

#[tokio::test]
async fn the_examples_are_applied_as_they_stand() {
    let connection = connect().await;
    let folder = concat!(env!("REPOSITORY"), "/schemas/tables");
    for (name, from, regions) in [
        ("by_prefix_length", "orders", 16),
        ("by_delimiter", "accounts", 4),
        ("time_buckets", "readings", 32),
        ("multi_tenant", "saas:documents", 6),
        ("dlm_locks", "dlm_locks", 257),
        ("D_LTCH_orders", "D_LTCH_orders", 257),
    ] {
        let table = unmade(name);
        let text = std::fs::read_to_string(format!("{folder}/{name}.toml")).unwrap();
        let described = format!("table = \"{from}\"");
        assert!(text.contains(&described), "{name}");
        let text = text
            .replace(&described, &format!("table = \"{}\"", table.name))
            .replace("regions = 257", "regions = 3")
            // The test cluster has no native libraries.
            .replace("\"SNAPPY\"", "\"GZ\"");
        let file = TableFile::parse(name, &text).unwrap();
        let applied = apply(&connection, &file).await;
        let expected = if regions == 257 { 3 } else { regions };
        assert_eq!((applied.changed, applied.regions), (true, expected), "{name}");
        is_settled(&connection, &file).await;
        assert_no_findings(&connection, &table.name).await;
    }
}

/// Asserts that there are no findings, except that Java clients are not protected from each other,
/// which is the operator's choice.
async fn assert_no_findings(connection: &Connection, table: &TableName) {
    let mut findings = audit_table(connection, table).await.unwrap();
    findings.retain(|finding| finding.finding != "java-unprotected");
    assert_eq!(findings, []);
}
