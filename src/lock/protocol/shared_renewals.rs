//! Renewals of several locks that share calls.
//!
//! One call to each server renews them, and another one reads the rows. A server that does not answer delays
//! only its own locks.

use std::{
    iter, mem,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt, future::join_all, stream::SelectAll};
use hbase_client::{
    Effect, Error as ClientError, Get, Row, Table,
    low_level::{CheckAnswer, GetAnswer, MultiCall, RegionAction, TableCalls},
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout_at},
};

use super::{
    location::LockLocation,
    row_state::{self, RowState},
};
use crate::error::{ClientErrorKind, Error, Result, unknown};

/// How long the first renewal waits for others. They are due at the same moment, and their timers fire one
/// after the other.
const GATHER: Duration = Duration::from_millis(20);
/// A call has the earliest deadline of its renewals. Renewals with more than this many times its time have
/// a call of their own.
const RATIO: u32 = 2;

/// The renewals of one table's locks that share calls.
#[derive(Clone, Debug)]
pub(in crate::lock) struct SharedRenewals {
    waiting: Arc<Mutex<Vec<Renewal>>>,
    /// The part of a second at which renewals of this process are due.
    phase: Duration,
}

/// The renewal of one lock.
#[derive(Debug)]
struct Renewal {
    location: LockLocation,
    /// The change of each row.
    actions: Vec<RegionAction>,
    deadline: Instant,
    answer: oneshot::Sender<Result<Vec<RowState>>>,
}

impl Default for SharedRenewals {
    fn default() -> Self {
        Self {
            waiting: Arc::default(),
            // It only spreads the load of processes.
            phase: Duration::from_millis(fastrand::u64(..1_000)),
        }
    }
}

impl SharedRenewals {
    pub(in crate::lock) fn phase(&self) -> Duration {
        self.phase
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Renewal>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies one action to each row of a lock, and reads the rows after that.
    pub(super) async fn renew(
        &self,
        location: &LockLocation,
        actions: Vec<RegionAction>,
        deadline: Instant,
    ) -> Result<Vec<RowState>> {
        let (answer, answered) = oneshot::channel();
        let renewal = Renewal {
            location: location.clone(),
            actions,
            deadline,
            answer,
        };
        let is_first = {
            let mut waiting = self.waiting();
            waiting.push(renewal);
            waiting.len() == 1
        };
        if is_first {
            let table = &location.table;
            table.runtime().spawn(self.clone().send(table.clone()));
        }
        let answered = timeout_at(deadline, answered).await.map_err(|_| {
            let error = Error::new(ClientErrorKind::DeadlineExceeded, "no answer to the renewal");
            unknown(error.with_retryable(true))
        })?;
        // The task that sends it is in the runtime of this one.
        answered.map_err(|_| {
            let text = "the runtime of the connection is ending";
            unknown(Error::new(ClientErrorKind::Closed, text))
        })?
    }

    /// Sends the waiting renewals after [`GATHER`].
    async fn send(self, table: Table) {
        sleep(GATHER).await;
        let mut renewals = mem::take(&mut *self.waiting());
        renewals.retain(|renewal| !renewal.answer.is_closed());
        renewals.sort_by_key(|renewal| renewal.deadline);
        let now = Instant::now();
        let mut batches: Vec<Vec<Renewal>> = Vec::new();
        for renewal in renewals {
            let time = |renewal: &Renewal| renewal.deadline.saturating_duration_since(now);
            match batches.last_mut() {
                Some(batch) if time(&renewal) <= RATIO * time(&batch[0]) => batch.push(renewal),
                _ => batches.push(vec![renewal]),
            }
        }
        join_all(batches.into_iter().map(|batch| send_batch(&table, batch))).await;
    }
}

/// Sends renewals, by the deadline of the first one.
async fn send_batch(table: &Table, renewals: Vec<Renewal>) {
    let deadline = renewals[0].deadline;
    let renewals = match <[Renewal; 1]>::try_from(renewals) {
        Ok([alone]) => {
            // One call renews and reads it.
            let renewed = alone
                .location
                .change("renewing the lock", alone.actions, deadline);
            // Its caller may have been dropped.
            let _ = alone.answer.send(renewed.await);
            return;
        }
        Err(several) => several,
    };
    let (mut batch, calls) = Batch::of(renewals);
    let rows = calls.len();
    let changing = table.check_each("renewing locks", calls, deadline);
    // All changes that are answered by now are read by one call to each server.
    let mut changing = pin!(changing.ready_chunks(rows).fuse());
    let mut reading = SelectAll::new();
    loop {
        tokio::select! {
            Some(answers) = changing.next() => {
                let mut changed = Vec::new();
                for answer in answers {
                    match answer {
                        CheckAnswer::Done(places) => changed.extend(places),
                        CheckAnswer::Failed(failed) => batch.fail(failed),
                    }
                }
                let gets = changed.iter().map(|place| batch.read_of(*place)).collect();
                let places: Arc<[usize]> = changed.into();
                let answers = table.get_each(gets, deadline);
                reading.push(answers.map(move |answer| (Arc::clone(&places), answer)).boxed());
            }
            Some((places, answer)) = reading.next() => match answer {
                GetAnswer::Found(found) => {
                    found.into_iter().for_each(|(index, row)| batch.found(places[index], row));
                }
                GetAnswer::Failed(indexes, error) => {
                    // The change was applied or refused, and only the read would show which.
                    let error = error.with_effect(Effect::Unknown);
                    batch.fail(indexes.into_iter().map(|index| places[index]).zip(iter::repeat(error)));
                }
            },
            else => return,
        }
    }
}

/// Renewals that were sent together. Their rows are numbered from zero.
struct Batch {
    renewals: Vec<Sent>,
    /// The renewal and the row in it, by number.
    of: Vec<(usize, usize)>,
}

/// A renewal that was sent.
struct Sent {
    location: LockLocation,
    /// The rows after it; `None` for those that were not read yet.
    rows: Vec<Option<RowState>>,
    /// `None` once it was used.
    answer: Option<oneshot::Sender<Result<Vec<RowState>>>>,
}

impl Batch {
    /// Returns also the changes of all rows.
    fn of(renewals: Vec<Renewal>) -> (Self, Vec<MultiCall>) {
        let (mut of, mut calls) = (Vec::new(), Vec::new());
        let sent = renewals.into_iter().enumerate().map(|(number, renewal)| {
            let location = renewal.location;
            let rows = vec![None; renewal.actions.len()];
            for (index, action) in renewal.actions.into_iter().enumerate() {
                of.push((number, index));
                calls.push(MultiCall {
                    row: location.rows.rows[index].clone(),
                    actions: vec![action],
                    durability: location.table.durable(),
                });
            }
            Sent {
                location,
                rows,
                answer: Some(renewal.answer),
            }
        });
        let renewals = sent.collect();
        (Self { renewals, of }, calls)
    }

