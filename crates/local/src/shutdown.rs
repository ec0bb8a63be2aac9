//! Stopping a cluster without losing data.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;

use super::{
    layout::{Layout, remove},
    ports::Ports,
    process::{self, Process},
    ready,
    role::{Role, Shape},
    state::{self, Marker, State},
};
use crate::Result;

/// The limit of the master's answer.
const ANSWER_TAKES: Duration = Duration::from_secs(5);

/// The least time that a server has between SIGTERM and SIGKILL.
const LEAST_GRACE: Duration = Duration::from_secs(5);

/// Ends all processes of a cluster that serves.
///
/// The master shuts HBase down, which flushes and closes every region in order; only processes that
/// do not end get a signal. A signal alone would suffice for a distributed cluster, but in a
/// standalone one the master may take ZooKeeper away from the region server, which then tries for
/// twenty seconds to report that it is done.
pub(super) async fn gracefully(
    layout: &Layout,
    marker: &Marker,
    state: &State,
    deadline: Instant,
) -> Result<()> {
    let live = state::live_processes(layout, marker, state)?;
    // The gateway first: it has nothing to lose, and would outlive HBase.
    if let Some(gateway) = live.get(&Role::Thrift) {
        process::end(&BTreeSet::from([gateway.clone()]), marker.as_str(), LEAST_GRACE).await?;
    }
    let hbase: BTreeSet<Process> = match state.shape {
        // A lost or damaged pid file is no reason to be less careful with the data.
        Shape::Standalone => state::all_processes(marker),
        Shape::Distributed { .. } => live
            .into_iter()
            .filter_map(|(role, process)| role.is_hbase().then_some(process))
            .collect(),
    };
    if let Some(ports) = &state.ports
        && !hbase.is_empty()
        && ask_to_shut_down(ports, ANSWER_TAKES).await.is_ok()
    {
        // Two thirds of the time for the orderly way.
        let orderly = Instant::now() + left(deadline) * 2 / 3;
        process::wait_for_end(&hbase, marker.as_str(), orderly).await;
    }
    process::end(&hbase, marker.as_str(), grace(deadline)).await?;
    process::end(&state::all_processes(marker), marker.as_str(), grace(deadline)).await?;
    remove(&layout.pids())
}

/// Ends all processes of a cluster that never served, or that lost a part it can't do without.
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
async fn ask_to_shut_down(ports: &Ports, timeout: Duration) -> Result<()> {
    let connection = ready::connect(ports, timeout).await?;
    connection.admin().shut_down_cluster().await?;
    connection.close().await;
    Ok(())
}
