//! Updates.

use std::{ops::Range, sync::Mutex};

use fastrand::Rng;
use futures::FutureExt;
use hbase_txn::{Error, ErrorKind, TransactionId, UpdateOptions, UpdateView, Updated, client::Mutation};
use tokio::time::{sleep, timeout};

use super::{
    commits::{Known, SETTLED_AFTER},
    history::{Check, Found, Log, Operation, Outcome, Read, found, text},
    program::{Mix, Place, ROWS, Step, add, delete, draw_guard, draw_pause, put},
    runner::Task,
};

/// One run of the closure.
struct Attempt {
    /// The place in the order of all calls and returns.
    at: i64,
    /// Reads that are conditions of the changes.
    reads: Vec<Read>,
    /// Reads of rows, whose new columns are not noticed without versions of partitions.
    more_reads: Vec<Read>,
    checks: Vec<Check>,
    steps: Vec<Step>,
}

/// The reason why a closure ended without changes.
#[derive(Debug)]
enum Stop {
    ThoughtBetter,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What the closure does. Each run makes the same choices.
struct Choices<'c> {
    partition: &'c str,
    mix: Mix,
    seed: u64,
    seen: Found,
    log: &'c Log,
}

impl Choices<'_> {
    fn perform(&self, view: &mut UpdateView<'_>, name: &str) -> Result<Attempt, (Attempt, Stop)> {
        let mut attempt = Attempt {
            at: self.log.tick(),
            reads: Vec::new(),
            more_reads: Vec::new(),
            checks: Vec::new(),
            steps: Vec::new(),
        };
        match self.read_and_write(view, name, &mut attempt) {
            Ok(()) => Ok(attempt),
            Err(stop) => Err((attempt, stop)),
        }
    }

    fn read_and_write(
        &self,
        view: &mut UpdateView<'_>,
        name: &str,
        attempt: &mut Attempt,
    ) -> Result<(), Stop> {
        let mut rng = Rng::with_seed(self.seed);
        let mut places: Vec<Place> = Vec::new();
        for _ in 0..rng.usize(1..4) {
            let place = Place::draw(&self.mix, &mut rng);
            attempt.reads.push(self.read_cell(view, &place)?);
            places.push(place);
        }
        if rng.u8(..3) == 0 {
            let first = rng.usize(..ROWS);
            let reads = if rng.bool() {
                vec![self.read_row(view, first)?]
            } else {
                self.read_rows(view, first..rng.usize(first..=ROWS))?
            };
            if self.mix.versioned {
                attempt.reads.extend(reads);
            } else {
                attempt.more_reads = reads;
            }
        }
        for number in 0..rng.usize(..4) {
            let place = match rng.u8(..3) {
                0 => Place::draw(&self.mix, &mut rng),
                _ => rng.choice(&places).unwrap().clone(),
            };
            let value = format!("{name}.{number}");
            let step = match rng.u8(..40) {
                kind if kind < self.mix.deletes => delete(self.partition, &place, rng.u8(..3)),
                0..16 => add(self.partition, &value, &place, &mut rng),
                _ => put(self.partition, &value, &place, &mut rng),
            };
            match step.mutation.clone() {
                Mutation::Put(put) => view.put(put)?,
                Mutation::Delete(delete) => view.delete(delete)?,
                Mutation::Increment(increment) => view.increment(increment)?,
                Mutation::Append(append) => view.append(append)?,
            };
            attempt.steps.push(step);
        }
        if rng.u8(..6) == 0 && !attempt.steps.is_empty() {
            let guard = draw_guard(
                self.partition,
                &Place::draw(&self.mix, &mut rng),
                &self.seen,
                &mut rng,
            );
            view.condition(guard.condition)?;
            attempt.checks.push(guard.check);
        }
        if rng.u8(..16) == 0 {
            return Err(Stop::ThoughtBetter);
        }
        Ok(())
    }

    fn read_cell(&self, view: &mut UpdateView<'_>, place: &Place) -> Result<Read, Stop> {
        let row = format!("{}{}", self.partition, place.row);
        let text = if place.is_counter() {
            let number: Option<i64> = view.get(row, place.family, place.qualifier)?;
            number.map(|number| number.to_string())
        } else {
            let value = view.value(row, place.family, place.qualifier)?;
            value.map(|value| text(place.qualifier.as_bytes(), value))
        };
        let text = text.map(|text| (place.name(), text));
        Ok(Read {
            scope: place.name(),
            found: text.into_iter().collect(),
        })
    }

    fn read_row(&self, view: &mut UpdateView<'_>, row: usize) -> Result<Read, Stop> {
        let row_found = view.row(format!("{}r{row}", self.partition))?;
        Ok(Read {
            scope: format!("r{row}/"),
            found: found(self.partition, row_found),
        })
    }

    fn read_rows(&self, view: &mut UpdateView<'_>, rows: Range<usize>) -> Result<Vec<Read>, Stop> {
        let [start, stop] = [rows.start, rows.end].map(|row| format!("{}r{row}", self.partition));
        let all = found(self.partition, view.rows(start, stop)?);
        Ok(reads_of_rows(rows, &all))
    }
}

