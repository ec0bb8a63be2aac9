//! A local cluster, by name.

use std::{collections::BTreeSet, ffi::OsStr, fmt, fs, io, path::Path, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    BootOptions, ClusterState, ClusterStatus, Home, ProcessLog, Progress, Shape,
    boot::Boot,
    diagnose, failure,
    jars::{self, Bundle},
    java::Java,
    layout::{Layout, remove, storage},
    lock::FileLock,
    logs, process,
    ready::{self, Controllers},
    role::Role,
    server::Launcher,
    shutdown,
    state::{self, Marker, Phase, State, forget_process},
    status,
};
use crate::{Error, ErrorKind, Result};

/// A handle to a real HBase on this machine, by name.
///
/// A handle owns no resources: creating or dropping it neither starts nor stops the cluster. Any
/// number of handles and programs may use the same name. Only one of them changes the cluster at a
/// time; the others wait.
///
/// # Cancel safety
///
/// If the future of [`up`](Self::up), [`down`](Self::down), [`kill`](Self::kill) or
/// [`start`](Self::start) is dropped, the work stops at that point; the next `up` or `down` repairs
/// the cluster.
///
/// # Example
///
/// ```no_run
/// use hbase_local::{BootOptions, LocalCluster};
///
/// # async fn example() -> hbase_local::Result<()> {
/// let cluster = LocalCluster::new("default")?;
/// let status = cluster.up(&BootOptions::new()).await?;
/// println!("{}", status.uri.unwrap_or_default());
/// cluster.down().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LocalCluster {
    name: String,
    home: Home,
    layout: Layout,
    timeout: Option<Duration>,
    progress: Progress,
}

impl LocalCluster {
    /// The default limit of `down` and `kill`. The default limit of `start` is that of a boot.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

    /// Creates a handle to the cluster of this name, in the user's own folders.
    ///
    /// # Errors
    ///
    /// Returns an error if the name can't be a folder name, or if the user has no home folder.
    pub fn new(name: &str) -> Result<Self> {
        Self::in_home(name, Home::from_env()?)
    }

