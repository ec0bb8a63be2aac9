//! The status of a cluster, for people and programs.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Serialize;

use super::{
    HBaseVersion, Home, Shape, client_conf, diagnose,
    jars::{self, Bundle},
    kerberos,
    layout::Layout,
    lock::FileLock,
    ports::Ports,
    properties::ZNODE,
    role::Role,
    state::{self, Marker, Phase, State},
};
use crate::Result;

/// The status of a local cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ClusterStatus {
    /// The cluster's name.
    pub name: String,
    /// The URI of its ZooKeeper while it is running.
    pub uri: Option<String>,
    /// The URI of its master while it is running.
    pub rpc_uri: Option<String>,
    /// The release of HBase, or `None` if the cluster does not exist.
    pub version: Option<HBaseVersion>,
    /// Its state.
    pub state: ClusterState,
    /// The pids of its live processes, by name.
    pub pids: BTreeMap<String, i32>,
    /// The ports of its servers, now or when it last ran. All are on 127.0.0.1.
    pub ports: BTreeMap<String, u16>,
    /// The folders of its data, logs, configuration, pids and jars.
    pub folders: BTreeMap<String, PathBuf>,
    /// The variables that clients of a cluster with Kerberos or TLS need: `HBASE_CONF_DIR` with the
    /// configuration of a client, and `KRB5_CONFIG`. Empty for others, and while it is not running.
    pub environment: BTreeMap<String, String>,
    /// What went wrong, with the last fatal line of a log, if the cluster is not as it should be.
    pub reason: Option<String>,
    /// Its shape, or `None` if the cluster does not exist.
    #[serde(skip)]
    pub shape: Option<Shape>,
}

/// The state of a local cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ClusterState {
    /// All its processes are alive.
    Running,
    /// It serves requests, but a region server or its Thrift gateway is missing.
    Degraded,
    /// All its processes are alive, but it does not answer: they are suspended, or hang.
    Unresponsive,
    /// `up` is in progress.
    Booting,
    /// `down` is in progress.
    Stopping,
    /// It was stopped, or never served requests; its data exists.
    Stopped,
    /// A command that changed it was interrupted, or a required process has ended. The next `up` or
    /// `down` repairs it.
    Broken,
    /// The cluster does not exist.
    Absent,
}

impl ClusterState {
    /// Returns whether clients can use the cluster.
    #[must_use]
    pub fn is_running(self) -> bool {
        matches!(self, Self::Running | Self::Degraded)
    }

    /// Returns the name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Degraded => "degraded",
            Self::Unresponsive => "unresponsive",
            Self::Booting => "booting",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Broken => "broken",
            Self::Absent => "absent",
        }
    }
}

/// Reads the status of a cluster without changing it.
pub(super) fn read(home: &Home, layout: &Layout, name: &str) -> Result<ClusterStatus> {
    let mut status = ClusterStatus {
        name: name.to_owned(),
        uri: None,
        rpc_uri: None,
        version: None,
        state: ClusterState::Absent,
        pids: BTreeMap::new(),
        ports: BTreeMap::new(),
        folders: BTreeMap::new(),
        environment: BTreeMap::new(),
        reason: None,
        shape: None,
    };
    let Some(marker) = Marker::load(layout)? else {
        return Ok(status);
    };
    let Some(state) = State::load(layout)? else {
        // A command was interrupted before it wrote the state.
        if layout.root().is_dir() {
            status.state = ClusterState::Stopped;
        }
        return Ok(status);
    };
    let live = state::live_processes(layout, &marker, &state)?;
    status.state = judge(
        &state,
        &live.keys().copied().collect::<Vec<_>>(),
        FileLock::is_held(&layout.lock_file()),
    );
    if matches!(status.state, ClusterState::Broken | ClusterState::Degraded) {
        status.reason = Some(reason(layout, &state, |role| live.contains_key(role)));
    }
    status.version = Some(state.version);
    status.shape = Some(state.shape);
    status.pids = live
        .iter()
        .map(|(role, process)| (role.to_string(), process.pid()))
        .collect();
    if let Some(ports) = &state.ports {
        status.ports = named(ports, state.shape);
        if status.state.is_running() {
            status.uri = Some(format!("hbase+zk://127.0.0.1:{}{}", ports.zookeeper, ZNODE));
            status.rpc_uri = Some(format!("hbase+rpc://127.0.0.1:{}", ports.master));
        }
    }
    if status.state.is_running()
        && let Some(folder) = client_conf::folder(layout)
    {
        status.environment = kerberos::environment(layout, &state);
        let folder = folder.display().to_string();
        status.environment.insert("HBASE_CONF_DIR".to_owned(), folder);
    }
    status.folders = [
        ("data", layout.data()),
        ("logs", layout.logs()),
        ("conf", layout.conf()),
        ("pids", layout.pids()),
        ("jars", jars::folder_of(home, Bundle::server(state.version))),
    ]
    .map(|(what, folder)| (what.to_owned(), folder))
    .into();
    Ok(status)
}

