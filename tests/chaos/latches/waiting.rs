//! Waiters, while one server is silent.

use std::time::Duration;

use hbase_txn::{
    Level,
    admin::Admin,
    client::Scan,
    latch::{Latch, WaitOutcome},
};
use tokio::task::JoinHandle;

use super::{FARMS, Rig};
use crate::{
    cluster::{PATIENCE, until},
    proxy::{Action, Proxy},
    settings::Settings,
};

const LATCHES: usize = 60;
const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn latches_of_other_servers_are_told_while_one_server_is_silent() {
    const TEST: &str = "latch_waiting";
    let settings = Settings::of(TEST);
    let rig = Rig::new(TEST, &settings, true).await;
    let proxy = Proxy::new();
    let watched = rig.behind(&proxy).await;
    let (here, there) = (
        rig.latches(&watched, FARMS[0]).await,
        rig.latches(&rig.connection, FARMS[0]).await,
    );
    let id = |number: usize| (number * 12_345).to_string();
    let theirs: Vec<Latch> = (0..LATCHES)
        .map(|number| there.latch(Level::Dc, &id(number)).unwrap())
        .collect();
    for latch in &theirs {
        latch.init(1, HOUR).await.unwrap();
    }
    let waiting: Vec<JoinHandle<WaitOutcome>> = (0..LATCHES)
        .map(|number| {
            let latch = here.latch(Level::Dc, &id(number)).unwrap();
            tokio::spawn(async move { latch.wait(HOUR).await.unwrap() })
        })
        .collect();

    // The latches of the silent server are those in its regions.
    let regions = Admin::new(&rig.connection).regions(&rig.name).await.unwrap();
    let silent = regions[0].server.clone().unwrap();
    let mut rows = rig
        .connection
        .table(rig.name.clone())
        .unwrap()
        .scan(Scan::new())
        .unwrap();
    let (mut away, mut others) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next().await.unwrap() {
        let key = String::from_utf8_lossy(&row.key()[1..]).into_owned();
        let number = (0..LATCHES)
            .find(|number| key.ends_with(&format!("_{}", id(*number))))
            .unwrap();
        let found = regions
            .iter()
            .find(|found| found.region.contains(row.key()))
            .unwrap();
        if found.server.as_ref() == Some(&silent) {
            away.push(number);
        } else {
            others.push(number);
        }
    }
    assert!(!away.is_empty() && !others.is_empty() && away.len() + others.len() == LATCHES);
    let port = silent.port;
    proxy.rule(
        move |request| match (request.port == port, request.method.as_str()) {
            (true, "Multi") => Action::DropRequest,
            _ => Action::Pass,
        },
    );
    let told = async |numbers: &[usize]| {
        for number in numbers {
            theirs[*number].count_down(1).await.unwrap();
        }
        until("news of all", PATIENCE, async || {
            numbers
                .iter()
                .all(|number| waiting[*number].is_finished())
                .then_some(())
        })
        .await;
    };
    told(&others).await;
    assert!(away.iter().all(|number| !waiting[*number].is_finished()));

    proxy.pass_all();
    told(&away).await;
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap(), WaitOutcome::Reached);
    }
    watched.close().await;
    rig.end().await;
}