    /// Creates a handle to the cluster of this name, in other folders.
    ///
    /// # Errors
    ///
    /// Returns an error if the name can't be a folder name, or if Java can't use the folders
    /// because of their names.
    pub fn in_home(name: &str, home: Home) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            layout: Layout::new(&home, name)?,
            home,
            timeout: None,
            progress: Arc::new(|_| {}),
        })
    }

    /// Sets a callback that is called when a step of long work begins.
    #[must_use]
    pub fn with_progress(mut self, progress: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    /// Sets the limit of `down`, `kill` and `start`. The limit of `up` is set in [`BootOptions`].
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Returns the cluster's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the cluster's folder. [`ClusterStatus::folders`] lists its contents.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.layout.root()
    }

    /// Returns handles to all clusters in these folders, in the order of their names.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder can't be read.
    pub fn all(home: &Home) -> Result<Vec<Self>> {
        let folder = home.state().join("dev");
        let failed = |error| storage("can't read", &folder, error);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut clusters = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            // No cluster has another name. What an interrupted deletion left has one.
            if let (true, Ok(cluster)) = (path.is_dir(), Self::in_home(name, home.clone())) {
                clusters.push(cluster);
            }
        }
        clusters.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(clusters)
    }

    /// Returns the last lines of the logs of all its processes, at most this many of each, and of
    /// those in the last MiB.
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster does not exist, or its files can't be read.
    pub fn logs(&self, lines: usize) -> Result<Vec<ProcessLog>> {
        self.layout.check_owner()?;
        let (state, _) = self.existing()?;
        logs::last_lines(&self.layout, &state, lines)
    }

    /// Returns the status of the cluster, without connecting to it.
    ///
    /// # Errors
    ///
    /// Returns an error if its files can't be read, or belong to another user.
    pub fn status(&self) -> Result<ClusterStatus> {
        self.layout.check_owner()?;
        status::read(&self.home, &self.layout, &self.name)
    }

    /// Returns the status of the cluster, and queries a running cluster for at most five seconds.
    ///
    /// # Errors
    ///
    /// Returns an error if its files can't be read, or belong to another user.
    pub async fn probe(&self) -> Result<ClusterStatus> {
        let mut status = self.status()?;
        if status.state.is_running()
            && let Some(state) = State::load(&self.layout)?
            && let Some(ports) = &state.ports
            && !ready::answers(&self.layout, ports).await
        {
            // The cluster may have been stopped in the meantime.
            status = self.status()?;
            if status.state.is_running() {
                status.state = ClusterState::Unresponsive;
                (status.uri, status.rpc_uri) = (None, None);
                status.reason = diagnose::why_unresponsive(&self.layout, &state);
            }
        }
        Ok(status)
    }

    /// Boots the cluster and waits until it serves requests. Of a running cluster, only missing
    /// region servers and a missing or newly requested Thrift gateway are started.
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster runs with another release or shape, or has data of another
    /// one; if Java or Maven is missing; or if HBase can't start in time. No process of a failed
    /// boot is left running.
    pub async fn up(&self, options: &BootOptions) -> Result<ClusterStatus> {
        needs_linux()?;
        options.fresh()?;
        let lock = self.lock(Instant::now() + options.deadline_after()).await?;
        // Reports obstacles to a boot before any change.
        let status = self.status()?;
        let stored = State::load(&self.layout)?.filter(|stored| stored.served);
        let mut wanted = match &stored {
            Some(stored) => {
                if status.state.is_running() {
                    options.check_running(&self.name, stored)?;
                }
                options.applied_to(&self.name, stored)?
            }
            None => options.fresh()?,
        };
        let has_gateway = status.pids.contains_key(&Role::Thrift.to_string());
        if status.state == ClusterState::Running && (has_gateway || !wanted.thrift) {
            return Ok(status);
        }
        self.layout.create()?;
        let marker = Marker::load_or_create(&self.layout)?;
        let launcher = self.launcher(&wanted, &marker).await?;
        if status.state.is_running() {
            let boot = self.boot(&launcher, options.deadline_after());
            self.add_missing(&boot, &mut wanted, &status).await?;
        } else {
            if !state::all_processes(&marker).is_empty() {
                (self.progress)("stopping the rest of an earlier run");
                match &stored {
                    // It may still hold writes that are not in files.
                    Some(stored) => self.end_gracefully(stored, &marker, self.deadline()).await?,
                    None => shutdown::leftovers(&self.layout, &marker).await?,
                }
            }
            let boot = self.boot(&launcher, options.deadline_after());
            boot.run(&mut wanted).await?;
        }
        drop(lock);
        self.status()
    }

    /// Stops the cluster and keeps its data. Also succeeds if the cluster does not run or does not
    /// exist.
    ///
    /// # Errors
    ///
    /// Returns an error if a process does not end, or files can't be written.
    pub async fn down(&self) -> Result<ClusterStatus> {
        if !self.layout.root().is_dir() {
            return self.status();
        }
        needs_linux()?;
        let deadline = self.deadline();
        let _lock = self.lock(deadline).await?;
        let Some(marker) = Marker::load(&self.layout)? else {
            return self.status();
        };
        match State::load(&self.layout)? {
            Some(mut state) => {
                if state::all_processes(&marker).is_empty() {
                    remove(&self.layout.pids())?;
                } else if state.served {
                    (self.progress)("ending HBase");
                    state.enter(Phase::Stopping, &self.layout)?;
                    self.end_gracefully(&state, &marker, deadline).await?;
                } else {
                    shutdown::leftovers(&self.layout, &marker).await?;
                }
                state.enter(Phase::Stopped, &self.layout)?;
            }
            None => shutdown::leftovers(&self.layout, &marker).await?,
        }
        self.status()
    }

    /// Stops the cluster and deletes its data, logs and settings. Keeps the jars.
    ///
    /// # Errors
    ///
    /// Returns an error if a process does not end, or files can't be deleted.
    pub async fn purge(&self) -> Result<()> {
        if !self.layout.root().is_dir() {
            return Ok(());
        }
        needs_linux()?;
        let _lock = self.lock(self.deadline()).await?;
        (self.progress)("ending HBase and deleting its data");
        if let Some(marker) = Marker::load(&self.layout)? {
            // The data is deleted, so nothing needs to be flushed.
            process::kill(&state::all_processes(&marker), marker.as_str()).await?;
        }
        // The lock is in the folder. In another one, whose name no cluster has, its deletion does not let
        // the next command in too early.
        let deleted = self
            .layout
            .root()
            .with_file_name(format!(".{}.deleted", self.name));
        remove(&deleted)?;
        fs::rename(self.layout.root(), &deleted)
            .map_err(|error| storage("can't rename", self.layout.root(), error))?;
        remove(&deleted)
    }

    /// Kills region server `server`, counted from 1, with SIGKILL: it can neither flush nor
    /// deregister. A standalone cluster is server 1 as a whole.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such server, or it does not run.
    pub async fn kill(&self, server: u16) -> Result<ClusterStatus> {
        needs_linux()?;
        // Checked before the lock, whose file would be the only trace of a cluster that does not
        // exist.
        self.existing()?;
        let _lock = self.lock(self.deadline()).await?;
        let (state, marker) = self.existing()?;
        let role = self.role_of(server, state.shape)?;
        self.kill_role(role, &state, &marker).await
    }

    /// Kills the master with SIGKILL. Region servers keep serving rows, but nothing is administered until
    /// [`start_master`](Self::start_master).
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster is standalone, or its master does not run.
    pub async fn kill_master(&self) -> Result<ClusterStatus> {
        needs_linux()?;
        self.existing()?;
        let _lock = self.lock(self.deadline()).await?;
        let (state, marker) = self.existing()?;
        self.kill_role(Role::Master, &state, &marker).await
    }

    /// Starts the master again, on its previous port, and waits until it serves. A running master is
    /// left unchanged.
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster is standalone or does not run, or if the master does not
    /// start in time.
    pub async fn start_master(&self) -> Result<ClusterStatus> {
        needs_linux()?;
        self.existing()?;
        let timeout = self.timeout.unwrap_or(BootOptions::DEFAULT_TIMEOUT);
        let _lock = self.lock(Instant::now() + timeout).await?;
        let (state, marker) = self.existing()?;
        let live = state::live_processes(&self.layout, &marker, &state)?;
        if live.contains_key(&Role::Master) {
            return self.status();
        }
        let roles = state.shape.roles();
        let needed = roles
            .iter()
            .filter(|role| !role.is_expendable() && **role != Role::Master);
        let runs = state.phase == Phase::Running
            && roles.contains(&Role::Master)
            && needed.into_iter().all(|role| live.contains_key(role));
        let Some(ports) = state.ports.as_ref().filter(|_| runs) else {
            return Err(Error::new(
                ErrorKind::NotRunning,
                format!("cluster {} does not run, or has no separate master", self.name),
            ));
        };
        let launcher = self.launcher(&state, &marker).await?;
        let boot = self.boot(&launcher, timeout);
        (self.progress)("starting the master");
        boot.add_master(ports).await?;
        self.status()
    }

    /// Kills the Thrift gateway with SIGKILL.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no gateway, or it does not run.
    pub async fn kill_thrift(&self) -> Result<ClusterStatus> {
        needs_linux()?;
        self.existing()?;
        let _lock = self.lock(self.deadline()).await?;
        let (state, marker) = self.existing()?;
        self.kill_role(Role::Thrift, &state, &marker).await
    }

    async fn kill_role(&self, role: Role, state: &State, marker: &Marker) -> Result<ClusterStatus> {
        let live = state::live_processes(&self.layout, marker, state)?;
        let process = live.get(&role).ok_or_else(|| {
            failure(format!(
                "the {role} process of cluster {} does not run",
                self.name
            ))
        })?;
        process::kill(&BTreeSet::from([process.clone()]), marker.as_str()).await?;
        forget_process(&self.layout, role)?;
        self.status()
    }

    /// Starts region server `server` again and waits until the master knows it. A running server is
    /// left unchanged. A standalone cluster is server 1 as a whole.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such server, if the rest of the cluster does not run, or if
    /// the server does not start in time.
    pub async fn start(&self, server: u16) -> Result<ClusterStatus> {
        needs_linux()?;
        self.existing()?;
        // The limit of a boot, because this boots a part of the cluster or all of it.
        let timeout = self.timeout.unwrap_or(BootOptions::DEFAULT_TIMEOUT);
        let lock = self.lock(Instant::now() + timeout).await?;
        let (state, marker) = self.existing()?;
        let role = self.role_of(server, state.shape)?;
        if role == Role::Standalone {
            drop(lock);
            return self.up(&BootOptions::new().timeout(timeout)).await;
        }
        let live = state::live_processes(&self.layout, &marker, &state)?;
        if live.contains_key(&role) {
            return self.status();
        }
        let ports = state.ports.as_ref().filter(|_| {
            let needed = state
                .shape
                .roles()
                .into_iter()
                .filter(|role| !role.is_expendable());
            state.phase == Phase::Running && needed.into_iter().all(|role| live.contains_key(&role))
        });
        let Some(ports) = ports else {
            return Err(Error::new(
                ErrorKind::NotRunning,
                format!("cluster {} does not run", self.name),
            ));
        };
        let launcher = self.launcher(&state, &marker).await?;
        let boot = self.boot(&launcher, timeout);
        (self.progress)(&format!("starting region server {server}"));
        boot.add_region_servers(&[server], ports).await?;
        self.status()
    }

    /// Starts the Thrift gateway again, on its previous port if that is free, and waits until it
    /// answers. A running gateway is left unchanged.
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster does not run, has no gateway, or the gateway does not start
    /// in time.
    pub async fn start_thrift(&self) -> Result<ClusterStatus> {
        let (state, _) = self.existing()?;
        if !state.thrift {
            return Err(Error::new(
                ErrorKind::NoGateway,
                format!("cluster {} has no Thrift gateway", self.name),
            ));
        }
        if !self.status()?.state.is_running() {
            return Err(Error::new(
                ErrorKind::NotRunning,
                format!("cluster {} does not run", self.name),
            ));
        }
        let timeout = self.timeout.unwrap_or(BootOptions::DEFAULT_TIMEOUT);
        self.up(&BootOptions::new().timeout(timeout)).await
    }

    /// Returns a boot that may take this long from now on.
    fn boot<'a>(&'a self, launcher: &'a Launcher<'a>, timeout: Duration) -> Boot<'a> {
        Boot {
            launcher,
            progress: &self.progress,
            deadline: Instant::now() + timeout,
            timeout,
        }
    }

    /// Stops a cluster that has served. With Kerberos, a Java client shuts it down; without Java, signals
    /// do.
    async fn end_gracefully(&self, state: &State, marker: &Marker, deadline: Instant) -> Result<()> {
        let launcher = if state.kerberos {
            self.launcher(state, marker).await.ok()
        } else {
            None
        };
        shutdown::gracefully(&self.layout, marker, launcher.as_ref(), state, deadline).await
    }

    async fn launcher<'a>(&'a self, state: &State, marker: &'a Marker) -> Result<Launcher<'a>> {
        let java = Java::find().await?;
        let resolve = async |bundle| jars::resolve(&self.home, bundle, &java, &self.progress).await;
        let jars = resolve(Bundle::server(state.version)).await?;
        let thrift_jars = if state.thrift {
            Some(resolve(Bundle::THRIFT).await?)
        } else {
            None
        };
        let kdc_jars = if state.kerberos {
            Some(resolve(Bundle::KDC).await?)
        } else {
            None
        };
        Ok(Launcher {
            layout: &self.layout,
            marker,
            java,
            jars,
            thrift_jars,
            kdc_jars,
            shape: state.shape,
            performance: state.performance,
            controllers: Controllers::of(&state.properties),
        })
    }

    async fn add_missing(&self, boot: &Boot<'_>, state: &mut State, status: &ClusterStatus) -> Result<()> {
        let missing: Vec<u16> = (1..=state.shape.region_servers().unwrap_or(0))
            .filter(|number| !status.pids.contains_key(&Role::RegionServer(*number).to_string()))
            .collect();
        let Some(ports) = state.ports.clone() else {
            return Ok(());
        };
        if !missing.is_empty() {
            let numbers: Vec<String> = missing.iter().map(ToString::to_string).collect();
            (self.progress)(&format!(
                "starting what is missing: region server {}",
                numbers.join(", ")
            ));
            boot.add_region_servers(&missing, &ports).await?;
        }
        if state.thrift && !status.pids.contains_key(&Role::Thrift.to_string()) {
            // Recorded before the start, so that a command that stops the cluster also stops the
            // gateway.
            let ports = ports.with_thrift()?;
            state.ports = Some(ports.clone());
            state.save(&self.layout)?;
            boot.add_gateway(&ports).await?;
        }
        Ok(())
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.timeout.unwrap_or(Self::DEFAULT_TIMEOUT)
    }

    async fn lock(&self, deadline: Instant) -> Result<FileLock> {
        self.layout.check_owner()?;
        let what = format!("cluster {}", self.name);
        FileLock::acquire(&self.layout.lock_file(), &what, deadline).await
    }

    fn existing(&self) -> Result<(State, Marker)> {
        let state = State::load(&self.layout)?;
        let marker = Marker::load(&self.layout)?;
        state.zip(marker).ok_or_else(|| {
            Error::new(
                ErrorKind::NotRunning,
                format!("there is no local cluster {}", self.name),
            )
        })
    }

    fn role_of(&self, server: u16, shape: Shape) -> Result<Role> {
        shape.region_server(server).ok_or_else(|| {
            let count = shape.region_servers().unwrap_or(1);
            Error::invalid(format!("cluster {} has no region server {server}", self.name))
                .with_hint(format!("it has {count}, counted from 1"))
        })
    }
}

impl fmt::Debug for LocalCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalCluster")
            .field("name", &self.name)
            .field("folder", &self.layout.root())
            .finish_non_exhaustive()
    }
}

/// Processes are identified by `/proc`.
fn needs_linux() -> Result<()> {
    if Path::new("/proc/self/stat").exists() {
        return Ok(());
    }
    Err(
        failure("local clusters need Linux: there is no /proc on this machine")
            .with_hint("use a Linux machine or a container, and connect to it with --connect"),
    )
}
