//! The latch protocol with the calls of a gateway: the note is put conditionally, then the count
//! that it specifies unconditionally.
//!
//! An unconditional put is harmless, however late or often it arrives: it writes one cell, which
//! only this change writes, and any later count lies over it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use hbase_client::{Effect, Row, SystemEnvironment, low_level::Pauses};
use tokio::{runtime::Handle, time::Instant};

use super::rows::{Rows, resend};
use crate::{
    error::{Error, ErrorKind, Result, unknown, unknown_if},
    java_layout::Level,
    latch::{
        Cells, Change, Extent, Intent, LatchCount, LatchObservation, LatchOperation, LatchProgress,
        LatchSource, LatchState, NewChange, Participants, Planned, PollResult, Source, Verdict, apply, begun,
        check_leftover, contended, encode, gone, intend, intend_to_delete,
    },
};

/// The maximum number of latches per call, because the size of an answer is limited.
const MAX_ROWS: usize = 500;

/// The latches of a table, in its two families.
#[derive(Clone, Debug)]
pub(super) struct LatchRows {
    pub(super) counts: Rows,
    pub(super) notes: Rows,
}

/// One latch in its table.
#[derive(Clone, Debug)]
pub(super) struct ThriftLatchLocation {
    pub(super) rows: LatchRows,
    pub(super) cells: Cells,
}

/// A change of one latch.
struct ThriftLatchChange<'a> {
    location: &'a ThriftLatchLocation,
    operation: &'a LatchOperation,
    change: NewChange<'a>,
    deadline: Instant,
}

impl Change for ThriftLatchChange<'_> {
    type Row = LatchObservation;
    type Plan = Intent;
    type Answer = (LatchCount, Option<u64>);

    async fn read(&self) -> Result<LatchObservation> {
        self.location.read(Participants::None, self.deadline).await
    }

    async fn plan(&self, observation: &mut LatchObservation) -> Result<Planned<Intent, Self::Answer>> {
        let location = self.location;
        let seen = std::mem::take(observation);
        *observation = location.settle(seen, Participants::None, self.deadline).await?;
        let intent = intend(&location.cells, self.operation, self.change, observation)?;
        if intent.ends.is_none() {
            // Leftover counts would be added up, and cells under a count with a shorter life would
            // become visible again. There is no latch, so these counts are not needed.
            location.forget(observation, self.deadline).await?;
        }
        Ok(Planned::Write(intent))
    }

    /// Puts the note. If it does not show afterwards, a put that the gateway repeats by itself may be
    /// in flight.
    async fn write(&self, intent: &Intent, _: &LatchObservation) -> Result<(Verdict, LatchObservation)> {
        self.location.put_note(intent, self.deadline).await?;
        let noted = self.read().await.map_err(unknown)?;
        match intent.judge(&noted) {
            Verdict::Open => Err(unknown(contended())),
            Verdict::Unknown => Err(unknown(interfered())),
            verdict => Ok((verdict, noted)),
        }
    }

    fn judge(&self, intent: &Intent, _: &LatchObservation, observation: &LatchObservation) -> Verdict {
        intent.judge(observation)
    }

    async fn complete(&mut self, intent: Intent, noted: LatchObservation) -> Result<Option<Self::Answer>> {
        let level = self.location.cells.level;
        let Some(after) = self.location.land_noted(&intent, noted, self.deadline).await? else {
            return Ok(None);
        };
        let latch = Some(intent.latch());
        // The latch may have ended meanwhile, and another one of its name may have begun.
        let is_there = after.deadline(level).is_some() && after.latch() == latch;
        let left = if is_there {
            after.left().map_err(unknown)?
        } else {
            intent.left
        };
        Ok(Some((LatchCount { left, counted: true }, latch)))
    }

    fn contended() -> Error {
        contended()
    }
}

