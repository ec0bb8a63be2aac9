//! `hbase-txn dev`: a real HBase on this machine.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    future::Future,
    path::PathBuf,
};

use clap::{Args, Subcommand};
use futures::future::join_all;
use hbase_local::{BootOptions, ClusterState, ClusterStatus, HBaseVersion, Home, LocalCluster, Shape};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    hints, output,
    profile::variable,
    progress::Progress,
    style::{self, Target},
    values::{self, Ranged},
};

/// Start and stop a real HBase on this machine, for development and tests
///
/// Requires Linux, Java (8, 11, or 17 to 23), and Maven once for each version. All servers listen on
/// 127.0.0.1 only, where any user of the machine can reach them. Data, logs and pids are in $XDG_STATE_HOME/hbase-txn/dev/NAME unless --home
/// specifies another folder, jars in $XDG_CACHE_HOME/hbase-txn.
#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// Name of the cluster; clusters of different names run side by side
    #[arg(long, global = true, default_value = "default")]
    name: String,
    /// Folder in which local clusters live, as dev/NAME [env: HBASE_TXN_DEV_HOME] [default:
    /// $XDG_STATE_HOME/hbase-txn]
    #[arg(long, global = true, value_name = "FOLDER")]
    home: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start the cluster and print its URI
    ///
    /// Waits until the cluster serves requests. Of a running cluster, only missing servers are
    /// started.
    Up(Up),
    /// Stop the cluster and keep its data
    Down {
        /// Also delete its data, logs and settings
        #[arg(long)]
        purge: bool,
    },
    /// Print the URI of the cluster
    ///
    /// With --output json also prints its version, state, pids, ports and folders. If it is broken, prints
    /// the last fatal line of the log. Exit status: 0 the cluster is running, 3 it is not.
    Status,
    /// Print the commands by which a shell and its programs use the cluster
    ///
    /// They set HBASE_TXN_CONNECT, or for a cluster with Kerberos or TLS HBASE_CONF_DIR and
    /// KRB5_CONFIG. Exit status: 0 the cluster is running, 3 it is not.
    #[command(after_help = "Example: eval \"$(hbase-txn dev env)\"")]
    Env,
    /// List the clusters of all names with state, version, URI and folder
    List,
    /// Print the last lines of the logs of a cluster, and where they are
    Logs(Logs),
    /// Kill a region server or the Thrift gateway with SIGKILL
    ///
    /// A standalone cluster is killed as a whole and may lose acknowledged edits, because the local
    /// file system has no durable sync. A cluster with --region-servers loses nothing.
    Kill(Server),
    /// Start a killed region server or the Thrift gateway
    ///
    /// Waits until the region server has registered with the master.
    Start(Server),
}

#[derive(Debug, Args)]
struct Up {
    /// Version: 2.6.4-hadoop3, 2.5.13-hadoop3, 2.4.18 or 3.0.0-alpha-4 [default: what the cluster
    /// has, or 2.6.4-hadoop3]
    #[arg(long)]
    version: Option<String>,
    /// Number of region servers, as separate processes on HDFS; 0: one process for the whole
    /// cluster [default: what the cluster has, or 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u16>)]
    region_servers: Option<Ranged<u16>>,
    /// An hbase-site.xml with settings for the servers; folders and addresses, which a local
    /// cluster chooses itself, are refused
    #[arg(long, value_name = "FILE")]
    site: Option<PathBuf>,
    /// Setting for hbase-site.xml; may be repeated, and takes precedence over --site
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Load MultiRowMutationEndpoint on every table, not only on those that have it attached
    #[arg(long)]
    site_wide_endpoint: bool,
    /// Check permissions and visibility labels (AccessController, VisibilityController); the user
    /// who starts the cluster is its superuser
    #[arg(long)]
    authorization: bool,
    /// Authenticate servers and clients with Kerberos: starts a KDC, and prints the environment that
    /// clients need to stderr. The keytab has the current user, alice, who may act as bob, and bob
    #[arg(long)]
    kerberos: bool,
    /// What Kerberos signs and encrypts: authentication, integrity or privacy, or a list of them
    #[arg(long, value_name = "PROTECTION", requires = "kerberos")]
    protection: Option<String>,
    /// Speak TLS only, with keys that keytool makes, and print the environment that clients need to
    /// stderr; 2.6.4-hadoop3 and 3.0.0-alpha-4 have it
    #[arg(long)]
    tls: bool,
    /// Also require a certificate of clients
    #[arg(long, requires = "tls")]
    mutual_tls: bool,
    /// Also start a Thrift gateway (HBase 2.6.1's ThriftServer: first API, binary protocol, no
    /// frames), also for a running cluster that has none
    #[arg(long)]
    thrift: bool,
    /// Run the servers for measurements: all of Java's compilers, the parallel garbage collector, 3
    /// GB of heap for each region server
    #[arg(long)]
    performance: bool,
}

