//! A real HBase with the settings of `coprocessor/hbase-site.xml`, shared by the tests.

use std::{
    env,
    ffi::OsString,
    path::Path,
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use hbase_txn::client::{Config, Connection};
use tempfile::TempDir;

use crate::{guides::path, settings};

/// The URI of a cluster that has the settings already, such as a container of the folder's image.
const DEPLOYED: &str = "HBASE_TXN_TEST_DEPLOYED";

/// Stopped and deleted after the last test that uses it, if the tests booted it.
#[derive(Debug)]
pub(crate) struct Cluster {
    name: &'static str,
    uri: String,
    /// The folder of its data, if the tests booted it.
    state: Option<TempDir>,
}

/// Returns the cluster of all concurrent tests.
pub(crate) fn shared() -> Arc<Cluster> {
    static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    // A failed boot leaves nothing behind, so another test may try again.
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let cluster = Arc::new(Cluster::find_or_boot());
        *shared = Arc::downgrade(&cluster);
        cluster
    })
}

impl Cluster {
    fn find_or_boot() -> Self {
        if let Ok(uri) = env::var(DEPLOYED) {
            return Self {
                name: "deployed",
                uri,
                state: None,
            };
        }
        let site = path("coprocessor/hbase-site.xml");
        // The file has the rule for all tables in a comment.
        let rule = settings::rules_in_comment().remove(0);
        let rule: Vec<String> = rule.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let rule: Vec<&str> = rule.iter().map(String::as_str).collect();
        Self::up("deploy", &["--site", site.to_str().unwrap()], &rule)
    }

    /// Boots a cluster for one test, with these settings.
    pub(crate) fn boot(name: &'static str, settings: &[&str]) -> Self {
        Self::up(name, &[], settings)
    }

    fn up(name: &'static str, options: &[&str], settings: &[&str]) -> Self {
        let state = tempfile::tempdir().unwrap();
        let mut arguments = [&["up"], options].concat();
        for setting in settings {
            arguments.extend(["--set", setting]);
        }
        let up = dev(state.path(), name, &arguments);
        // A partly started cluster is stopped, also if a check of it fails.
        let mut cluster = Self {
            name,
            uri: String::new(),
            state: Some(state),
        };
        assert!(up.status.success(), "{up:?}");
        cluster.uri = String::from_utf8(up.stdout).unwrap().trim_end().to_owned();
        cluster
    }

    pub(crate) fn config(&self) -> Config {
        Config::from_uri(&self.uri).unwrap()
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::builder(self.config()).connect().await.unwrap()
    }

    /// Runs a script as a user would, with `hbase-txn` on the path and the cluster in the
    /// environment.
    pub(crate) fn run(&self, script: &str) -> Output {
        self.script(script).output().unwrap()
    }

    /// Runs a script in this folder.
    pub(crate) fn run_in(&self, folder: &Path, script: &str) -> Output {
        self.script(script).current_dir(folder).output().unwrap()
    }

    /// Runs a script as another user.
    pub(crate) fn run_as(&self, user: &str, script: &str) -> Output {
        self.script(script)
            .env("HADOOP_USER_NAME", user)
            .output()
            .unwrap()
    }

    fn script(&self, script: &str) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_hbase-txn"));
        let mut path = OsString::from(binary.parent().unwrap());
        path.push(":");
        path.push(env::var_os("PATH").unwrap());
        let mut command = Command::new("sh");
        command
            .args(["-euc", script])
            .current_dir(env!("REPOSITORY"))
            .env("PATH", path)
            .env("HBASE_TXN_CONNECT", &self.uri)
            .stdin(Stdio::null());
        // The command's state on this machine is deleted with the cluster.
        if let Some(state) = &self.state {
            command.env("XDG_STATE_HOME", state.path());
        }
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(state) = &self.state {
            let down = dev(state.path(), self.name, &["down", "--purge"]);
            assert!(down.status.success() || std::thread::panicking(), "{down:?}");
        }
    }
}

fn dev(state: &Path, name: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hbase-txn"))
        .args(["dev", "--name", name])
        .args(arguments)
        .env("XDG_STATE_HOME", state)
        .env_remove("HBASE_TXN_CONNECT")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}
