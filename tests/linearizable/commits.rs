//! Transactions, with retries and settlements.

use std::{slice, time::Duration};

use hbase_txn::{
    Outcome as Ended, PartitionedTable, Recorded, Settled, Transaction, TransactionId, client::Mutation,
};
use tokio::time::{Instant, sleep, timeout};

use super::{
    history::{Found, Operation, Outcome},
    program::{Guard, Place, Step, are_covered, draw_guard, draw_pause, draw_steps, may_be_blind},
    runner::Task,
};

/// A commit that began this long ago is not one that comes after a settlement.
pub(super) const SETTLED_AFTER: Duration = Duration::from_millis(100);
/// The time limit of a settlement.
const SETTLEMENT: Duration = Duration::from_secs(600);

/// A transaction that may be committed several times under one id.
pub(super) struct Work {
    pub(super) steps: Vec<Step>,
    pub(super) guards: Vec<Guard>,
    guarded: bool,
    recorded: bool,
    id: Option<TransactionId>,
    /// Whether the partition is named by a row.
    by_row: bool,
}

/// What is known of a transaction so far.
pub(super) enum Known {
    Committed,
    /// This call has not applied it. An earlier one may.
    Failed,
    /// No call has applied it, and none of those so far can any more.
    Settled,
    /// The call may have applied it, or may do so later.
    Open,
}

impl Work {
    fn draw(task: &mut Task<'_>) -> Self {
        let seen = task.shared.seen(&task.partition);
        let rng = &mut task.rng;
        let places: Vec<_> = (0..rng.usize(..3))
            .map(|_| Place::draw(&task.shared.mix, rng))
            .collect();
        let guards = places
            .iter()
            .map(|place| draw_guard(&task.partition, place, &seen, rng));
        let guards: Vec<_> = guards.collect();
        let steps = draw_steps(&task.shared.mix, &task.partition, &task.name, &places, rng);
        let may_be_blind = task.shared.mix.blind && may_be_blind(&steps);
        let guarded = rng.bool() || !may_be_blind && !are_covered(&steps, &guards);
        let (recorded, has_id) = match rng.u8(..5) {
            0 => (true, false),
            1..3 => (false, true),
            _ => (false, false),
        };
        Self {
            steps,
            guards,
            guarded,
            recorded,
            by_row: rng.bool(),
            id: has_id.then(|| TransactionId::new(task.name.clone()).unwrap()),
        }
    }

    fn transaction(&self, table: &PartitionedTable, partition: &str) -> Transaction {
        let mut transaction = match self.steps.first() {
            Some(step) if self.by_row => table.transaction_for_row(step.mutation.row().clone()),
            _ => table.transaction(partition.to_owned()),
        };
        for guard in &self.guards {
            transaction = transaction.condition(guard.condition.clone());
        }
        for step in &self.steps {
            transaction = match step.mutation.clone() {
                Mutation::Put(put) => transaction.put(put),
                Mutation::Delete(delete) => transaction.delete(delete),
                Mutation::Increment(increment) => transaction.increment(increment),
                Mutation::Append(append) => transaction.append(append),
            };
        }
        if self.guarded {
            transaction = transaction.guard_timestamps();
        }
        if self.recorded {
            transaction = transaction.recorded();
        }
        match &self.id {
            Some(id) => transaction.id(id.clone()),
            None => transaction,
        }
    }

    fn what(&self, name: &str) -> String {
        let mut what = format!("transaction {name}");
        for (word, is_set) in [
            ("guarded", self.guarded),
            ("recorded", self.recorded),
            ("id", self.id.is_some()),
        ] {
            if is_set {
                what += " ";
                what += word;
            }
        }
        what
    }
}

