//! Several operators change one table at the same time, and are killed, while regions move and split.

use std::{collections::BTreeMap, process::Stdio, time::Duration};

use fastrand::Rng;
use futures::future::{join, join_all};
use hbase_txn::{
    PartitionRule, PartitionedTable, TableDescriptorExt,
    admin::Admin,
    client::{Connection, FamilyDescriptor, Put, Scan, TableDescriptor, TableName, TableState},
};
use tempfile::TempDir;
use tokio::{process::Command, time::sleep};

use crate::{
    cluster::{PATIENCE, TestCluster, until},
    settings::{Settings, is_long},
};

const OPERATORS: usize = 3;
const PARTITIONS: usize = 16;

/// What an operator does.
#[derive(Clone, Debug)]
enum Action {
    /// `table alter --attribute`.
    SetAttribute(usize),
    /// `table alter --family`.
    AddFamily(String),
    /// `provision apply` of a file with an attribute and the families of the round before.
    Apply(usize),
    /// `table repair`.
    Repair,
    /// `table reopen`.
    Reopen,
}

/// How the process of an operator ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    Refused,
    Killed,
}

/// What the table must have.
#[derive(Debug, Default)]
struct Model {
    /// The values that each attribute may have.
    attributes: BTreeMap<String, Vec<Option<String>>>,
    families: Vec<String>,
    /// Families that a killed process may have added.
    possible: Vec<String>,
}

struct Scene {
    uri: String,
    name: TableName,
    folder: TempDir,
}

impl Scene {
    fn command(&self, action: &Action, round: u32, model: &Model) -> Command {
        let name = self.name.to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hbase-txn"));
        match action {
            Action::SetAttribute(operator) => {
                let setting = format!("by-{operator}={round}");
                command.args(["table", "alter", &name, "--attribute", &setting])
            }
            Action::AddFamily(family) => command.args(["table", "alter", &name, "--family", family]),
            Action::Apply(operator) => {
                let families = model
                    .families
                    .iter()
                    .map(|family| format!("{{name = '{family}'}}"));
                let families = families.collect::<Vec<_>>().join(", ");
                let text = format!(
                    "table = '{name}'\npartition = {{prefix_length = 2}}\nfamily = [{families}]\n\
                     attributes = {{by-{operator} = '{round}'}}\n"
                );
                let path = self.folder.path().join(format!("{operator}.toml"));
                std::fs::write(&path, text).unwrap();
                command.args(["provision", "apply"]).arg(path)
            }
            Action::Repair => command.args(["table", "repair", &name, "--yes"]),
            Action::Reopen => command.args(["table", "reopen", &name]),
        };
        command
            .args(["--timeout", "3m"])
            .env("HBASE_TXN_CONNECT", &self.uri)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn operate(&self, action: &Action, round: u32, model: &Model, kill_after: Option<Duration>) -> End {
        let child = self.command(action, round, model).spawn().unwrap();
        let output = child.wait_with_output();
        let output = match kill_after {
            None => output.await.unwrap(),
            Some(limit) => match tokio::time::timeout(limit, output).await {
                Ok(output) => output.unwrap(),
                // Dropped, and so killed.
                Err(_) => return End::Killed,
            },
        };
        let told = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => End::Done,
            Some(1) => {
                // Families that others have added since the plan of a file, or since it was written.
                let expected = ["- family", "changed since it was planned"];
                assert!(
                    expected.iter().any(|why| told.contains(why)),
                    "{action:?}: {told}"
                );
                End::Refused
            }
            code => panic!("{action:?} exited with {code:?}: {told}"),
        }
    }
}

impl Model {
    fn record(&mut self, action: &Action, end: End, round: u32) {
        match action {
            Action::SetAttribute(operator) | Action::Apply(operator) => {
                let values = self
                    .attributes
                    .entry(format!("by-{operator}"))
                    .or_insert_with(|| vec![None]);
                match end {
                    End::Done => *values = vec![Some(round.to_string())],
                    End::Killed => values.push(Some(round.to_string())),
                    End::Refused => {}
                }
            }
            Action::AddFamily(family) => match end {
                End::Done => self.families.push(family.clone()),
                End::Killed => self.possible.push(family.clone()),
                End::Refused => panic!("a family is refused"),
            },
            Action::Repair | Action::Reopen => {}
        }
    }

    /// Checks a table, and remembers what it has.
    fn check(&mut self, found: &TableDescriptor) {
        for (attribute, values) in &mut self.attributes {
            let now = found.attribute(attribute).map(str::to_owned);
            assert!(
                values.contains(&now),
                "{attribute} is {now:?}, and not one of {values:?}"
            );
            *values = vec![now];
        }
        for family in self.possible.drain(..) {
            if found.family(family.as_bytes()).is_some() {
                self.families.push(family);
            }
        }
        for family in &self.families {
            assert!(
                found.family(family.as_bytes()).is_some(),
                "family {family} is lost"
            );
        }
        let rule = PartitionRule::from_descriptor(found).unwrap();
        assert_eq!(rule, PartitionRule::prefix_length(2).unwrap());
        assert!(found.names_multi_row_mutation_endpoint());
        assert!(found.family(TableDescriptor::RECORD_FAMILY).is_some());
    }
}

