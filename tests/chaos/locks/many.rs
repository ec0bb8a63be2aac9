//! Many leases of one process, which are renewed in company, and a region server that is killed.

use std::time::Duration;

use futures::{StreamExt, future::try_join_all, stream};
use hbase_test_support::resident_bytes;
use hbase_txn::{Level, client::Connection, lock::LockGuard};
use tokio::time::{Instant, sleep, sleep_until};

use super::{Rig, Sort, locks_of, request};
use crate::{proxy::Proxy, settings::Settings};

const SERVERS: f64 = 3.0;
/// What may remain of a lease when its renewal is due.
const LEFT: f64 = 2.0 / 3.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_one_process_share_calls_and_survive_a_killed_server() {
    const TEST: &str = "many_leases";
    let settings = Settings::of(TEST);
    let number = Settings::cycles(300, 10_000);
    // A server's regions are opened elsewhere about 20 s after its end.
    let (lease, time) = match number {
        ..1_000 => (Duration::from_secs(60), Duration::from_secs(25)),
        _ => (Duration::from_secs(30), Duration::from_secs(600)),
    };
    let rig = Rig::new(TEST, &settings, Sort::WithCompanions).await;
    let proxy = Proxy::new();
    let builder = Connection::builder(rig.cluster.config()).connector(proxy.clone());
    let connection = builder.connect().await.unwrap();
    let locks = locks_of(&connection, &rig.name).await;
    let (began, memory) = (Instant::now(), resident_bytes());
    let acquired = stream::iter(0..number).map(|id| {
        let request = request(&locks, &id.to_string(), lease).auto_renew();
        async move { request.acquire().await.unwrap() }
    });
    let held: Vec<LockGuard> = acquired.buffer_unordered(64).collect().await;
    let each = resident_bytes().saturating_sub(memory) / number;
    println!(
        "{TEST}: acquired {number} after {:?}, {each} bytes of memory for each",
        began.elapsed()
    );

    let before = proxy.requests("Multi");
    sleep(time).await;
    let calls = (proxy.requests("Multi") - before) as f64 / time.as_secs_f64();
    let lost = || held.iter().filter(|guard| !guard.is_held()).count();
    println!("{TEST}: {calls:.2} calls a second, {} lost", lost());
    assert_eq!(lost(), 0, "HBase is healthy");
    // Of each server, calls that renew up to 64 locks with two rows, and one that reads after each.
    let renewals = number as f64 / (lease / 3).as_secs_f64() / SERVERS;
    let most = 2.0 * SERVERS * (renewals / 64.0).ceil();
    assert!(calls <= most, "{calls} calls a second, {most} allowed");

    let server = settings.rng(1).u16(1..=3);
    rig.cluster.kill(server).await;
    let killed = Instant::now();
    let others = rig.locks().await;
    let everywhere = (0..number).step_by(number.div_ceil(64)).map(|id| {
        let id = id.to_string();
        let others = &others;
        async move { others.show(Level::Dc, &id).await }
    });
    try_join_all(everywhere).await.unwrap();
    let away = killed.elapsed();
    // What was not renewed since has ended by then.
    sleep_until(killed + lease.max(away)).await;
    println!("{TEST}: server {server} was away for {away:?}, {} lost", lost());
    if away < lease.mul_f64(LEFT) - Duration::from_secs(3) {
        assert_eq!(lost(), 0, "the server was replaced within the leases");
    }
    rig.cluster.start(server).await;
    rig.cluster.settle(&rig.connection).await;
    drop(held);
    locks.background_done().await;
    connection.close().await;
    rig.end().await;
}
