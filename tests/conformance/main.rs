//! The fake cluster answers as HBase does: the same random operations are sent to both, by a driver
//! that shares no code with the client, and every answer is compared.
//!
//! `HBASE_TXN_TEST_VERSIONS` names clusters, one of each release, as for the suite `versions`.
//! `CONFORMANCE_OPERATIONS` is the number of operations on each (1,000 unless set);
//! `CONFORMANCE_SEED` is the first seed, and alone runs one sequence again. Up to
//! `CONFORMANCE_DIFFERENCES` differences on a release are shrunk to the fewest operations that show
//! them.
//!
//! | file | what |
//! |---|---|
//! | `raw` | connections to region servers, and their frames |
//! | `operations` | random operations |
//! | `answers` | answers in a form in which two clusters can agree |
//! | `driver` | sequences of operations on one cluster |
//! | `java` | calls of HBase's own Java client |

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod driver;
mod java;
mod operations;
mod raw;
use hbase_test_support as support;

use std::{
    env,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use hbase_fake::{FakeHBase, Release};

use self::driver::{Cluster, Difference};

/// Sequences run concurrently, because each waits between its operations.
const THREADS: usize = 16;
/// The most differences on one release that are shrunk and reported, unless
/// `CONFORMANCE_DIFFERENCES` says otherwise.
const MAX_DIFFERENCES: u64 = 8;

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// Returns the differences between two clusters in sequences from this seed on.
fn compare(real: &Cluster, fake: &Cluster, first_seed: u64, sequences: u64) -> Vec<Difference> {
    let next = AtomicU64::new(0);
    let differences = Mutex::new(Vec::new());
    let most = number("CONFORMANCE_DIFFERENCES").unwrap_or(MAX_DIFFERENCES);
    thread::scope(|scope| {
        for _ in 0..sequences.min(THREADS as u64) {
            scope.spawn(|| {
                let (mut real, mut fake) = (real.open(), fake.open());
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= sequences {
                        return;
                    }
                    let difference = driver::compare(&mut real, &mut fake, first_seed + number);
                    let mut differences = differences.lock().unwrap();
                    differences.extend(difference);
                    if differences.len() as u64 >= most {
                        next.store(sequences, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    differences.into_inner().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fake_answers_as_every_release_does() {
    let (operations, seed) = (number("CONFORMANCE_OPERATIONS"), number("CONFORMANCE_SEED"));
    let sequences = match (operations, seed) {
        (None, Some(_)) => 1,
        (operations, _) => operations.unwrap_or(1_000).div_ceil(operations::LENGTH as u64),
    };
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1 << 40));
    let mut found = 0;
    for cluster in support::versions() {
        let version = cluster.status.version.unwrap();
        let release: Release = version.to_string().parse().unwrap();
        let fake = FakeHBase::builder().release(release).listen().await.unwrap();
        let fake_uri = fake.uri();
        let real = Cluster::connect(&cluster.rpc_uri).await;
        let fake_cluster = Cluster::connect(&fake_uri).await;
        println!("{version}: {sequences} sequences from seed {seed}");
        let began = Instant::now();
        let compared =
            tokio::task::spawn_blocking(move || compare(&real, &fake_cluster, seed, sequences)).await;
        let differences = compared.unwrap();
        println!(
            "{version}: {} differences in {} operations, {} s",
            differences.len(),
            sequences * operations::LENGTH as u64,
            began.elapsed().as_secs()
        );
        println!(
            "{version}: {} operations were not sent, because the fake refuses them",
            fake.take_refusals().len()
        );
        for difference in &differences {
            println!("{version}: {difference}");
        }
        found += differences.len();
    }
    assert_eq!(found, 0, "differences");
}
