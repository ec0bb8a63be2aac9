//! Waiting for latches of which some can't be looked at.

use std::time::Duration;

use hbase_txn::{Connection, Delete, Get, Latch, Level, Put, WaitOutcome};
use tokio::task::JoinHandle;

use crate::support::{
    connect, eventually,
    latch_rows::{latch_manager, latch_row, latch_table},
    table::TestTable,
    within,
};

const LATCHES: usize = 40;
const REGIONS: usize = 4;
const HOUR: Duration = Duration::from_secs(3_600);
const PATIENCE: Duration = Duration::from_secs(60);

fn id(number: usize) -> String {
    format!("{}", number * 12_345)
}

async fn latches(connection: &Connection, table: &TestTable) -> Vec<Latch> {
    let manager = latch_manager(connection, &table.name, "svc", "fra").await;
    (0..LATCHES)
        .map(|number| manager.latch(Level::Dc, &id(number)).unwrap())
        .collect()
}

fn wait(latch: &Latch) -> JoinHandle<WaitOutcome> {
    let latch = latch.clone();
    tokio::spawn(async move { latch.wait(PATIENCE * 2).await.unwrap() })
}

#[tokio::test]
async fn latches_of_a_region_that_is_nowhere_hold_up_no_others() {
    let connection = connect().await;
    let table = latch_table(&connection, "latch_away", REGIONS, true).await;
    let theirs = latches(&connection, &table).await;
    for latch in &theirs {
        latch.init(1, HOUR).await.unwrap();
    }
    let regions = connection.admin().regions(&table.name).await.unwrap();
    let first = latch_row("svc", &id(0));
    let found = regions.iter().find(|found| found.region.contains(&first));
    let away = &found.unwrap().region;
    let of_away = |number: &usize| away.contains(&latch_row("svc", &id(*number)));
    let (away_ones, others): (Vec<_>, Vec<_>) = (0..LATCHES).partition(of_away);
    assert!(!away_ones.is_empty() && !others.is_empty());

    // For who looks for it from now on, the region is on no server.
    let meta = connection.table("hbase:meta".parse().unwrap());
    let row = away.name.clone();
    let found = meta
        .get(Get::new(row.clone()).column("info", "server"))
        .await
        .unwrap();
    let server = found.unwrap().value("info", "server").unwrap().clone();
    let nowhere = Delete::new(row.clone()).column("info", "server");
    meta.delete(nowhere).await.unwrap();
    let here = latches(&connect().await, &table).await;
    let waiting: Vec<_> = here.iter().map(wait).collect();
    let told = async |numbers: &[usize]| {
        for number in numbers {
            theirs[*number].count_down(1).await.unwrap();
        }
        eventually("all are told", async || {
            numbers
                .iter()
                .all(|number| waiting[*number].is_finished())
                .then_some(())
        })
        .await;
    };
    let half = others.len() / 2;
    told(&others[..half]).await;
    // Also those that come later.
    let late = wait(&here[away_ones[0]]);
    told(&others[half..]).await;
    assert!(!late.is_finished());
    assert!(away_ones.iter().all(|number| !waiting[*number].is_finished()));

    meta.put(Put::new(row).cell("info", "server", server))
        .await
        .unwrap();
    told(&away_ones).await;
    assert_eq!(within(PATIENCE, late).await.unwrap(), WaitOutcome::Reached);
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap(), WaitOutcome::Reached);
    }
}
