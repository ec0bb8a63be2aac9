//! Determines the outcome of a transaction from its record.
//!
//! A missing record proves nothing: the request may be in flight. So settling *fences*: it writes
//! "aborted" into the record, under the condition that the record is what was last read, and reads
//! it back in the same call. Every attempt is sent under the same condition, so after the fence
//! none of them can be applied. If the fence is refused, the record contains the outcome.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hbase_client::{
    Effect, Environment as _, Get, Put, Row,
    low_level::{
        ActionAnswer, CallKind, MultiCall, MutationParts, RegionAction, TableCalls, condition,
        timestamp_after,
    },
};
use tokio::time::Instant;

use super::{
    Record, RecordRequest, SeenRecord, State, TransactionId, digest::Digest, record_row,
    settlements::Position,
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    observe,
    partition::Partition,
    random,
    txn::{
        partition_call::PartitionCall,
        proof::{
            proven_table::ProvenTable,
            servers::{MAX_SKEW, Needs, millis},
        },
        record,
        reserved_rows::{CLOCK, reserved_row},
    },
};

/// How much older than a commit a settlement is, by the clocks, if it was certainly made before.
/// Two clients and their servers, which HBase keeps within 30 s of each other, may differ by three and a
/// half times the maximum difference.
const SURELY_BEFORE: Duration = Duration::from_secs(5 * MAX_SKEW.as_secs());

/// A transaction whose answer was lost.
#[derive(Debug)]
#[must_use = "the transaction may have been applied, or not: settle it, or read its rows"]
pub struct Unsettled {
    error: Error,
    claim: Option<Claim>,
}

/// The final outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was applied.
    Committed,
    /// It was not applied, and no commit of it that began earlier can be applied any more. The
    /// transaction may be committed again, under the same id or another. If another client does so
    /// under the same id, see [`PartitionedTable::settle`](crate::PartitionedTable::settle).
    NotApplied,
}

/// The contents of a transaction's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recorded {
    /// It was applied.
    Committed,
    /// It had not been applied when it was settled; it may have been sent again since.
    Aborted,
    /// There is no record, which proves nothing: the transaction was never sent, is still in
    /// flight, or is older than the table's replay window.
    Nothing,
}

impl Unsettled {
    pub(in crate::txn) fn new(error: Error, claim: Option<Claim>) -> Self {
        let error = match &claim {
            None => error.with_hint("read the rows back before sending it again"),
            Some(claim) => error.with_hint(format!(
                "settle transaction {} of partition {}",
                claim.id, claim.partition
            )),
        };
        Self {
            error: error.with_effect(Effect::Unknown),
            claim,
        }
    }

    /// Returns the error that caused the loss of the answer.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// Returns the id under which the transaction is recorded, or `None` if it has no record.
    #[must_use]
    pub fn id(&self) -> Option<&TransactionId> {
        self.claim.as_ref().map(|claim| &claim.id)
    }

    /// Converts into the error, for the `?` operator.
    #[must_use]
    pub fn into_error(self) -> Error {
        self.error
    }

    /// Determines the outcome within the table's operation timeout: reads the record and, if it
    /// contains no outcome, ensures that the transaction can't be applied any more.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](ClientErrorKind::InvalidInput) if the transaction has no record;
    /// - [`OutcomeForgotten`](ErrorKind::OutcomeForgotten) if it is older than the table's replay
    ///   window;
    /// - the errors of [`Table::get`](crate::client::Table::get), after which settling can be tried again.
    pub async fn settle(&self) -> Result<Settled> {
        let Some(claim) = &self.claim else {
            return Err(Error::new(
                ClientErrorKind::InvalidInput,
                "a transaction without a record can't be settled",
            )
            .with_effect(Effect::Unknown)
            .with_hint("read the rows back before sending it again"));
        };
        claim.settle(claim.table.table().deadline()).await
    }

