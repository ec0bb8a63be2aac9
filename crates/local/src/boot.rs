//! The steps of booting a cluster.

use std::{collections::BTreeMap, fs, time::Duration};

use tokio::time::{Instant, sleep};

use super::{
    Progress, config,
    diagnose::{self, Cause, Diagnosis, log_of},
    failure, kerberos,
    ports::Ports,
    process::{self, Process},
    ready::{self, Serving},
    role::{Role, Shape},
    server::Launcher,
    state::{self, Phase, State},
    tls, wait,
};
use crate::{Error, Result};

/// Attempts of a boot if another process takes a port between our choice and HBase's bind.
const ATTEMPTS: u32 = 3;

/// How long the ports of an earlier boot are waited for: a process that was killed has its own until the
/// last of its threads has ended.
const RELEASE_OF_PORTS: Duration = Duration::from_secs(3);

/// The time between SIGTERM and SIGKILL of processes that have no data yet.
const END_TAKES: Duration = Duration::from_secs(5);

/// The NameNode logs this line when a DataNode is registered and blocks can be written.
const HDFS_READY: &str = "Safe mode is OFF";

/// A boot in progress.
#[derive(Clone)]
pub(super) struct Boot<'a> {
    pub(super) launcher: &'a Launcher<'a>,
    pub(super) progress: &'a Progress,
    pub(super) deadline: Instant,
    /// The time from the start to the deadline, for error messages.
    pub(super) timeout: Duration,
}

/// The error of a failed boot, and its cause.
struct Failed {
    cause: Cause,
    error: Error,
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self {
            cause: Cause::Unknown,
            error,
        }
    }
}

