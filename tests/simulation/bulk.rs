//! Lists of mutations, writers and streams, in regions that move, split and merge.

use std::{collections::BTreeMap, time::Duration};

use fastrand::Rng;
use futures::{StreamExt, stream};
use hbase_fake::sim::World;
use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{
        Delete, FamilyDescriptor, Get, IngestEvent, Mutation, Put, Table, TableDescriptor, WriterOptions,
    },
};
use tokio::{task::LocalSet, time::timeout};

use crate::bench::{FAMILY, connect};

const TASKS: usize = 2;
const ROUNDS: usize = 4;
/// The rows of a task that are written several times.
const ROWS: usize = 12;
const MUTATIONS: usize = 40;

/// The values of a row that it may have: `None` if it is deleted.
#[derive(Debug, Default)]
struct Values {
    /// The last acknowledged one.
    written: Option<u64>,
    /// Those whose outcome is unknown, which may be applied late.
    maybe: Vec<Option<u64>>,
}

/// What a mutation changes.
#[derive(Clone, Debug)]
enum Change {
    Put {
        row: usize,
        value: u64,
    },
    /// Deletes a row that is written again.
    DeleteForNow {
        row: usize,
        value: u64,
    },
    /// Deletes a row that is not written again.
    Delete {
        row: String,
    },
    /// Puts a cell of a family that does not exist.
    NoFamily,
}

struct Task {
    name: String,
    table: Table,
    rng: Rng,
    next: u64,
    rows: Vec<Values>,
    /// Whether each row was deleted: certainly, perhaps, or not.
    deleted: BTreeMap<String, Option<bool>>,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let descriptor = TableDescriptor::new("bulk")
        .unwrap()
        .with_family(FamilyDescriptor::new(FAMILY));
    let split_keys = ["0-06".into(), "1-03".into(), "1-09".into()];
    Admin::new(&plain)
        .create_table(&descriptor, &split_keys)
        .await
        .unwrap();
    let table = plain.table("bulk").unwrap();
    let tasks = LocalSet::new();
    let mut running = Vec::new();
    for number in 0..TASKS {
        let connection = connect(&world, &mut rng).await;
        let deadline = Duration::from_millis(rng.u64(300..4_000));
        let task = Task {
            name: number.to_string(),
            table: connection.table("bulk").unwrap().with_operation_timeout(deadline),
            rng: world.rng(1 + number as u64),
            next: 1,
            rows: (0..ROWS).map(|_| Values::default()).collect(),
            deleted: BTreeMap::new(),
        };
        task.prepare(&table).await;
        running.push(tasks.spawn_local(task.run()));
    }
    world.begin_faults();
    tasks.await;
    world.end_faults().await;
    for task in running {
        task.await.unwrap().check(&table).await;
    }
}

impl Task {
    fn row(&self, number: usize) -> String {
        format!("{}-{number:02}", self.name)
    }

    /// Odd rows have timestamps of their own, and even ones those of the server.
    fn put(&self, row: usize, value: u64) -> Put {
        let put = Put::new(self.row(row)).cell(FAMILY, "n", value.to_string());
        match row % 2 {
            0 => put,
            _ => put.timestamp(value),
        }
    }

    /// Deletes what the row has, with a timestamp where puts have one.
    fn delete(&self, row: usize, value: u64) -> Delete {
        let delete = Delete::new(self.row(row));
        match row % 2 {
            0 => delete,
            _ => delete.timestamp(value),
        }
    }

    fn short_lived(&self, number: usize) -> String {
        format!("{}-short{number:03}", self.name)
    }

    /// Writes the rows that will be deleted.
    async fn prepare(&self, table: &Table) {
        let puts =
            (0..ROUNDS * MUTATIONS).map(|number| Put::new(self.short_lived(number)).cell(FAMILY, "n", "v"));
        for done in table.mutate_many(puts).await {
            done.unwrap();
        }
    }

    async fn run(mut self) -> Self {
        for round in 0..ROUNDS {
            let changes: Vec<_> = (0..self.rng.usize(1..MUTATIONS))
                .map(|number| self.change(round * MUTATIONS + number))
                .collect();
            let mutations = changes.iter().map(|change| self.mutation(change)).collect();
            let results = match self.rng.u8(..3) {
                0 => self.mutate_many(mutations).await,
                1 => self.write(mutations).await,
                _ => self.ingest(mutations).await,
            };
            for (change, result) in changes.iter().zip(results) {
                self.note(change, result);
            }
        }
        self
    }

    fn change(&mut self, number: usize) -> Change {
        match self.rng.u8(..20) {
            0 => Change::NoFamily,
            1..4 => Change::Delete {
                row: self.short_lived(number),
            },
            drawn => {
                let value = self.next;
                self.next += 1;
                let row = self.rng.usize(..ROWS);
                match drawn {
                    4..7 => Change::DeleteForNow { row, value },
                    _ => Change::Put { row, value },
                }
            }
        }
    }

    fn mutation(&self, change: &Change) -> Mutation {
        match change {
            Change::Put { row, value } => self.put(*row, *value).into(),
            Change::DeleteForNow { row, value } => self.delete(*row, *value).into(),
            Change::Delete { row } => Delete::new(row.clone()).into(),
            Change::NoFamily => Put::new(self.row(0)).cell("absent", "n", "v").into(),
        }
    }