#[derive(Debug, Args)]
struct Logs {
    /// Process, as `dev status` names it, such as standalone, master or region-server-1 [default: all]
    #[arg(long)]
    process: Option<String>,
    /// Number of lines of each log, at most those of its last MiB
    #[arg(long, value_name = "N", default_value = "20", allow_negative_numbers = true, value_parser = values::whole::<usize>)]
    lines: Ranged<usize>,
}

#[derive(Debug, Args)]
struct Server {
    /// Number of the region server, counted from 1; a standalone cluster is server 1
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = values::whole::<u16>)]
    server: Ranged<u16>,
    /// The Thrift gateway instead of a region server
    #[arg(long, conflicts_with = "server")]
    thrift: bool,
}

impl Dev {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let progress = Progress::new();
        let steps = progress.clone();
        let home = self.home()?;
        let cluster = LocalCluster::in_home(&self.name, home.clone())?;
        let mut cluster = cluster.with_progress(move |step| steps.step(step));
        if let Some(timeout) = global.timeout {
            cluster = cluster.with_timeout(timeout);
        }
        let outcome = self.action.run(&home, &cluster, global, &progress).await;
        progress.finish();
        outcome.map_err(|failure| match failure {
            Failure::Local(error) => Failure::Local(hints::with_dev_command(
                error,
                cluster.name(),
                self.home.as_deref(),
            )),
            failure => failure,
        })
    }
}

impl Dev {
    /// Returns the folder of the option, of the environment, or of the user.
    fn home(&self) -> Result<Home, Failure> {
        let of_user = Home::from_env()?;
        let home = self.home.clone();
        let Some(folder) = home.or_else(|| variable("HBASE_TXN_DEV_HOME").map(PathBuf::from)) else {
            return Ok(of_user);
        };
        // Servers get the path on their command lines, and run in folders of their own.
        Ok(Home::new(std::path::absolute(folder)?, of_user.cache()))
    }
}

