//! Ordered writes of rows that one task alone writes and reads: writers and lists of mutations.
//!
//! Deletes without transactions are drawn here only: HBase hides what another client puts in the
//! millisecond of a delete, so a row that several clients write has them in transactions.

use std::{collections::BTreeMap, time::Duration};

use hbase_txn::client::{Get, Mutation, Writer, WriterOptions};
use tokio::time::sleep;

use super::{
    history::{Found, Operation, Outcome, Read, found_in},
    program::{FAMILIES, Place, Step, delete, put},
    runner::Task,
};

/// How a row is written.
#[derive(Clone, Copy, Debug)]
enum Way {
    Writer,
    AtLeastOnce,
    List,
}

/// The time after which a delete of another client hides no put.
const PAUSE: Duration = Duration::from_millis(2);

/// The writers of a task, one for each partition and way.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// The last client that wrote each row of lists.
    clients: BTreeMap<String, usize>,
    writers: BTreeMap<String, (usize, Writer)>,
}

impl Task<'_> {
    /// Writes a row several times, in order, and reads it.
    pub(super) async fn write_in_order(&mut self, streams: &mut Streams) {
        let way = *self
            .rng
            .choice(&[Way::Writer, Way::AtLeastOnce, Way::List])
            .unwrap();
        let task = self.name.split('-').next().unwrap_or_default();
        let row = format!("w{task}{way:?}");
        let steps = self.draw_writes(&row);
        let history = format!("{}/{row}", self.partition);
        if let Way::List = way {
            let last = streams.clients.insert(history.clone(), self.client);
            if last.is_some_and(|last| last != self.client) {
                sleep(PAUSE).await;
            }
        }
        let outcomes = match way {
            Way::List => {
                let mutations: Vec<Mutation> = steps.iter().map(|step| step.mutation.clone()).collect();
                let table = self.table().table().clone();
                let done = table.mutate_many(mutations).await;
                done.into_iter()
                    .map(|done| match done {
                        Ok(()) => Some(Outcome::Committed),
                        Err(error) => error.is_outcome_unknown().then_some(Outcome::Unknown),
                    })
                    .collect()
            }
            _ => self.write(streams, &history, way, &steps).await,
        };
        // No other task sees the row, so the writes happened in their order, one after the other.
        for (step, outcome) in steps.into_iter().zip(outcomes) {
            let called = self.shared.log.tick();
            let Some(outcome) = outcome else { continue };
            let operation = Operation {
                client: self.client,
                called,
                returned: self.shared.log.tick(),
                what: format!("{way:?} {}", self.name),
                outcome,
                reads: Vec::new(),
                checks: Vec::new(),
                changes: vec![step.change],
                results: Found::new(),
            };
            self.shared.log.note(&history, operation);
        }
        self.read_own(&history, &row).await;
    }

    fn draw_writes(&mut self, row: &str) -> Vec<Step> {
        let mut steps = Vec::new();
        for number in 0..self.rng.usize(1..6) {
            let place = Place {
                row: row.to_owned(),
                family: self.rng.choice(FAMILIES).unwrap(),
                qualifier: self.rng.choice(["a", "b"]).unwrap(),
            };
            steps.push(match self.rng.u8(..3) {
                0 if self.shared.mix.deletes > 0 => delete(&self.partition, &place, self.rng.u8(..3)),
                _ => put(
                    &self.partition,
                    &format!("{}.{number}", self.name),
                    &place,
                    &mut self.rng,
                ),
            });
        }
        steps
    }

    async fn write(
        &self,
        streams: &mut Streams,
        history: &str,
        way: Way,
        steps: &[Step],
    ) -> Vec<Option<Outcome>> {
        let (_, writer) = streams.writers.entry(history.to_owned()).or_insert_with(|| {
            let options = match way {
                Way::AtLeastOnce => WriterOptions::new().at_least_once(),
                _ => WriterOptions::new(),
            };
            (self.client, self.table().table().writer(options))
        });
        let mut numbers = Vec::new();
        for step in steps {
            numbers.push(writer.write(step.mutation.clone()).await.ok());
        }
        let flushed = writer.flush().await;
        let failures: BTreeMap<u64, bool> = writer
            .take_failures()
            .into_iter()
            .map(|failed| (failed.number, failed.error.is_outcome_unknown()))
            .collect();
        assert!(
            flushed.is_err() || failures.is_empty(),
            "{}: a flush without an error",
            self.name
        );
        let outcome = |number: Option<u64>| match failures.get(&number?) {
            None if number < Some(writer.watermark()) => Some(Outcome::Committed),
            None | Some(true) => Some(Outcome::Unknown),
            Some(false) => None,
        };
        numbers.into_iter().map(outcome).collect()
    }

    async fn read_own(&mut self, history: &str, row: &str) {
        let client = self.rng.usize(..self.shared.clients.len());
        let called = self.shared.log.tick();
        let get = Get::new(format!("{}{row}", self.partition));
        if let Ok(answer) = self.shared.clients[client].0.table().get(get).await {
            let read = Read {
                scope: format!("{row}/"),
                found: found_in(&self.partition, "w", &answer),
            };
            let returned = self.shared.log.tick();
            let read = Operation::read(client, called, returned, "get", vec![read]);
            self.shared.log.note(history, read);
        }
    }
}
