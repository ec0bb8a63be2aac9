//! Repairs that move region boundaries to the beginning of partitions.

use std::{sync::Mutex, time::Duration};

use bytes::Bytes;
use hbase_provision::{Repair, Severity, audit_cluster, audit_table};
use hbase_txn::{
    ClientErrorKind, ErrorKind, PartitionRule,
    admin::Admin,
    client::{Connection, FamilyDescriptor, Put, Scan, TableDescriptor},
    lock::LockTableOptions,
};

use crate::support::{
    eventually, keys, put, says, standalone,
    table::{TestTable, by_three, plain, recorded, ruled},
};

/// Returns the start keys of the table's regions.
async fn boundaries(connection: &Connection, table: &TestTable) -> Vec<Bytes> {
    let regions = table.regions(connection).await.into_iter();
    regions.map(|region| region.start_key).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_partitions_are_rejoined_and_their_rows_are_all_there() {
    let connection = standalone().connect().await;
    let table = TestTable::create("repair", by_three, &["ggg", "xxxm", "xxxz", "yyyy"]).await;
    let rows = table.of(&connection);
    let written = [
        "aaa1", "ggg1", "xxwz", "xxxa", "xxxn", "xxxzz", "yyya", "yyyz", "zzz1",
    ];
    for row in written {
        rows.put(put(row, row)).await.unwrap();
    }
    let repair = Repair::new(&connection, table.name.clone()).unwrap();
    let planned = repair.plan().await.unwrap();
    assert_eq!(planned.len(), 2, "{planned:?}");
    let steps = Mutex::new(Vec::new());
    let repaired = repair
        .run(|step| steps.lock().unwrap().push(step.to_string()))
        .await
        .unwrap();
    assert_eq!((repaired.rejoined, repaired.splits), (2, 2), "{steps:?}");
    assert_eq!(boundaries(&connection, &table).await, ["", "ggg", "xxx", "yyy"]);
    assert_eq!(keys(&rows, Scan::new()).await, written);
    assert!(repair.plan().await.unwrap().is_empty());
    assert_eq!(repair.run(|_| {}).await.unwrap().rejoined, 0);
    let opened = table.open(&connection).await;
    let transaction = opened
        .transaction("xxx")
        .put(put("xxxb", "v"))
        .put(put("xxxy", "v"));
    transaction.commit().await.into_result().unwrap();
}

/// A split restriction cuts the delimiter off the row of a requested split.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_by_delimiter_are_rejoined() {
    let connection = standalone().connect().await;
    let by_delimiter = |name| ruled(name, &PartitionRule::delimiter("/").unwrap());
    let table = TestTable::create("repairdelim", by_delimiter, &["a/1", "b", "b/5", "c/", "c/3"]).await;
    let rows = table.of(&connection);
    let written = ["a/0", "a/2", "b/1", "b/7", "c/1", "c/4"];
    for row in written {
        rows.put(put(row, row)).await.unwrap();
    }
    let repair = Repair::new(&connection, table.name.clone())
        .unwrap()
        .patience(Duration::from_secs(120));
    let repaired = repair.run(|_| {}).await.unwrap();
    assert_eq!(
        boundaries(&connection, &table).await,
        ["", "a", "b", "b0", "c/", "c0"]
    );
    assert_eq!((repaired.rejoined, repaired.splits), (3, 3));
    assert!(repair.plan().await.unwrap().is_empty());
    assert_eq!(keys(&rows, Scan::new()).await, written);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_partition_that_is_giant_is_found_and_split_off() {
    let connection = standalone().connect().await;
    let small_regions = |name| recorded(name).with_attribute("MAX_FILESIZE", (2 << 20).to_string());
    let table = TestTable::create("giant", small_regions, &["aaa"]).await;
    let rows = table.of(&connection);
    for number in 0..60 {
        let put = Put::new(format!("aaa{number:03}")).cell("f", "q", vec![7; 100 << 10]);
        rows.put(put).await.unwrap();
    }
    rows.put(put("bbb1", "v")).await.unwrap();
    Admin::new(&connection).flush_table(&table.name).await.unwrap();
    let found = |name: &'static str| {
        let (connection, table) = (&connection, &table);
        async move {
            let findings = audit_table(connection, &table.name).await.unwrap();
            findings.into_iter().find(|finding| finding.finding == name)
        }
    };
    // Servers report their load every few seconds.
    let giant = eventually("the giant is found", async || {
        found("first-partition-giant").await
    })
    .await;
    assert_eq!(
        (giant.partition.as_deref(), giant.severity),
        (Some("aaa"), Severity::Note)
    );
    let repair = Repair::new(&connection, table.name.clone()).unwrap();
    let steps: Vec<_> = repair
        .plan()
        .await
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        steps.len() == 1 && steps[0].contains("split region") && steps[0].contains("at aab"),
        "{steps:?}"
    );
    assert_eq!(repair.run(|_| {}).await.unwrap().splits, 1);
    assert_eq!(boundaries(&connection, &table).await, ["", "aaa", "aab"]);
    // The rest is one partition alone in its region, and no repair helps.
    let giant = eventually("the giant is alone", async || found("partition-giant").await).await;
    let skew = format!("hbase-txn table skew {}", table.name);
    assert_eq!(giant.command.as_deref(), Some(&*skew), "{giant}");
    assert!(repair.plan().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_giant_region_inside_of_a_partition_is_rejoined() {
    let connection = standalone().connect().await;
    let small_regions = |name| recorded(name).with_attribute("MAX_FILESIZE", (2 << 20).to_string());
    let table = TestTable::create("giantcut", small_regions, &["aaa2", "aaa5"]).await;
    let rows = table.of(&connection);
    for number in 300..360 {
        let put = Put::new(format!("aaa{number}")).cell("f", "q", vec![7; 100 << 10]);
        rows.put(put).await.unwrap();
    }
    let admin = Admin::new(&connection);
    admin.flush_table(&table.name).await.unwrap();
    let name = table.regions(&connection).await.remove(1).name;
    is_loaded(&admin, &name).await;
    let findings = audit_table(&connection, &table.name).await.unwrap();
    assert!(
        findings
            .iter()
            .all(|finding| finding.finding != "audit-incomplete"),
        "{findings:?}"
    );
    let repair = Repair::new(&connection, table.name.clone()).unwrap();
    let steps = repair.plan().await.unwrap();
    assert_eq!(steps.len(), 1, "{steps:?}");
    repair.check(&steps).unwrap();
    let error = repair.most_mib(3).run(|step| panic!("{step}")).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::LimitExceeded, "{error}");
}