impl Action {
    async fn run(self, home: &Home, cluster: &LocalCluster, global: &Global, progress: &Progress) -> Outcome {
        match self {
            Self::Up(up) => {
                let options = up.options(global)?;
                let before = cluster.status()?.state;
                let starts = matches!(
                    before,
                    ClusterState::Absent | ClusterState::Stopped | ClusterState::Broken
                );
                let status = match or_interrupted(cluster.up(&options)).await {
                    // Servers of another command, or of an earlier one, go on.
                    Err(Failure::Interrupted) if starts => {
                        progress.step("interrupted; stopping the started servers");
                        cluster.down().await?;
                        return Err(Failure::Interrupted);
                    }
                    status => status?,
                };
                progress.finish();
                output::complain(unprotected(&status));
                print(&status, global)?;
            }
            Self::Down { purge: false } => {
                let before = cluster.status().ok().map(|status| status.state);
                let status = or_interrupted(cluster.down()).await?;
                progress.finish();
                output::complain(&match before {
                    Some(ClusterState::Absent) => format!("there is no cluster {}", status.name),
                    Some(ClusterState::Stopped) => format!("{} did not run", status.name),
                    _ => format!("{} is down; its data are kept", status.name),
                });
            }
            Self::Down { purge: true } => {
                let there = cluster.folder().is_dir();
                or_interrupted(cluster.purge()).await?;
                progress.finish();
                output::complain(&if there {
                    format!("{} and its data are gone", cluster.name())
                } else {
                    format!("there is no cluster {}", cluster.name())
                });
            }
            Self::Status => {
                let status = or_interrupted(cluster.probe()).await?;
                progress.finish();
                if global.output == Format::Table && !status.pids.is_empty() {
                    output::complain(&servers(&status));
                }
                print(&status, global)?;
                if !status.state.is_running() {
                    return Ok(Exit::NotMet);
                }
            }
            Self::Env => {
                let status = cluster.status()?;
                if !status.state.is_running() {
                    output::complain(&summary(&status));
                    return Ok(Exit::NotMet);
                }
                let variables = environment(&status);
                match global.output {
                    Format::Json => output::json(&variables)?,
                    Format::Table => {
                        for (variable, value) in variables {
                            output::line(&export(variable, value))?;
                        }
                    }
                }
            }
            Self::Logs(logs) => logs.print(cluster, global)?,
            Self::List => return list(home, global).await,
            Self::Kill(Server { thrift: true, .. }) => {
                let status = or_interrupted(cluster.kill_thrift()).await?;
                progress.finish();
                output::complain(&format!("the Thrift gateway is dead; {}", summary(&status)));
            }
            Self::Start(Server { thrift: true, .. }) => {
                let status = or_interrupted(cluster.start_thrift()).await?;
                progress.finish();
                output::complain(&format!("the Thrift gateway answers; {}", summary(&status)));
            }
            Self::Kill(Server { server, .. }) => {
                let server = server.get("--server")?;
                let status = or_interrupted(cluster.kill(server)).await?;
                progress.finish();
                output::complain(&format!("region server {server} is dead; {}", summary(&status)));
            }
            Self::Start(Server { server, .. }) => {
                let server = server.get("--server")?;
                let status = or_interrupted(cluster.start(server)).await?;
                progress.finish();
                output::complain(&format!("region server {server} serves; {}", summary(&status)));
            }
        }
        Ok(Exit::Done)
    }
}

impl Up {
    fn options(self, global: &Global) -> Result<BootOptions, Failure> {
        let mut options = BootOptions::new();
        if let Some(timeout) = global.timeout {
            options = options.timeout(timeout);
        }
        if let Some(version) = self.version {
            options = options.version(version.parse::<HBaseVersion>()?);
        }
        let region_servers = self.region_servers.map(|count| count.get("--region-servers"));
        options = match region_servers.transpose()? {
            None => options,
            Some(0) => options.standalone(),
            Some(count) => options.region_servers(count),
        };
        if self.site_wide_endpoint {
            options = options.site_wide_endpoint();
        }
        if self.authorization {
            options = options.authorization();
        }
        if self.kerberos {
            options = options.kerberos();
        }
        if self.tls {
            options = options.tls();
        }
        if self.mutual_tls {
            options = options.mutual_tls();
        }
        if let Some(protection) = self.protection {
            options = options.property("hbase.rpc.protection", protection);
        }
        if self.thrift {
            options = options.thrift();
        }
        if self.performance {
            options = options.performance();
        }
        if let Some(path) = self.site {
            let refuse = |why: String| Failure::Refused(format!("reading {}: {why}", path.display()));
            let xml = fs::read_to_string(&path).map_err(|error| refuse(error.to_string()))?;
            options = options
                .hbase_site(&xml)
                .map_err(|error| refuse(error.to_string()))?;
        }
        Ok(self
            .set
            .into_iter()
            .fold(options, |options, (key, value)| options.property(key, value)))
    }
}

