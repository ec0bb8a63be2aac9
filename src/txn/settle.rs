//! Finds out how a transaction ended, by its record.
//!
//! A record that is not there proves nothing: the request may be on its way. So whoever wants to know *fences*: puts
//! "aborted" into the record, under the condition that it is what was last seen there, and reads it back in the same
//! call. Every attempt is sent under the same condition, so once the fence stands none of them can be applied any more.
//! If the fence is refused, the record says what happened.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    digest::Digest,
    partitioned_table::PartitionedTable,
    plan::{RecordWish, no_record_family},
    record::{self, Record, SeenRecord, State, TransactionId, record_row},
    servers::{MAX_SKEW, Needs, local_now},
};
use crate::{
    client::{ActionAnswer, CallKind, MultiCall, RegionAction},
    error::{Effect, Error, ErrorKind, Result},
    model::{BytesBinary, Durability, Get, Partition, Put},
    wire::condition,
};

/// A transaction whose answer was lost.
#[derive(Debug)]
#[must_use = "the transaction may have been applied, or not: settle it, or read its rows"]
pub struct Unsettled {
    error: Error,
    claim: Option<Claim>,
}

/// How a transaction ended, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// It was applied.
    Committed,
    /// No attempt was applied, and none that is on its way can be any more. It may be committed again, under the same
    /// id or another.
    NotApplied,
}

/// What a transaction's record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recorded {
    /// It was applied.
    Committed,
    /// It was not applied up to when it was settled; it may have been sent again since.
    Aborted,
    /// There is no record, which proves nothing: it was never sent, or is still on its way, or is older than the
    /// table remembers.
    Nothing,
}

impl Unsettled {
    pub(super) fn new(error: Error, claim: Option<Claim>) -> Self {
        let error = match &claim {
            None => error.with_hint("read the rows back before sending it again"),
            Some(claim) => error.with_hint(format!(
                "settle it: hbase-txn txn outcome {} '{}' '{}' --settle",
                claim.table.name(),
                BytesBinary(claim.partition.prefix()),
                claim.id
            )),
        };
        Self {
            error: error.with_effect(Effect::Unknown),
            claim,
        }
    }

    /// Why the answer is missing.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The id under which it is recorded; none without a record.
    #[must_use]
    pub fn id(&self) -> Option<&TransactionId> {
        self.claim.as_ref().map(|claim| &claim.id)
    }

    /// The error, for the `?` operator.
    #[must_use]
    pub fn into_error(self) -> Error {
        self.error
    }

    /// Finds out how it ended, within the table's operation timeout: asks the record, and where that says nothing, makes
    /// sure that the transaction can't be applied any more.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](ErrorKind::InvalidInput) for a transaction without a record;
    /// - [`OutcomeForgotten`](ErrorKind::OutcomeForgotten) once it is older than the table's replay window;
    /// - those of [`Table::get`](crate::Table::get): it may be settled later.
    pub async fn settle(&self) -> Result<Settled> {
        let Some(claim) = &self.claim else {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "a transaction without a record can't be settled",
            )
            .with_effect(Effect::Unknown)
            .with_hint("read the rows back before sending it again"));
        };
        claim
            .settle(claim.table.table().deadline())
            .await
            .map(Settled::from)
    }

    /// The same for a caller that goes on: by a deadline of its own, and with the error of the commit when it can't be
    /// found out.
    pub(super) async fn settle_until(self, deadline: Instant) -> Result<Ended> {
        let Some(claim) = &self.claim else {
            return Err(self.error);
        };
        match claim.settle(deadline).await {
            Ok(ended) => Ok(ended),
            Err(error) => {
                tracing::debug!(id = %claim.id, %error, "could not settle a transaction");
                Err(self.error)
            }
        }
    }
}

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The transaction was applied: by this commit, or by another one with the same id.
    Committed {
        own: bool,
    },
    NotApplied,
}

impl From<Ended> for Settled {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Committed { .. } => Self::Committed,
            Ended::NotApplied => Self::NotApplied,
        }
    }
}

/// What a fence found.
pub(super) enum Fenced {
    /// It stands: no attempt so far was applied, and none of those can be.
    Stands(SeenRecord),
    /// The record is another than the one that was last seen.
    Found(SeenRecord),
}

/// A transaction's place among the records.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) table: PartitionedTable,
    pub(super) partition: Partition,
    pub(super) id: TransactionId,
    pub(super) digest: Digest,
    /// Which commit this is.
    pub(super) writer: u64,
    row: Bytes,
    window: Duration,
    begun: (Instant, SystemTime),
}

impl Claim {
    /// # Errors
    ///
    /// When the table, or the partition, can't have records.
    pub(super) fn new(
        table: &PartitionedTable,
        partition: &Partition,
        id: &TransactionId,
        digest: Digest,
    ) -> Result<Self> {
        let Some(window) = table.terms().replay_window else {
            return Err(no_record_family());
        };
        Ok(Self {
            row: record_row(partition, id)?,
            table: table.clone(),
            partition: partition.clone(),
            id: id.clone(),
            digest,
            writer: fastrand::u64(..),
            window,
            begun: (Instant::now(), SystemTime::now()),
        })
    }