impl ThriftLatchLocation {
    /// Reads the latch, with the ends from its note.
    pub(super) async fn read(
        &self,
        participants: Participants<'_>,
        deadline: Instant,
    ) -> Result<LatchObservation> {
        let columns = columns(&self.cells, participants);
        let rows = [self.cells.row.clone()];
        let mut found = self.rows.counts.read(&rows, columns, deadline).await?;
        let row = found.pop().flatten();
        Ok(LatchObservation::of(&self.cells, row.as_ref())?.with_noted_ends())
    }

    /// Applies an operation. Returns also the number of the latch.
    ///
    /// # Errors
    ///
    /// Returns an error if the state of the latch does not allow the operation, and the errors of
    /// the calls. If the outcome is unknown, the change may have been applied.
    pub(super) async fn change(
        &self,
        operation: &LatchOperation,
        deadline: Instant,
    ) -> Result<(LatchCount, Option<u64>)> {
        let mut change = ThriftLatchChange {
            location: self,
            operation,
            change: NewChange::new(&SystemEnvironment),
            deadline,
        };
        apply(&mut change, deadline).await
    }

    /// Deletes the latch and its recorded state. Returns whether there was anything to delete.
    ///
    /// # Errors
    ///
    /// Returns the errors of the calls. After an error, a part of it may be deleted; another call
    /// deletes the rest.
    pub(super) async fn delete(&self, deadline: Instant) -> Result<bool> {
        let change = NewChange::new(&SystemEnvironment);
        let mut pauses = Pauses::after_conflicts();
        let mut is_any = false;
        loop {
            let observation = async {
                let observation = self.read(Participants::All, deadline).await?;
                self.settle(observation, Participants::All, deadline).await
            };
            let observation = observation.await.map_err(unknown_if(is_any))?;
            let intent = self
                .cells
                .note
                .as_ref()
                .and_then(|_| intend_to_delete(&self.cells, change, &observation));
            if intent.is_none() && observation.counts.is_empty() && observation.arrived.is_empty() {
                return Ok(is_any);
            }
            is_any = true;
            if let Some(intent) = &intent {
                self.put_note(intent, deadline).await.map_err(unknown)?;
            }
            self.forget(&observation, deadline).await.map_err(unknown)?;
            if !pauses.wait_before(deadline).await {
                return Err(unknown(contended()));
            }
        }
    }

    /// Writes the count of a change that is noted. Returns the last observation, or `None` if the
    /// change was not applied and cannot be any more.
    async fn land_noted(
        &self,
        intent: &Intent,
        noted: LatchObservation,
        deadline: Instant,
    ) -> Result<Option<LatchObservation>> {
        if intent.judge(&noted) == Verdict::Applied {
            self.tidy_up(&noted, &noted, deadline).await;
            return Ok(Some(noted));
        }
        let begins = intent.ends.is_none();
        if !begins && is_over(intent, &noted, self.cells.level) {
            return Err(gone(LatchState::Expired).with_effect(effect_of_over(&noted, self.cells.level)));
        }
        self.land(&noted, deadline).await.map_err(unknown)?;
        // Immediately: until it is read, a Java client's count may hide or include it.
        let after = self.read(Participants::None, deadline).await.map_err(unknown)?;
        match intent.judge(&after) {
            Verdict::Applied => {
                self.tidy_up(&noted, &after, deadline).await;
                Ok(Some(after))
            }
            Verdict::NotApplied => Ok(None),
            // A delete marker of the same millisecond hides it, or the latch has ended already.
            Verdict::Noted if begins => Ok(None),
            Verdict::Noted | Verdict::Open | Verdict::Unknown => {
                Err(unknown(match after.deadline(self.cells.level) {
                    Some(_) => interfered(),
                    None => gone(LatchState::Expired),
                }))
            }
        }
    }

    /// Deletes the observed cells, and those under them.
    async fn forget(&self, observation: &LatchObservation, deadline: Instant) -> Result<()> {
        for count in &observation.counts {
            self.forget_up_to(&count.qualifier, count.seen.timestamp, deadline)
                .await?;
        }
        // Only the observed ones: a participant of the next latch may arrive in this millisecond.
        let last = observation.arrived.iter().map(|(_, timestamp)| *timestamp).max();
        if let Some(last) = last {
            let columns: Vec<Bytes> = observation
                .arrived
                .iter()
                .map(|(column, _)| column.clone())
                .collect();
            resend(deadline, || {
                self.rows
                    .notes
                    .delete_up_to(&self.cells.row, last, &columns, deadline)
            })
            .await?;
        }
        Ok(())
    }