impl Boot<'_> {
    /// Boots the cluster that `state` describes. If it fails, no process is left running.
    pub(super) async fn run(&self, state: &mut State) -> Result<()> {
        let layout = self.launcher.layout;
        if state.tls.is_some() {
            (self.progress)("creating keys for TLS");
            tls::create_stores(layout, &self.launcher.java).await?;
        }
        let mut previous = state.ports.take();
        if let Some(ports) = &previous {
            wait::until(Instant::now() + RELEASE_OF_PORTS, || ports.are_free()).await;
        }
        let mut attempt = 1;
        loop {
            let ports = Ports::choose(state.shape.region_servers(), &state.properties, previous.as_ref())?;
            let ports = if state.thrift { ports.with_thrift()? } else { ports };
            let ports = if state.kerberos { ports.with_kdc()? } else { ports };
            state.ports = Some(ports.clone());
            if !state.served {
                // An interrupted first boot left incomplete folders, which have no data.
                super::layout::remove(&layout.data())?;
            }
            layout.create()?;
            config::write(layout, state, &ports)?;
            state.enter(Phase::Booting, layout)?;
            let Err(Failed { cause, error }) = self.attempt(&ports).await else {
                state.served = true;
                return state.enter(Phase::Running, layout);
            };
            let cleaned = self.clean_up().await;
            state.enter(Phase::Stopped, layout)?;
            cleaned?;
            if cause != Cause::PortTaken || attempt == ATTEMPTS || Instant::now() >= self.deadline {
                return Err(if attempt == 1 {
                    error
                } else {
                    error.at_attempt(attempt)
                });
            }
            attempt += 1;
            previous = None;
            (self.progress)("a port was taken in the meantime; trying again with others");
        }
    }

    /// Starts region servers of a running cluster, and waits until the master knows them.
    pub(super) async fn add_region_servers(&self, numbers: &[u16], ports: &Ports) -> Result<()> {
        let mut started = BTreeMap::new();
        let add = async |started: &mut BTreeMap<_, _>| {
            for number in numbers {
                self.start(Role::RegionServer(*number), ports, started).await?;
            }
            let serving = self.serving(ports, numbers.to_vec());
            self.wait_until_serving(&serving, started).await
        };
        let added = add(&mut started).await;
        self.end_unless(added, started).await
    }

    /// Starts the master of a running cluster, and waits until it serves.
    pub(super) async fn add_master(&self, ports: &Ports) -> Result<()> {
        let mut started = BTreeMap::new();
        let add = async |started: &mut BTreeMap<_, _>| {
            self.start(Role::Master, ports, started).await?;
            let serving = self.serving(ports, Vec::new());
            self.wait_until_serving(&serving, started).await
        };
        let added = add(&mut started).await;
        self.end_unless(added, started).await
    }

    /// Starts the Thrift gateway of a running cluster, and waits until it answers.
    pub(super) async fn add_gateway(&self, ports: &Ports) -> Result<()> {
        let mut started = BTreeMap::new();
        let added = self.start_gateway(ports, &mut started).await;
        self.end_unless(added, started).await
    }

    /// Stops the processes that were started to be added, if that failed: the next command would count
    /// them as ready.
    async fn end_unless(&self, added: Result<(), Failed>, started: BTreeMap<Role, Process>) -> Result<()> {
        if added.is_err() {
            let started = started.into_values().collect();
            process::end(&started, self.launcher.marker.as_str(), END_TAKES).await?;
        }
        Ok(added?)
    }

    async fn start_gateway(
        &self,
        ports: &Ports,
        started: &mut BTreeMap<Role, Process>,
    ) -> Result<(), Failed> {
        let Some(port) = ports.thrift else {
            return Ok(());
        };
        (self.progress)("starting the Thrift gateway");
        self.start(Role::Thrift, ports, started).await?;
        loop {
            let answers = ready::gateway_answers(port).await;
            // Another process may have taken the port, and answer there.
            self.check(started)?;
            if answers {
                return Ok(());
            }
            if Instant::now() >= self.deadline {
                return Err(self.late(Role::Thrift, "the Thrift gateway did not answer"));
            }
            sleep(ready::INTERVAL).await;
        }
    }

    async fn attempt(&self, ports: &Ports) -> Result<(), Failed> {
        let mut started = BTreeMap::new();
        if self.launcher.kdc_jars.is_some() {
            self.start_kdc(ports, &mut started).await?;
        }
        let serving = match self.launcher.shape {
            Shape::Standalone => {
                (self.progress)("starting HBase, standalone");
                self.start(Role::Standalone, ports, &mut started).await?;
                self.serving(ports, vec![1])
            }
            Shape::Distributed { region_servers } => {
                self.start_distributed(region_servers, ports, &mut started)
                    .await?;
                self.serving(ports, (1..=region_servers).collect())
            }
        };
        (self.progress)("waiting until HBase serves");
        self.wait_until_serving(&serving, &started).await?;
        self.start_gateway(ports, &mut started).await
    }

    async fn start_kdc(&self, ports: &Ports, started: &mut BTreeMap<Role, Process>) -> Result<(), Failed> {
        (self.progress)("starting the KDC");
        self.start(Role::Kdc, ports, started).await?;
        self.until_logged(Role::Kdc, kerberos::KDC_READY, "the KDC did not start", started)
            .await
    }

    /// Waits until a process has logged this text.
    async fn until_logged(
        &self,
        role: Role,
        text: &str,
        late: &str,
        started: &BTreeMap<Role, Process>,
    ) -> Result<(), Failed> {
        let logged = || {
            self.check(started)?;
            let log = fs::read(log_of(self.launcher.layout, role)).unwrap_or_default();
            Ok(String::from_utf8_lossy(&log).contains(text).then_some(()))
        };
        self.until(role, late, logged).await
    }

    async fn start_distributed(
        &self,
        region_servers: u16,
        ports: &Ports,
        started: &mut BTreeMap<Role, Process>,
    ) -> Result<(), Failed> {
        (self.progress)("starting ZooKeeper and HDFS");
        self.start(Role::ZooKeeper, ports, started).await?;
        let layout = self.launcher.layout;
        if !layout.data().join("namenode/current/VERSION").exists() {
            self.format_hdfs().await?;
        }
        self.start(Role::NameNode, ports, started).await?;
        self.start(Role::DataNode, ports, started).await?;
        self.until_logged(Role::NameNode, HDFS_READY, "HDFS did not start", started)
            .await?;
        let servers = if region_servers == 1 {
            "region server"
        } else {
            "region servers"
        };
        (self.progress)(&format!("starting the master and {region_servers} {servers}"));
        self.start(Role::Master, ports, started).await?;
        for number in 1..=region_servers {
            self.start(Role::RegionServer(number), ports, started).await?;
        }
        Ok(())
    }

    async fn format_hdfs(&self) -> Result<(), Failed> {
        let layout = self.launcher.layout;
        let formatting = self.launcher.format_hdfs().await?;
        let marker = self.launcher.marker.as_str();
        let ended = || {
            let alive = formatting
                .as_ref()
                .is_some_and(|process| process.is_alive(marker));
            Ok((!alive).then_some(()))
        };
        self.until(Role::NameNode, "HDFS was not formatted", ended)
            .await?;
        if layout.data().join("namenode/current/VERSION").exists() {
            return Ok(());
        }
        let log = log_of(layout, Role::NameNode);
        let diagnosis = Diagnosis::of_log(&log);
        Err(Failed {
            cause: diagnosis.cause,
            error: diagnosis.into_error("HDFS could not be formatted", &log),
        })
    }

    async fn start(
        &self,
        role: Role,
        ports: &Ports,
        started: &mut BTreeMap<Role, Process>,
    ) -> Result<(), Failed> {
        match self.launcher.start(role, ports).await? {
            Some(process) => {
                started.insert(role, process);
                Ok(())
            }
            None => Err(self.died(role)),
        }
    }

    fn serving<'b>(&'b self, ports: &'b Ports, region_servers: Vec<u16>) -> Serving<'b> {
        Serving {
            layout: self.launcher.layout,
            shape: self.launcher.shape,
            ports,
            region_servers,
            controllers: self.launcher.controllers,
            kerberos: self.launcher.kdc_jars.is_some(),
        }
    }

    async fn wait_until_serving(
        &self,
        serving: &Serving<'_>,
        started: &BTreeMap<Role, Process>,
    ) -> Result<(), Failed> {
        let check = || {
            self.first_dead(started)
                .map_or(Ok(()), |_| Err(failure("a server died")))
        };
        match ready::wait_until_serving(serving, self.deadline, &check).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let slow = match self.launcher.shape {
                    Shape::Standalone => Role::Standalone,
                    Shape::Distributed { .. } => Role::Master,
                };
                Err(self.late(slow, "HBase did not serve"))
            }
            Err(error) => Err(self
                .first_dead(started)
                .map_or_else(|| error.into(), |role| self.died(role))),
        }
    }

    async fn until(
        &self,
        role: Role,
        what: &str,
        probe: impl FnMut() -> Result<Option<()>, Failed> + Send,
    ) -> Result<(), Failed> {
        wait::try_until(self.deadline, probe)
            .await?
            .ok_or_else(|| self.late(role, what))
    }

    fn check(&self, started: &BTreeMap<Role, Process>) -> Result<(), Failed> {
        self.first_dead(started)
            .map_or(Ok(()), |role| Err(self.died(role)))
    }

    fn first_dead(&self, started: &BTreeMap<Role, Process>) -> Option<Role> {
        let marker = self.launcher.marker.as_str();
        started
            .iter()
            .find(|(_, process)| !process.is_alive(marker))
            .map(|(role, _)| *role)
    }

    fn died(&self, role: Role) -> Failed {
        let (cause, error) = diagnose::died(self.launcher.layout, role);
        Failed {
            cause,
            error: error.at_stage(format!("starting {role}")),
        }
    }

    fn late(&self, role: Role, what: &str) -> Failed {
        let error = diagnose::late(&log_of(self.launcher.layout, role), what, self.timeout);
        Failed {
            cause: Cause::Unknown,
            error: error.at_stage(format!("waiting for {role}")),
        }
    }

    /// Stops all processes of a failed attempt.
    async fn clean_up(&self) -> Result<()> {
        let left = state::all_processes(self.launcher.marker);
        process::end(&left, self.launcher.marker.as_str(), END_TAKES).await?;
        super::layout::remove(&self.launcher.layout.pids())
    }
}
