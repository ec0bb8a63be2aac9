//! Plans of changes to a cluster, which change nothing themselves.

use hbase_provision::{Plan, TableAlteration, TableFile};
use hbase_txn::{PartitionRule, TableDescriptorExt, admin::Admin, client::TableName};
use serde_json::{Value, json};

use super::{allowing_losses, apply, by_three, file, is_settled, plan, told, unmade};
use crate::support::{
    connect, says,
    table::{TestTable, plain, ruled, unique_name},
};

fn object(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

#[tokio::test]
async fn a_table_that_is_missing_is_planned_as_a_whole() {
    let connection = connect().await;
    let name = unique_name("planned");
    let file = by_three(&name, "split = {hex = 4}\nsplit_enabled = false");
    let plan = plan(&connection, &file).await;
    let told = told(&plan);
    assert_eq!(
        told[..2],
        [
            "+ the table, with 4 regions",
            "+ a partition is: the first 3 bytes"
        ]
    );
    for part in [
        "+ MultiRowMutationEndpoint",
        "+ SPLIT_ENABLED false",
        "+ hbase.regionserver.region.split_restriction.type KeyPrefix",
        "+ KeyPrefixRegionSplitPolicy.prefix_length 3",
        "+ family f",
        "+ family _txn: NEW_VERSION_BEHAVIOR true, TTL 2d, VERSIONS 1",
    ] {
        assert!(
            told.iter().any(|line| line == part),
            "{part:?} is not in {told:?}"
        );
    }
    assert_eq!(
        (plan.refusals(), plan.notes(), plan.reopens()),
        (vec![], &[][..], 0)
    );
    let family = plan
        .changes()
        .iter()
        .find(|change| change.family.as_deref() == Some("_txn"));
    let expected = json!({
        "table": name.to_string(), "change": "add-family", "family": "_txn",
        "attributes": {"NEW_VERSION_BEHAVIOR": "true", "TTL": "172800", "VERSIONS": "1"}
    });
    assert_eq!(object(&family.unwrap()), expected);
    assert!(!Admin::new(&connection).exists(&name).await.unwrap());
}

#[tokio::test]
async fn rule_is_refused_with_all_contradicting_boundaries() {
    let connection = connect().await;
    let table = TestTable::create("contradicted", plain, &["abcd", "b", "xyzz"]).await;
    let plan = plan(&connection, &by_three(&table.name, "")).await;
    let refusals = plan.refusals();
    let found: Vec<_> = refusals
        .iter()
        .map(|refusal| {
            (
                refusal.boundary.as_deref().unwrap(),
                refusal.partition.as_deref().unwrap(),
            )
        })
        .collect();
    assert_eq!(found, [("abcd", "abc"), ("xyzz", "xyz")]);
    says(
        &refusals[0],
        &[
            "test.toml:1:9: table ",
            "the region boundary abcd cuts partition abc in two",
            "the first 3 bytes",
            "hbase-txn table repair",
        ],
    );
    let before = Admin::new(&connection).descriptor(&table.name).await.unwrap();
    let error = plan.apply(&connection, &()).await.unwrap_err();
    assert_eq!(error.kind(), hbase_txn::ErrorKind::PartitionCut);
    says(
        &error,
        &[
            "test.toml:1:9: applying a plan",
            "abcd",
            "xyzz",
            table.name.qualifier(),
        ],
    );
    assert_eq!(
        Admin::new(&connection).descriptor(&table.name).await.unwrap(),
        before
    );
}

/// All stale attributes of the old rule are removed, and the plan reports the loss of the records
/// that transactions keep by the old prefixes.
#[tokio::test]
async fn another_rule_replaces_all_of_the_old_one() {
    let connection = connect().await;
    let by_slash =
        |name: TableName| ruled(name, &PartitionRule::delimiter("/").unwrap()).with_record_family();
    let table = TestTable::create("rerule", by_slash, &[]).await;
    let file = by_three(&table.name, "");
    let plan = plan(&connection, &file).await;
    let rule = &plan.changes()[0];
    assert_eq!(
        (rule.from.as_deref(), rule.to.as_deref()),
        (Some("the bytes before the first /"), Some("the first 3 bytes"))
    );
    assert!(
        rule.loses
            .as_deref()
            .unwrap()
            .contains("stored under the old prefixes")
    );
    let refusals = plan.refusals();
    assert_eq!(refusals.len(), 1);
    assert_eq!(refusals[0].refused, "data-loss");
    let told = told(&plan);
    assert!(
        told.contains(&"- hbase.regionserver.region.split_restriction.delimiter /".to_owned()),
        "{told:?}"
    );
    allowing_losses(plan).apply(&connection, &()).await.unwrap();
    let after = Admin::new(&connection).descriptor(&table.name).await.unwrap();
    let stale = after.attributes.keys().find(|name| name.ends_with(b"delimiter"));
    assert_eq!(stale, None);
    assert_eq!(
        PartitionRule::from_descriptor(&after).unwrap(),
        PartitionRule::prefix_length(3).unwrap()
    );
    is_settled(&connection, &file).await;
}

#[tokio::test]
async fn settings_not_in_the_file_are_kept_and_reported() {
    let connection = connect().await;
    let odd = |name: TableName| {
        plain(name)
            .with_attribute(
                "SPLIT_POLICY",
                "org.apache.hadoop.hbase.regionserver.ConstantSizeRegionSplitPolicy",
            )
            .with_attribute("owned-by", "somebody")
            .with_family(
                hbase_txn::client::FamilyDescriptor::new("f").with_attribute("BLOOMFILTER", "ROWCOL"),
            )
    };
    let table = TestTable::create("leftalone", odd, &["ggg"]).await;
    let file = by_three(&table.name, "split = {keys = ['ggg', 'ppp']}");
    let plan = plan(&connection, &file).await;
    let notes: Vec<_> = plan.notes().iter().map(|note| note.note).collect();
    assert_eq!(notes, ["left-alone", "splits-differ"]);
    says(
        &plan.notes()[0],
        &[
            "SPLIT_POLICY org.apache",
            "owned-by somebody",
            "family f: BLOOMFILTER ROWCOL",
        ],
    );
    says(
        &plan.notes()[1],
        &["1 of the file's 2 split keys are not region boundaries, the first is ppp"],
    );
    let before = Admin::new(&connection).descriptor(&table.name).await.unwrap();
    plan.apply(&connection, &()).await.unwrap();
    let after = Admin::new(&connection).descriptor(&table.name).await.unwrap();
    assert_eq!(before.attribute("SPLIT_POLICY"), after.attribute("SPLIT_POLICY"));
    assert_eq!(after.attribute("owned-by"), Some("somebody"));
    assert_eq!(
        after.family("f").unwrap().attribute("BLOOMFILTER"),
        Some("ROWCOL")
    );
    assert_eq!(table.regions(&connection).await.len(), 2);
    is_settled(&connection, &file).await;
}

#[tokio::test]
async fn missing_namespace_is_refused_or_created_by_the_file() {
    let connection = connect().await;
    let namespace = format!("provision_{:08x}", fastrand::u32(..));
    let name: TableName = format!("{namespace}:orders").parse().unwrap();
    let refused = plan(&connection, &by_three(&name, "")).await;
    let refusals = refused.refusals();
    assert_eq!(refusals[0].refused, "namespace-missing");
    says(
        &refusals[0],
        &[
            "create_namespace = true",
            &format!("hbase-txn namespace create {namespace}"),
        ],
    );
    let error = refused.apply(&connection, &()).await.unwrap_err();
    assert_eq!(error.kind(), hbase_txn::ClientErrorKind::NamespaceNotFound);

    let file = by_three(&name, "create_namespace = true");
    let plan = plan(&connection, &file).await;
    assert_eq!(told(&plan)[0], format!("+ namespace {namespace}"));
    plan.apply(&connection, &()).await.unwrap();
    is_settled(&connection, &file).await;
    Admin::new(&connection).delete_table(&name).await.unwrap();
}

#[tokio::test]
async fn unwanted_partition_version_is_removed_with_its_family() {
    let connection = connect().await;
    let table = unmade("unversioned");
    let with = |lines| -> TableFile { by_three(&table.name, lines) };
    apply(&connection, &with("partition_version = true\nlock_family = true")).await;
    let plan = plan(&connection, &with("")).await;
    let losses: Vec<_> = plan
        .refusals()
        .iter()
        .map(|refusal| refusal.what.clone())
        .collect();
    assert_eq!(losses.len(), 2, "{losses:?}");
    assert!(losses[0].contains("lock_family = true keeps it"), "{losses:?}");
    assert!(
        losses[1].contains("partition_version = true keeps it"),
        "{losses:?}"
    );
    assert!(told(&plan).contains(&"- hbase-txn.partition-version true".to_owned()));
    allowing_losses(plan).apply(&connection, &()).await.unwrap();
    table.open(&connection).await;
    is_settled(&connection, &with("")).await;
}

#[tokio::test]
async fn masters_refusal_of_a_file_is_returned() {
    let connection = connect().await;
    let table = TestTable::create("sane", plain, &[]).await;
    let file = file(
        &table.name,
        "partition = {prefix_length = 3}\nfamily = [{name = 'f'}]\nattributes = {SPLIT_POLICY = 'no.such.Policy'}",
    );
    let before = Admin::new(&connection).descriptor(&table.name).await.unwrap();
    let error = plan(&connection, &file)
        .await
        .apply(&connection, &())
        .await
        .unwrap_err();
    says(
        &error,
        &["modifying the table", table.name.qualifier(), "no.such.Policy"],
    );
    assert_eq!(
        Admin::new(&connection).descriptor(&table.name).await.unwrap(),
        before
    );
}

#[tokio::test]
async fn filter_by_prefix_needs_its_length() {
    let connection = connect().await;
    let table = TestTable::create("filter", plain, &[]).await;
    let alter = async |alteration: TableAlteration| {
        let plan = Plan::read_alteration(&connection, &table.name, &alteration)
            .await
            .unwrap();
        plan.apply(&connection, &()).await
    };
    let filter = TableAlteration::new().family_attribute("f", "BLOOMFILTER", "ROWPREFIX_FIXED_LENGTH");
    let error = alter(filter.clone()).await.unwrap_err();
    says(
        &error,
        &["modifying the table", "Failed to get bloom filter param"],
    );
    let length = "RowPrefixBloomFilter.prefix_length";
    alter(filter.family_configuration("f", length, "2"))
        .await
        .unwrap();
    let found = Admin::new(&connection).descriptor(&table.name).await.unwrap();
    assert_eq!(found.family("f").unwrap().configuration[length], "2");
    // Applied again, it changes nothing.
    let again = TableAlteration::new().family_configuration("f", length, "2");
    assert!(!alter(again).await.unwrap().changed);
}
