//! The rounds: every contestant in turn, on one server.

use std::{collections::BTreeMap, fs, thread};

use bytes::Bytes;
use hbase_local::{ClusterStatus, LocalCluster};
use hbase_txn::{
    PartitionRule, PartitionedTable, TableDescriptorExt,
    admin::Admin,
    client::{Connection, FamilyDescriptor, Put, TableDescriptor, TableName},
};
use tokio::{runtime::Runtime, time};

use super::{
    Options,
    process::{self, Process, Target, Usage},
    report::{Cluster, Machine, Method, Report, Round, WorkloadReport},
    setup::{self, CLUSTER, Failure},
    workload::{
        self, Contestant, FAMILY, PARTITIONS, QUALIFIER, ROWS_OF_PARTITION, VALUE, Variant, Workload,
    },
};

/// The largest share of the machine that other processes may have in a round that counts.
const MAX_FOREIGN: f64 = 0.03;

/// The most rounds of a workload that are repeated.
fn repeats(rounds: usize) -> usize {
    rounds.div_ceil(2)
}

/// The floor neither authenticates nor encrypts.
fn contestants(options: &Options) -> &'static [Contestant] {
    match options.guard {
        None => &[Contestant::Ours, Contestant::Java, Contestant::Floor],
        Some(_) => &[Contestant::Ours, Contestant::Java],
    }
}

/// Measures all workloads, and writes the report.
pub(crate) fn measure(options: &Options) -> Result<Report, Failure> {
    let name = std::env::var(CLUSTER)
        .map_err(|_| format!("{CLUSTER} names no local cluster; make bench boots one"))?;
    let status = LocalCluster::new(&name)?.status()?;
    let cluster = cluster(&status, options.regions)?;
    let runtime = Runtime::new()?;
    let tables = runtime.block_on(Tables::create(&status, options.regions))?;
    let measured = Driver::start(options, &status, &tables, &runtime).and_then(|mut driver| {
        let workloads = driver.run(options)?;
        let clients = driver.contestants.iter();
        Ok(Report {
            machine: Machine::read(driver.processors)?,
            cluster,
            guard: options.guard.clone(),
            clients: clients
                .map(|(contestant, process)| (*contestant, process.description.clone()))
                .collect(),
            method: Method {
                rounds: options.rounds,
                seconds: options.seconds,
                pinned: options.pinned,
                max_foreign: MAX_FOREIGN,
                max_repeats: repeats(options.rounds),
            },
            workloads,
        })
    });
    runtime.block_on(tables.delete())?;
    measured
}

fn cluster(status: &ClusterStatus, regions: usize) -> Result<Cluster, Failure> {
    let mut java_options = Vec::new();
    for (server, pid) in &status.pids {
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline"))?;
        let words = words.split('\0').filter(|word| word.starts_with("-X"));
        // A file's name says nothing about speed.
        let words: Vec<&str> = words.filter(|word| !word.contains('/')).collect();
        if words.iter().any(|word| word.contains("TieredStopAtLevel")) {
            return Err("the cluster was not started for measurements: use dev up --performance".into());
        }
        java_options.push((server.clone(), words.join(" ")));
    }
    Ok(Cluster {
        hbase: status.version.ok_or("the cluster does not run")?.to_string(),
        shape: status.shape.ok_or("the cluster does not run")?.to_string(),
        regions,
        java_options,
    })
}

/// The tables of the bench. One is only read, so that it is the same in all rounds.
struct Tables {
    connection: Connection,
    uri: String,
    reads: TableName,
    writes: TableName,
    /// Whether the balancer was on. It is off meanwhile, because the floor does not follow regions.
    balanced: bool,
}