    async fn put_note(&self, intent: &Intent, deadline: Instant) -> Result<bool> {
        let Some(column) = &self.cells.note else {
            return Err(Error::invalid("a table without a family for notes"));
        };
        let notes = &self.rows.notes;
        let condition = (column, intent.expected.as_ref());
        let new = (column.clone(), intent.value.clone());
        notes
            .check_and_put(&self.cells.row, condition, new, intent.ttl, deadline)
            .await
    }

    /// Deletes what lies under the new count, and notes that the latch has begun, which shows later
    /// that it has ended. The change is complete without that, and the next change does it if this
    /// fails.
    async fn tidy_up(&self, noted: &LatchObservation, after: &LatchObservation, deadline: Instant) {
        let tidied = async {
            self.forget_base(noted, deadline).await?;
            match begun(&SystemEnvironment, after) {
                Some(intent) => self.put_note(&intent, deadline).await.map(drop),
                None => Ok(()),
            }
        };
        if let Err(error) = tidied.await {
            tracing::debug!(%error, "could not tidy up behind a change of a latch");
        }
    }

    /// Writes a count that another client has noted, and reads the latch again. A count that still
    /// waits after that was written without effect.
    async fn settle(
        &self,
        mut observation: LatchObservation,
        participants: Participants<'_>,
        deadline: Instant,
    ) -> Result<LatchObservation> {
        let mut landed = None;
        loop {
            let note = observation.waiting().and(observation.note.as_ref());
            let Some(note) = note
                .map(|(_, seen)| seen.value.clone())
                .filter(|note| landed.as_ref() != Some(note))
            else {
                return Ok(observation);
            };
            // It does not matter which client writes it: nothing of this change was written yet.
            let written = async {
                self.land(&observation, deadline).await?;
                self.forget_base(&observation, deadline).await
            };
            written.await.map_err(|error| error.with_effect(Effect::None))?;
            landed = Some(note);
            observation = self.read(participants, deadline).await?;
        }
    }

    /// Writes the noted count.
    async fn land(&self, observation: &LatchObservation, deadline: Instant) -> Result<()> {
        let (Some(pending), Some((_, note))) = (observation.waiting(), &observation.note) else {
            return Ok(());
        };
        let cell = [(pending.column.clone(), encode(pending.value))];
        let (at, ttl) = (
            pending.timestamp(note.timestamp),
            Duration::from_millis(pending.ttl),
        );
        let counts = &self.rows.counts;
        resend(deadline, || {
            counts.put_at(&self.cells.row, at, &cell, ttl, deadline)
        })
        .await
    }

    /// Deletes the count on which the noted one was planned: it is a superfluous version, and a
    /// flush could drop a delete marker under it.
    async fn forget_base(&self, observation: &LatchObservation, deadline: Instant) -> Result<()> {
        let (Some(pending), Some((_, note))) = (observation.pending(), &observation.note) else {
            return Ok(());
        };
        match pending.base {
            Some(base) if base < pending.timestamp(note.timestamp) => {
                self.forget_up_to(&pending.column, base, deadline).await
            }
            _ => Ok(()),
        }
    }

    /// Deletes a count up to a timestamp. Idempotent.
    async fn forget_up_to(&self, column: &Bytes, timestamp: u64, deadline: Instant) -> Result<()> {
        let columns = [column.clone()];
        let counts = &self.rows.counts;
        resend(deadline, || {
            counts.delete_up_to(&self.cells.row, timestamp, &columns, deadline)
        })
        .await
    }
}