    /// Returns the results, or none for calls that are dropped midway.
    async fn mutate_many(&mut self, mutations: Vec<Mutation>) -> Vec<Option<hbase_txn::Result<()>>> {
        let count = mutations.len();
        let patience = self.patience();
        match timeout(patience, self.table.mutate_many(mutations)).await {
            Ok(results) => {
                assert_eq!(results.len(), count);
                let results = results.into_iter();
                results.map(|result| Some(result.map_err(Into::into))).collect()
            }
            Err(_) => {
                assert!(patience < Duration::from_secs(1), "mutate_many does not end");
                vec![None; count]
            }
        }
    }

    async fn write(&mut self, mutations: Vec<Mutation>) -> Vec<Option<hbase_txn::Result<()>>> {
        let count = mutations.len();
        let patience = self.patience();
        let options = self.options();
        let writer = self.table.writer(options);
        let written = async {
            for (number, mutation) in (0..).zip(mutations) {
                assert_eq!(writer.write(mutation).await.unwrap(), number);
            }
            let flushed = writer.flush().await;
            let failures = writer.take_failures();
            assert_eq!(flushed.is_ok(), failures.is_empty(), "{flushed:?}");
            assert_eq!(writer.watermark(), count as u64);
            let mut results = vec![Some(Ok(())); count];
            for failed in failures {
                results[failed.number as usize] = Some(Err(failed.error.into()));
            }
            results
        };
        match timeout(patience, written).await {
            Ok(results) => results,
            Err(_) => {
                assert!(patience < Duration::from_secs(1), "a writer does not end");
                let done = writer.watermark() as usize;
                let mut results = vec![None; count];
                results[..done].fill(Some(Ok(())));
                for failed in writer.take_failures() {
                    results[failed.number as usize] = Some(Err(failed.error.into()));
                }
                results
            }
        }
    }

    async fn ingest(&mut self, mutations: Vec<Mutation>) -> Vec<Option<hbase_txn::Result<()>>> {
        let mut results = vec![None; mutations.len()];
        let patience = self.patience();
        let options = self.options();
        let mut events = self.table.ingest(stream::iter(mutations), options);
        let mut done = 0;
        let ended = timeout(patience, async {
            while let Some(event) = events.next().await {
                match event {
                    IngestEvent::Failed(failed) => {
                        assert!(failed.number >= done, "a failure behind its watermark");
                        results[failed.number as usize] = Some(Err(failed.error.into()));
                    }
                    IngestEvent::Watermark(watermark) => {
                        assert!(watermark > done);
                        done = watermark;
                    }
                    other => panic!("{other:?}"),
                }
            }
        });
        let ended = ended.await;
        if ended.is_ok() {
            assert_eq!(done, results.len() as u64);
        }
        assert!(
            ended.is_ok() || patience < Duration::from_secs(1),
            "a stream does not end"
        );
        for result in &mut results[..done as usize] {
            result.get_or_insert(Ok(()));
        }
        results
    }

    fn options(&mut self) -> WriterOptions {
        let options = WriterOptions::new().buffer_size(self.rng.usize(1..4_000));
        if self.rng.bool() {
            options.at_least_once()
        } else {
            options
        }
    }

    fn patience(&mut self) -> Duration {
        match self.rng.u8(..8) {
            0 => Duration::from_micros(self.rng.u64(..200_000)),
            _ => Duration::from_secs(600),
        }
    }

    fn note(&mut self, change: &Change, result: Option<hbase_txn::Result<()>>) {
        let certainty = match &result {
            None => None,
            Some(Ok(())) => Some(true),
            Some(Err(error)) => (!error.is_outcome_unknown()).then_some(false),
        };
        match change {
            Change::Put { row, .. } | Change::DeleteForNow { row, .. } => {
                let written = match change {
                    Change::Put { value, .. } => Some(*value),
                    _ => None,
                };
                let values = &mut self.rows[*row];
                match certainty {
                    Some(true) => values.written = written,
                    None => values.maybe.push(written),
                    Some(false) => {
                        // That is the failure of another mutation.
                        let kind = result.unwrap().unwrap_err().kind();
                        assert_ne!(kind, ClientErrorKind::FamilyNotFound);
                    }
                }
            }
            Change::Delete { row } => {
                self.deleted.insert(row.clone(), certainty);
            }
            Change::NoFamily => assert_ne!(certainty, Some(true)),
        }
    }

    async fn check(&self, table: &Table) {
        for (number, values) in self.rows.iter().enumerate() {
            let row = table.get(Get::new(self.row(number))).await.unwrap();
            let found = row.map(|row| {
                let value = std::str::from_utf8(row.value(FAMILY, "n").unwrap()).unwrap();
                value.parse::<u64>().unwrap()
            });
            let is_possible = found == values.written || values.maybe.contains(&found);
            assert!(is_possible, "row {number} has {found:?}: {values:?}");
        }
        for (row, certainty) in &self.deleted {
            let is_there = table.get(Get::new(row.clone())).await.unwrap().is_some();
            let is_right = certainty.is_none_or(|is_deleted| is_deleted != is_there);
            assert!(is_right, "{row}: deleted {certainty:?}, and there {is_there}");
        }
    }
}