    /// Determines the outcome by a deadline, for the commit itself. `seen`: the record as the last
    /// attempt had seen it. If that fails, returns the error of the commit.
    pub(in crate::txn) async fn end_until(
        self,
        seen: Option<SeenRecord>,
        deadline: Instant,
    ) -> Result<Ended> {
        let Some(claim) = &self.claim else {
            return Err(self.error);
        };
        match claim.end(seen, Purpose::Commit, deadline).await {
            Ok(ended) => Ok(ended),
            Err(error) => {
                tracing::debug!(id = %claim.id, %error, "could not settle a transaction");
                Err(self.error)
            }
        }
    }
}

/// The outcome of a commit.
#[derive(Clone, Debug)]
pub(in crate::txn) enum Ended {
    /// The transaction was applied, by this commit or by another one with the same id.
    Committed { own: bool },
    /// No attempt was applied or can be. The fence is `None` if the id belongs to another transaction.
    NotApplied(Option<SeenRecord>),
    /// The same, and another process was told so: this commit must not go on.
    SettledElsewhere,
}

/// The reason for a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::txn) enum Purpose {
    /// The commit that sends the attempts may go on, and so may others of its id.
    Commit,
    /// A caller learns that the transaction is not applied. No commit that began before may go on.
    Settlement,
}

/// The result of a fence.
pub(in crate::txn) enum Fenced {
    /// The fence is in place: no attempt so far was applied, and none of them can be.
    InPlace(SeenRecord),
    /// The record is not the one that was last seen.
    Found(SeenRecord),
}

/// A transaction's claim on its record: its row, id and digest.
#[derive(Clone, Debug)]
pub(in crate::txn) struct Claim {
    table: ProvenTable,
    pub(in crate::txn) partition: Partition,
    pub(in crate::txn) id: TransactionId,
    pub(in crate::txn) digest: Digest,
    /// Identifies this commit.
    pub(in crate::txn) writer: u64,
    row: Bytes,
    window: Duration,
    begun: (Instant, SystemTime),
    /// The position behind the settlements that were seen before this commit began.
    settlements: Position,
}

impl Claim {
    /// # Errors
    ///
    /// Returns an error if the table, or the partition, can't have records.
    pub(in crate::txn) fn new(
        table: &ProvenTable,
        partition: &Partition,
        id: &TransactionId,
        digest: Digest,
    ) -> Result<Self> {
        let window = table.terms().record_window()?;
        let row = record_row(partition, id)?;
        // The clocks are compared before a record is written. A short id fits behind a longer prefix.
        reserved_row(partition, CLOCK, "records")?;
        Ok(Self {
            window,
            row,
            table: table.clone(),
            partition: partition.clone(),
            id: id.clone(),
            digest,
            writer: random::bits_64(table.environment()),
            begun: (Instant::now(), table.environment().wall_clock()),
            settlements: table.settlements().position(),
        })
    }

    pub(in crate::txn) fn of_request(
        table: &ProvenTable,
        partition: &Partition,
        request: &RecordRequest,
        digest: impl FnOnce() -> Digest,
    ) -> Result<Self> {
        let digest = if request.fixed_contents {
            digest()
        } else {
            Digest::UPDATE
        };
        Self::new(table, partition, &request.id, digest)
    }

    /// Returns the condition of an attempt: the record is unchanged since it was last seen.
    pub(in crate::txn) fn condition(
        &self,
        seen: Option<&SeenRecord>,
    ) -> hbase_client::low_level::pb::Condition {
        condition::cell_equals(
            &self.row,
            &record::FAMILY,
            &record::QUALIFIER,
            seen.map(|seen| &seen.value),
        )
    }

    /// Returns the put of the record that is applied with the transaction.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](ClientErrorKind::InvalidInput) if no put can follow the timestamp
    /// of the record that was seen.
    pub(in crate::txn) fn committed(&self, seen: Option<&SeenRecord>) -> Result<Put> {
        self.put(seen, |record| Record {
            state: State::Committed,
            writer: self.writer,
            settled_at: None,
            ..record
        })
    }