/// Prints only the URI to stdout, for scripts; the rest goes to stderr.
fn print(status: &ClusterStatus, global: &Global) -> Result<(), Failure> {
    if global.output == Format::Json {
        output::json(status)?;
        return Ok(());
    }
    output::complain(&summary(status));
    if !status.environment.is_empty() {
        for (variable, value) in environment(status) {
            output::complain(&export(variable, value));
        }
    }
    if let Some(uri) = &status.uri {
        output::line(uri)?;
    }
    Ok(())
}

/// Names what other users of this machine can do. A user reaches all ports on loopback.
fn unprotected(status: &ClusterStatus) -> &'static str {
    let kerberos = status.ports.contains_key("kdc");
    match (kerberos, status.shape) {
        (_, Some(Shape::Distributed { .. })) => {
            "warning: HDFS checks no user: any user of this machine can read and change all data of the cluster, and run code as \
             you (docs/local-clusters.md)"
        }
        (true, _) => {
            "warning: ZooKeeper checks no user: any user of this machine can change its data (docs/local-clusters.md)"
        }
        (false, _) => {
            "warning: any user of this machine can act as any user of the cluster (docs/local-clusters.md)"
        }
    }
}

/// Prints all clusters. One whose files can't be read does not hide the others.
async fn list(home: &Home, global: &Global) -> Outcome {
    let clusters = LocalCluster::all(home)?;
    let probes = join_all(clusters.iter().map(LocalCluster::probe)).await;
    let (mut rows, mut exit) = (Vec::new(), Exit::Done);
    for (cluster, probed) in clusters.iter().zip(probes) {
        match probed {
            Ok(status) if global.output == Format::Json => output::json(&status)?,
            Ok(status) => rows.push([
                status.name,
                status.state.as_str().to_owned(),
                status.version.map_or_else(dash, |version| version.to_string()),
                status.uri.unwrap_or_else(dash),
                cluster.folder().display().to_string(),
            ]),
            Err(error) => exit = Failure::from(error).report(),
        }
    }
    if !rows.is_empty() {
        let header = ["name", "state", "version", "URI", "folder"];
        output::page(&output::table(header, rows))?;
    }
    Ok(exit)
}

/// Returns the variables by which programs find a running cluster. `None` is for those that would lead
/// them to another one.
fn environment(status: &ClusterStatus) -> BTreeMap<&str, Option<&str>> {
    let guarded = status.environment.iter();
    let mut variables: BTreeMap<_, _> = guarded
        .map(|(variable, value)| (variable.as_str(), Some(value.as_str())))
        .collect();
    let uri = status.uri.as_deref().filter(|_| variables.is_empty());
    variables.insert("HBASE_TXN_CONNECT", uri);
    variables
}

/// Formats a variable as a line that a shell may run.
fn export(variable: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("export {variable}={}", hints::quote(value)),
        None => format!("unset {variable}"),
    }
}