    pub(super) fn of_wish(
        table: &PartitionedTable,
        partition: &Partition,
        wish: &RecordWish,
        digest: impl FnOnce() -> Digest,
    ) -> Result<Self> {
        let digest = if wish.fixed_contents {
            digest()
        } else {
            Digest::UPDATE
        };
        Self::new(table, partition, &wish.id, digest)
    }

    /// The condition of an attempt: that the record is what was last seen.
    pub(super) fn condition(&self, seen: Option<&SeenRecord>) -> crate::wire::pb::Condition {
        condition::cell_equals(
            &self.row,
            &record::FAMILY,
            &record::QUALIFIER,
            seen.map(|seen| &seen.value),
        )
    }

    /// The record of a transaction that is applied with it.
    pub(super) fn committed(&self, seen: Option<&SeenRecord>) -> Put {
        self.put(State::Committed, seen, self.writer)
    }

    fn put(&self, state: State, seen: Option<&SeenRecord>, writer: u64) -> Put {
        let epoch = seen.map_or(0, |seen| seen.record.epoch);
        let record = Record {
            state,
            epoch: match state {
                State::Committed => epoch,
                State::Aborted => epoch.saturating_add(1),
            },
            writer,
            digest: self.digest,
        };
        let ahead = u64::try_from(self.window.as_millis()).unwrap_or(u64::MAX);
        let now = self.table.servers().now().saturating_add(ahead);
        let timestamp = seen.map_or(now, |seen| now.max(seen.timestamp + 1));
        Put::new(self.row.clone()).cell_at(record::FAMILY, record::QUALIFIER, timestamp, record.encode())
    }

    fn get(&self) -> Get {
        Get::new(self.row.clone()).column(record::FAMILY, record::QUALIFIER)
    }

    /// Reads the record.
    pub(super) async fn read(&self, deadline: Instant) -> Result<Option<SeenRecord>> {
        let call = MultiCall {
            row: self.row.clone(),
            actions: vec![RegionAction::Get(self.get())],
            durability: Durability::SyncWal,
            kind: CallKind::Read,
        };
        let answers = self
            .table
            .multi_gated(&self.partition, &call, Needs::default(), deadline)
            .await?;
        let record = self.found(answers.last())?;
        self.check_digest(record)
    }

    /// Makes sure that no attempt that was sent under the condition "the record is what was seen" can be applied any
    /// more, or finds out that one was.
    ///
    /// # Errors
    ///
    /// [`IdReused`](ErrorKind::IdReused) when the record is that of other contents: then too no attempt was applied, or
    /// can be any more. Nothing is known after any other error: it may be fenced again.
    pub(super) async fn fence(&self, seen: Option<&SeenRecord>, deadline: Instant) -> Result<Fenced> {
        // Not that of the commit: a fence that an earlier call put there would look like this one, and attempts that were
        // sent behind it would be taken for fenced off.
        let aborted = self.put(State::Aborted, seen, fastrand::u64(..));
        let value = aborted.cells.first().map(|cell| cell.value.clone());
        let call = MultiCall {
            row: self.row.clone(),
            actions: vec![
                RegionAction::Conditional {
                    mutations: vec![aborted.into()],
                    condition: self.condition(seen),
                },
                RegionAction::Get(self.get()),
            ],
            durability: Durability::SyncWal,
            // Sent twice, it finds its own record the second time.
            kind: CallKind::IdempotentWrite,
        };
        let needs = Needs {
            // A server that drops conditions would put the fence over a record that says committed.
            conditions: true,
            clock: true,
            ..Needs::default()
        };
        let answers = self
            .table
            .multi_gated(&self.partition, &call, needs, deadline)
            .await?;
        let Some(found) = self.found(answers.last())? else {
            return Err(Error::new(
                ErrorKind::Server,
                "a transaction's record was written to fence it off, and can't be read back",
            )
            .with_retryable(true));
        };
        let own = value.is_some_and(|value| value == found.value);
        match self.check_digest(Some(found))? {
            Some(found) if own => Ok(Fenced::Stands(found)),
            Some(found) => Ok(Fenced::Found(found)),
            None => Err(Error::new(ErrorKind::Server, "a record came and went")),
        }
    }

    /// Fences until it stands, or the record says that the transaction was committed.
    pub(super) async fn settle(&self, deadline: Instant) -> Result<Ended> {
        let settle = async {
            let mut seen = None;
            loop {
                self.check_age()?;
                let fenced = match self.fence(seen.as_ref(), deadline).await {
                    // The record of another transaction under the same id: ours can't be applied over it.
                    Err(error) if error.kind() == ErrorKind::IdReused => return Ok(Ended::NotApplied),
                    fenced => fenced?,
                };
                match fenced {
                    Fenced::Stands(_) => return Ok(Ended::NotApplied),
                    Fenced::Found(found) if found.record.state == State::Committed => {
                        return Ok(Ended::Committed {
                            own: found.record.writer == self.writer,
                        });
                    }
                    // Attempts may be on their way that have seen this one.
                    Fenced::Found(aborted) => seen = Some(aborted),
                }
                if Instant::now() >= deadline {
                    return Err(Error::new(
                        ErrorKind::DeadlineExceeded,
                        "others keep changing the transaction's record",
                    ));
                }
            }
        };
        settle
            .await
            .map_err(|error: Error| self.blame(error.with_effect(Effect::Unknown)))
    }

