//! Tasks that perform operations and record them.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use hbase_txn::PartitionedTable;
use tokio::time::sleep;

use super::{
    history::{Found, Log, Operation, Read, found},
    program::{Mix, draw_pause},
    streams::Streams,
};

/// The clients of a program, and what they have done.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) mix: Mix,
    /// One for each client, with the time limit of its operations.
    pub(crate) clients: Vec<(PartitionedTable, Duration)>,
    pub(crate) log: Log,
    /// What was seen last in each partition. Conditions are drawn from it.
    pub(crate) seen: Mutex<BTreeMap<String, Found>>,
    pub(crate) operations: AtomicUsize,
}

/// One task of a program.
pub(crate) struct Task<'s> {
    pub(crate) shared: &'s Shared,
    pub(crate) partition: String,
    /// The number of the client.
    pub(crate) client: usize,
    /// The name of the operation, which begins the values that it puts.
    pub(crate) name: String,
    pub(crate) rng: Rng,
}

impl Shared {
    pub(crate) fn new(mix: Mix, clients: Vec<(PartitionedTable, Duration)>) -> Self {
        Self {
            mix,
            clients,
            log: Log::default(),
            seen: Mutex::default(),
            operations: AtomicUsize::new(0),
        }
    }

    /// Performs so many operations in one task.
    pub(crate) async fn perform(&self, task: &str, partitions: &[String], operations: usize, mut rng: Rng) {
        let mut streams = Streams::default();
        for number in 0..operations {
            let mut task = Task {
                shared: self,
                partition: rng.choice(partitions).unwrap().clone(),
                client: rng.usize(..self.clients.len()),
                name: format!("{task}-{number}"),
                rng: rng.fork(),
            };
            task.perform(partitions, &mut streams).await;
            self.operations.fetch_add(1, Ordering::Relaxed);
            sleep(draw_pause(self.mix.pause, &mut rng)).await;
        }
    }

    /// Reads a partition after its last operation. The snapshot must succeed.
    pub(crate) async fn read_all(&self, table: &PartitionedTable, partition: &str) {
        let called = self.log.tick();
        let snapshot = table.snapshot(partition.to_owned()).await.unwrap();
        let read = Read {
            scope: String::new(),
            found: found(partition, snapshot.rows()),
        };
        let end = Operation::read(0, called, self.log.tick(), "the end", vec![read]);
        self.log.note(partition, end);
    }

    /// Notes what a read has found.
    pub(crate) fn see(&self, partition: &str, read: &Read) {
        let mut seen = self.seen.lock().unwrap();
        let cells = seen.entry(partition.to_owned()).or_default();
        cells.retain(|cell, _| !cell.starts_with(&read.scope));
        cells.extend(read.found.clone());
    }

    /// Returns what was seen last.
    pub(crate) fn seen(&self, partition: &str) -> Found {
        let seen = self.seen.lock().unwrap();
        seen.get(partition).cloned().unwrap_or_default()
    }
}

impl Task<'_> {
    pub(crate) fn table(&self) -> &PartitionedTable {
        &self.shared.clients[self.client].0
    }

    /// The time after which an operation has failed to end, or is dropped.
    pub(crate) fn patience(&mut self) -> (Duration, bool) {
        if self.rng.u32(..self.shared.mix.dropped) == 0 {
            let longest = self.shared.mix.pause;
            return (longest.mul_f64(self.rng.f64() / 20.0), true);
        }
        (self.shared.clients[self.client].1 * 3, false)
    }

    async fn perform(&mut self, partitions: &[String], streams: &mut Streams) {
        let mix = self.shared.mix;
        match self.rng.u8(..26) {
            9..13 if mix.updates => self.update().await,
            13..15 => self.snapshot().await,
            15 => self.get_row().await,
            16 => self.get_cell().await,
            17 => self.scan().await,
            18 => self.get_many().await,
            19 => self.exist().await,
            20..22 if mix.plain => self.write_row().await,
            22 if mix.plain => self.add().await,
            23 if mix.batches => self.batch(partitions).await,
            24 if mix.streams => self.write_in_order(streams).await,
            25 if mix.plain => self.write_rows().await,
            // A third of all, and those that the mix leaves out.
            _ => self.commit().await,
        }
    }
}
