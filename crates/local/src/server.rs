//! Starting the Java processes of a cluster.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use tokio::time::timeout;

use super::{
    config, diagnose, failure,
    java::Java,
    kerberos,
    layout::{Layout, storage},
    ports::{Ports, REGION_SERVER},
    process::Process,
    ready::Controllers,
    role::{Role, Shape},
    state::{Marker, record_process},
};
use crate::Result;

/// The context for starting servers of one cluster.
#[derive(Debug)]
pub(super) struct Launcher<'a> {
    pub(super) layout: &'a Layout,
    pub(super) marker: &'a Marker,
    pub(super) java: Java,
    pub(super) jars: PathBuf,
    /// The jars of the Thrift gateway, if there is one.
    pub(super) thrift_jars: Option<PathBuf>,
    /// The jars of the KDC, if servers and clients authenticate each other with Kerberos.
    pub(super) kdc_jars: Option<PathBuf>,
    pub(super) shape: Shape,
    /// Whether the processes run with the Java options for measurements.
    pub(super) performance: bool,
    pub(super) controllers: Controllers,
}

impl Launcher<'_> {
    /// Starts a server and records its pid. If it can't run, the first check finds that it has
    /// ended.
    pub(super) async fn start(&self, role: Role, ports: &Ports) -> Result<Option<Process>> {
        let process = self
            .spawn(
                role,
                heap(role, self.performance),
                &program(role, ports, self.layout),
            )
            .await?;
        if let Some(process) = &process {
            record_process(self.layout, role, process)?;
        }
        Ok(process)
    }

    /// Starts the program that creates a new, empty HDFS and then exits.
    pub(super) async fn format_hdfs(&self) -> Result<Option<Process>> {
        let program = [NAMENODE, "-format", "-force", "-nonInteractive"].map(str::to_owned);
        self.spawn(Role::NameNode, "256m", &program).await
    }

    /// Runs HBase's own command to shut the cluster down, which gets a ticket by the keytab.
    pub(super) async fn shut_down_with_ticket(&self, limit: Duration) -> Result<()> {
        let mut command = tokio::process::Command::new(self.java.program());
        command
            .arg("-Xmx128m")
            .args(speed(false))
            .args(self.java.options())
            .args(self.kerberos_options())
            .arg("-XX:-UsePerfData")
            .arg(format!("-Djava.io.tmpdir={}", self.layout.temporary().display()))
            .arg("-cp")
            .arg(format!(
                "{}:{}",
                self.layout.client_conf().display(),
                class_path(Role::Master, &self.layout.conf(), &self.jars)
            ))
            .args([HMASTER, "stop", "--shutDownCluster"])
            .current_dir(self.layout.root())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let failed = || failure("HMaster stop did not end well");
        let ended = timeout(limit, command.status()).await.map_err(|_| failed())?;
        let ended = ended.map_err(|error| storage("can't run", self.java.program(), error))?;
        ended.success().then_some(()).ok_or_else(failed)
    }

    fn jars_of(&self, role: Role) -> &Path {
        let own = match role {
            Role::Thrift => self.thrift_jars.as_ref(),
            Role::Kdc => self.kdc_jars.as_ref(),
            _ => None,
        };
        own.unwrap_or(&self.jars)
    }

    fn kerberos_options(&self) -> Vec<String> {
        let options = self
            .kdc_jars
            .as_ref()
            .map(|_| kerberos::java_options(self.layout));
        options.into_iter().flatten().collect()
    }

    async fn spawn(&self, role: Role, heap: &str, program: &[String]) -> Result<Option<Process>> {
        let (out, err) = fresh_log(&diagnose::log_of(self.layout, role))?;
        let logs = self.layout.logs();
        let mut command = Command::new(self.java.program());
        command
            .arg(format!("-Xmx{heap}"))
            .args(speed(self.performance))
            .args(self.java.options())
            .args(self.kerberos_options())
            // Keeps files that Java would write elsewhere inside the cluster's folder.
            .arg("-XX:-UsePerfData")
            .arg(format!(
                "-XX:ErrorFile={}",
                logs.join(format!("{role}.crash.log")).display()
            ))
            .arg(format!("-Djava.io.tmpdir={}", self.layout.temporary().display()))
            .arg(self.marker.as_str())
            .args([
                "-Djava.net.preferIPv4Stack=true",
                "-Dzookeeper.admin.enableServer=false",
            ])
            .arg("-Dzookeeper.4lw.commands.whitelist=ruok,srvr,stat,dump")
            .arg("-cp")
            .arg(class_path(role, &self.layout.conf(), self.jars_of(role)))
            .args(program)
            .current_dir(self.layout.root())
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            // A separate group, so that an interrupt at the terminal ends the command but not the
            // cluster.
            .process_group(0);
        for variable in ["CLASSPATH", "HADOOP_CONF_DIR", "HBASE_CONF_DIR"] {
            command.env_remove(variable);
        }
        // A dropped tokio child keeps running, and tokio reaps it when it ends.
        let child = tokio::process::Command::from(command)
            .spawn()
            .map_err(|error| storage("can't run", self.java.program(), error))?;
        match child.id().and_then(|pid| i32::try_from(pid).ok()) {
            Some(pid) => Ok(Process::of_child(pid, self.marker.as_str()).await),
            None => Ok(None),
        }
    }
}