/// Waits until a server has reported that a region has 4 MiB, which servers do every few seconds.
async fn is_loaded(admin: &Admin, region: &[u8]) {
    eventually("the region's size is reported", async || {
        let loads = admin.server_loads().await.ok()?;
        let mut regions = loads.iter().flat_map(|server| &server.regions);
        regions
            .any(|load| load.name == region && load.store_files_mib >= 4)
            .then_some(())
    })
    .await;
}

/// The servers' limit may be larger than the table's, or splits may be disabled.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_region_that_could_be_split_is_no_giant() {
    let connection = standalone().connect().await;
    let unsplit = |name| {
        recorded(name)
            .with_attribute("MAX_FILESIZE", (2 << 20).to_string())
            .with_attribute("SPLIT_ENABLED", "false")
    };
    let table = TestTable::create("nogiant", unsplit, &["a00"]).await;
    let rows = table.of(&connection);
    for number in 0..60 {
        let put = Put::new(format!("a{number:02}1")).cell("f", "q", vec![7; 100 << 10]);
        rows.put(put).await.unwrap();
    }
    let admin = Admin::new(&connection);
    admin.flush_table(&table.name).await.unwrap();
    let name = table.regions(&connection).await.remove(1).name;
    is_loaded(&admin, &name).await;
    let found = audit_table(&connection, &table.name).await.unwrap();
    let names: Vec<_> = found.iter().map(|finding| finding.finding).collect();
    assert_eq!(names, ["splits-disabled"]);
    assert!(
        Repair::new(&connection, table.name.clone())
            .unwrap()
            .plan()
            .await
            .unwrap()
            .is_empty()
    );
}

