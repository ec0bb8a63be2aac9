//! The state of a cluster between commands: the state file, the pid files, its identity.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    HBaseVersion, failure,
    layout::{Layout, read_if_present, remove, write_atomically},
    ports::Ports,
    process::Process,
    properties::Properties,
    role::{Role, Shape},
    tls::Tls,
};
use crate::{Error, ErrorKind, Result};

/// The progress of the last command. Together with the live processes it determines the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Phase {
    /// `up` is in progress, or was interrupted.
    Booting,
    /// `up` has verified that the cluster serves requests.
    Running,
    /// `down` is in progress, or was interrupted.
    Stopping,
    /// No process is running; the data exists.
    Stopped,
}

/// The state file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// The version of the file format, for later versions of this crate.
    pub(super) format: u32,
    pub(super) version: HBaseVersion,
    pub(super) shape: Shape,
    pub(super) phase: Phase,
    /// Whether the cluster ever served requests. Before that it has no data worth keeping.
    pub(super) served: bool,
    pub(super) properties: Properties,
    /// Whether it has a Thrift gateway.
    #[serde(default)]
    pub(super) thrift: bool,
    /// Whether its servers and clients authenticate each other with Kerberos.
    #[serde(default)]
    pub(super) kerberos: bool,
    /// The identities that TLS proves, if its servers speak TLS.
    #[serde(default)]
    pub(super) tls: Option<Tls>,
    /// Whether its processes run with the Java options for measurements.
    #[serde(default)]
    pub(super) performance: bool,
    pub(super) ports: Option<Ports>,
}

impl State {
    const FORMAT: u32 = 1;

    pub(super) fn new(version: HBaseVersion, shape: Shape) -> Self {
        Self {
            format: Self::FORMAT,
            version,
            shape,
            phase: Phase::Stopped,
            served: false,
            properties: Properties::new(),
            thrift: false,
            kerberos: false,
            tls: None,
            performance: false,
            ports: None,
        }
    }

    pub(super) fn load(layout: &Layout) -> Result<Option<Self>> {
        let path = layout.state_file();
        let Some(text) = read_if_present(&path)? else {
            return Ok(None);
        };
        match serde_json::from_str::<Self>(&text) {
            Ok(state) if state.format == Self::FORMAT => Ok(Some(state)),
            Ok(state) => Err(Error::new(
                ErrorKind::Unusable,
                format!(
                    "{} was written by another version of this crate (format {})",
                    path.display(),
                    state.format
                ),
            )
            .with_hint("use that version, or delete the cluster and its data")),
            Err(error) => Err(
                Error::new(ErrorKind::Unusable, format!("{} is damaged", path.display())).with_source(error),
            ),
        }
    }

    /// Returns all its processes in the order of their dependencies.
    pub(super) fn roles(&self) -> Vec<Role> {
        let kdc = self.kerberos.then_some(Role::Kdc);
        let mut roles: Vec<Role> = kdc.into_iter().chain(self.shape.roles()).collect();
        roles.extend(self.thrift.then_some(Role::Thrift));
        roles
    }

    pub(super) fn save(&self, layout: &Layout) -> Result<()> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| failure("can't write the state").with_source(error))?;
        write_atomically(&layout.state_file(), &text)
    }

    pub(super) fn enter(&mut self, phase: Phase, layout: &Layout) -> Result<()> {
        self.phase = phase;
        self.save(layout)
    }
}

/// The argument that all processes of a cluster have on their command lines, and no other process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marker(String);

impl Marker {
    pub(super) fn load(layout: &Layout) -> Result<Option<Self>> {
        let id = read_if_present(&layout.id_file())?;
        Ok(id
            .map(|id| id.trim().to_owned())
            .filter(|id| !id.is_empty())
            .map(|id| Self::of(&id)))
    }

    pub(super) fn load_or_create(layout: &Layout) -> Result<Self> {
        if let Some(marker) = Self::load(layout)? {
            return Ok(marker);
        }
        let id = format!("{:032x}", fastrand::u128(..));
        write_atomically(&layout.id_file(), &id)?;
        Ok(Self::of(&id))
    }

    fn of(id: &str) -> Self {
        Self(format!("-Dhbase-txn.cluster={id}"))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the live processes of a cluster, by role.
pub(super) fn live_processes(
    layout: &Layout,
    marker: &Marker,
    state: &State,
) -> Result<BTreeMap<Role, Process>> {
    let mut live = BTreeMap::new();
    for role in state.roles() {
        let recorded = read_if_present(&layout.pids().join(role.to_string()))?;
        if let Some(process) = recorded.as_deref().and_then(Process::parse)
            && process.is_alive(marker.as_str())
        {
            live.insert(role, process);
        }
    }
    Ok(live)
}

/// Returns all live processes of a cluster, even those without a pid file: a killed command may not
/// have recorded a process that it started.
pub(super) fn all_processes(marker: &Marker) -> BTreeSet<Process> {
    Process::find_all(marker.as_str())
}

pub(super) fn record_process(layout: &Layout, role: Role, process: &Process) -> Result<()> {
    write_atomically(&layout.pids().join(role.to_string()), &format!("{process}\n"))
}

pub(super) fn forget_process(layout: &Layout, role: Role) -> Result<()> {
    remove(&layout.pids().join(role.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Home;

    fn layout(folder: &tempfile::TempDir) -> Layout {
        let layout = Layout::new(&Home::new(folder.path(), folder.path()), "x").unwrap();
        layout.create().unwrap();
        layout
    }

    #[test]
    fn is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let layout = layout(&folder);
        assert_eq!(State::load(&layout).unwrap(), None);
        let mut state = State::new(HBaseVersion::V2_5, Shape::Distributed { region_servers: 3 });
        state.properties.insert("a".into(), "b".into());
        state.ports = Some(Ports::choose(Some(3), &Properties::new(), None).unwrap());
        state.enter(Phase::Booting, &layout).unwrap();
        assert_eq!(State::load(&layout).unwrap(), Some(state));
    }

    #[test]
    fn a_damaged_file_and_one_of_the_future_name_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let layout = layout(&folder);
        let mut state = State::new(HBaseVersion::V2_6, Shape::Standalone);
        state.format = 99;
        state.save(&layout).unwrap();
        let future = State::load(&layout).unwrap_err();
        std::fs::write(layout.state_file(), "{\"format\":1,").unwrap();
        let damaged = State::load(&layout).unwrap_err();
        for error in [future, damaged] {
            assert!(error.hint().unwrap().contains("delete the cluster"), "{error}");
        }
    }

    #[test]
    fn a_pid_file_that_names_another_process_counts_as_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let layout = layout(&folder);
        let marker = Marker::load_or_create(&layout).unwrap();
        assert_eq!(Marker::load(&layout).unwrap(), Some(marker.clone()));
        let own = format!("{} 1 x", std::process::id());
        std::fs::write(layout.pids().join("standalone"), own).unwrap();
        assert!(
            live_processes(
                &layout,
                &marker,
                &State::new(HBaseVersion::V2_6, Shape::Standalone)
            )
            .unwrap()
            .is_empty()
        );
        assert!(all_processes(&marker).is_empty());
    }
}
