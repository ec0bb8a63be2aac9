//! A connection that becomes silent while new ones are answered; and a server that is only slow.

use std::{collections::BTreeSet, time::Duration};

use hbase_txn::{
    Outcome, TableDescriptorExt, TransactionId,
    admin::Admin,
    client::{Get, Increment, Put, Scan},
};
use tokio::time::{Instant, sleep, timeout};

use super::{COMMIT, Rig};
use crate::{
    cluster::{FAMILY, QUALIFIER, create_table_as, drop_table},
    proxy::Action,
    settings::Settings,
};

/// Between the six seconds until a silent connection is detected, and the timeouts of reads and
/// writes.
const SOON: Duration = Duration::from_secs(15);

#[tokio::test]
async fn calls_that_can_be_repeated_leave_a_silent_connection_soon() {
    const TEST: &str = "silent_connection";
    let settings = Settings::of(TEST);
    let rig = Rig::new(TEST, &settings, |config| config).await;
    let name = create_table_as(&rig.connection, &settings, TEST, &[], |descriptor| {
        descriptor.with_record_family()
    });
    let name = name.await.unwrap();
    let recorded = hbase_txn::PartitionedTable::open(&rig.connection, name.clone())
        .await
        .unwrap();
    let commit = async || {
        let mut transaction = recorded.transaction("iii").id(TransactionId::unique());
        let increment = Increment::new("iiicount").column(FAMILY, QUALIFIER, 1);
        transaction = transaction.increment(increment);
        transaction.commit().await
    };
    assert!(commit().await.is_committed());
    let table = recorded.table();
    let put = || Put::new("iiiput").cell(FAMILY, "stamped", "v").timestamp(1);
    let began = Instant::now();
    rig.proxy.once(COMMIT, Action::Blackhole);
    let outcome = commit().await;
    assert!(outcome.is_committed(), "{outcome}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());

    let began = Instant::now();
    rig.proxy.once("Mutate", Action::Blackhole);
    table.put(put()).await.unwrap();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());

    let began = Instant::now();
    rig.proxy.once("Get", Action::Blackhole);
    let row = table.get(Get::new("iiicount")).await.unwrap().unwrap();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let count = row.cell(FAMILY, QUALIFIER).unwrap();
    assert_eq!(count.value, 2i64.to_be_bytes().to_vec(), "applied once each");
    drop_table(&rig.connection, &recorded).await;
    rig.end().await;
}

#[tokio::test]
async fn write_is_not_sent_on_a_connection_that_died_while_it_was_idle() {
    const TEST: &str = "silent_idle";
    let settings = Settings::of(TEST);
    let mut rig = Rig::new(TEST, &settings, |config| config).await;
    rig.proxy.once("Get", Action::Blackhole);
    let table = rig.table.table().clone();
    timeout(Duration::from_secs(1), table.get(Get::new("iii")))
        .await
        .unwrap_err();
    // Longer than a connection may be idle before a write; the ping, a `Get`, tests it.
    sleep(Duration::from_secs(11)).await;
    let (began, sent) = (Instant::now(), rig.proxy.requests(COMMIT));
    let pings = rig.proxy.requests("Get");
    let (outcome, group) = rig.commit("iii").await;
    assert!(matches!(outcome, Outcome::Committed(_)), "{outcome}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(rig.proxy.requests(COMMIT) - sent, 1);
    assert!(rig.proxy.requests("Get") > pings, "no ping before the write");
    assert!(rig.is_there(&group).await);
    rig.end().await;
}

#[tokio::test]
async fn slow_answers_of_servers_that_answer_pings_are_waited_for() {
    const TEST: &str = "slow_answers";
    const SLOW: Duration = Duration::from_secs(7);
    let settings = Settings::of(TEST);
    let rig = Rig::new(TEST, &settings, |config| config).await;
    let table = rig.table.table();
    let admin = Admin::new(&rig.connection);
    // All connections are open already.
    admin.flush_table(rig.table.name()).await.unwrap();
    let dialled = rig.proxy.dialled();
    let methods = ["Scan", "GetTableNames", "FlushRegion"];
    let before = methods.map(|method| rig.proxy.requests(method));
    let mut delayed = BTreeSet::new();
    rig.proxy.rule(move |request| {
        let method = methods.iter().find(|method| **method == request.method);
        if method.is_some_and(|method| delayed.insert(*method)) {
            Action::DelayAnswer(SLOW)
        } else {
            Action::Pass
        }
    });
    let began = Instant::now();
    let mut scanner = table.scan(Scan::prefix("iii")).unwrap();
    let (row, tables, flushed) = tokio::join!(
        scanner.next(),
        admin.tables(),
        admin.flush_table(rig.table.name())
    );
    row.unwrap();
    tables.unwrap();
    flushed.unwrap();
    assert!(began.elapsed() >= SLOW, "{:?}", began.elapsed());
    // Closing the scanner is a separate request; regions are flushed one after the other.
    for ((method, before), most) in methods.iter().zip(before).zip([2, 1, 3]) {
        let sent = rig.proxy.requests(method) - before;
        assert!(sent <= most, "{method} was sent {sent} times");
    }
    for ping in ["Get", "IsMasterRunning", "GetServerInfo"] {
        assert!(rig.proxy.requests(ping) > 0, "no {ping}");
    }
    assert_eq!(
        rig.proxy.dialled(),
        dialled,
        "a connection that answered pings was left"
    );
    rig.end().await;
}
