//! `hbase-txn provision apply` is killed with -9 at every step, and run again: it always ends in
//! the planned state.

use std::{path::Path, process::Stdio, time::Duration};

use bytes::Bytes;
use hbase_provision::{Plan, TableFile, audit_table};
use hbase_txn::{
    PartitionedTable,
    admin::Admin,
    client::{Connection, FamilyDescriptor, Put, TableDescriptor, TableName},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::{Instant, sleep},
};

use crate::{
    cluster::{PATIENCE, TestCluster, until},
    settings::{Settings, is_long},
};

/// Boundaries of an existing table.
const BOUNDARIES: [&str; 5] = ["20", "40", "60", "80", "a0"];

/// The number of moments at which the process is killed, in the short form.
const SHORT: usize = 6;

/// The state before an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// The table and its namespace are missing.
    Nothing,
    /// A plain table, not prepared for transactions.
    Plain,
}

/// The moment at which the process is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// After it has reported this many steps.
    Steps(usize),
    /// When the master has visibly begun.
    Begun,
    /// This long after its start.
    After(Duration),
}

/// A table file, and its cluster.
struct Scene {
    uri: String,
    connection: Connection,
    folder: TempDir,
    name: TableName,
    before: Before,
}

impl Scene {
    fn new(cluster: &TestCluster, connection: &Connection, before: Before) -> Self {
        Self {
            uri: cluster.uri(),
            connection: connection.clone(),
            folder: tempfile::tempdir().unwrap(),
            name: "provision".parse().unwrap(),
            before,
        }
    }

    /// Changes to a new table name, with a new namespace if that is to be created.
    fn renew(&mut self) {
        let name = format!("provision_{:x}", fastrand::u64(..));
        let namespace = match self.before {
            Before::Nothing => &name,
            Before::Plain => "default",
        };
        self.name = TableName::new(namespace, &name).unwrap();
        let text = format!(
            "table = '{}'\npartition = {{prefix_length = 2}}\nlock_family = true\nsplit = {{hex = 6}}\n\
             family = [{{name = 'f', versions = 3}}, {{name = 'g', ttl = '30d'}}]\n\
             create_namespace = {}\n",
            self.name,
            self.before == Before::Nothing
        );
        std::fs::write(self.path(), text).unwrap();
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("table.toml")
    }

    fn file(&self) -> TableFile {
        TableFile::read(Path::new(&self.path())).unwrap()
    }

    /// Sets up the cluster for an application.
    async fn set(&mut self) {
        let admin = Admin::new(&self.connection).with_operation_timeout(PATIENCE);
        if admin.exists(&self.name).await.unwrap() {
            admin.delete_table(&self.name).await.unwrap();
        }
        self.renew();
        if self.before == Before::Plain {
            let plain = TableDescriptor::from(self.name.clone()).with_family(FamilyDescriptor::new("f"));
            let keys = BOUNDARIES.map(Into::into);
            admin.create_table(&plain, &keys).await.unwrap();
        }
    }