impl Logs {
    fn print(self, cluster: &LocalCluster, global: &Global) -> Result<(), Failure> {
        let mut logs = cluster.logs(self.lines.get("--lines")?)?;
        if let Some(process) = &self.process {
            let all: Vec<String> = logs.iter().map(|log| log.process.clone()).collect();
            logs.retain(|log| log.process == *process);
            if logs.is_empty() {
                return Err(Failure::Refused(format!(
                    "cluster {} has no process {process}; it has {}",
                    cluster.name(),
                    all.join(", ")
                )));
            }
        }
        for log in &logs {
            match global.output {
                Format::Json => output::json(log)?,
                Format::Table => {
                    output::line(&format!("==> {} <==", log.path.display()))?;
                    for line in &log.lines {
                        output::line(&line.replace('\t', "    "))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Formats the processes and ports for people.
fn servers(status: &ClusterStatus) -> String {
    let only = status.pids.first_key_value().filter(|_| status.pids.len() == 1);
    if let (Some(Shape::Standalone), Some((name, pid))) = (status.shape, only) {
        // A single process runs all servers.
        let ports = status
            .ports
            .iter()
            .map(|(server, port)| format!("{server} {port}"));
        let ports = ports.collect::<Vec<_>>().join(", ");
        return output::table(
            ["process", "pid", "ports"],
            [[name.clone(), pid.to_string(), ports]],
        );
    }
    let names: BTreeSet<&String> = status.pids.keys().chain(status.ports.keys()).collect();
    let text = |number: Option<String>| number.unwrap_or_else(dash);
    output::table(
        ["server", "pid", "port"],
        names.into_iter().map(|name| {
            let pid = text(status.pids.get(name).map(ToString::to_string));
            let port = text(status.ports.get(name).map(ToString::to_string));
            [name.clone(), pid, port]
        }),
    )
}

fn dash() -> String {
    "-".to_owned()
}

fn summary(status: &ClusterStatus) -> String {
    let kind = match (status.version, status.shape) {
        (Some(version), Some(shape)) => format!(" (HBase {version} {shape})"),
        _ => String::new(),
    };
    let advice = match status.state {
        ClusterState::Running => "",
        ClusterState::Degraded => ": a region server or the Thrift gateway is missing; `dev up` starts it",
        ClusterState::Unresponsive => {
            ": its processes live, but don't answer; `dev down` ends them, `dev up` boots it again"
        }
        ClusterState::Booting => ": `dev up` is at work",
        ClusterState::Stopping => ": `dev down` is at work",
        ClusterState::Broken => ": `dev up` or `dev down` brings it in order",
        _ => ": boot it with `dev up`",
    };
    let reason = status.reason.as_ref().map_or_else(String::new, |reason| {
        format!("\n{}", style::printable(Target::Stderr, reason))
    });
    format!(
        "{} is {}{kind}{advice}{reason}",
        status.name,
        status.state.as_str()
    )
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write a setting as KEY=VALUE".to_owned()),
    }
}

/// Runs the work until it is done, or until SIGINT or SIGTERM.
async fn or_interrupted<T>(work: impl Future<Output = hbase_local::Result<T>>) -> Result<T, Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        biased;
        done = work => Ok(done?),
        _ = interrupt.recv() => Err(Failure::Interrupted),
        _ = terminate.recv() => Err(Failure::Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn environment_leads_to_this_cluster_only() {
        let home = tempfile::tempdir().unwrap();
        let cluster = LocalCluster::in_home("x", Home::new(home.path(), home.path())).unwrap();
        let mut status = cluster.status().unwrap();
        status.uri = Some("hbase+zk://127.0.0.1:1/hbase".to_owned());
        let uri = status.uri.clone();
        assert_eq!(
            environment(&status),
            [("HBASE_TXN_CONNECT", uri.as_deref())].into()
        );
        // The URI alone would not do.
        let variables = [("HBASE_CONF_DIR", "/c"), ("KRB5_CONFIG", "/k")];
        status.environment = variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let lines = environment(&status)
            .into_iter()
            .map(|(name, value)| export(name, value));
        let expected = [
            "export HBASE_CONF_DIR=/c",
            "unset HBASE_TXN_CONNECT",
            "export KRB5_CONFIG=/k",
        ];
        assert!(lines.eq(expected));
    }

    #[test]
    fn exported_value_reaches_a_shell_unchanged() {
        for value in [
            "/home/me/.local/state/hbase-txn/dev/x/client-conf",
            "/a b/it's \"c\"",
            "/$HOME/${HOME}/$(false)/`false`/\\",
            "/x; exit 1 #&|<>*?~",
        ] {
            let output = Command::new("sh")
                .args([
                    "-euc",
                    r#"eval "$1"; printf %s "$X""#,
                    "sh",
                    &export("X", Some(value)),
                ])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), value, "{output:?}");
        }
    }
}