fn heap(role: Role, performance: bool) -> &'static str {
    match role {
        Role::Standalone | Role::RegionServer(_) if performance => "3g",
        Role::Standalone => "1g",
        Role::Master | Role::RegionServer(_) => "768m",
        Role::NameNode | Role::DataNode | Role::ZooKeeper | Role::Thrift => "256m",
        Role::Kdc => "128m",
    }
}

/// Returns the options of the garbage collector and the compilers: for throughput, or for a short
/// boot.
fn speed(performance: bool) -> &'static [&'static str] {
    if performance {
        &["-XX:+UseParallelGC"]
    } else {
        &["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    }
}

const HMASTER: &str = "org.apache.hadoop.hbase.master.HMaster";
const NAMENODE: &str = "org.apache.hadoop.hdfs.server.namenode.NameNode";

fn program(role: Role, ports: &Ports, layout: &Layout) -> Vec<String> {
    let words: &[&str] = match role {
        Role::Standalone | Role::Master => &[HMASTER, "start"],
        Role::NameNode => &[NAMENODE],
        Role::DataNode => &["org.apache.hadoop.hdfs.server.datanode.DataNode"],
        Role::ZooKeeper => &["org.apache.hadoop.hbase.zookeeper.HQuorumPeer"],
        Role::Kdc => return kerberos::kdc(layout),
        Role::Thrift => {
            return vec![
                "org.apache.hadoop.hbase.thrift.ThriftServer".to_owned(),
                "-p".to_owned(),
                ports.thrift.unwrap_or(0).to_string(),
                "start".to_owned(),
            ];
        }
        Role::RegionServer(number) => {
            let port = ports
                .region_servers
                .get(usize::from(number) - 1)
                .copied()
                .unwrap_or(0);
            return vec![
                "org.apache.hadoop.hbase.regionserver.HRegionServer".to_owned(),
                format!("-D{REGION_SERVER}={port}"),
                "start".to_owned(),
            ];
        }
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns the class path: the configuration, then all jars, in an order that Java does not
/// specify.
///
/// For HDFS, Hadoop 2's complete old Netty jar comes first: ZooKeeper brings parts of a newer
/// Netty, and a DataNode fails with a mixture of both. In later releases that jar is empty.
fn class_path(role: Role, conf: &Path, jars: &Path) -> String {
    let hdfs = matches!(role, Role::NameNode | Role::DataNode);
    let own_conf = if hdfs {
        format!("{}:", conf.join(config::HDFS).display())
    } else {
        String::new()
    };
    let whole_netty = hdfs
        .then(|| fs::read_dir(jars).ok())
        .flatten()
        .and_then(|mut entries| {
            entries.find_map(|entry| {
                let path = entry.ok()?.path();
                path.file_name()?
                    .to_str()?
                    .starts_with("netty-all-")
                    .then_some(path)
            })
        });
    let first = whole_netty
        .map(|jar| format!("{}:", jar.display()))
        .unwrap_or_default();
    format!("{own_conf}{}:{first}{}/*", conf.display(), jars.display())
}

/// Creates an empty log for a process; the previous log is renamed.
fn fresh_log(log: &Path) -> Result<(File, File)> {
    let failed = |error| storage("can't write", log, error);
    if log.exists() {
        fs::rename(log, log.with_extension("previous.log")).map_err(failed)?;
    }
    let out = File::options()
        .create(true)
        .append(true)
        .open(log)
        .map_err(failed)?;
    let err = out.try_clone().map_err(failed)?;
    Ok((out, err))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Home, properties::Properties};

    #[test]
    fn each_region_server_gets_the_port_chosen_for_it() {
        let ports = Ports::choose(Some(2), &Properties::new(), None).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(&Home::new(folder.path(), folder.path()), "x").unwrap();
        let second = program(Role::RegionServer(2), &ports, &layout);
        assert!(second.contains(&format!("-Dhbase.regionserver.port={}", ports.region_servers[1])));
    }

    #[test]
    fn performance_means_all_compilers_and_a_large_heap() {
        let stops_early =
            |options: &[&str]| options.iter().any(|option| option.contains("TieredStopAtLevel"));
        assert!(stops_early(speed(false)) && !stops_early(speed(true)));
        for role in [Role::Standalone, Role::RegionServer(2)] {
            assert_eq!(heap(role, true), "3g");
            assert_ne!(heap(role, false), "3g");
        }
        assert_eq!(heap(Role::Master, true), heap(Role::Master, false));
    }

    #[test]
    fn hdfs_takes_all_of_netty_from_one_jar() {
        let jars = tempfile::tempdir().unwrap();
        fs::write(jars.path().join("netty-all-4.0.23.Final.jar"), "").unwrap();
        let path = |role| class_path(role, Path::new("/conf"), jars.path());
        assert!(
            path(Role::DataNode).starts_with("/conf/hdfs:/conf:")
                && path(Role::DataNode).contains("netty-all-4.0.23.Final.jar:")
        );
        assert!(!path(Role::Master).contains("netty"));
    }

    #[test]
    fn the_log_of_the_run_before_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("master.log");
        fs::write(&log, "before").unwrap();
        fresh_log(&log).unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "");
        assert_eq!(
            fs::read_to_string(folder.path().join("master.previous.log")).unwrap(),
            "before"
        );
    }
}
