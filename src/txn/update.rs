//! Read-modify-write of a partition: reads, lets the caller change what depends on it, and begins anew after a conflict.
//!
//! | file | what |
//! |---|---|
//! | `view` | [`UpdateView`]: what the caller's closure reads and changes; remembers what it read; no I/O |
//! | `options` | [`UpdateOptions`] |

mod options;
mod view;

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use self::{options::Recording, view::Change};
pub use self::{options::UpdateOptions, view::UpdateView};
use super::{
    digest::Digest,
    outcome::{FailedCondition, Outcome, Rejection},
    partitioned_table::PartitionedTable,
    plan::RecordWish,
    record::{State, TransactionId},
    settle::{Claim, Ended},
};
use crate::{
    client::Pauses,
    error::{Error, ErrorKind, Result},
    model::{BytesBinary, Partition},
};

/// What an update did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Updated<T> {
    /// The closure's changes were applied, or there were none.
    #[non_exhaustive]
    Done {
        /// What the closure returned in the attempt that counted.
        value: T,
        /// How often the closure was run.
        attempts: u32,
    },
    /// An earlier update with the same id was applied, and this one changed nothing. What the closure returned then is
    /// not known. Only with an [id of the caller's](UpdateOptions::id).
    Replayed,
}

impl<T> Updated<T> {
    /// What the closure returned; none for one that was replayed.
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::Done { value, .. } => Some(value),
            Self::Replayed => None,
        }
    }
}

const OPERATION: &str = "update";

/// Of the time that is left for an attempt, this part is kept for finding out how it ended.
const KEPT_FOR_SETTLING: u32 = 5;

/// How many of the conditions that failed an error names.
const NAMED_CONDITIONS: usize = 3;

impl PartitionedTable {
    /// Changes a partition depending on what is in it.
    ///
    /// Reads the partition as it is at one moment and gives it to the closure, which adds changes. They are applied if,
    /// and only if, everything that the closure has read is still so; otherwise all of it is done again, with what
    /// is there then. So the closure may run several times: it should compute, and leave nothing behind elsewhere. It
    /// can't wait for anything, and it sees the partition as it was, without what it adds itself.
    ///
    /// The transaction is recorded under an id of its own. So a lost answer is found out before anything is tried again,
    /// and the changes are applied once. The puts are stamped behind what is there, as by
    /// [`guard_timestamps`](super::Transaction::guard_timestamps).
    ///
    /// # What is noticed
    ///
    /// - Every cell that was read, by its value: one that is absent, or that is empty, which counts as absent. A
    ///   value that was changed and changed back is the same value.
    /// - Of rows and ranges that were read, the cells that were there; and the cells that the closure itself writes in
    ///   them. Other columns and rows that were added meanwhile are not: for that the table must have [versions of
    ///   partitions](crate::TableDescriptor::with_partition_version). Then every transaction of this library that changes
    ///   the partition is noticed, and updates are serialisable among transactions. A plain [`Table::put`](crate::Table::put)
    ///   does not change the version.
    ///
    /// A closure that adds no change and no condition only reads: nothing is sent, as what it has read was true at one
    /// moment. A closure that fails, or panics, leaves nothing behind.
    ///
    /// # Errors
    ///
    /// Those of the closure, as they are. Of this library:
    ///
    /// - [`Conflict`](ErrorKind::Conflict): others were faster in all attempts;
    /// - [`ConditionNotMet`](ErrorKind::ConditionNotMet): a condition that the closure added does not hold, although what it
    ///   has read is still so;
    /// - [`RecordFamilyMissing`](ErrorKind::RecordFamilyMissing): make the table with a record family, or update
    ///   [without a record](UpdateOptions::without_record); the same for a partition that is one row;
    /// - [`Aborted`](ErrorKind::Aborted): somebody settled it as not applied while it was on its way;
    /// - those of [`snapshot`](Self::snapshot), and those that a commit is refused or fails with. After one whose
    ///   [outcome is unknown](Error::is_outcome_unknown) the changes may have been applied; its text says how to find out.
    ///
    /// # Example
    ///
    /// ```no_run
    /// # async fn example(accounts: hbase_txn::PartitionedTable) -> hbase_txn::Result<()> {
    /// use hbase_txn::{Error, Put, Updated};
    ///
    /// let updated = accounts
    ///     .update("xxx", |view| {
    ///         let balance = view.value("xxxacct", "f", "balance")?;
    ///         let cents: u64 = balance
    ///             .and_then(|value| std::str::from_utf8(value).ok()?.parse().ok())
    ///             .unwrap_or(0);
    ///         let Some(left) = cents.checked_sub(250) else {
    ///             return Ok(None);
    ///         };
    ///         view.put(Put::new("xxxacct").cell("f", "balance", left.to_string()))?;
    ///         Ok::<_, Error>(Some(left))
    ///     })
    ///     .await?;
    /// match updated.into_value().flatten() {
    ///     Some(left) => println!("paid; {left} left"),
    ///     None => println!("not enough"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn update<T, E>(
        &self,
        prefix: impl Into<Bytes>,
        change: impl FnMut(&mut UpdateView<'_>) -> Result<T, E> + Send,
    ) -> Result<Updated<T>, E>
    where
        T: Send,
        E: From<Error>,
    {
        self.update_with(prefix, UpdateOptions::new(), change).await
    }