    /// The replay window must outlast the commit and what the clocks may differ.
    pub(super) fn check_window(&self, deadline: Instant) -> Result<()> {
        let longest = deadline.saturating_duration_since(Instant::now()) + 2 * MAX_SKEW;
        match longest < self.window {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::InvalidConfig,
                format!(
                    "the table remembers transactions for {} s, and this one may take {} s, with what clocks may differ",
                    self.window.as_secs(),
                    longest.as_secs() + 1
                ),
            )
            .with_hint("shorten the operation timeout, or give the table a longer replay window")),
        }
    }

    fn check_age(&self) -> Result<()> {
        let (instant, time) = self.begun;
        let by_clock = SystemTime::now().duration_since(time).unwrap_or_default();
        let made = self.id.made_at().map(|made| local_now().saturating_sub(made));
        let by_id = made.map(Duration::from_millis).unwrap_or_default();
        // The first does not run while the machine sleeps, the others may be set.
        let age = instant.elapsed().max(by_clock).max(by_id) + MAX_SKEW;
        match age < self.window {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::OutcomeForgotten,
                format!(
                    "the outcome is no longer known: the table remembers it for {:?}",
                    self.window
                ),
            )
            .with_hint("read the rows back")),
        }
    }

    /// Refuses a record that stands for other contents.
    fn check_digest(&self, seen: Option<SeenRecord>) -> Result<Option<SeenRecord>> {
        match &seen {
            Some(seen) if !seen.record.digest.agrees_with(&self.digest) => Err(Error::new(
                ErrorKind::IdReused,
                format!("the id {} stands for a transaction with other contents", self.id),
            )
            .with_hint("give each transaction an id of its own")),
            _ => Ok(seen),
        }
    }

    fn found(&self, answer: Option<&ActionAnswer>) -> Result<Option<SeenRecord>> {
        match answer {
            Some(ActionAnswer::Row(row)) => row
                .as_ref()
                .and_then(|row| row.cell(record::FAMILY, record::QUALIFIER))
                .map(SeenRecord::of)
                .transpose(),
            _ => Err(Error::new(
                ErrorKind::Protocol,
                "the answer of a Multi lacks the row that was read",
            )),
        }
    }

    fn blame(&self, error: Error) -> Error {
        error
            .at_operation(format!("settling transaction {}", self.id))
            .at_table(self.table.name())
            .at_row(&BytesBinary(self.partition.prefix()))
    }
}

impl PartitionedTable {
    /// What the record of a transaction says. Only reads: see [`settle`](Self::settle) for the truth where there is no
    /// record.
    ///
    /// # Errors
    ///
    /// [`RecordFamilyMissing`](ErrorKind::RecordFamilyMissing), and those of [`Table::get`](crate::Table::get);
    /// [`OutcomeForgotten`](ErrorKind::OutcomeForgotten) for an id of this package's own that is older than the replay
    /// window.
    pub async fn outcome(&self, prefix: impl Into<Bytes>, id: &TransactionId) -> Result<Recorded> {
        let claim = self.claim(prefix, id)?;
        let record = claim
            .read(self.table().deadline())
            .await
            .map_err(|error| claim.blame(error))?;
        Ok(match record.map(|seen| seen.record.state) {
            None => {
                claim.check_age().map_err(|error| claim.blame(error))?;
                Recorded::Nothing
            }
            Some(State::Committed) => Recorded::Committed,
            Some(State::Aborted) => Recorded::Aborted,
        })
    }

    /// Settles a transaction by its id, from whatever process: tells whether it was applied, and if not, makes sure that
    /// no attempt that is on its way can be any more.
    ///
    /// Whoever is still committing it elsewhere is told that it failed. The answer is right for transactions that were
    /// first sent within the table's replay window. Ids of this package's own say how old they are, and are refused when
    /// they are older. One of the caller's does not: it may have been applied and forgotten, and then this says
    /// [`NotApplied`](Settled::NotApplied), as it would of an id that was never used. So ask within the window.
    ///
    /// # Errors
    ///
    /// As [`Unsettled::settle`].
    pub async fn settle(&self, prefix: impl Into<Bytes>, id: &TransactionId) -> Result<Settled> {
        let deadline = self.table().deadline();
        self.claim(prefix, id)?.settle(deadline).await.map(Settled::from)
    }

    fn claim(&self, prefix: impl Into<Bytes>, id: &TransactionId) -> Result<Claim> {
        self.rule()
            .partition(prefix)
            .and_then(|partition| Claim::new(self, &partition, id, Digest::ANY))
            .map_err(|error| {
                error
                    .at_operation("outcome of a transaction")
                    .at_table(self.name())
            })
    }
}