fn judge(state: &State, live: &[Role], worked_on: bool) -> ClusterState {
    let roles = state.roles();
    let missing = |expendable: bool| {
        roles
            .iter()
            .any(|role| role.is_expendable() == expendable && !live.contains(role))
    };
    let serves = !missing(false)
        && (state.shape == Shape::Standalone || live.iter().any(|role| role.is_region_server()));
    match state.phase {
        Phase::Running if !serves => ClusterState::Broken,
        Phase::Running if missing(true) => ClusterState::Degraded,
        Phase::Running => ClusterState::Running,
        Phase::Booting if worked_on => ClusterState::Booting,
        Phase::Stopping if worked_on => ClusterState::Stopping,
        Phase::Booting | Phase::Stopping => ClusterState::Broken,
        Phase::Stopped => ClusterState::Stopped,
    }
}

/// Returns what went wrong: the process that has ended, or the command that has.
fn reason(layout: &Layout, state: &State, lives: impl Fn(&Role) -> bool) -> String {
    match (state.phase, state.roles().into_iter().find(|role| !lives(role))) {
        (Phase::Running, Some(role)) => diagnose::why_ended(layout, role),
        (Phase::Stopping, _) => "its stop was interrupted".to_owned(),
        _ => "its start was interrupted".to_owned(),
    }
}

fn named(ports: &Ports, shape: Shape) -> BTreeMap<String, u16> {
    let servers = (1..).zip(&ports.region_servers).map(|(number, port)| {
        let name = match shape {
            Shape::Standalone => "region-server".to_owned(),
            Shape::Distributed { .. } => Role::RegionServer(number).to_string(),
        };
        (name, *port)
    });
    [
        ("zookeeper", Some(ports.zookeeper)),
        ("master", Some(ports.master)),
        ("namenode", ports.namenode),
        ("thrift", ports.thrift),
        ("kdc", ports.kdc),
    ]
    .into_iter()
    .filter_map(|(name, port)| Some((name.to_owned(), port?)))
    .chain(servers)
    .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const ALL: [Role; 6] = [
        Role::NameNode,
        Role::DataNode,
        Role::ZooKeeper,
        Role::Master,
        Role::RegionServer(1),
        Role::RegionServer(2),
    ];

    #[rstest]
    #[case(Phase::Running, &ALL, false, ClusterState::Running)]
    #[case(Phase::Running, &ALL[..5], false, ClusterState::Degraded)]
    #[case(Phase::Running, &ALL[..4], false, ClusterState::Broken)]
    #[case(Phase::Running, &ALL[1..], false, ClusterState::Broken)]
    #[case(Phase::Running, &[], true, ClusterState::Broken)]
    #[case(Phase::Booting, &ALL, true, ClusterState::Booting)]
    #[case(Phase::Booting, &ALL, false, ClusterState::Broken)]
    #[case(Phase::Stopping, &[], false, ClusterState::Broken)]
    #[case(Phase::Stopping, &ALL, true, ClusterState::Stopping)]
    #[case(Phase::Stopped, &[], false, ClusterState::Stopped)]
    fn is_judged_by_the_last_word_and_by_what_lives(
        #[case] phase: Phase,
        #[case] live: &[Role],
        #[case] worked_on: bool,
        #[case] expected: ClusterState,
    ) {
        let mut state = State::new(HBaseVersion::V2_6, Shape::Distributed { region_servers: 2 });
        state.phase = phase;
        assert_eq!(judge(&state, live, worked_on), expected);
    }

    #[test]
    fn cluster_without_its_gateway_is_degraded() {
        let mut state = State::new(HBaseVersion::V2_6, Shape::Standalone);
        (state.phase, state.thrift) = (Phase::Running, true);
        let judged = |live: &[Role]| judge(&state, live, false);
        assert_eq!(judged(&[Role::Standalone, Role::Thrift]), ClusterState::Running);
        assert_eq!(judged(&[Role::Standalone]), ClusterState::Degraded);
        assert_eq!(judged(&[Role::Thrift]), ClusterState::Broken);
    }
}