    /// Changes a partition depending on what is in it, with other options than the default ones.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    pub async fn update_with<T, E>(
        &self,
        prefix: impl Into<Bytes>,
        options: UpdateOptions,
        mut change: impl FnMut(&mut UpdateView<'_>) -> Result<T, E> + Send,
    ) -> Result<Updated<T>, E>
    where
        T: Send,
        E: From<Error>,
    {
        let deadline = self.table().deadline();
        let partition = self
            .rule()
            .partition(prefix)
            .map_err(|error| error.at_operation(OPERATION).at_table(self.name()))?;
        let blame = |error: Error| {
            error
                .at_operation(OPERATION)
                .at_table(self.name())
                .at_row(&BytesBinary(partition.prefix()))
        };
        if self
            .was_committed_before(&partition, &options.recording, deadline)
            .await
            .map_err(blame)?
        {
            return Ok(Updated::Replayed);
        }
        let versioned = self.terms().partition_version && !partition.is_lone_row();
        let mut snapshot_options = options.snapshot.clone();
        if versioned {
            snapshot_options = snapshot_options.with_version();
        }
        let mut pauses = Pauses::after_conflicts();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let snapshot = self
                .snapshot_until(partition.clone(), &snapshot_options, deadline)
                .await
                .map_err(blame)?;
            let mut view = UpdateView::new(
                &snapshot,
                self.name(),
                self.terms(),
                &options,
                versioned,
                deadline,
            );
            let value = change(&mut view)?;
            let Some(change) = view.finish().map_err(blame)? else {
                return Ok(Updated::Done { value, attempts });
            };
            drop(snapshot);
            let conflict = match self.try_change(change, &options.recording, deadline).await {
                Ok(Tried::Applied { own: true }) => return Ok(Updated::Done { value, attempts }),
                Ok(Tried::Applied { own: false }) => return Ok(Updated::Replayed),
                Ok(Tried::Again(conflict)) => conflict,
                Err(error) => return Err(blame(error).into()),
            };
            if attempts >= options.attempts || !pauses.wait_before(deadline).await {
                return Err(blame(gave_up(attempts, conflict)).into());
            }
            tracing::debug!(table = %self.name(), %partition, attempts, "an update begins anew");
        }
    }

    /// Refuses an update that can't be recorded as it should; and tells whether one of the same id was applied already.
    async fn was_committed_before(
        &self,
        partition: &Partition,
        recording: &Recording,
        deadline: Instant,
    ) -> Result<bool> {
        if !self.terms().endpoint {
            return Err(Error::invalid(
                "an update needs the endpoint, and the table was opened to do without it",
            ));
        }
        let unrecorded = |error: Error| error.with_hint("update it without a record");
        match recording {
            Recording::None => Ok(false),
            Recording::OwnId => Claim::new(self, partition, &TransactionId::unique(), Digest::UPDATE)
                .map(|_| false)
                .map_err(unrecorded),
            Recording::CallersId(id) => {
                let claim = Claim::new(self, partition, id, Digest::UPDATE)?;
                let record = claim.read(deadline).await?;
                Ok(record.is_some_and(|seen| seen.record.state == State::Committed))
            }
        }
    }

    /// Sends the change, and finds out how that ended.
    async fn try_change(&self, change: Change, recording: &Recording, deadline: Instant) -> Result<Tried> {
        let Change {
            mut group,
            conditions_of_caller,
        } = change;
        group.guard_timestamps = !group.mutations.is_empty();
        // What it does is computed anew in each attempt, so the id can't stand for that.
        let record = |id, of_caller| RecordWish {
            id,
            of_caller,
            fixed_contents: false,
        };
        group.record = match recording {
            Recording::None => None,
            // One for each attempt: each is settled before the next.
            Recording::OwnId => Some(record(TransactionId::unique(), false)),
            Recording::CallersId(id) => Some(record(id.clone(), true)),
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let settling = match group.record {
            Some(_) => left / KEPT_FOR_SETTLING,
            None => Duration::ZERO,
        };
        match self.commit_group(group, deadline - settling).await {
            Outcome::Committed(committed) => Ok(Tried::Applied {
                own: !committed.replayed,
            }),
            Outcome::Rejected(rejection) => {
                // What the closure has read is still so: it would do the same again.
                let of_caller = |failed: &FailedCondition| conditions_of_caller.contains(&failed.label);
                match rejection.failed.iter().all(of_caller) {
                    true => Err(rejection.into()),
                    false => Ok(Tried::Again(Conflict::Rejected(rejection))),
                }
            }
            Outcome::Refused(error) | Outcome::Failed(error) => Err(error),
            Outcome::Unknown(unsettled) => {
                let lost = unsettled.error().to_string();
                match unsettled.settle_until(deadline).await? {
                    Ended::Committed { own } => Ok(Tried::Applied { own }),
                    Ended::NotApplied => Ok(Tried::Again(Conflict::Lost(lost))),
                }
            }
        }
    }
}

/// How one attempt ended.
enum Tried {
    /// It was applied: this one, or another one with the same id.
    Applied {
        own: bool,
    },
    Again(Conflict),
}

/// Why an attempt was surely not applied.
enum Conflict {
    Rejected(Rejection),
    /// Its answer was lost, for this reason.
    Lost(String),
}

fn gave_up(attempts: u32, last: Conflict) -> Error {
    let why = match last {
        Conflict::Rejected(rejection) => {
            let named: Vec<_> = rejection
                .failed
                .iter()
                .take(NAMED_CONDITIONS)
                .map(ToString::to_string)
                .collect();
            let more = match rejection.failed.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "what was read had changed before it could be written, at last: {}{more}",
                named.join("; ")
            )
        }
        Conflict::Lost(reason) => format!("at last: {reason}"),
    };
    Error::new(
        ErrorKind::Conflict,
        format!("gave up, nothing was applied: {why}"),
    )
    .with_retryable(true)
    .at_attempt(attempts)
}

#[cfg(test)]
mod tests;