    /// Returns the put of the record of an abort.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`committed`](Self::committed).
    pub(in crate::txn) fn aborted(&self, seen: Option<&SeenRecord>, purpose: Purpose) -> Result<Put> {
        self.put(seen, |record| Record {
            state: State::Aborted,
            epoch: record.epoch.saturating_add(1),
            // Not the writer of the commit: a fence from an earlier call would look like this one, and
            // attempts sent after that fence would count as fenced off.
            writer: random::bits_64(self.table.environment()),
            settled_at: match purpose {
                Purpose::Commit => record.settled_at,
                Purpose::Settlement => Some(self.table.servers().latest_now()),
            },
            ..record
        })
    }

    /// Returns the put of a record that follows the one that was seen.
    fn put(&self, seen: Option<&SeenRecord>, next: impl FnOnce(Record) -> Record) -> Result<Put> {
        let earlier = seen.map(|seen| &seen.record);
        let record = next(Record {
            state: State::Aborted,
            epoch: earlier.map_or(0, |record| record.epoch),
            writer: 0,
            // A settlement by the id alone does not know the contents, and keeps what the id stands for.
            digest: match earlier {
                Some(record) if self.digest == Digest::ANY => record.digest,
                _ => self.digest,
            },
            settled_at: earlier.and_then(|record| record.settled_at),
        });
        let ahead = u64::try_from(self.window.as_millis()).unwrap_or(u64::MAX);
        let now = self.table.servers().latest_now().saturating_add(ahead);
        let timestamp = match seen {
            Some(seen) => now.max(timestamp_after(seen.timestamp)?),
            None => now,
        };
        let put = Put::new(self.row.clone());
        Ok(put.cell_at(record::FAMILY, record::QUALIFIER, timestamp, record.encode()))
    }

    fn get(&self) -> Get {
        Get::new(self.row.clone()).column(record::FAMILY, record::QUALIFIER)
    }

    /// Reads the record.
    pub(in crate::txn) async fn read(&self, deadline: Instant) -> Result<Option<SeenRecord>> {
        let call = PartitionCall::new(&self.table, &self.partition, &self.row, CallKind::Read, deadline);
        let record = found(call.get(&self.get()).await?.as_ref())?;
        self.remember(record.as_ref());
        self.check_digest(record)
    }

    /// Reads the record before a commit.
    ///
    /// # Errors
    ///
    /// Returns [`Aborted`](ErrorKind::Aborted) if a caller may have been told since the commit began
    /// that the transaction is not applied.
    pub(in crate::txn) async fn read_for_commit(&self, deadline: Instant) -> Result<Option<SeenRecord>> {
        self.may_go_on(self.read(deadline).await?)
    }

    /// Returns the record that was found if a commit may go on after it, or is in it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`read_for_commit`](Self::read_for_commit).
    pub(in crate::txn) fn may_go_on(&self, found: Option<SeenRecord>) -> Result<Option<SeenRecord>> {
        let may_go_on = |found: &SeenRecord| found.is_committed() || self.may_follow(found);
        if found.as_ref().is_none_or(may_go_on) {
            Ok(found)
        } else {
            Err(settled_elsewhere())
        }
    }

    /// Remembers a settlement, after which this client may begin another commit.
    fn remember(&self, seen: Option<&SeenRecord>) {
        if let Some(seen) = seen.filter(|seen| seen.record.settled_at.is_some()) {
            self.table.settlements().add(seen.record.writer);
        }
    }

    /// Returns whether a commit with this claim may go on after a record that states an abort: no
    /// caller was told since the commit began that the transaction is not applied.
    pub(in crate::txn) fn may_follow(&self, seen: &SeenRecord) -> bool {
        let Record {
            writer, settled_at, ..
        } = seen.record;
        let Some(settled_at) = settled_at else {
            return true;
        };
        let surely_before = u64::try_from(SURELY_BEFORE.as_millis()).unwrap_or(u64::MAX);
        self.table.settlements().has_before(writer, self.settlements)
            || settled_at.saturating_add(surely_before) < millis(self.begun.1)
    }

