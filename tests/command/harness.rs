//! Runs the binary, and finds the cluster for it.

use std::{
    ffi::OsStr,
    fmt::Display,
    fs,
    future::Future,
    io::Write,
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, Command, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use hbase_txn::{
    admin::Admin,
    client::{Connection, TableDescriptor, TableName},
};
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::support;

/// The time limit of a run; a longer one hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// The result of a run of the binary.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

/// The binary, without a cluster or other options in its environment.
pub(crate) fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = with_default_signals(env!("CARGO_BIN_EXE_hbase-txn"));
    command.args(arguments);
    command
}

/// A program that ignores no signals, even if this process was started to ignore some (by nohup or
/// cron, for example).
pub(crate) fn with_default_signals(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("env");
    for variable in [
        "CONNECT", "CONFIG", "PROFILE", "RESOLVE", "OUTPUT", "TIMEOUT", "LOG", "DEV_HOME",
    ] {
        command.env_remove(format!("HBASE_TXN_{variable}"));
    }
    command.env_remove("CLICOLOR_FORCE");
    command
        .arg("--default-signal")
        .arg(program)
        .env_remove("HBASE_CONF_DIR")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs the binary without a cluster in its environment.
pub(crate) fn run_alone(arguments: &[&str]) -> Answer {
    answer(command(arguments).spawn().unwrap())
}

/// Runs the binary against the cluster.
pub(crate) fn run(arguments: &[&str]) -> Answer {
    run_with_input(arguments, "")
}

/// Runs the binary against the cluster, with this on its stdin.
pub(crate) fn run_with_input(arguments: &[&str], input: &str) -> Answer {
    let mut child = start(arguments);
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // A child that exits early does not read everything.
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let answer = answer(child);
    let _ = writer.join().unwrap();
    answer
}

/// Starts the binary against the cluster, with pipes for all its streams.
pub(crate) fn start(arguments: &[&str]) -> Child {
    start_into(arguments, Stdio::piped())
}

/// Starts the binary against the cluster, with this as its stdout.
pub(crate) fn start_into(arguments: &[&str], stdout: impl Into<Stdio>) -> Child {
    command(arguments)
        .env("HBASE_TXN_CONNECT", uri())
        .stdin(Stdio::piped())
        .stdout(stdout)
        .spawn()
        .unwrap()
}

/// A stdout, and its reader, which ends it by a shutdown.
///
/// A process that another test is about to start holds a copy of each pipe until its program runs. So a
/// pipe may still have a reader after ours was dropped, but a socket that is shut down has none.
pub(crate) fn stdout_and_reader() -> (OwnedFd, UnixStream) {
    let (stdout, reader) = UnixStream::pair().unwrap();
    (stdout.into(), reader)
}

/// Waits for the end of a run.
pub(crate) fn answer(child: Child) -> Answer {
    let (began, pid) = (Instant::now(), child.id());
    let (done, wait) = mpsc::channel();
    thread::spawn(move || done.send(child.wait_with_output()));
    let output = wait
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| panic!("process {pid} hangs"))
        .unwrap();
    Answer {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        took: began.elapsed(),
    }
}

impl Answer {
    /// Asserts that the run succeeded, and returns its stdout.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// Returns the objects of its stdout.
    #[track_caller]
    pub(crate) fn objects(&self) -> Vec<Value> {
        let objects = self.stdout.lines().map(serde_json::from_str);
        objects
            .collect::<Result<_, _>>()
            .unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Asserts that the run exited with this status, and that its stderr contains these parts.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, why: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for part in why {
            assert!(self.stderr.contains(part), "{part:?} is not in {self:?}");
        }
    }
}

/// The cluster's URI.
pub(crate) fn uri() -> &'static str {
    static URI: LazyLock<String> = LazyLock::new(|| support::standalone().uri);
    &URI
}

/// Returns a name that no other test and no other run uses.
pub(crate) fn unique_name(label: impl Display) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("command_{}_{count}_{label}", std::process::id())
}

/// A table, which is dropped with this.
pub(crate) struct TestTable(pub(crate) String);

impl TestTable {
    /// Creates a table with the family `f` and partitions of three bytes.
    pub(crate) fn new(label: &str) -> Self {
        Self::with(label, &["--family", "f", "--prefix-length", "3"])
    }

    /// Creates a table with these options.
    pub(crate) fn with(label: &str, options: &[&str]) -> Self {
        let table = Self(unique_name(label));
        run(&[&["table", "create", &table.0], options].concat()).done();
        table
    }

    /// Creates a table that the command would refuse to create.
    pub(crate) fn odd(
        label: &str,
        describe: impl FnOnce(TableDescriptor) -> TableDescriptor,
        splits: &[&'static str],
    ) -> Self {
        let table = Self(unique_name(label));
        let descriptor = describe(TableDescriptor::new(&table.0).unwrap());
        let splits: Vec<_> = splits.iter().map(|key| bytes::Bytes::from(*key)).collect();
        with_admin(async |admin| admin.create_table(&descriptor, &splits).await.unwrap());
        table
    }

    pub(crate) fn name(&self) -> TableName {
        self.0.parse().unwrap()
    }
}

impl Drop for TestTable {
    fn drop(&mut self) {
        run(&["table", "drop", &self.0, "--yes"]);
    }
}

/// Performs an operation that the command does not have.
pub(crate) fn with_admin<T, F: Future<Output = T>>(work: impl FnOnce(Admin) -> F) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let connection = Connection::connect(uri()).await.unwrap();
        work(Admin::new(&connection)).await
    })
}

/// Waits until a process has a handler for a signal.
pub(crate) fn until_caught(pid: Pid, signal: Signal) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let is_caught = || {
        let status = fs::read_to_string(&path).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
        Some(mask & (1 << (signal.as_raw() - 1)) != 0)
    };
    while is_caught() != Some(true) {
        assert!(
            Instant::now() < deadline,
            "process {path} has no handler for {signal:?}"
        );
    }
}

/// Returns the exit status that belongs to a refusal: of a value out of range that of the command line, else
/// that of a command that failed.
pub(crate) fn status_of(refusal: &str) -> i32 {
    if refusal.contains("out of range") { 2 } else { 1 }
}
