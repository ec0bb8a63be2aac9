//! HBase's own Java client gets the same answers from the fake cluster as from a real one.
//!
//! One program (`tests/java/src/hbasetxn/conformance`) performs fixed calls, then random ones from
//! `CONFORMANCE_SEED`, on each cluster. It prints a line for each answer.

use std::{fs, path::Path};

use hbase_fake::FakeHBase;
use hbase_txn::client::Config;

use crate::{number, support, support::java};

/// The release of the Java client, which servers of the same release are compared with.
const CLIENT: &str = "2.6.";
/// The random calls on each cluster, unless `CONFORMANCE_OPERATIONS` is set.
const CALLS: u64 = 300;
/// Each call waits for servers, so fewer of them than of the raw operations fit into a run.
const OPERATIONS_PER_CALL: u64 = 100;
/// The number of different lines that a failure shows.
const SHOWN: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fake_answers_java_as_hbase_does() {
    let calls = number("CONFORMANCE_OPERATIONS").map_or(CALLS, |operations| operations / OPERATIONS_PER_CALL);
    let seed = number("CONFORMANCE_SEED").unwrap_or(1);
    let mut compared = 0;
    for cluster in support::versions() {
        let version = cluster.status.version.unwrap();
        if !version.to_string().starts_with(CLIENT) {
            continue;
        }
        compared += 1;
        let ports = cluster.status.ports.keys();
        let servers = ports.filter(|name| name.starts_with("region-server")).count();
        let fake = FakeHBase::builder()
            .release(version.to_string().parse().unwrap())
            .servers(servers)
            .listen()
            .await
            .unwrap();
        let fake_config = Config::from_uri(&fake.uri()).unwrap();
        let real_config = cluster.rpc_config();
        println!("{version}: {calls} random calls of Java from seed {seed}");
        let (real, fake) = tokio::join!(
            java::conformance(&real_config, seed, calls),
            java::conformance(&fake_config, seed, calls),
        );
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        fs::write(folder.join("java-real.txt"), real.join("\n")).unwrap();
        fs::write(folder.join("java-fake.txt"), fake.join("\n")).unwrap();
        let different = real.iter().zip(&fake).filter(|(real, fake)| real != fake);
        let lines: Vec<_> = different
            .map(|(real, fake)| format!("real {real}\nfake {fake}\n"))
            .collect();
        assert!(
            lines.is_empty() && real.len() == fake.len(),
            "{version}: {} lines differ, all are in {}; the first:\n{}",
            lines.len(),
            folder.display(),
            lines[..lines.len().min(SHOWN)].concat()
        );
    }
    assert!(compared > 0, "no cluster of the client's release");
}