    /// Ensures that no attempt sent under the condition "the record is `seen`" can be applied any
    /// more, or finds out that one was applied.
    ///
    /// # Errors
    ///
    /// Returns [`IdReused`](ErrorKind::IdReused) if the record belongs to a transaction with other
    /// contents; then, too, no attempt was applied or can be any more. After any other error
    /// nothing is known, and the fence may be repeated.
    pub(in crate::txn) async fn fence(
        &self,
        seen: Option<&SeenRecord>,
        purpose: Purpose,
        deadline: Instant,
    ) -> Result<Fenced> {
        let aborted = self.aborted(seen, purpose)?;
        let value = aborted.parts().first().map(|cell| cell.value.clone());
        let call = MultiCall {
            row: self.row.clone(),
            actions: vec![
                RegionAction::Conditional {
                    mutations: vec![aborted.into()],
                    condition: self.condition(seen),
                },
                RegionAction::Get(self.get()),
            ],
            durability: self.table.table().durable(),
        };
        let needs = Needs {
            // A server that ignores conditions would put the fence over a committed record.
            conditions: true,
            clock: true,
            ..Needs::default()
        };
        // A repeated fence finds its own record.
        let kind = CallKind::IdempotentWrite;
        let attempts = PartitionCall::new(&self.table, &self.partition, &self.row, kind, deadline);
        let answers = attempts.needing(needs).multi(&call).await?;
        let Some(found) = found_last(&answers)? else {
            return Err(Error::new(
                ClientErrorKind::Server,
                "a transaction's record was written to fence it off, and can't be read back",
            )
            .with_retryable(true));
        };
        let own = value.is_some_and(|value| value == found.value);
        self.remember(Some(&found));
        match self.check_digest(Some(found))? {
            Some(found) if own => Ok(Fenced::InPlace(found)),
            Some(found) => Ok(Fenced::Found(found)),
            None => Err(Error::new(ClientErrorKind::Server, "a record came and went")),
        }
    }

    /// Settles the transaction for a caller that may not be the one that commits it.
    pub(in crate::txn) async fn settle(&self, deadline: Instant) -> Result<Settled> {
        match self.end(None, Purpose::Settlement, deadline).await? {
            Ended::Committed { .. } => Ok(Settled::Committed),
            Ended::NotApplied(_) | Ended::SettledElsewhere => Ok(Settled::NotApplied),
        }
    }

    /// Repeats the fence until it is in place, or the record states the commit. `seen`: the record
    /// that is expected.
    async fn end(&self, mut seen: Option<SeenRecord>, purpose: Purpose, deadline: Instant) -> Result<Ended> {
        let settle = async {
            loop {
                self.check_age()?;
                let fenced = match self.fence(seen.as_ref(), purpose, deadline).await {
                    // The record belongs to another transaction with the same id. This transaction
                    // can't be applied over it.
                    Err(error) if error.kind() == ErrorKind::IdReused => return Ok(Ended::NotApplied(None)),
                    fenced => fenced?,
                };
                match fenced {
                    Fenced::InPlace(fence) => return Ok(Ended::NotApplied(Some(fence))),
                    Fenced::Found(found) if found.record.state == State::Committed => {
                        return Ok(Ended::Committed {
                            own: found.record.writer == self.writer,
                        });
                    }
                    Fenced::Found(aborted) if purpose == Purpose::Commit && !self.may_follow(&aborted) => {
                        return Ok(Ended::SettledElsewhere);
                    }
                    // Attempts sent after this record was seen may be in flight.
                    Fenced::Found(aborted) => seen = Some(aborted),
                }
                if Instant::now() >= deadline {
                    return Err(Error::new(
                        ClientErrorKind::DeadlineExceeded,
                        "others keep changing the transaction's record",
                    ));
                }
            }
        };
        let settled = settle.await;
        observe::settled(&settled, |ended| matches!(ended, Ended::Committed { .. }));
        settled.map_err(|error: Error| self.in_context(error.with_effect(Effect::Unknown)))
    }

