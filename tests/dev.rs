//! `hbase-txn dev` with real processes: the behaviour that users and continuous integration rely
//! on.
//!
//! Needs Linux, Java, and Maven when the jars are not in the cache yet.

#![allow(clippy::unwrap_used, reason = "a test that can't arrange its case has failed")]

use std::{
    collections::BTreeSet,
    env, fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

/// A cluster in a folder of its own, which is stopped and deleted on drop.
struct Cluster {
    name: &'static str,
    state: TempDir,
}

impl Cluster {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            state: tempfile::tempdir().unwrap(),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hbase-txn"));
        command
            .args(["dev", "--name", self.name])
            .args(arguments)
            .env("XDG_STATE_HOME", self.state.path())
            .env_remove("HBASE_TXN_CONNECT")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Answer {
        Answer::of(self.command(arguments).output().unwrap())
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn status(&self) -> (i32, Value) {
        let answer = self.run(&["status", "--output", "json"]);
        let status = serde_json::from_str(&answer.stdout).unwrap();
        (answer.code, status)
    }

    fn pid_file(&self, role: &str) -> PathBuf {
        self.folder().join("pids").join(role)
    }

    fn folder(&self) -> PathBuf {
        self.state.path().join("hbase-txn/dev").join(self.name)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let purged = self.run(&["down", "--purge"]);
        if !std::thread::panicking() {
            assert_eq!(purged.code, 0, "{purged:?}");
            let left = fs::read_dir(self.folder().parent().unwrap());
            assert_eq!(left.into_iter().flatten().count(), 0, "a purge leaves nothing");
        }
    }
}

#[derive(Debug)]
struct Answer {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Answer {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn uri(&self) -> &str {
        assert_eq!(self.code, 0, "{self:?}");
        let uri = self.stdout.strip_suffix('\n').unwrap();
        assert!(
            uri.starts_with("hbase+zk://127.0.0.1:") && uri.ends_with("/hbase"),
            "{self:?}"
        );
        assert!(!uri.contains('\n'), "{self:?}");
        uri
    }
}

/// A process that does not belong to any cluster.
struct Stranger(Child);

impl Stranger {
    fn new() -> Self {
        Self(
            Command::new("sleep")
                .arg("300")
                .stdin(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Returns the contents of a pid file of this process.
    fn record(&self) -> String {
        let pid = self.0.id();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let start = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .nth(19)
            .unwrap();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        format!("{pid} {start} {boot}")
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn kill_9(pid: i64) {
    send("-9", pid);
}

fn send(signal: &str, pid: i64) {
    assert!(
        // `kill` is built into the shell; the program may not be installed.
        Command::new("sh")
            .args(["-c", &format!("kill {signal} {pid}")])
            .status()
            .unwrap()
            .success()
    );
}

/// A zombie does not count: it has ended, and its parent has not waited for it yet.
fn is_alive(pid: i64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, fields)| !fields.trim_start().starts_with('Z'))
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        // Nothing notifies of the other process's progress, so this polls.
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn a_cluster_goes_up_and_down_and_up_again() {
    let cluster = Cluster::new("life");
    let booted = cluster.run(&["up"]);
    let uri = booted.uri().to_owned();
    for told in ["starting HBase", "any user of this machine can act as any user"] {
        assert!(booted.stderr.contains(told), "{booted:?}");
    }

    let (code, status) = cluster.status();
    assert_eq!(code, 0);
    assert_eq!(status["name"], "life");
    assert_eq!(status["uri"], uri.as_str());
    assert_eq!(
        status["rpc_uri"],
        format!("hbase+rpc://127.0.0.1:{}", status["ports"]["master"])
    );
    assert_eq!(status["version"], "2.6.4-hadoop3");
    assert_eq!(status["state"], "running");
    assert_eq!(status["environment"], serde_json::json!({}));
    assert_eq!(
        (status.as_object().unwrap().len(), &status["reason"]),
        (10, &Value::Null)
    );
    for folder in status["folders"].as_object().unwrap().values() {
        assert!(PathBuf::from(folder.as_str().unwrap()).is_dir(), "{folder}");
    }
    assert_eq!(cluster.run(&["status"]).uri(), uri);

    // A running cluster stays as it is, and a different request fails instead of being ignored.
    assert_eq!(cluster.run(&["up"]).uri(), uri);
    for other in [
        &["up", "--version", "2.4.18"][..],
        &["up", "--region-servers", "2"],
        &["up", "--set", "hbase.regionserver.handler.count=5"],
    ] {
        let refused = cluster.run(other);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.stderr.contains("cluster life"), "{refused:?}");
    }
    assert_eq!(cluster.status().1, status);
    everything_listens_on_loopback(&status);
    it_is_listed_logged_and_used(&cluster, &status);
    let zookeeper = status["ports"]["zookeeper"].as_u64().unwrap();
    let sessions = sessions_of_servers(zookeeper);
    assert!(sessions.len() >= 2, "{sessions:?}");

    // Suspended by a signal: the process exists, but does not answer.
    let pid = status["pids"]["standalone"].as_i64().unwrap();
    send("-STOP", pid);
    let stopped = Instant::now();
    let (code, hung) = cluster.status();
    // Longer than HBase's own session, as on a machine with too much work: it would abort.
    std::thread::park_timeout(Duration::from_secs(25).saturating_sub(stopped.elapsed()));
    send("-CONT", pid);
    wait_for("an answer", || cluster.status().1["state"] == "running");
    std::thread::park_timeout(Duration::from_secs(5));
    assert_eq!(sessions_of_servers(zookeeper), sessions);
    assert_eq!(cluster.status().1, status);
    send("-STOP", pid);
    assert_eq!(
        (code, &hung["state"], &hung["uri"]),
        (3, &"unresponsive".into(), &Value::Null)
    );
    let table = cluster.run(&["status"]).stderr;
    send("-CONT", pid);
    let row = table
        .lines()
        .find(|line| line.trim_start().starts_with("standalone"))
        .unwrap();
    for server in ["master", "region-server", "zookeeper"] {
        let port = format!("{server} {}", status["ports"][server]);
        assert!(row.contains(&port) && row.contains(&pid.to_string()), "{table}");
    }

    // Killed by a signal.
    kill_9(status["pids"]["standalone"].as_i64().unwrap());
    wait_for("its death", || cluster.status().0 == 3);
    assert_eq!(cluster.status().1["state"], "broken");
    // As HBase does it, with what a terminal must not get.
    let fatal = "2026-11-22 00:24:51,100 ERROR [x] a.B: ***** ABORTING master: \u{1b}[31mexpired *****";
    let path = cluster.folder().join("logs/standalone.log");
    let mut log = fs::File::options().append(true).open(path).unwrap();
    writeln!(log, "{fatal}\n\tat a.B.c(B.java:1)").unwrap();
    let reason = format!("standalone has ended: {fatal}");
    assert_eq!(cluster.status().1["reason"], reason.as_str());
    let told = cluster.run(&["status"]).stderr;
    assert!(
        told.contains("ABORTING master") && !told.contains('\u{1b}'),
        "{told}"
    );
    let env = cluster.run(&["env"]);
    assert!(
        env.code == 3 && env.stdout.is_empty() && env.stderr.contains("is broken"),
        "{env:?}"
    );
    assert_eq!(cluster.run(&["up"]).uri(), uri, "the ports are kept");

    let down = cluster.run(&["down"]);
    assert_eq!((down.code, down.stdout.as_str()), (0, ""), "{down:?}");
    let (code, stopped) = cluster.status();
    assert_eq!(
        (code, &stopped["state"], &stopped["uri"]),
        (3, &"stopped".into(), &Value::Null)
    );
    assert!(stopped["pids"].as_object().unwrap().is_empty());
    let again = cluster.run(&["down"]);
    assert!(
        again.code == 0 && again.stderr.contains("did not run"),
        "{again:?}"
    );
    let other = cluster.run(&["up", "--version", "2.5.13"]);
    assert!(other.code == 1 && other.stderr.contains("--purge"), "{other:?}");
}

/// Tries `dev list`, `dev logs` and `dev env` with a running cluster.
fn it_is_listed_logged_and_used(cluster: &Cluster, status: &Value) {
    let uri = status["uri"].as_str().unwrap();
    let listed = cluster.run(&["list"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    for part in ["life", "running", "2.6.4-hadoop3", uri] {
        assert!(listed.stdout.contains(part), "{part} is not in {listed:?}");
    }
    let json = cluster.run(&["list", "--output", "json"]).stdout;
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), *status);

    // Another one is damaged, and does not hide the first.
    let damaged = cluster.folder().with_file_name("damaged");
    fs::create_dir(&damaged).unwrap();
    for file in ["id", "state.json"] {
        fs::write(damaged.join(file), "{").unwrap();
    }
    let listed = cluster.run(&["list"]);
    assert!(
        listed.code == 1 && listed.stdout.contains("life") && listed.stderr.contains("damaged/state.json"),
        "{listed:?}"
    );
    fs::remove_dir_all(damaged).unwrap();

    let log = cluster.folder().join("logs/standalone.log");
    let logs = cluster.run(&["logs", "--lines", "3"]).stdout;
    let (head, lines) = logs.split_once('\n').unwrap();
    assert_eq!(head, format!("==> {} <==", log.display()));
    assert_eq!(lines.lines().count(), 3, "{logs}");
    let none = cluster.run(&["logs", "--process", "master"]);
    assert!(
        none.code == 1 && none.stderr.contains("it has standalone"),
        "{none:?}"
    );

    let use_it = r#"set -e; hbase=$1; eval "$("$hbase" dev --name life env)"; "$hbase" table list; echo "$HBASE_TXN_CONNECT""#;
    let mut shell = Command::new("sh");
    shell.args(["-c", use_it, "sh", env!("CARGO_BIN_EXE_hbase-txn")]);
    shell.env("XDG_STATE_HOME", cluster.state.path());
    let used = Answer::of(shell.output().unwrap());
    assert!(
        used.code == 0 && used.stdout.ends_with(&format!("{uri}\n")),
        "{used:?}"
    );
}

/// Returns the sessions that last longer than ZooKeeper's own limit of 20 ticks, by ZooKeeper's command
/// for its connections.
fn sessions_of_servers(zookeeper: u64) -> BTreeSet<String> {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{zookeeper}")).unwrap();
    stream.write_all(b"cons").unwrap();
    let mut connections = String::new();
    stream.read_to_string(&mut connections).unwrap();
    let long = connections
        .split("sid=")
        .filter(|connection| connection.contains("to=300000"));
    long.map(|connection| connection.split(',').next().unwrap().to_owned())
        .collect()
}

/// Asserts that the cluster's processes listen on loopback only, with IPv4 and with IPv6 sockets.
fn everything_listens_on_loopback(status: &Value) {
    const LISTENING: &str = "0A";
    for pid in status["pids"].as_object().unwrap().values() {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let sockets: Vec<String> = fs::read_dir(folder.join("fd"))
            .unwrap()
            .filter_map(|entry| {
                let target = fs::read_link(entry.ok()?.path()).ok()?;
                let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
                Some(inode.to_owned())
            })
            .collect();
        let mut seen = 0;
        for table in ["tcp", "tcp6"] {
            let lines = fs::read_to_string(folder.join("net").join(table)).unwrap_or_default();
            for line in lines.lines().skip(1) {
                let fields: Vec<&str> = line.split_whitespace().collect();
                if fields[3] == LISTENING && sockets.iter().any(|inode| inode == fields[9]) {
                    let address = fields[1].rsplit_once(':').unwrap().0;
                    assert!(address.ends_with("0100007F"), "{pid} listens on {line}");
                    seen += 1;
                }
            }
        }
        assert!(seen >= 1, "process {pid} listens nowhere");
    }
}

#[test]
fn interrupted_up_is_repaired_and_two_at_once_boot_one() {
    let cluster = Cluster::new("interrupted");
    let mut interrupted = cluster.start(&["up"]);
    wait_for("the start of Java", || cluster.pid_file("standalone").exists());
    let (code, booting) = cluster.status();
    assert_eq!((code, &booting["state"]), (3, &"booting".into()));
    kill_9(interrupted.id().into());
    interrupted.wait().unwrap();
    let (code, broken) = cluster.status();
    assert_eq!((code, &broken["state"]), (3, &"broken".into()));
    let leftover = broken["pids"]["standalone"].as_i64().unwrap();

    let both = [cluster.start(&["up"]), cluster.start(&["up"])];
    let [first, second] = both.map(|child| Answer::of(child.wait_with_output().unwrap()));
    assert_eq!(first.uri(), second.uri());
    let (_, running) = cluster.status();
    let pid = running["pids"]["standalone"].as_i64().unwrap();
    assert_ne!(pid, leftover);
    assert!(!is_alive(leftover));

    // The pid file names an unrelated process, with its correct start time. That process is left
    // alone, and the cluster's own process is found all the same.
    let mut stranger = Stranger::new();
    fs::write(cluster.pid_file("standalone"), stranger.record()).unwrap();
    assert_eq!(cluster.status().0, 3);
    let down = cluster.run(&["down"]);
    assert_eq!(down.code, 0, "{down:?}");
    assert!(stranger.lives());
    assert!(!is_alive(pid));
}

#[test]
fn thrift_gateway_starts_dies_and_comes_back() {
    let cluster = Cluster::new("gateway");
    cluster.run(&["up"]).uri();
    let (_, before) = cluster.status();
    assert_eq!(before["ports"]["thrift"], Value::Null);
    let none = cluster.run(&["start", "--thrift"]);
    assert!(
        none.code == 1 && none.stderr.contains("dev up --thrift"),
        "{none:?}"
    );

    // The gateway is added to a running cluster.
    cluster.run(&["up", "--thrift"]).uri();
    let (_, with) = cluster.status();
    assert_eq!(with["pids"]["standalone"], before["pids"]["standalone"]);
    let (port, pid) = (&with["ports"]["thrift"], with["pids"]["thrift"].as_i64().unwrap());
    assert!(port.is_u64(), "{with}");
    everything_listens_on_loopback(&with);
    cluster.run(&["up"]).uri();
    assert_eq!(
        cluster.status().1["pids"]["thrift"].as_i64(),
        Some(pid),
        "it is kept"
    );

    assert_eq!(cluster.run(&["kill", "--thrift"]).code, 0);
    assert!(!is_alive(pid));
    let (code, degraded) = cluster.status();
    assert_eq!((code, &degraded["state"]), (0, &"degraded".into()));
    assert_eq!(cluster.run(&["kill", "--thrift"]).code, 1);
    assert_eq!(cluster.run(&["start", "--thrift"]).code, 0);
    let (_, after) = cluster.status();
    assert_eq!(
        (&after["state"], &after["ports"]["thrift"]),
        (&"running".into(), port)
    );

    let pid = after["pids"]["thrift"].as_i64().unwrap();
    assert_eq!(cluster.run(&["down"]).code, 0);
    assert!(!is_alive(pid), "it ends with the cluster");
}

#[test]
fn region_servers_die_and_come_back() {
    let cluster = Cluster::new("servers");
    let booted = cluster.run(&["up", "--region-servers", "2"]);
    let uri = booted.uri().to_owned();
    assert!(booted.stderr.contains("HDFS checks no user"), "{booted:?}");
    let (_, before) = cluster.status();
    assert_eq!(before["pids"].as_object().unwrap().len(), 6);
    everything_listens_on_loopback(&before);

    assert_eq!(cluster.run(&["kill", "--server", "2"]).code, 0);
    let (code, degraded) = cluster.status();
    assert_eq!((code, &degraded["state"]), (0, &"degraded".into()));
    assert_eq!(degraded["pids"]["region-server-2"], Value::Null);
    let reason = degraded["reason"].as_str().unwrap();
    assert!(reason.starts_with("region-server-2 has ended"), "{degraded}");
    assert_eq!(cluster.run(&["kill", "--server", "2"]).code, 1);
    assert_eq!(cluster.run(&["kill", "--server", "3"]).code, 1);

    let started = cluster.run(&["start", "--server", "2"]);
    assert_eq!(started.code, 0, "{started:?}");
    let (_, after) = cluster.status();
    assert_eq!(
        (&after["state"], &after["ports"]),
        (&"running".into(), &before["ports"])
    );
    assert_eq!(
        after["pids"]["region-server-1"],
        before["pids"]["region-server-1"]
    );
    assert_ne!(
        after["pids"]["region-server-2"],
        before["pids"]["region-server-2"]
    );
    assert_eq!(cluster.run(&["up"]).uri(), uri);
}

#[test]
fn nothing_is_there_yet() {
    let cluster = Cluster::new("absent");
    let (code, status) = cluster.status();
    assert_eq!(
        (code, &status["state"], &status["uri"]),
        (3, &"absent".into(), &Value::Null)
    );
    let text = cluster.run(&["status"]);
    assert_eq!((text.code, text.stdout.as_str()), (3, ""), "{text:?}");
    for fine in [&["down"][..], &["down", "--purge"]] {
        let down = cluster.run(fine);
        assert!(
            down.code == 0 && down.stderr.contains("there is no cluster absent"),
            "{down:?}"
        );
    }
    assert_eq!(cluster.run(&["kill"]).code, 1);
    assert_eq!(cluster.run(&["start"]).code, 1);
    let logs = cluster.run(&["logs"]);
    assert!(
        logs.code == 1 && logs.stderr.contains("run hbase-txn dev up"),
        "{logs:?}"
    );
    let list = cluster.run(&["list"]);
    assert!(list.code == 0 && list.stdout.is_empty(), "{list:?}");
    assert!(!cluster.folder().exists(), "asking for it must not make it");

    // The remnants of an `up` that found no Java.
    fs::create_dir_all(cluster.folder()).unwrap();
    fs::write(cluster.folder().join("lock"), "").unwrap();
    assert_eq!(cluster.run(&["down", "--purge"]).code, 0);
    assert!(!cluster.folder().exists());
}

#[test]
fn missing_clusters_and_taken_names_have_hints() {
    let cluster = Cluster::new("refused");
    let empty = tempfile::tempdir().unwrap();
    let without_java = cluster
        .command(&["up"])
        .env("PATH", empty.path())
        .env_remove("JAVA_HOME")
        .output();
    let without_java = Answer::of(without_java.unwrap());
    assert_eq!(without_java.code, 1);
    assert!(
        without_java.stderr.contains("no Java") && without_java.stderr.contains("openjdk-17"),
        "{without_java:?}"
    );

    // Java is installed, but neither Maven nor the jars.
    let java =
        env::var_os("JAVA_HOME").map_or_else(java_on_path, |home| PathBuf::from(home).join("bin/java"));
    std::os::unix::fs::symlink(java, empty.path().join("java")).unwrap();
    let without_maven = cluster
        .command(&["up"])
        .env("PATH", empty.path())
        .env("XDG_CACHE_HOME", empty.path())
        .output();
    let without_maven = Answer::of(without_maven.unwrap());
    assert_eq!(without_maven.code, 1);
    assert!(
        without_maven.stderr.contains("no Maven") && without_maven.stderr.contains("install"),
        "{without_maven:?}"
    );

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let taken = cluster.run(&["up", "--set", &format!("hbase.master.port={port}")]);
    assert_eq!(taken.code, 1);
    assert!(
        taken.stderr.contains(&port.to_string()) && taken.stderr.contains("another process listens there"),
        "{taken:?}"
    );

    let died = cluster.run(&["up", "--set", "hbase.regionserver.handler.count=abc"]);
    assert_eq!(died.code, 1);
    assert!(
        died.stderr.contains("NumberFormatException") && died.stderr.contains("standalone.log"),
        "{died:?}"
    );
    assert_eq!(cluster.status().1["state"], "stopped");

    for (arguments, code) in [
        (&["up", "--version", "9"][..], 1),
        (&["up", "--set", "hbase.rootdir=/x"], 1),
        (&["up", "--region-servers", "1000"], 1),
        (&["up", "--set", "x"], 2),
        (&["up", "--timeout", "soon"], 2),
        (&["sideways"], 2),
    ] {
        let refused = cluster.run(arguments);
        assert_eq!(refused.code, code, "{refused:?}");
        assert!(
            refused.stdout.is_empty() && !refused.stderr.is_empty(),
            "{refused:?}"
        );
    }
}

fn java_on_path() -> PathBuf {
    env::split_paths(&env::var_os("PATH").unwrap())
        .map(|folder| folder.join("java"))
        .find(|java| java.is_file())
        .unwrap()
}