    fn read_of(&self, place: usize) -> Get {
        let (renewal, index) = self.of[place];
        row_state::get(&self.renewals[renewal].location.rows, index)
    }

    fn found(&mut self, place: usize, row: Option<Row>) {
        let (renewal, index) = self.of[place];
        let Sent {
            location,
            rows,
            answer,
        } = &mut self.renewals[renewal];
        let columns = location.rows.columns(index);
        rows[index] = Some(RowState::of(&location.rows.family, columns, row.as_ref()));
        if rows.iter().all(Option::is_some)
            && let Some(answer) = answer.take()
        {
            // Its caller may have been dropped.
            let _ = answer.send(Ok(mem::take(rows).into_iter().flatten().collect()));
        }
    }

    fn fail(&mut self, failed: impl IntoIterator<Item = (usize, ClientError)>) {
        for (place, error) in failed {
            let (renewal, _) = self.of[place];
            let Sent { rows, answer, .. } = &mut self.renewals[renewal];
            if let Some(answer) = answer.take() {
                let error = Error::from(error);
                // Another row of the lock may have been renewed.
                let error = if rows.len() > 1 { unknown(error) } else { error };
                let _ = answer.send(Err(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::try_join_all;
    use hbase_fake::FakeHBase;

    use super::*;
    use crate::{
        Level,
        lock::{LockGuard, LockLoss, LockManager, LockManagerOptions, LockTableOptions},
    };

    const LEASE: Duration = Duration::from_secs(30);
    const SERVERS: usize = 3;

    async fn open(hbase: &FakeHBase) -> Result<LockManager> {
        let table = LockTableOptions::new("locks")?.regions(8);
        let connection = hbase.connect().await?;
        LockManagerOptions::new("client")
            .farm("fra")
            .open_or_create(&connection, table)
            .await
    }

    /// Acquires so many locks, over ten seconds.
    async fn hold(locks: &LockManager, number: u32) -> Result<Vec<LockGuard>> {
        try_join_all((0..number).map(async |lock| {
            sleep(Duration::from_secs(10) * lock / number).await;
            let request = locks.lock(Level::Dc, &lock.to_string())?;
            request.ttl(LEASE).auto_renew().acquire().await
        }))
        .await
    }

    fn calls(hbase: &FakeHBase) -> usize {
        hbase.calls("Multi") + hbase.calls("Get") + hbase.calls("Mutate")
    }

    #[test]
    fn leases_are_renewed_in_one_call_to_each_server_and_second() {
        FakeHBase::run(async |_| {
            let hbase = FakeHBase::builder().servers(SERVERS).build();
            let held = hold(&open(&hbase).await?, 600).await?;
            let before = calls(&hbase);
            sleep(Duration::from_secs(300)).await;
            let each = (calls(&hbase) - before) as f64 / 300.0;
            // Two: the renewals, and the reads after them.
            assert!(each <= 2.0 * SERVERS as f64, "{each} calls a second");
            assert!(held.iter().all(LockGuard::is_held));
            Ok(())
        });
    }

    #[test]
    fn lost_lock_is_reported_and_costs_no_other() {
        FakeHBase::run(async |_| {
            let hbase = FakeHBase::builder().servers(SERVERS).build();
            let (locks, others) = (open(&hbase).await?, open(&hbase).await?);
            let held = hold(&locks, 60).await?;
            let _ = others.force_release(Level::Dc, "7").await?;
            let taken = others.lock(Level::Dc, "7")?.acquire().await?;
            let revoked = Instant::now();
            let loss = held[7].lost().await;
            assert!(matches!(loss, LockLoss::Taken(_)), "{loss}");
            assert!(revoked.elapsed() <= LEASE / 3);
            sleep(LEASE * 3).await;
            assert_eq!(
                held.iter().filter(|guard| guard.is_held()).count(),
                held.len() - 1
            );
            drop(taken);
            Ok(())
        });
    }

    #[test]
    fn server_that_is_away_costs_only_its_locks() {
        FakeHBase::run(async |_| {
            let hbase = FakeHBase::builder().servers(SERVERS).build();
            let held = hold(&open(&hbase).await?, 60).await?;
            let silent = hbase.fault(hbase_fake::Call::Multi.at(1).hold_request());
            sleep(LEASE * 3).await;
            let lost = held.iter().filter(|guard| !guard.is_held()).count();
            assert!((1..held.len() / 2).contains(&lost), "{lost} are lost");
            drop(silent);
            Ok(())
        });
    }
}
