//! Stopping a cluster without losing data.

use std::{collections::BTreeSet, time::Duration};

use hbase_admin::Admin;
use tokio::time::Instant;

use super::{
    layout::{Layout, remove},
    ports::Ports,
    process::{self, Process},
    ready,
    role::{Role, Shape},
    server::Launcher,
    state::{self, Marker, State},
};
use crate::Result;

/// The limit for an answer of the master.
const ANSWER_TAKES: Duration = Duration::from_secs(5);

/// The same for a Java client, which has to start.
const JAVA_TAKES: Duration = Duration::from_secs(20);

/// The minimum time between SIGTERM and SIGKILL.
const LEAST_GRACE: Duration = Duration::from_secs(5);

/// Stops all processes of a running cluster.
///
/// The master shuts HBase down, which flushes and closes every region in order; only processes that
/// do not end get a signal. For a distributed cluster a signal alone would suffice. In a standalone
/// one the master could stop ZooKeeper before the region server, which would then try for twenty
/// seconds to report its end.
///
/// A cluster with Kerberos needs the launcher for that.
pub(super) async fn gracefully(
    layout: &Layout,
    marker: &Marker,
    launcher: Option<&Launcher<'_>>,
    state: &State,
    deadline: Instant,
) -> Result<()> {
    let live = state::live_processes(layout, marker, state)?;
    // First the gateway, which has no data and would otherwise outlive HBase.
    if let Some(gateway) = live.get(&Role::Thrift) {
        process::end(&BTreeSet::from([gateway.clone()]), marker.as_str(), LEAST_GRACE).await?;
    }
    let hbase: BTreeSet<Process> = match state.shape {
        // All processes, because a lost or damaged pid file must not endanger the data.
        Shape::Standalone => {
            let kdc = live.get(&Role::Kdc);
            let all = state::all_processes(marker).into_iter();
            all.filter(|process| Some(process) != kdc).collect()
        }
        Shape::Distributed { .. } => live
            .into_iter()
            .filter_map(|(role, process)| role.is_hbase().then_some(process))
            .collect(),
    };
    if let Some(ports) = &state.ports
        && !hbase.is_empty()
        && match (state.kerberos, launcher) {
            (true, Some(launcher)) => launcher.shut_down_with_ticket(JAVA_TAKES).await.is_ok(),
            (true, None) => false,
            (false, _) => ask_to_shut_down(layout, ports, ANSWER_TAKES).await.is_ok(),
        }
    {
        // Two thirds of the time are for the orderly shutdown.
        let orderly = Instant::now() + left(deadline) * 2 / 3;
        process::wait_for_end(&hbase, marker.as_str(), orderly).await;
    }
    process::end(&hbase, marker.as_str(), grace(deadline)).await?;
    process::end(&state::all_processes(marker), marker.as_str(), grace(deadline)).await?;
    remove(&layout.pids())
}

/// Stops all processes of a cluster that never served requests, or that lost a required process.
pub(super) async fn leftovers(layout: &Layout, marker: &Marker) -> Result<()> {
    process::end(&state::all_processes(marker), marker.as_str(), LEAST_GRACE).await?;
    remove(&layout.pids())
}

fn grace(deadline: Instant) -> Duration {
    left(deadline).max(LEAST_GRACE)
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Calls the master to stop the cluster, as `stop-hbase.sh` does.
async fn ask_to_shut_down(layout: &Layout, ports: &Ports, timeout: Duration) -> Result<()> {
    let connection = ready::connect(layout, ports, timeout).await?;
    Admin::new(&connection).shut_down_cluster().await?;
    connection.close().await;
    Ok(())
}
