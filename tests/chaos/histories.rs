//! Drawn programs have linearizable histories, under cut connections, moving regions and killed
//! servers. Porcupine checks them.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use fastrand::Rng;
use hbase_txn::{
    PartitionRule, PartitionedTable, TableDescriptorExt,
    admin::Admin,
    client::{Connection, FamilyDescriptor, ServiceKind, TableDescriptor, TableName},
};
use tokio::task::JoinSet;

use crate::{
    cluster::{PATIENCE, TestCluster, drop_table, until},
    linearizable::{
        checker,
        objects::ObjectLog,
        program::{FAMILIES, Mix},
        runner::Shared,
    },
    proxy::{Action, Proxy},
    regions::Shuffler,
    settings::{Settings, is_long},
};

const TEST: &str = "linearizable";
const CLIENTS: usize = 4;
const TASKS: usize = 16;
/// The operations of a task in a round. Their number limits the time of a check.
const OPERATIONS: usize = 100;
const PARTITIONS: usize = 16;
/// The seconds for the check of one history.
const CHECK: u32 = 20;
/// The time limit of one call. A lost answer blocks its partition for that time.
const RPC_TIMEOUT: Duration = Duration::from_millis(300);
/// The deadline of one operation.
const DEADLINE: Duration = Duration::from_secs(10);
/// The longest delay of a request.
const LATE: u64 = 1_500;

/// The properties of a table.
#[derive(Clone, Copy, Debug)]
struct Variant {
    versioned: bool,
    /// The versions of each cell.
    versions: u32,
}

/// What the checks have found.
#[derive(Debug, Default)]
struct Found {
    operations: usize,
    histories: usize,
    undecided: usize,
    /// The longest check, in seconds.
    longest: f64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_are_linearizable_under_any_fault() {
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let variants = settings.variants([
        Variant {
            versioned: false,
            versions: 1,
        },
        Variant {
            versioned: false,
            versions: 3,
        },
        Variant {
            versioned: true,
            versions: 1,
        },
        Variant {
            versioned: true,
            versions: 3,
        },
    ]);
    let operations = Settings::operations(1_600, 200_000) / variants.len();
    for (number, variant) in variants.into_iter().enumerate() {
        let found = run(&cluster, &settings, number, variant, operations).await;
        println!("{TEST}: {variant:?}: {found:?}");
        assert!(
            10 * found.undecided <= found.histories,
            "too few histories were decided: {found:?}"
        );
    }
}

/// Checks the histories of the locks or latches of a test. That of a latch with many unknown outcomes may
/// stay undecided.
pub(crate) fn check_objects(test: &str, log: &ObjectLog) {
    let mut found = Found::default();
    tokio::task::block_in_place(|| found.check(&log.take(), &[]));
    println!("{test}: {found:?}");
    assert!(
        found.histories == 0 || found.undecided < found.histories,
        "no history was decided: {found:?}"
    );
}

/// Runs rounds of programs on new partitions, and checks the histories of each.
async fn run(
    cluster: &TestCluster,
    settings: &Settings,
    number: usize,
    variant: Variant,
    operations: usize,
) -> Found {
    let plain = cluster.connect().await;
    let table = create(&plain, settings, variant).await;
    let proxy = Proxy::new();
    let mut connections = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let config = cluster
            .config()
            .with_read_timeout(RPC_TIMEOUT)
            .with_write_timeout(RPC_TIMEOUT);
        let connection = Connection::builder(config).connector(proxy.clone()).connect();
        let connection = connection.await.unwrap();
        let opened = PartitionedTable::open(&connection, table.name().clone()).await;
        clients.push((opened.unwrap().with_operation_timeout(DEADLINE), DEADLINE));
        connections.push(connection);
    }
    let mix = Mix::new(variant.versioned, true, Duration::from_millis(200), 30);
    let injected = begin_faults(&proxy, settings.rng(100 + number as u64));
    let mut shuffler = Shuffler::new(&plain, table.name(), settings.rng(200 + number as u64));
    let mut found = Found::default();
    let rounds = operations.div_ceil(TASKS * OPERATIONS);
    for round in 0..rounds {
        // New partitions, so that histories stay short.
        let partitions: Vec<String> = ('a'..)
            .take(PARTITIONS)
            .map(|region| format!("{region}{:02}", round % 100))
            .collect();
        let shared = Arc::new(Shared::new(mix, clients.clone()));
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (shared, partitions) = (Arc::clone(&shared), partitions.clone());
            let rng = settings.rng((1 + number as u64) * 1_000_000 + (round * TASKS + task) as u64);
            tasks.spawn(async move {
                let name = format!("{round}t{task}");
                shared.perform(&name, &partitions, OPERATIONS, rng).await;
            });
        }
        disturb(cluster, &plain, &mut shuffler, &partitions, round).await;
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        // Requests in flight may still be applied.
        until("end of all detours", PATIENCE, async || {
            (proxy.under_way() == 0).then_some(())
        })
        .await;
        for partition in &partitions {
            shared.read_all(&table, partition).await;
        }
        let (histories, _) = shared.log.take();
        let contradictions = shared.log.contradictions();
        tokio::task::block_in_place(|| found.check(&histories, &contradictions));
    }
    println!(
        "{TEST}: {:?}; faults {:?}",
        shuffler.done,
        injected.lock().unwrap()
    );
    drop_table(&plain, &table).await;
    for connection in connections {
        connection.close().await;
    }
    plain.close().await;
    found
}

