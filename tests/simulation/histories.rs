//! Histories of drawn programs, which Porcupine checks.

use std::{
    env, fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hbase_fake::sim::World;
use hbase_txn::{
    PartitionRule, PartitionedTable, TableDescriptorExt,
    admin::Admin,
    client::{Connection, FamilyDescriptor, TableDescriptor, TableName},
};
use tokio::task::JoinSet;

use crate::{
    bench::{MAX_SKEW, connect_with, skew_clocks},
    linearizable::{
        checker,
        objects::ObjectLog,
        program::{FAMILIES, Mix},
        runner::Shared,
    },
};

const TABLE: &str = "linearizable";
const PARTITIONS: [&str; 2] = ["a00", "c00"];
const CLIENTS: usize = 4;
const TASKS: usize = 16;
const OPERATIONS: usize = 12;
/// The seconds for the check of one history.
const CHECK: u32 = 10;
/// The folder that gets the histories of each seed. If it is set, they are not checked.
const KEPT: &str = "LINEARIZABLE_HISTORIES";

/// What this process has checked.
static CHECKED: Checked = Checked::new();

/// The operations and histories that a scenario has checked, and the histories that it could not
/// decide.
pub(crate) struct Checked([AtomicUsize; 3]);

impl Checked {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicUsize::new(0) }; 3])
    }

    /// Checks the histories of a run. Returns the violations.
    pub(crate) fn check(&self, world: &World, histories: &str) -> Vec<String> {
        let mut violations = Vec::new();
        for verdict in checker::check(histories, CHECK) {
            self.0[0].fetch_add(verdict.operations, Ordering::Relaxed);
            self.0[1].fetch_add(1, Ordering::Relaxed);
            if verdict.is_legal.is_none() {
                self.0[2].fetch_add(1, Ordering::Relaxed);
                println!(
                    "SIM_SEED={}: {} is undecided after {:.0} s",
                    world.seed(),
                    verdict.history,
                    verdict.seconds
                );
            }
            if verdict.is_legal == Some(false) {
                violations.push(format!(
                    "{} is not linearizable:\n{}",
                    verdict.history,
                    verdict.violation.join("\n")
                ));
            }
        }
        violations
    }

    /// Checks the locks and latches of a run.
    ///
    /// # Panics
    ///
    /// Panics if a history is not linearizable.
    pub(crate) fn check_objects(&self, world: &World, log: &ObjectLog) {
        let violations = self.check(world, &log.take());
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }

    /// Prints how much was checked.
    ///
    /// # Panics
    ///
    /// Panics if too little was decided.
    pub(crate) fn report(&self) {
        let [operations, histories, undecided] = [0, 1, 2].map(|kind| self.0[kind].load(Ordering::Relaxed));
        println!("{operations} operations in {histories} histories, {undecided} of them undecided");
        assert!(20 * undecided <= histories, "too few histories were decided");
    }
}

/// Prints how much was checked.
pub(crate) fn report() {
    CHECKED.report();
}

/// Servers whose clocks agree.
pub(crate) async fn with_steady_clocks(world: World) {
    run(world, 0).await;
}

/// Servers whose clocks differ by up to 30 s.
pub(crate) async fn with_skewed_clocks(world: World) {
    run(world, MAX_SKEW).await;
}

async fn run(world: World, skew: i64) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    skew_clocks(&world, &plain, skew, &mut rng).await;
    let pause = Duration::from_millis(*rng.choice(&[100, 500, 2_000]).unwrap());
    let mix = Mix::new(rng.bool(), skew == 0, pause, 12);
    let mix = if rng.bool() { mix.thinned(&mut rng) } else { mix };
    let versions = *rng.choice(&[1, 3]).unwrap();
    create(&plain, mix.versioned, versions).await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let call = Duration::from_millis(*rng.choice(&[200, 1_000, 10_000]).unwrap());
        let connection = connect_with(&world, &mut rng, |config| {
            config.with_read_timeout(call).with_write_timeout(call)
        })
        .await;
        let deadline = Duration::from_millis(rng.u64(500..20_000));
        let table = PartitionedTable::open(&connection, TABLE).await.unwrap();
        clients.push((table.with_operation_timeout(deadline), deadline));
    }
    let shared = Arc::new(Shared::new(mix, clients));
    world.begin_faults();
    let mut tasks = JoinSet::new();
    let partitions: Vec<String> = PARTITIONS.map(str::to_owned).into();
    for task in 0..TASKS {
        let (shared, partitions, rng) = (
            Arc::clone(&shared),
            partitions.clone(),
            world.rng(1 + task as u64),
        );
        tasks.spawn(async move {
            shared
                .perform(&format!("t{task}"), &partitions, OPERATIONS, rng)
                .await;
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    world.end_faults().await;
    let table = PartitionedTable::open(&plain, TABLE).await.unwrap();
    for partition in &partitions {
        shared.read_all(&table, partition).await;
    }
    let (histories, _) = shared.log.take();
    if let Some(folder) = env::var_os(KEPT) {
        let file = format!("{}.jsonl", world.seed());
        fs::write(Path::new(&folder).join(file), &histories).unwrap();
        for contradiction in shared.log.contradictions() {
            println!("SIM_SEED={}: {contradiction}", world.seed());
        }
        return;
    }
    let mut failures = shared.log.contradictions();
    failures.extend(CHECKED.check(&world, &histories));
    assert!(
        failures.is_empty(),
        "{}\n{mix:?}, {versions} versions",
        failures.join("\n")
    );
}

/// Creates the table, with several partitions in each region.
async fn create(connection: &Connection, versioned: bool, versions: u32) {
    let name: TableName = TABLE.parse().unwrap();
    let mut descriptor = TableDescriptor::from(name)
        .with_multi_row_mutation_endpoint()
        .with_record_family();
    for family in FAMILIES {
        descriptor = descriptor
            .with_family(FamilyDescriptor::new(family).with_attribute("VERSIONS", versions.to_string()));
    }
    for (key, value) in PartitionRule::prefix_length(3).unwrap().attributes() {
        descriptor = descriptor.with_attribute(key, value);
    }
    if versioned {
        descriptor = descriptor.with_partition_version();
    }
    let split_keys = ["b".into()];
    Admin::new(connection)
        .create_table(&descriptor, &split_keys)
        .await
        .unwrap();
}