/// Returns one read for each row, also of those that are absent.
pub(super) fn reads_of_rows(rows: Range<usize>, all: &Found) -> Vec<Read> {
    let read = |row| {
        let scope = format!("r{row}/");
        let cells = all.iter().filter(|(cell, _)| cell.starts_with(&scope));
        Read {
            found: cells.map(|(cell, value)| (cell.clone(), value.clone())).collect(),
            scope,
        }
    };
    rows.map(read).collect()
}

impl Task<'_> {
    /// Runs an update, and records each run of its closure.
    pub(super) async fn update(&mut self) {
        let id = self.rng.bool();
        let id = id.then(|| TransactionId::new(self.name.clone()).unwrap());
        let mut options = UpdateOptions::new();
        options = match (&id, self.rng.u8(..4)) {
            (Some(id), _) => options.id(id.clone()),
            (None, 0) => options.without_record(),
            (None, _) => options,
        };
        if self.rng.u8(..3) == 0 {
            options = options
                .start_row(self.partition.clone())
                .stop_row(format!("{}s", self.partition));
        }
        let (patience, is_dropped) = self.patience();
        let (shared, partition, name) = (self.shared, self.partition.clone(), self.name.clone());
        let choices = Choices {
            partition: &partition,
            mix: shared.mix,
            seed: self.rng.u64(..),
            seen: shared.seen(&partition),
            log: &shared.log,
        };
        let called = shared.log.tick();
        let table = self.table().clone();
        let attempts = Mutex::new(Vec::new());
        let pause = draw_pause(shared.mix.pause, &mut self.rng);
        let run = |view: &mut UpdateView<'_>| {
            let mut attempts = attempts.lock().unwrap();
            let (attempt, done) = match choices.perform(view, &format!("{name}.{}", attempts.len())) {
                Ok(attempt) => (attempt, Ok(())),
                Err((attempt, stop)) => (attempt, Err(stop)),
            };
            attempts.push(attempt);
            done
        };
        let update = if self.rng.u8(..4) == 0 {
            let waiting = table.update_async(partition.clone(), options, |view| {
                let done = run(view);
                Box::pin(async move {
                    sleep(pause).await;
                    done
                })
            });
            waiting.boxed()
        } else {
            table.update_with(partition.clone(), options, run).boxed()
        };
        // The library can't end a closure that waits.
        let update = timeout(patience + pause, update);
        let settles = shared.mix.settlements && self.rng.u8(..6) == 0;
        let after = SETTLED_AFTER + draw_pause(shared.mix.pause, &mut self.rng);
        let (ended, settled) = match &id {
            Some(id) if settles => {
                // Another client asks while this one is at work.
                let settlement = async {
                    sleep(after).await;
                    self.settle(id).await
                };
                let (ended, settled) = tokio::join!(update, settlement);
                (ended, Some(settled))
            }
            _ => (update.await, None),
        };
        let attempts = attempts.into_inner().unwrap();
        let mut is_rejected = false;
        let mut known = match ended {
            Ok(Ok(Updated::Done { .. })) => Known::Committed,
            Ok(Ok(other)) => panic!("{name}: {other:?}"),
            Ok(Err(Stop::ThoughtBetter)) => Known::Failed,
            Ok(Err(Stop::Failed(error))) if error.kind() == ErrorKind::ConditionNotMet => {
                is_rejected = true;
                Known::Failed
            }
            Ok(Err(Stop::Failed(error))) if !error.is_outcome_unknown() => Known::Failed,
            Ok(Err(Stop::Failed(_))) => Known::Open,
            Err(_) => {
                assert!(is_dropped, "{name} does not end");
                Known::Open
            }
        };
        let writes = attempts.last().is_some_and(|attempt| !attempt.steps.is_empty());
        known = match (known, settled) {
            (Known::Committed, Some(Known::Settled)) if writes => {
                shared.log.contradict(format!(
                    "update {name} in {partition} was settled as not applied {after:?} after it began, and was \
                     committed"
                ));
                Known::Committed
            }
            (Known::Open, Some(settled)) => settled,
            (known, _) => known,
        };
        if let (Known::Open, Some(id)) = (&known, &id)
            && self.rng.u8(..4) > 0
        {
            sleep(SETTLED_AFTER + draw_pause(self.shared.mix.pause, &mut self.rng)).await;
            known = self.settle(id).await;
        }
        let returned = self.shared.log.tick();
        let outcome = match &known {
            Known::Committed => Some(Outcome::Committed),
            Known::Open => Some(Outcome::Unknown),
            Known::Failed | Known::Settled => is_rejected.then_some(Outcome::Rejected),
        };
        self.note_update(called, returned, attempts, outcome);
        if let (Known::Committed, true, Some(id)) = (known, writes, id)
            && self.rng.u8(..4) == 0
        {
            self.update_again(id).await;
        }
    }

    /// Runs an update again that was committed under its id: its closure is not run.
    async fn update_again(&mut self, id: TransactionId) {
        self.client = self.rng.usize(..self.shared.clients.len());
        let options = UpdateOptions::new().id(id);
        let update = self
            .table()
            .update_with(self.partition.clone(), options, |_| Ok::<_, Error>(()));
        if let Ok(updated) = update.await
            && updated != Updated::Replayed
        {
            self.shared.log.contradict(format!(
                "update {} in {} was committed, and again: {updated:?}",
                self.name, self.partition
            ));
        }
    }

    fn note_update(&self, called: i64, returned: i64, attempts: Vec<Attempt>, outcome: Option<Outcome>) {
        let mut before = called;
        let count = attempts.len();
        for (number, attempt) in attempts.into_iter().enumerate() {
            // Each run sees the partition at one moment.
            let what = format!("update {} reads", self.name);
            let reads: Vec<_> = attempt.reads.iter().chain(&attempt.more_reads).cloned().collect();
            for read in &reads {
                self.shared.see(&self.partition, read);
            }
            let read = Operation::read(self.client, before, attempt.at, &what, reads);
            self.shared.log.note(&self.partition, read);
            before = attempt.at;
            let is_last = number + 1 == count;
            let Some(outcome) = outcome else { continue };
            if !is_last || attempt.steps.is_empty() {
                continue;
            }
            let operation = Operation {
                client: self.client,
                called: attempt.at,
                returned,
                what: format!("update {}", self.name),
                outcome,
                reads: attempt.reads,
                checks: attempt.checks,
                changes: attempt.steps.into_iter().map(|step| step.change).collect(),
                results: Found::new(),
            };
            self.shared.log.note(&self.partition, operation);
        }
    }
}
