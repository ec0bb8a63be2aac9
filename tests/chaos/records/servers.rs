//! Records while regions move and servers are killed.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use hbase_txn::{
    ErrorKind, Outcome, Recorded, Settled, TransactionId,
    admin::Admin,
    client::{Increment, ServerName},
};

use super::{
    BRIEF, COMMIT, LONG, MARKS, PARTITIONS, Rig, bare, id, is_replayed, marks_row, settled, transaction,
    unknown,
};
use crate::{
    cluster::{PATIENCE, until},
    proxy::Action,
    regions::Shuffler,
};

/// Ids of each partition that were committed, and ids that were settled as not applied.
struct Known {
    committed: Vec<(&'static str, TransactionId)>,
    aborted: Vec<(&'static str, TransactionId)>,
}

impl Known {
    /// The proxy holds the requests of those that were not applied.
    async fn make(rig: &Rig, what: &str) -> Self {
        let mut known = Self {
            committed: Vec::new(),
            aborted: Vec::new(),
        };
        for partition in PARTITIONS {
            let committed = id(format!("{what}-committed"));
            let outcome = transaction(&rig.table, LONG, partition, &committed)
                .commit()
                .await;
            assert!(outcome.is_committed(), "{outcome}");
            known.committed.push((partition, committed));
            let aborted = id(format!("{what}-aborted"));
            rig.proxy.once(COMMIT, Action::Hold);
            let unsettled = unknown(transaction(&rig.table, BRIEF, partition, &aborted).commit().await);
            rig.proxy.pass_all();
            assert_eq!(settled(&unsettled).await, Settled::NotApplied);
            known.aborted.push((partition, aborted));
        }
        known
    }

    /// Asserts that all outcomes are still known.
    async fn check(&self, rig: &Rig, what: &str) {
        for (partition, id) in &self.committed {
            let outcome = transaction(&rig.table, PATIENCE, partition, id).commit().await;
            assert!(is_replayed(&outcome), "{what}: {outcome}");
            assert_eq!(rig.applied(partition, id).await, 1, "{what}");
        }
        for (partition, id) in &self.aborted {
            let recorded = rig.other.outcome(*partition, id).await.unwrap();
            assert_eq!(recorded, Recorded::Aborted, "{what}");
            assert_eq!(rig.applied(partition, id).await, 0, "{what}");
        }
    }
}

/// Returns the server of each region, by its start key.
async fn servers(shuffler: &Shuffler) -> HashMap<Bytes, ServerName> {
    let regions = shuffler.regions().await;
    regions
        .into_iter()
        .map(|found| (found.region.start_key, found.server.unwrap()))
        .collect()
}

#[tokio::test]
async fn records_and_fences_outlive_moves_and_splits() {
    let rig = Rig::new("records_upheaval").await;
    let mut shuffler = Shuffler::new(&rig.connections[1], rig.table.name(), rig.settings.rng(77));
    let admin = Admin::new(&rig.connections[1]);

    // Each region moves away and back, so that the server accepts the late requests.
    let known = Known::make(&rig, "move").await;
    let before = servers(&shuffler).await;
    for region in shuffler.regions().await {
        until("move", PATIENCE, async || {
            shuffler.move_away(&region).await.then_some(())
        })
        .await;
        until("move back", PATIENCE, async || {
            let home = &before[&region.region.start_key];
            admin.move_region(&region.region, home).await.ok()
        })
        .await;
    }
    until("regions at home", PATIENCE, async || {
        (servers(&shuffler).await == before).then_some(())
    })
    .await;
    assert_eq!(rig.proxy.release().await, PARTITIONS.len());
    known.check(&rig, "after moves").await;

    let known = Known::make(&rig, "split").await;
    assert!(shuffler.split_at("k00", PATIENCE).await);
    shuffler.regions().await;
    rig.proxy.release().await;
    known.check(&rig, "after a split").await;

    rig.end().await;
}

#[tokio::test]
async fn lost_answer_is_no_abort_when_the_new_server_refuses() {
    let rig = Rig::new("records_refused").await;
    let (partition, id) = ("iii", id("refused"));
    let mut shuffler = Shuffler::new(&rig.connections[1], rig.table.name(), rig.settings.rng(81));
    // The server of the first attempt.
    let home = OnceLock::new();
    let refused = Arc::new(AtomicBool::new(false));
    let was_refused = Arc::clone(&refused);
    rig.proxy
        .rule(move |request| match (request.method.as_str(), request.port) {
            (COMMIT, port) if port == *home.get_or_init(|| port) => Action::DropAnswer,
            (COMMIT, _) => {
                refused.store(true, Ordering::SeqCst);
                Action::Refuse
            }
            _ => Action::Pass,
        });
    let moving = async {
        until("the first attempt", PATIENCE, async || {
            (rig.applied(partition, &id).await == 1).then_some(())
        })
        .await;
        shuffler.move_region_of(partition.as_bytes()).await;
    };
    // A record of the caller's id would be read beside the attempt.
    let commit = bare(&rig.table, LONG, partition, &id).recorded().commit();
    let (outcome, ()) = tokio::join!(commit, moving);
    rig.proxy.pass_all();
    assert!(was_refused.load(Ordering::SeqCst), "no other server was asked");
    // The new server refuses until the time of the commit is almost over. Its record settles it if it can
    // be read in the rest.
    if !outcome.is_committed() {
        assert_eq!(settled(&unknown(outcome)).await, Settled::Committed);
    }
    assert_eq!(rig.applied(partition, &id).await, 1);
    rig.end().await;
}

/// Kills a server of the table, waits until its regions are served elsewhere, and restarts it.
async fn kill(rig: &Rig, server: u16) {
    let shuffler = Shuffler::new(&rig.connections[1], rig.table.name(), rig.settings.rng(78));
    let before = servers(&shuffler).await;
    rig.cluster.kill(server).await;
    until("regions on other servers", PATIENCE, async || {
        (servers(&shuffler).await != before).then_some(())
    })
    .await;
    rig.cluster.start(server).await;
    rig.cluster.settle(&rig.connections[1]).await;
    shuffler.regions().await;
}

/// Puts a region of the table on each server, so that any killed server has one. Returns the server
/// to kill.
async fn spread(rig: &Rig) -> u16 {
    let admin = Admin::new(&rig.connections[1]);
    let shuffler = Shuffler::new(&rig.connections[1], rig.table.name(), rig.settings.rng(79));
    let live = admin.cluster_info().await.unwrap().live_servers;
    for (region, server) in shuffler.regions().await.iter().zip(&live) {
        if region.server.as_ref() != Some(server) {
            until("move", PATIENCE, async || {
                admin.move_region(&region.region, server).await.ok()
            })
            .await;
        }
    }
    shuffler.regions().await;
    rig.settings.rng(80).u16(1..=3)
}

#[tokio::test]
async fn records_outlive_a_killed_server_on_a_table_without_a_log() {
    let rig = Rig::with_table("records_kill", |descriptor| {
        descriptor.with_attribute("DURABILITY", "SKIP_WAL")
    })
    .await;
    // A mutation with the table's own durability can't be recorded.
    let mut unlogged = rig.table.transaction("aaa");
    let mark = Increment::new(marks_row("aaa")).column(MARKS, "unlogged", 1);
    unlogged = unlogged.recorded().increment(mark);
    let outcome = unlogged.commit().await;
    let Outcome::Invalid(error) = outcome else {
        panic!("{outcome}");
    };
    assert_eq!(error.kind(), ErrorKind::WeakDurability);

    let server = spread(&rig).await;
    let known = Known::make(&rig, "kill").await;
    kill(&rig, server).await;
    rig.proxy.release().await;
    known.check(&rig, "after a server was killed").await;
    rig.end().await;
}