impl Task<'_> {
    /// Commits a transaction, again if its outcome is unknown, and records what is known in the end.
    pub(super) async fn commit(&mut self) {
        let work = Work::draw(self);
        let mut began = None;
        for _ in 0..3 {
            let called = self.shared.log.tick();
            let known = self.commit_once(&work, called).await;
            match known {
                Known::Committed => {
                    let returned = self.shared.log.tick();
                    let first = began.unwrap_or(called);
                    self.note(&work, first, returned, Outcome::Committed);
                    self.commit_again(&work).await;
                    return;
                }
                Known::Settled => began = None,
                Known::Failed => {}
                Known::Open => began = Some(began.unwrap_or(called)),
            }
            // The same again, by another client: its record answers, or its fence lets it be applied.
            if work.id.is_none() || self.rng.bool() {
                break;
            }
            self.client = self.rng.usize(..self.shared.clients.len());
            sleep(draw_pause(self.shared.mix.pause, &mut self.rng)).await;
        }
        if let Some(called) = began {
            self.note(&work, called, 0, Outcome::Unknown);
        }
    }

    /// Commits a transaction again that was committed under its id: nothing happens.
    async fn commit_again(&mut self, work: &Work) {
        let Some(id) = &work.id else { return };
        if self.rng.u8(..4) > 0 {
            return;
        }
        self.client = self.rng.usize(..self.shared.clients.len());
        if let Ok(recorded) = self.table().outcome(self.partition.clone(), id).await
            && recorded != Recorded::Committed
        {
            self.shared.log.contradict(format!(
                "{} in {} was committed, and its record says: {recorded:?}",
                self.name, self.partition
            ));
        }
        let outcome = work.transaction(self.table(), &self.partition).commit().await;
        let is_right = match &outcome {
            Ended::Committed(committed) => committed.replayed,
            Ended::Rejected(_) | Ended::Invalid(_) => false,
            _ => true,
        };
        if !is_right {
            self.shared.log.contradict(format!(
                "{} in {} was committed, and again: {outcome}",
                self.name, self.partition
            ));
        }
    }

    /// Commits mutations of several partitions, each as one transaction.
    pub(super) async fn batch(&mut self, partitions: &[String]) {
        let mut batch = self.table().batch();
        let mut groups = Vec::new();
        for (number, partition) in partitions.iter().enumerate() {
            let name = format!("{}.{number}", self.name);
            let mut steps = draw_steps(&self.shared.mix, partition, &name, &[], &mut self.rng);
            steps.retain(|step| may_be_blind(slice::from_ref(step)));
            for step in &steps {
                batch = match step.mutation.clone() {
                    Mutation::Put(put) => batch.put(put),
                    Mutation::Delete(delete) => batch.delete(delete),
                    Mutation::Increment(increment) => batch.increment(increment),
                    Mutation::Append(append) => batch.append(append),
                };
            }
            groups.push((partition, steps));
        }
        let (patience, is_dropped) = self.patience();
        let called = self.shared.log.tick();
        let ended = timeout(patience, batch.commit()).await;
        let returned = self.shared.log.tick();
        assert!(ended.is_ok() || is_dropped, "{} does not end", self.name);
        let outcomes = ended.unwrap_or_default();
        for (partition, steps) in groups.into_iter().filter(|(_, steps)| !steps.is_empty()) {
            let mut outcomes = outcomes.iter();
            let group = outcomes.find(|group| group.partition.prefix() == partition.as_bytes());
            let outcome = match group.map(|group| &group.outcome) {
                Some(Ended::Committed(_)) => Outcome::Committed,
                Some(outcome) if outcome.is_not_applied() => continue,
                _ => Outcome::Unknown,
            };
            let operation = Operation {
                client: self.client,
                called,
                returned,
                what: format!("batch {}", self.name),
                outcome,
                reads: Vec::new(),
                checks: Vec::new(),
                changes: steps.into_iter().map(|step| step.change).collect(),
                results: Found::new(),
            };
            self.shared.log.note(partition, operation);
        }
    }

    fn note(&self, work: &Work, called: i64, returned: i64, outcome: Outcome) {
        let operation = Operation {
            client: self.client,
            called,
            returned,
            what: work.what(&self.name),
            outcome,
            reads: Vec::new(),
            checks: work.guards.iter().map(|guard| guard.check.clone()).collect(),
            changes: work.steps.iter().map(|step| step.change.clone()).collect(),
            results: Found::new(),
        };
        self.shared.log.note(&self.partition, operation);
    }

    async fn commit_once(&mut self, work: &Work, called: i64) -> Known {
        let transaction = work.transaction(self.table(), &self.partition);
        let id = transaction.transaction_id().cloned();
        let (patience, is_dropped) = self.patience();
        let began = Instant::now();
        let commit = timeout(patience, transaction.commit());
        let settles = self.shared.mix.settlements && id.is_some() && self.rng.u8(..8) == 0;
        let after = SETTLED_AFTER + draw_pause(self.shared.mix.pause, &mut self.rng);
        let ended = if settles {
            // Another client asks while this one is at work.
            let settlement = async {
                sleep(after).await;
                self.settle(id.as_ref().unwrap()).await
            };
            let (ended, settled) = tokio::join!(commit, settlement);
            if let (Ok(Ended::Committed(_)), Known::Settled) = (&ended, &settled) {
                self.shared.log.contradict(format!(
                    "{} in {} was settled as not applied {after:?} after its commit began, and was committed",
                    self.name, self.partition
                ));
            }
            match (&ended, settled) {
                (_, Known::Committed) => return Known::Committed,
                (Ok(Ended::Unknown(_)) | Err(_), known) => return known,
                _ => ended,
            }
        } else {
            commit.await
        };
        match ended {
            Ok(Ended::Committed(_)) => return Known::Committed,
            Ok(Ended::Unknown(unsettled)) => {
                if unsettled.id().is_some() && self.rng.u8(..4) == 0 {
                    return match unsettled.settle().await {
                        Ok(Settled::Committed) => Known::Committed,
                        Ok(Settled::NotApplied) => Known::Settled,
                        _ => Known::Open,
                    };
                }
            }
            Ok(Ended::Rejected(_)) => {
                let returned = self.shared.log.tick();
                self.note(work, called, returned, Outcome::Rejected);
                return Known::Failed;
            }
            Ok(outcome) => {
                assert!(outcome.is_not_applied(), "{}: {outcome}", self.name);
                return Known::Failed;
            }
            Err(_) => assert!(is_dropped, "{} does not end", self.name),
        }
        match &id {
            Some(id) if self.rng.u8(..4) > 0 => {
                sleep(
                    (SETTLED_AFTER + draw_pause(self.shared.mix.pause, &mut self.rng))
                        .saturating_sub(began.elapsed()),
                )
                .await;
                self.settle(id).await
            }
            _ => Known::Open,
        }
    }

    /// Settles an outcome by any client.
    pub(super) async fn settle(&mut self, id: &TransactionId) -> Known {
        let client = self.rng.usize(..self.shared.clients.len());
        let table = &self.shared.clients[client].0;
        let deadline = Instant::now() + SETTLEMENT;
        loop {
            match table.settle(self.partition.clone(), id).await {
                Ok(Settled::Committed) => return Known::Committed,
                Ok(Settled::NotApplied) => return Known::Settled,
                Err(error) => {
                    let is_late = Instant::now() > deadline || !error.is_outcome_unknown();
                    assert!(!is_late, "{} can't be settled: {error}", self.name);
                }
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}