    /// Checks that the replay window is longer than the commit plus the maximum clock difference.
    pub(in crate::txn) fn check_window(&self, deadline: Instant) -> Result<()> {
        let longest = deadline.saturating_duration_since(Instant::now()) + 2 * MAX_SKEW;
        if longest < self.window {
            Ok(())
        } else {
            Err(Error::new(
                ClientErrorKind::InvalidConfig,
                format!(
                    "the table remembers transactions for {} s, and this one may take {} s, with what clocks may differ",
                    self.window.as_secs(),
                    longest.as_secs() + 1
                ),
            )
            .with_hint("shorten the operation timeout, or give the table a longer replay window"))
        }
    }

    fn check_age(&self) -> Result<()> {
        let (instant, time) = self.begun;
        let now = self.table.environment().wall_clock();
        let by_clock = now.duration_since(time).unwrap_or_default();
        let made = self.id.made_at().map(|made| millis(now).saturating_sub(made));
        let by_id = made.map(Duration::from_millis).unwrap_or_default();
        // The monotonic clock stops while the machine sleeps; the system clock can be set.
        let age = instant.elapsed().max(by_clock).max(by_id) + MAX_SKEW;
        if age < self.window {
            Ok(())
        } else {
            Err(Error::new(
                ErrorKind::OutcomeForgotten,
                format!(
                    "the outcome is no longer known: the table remembers it for {:?}",
                    self.window
                ),
            )
            .with_hint("read the rows back"))
        }
    }

    /// Reads the record without settling.
    pub(in crate::txn) async fn recorded(&self, deadline: Instant) -> Result<Recorded> {
        let read = async {
            match self.read(deadline).await?.map(|seen| seen.record.state) {
                None => self.check_age().map(|()| Recorded::Nothing),
                Some(State::Committed) => Ok(Recorded::Committed),
                Some(State::Aborted) => Ok(Recorded::Aborted),
            }
        };
        read.await.map_err(|error| self.in_context(error))
    }

    /// Refuses the record of a transaction with other contents.
    fn check_digest(&self, seen: Option<SeenRecord>) -> Result<Option<SeenRecord>> {
        match &seen {
            Some(seen) if !seen.record.digest.agrees_with(&self.digest) => Err(Error::new(
                ErrorKind::IdReused,
                format!("the id {} belongs to a transaction with other contents", self.id),
            )
            .with_hint("give each transaction an id of its own")),
            _ => Ok(seen),
        }
    }

    fn in_context(&self, error: Error) -> Error {
        let error = error
            .at_operation(format!("settling transaction {}", self.id))
            .at_table(self.table.name());
        self.partition.in_context(error)
    }
}

/// Returns the error of a commit that must not go on.
pub(in crate::txn) fn settled_elsewhere() -> Error {
    Error::new(
        ErrorKind::Aborted,
        "another client settled the transaction as not applied, perhaps while it was being committed",
    )
    .with_hint("commit it again, if it is still wanted")
}

/// Returns the record in its row.
fn found(row: Option<&Row>) -> Result<Option<SeenRecord>> {
    row.and_then(|row| row.cell(record::FAMILY, record::QUALIFIER))
        .map(SeenRecord::of)
        .transpose()
}

fn found_last(answers: &[ActionAnswer]) -> Result<Option<SeenRecord>> {
    match answers.last() {
        Some(ActionAnswer::Row(row)) => found(row.as_ref()),
        _ => Err(Error::new(
            ClientErrorKind::Protocol,
            "the answer of a Multi lacks the row that was read",
        )),
    }
}

#[cfg(test)]
mod tests;