/// Returns whether the latch had ended when its change was noted, by the server's clock.
fn is_over(intent: &Intent, noted: &LatchObservation, level: Level) -> bool {
    let now = noted.note.as_ref().map(|(_, seen)| seen.timestamp);
    noted.deadline(level).is_none() || intent.ends.zip(now).is_some_and(|(ends, now)| ends <= now)
}

/// If a Java client keeps the count of a latch alive, the noted count may still be written.
fn effect_of_over(noted: &LatchObservation, level: Level) -> Effect {
    match noted.deadline(level) {
        Some(_) => Effect::Unknown,
        None => Effect::None,
    }
}

/// Returns the columns that are read of a latch.
fn columns(cells: &Cells, participants: Participants<'_>) -> Vec<Vec<u8>> {
    let column = |family: &Bytes, qualifier: &Bytes| [&family[..], b":", &qualifier[..]].concat();
    let mut columns = vec![match cells.level {
        Level::Dc => column(&cells.counts, &cells.own),
        Level::Xdc => cells.counts.to_vec(),
    }];
    if let Some(note) = &cells.note {
        columns.push(match participants {
            Participants::None | Participants::One(_) => column(&cells.state, note),
            Participants::All => cells.state.to_vec(),
        });
    }
    columns
}

impl Source for LatchRows {
    type Progress = LatchProgress;

    fn runtime(&self) -> &Handle {
        self.counts.connection.runtime()
    }

    fn deadline(&self) -> Instant {
        self.counts.connection.deadline()
    }

    /// A gateway does not return when cells expire.
    fn distance(&self, _: u64) -> Duration {
        Duration::MAX
    }

    fn read_each(
        &self,
        latches: &[(Arc<Cells>, Extent)],
        deadline: Instant,
    ) -> BoxStream<'_, PollResult<LatchObservation>> {
        let placed = latches.iter().map(|(cells, _)| Arc::clone(cells)).enumerate();
        // The latches of one level have the same columns, because all are of one farm.
        let (own, all): (Vec<_>, Vec<_>) = placed.partition(|(_, cells)| cells.level == Level::Dc);
        let chunks =
            [own, all].map(|latches| latches.chunks(MAX_ROWS).map(<[_]>::to_vec).collect::<Vec<_>>());
        stream::iter(chunks.into_iter().flatten())
            .then(move |latches| self.look_at_some(latches, deadline))
            .boxed()
    }
}

impl LatchSource for LatchRows {
    async fn read(&self, cells: &Cells, deadline: Instant) -> Result<LatchObservation> {
        let keys = [cells.row.clone()];
        let mut found = self
            .counts
            .read(&keys, columns(cells, Participants::None), deadline)
            .await?;
        seen(cells, found.pop().flatten().as_ref())
    }
}

impl LatchRows {
    /// Reads latches of one level in one call.
    async fn look_at_some(
        &self,
        latches: Vec<(usize, Arc<Cells>)>,
        deadline: Instant,
    ) -> PollResult<LatchObservation> {
        let keys: Vec<Bytes> = latches.iter().map(|(_, cells)| cells.row.clone()).collect();
        let pending = latches
            .first()
            .map(|(_, cells)| columns(cells, Participants::None));
        match self
            .counts
            .read(&keys, pending.unwrap_or_default(), deadline)
            .await
        {
            Ok(rows) => PollResult::Found(
                latches
                    .iter()
                    .zip(rows)
                    .map(|((location, cells), row)| (*location, seen(cells, row.as_ref())))
                    .collect(),
            ),
            Err(error) => {
                PollResult::Failed(latches.into_iter().map(|(location, _)| location).collect(), error)
            }
        }
    }
}

fn seen(cells: &Cells, row: Option<&Row>) -> Result<LatchObservation> {
    let observation = LatchObservation::of(cells, row)?.with_noted_ends();
    checked(cells, observation)
}

fn checked(cells: &Cells, observation: LatchObservation) -> Result<LatchObservation> {
    check_leftover(cells, &observation).map(|()| observation)
}

fn interfered() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "another client changed the count at the same moment, and a gateway does not show before or behind this change",
    )
    .with_hint("look at the latch; what must be exact while Java clients count is counted natively")
}
