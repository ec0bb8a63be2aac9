//! What the tools of operators take on a table of many regions.

use std::time::Duration;

use bytes::Bytes;
use hbase_fake::{Call, FakeHBase, Latency};
use hbase_provision::{Finding, Plan, Repair, Severity, TableFile, audit_cluster, audit_table};
use hbase_test_support::resident_bytes;
use hbase_txn::{
    PartitionRule, TableDescriptorExt,
    admin::Admin,
    client::{FamilyDescriptor, Put, TableDescriptor},
};
use tokio::time::Instant;

use crate::cluster::{Cluster, TABLE, Turn, ratio};

/// An operator waits for it. Each tool may ask each region once.
const MAX_TIME: Duration = Duration::from_secs(30);
const MAX_CALLS: f64 = 3.0;
const MAX_REGION_BYTES: usize = 20_000;

#[tokio::test(start_paused = true)]
async fn tools_of_operators_cope_with_many_regions() {
    let cluster = Cluster::start();
    let client = cluster.hbase.connect().await.unwrap();
    let calls = cluster.hbase.fault(Call::Any.delay_answer(Duration::ZERO));
    let text = format!("table = '{TABLE}'\npartition = {{prefix_length = 14}}\nfamily = [{{name = 'f'}}]\n");
    let file = TableFile::parse("orders.toml", &text).unwrap();
    for tool in ["apply", "plan", "table check", "doctor", "repair --plan"] {
        let (began, wall) = (Instant::now(), std::time::Instant::now());
        let (calls_before, before) = (calls.happened(), resident_bytes());
        match tool {
            "apply" => {
                let applied = Plan::read(&client, &file)
                    .await
                    .unwrap()
                    .apply(&client, &())
                    .await
                    .unwrap();
                assert_eq!(applied.regions, cluster.regions);
            }
            "plan" => assert_eq!(Plan::read(&client, &file).await.unwrap().changes(), []),
            "table check" => assert_sound(&audit_table(&client, TABLE).await.unwrap()),
            "doctor" => assert_sound(&audit_cluster(&client, &[]).await.unwrap().findings),
            _ => assert_eq!(Repair::new(&client, TABLE).unwrap().plan().await.unwrap(), []),
        }
        let (took, calls) = (began.elapsed(), calls.happened() - calls_before);
        let bytes = resident_bytes().saturating_sub(before) / cluster.regions;
        println!(
            "{tool}, {} regions on {} servers: {calls} calls, {:.2} s, {:.1} s of wall time, {bytes} bytes a region",
            cluster.regions,
            cluster.servers,
            took.as_secs_f64(),
            wall.elapsed().as_secs_f64()
        );
        assert!(took <= MAX_TIME, "{tool} took {took:?}");
        let of_each = ratio(calls, cluster.regions);
        assert!(of_each <= MAX_CALLS, "{tool}: {of_each} calls a region");
        assert!(bytes <= MAX_REGION_BYTES, "{tool}: {bytes} bytes a region");
    }
}

fn assert_sound(findings: &[Finding]) {
    let broken = findings
        .iter()
        .find(|finding| finding.severity == Severity::Broken);
    assert_eq!(broken, None);
}

/// Regions that HBase can't split, each with 2 MiB in its first partition, where that is much. Each takes
/// three calls.
#[tokio::test(start_paused = true)]
async fn hundreds_of_giants_are_found_in_time() {
    const GIANTS: usize = 200;
    let _turn = Turn::wait();
    let call = Duration::from_millis(99)..Duration::from_millis(101);
    let hbase = FakeHBase::builder()
        .servers(10)
        .latency(Latency {
            request: call,
            ..Latency::NONE
        })
        .build();
    let row = |giant: usize, rest: &str| format!("{giant:04}{rest}");
    let split_keys: Vec<_> = (1..GIANTS).map(|giant| row(giant, "a").into()).collect();
    let rule = PartitionRule::prefix_length(5).unwrap();
    let descriptor = TableDescriptor::new(TABLE)
        .unwrap()
        .with_partition_rule(&rule)
        .with_multi_row_mutation_endpoint()
        .with_family(FamilyDescriptor::new("f"))
        .with_attribute("MAX_FILESIZE", "1");
    let client = hbase.connect().await.unwrap();
    Admin::new(&client)
        .create_table(&descriptor, &split_keys)
        .await
        .unwrap();
    let table = client.table(TABLE).unwrap();
    let mebibyte = Bytes::from(vec![b'x'; 1 << 20]);
    for giant in 0..GIANTS {
        for (rest, value) in [("a1", &mebibyte), ("a2", &mebibyte), ("b1", &Bytes::new())] {
            let put = Put::new(row(giant, rest)).cell("f", "q", value.clone());
            table.put(put).await.unwrap();
        }
        hbase.flush(TABLE, row(giant, "a1"));
    }
    let began = Instant::now();
    let steps = Repair::new(&client, TABLE).unwrap().plan().await.unwrap();
    let planned = began.elapsed();
    assert_eq!(steps.len(), GIANTS);
    let found = audit_table(&client, TABLE).await.unwrap();
    let took = began.elapsed() - planned;
    let of_giants = found
        .iter()
        .filter(|finding| finding.finding == "first-partition-giant");
    let regions: usize = of_giants.map(|finding| finding.regions.len()).sum();
    println!("{GIANTS} giants, 100 ms a call: {planned:.1?} for a plan, {took:.1?} for an audit");
    assert_eq!(regions, GIANTS);
    // One after the other they would take a minute.
    assert!(
        planned.max(took) < Duration::from_secs(10),
        "{planned:?}, {took:?}"
    );
}