/// A prefix that is too short makes one partition of a whole table.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_rule_does_not_make_one_region_of_a_table() {
    let connection = standalone().connect().await;
    let cuts = ["xaa", "xbb", "xcc", "xdd", "xee", "xff", "xgg", "xhh"];
    let table = TestTable::create("repairwrong", by_three, &cuts).await;
    let before = boundaries(&connection, &table).await;
    let repair = Repair::new(&connection, table.name.clone())
        .unwrap()
        .by_rule(PartitionRule::prefix_length(1).unwrap());
    let steps = repair.plan().await.unwrap();
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert_eq!(
        repair.check(&steps).unwrap_err().kind(),
        ClientErrorKind::LimitExceeded
    );
    let error = repair.run(|step| panic!("{step}")).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::LimitExceeded, "{error}");
    says(
        &error,
        &["partition x is in 9 regions", "check the partition rule"],
    );
    assert_eq!(boundaries(&connection, &table).await, before);
    let repaired = repair.most_regions(9).run(|_| {}).await.unwrap();
    assert_eq!((repaired.rejoined, repaired.splits), (1, 1));
    assert_eq!(boundaries(&connection, &table).await, ["", "x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_table_is_repaired_by_the_rule_that_its_finding_names() {
    let connection = standalone().connect().await;
    let java_made = |name| {
        let family = FamilyDescriptor::new(LockTableOptions::FAMILY).with_attribute("COMPRESSION", "GZ");
        TableDescriptor::from(name).with_family(family)
    };
    let table = TestTable::create("repairlocks", java_made, &["A", "Bcut", "C"]).await;
    let repair = Repair::new(&connection, table.name.clone()).unwrap();
    // The table may be for something else.
    let guess = repair.plan().await.unwrap_err().kind();
    assert_eq!(guess, ErrorKind::NoPartitionRule);
    let repair = repair.by_rule(PartitionRule::prefix_length(1).unwrap());
    assert_eq!(repair.run(|_| {}).await.unwrap().rejoined, 1);
    assert_eq!(boundaries(&connection, &table).await, ["", "A", "B", "C"]);
}

#[tokio::test]
async fn unrepairable_tables_are_refused() {
    let connection = standalone().connect().await;
    let refused = async |table: &TestTable| {
        let repair = Repair::new(&connection, table.name.clone()).unwrap();
        let planned = repair.plan().await.unwrap_err().kind();
        assert_eq!(repair.run(|_| {}).await.unwrap_err().kind(), planned);
        planned
    };
    let table = TestTable::create("repairplain", plain, &["xxxm"]).await;
    assert_eq!(refused(&table).await, ErrorKind::NoPartitionRule);
    let table = TestTable::create("repairoff", by_three, &["xxxm"]).await;
    Admin::new(&connection).disable_table(&table.name).await.unwrap();
    assert_eq!(refused(&table).await, ClientErrorKind::TableDisabled);
    let table = TestTable::unmade("repairnone");
    assert_eq!(refused(&table).await, ClientErrorKind::TableNotFound);
    let unsplit = |name| by_three(name).with_attribute("MERGE_ENABLED", "false");
    let table = TestTable::create("repairunmerged", unsplit, &["xxxm"]).await;
    let error = Repair::new(&connection, table.name.clone())
        .unwrap()
        .run(|_| {})
        .await
        .unwrap_err();
    assert!(error.to_string().contains("switch them on first"), "{error}");
}

/// The futures of audits and repairs can be spawned as tasks.
#[tokio::test]
async fn audits_and_repairs_run_in_tasks() {
    let connection = standalone().connect().await;
    let table = TestTable::create("tasks", by_three, &["xxx"]).await;
    let (name, of_task) = (table.name.clone(), connection.clone());
    let work = tokio::spawn(async move {
        let repaired = Repair::new(&of_task, name.clone())
            .unwrap()
            .run(|_| {})
            .await
            .unwrap();
        let audit = audit_cluster(&of_task, std::slice::from_ref(&name))
            .await
            .unwrap();
        (repaired.rejoined, audit.tables == [name])
    });
    assert_eq!(work.await.unwrap(), (0, true));
}
