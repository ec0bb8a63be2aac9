//! Two transactions that conflict: each has read before the other one writes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use futures::future::join_all;
use hbase_txn::{Error, PartitionedTable, Updated};
use tokio::task::block_in_place;

use super::{
    log::Log,
    run::{Plan, create, naively},
};
use crate::{
    cluster::{QUALIFIER, TestCluster, drop_table},
    serialisability::{
        checker::{Kind, Report},
        history::{Fate, List, Transaction},
        recorder::{Recorder, View, lists},
    },
    settings::Settings,
};

/// The number of pairs of each kind.
const PAIRS: usize = 8;

/// The reads and writes of both transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pair {
    /// Reads a range, and inserts a row.
    Range,
    /// Reads a row, and adds a column.
    Row,
    /// Reads two cells, and writes one.
    TwoCells,
    /// Reads two absent cells, and creates one.
    TwoAbsentCells,
    /// Reads a cell, and writes it.
    OneCell,
}

pub(crate) const ALL: [Pair; 5] = [
    Pair::Range,
    Pair::Row,
    Pair::TwoCells,
    Pair::TwoAbsentCells,
    Pair::OneCell,
];

/// Runs pairs of each kind, and returns their reports.
pub(crate) async fn meet(
    cluster: &TestCluster,
    settings: &Settings,
    plan: Plan,
) -> BTreeMap<Pair, BTreeMap<Kind, usize>> {
    let connection = cluster.connect().await;
    let table = create(&connection, settings, plan).await;
    let log = Log::new(plan.test, settings);
    let sorts = ALL.into_iter().zip('a'..).map(async |(pair, letter)| {
        let reports = (0..PAIRS).map(|number| one(&table, plan, pair, format!("{letter}{number:02}"), &log));
        let mut all = Report::default();
        for report in join_all(reports).await {
            all.extend(report);
        }
        (pair, all.kinds())
    });
    let kinds = join_all(sorts).await.into_iter().collect();
    println!("{}: {}; {kinds:?}", plan.test, log.summary());
    drop_table(&connection, &table).await;
    connection.close().await;
    kinds
}

/// Runs one pair in a partition of its own.
async fn one(table: &PartitionedTable, plan: Plan, pair: Pair, partition: String, log: &Log) -> Report {
    fill(table, &partition, log).await;
    let encounter = Arc::new(Encounter {
        table: table.clone(),
        plan,
        pair,
        partition: partition.clone(),
        meeting: Meeting::default(),
    });
    let two = [0, 1].map(|who| tokio::spawn(Arc::clone(&encounter).take_part(who)));
    for one in two {
        log.note(&partition, one.await.unwrap(), Fate::Committed);
    }
    let end = table.snapshot(partition.clone()).await.unwrap();
    log.check(&partition, lists(&end))
}

/// Fills a partition with data to read.
async fn fill(table: &PartitionedTable, partition: &str, log: &Log) {
    let (attempt, fate) = naively(table, partition, "filled".to_owned(), |recorder| {
        for row in ["l0", "l1", "r"] {
            recorder.append(&format!("{partition}{row}"))?;
        }
        recorder.insert(&format!("{partition}w"), "filled")?;
        Ok(true)
    })
    .await;
    log.note(partition, vec![attempt], fate);
}

/// The two transactions of a pair.
struct Encounter {
    table: PartitionedTable,
    plan: Plan,
    pair: Pair,
    partition: String,
    meeting: Meeting,
}

impl Encounter {
    /// Runs one of the two. Returns its attempts; the last was committed.
    async fn take_part(self: Arc<Self>, who: usize) -> Vec<Transaction> {
        let Self {
            table,
            pair,
            partition,
            meeting,
            ..
        } = &*self;
        if !self.plan.updates {
            let (attempt, fate) = naively(table, partition, format!("t{who}.0"), |recorder| {
                let read = pair.read(partition, recorder)?;
                meeting.wait();
                pair.write(partition, who, &read, recorder)?;
                Ok(true)
            })
            .await;
            assert_eq!(fate, Fate::Committed);
            return vec![attempt];
        }
        let mut attempts: Vec<Transaction> = Vec::new();
        let updated = table
            .update(partition.clone(), |view| {
                let name = format!("t{who}.{}", attempts.len());
                let mut recorder = Recorder::new(View::Tracked(view), name);
                let read = pair.read(partition, &mut recorder)?;
                // The one that is rejected tries again alone.
                if attempts.is_empty() {
                    meeting.wait();
                }
                pair.write(partition, who, &read, &mut recorder)?;
                attempts.push(recorder.finish().0);
                Ok::<_, Error>(())
            })
            .await
            .unwrap();
        assert!(matches!(updated, Updated::Done { .. }), "{updated:?}");
        attempts
    }
}

impl Pair {
    fn read(self, partition: &str, on: &mut Recorder<'_, '_>) -> Result<List, Error> {
        let row = |row: &str| format!("{partition}{row}");
        match self {
            Self::Range => on.rows(&row("r"), &row("s")).map(|_| List::new()),
            Self::Row => on.row(&row("w")).map(|_| List::new()),
            Self::TwoCells => on.list(&row("l0")).and_then(|_| on.list(&row("l1"))),
            Self::TwoAbsentCells => on.list(&row("n0")).and_then(|_| on.list(&row("n1"))),
            Self::OneCell => on.list(&row("l0")),
        }
    }

    fn write(self, partition: &str, who: usize, read: &List, on: &mut Recorder<'_, '_>) -> Result<(), Error> {
        let row = |row: &str| format!("{partition}{row}");
        match self {
            Self::Range => on.insert(&row(&format!("r{who}")), QUALIFIER),
            Self::Row => on.insert(&row("w"), &format!("c{who}")),
            Self::TwoCells => on.append(&row(&format!("l{who}"))),
            Self::TwoAbsentCells => on.insert(&row(&format!("n{who}")), QUALIFIER),
            Self::OneCell => on.put_behind(&row("l0"), read),
        }
    }
}

/// A barrier for two threads.
#[derive(Default)]
struct Meeting {
    came: Mutex<usize>,
    both: Condvar,
}

impl Meeting {
    /// A closure can't await, so this blocks a thread; the runtime has others.
    fn wait(&self) {
        block_in_place(|| {
            let mut came = self.came.lock().unwrap();
            *came += 1;
            self.both.notify_all();
            let patience = Duration::from_secs(30);
            let waited = self
                .both
                .wait_timeout_while(came, patience, |came| *came < 2)
                .unwrap();
            assert!(!waited.1.timed_out(), "the other one did not come");
        });
    }
}