impl Tables {
    async fn create(status: &ClusterStatus, regions: usize) -> Result<Self, Failure> {
        let uri = status.uri.clone().ok_or("the cluster does not run")?;
        let connection = Connection::builder(setup::config(status)?).connect().await?;
        let id = fastrand::u32(..);
        let tables = Self {
            balanced: Admin::new(&connection).balancer_switch(false).await?,
            connection,
            uri,
            reads: format!("bench_client_{id:08x}_read").parse()?,
            writes: format!("bench_client_{id:08x}_write").parse()?,
        };
        let splits = (1..regions).map(|region| format!("{:03}", region * PARTITIONS / regions).into());
        let splits: Vec<Bytes> = splits.collect();
        for name in [&tables.reads, &tables.writes] {
            let descriptor = TableDescriptor::from(name.clone())
                .with_family(FamilyDescriptor::new(FAMILY))
                .with_partition_rule(&PartitionRule::prefix_length(3)?)
                .with_multi_row_mutation_endpoint()
                .with_record_family();
            Admin::new(&tables.connection)
                .create_table(&descriptor, &splits)
                .await?;
            // Reads need the rows; writes overwrite them, in all rounds alike.
            let table = PartitionedTable::open(&tables.connection, name.clone()).await?;
            let mut batch = table.batch();
            batch.extend(
                (0..PARTITIONS * ROWS_OF_PARTITION)
                    .map(|number| Put::new(workload::nth_row(number)).cell(FAMILY, QUALIFIER, &VALUE[..])),
            );
            for group in batch.commit().await {
                group.outcome.into_result()?;
            }
            Admin::new(&tables.connection).flush_table(name.clone()).await?;
        }
        Admin::new(&tables.connection)
            .major_compact_table(tables.reads.clone())
            .await?;
        Ok(tables)
    }

    async fn delete(self) -> Result<(), Failure> {
        for table in [&self.reads, &self.writes] {
            Admin::new(&self.connection).delete_table(table.clone()).await?;
        }
        Admin::new(&self.connection)
            .balancer_switch(self.balanced)
            .await?;
        Ok(())
    }
}

/// The contestants, and the servers that they share.
struct Driver<'a> {
    contestants: BTreeMap<Contestant, Process>,
    tables: &'a Tables,
    runtime: &'a Runtime,
    servers: Vec<i32>,
    processors: usize,
    /// Whether the servers have to be given all processors again.
    pinned: bool,
}

impl<'a> Driver<'a> {
    fn start(
        options: &Options,
        status: &ClusterStatus,
        tables: &'a Tables,
        runtime: &'a Runtime,
    ) -> Result<Self, Failure> {
        let port = status.ports.get("zookeeper").copied();
        let target = Target {
            uri: tables.uri.clone(),
            environment: status.environment.clone(),
            zookeeper_port: port.ok_or("the cluster has no ZooKeeper")?,
            reads: tables.reads.to_string(),
            writes: tables.writes.to_string(),
        };
        let processors = thread::available_parallelism()?.get();
        if options.pinned && processors < 2 {
            return Err("--pinned needs two processors".into());
        }
        let mut driver = Self {
            contestants: BTreeMap::new(),
            tables,
            runtime,
            servers: status.pids.values().copied().collect(),
            processors,
            pinned: options.pinned,
        };
        if options.pinned {
            for server in &driver.servers {
                process::pin(*server, &format!("1-{}", processors - 1))?;
            }
        }
        for contestant in contestants(options) {
            let process = Process::start(*contestant, &target, options.pinned)?;
            driver.contestants.insert(*contestant, process);
        }
        Ok(driver)
    }

    fn run(&mut self, options: &Options) -> Result<Vec<WorkloadReport>, Failure> {
        let contestants = contestants(options);
        let wanted = |workload: &Workload| {
            options.workloads.is_empty() || options.workloads.iter().any(|id| id == workload.id)
        };
        let workloads: Vec<Workload> = workload::all(options.seconds)
            .into_iter()
            .filter(wanted)
            .map(|workload| workload.of(contestants))
            .collect();
        if workloads.is_empty() {
            return Err("no workload has such a name".into());
        }
        // The first round of everything does not count: locations, connections, compilers.
        for workload in &workloads {
            for variant in &workload.variants {
                self.round(variant)?;
            }
        }
        let workloads = workloads.iter().map(|workload| {
            let report = self.workload(workload, options.rounds)?;
            print(&report);
            Ok(report)
        });
        workloads.collect()
    }