    fn start(&self) -> Child {
        Command::new(env!("CARGO_BIN_EXE_hbase-txn"))
            .args(["provision", "apply", "--output", "json", "--timeout", "3m"])
            .arg(self.path())
            .env("HBASE_TXN_CONNECT", &self.uri)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    /// Applies to the end, and returns the names of the steps.
    async fn apply(&self) -> Vec<String> {
        let output = self.start().wait_with_output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter_map(done_step).collect()
    }

    /// Applies, and kills the process. Returns whether it was still running.
    async fn apply_until(&self, moment: Moment) -> bool {
        let mut child = self.start();
        let mut steps = BufReader::new(child.stdout.take().unwrap()).lines();
        match moment {
            Moment::Steps(count) => {
                let mut done = 0;
                while done < count {
                    let line = steps.next_line().await.unwrap().unwrap();
                    done += usize::from(done_step(&line).is_some());
                }
            }
            Moment::Begun => {
                let admin = Admin::new(&self.connection);
                until("sign of the master's work", PATIENCE, async || {
                    let now = admin.descriptor(&self.name).await.ok()?;
                    now.names_multi_row_mutation_endpoint().then_some(())
                })
                .await;
            }
            Moment::After(delay) => sleep(delay).await,
        }
        let at_work = child.try_wait().unwrap().is_none();
        child.kill().await.unwrap();
        at_work
    }

    /// Runs it again, and checks that the table agrees with the file, that it works, and that
    /// another run changes nothing.
    async fn is_finished_by_another_run(&self, wanted: &TableDescriptor, boundaries: &[Bytes]) {
        self.apply().await;
        assert_eq!(self.apply().await, ["read-back", "probe"]);
        let mut wanted = wanted.clone();
        wanted.name = self.name.clone();
        assert_eq!(self.descriptor().await, wanted);
        assert_eq!(self.boundaries().await, boundaries);
        assert_eq!(audit_table(&self.connection, &self.name).await.unwrap(), []);
        let plan = Plan::read(&self.connection, &self.file()).await.unwrap();
        assert!(
            plan.changes().is_empty() && plan.refusals().is_empty(),
            "{plan:?}"
        );
        let table = PartitionedTable::open(&self.connection, self.name.clone())
            .await
            .unwrap();
        for prefix in ["00", "3f", "5a", "77", "99", "ff"] {
            let mut transaction = table.transaction(prefix);
            for row in ["1", "2"] {
                let put = Put::new(format!("{prefix}{row}")).cell("f", "q", "v");
                transaction = transaction.put(put);
            }
            transaction.commit().await.into_result().unwrap();
        }
    }

    /// Returns the start keys of its regions.
    async fn boundaries(&self) -> Vec<Bytes> {
        let regions = Admin::new(&self.connection).regions(&self.name).await.unwrap();
        regions.into_iter().map(|found| found.region.start_key).collect()
    }

    async fn descriptor(&self) -> TableDescriptor {
        Admin::new(&self.connection).descriptor(&self.name).await.unwrap()
    }
}

/// Returns the name of a step that is done; a line may also be a change.
fn done_step(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("\"done\":\"")?;
    Some(rest.split('"').next()?.to_owned())
}

async fn is_finished_whenever_it_is_killed(before: Before) {
    let cluster = TestCluster::take().await;
    let settings = Settings::of("provision");
    let connection = cluster.connect().await;
    let mut scene = Scene::new(&cluster, &connection, before);
    scene.set().await;
    let began = Instant::now();
    let steps = scene.apply().await;
    let took = began.elapsed();
    let (wanted, boundaries) = (scene.descriptor().await, scene.boundaries().await);
    assert_eq!(boundaries.len(), 6);
    assert_eq!(
        steps.contains(&"create-namespace".to_owned()),
        before == Before::Nothing
    );
    println!("{before:?}: {steps:?} in {took:.1?}");

    let parts = if is_long() { 40 } else { 4 };
    let mut moments: Vec<_> = (1..steps.len()).map(Moment::Steps).collect();
    moments.push(Moment::Begun);
    moments.extend((0..=parts).map(|part| Moment::After(took * part / parts)));
    if !is_long() {
        settings.rng(1).shuffle(&mut moments);
        moments.truncate(SHORT);
    }
    let mut at_work = 0;
    for moment in moments {
        scene.set().await;
        at_work += u32::from(scene.apply_until(moment).await);
        scene.is_finished_by_another_run(&wanted, &boundaries).await;
    }
    println!("{before:?}: ended while at work {at_work} times");
    assert!(at_work >= parts / 2, "hardly ever ended while at work");
    let admin = Admin::new(&connection).with_operation_timeout(PATIENCE);
    admin.delete_table(&scene.name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_table_creation_is_completed_by_the_next_run() {
    is_finished_whenever_it_is_killed(Before::Nothing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_table_change_is_completed_by_the_next_run() {
    is_finished_whenever_it_is_killed(Before::Plain).await;
}
