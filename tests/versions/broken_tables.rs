//! Twelve kinds of broken tables, and six sound ones: the audit reports each broken table, and the
//! command of its finding fixes it; sound tables have no findings.

use hbase_provision::{Finding, Severity, audit_cluster, audit_table};
use hbase_txn::{
    PartitionRule, PartitionedTable, TableDescriptorExt,
    admin::Admin,
    client::{Connection, FamilyDescriptor, TableDescriptor, TableName},
    latch::LatchTableOptions,
    lock::LockTableOptions,
};

use tokio::process::Command;

use crate::{
    on_each,
    support::{
        Cluster, put,
        table::{
            TestTable, by_three, by_three_of_old, by_three_without_endpoint, plain, recorded, with_endpoint,
        },
    },
};

const TYPE: &str = "hbase.regionserver.region.split_restriction.type";
const LENGTH: &str = "hbase.regionserver.region.split_restriction.prefix_length";
const POLICIES: &str = "org.apache.hadoop.hbase.regionserver.";

type Describe = fn(TableName) -> TableDescriptor;

/// A kind of broken table: its name here, its descriptor, its boundaries, and the expected finding.
type Broken = (&'static str, Describe, &'static [&'static str], &'static str);

const BROKEN: [Broken; 10] = [
    (
        "presplit",
        by_three,
        &["ggg", "xxxm"],
        "boundary-inside-partition",
    ),
    (
        "misspelt",
        |name| recorded(name).with_attribute(TYPE, "Keyprefix"),
        &["xxx"],
        "rule-invalid",
    ),
    (
        "wrongkey",
        |name| {
            with_endpoint(name)
                .with_attribute(TYPE, "KeyPrefix")
                .with_attribute("hbase.regionserver.region.split_restriction.prefixLength", "3")
        },
        &["xxx"],
        "rule-invalid",
    ),
    // Cut by a manual split, which the older policy allows at any key.
    ("manual", by_three_of_old, &[], "boundary-inside-partition"),
    (
        "nosplits",
        |name| recorded(name).with_attribute("SPLIT_ENABLED", "false"),
        &[],
        "splits-disabled",
    ),
    (
        "nodelimiter",
        |name| with_endpoint(name).with_attribute(TYPE, "DelimitedKeyPrefix"),
        &[],
        "rule-invalid",
    ),
    (
        "nolength",
        |name| {
            with_endpoint(name)
                .with_attribute("SPLIT_POLICY", format!("{POLICIES}KeyPrefixRegionSplitPolicy"))
        },
        &[],
        "rule-invalid",
    ),
    (
        "length0",
        |name| {
            with_endpoint(name)
                .with_attribute(TYPE, "KeyPrefix")
                .with_attribute(LENGTH, "0")
        },
        &[],
        "rule-invalid",
    ),
    ("norule", with_endpoint, &[], "rule-missing"),
    ("disabled", recorded, &["xxx"], "table-disabled"),
];

/// Broken only if the servers don't load the endpoint for all tables.
const WITHOUT_ENDPOINT: [Broken; 2] = [
    (
        "noendpoint",
        by_three_without_endpoint,
        &["xxx"],
        "endpoint-missing",
    ),
    (
        "otherclass",
        |name| {
            by_three_without_endpoint(name).with_attribute(
                "coprocessor$1",
                "|org.apache.hadoop.hbase.replication.regionserver.ReplicationObserver|1073741823|",
            )
        },
        &["xxx"],
        "endpoint-missing",
    ),
];

#[tokio::test]
async fn each_of_ten_is_found_and_mended_by_the_command_that_is_named() {
    each_is_found_and_mended(&BROKEN).await;
}

/// The other two of twelve. `scripts/test-docker` skips this test by name: with its image every
/// table has the endpoint.
#[tokio::test]
async fn problems_without_the_endpoint_are_fixed_by_their_commands() {
    each_is_found_and_mended(&WITHOUT_ENDPOINT).await;
}

async fn each_is_found_and_mended(tables: &[Broken]) {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        for &(label, describe, splits, expected) in tables {
            let table = TestTable::create_on(cluster, label, describe, splits).await;
            match label {
                "manual" => table.split_at(&connection, "xxxm").await,
                "disabled" => Admin::new(&connection).disable_table(&table.name).await.unwrap(),
                _ => {}
            }
            let found = broken(&connection, &table.name).await;
            let names: Vec<_> = found.iter().map(|finding| finding.finding).collect();
            assert_eq!(names, [expected], "{label}: {found:#?}");
            fix(cluster, &found[0]).await;
            let left = broken(&connection, &table.name).await;
            assert!(left.is_empty(), "{label} is not fixed: {left:#?}");
            // A sound table also works for its purpose.
            let opened = PartitionedTable::open(&connection, table.name.clone())
                .await
                .unwrap();
            let mut transaction = opened.transaction("xxx");
            for row in ["xxxa", "xxxz"] {
                transaction = transaction.put(put(row, label));
            }
            transaction.commit().await.into_result().unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn no_sound_table_is_blamed() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let by_delimiter: Describe = |name| {
            with_endpoint(name)
                .with_partition_rule(&PartitionRule::delimiter("/").unwrap())
                .with_record_family()
        };
        let java_lock_table: Describe = |name| {
            let family = FamilyDescriptor::new("D").with_attribute("COMPRESSION", "GZ");
            TableDescriptor::from(name).with_family(family)
        };
        let locks: Describe = |name| LockTableOptions::from(name).descriptor();
        let latches: Describe = |name| LatchTableOptions::from(name).descriptor();
        let sound: [(&str, Describe, &[&str]); 6] = [
            ("bylength", recorded, &["aaa", "xxx"]),
            ("bydelimiter", by_delimiter, &["c1/", "c5"]),
            ("ofold", by_three_of_old, &["xxx"]),
            ("locks", locks, &["A", "X"]),
            ("javalocks", java_lock_table, &["\0", "A"]),
            ("latches", latches, &["A", "X"]),
        ];
        let mut tables = Vec::new();
        for (label, describe, splits) in sound {
            let table = TestTable::create_on(cluster, label, describe, splits).await;
            assert_eq!(broken(&connection, &table.name).await, [], "{label}");
            tables.push(table);
        }
        let plain = TestTable::create_on(cluster, "plain", plain, &[]).await;
        let names: Vec<_> = tables.iter().map(|table| table.name.clone()).collect();
        let audit = audit_cluster(&connection, &names).await.unwrap();
        assert_eq!(audit.tables, names);
        let blamed: Vec<_> = audit
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Broken)
            .collect();
        assert!(blamed.is_empty(), "{blamed:#?}");
        let all = audit_cluster(&connection, &[]).await.unwrap();
        assert!(
            names.iter().all(|name| all.tables.contains(name)),
            "{:?}",
            all.tables
        );
        assert!(!all.tables.contains(&plain.name) && all.skipped > 0);
    })
    .await;
}

async fn broken(connection: &Connection, table: &TableName) -> Vec<Finding> {
    let mut found = audit_table(connection, table).await.unwrap();
    found.retain(|finding| finding.severity == Severity::Broken);
    found
}

/// Runs the command of a finding as a shell would.
async fn fix(cluster: &Cluster, finding: &Finding) {
    let command = finding.command.as_ref().unwrap();
    let mut command = command.replace("--prefix-length N", "--prefix-length 3");
    if command.contains(" table repair ") {
        // There is no terminal to ask on.
        command += " --yes";
    }
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_hbase-txn"));
    let path = format!(
        "{}:{}",
        binary.parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let output = Command::new("sh")
        .args(["-c", &command])
        .env("PATH", path)
        .env("HBASE_TXN_CONNECT", cluster.config().address().to_string())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
}