    /// Measures the variants of a workload in the order ABBA. A round with other processes is repeated
    /// for all variants, but not without limit.
    fn workload(&mut self, workload: &Workload, rounds: usize) -> Result<WorkloadReport, Failure> {
        let mut seen: Vec<Vec<Round>> = workload.variants.iter().map(|_| Vec::new()).collect();
        let (mut dropped, mut disturbed) = (0, 0);
        while seen[0].len() < rounds {
            let mut order: Vec<usize> = (0..workload.variants.len()).collect();
            if (seen[0].len() + dropped) % 2 == 1 {
                order.reverse();
            }
            let mut round = BTreeMap::new();
            for index in order {
                round.insert(index, self.round(&workload.variants[index])?);
            }
            let is_disturbed = round.values().any(|round| round.foreign > MAX_FOREIGN);
            if is_disturbed && dropped < repeats(rounds) {
                dropped += 1;
                continue;
            }
            disturbed += usize::from(is_disturbed);
            for (index, round) in round {
                seen[index].push(round);
            }
        }
        Ok(WorkloadReport::of(workload, seen, dropped, disturbed))
    }

    fn round(&mut self, variant: &Variant) -> Result<Round, Failure> {
        self.settle()?;
        let own = [self.contestants[&variant.contestant].pid()];
        let before = self.usage()?;
        let process = self.contestants.get_mut(&variant.contestant);
        let answer = process.ok_or("no such contestant")?.perform(&variant.request)?;
        let after = self.usage()?;
        let rows_of_one = match variant.request.operation {
            workload::Operation::Commit => variant.request.rows,
            _ => 1,
        };
        let cpu = after.seconds_since(&before, &own);
        Ok(Round {
            rate: answer.done as f64 / answer.seconds,
            p50: answer.p50,
            p99: answer.p99,
            cpu_per_row: 1e6 * cpu / (answer.done as usize * rows_of_one) as f64,
            resident: process::resident(own[0])?,
            foreign: after.foreign_since(&before, self.processors),
        })
    }

    /// Flushes what was written, and waits until the servers have nothing to do.
    fn settle(&self) -> Result<(), Failure> {
        /// A server that does this for longer is measured anyway.
        const LIMIT: time::Duration = time::Duration::from_secs(10);
        const STEP: time::Duration = time::Duration::from_millis(200);
        const IDLE: f64 = 0.1;
        self.runtime.block_on(async {
            let table = self.tables.writes.clone();
            Admin::new(&self.tables.connection).flush_table(table).await?;
            let until = time::Instant::now() + LIMIT;
            while time::Instant::now() < until {
                let before = self.usage()?;
                time::sleep(STEP).await;
                let busy = self.usage()?.seconds_since(&before, &self.servers);
                if busy < IDLE * STEP.as_secs_f64() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Returns the processor time of all processes of the bench.
    fn usage(&self) -> Result<Usage, Failure> {
        let contestants = self.contestants.values().map(Process::pid);
        let mut pids: Vec<i32> = self.servers.iter().copied().chain(contestants).collect();
        pids.push(std::process::id() as i32);
        Usage::now(&pids)
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        for server in self.servers.iter().filter(|_| self.pinned) {
            drop(process::pin(*server, &format!("0-{}", self.processors - 1)));
        }
    }
}

fn print(workload: &WorkloadReport) {
    println!("\n{}", workload.title);
    for variant in &workload.variants {
        let micros = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |time| format!("{time:.0}"));
        let ratio = variant.ratio(workload.lone).map_or_else(String::new, |ratio| {
            let what = if workload.lone { "time" } else { "rate" };
            format!(
                "  {what} {:.2} ({:.2} to {:.2})",
                ratio.median, ratio.low, ratio.high
            )
        });
        println!(
            "  {:<12}  {:>9.0} {}/s  p50 {:>7} µs  p99 {:>7} µs  {:>6.2} µs CPU a row  {:>5.0} MB{ratio}",
            variant.name,
            variant.rate,
            workload.unit,
            micros(variant.p50),
            micros(variant.p99),
            variant.cpu_per_row,
            variant.resident / 1e6,
        );
    }
    if workload.dropped + workload.disturbed > 0 {
        println!(
            "  {} rounds repeated and {} kept while other processes ran",
            workload.dropped, workload.disturbed
        );
    }
}
