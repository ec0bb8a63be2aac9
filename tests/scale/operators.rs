//! What the tools of operators take on a table of many regions.

use std::time::Duration;

use hbase_fake::Call;
use hbase_provision::{Finding, Plan, Repair, Severity, TableFile, audit_cluster, audit_table};
use tokio::time::Instant;

use crate::{
    cluster::{Cluster, TABLE, ratio},
    memory::resident_bytes,
};

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