fn draw(rng: &mut Rng, operator: usize, round: u32) -> Action {
    match rng.u32(0..10) {
        0..4 => Action::SetAttribute(operator),
        4 => Action::AddFamily(format!("f{round}x{operator}")),
        5..8 => Action::Apply(operator),
        8 => Action::Repair,
        _ => Action::Reopen,
    }
}

/// Moves and splits regions.
async fn disturb(admin: &Admin, name: &TableName, rng: &mut Rng) {
    sleep(Duration::from_millis(rng.u64(0..1_500))).await;
    let Ok(regions) = admin.regions(name).await else {
        return;
    };
    let region = &regions[rng.usize(..regions.len())].region;
    let servers: Vec<_> = regions.iter().filter_map(|found| found.server.as_ref()).collect();
    // Refused while the table is changed.
    let _ = match (rng.u32(0..3), rng.choice(servers)) {
        (0, _) | (1, None) => admin.balance().await.map(drop),
        (1, Some(server)) => admin.move_region(region, server).await,
        _ => {
            let at = format!("{:02}", rng.usize(..PARTITIONS));
            admin.split_region(region, Some(at.into())).await
        }
    };
}

/// Rows are kept, nothing is disabled, and each change whose process exited with 0 is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_at_once_lose_nothing() {
    let cluster = TestCluster::take().await;
    let settings = Settings::of("operators");
    let connection = cluster.connect().await;
    let admin = Admin::new(&connection).with_operation_timeout(PATIENCE);
    let name: TableName = format!("operators_{}", settings.seed).parse().unwrap();
    let scene = Scene {
        uri: cluster.uri(),
        name: name.clone(),
        folder: tempfile::tempdir().unwrap(),
    };
    let descriptor = TableDescriptor::from(name.clone())
        .with_family(FamilyDescriptor::new("f"))
        .with_partition_rule(&PartitionRule::prefix_length(2).unwrap())
        .with_multi_row_mutation_endpoint()
        .with_record_family();
    admin
        .create_table(&descriptor, &["04".into(), "08".into()])
        .await
        .unwrap();
    fill(&connection, &name).await;
    admin.balancer_switch(true).await.unwrap();
    let mut model = Model {
        families: vec!["f".to_owned()],
        ..Model::default()
    };
    let mut rng = settings.rng(1);
    let rounds = if is_long() {
        settings.rounds.max(200)
    } else {
        settings.rounds.max(4)
    };
    let mut ends = BTreeMap::<&str, u32>::new();
    for round in 0..rounds {
        let actions: Vec<_> = (0..OPERATORS)
            .map(|operator| draw(&mut rng, operator, round))
            .collect();
        let kill_after: Vec<_> = (0..OPERATORS)
            .map(|_| (rng.u32(0..4) == 0).then(|| Duration::from_millis(rng.u64(0..3_000))))
            .collect();
        let operated = actions.iter().zip(&kill_after);
        let operated = operated.map(|(action, kill)| scene.operate(action, round, &model, *kill));
        let (operated, ()) = join(join_all(operated), disturb(&admin, &name, &mut rng)).await;
        admin.await_table_procedures(&name).await.unwrap();
        for (action, end) in actions.iter().zip(operated) {
            model.record(action, end, round);
            let end = match end {
                End::Done => "done",
                End::Refused => "refused",
                End::Killed => "killed",
            };
            *ends.entry(end).or_default() += 1;
        }
        let found = admin.descriptor(&name).await.unwrap();
        model.check(&found);
        assert_eq!(admin.state(&name).await.unwrap(), TableState::Enabled);
    }
    println!(
        "operators: {rounds} rounds, {ends:?}, {} families",
        model.families.len()
    );
    assert!(ends.get("done").is_some_and(|done| *done >= rounds), "{ends:?}");
    let rows = until("all rows", PATIENCE, async || {
        let scanner = connection
            .table(&name)
            .unwrap()
            .scan(Scan::new().family("f"))
            .ok()?;
        let rows = futures::TryStreamExt::try_collect::<Vec<_>>(scanner.into_stream())
            .await
            .ok()?;
        Some(rows.len())
    })
    .await;
    assert_eq!(rows, PARTITIONS * 2);
    admin.delete_table(&name).await.unwrap();
}

async fn fill(connection: &Connection, name: &TableName) {
    let table = PartitionedTable::open(connection, name.clone()).await.unwrap();
    for partition in 0..PARTITIONS {
        let mut transaction = table.transaction(format!("{partition:02}"));
        for row in ["1", "2"] {
            transaction = transaction.put(Put::new(format!("{partition:02}{row}")).cell("f", "q", "v"));
        }
        transaction.commit().await.into_result().unwrap();
    }
}
