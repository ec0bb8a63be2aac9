//! Changes of many locks in company: renewals that are due at the same time.
//!
//! They go in one call to each server, and the rows are read by another one. What a server does not
//! answer delays only its own locks.

use std::{
    mem,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
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

/// How long the first change waits for others. Renewals are due on whole seconds, and timers fire one
/// after the other.
const GATHER: Duration = Duration::from_millis(20);

/// The changes of one table's locks that wait for company.
#[derive(Clone, Debug, Default)]
pub(in crate::lock) struct JointChanges(Arc<Mutex<Vec<Change>>>);

/// The rows of a lock after its change.
type Answer = Result<Vec<Option<Row>>, ClientError>;

/// A change of one lock.
#[derive(Debug)]
struct Change {
    /// For each row, its change and the read after that.
    rows: Vec<(MultiCall, Get)>,
    deadline: Instant,
    answer: oneshot::Sender<Answer>,
}

impl JointChanges {
    fn waiting(&self) -> MutexGuard<'_, Vec<Change>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies one action to each row of a lock, in company, and reads the rows after that.
    pub(super) async fn change(
        &self,
        location: &LockLocation,
        actions: Vec<RegionAction>,
        deadline: Instant,
    ) -> Result<Vec<RowState>> {
        let (rows, table) = (&location.rows, &location.table);
        let row = |(index, action): (usize, RegionAction)| {
            let call = MultiCall {
                row: rows.rows[index].clone(),
                actions: vec![action],
                durability: table.durable(),
            };
            (call, row_state::get(rows, index))
        };
        let (answer, answered) = oneshot::channel();
        let change = Change {
            rows: actions.into_iter().enumerate().map(row).collect(),
            deadline,
            answer,
        };
        let is_first = {
            let mut waiting = self.waiting();
            waiting.push(change);
            waiting.len() == 1
        };
        if is_first {
            let joint = self.clone();
            table.runtime().spawn(joint.send(table.clone()));
        }
        let answered = timeout_at(deadline, answered).await.map_err(|_| {
            let error = Error::new(ClientErrorKind::DeadlineExceeded, "no answer to the renewal");
            unknown(error.with_retryable(true))
        })?;
        // The task that sends is in the runtime of this one.
        let found = answered.map_err(|_| {
            let text = "the runtime of the connection is ending";
            unknown(Error::new(ClientErrorKind::Closed, text))
        })??;
        let states = found
            .iter()
            .enumerate()
            .map(|(index, row)| RowState::of(&rows.family, rows.columns(index), row.as_ref()));
        Ok(states.collect())
    }

    /// Sends what waits, after a moment.
    async fn send(self, table: Table) {
        sleep(GATHER).await;
        let mut changes = mem::take(&mut *self.waiting());
        changes.retain(|change| !change.answer.is_closed());
        let Some(deadline) = changes.iter().map(|change| change.deadline).max() else {
            return;
        };
        let (mut batch, calls, gets) = Batch::of(changes);
        let read = async |places: Vec<usize>| {
            let wanted = places.iter().map(|place| gets[*place].clone()).collect();
            let answers: Vec<_> = table.get_each(wanted, deadline).collect().await;
            (places, answers)
        };
        let rows = calls.len();
        let changing = table.check_each("renewing locks", calls, deadline);
        // All that one server has answered is read by one call.
        let mut changing = pin!(changing.ready_chunks(rows).fuse());
        let mut reading = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(answers) = changing.next() => {
                    let mut changed = Vec::new();
                    for answer in answers {
                        match answer {
                            CheckAnswer::Done(places) => changed.extend(places),
                            CheckAnswer::Failed(places, error) => batch.fail(places, &error),
                        }
                    }
                    reading.push(read(changed));
                },
                Some((places, answers)) = reading.next() => for answer in answers {
                    match answer {
                        GetAnswer::Found(found) => {
                            found.into_iter().for_each(|(index, row)| batch.found(places[index], row));
                        }
                        GetAnswer::Failed(indexes, error) => {
                            let failed = indexes.into_iter().map(|index| places[index]);
                            batch.fail(failed, &error.with_effect(Effect::Unknown));
                        }
                    }
                },
                else => return,
            }
        }
    }
}

/// Changes that are sent together. Their rows are numbered from zero.
struct Batch {
    changes: Vec<Sent>,
    /// The change and the row in it, by number.
    of: Vec<(usize, usize)>,
}

/// A change that was sent.
struct Sent {
    /// The rows after the change, `None` for those that were not read yet.
    rows: Vec<Option<Option<Row>>>,
    /// `None` once it was used.
    answer: Option<oneshot::Sender<Answer>>,
}

impl Batch {
    /// Returns also the changes and the reads of all rows.
    fn of(changes: Vec<Change>) -> (Self, Vec<MultiCall>, Vec<Get>) {
        let (mut of, mut calls, mut gets) = (Vec::new(), Vec::new(), Vec::new());
        let changes = changes.into_iter().enumerate().map(|(number, change)| {
            let rows = vec![None; change.rows.len()];
            for (index, (call, get)) in change.rows.into_iter().enumerate() {
                of.push((number, index));
                calls.push(call);
                gets.push(get);
            }
            Sent {
                rows,
                answer: Some(change.answer),
            }
        });
        let changes = changes.collect();
        (Self { changes, of }, calls, gets)
    }

    fn found(&mut self, place: usize, row: Option<Row>) {
        let (change, index) = self.of[place];
        let Sent { rows, answer } = &mut self.changes[change];
        rows[index] = Some(row);
        if rows.iter().all(Option::is_some)
            && let Some(answer) = answer.take()
        {
            // Whoever waited may be gone.
            let _ = answer.send(Ok(mem::take(rows).into_iter().flatten().collect()));
        }
    }

    fn fail(&mut self, places: impl IntoIterator<Item = usize>, error: &ClientError) {
        for place in places {
            let (change, _) = self.of[place];
            if let Some(answer) = self.changes[change].answer.take() {
                let _ = answer.send(Err(error.clone()));
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
    fn lock_that_is_lost_is_told_at_once_and_costs_no_other() {
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