impl Found {
    fn check(&mut self, histories: &str, contradictions: &[String]) {
        let mut violations = contradictions.to_vec();
        for verdict in checker::check(histories, CHECK) {
            self.histories += 1;
            self.operations += verdict.operations;
            self.undecided += usize::from(verdict.is_legal.is_none());
            self.longest = self.longest.max(verdict.seconds);
            if verdict.is_legal == Some(false) {
                violations.push(format!(
                    "{} is not linearizable:\n{}",
                    verdict.history,
                    verdict.violation.join("\n")
                ));
            }
        }
        if !violations.is_empty() {
            let folder = Path::new(env!("REPOSITORY")).join("target/chaos");
            let file = folder.join(format!("{TEST}-{}.jsonl", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            fs::write(&file, histories).unwrap();
            panic!(
                "{}\nthe histories are in {}",
                violations.join("\n"),
                file.display()
            );
        }
    }
}

/// Moves, splits, merges and flushes regions, and kills a server in some rounds.
async fn disturb(
    cluster: &TestCluster,
    plain: &Connection,
    shuffler: &mut Shuffler,
    partitions: &[String],
    round: usize,
) {
    shuffler.move_one().await;
    let admin = Admin::new(plain).with_operation_timeout(PATIENCE);
    let region = shuffler.choose_region().await;
    // The region may be in transition.
    let _ = admin.flush_region(&region.region).await;
    if !is_long() || round.is_multiple_of(8) {
        let boundary = shuffler.rng.choice(partitions).unwrap().clone();
        shuffler.split_at(&boundary, PATIENCE).await;
    }
    shuffler.move_one().await;
    if !is_long() || round % 8 == 1 {
        let server = shuffler.rng.u16(1..=3);
        cluster.kill(server).await;
        cluster.start(server).await;
        cluster.settle(plain).await;
    }
}

/// Creates the table, with several partitions in each region.
async fn create(connection: &Connection, settings: &Settings, variant: Variant) -> PartitionedTable {
    let name = format!("{TEST}_{}_{:x}", settings.seed, fastrand::u32(..));
    let name: TableName = name.parse().unwrap();
    let mut descriptor = TableDescriptor::from(name.clone())
        .with_multi_row_mutation_endpoint()
        .with_record_family();
    for family in FAMILIES {
        let family = FamilyDescriptor::new(family).with_attribute("VERSIONS", variant.versions.to_string());
        descriptor = descriptor.with_family(family);
    }
    for (key, value) in PartitionRule::prefix_length(3).unwrap().attributes() {
        descriptor = descriptor.with_attribute(key, value);
    }
    if variant.versioned {
        descriptor = descriptor.with_partition_version();
    }
    let admin = Admin::new(connection).with_operation_timeout(PATIENCE);
    let split_keys = ["f".into(), "k".into()];
    admin.create_table(&descriptor, &split_keys).await.unwrap();
    PartitionedTable::open(connection, name).await.unwrap()
}

/// Loses answers, delays requests and cuts connections. No request arrives twice: a write without a
/// record that did would have two effects.
fn begin_faults(proxy: &Proxy, mut rng: Rng) -> Arc<Mutex<[usize; 4]>> {
    let injected = Arc::new(Mutex::new([0; 4]));
    let counts = Arc::clone(&injected);
    proxy.rule(move |request| {
        if request.service != ServiceKind::Client {
            return Action::Pass;
        }
        let is_write = matches!(request.method.as_str(), "ExecService" | "Multi" | "Mutate");
        let (kind, action) = match rng.u32(..1_000) {
            0..15 if is_write => (0, Action::DropAnswer),
            15..35 if is_write => (1, Action::Detour(Duration::from_millis(rng.u64(20..LATE)))),
            35..40 if is_write => (2, Action::DropRequest),
            40..43 => (0, Action::DropAnswer),
            43..55 => {
                let cuts = [
                    Action::CutBeforeRequest,
                    Action::CutInRequest,
                    Action::CutAfterRequest,
                    Action::CutBeforeAnswer,
                    Action::CutInAnswer,
                ];
                (3, *rng.choice(&cuts).unwrap())
            }
            _ => return Action::Pass,
        };
        counts.lock().unwrap()[kind] += 1;
        action
    });
    injected
}
