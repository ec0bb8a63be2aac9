//! A barrier: parties wait for each other, again and again.
//!
//! Two cells beside the latch of the same name: the state, which never expires, and who has arrived in the present generation,
//! which expires when its time is over. All changes are made under the condition that both are as they were seen.

use std::{fmt, time::Duration};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hmac_sha256::Hash;
use tokio::time::{Instant, sleep_until};

use super::{
    handle::{LONGEST_LATCH, SHORTEST_LATCH},
    layout::STATE,
    note::{ChangeId, Note},
};
use crate::{
    client::{ActionAnswer, AnyRegion, CallKind, MultiCall, Pauses, RegionAction, Table},
    error::{Error, ErrorKind, Result},
    model::{Delete, Durability, Get, Mutation, Put, Row},
    wire::{condition, pb},
};

/// The most parties of a barrier: the names of those who have arrived are written anew with each of them.
pub const MOST_PARTIES: u32 = 1_000;
/// The column of the state.
const BARRIER: Bytes = Bytes::from_static(b"b");
/// The column of who has arrived.
const ARRIVALS: Bytes = Bytes::from_static(b"g");
const FORM: u8 = 1;
/// How many generations are remembered that have ended.
const REMEMBERED: u64 = 64;
/// The pauses between two looks of one who waits.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(80));

/// A barrier: a number of parties wait until all of them have arrived, and then again. Got from
/// [`LatchManager::barrier`](super::LatchManager::barrier); cheap to clone.
///
/// A generation begins with the first who arrives and opens, once, with the last. If it is not full when its time is over, by the
/// clock of the region server, it is broken: those who wait are told, and who arrives then begins the next one. Generation
/// numbers rise.
///
/// Every future ends within the operation timeout of its table (waits: of the time that they are given and that timeout), and may be
/// dropped at any point; an arrival that was on its way then may still count.
#[derive(Clone)]
pub struct Barrier {
    table: Table,
    key: String,
    row: Bytes,
    /// How long the cells of the family live; none when that is for ever.
    cells_live: Option<Duration>,
}

/// That a participant has arrived, in which generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Which barrier of that name.
    barrier: u64,
    generation: u64,
}

impl Arrival {
    /// The number of the generation; from 1 on.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

/// What became of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[must_use = "only one of these says that all have arrived"]
pub enum BarrierOutcome {
    /// All parties have arrived.
    Opened,
    /// Its time was over before.
    Broken,
    /// The time to wait was over, and the generation is neither. The participant has arrived all the same.
    TimedOut,
}

/// A barrier as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BarrierInfo {
    /// Its key: client and id, with a `_` between them.
    pub key: String,
    /// How many must arrive.
    pub parties: u32,
    /// The generation in which the next arrives; the one behind it, if the present one's time is over.
    pub generation: u64,
    /// How many have arrived in it.
    pub arrived: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    /// What tells barriers of one name apart that were made one after the other.
    barrier: u64,
    parties: u32,
    /// How long a generation may take, in milliseconds.
    time: u64,
    generation: u64,
    /// Whether somebody has arrived in it.
    is_filling: bool,
    /// Which generations before it were opened; the lowest bit is the last one's.
    opened: u64,
    note: Note,
}

impl State {
    fn encode(&self) -> Bytes {
        let note = self.note.encode();
        let mut value = BytesMut::with_capacity(38 + note.len());
        value.put_u8(FORM);
        value.put_u64(self.barrier);
        value.put_u32(self.parties);
        value.put_u64(self.time);
        value.put_u64(self.generation);
        value.put_u8(u8::from(self.is_filling));
        value.put_u64(self.opened);
        value.put_slice(&note);
        value.freeze()
    }

    /// None for what no version of this library writes.
    fn decode(mut value: &[u8]) -> Option<Self> {
        if value.try_get_u8().ok()? != FORM {
            return None;
        }
        Some(Self {
            barrier: value.try_get_u64().ok()?,
            parties: value.try_get_u32().ok().filter(|parties| *parties > 0)?,
            time: value.try_get_u64().ok()?,
            generation: value.try_get_u64().ok()?,
            is_filling: match value.try_get_u8().ok()? {
                0 => false,
                1 => true,
                _ => return None,
            },
            opened: value.try_get_u64().ok()?,
            note: Note::decode(value)?,
        })
    }

    /// The state when its generation has ended.
    fn after(self, opened: bool) -> Self {
        Self {
            generation: self.generation.saturating_add(1),
            is_filling: false,
            opened: self.opened << 1 | u64::from(opened),
            ..self
        }
    }

    /// How a generation ended; none when it has not, or is forgotten.
    fn ended(&self, generation: u64) -> Option<BarrierOutcome> {
        let since = self.generation.checked_sub(generation)?.checked_sub(1)?;
        (since < REMEMBERED).then(|| match self.opened >> since & 1 {
            1 => BarrierOutcome::Opened,
            _ => BarrierOutcome::Broken,
        })
    }
}

/// One cell as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen<T> {
    read: T,
    value: Bytes,
    timestamp: u64,
    expires: Option<u64>,
}

/// Who has arrived in one generation of one barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Arrivals {
    barrier: u64,
    generation: u64,
    names: Vec<Name>,
}

type Name = [u8; 16];

impl Arrivals {
    fn encode(&self) -> Bytes {
        let mut value = BytesMut::with_capacity(16 + 16 * self.names.len());
        value.put_u64(self.barrier);
        value.put_u64(self.generation);
        for name in &self.names {
            value.put_slice(name);
        }
        value.freeze()
    }

    fn decode(mut value: &[u8]) -> Option<Self> {
        let (barrier, generation) = (value.try_get_u64().ok()?, value.try_get_u64().ok()?);
        let (names, rest) = value.as_chunks();
        (rest.is_empty() && names.len() <= MOST_PARTIES as usize).then(|| Self {
            barrier,
            generation,
            names: names.to_vec(),
        })
    }
}

/// A barrier at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sight {
    state: Option<Seen<State>>,
    arrivals: Option<Seen<Arrivals>>,
}

impl Sight {
    fn of(row: Option<&Row>) -> Result<Self> {
        fn seen<T>(
            row: Option<&Row>,
            column: &Bytes,
            decode: fn(&[u8]) -> Option<T>,
        ) -> Result<Option<Seen<T>>> {
            let Some(cell) = row.and_then(|row| row.cell(&STATE, column)) else {
                return Ok(None);
            };
            let read = decode(&cell.value).ok_or_else(|| {
                Error::new(
                    ErrorKind::LatchCorrupt,
                    "the barrier's cells are none that this version can read",
                )
                .with_hint("delete the barrier")
            })?;
            Ok(Some(Seen {
                read,
                value: Bytes::copy_from_slice(&cell.value),
                timestamp: cell.timestamp,
                expires: cell.expires_at(),
            }))
        }
        Ok(Self {
            state: seen(row, &BARRIER, State::decode)?,
            arrivals: seen(row, &ARRIVALS, Arrivals::decode)?,
        })
    }

    /// Who has arrived in the present generation; none if nobody has, or its time is over.
    fn present(&self) -> Option<&Seen<Arrivals>> {
        let state = &self.state.as_ref()?.read;
        let is_present = |seen: &&Seen<Arrivals>| {
            state.is_filling && (seen.read.barrier, seen.read.generation) == (state.barrier, state.generation)
        };
        self.arrivals.as_ref().filter(is_present)
    }

    fn is_over(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.read.is_filling) && self.present().is_none()
    }
}

/// A change of both cells, to be made if they are as they were seen.
struct Plan {
    mutations: Vec<Mutation>,
    condition: pb::Condition,
}

impl Barrier {
    pub(super) fn new(table: Table, key: &str, row: Bytes, cells_live: Option<Duration>) -> Self {
        Self {
            table,
            key: key.to_owned(),
            row,
            cells_live,
        }
    }

    /// Its key: client and id, with a `_` between them.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Makes the barrier, for so many parties, each generation of which may take so long. It lives until it is deleted.
    ///
    /// # Errors
    ///
    /// [`LatchExists`](ErrorKind::LatchExists) when it is there; [`InvalidInput`](ErrorKind::InvalidInput) for no parties or more than
    /// [`MOST_PARTIES`], a time under [`SHORTEST_LATCH`] or over [`LONGEST_LATCH`], and a table whose family forgets.
    pub async fn create(&self, parties: u32, time: Duration) -> Result<()> {
        self.check(parties, time).map_err(|error| self.blame(error))?;
        let (barrier, time) = (
            fastrand::u64(..),
            u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        );
        let planned = |change: ChangeId, sight: &Sight| {
            if let Some(state) = &sight.state {
                // A copy of this very change was before.
                return match state.read.barrier == barrier {
                    true => Ok(((), None)),
                    false => Err(Error::new(
                        ErrorKind::LatchExists,
                        format!("the barrier is there, of {} parties", state.read.parties),
                    )
                    .with_hint("delete it first")),
                };
            }
            let state = State {
                barrier,
                parties,
                time,
                generation: 1,
                is_filling: false,
                opened: 0,
                note: Note::first(change),
            };
            let put = Put::new(self.row.clone()).cell(STATE, BARRIER, state.encode());
            let plan = Plan {
                mutations: vec![put.into()],
                condition: condition::cell_equals(&self.row, &STATE, &BARRIER, None),
            };
            Ok(((), Some(plan)))
        };
        self.change(planned).await
    }

    /// Arrives, and says in which generation. A participant counts once in a generation, however often it arrives; called again after an
    /// unknown outcome, it may count in the next one, when this one has opened meanwhile.
    ///
    /// # Errors
    ///
    /// [`LatchAbsent`](ErrorKind::LatchAbsent); [`InvalidInput`](ErrorKind::InvalidInput) for an empty name. When an answer was lost it is
    /// found out whether it counted, as long as fewer than 16 others have changed the barrier since; then its
    /// [outcome is unknown](Error::is_outcome_unknown).
    pub async fn arrive(&self, participant: &str) -> Result<Arrival> {
        if participant.is_empty() {
            return Err(self.blame(Error::invalid("an empty participant")));
        }
        let digest = Hash::hash(participant.as_bytes());
        let name: Name = std::array::from_fn(|index| digest[index]);
        self.change(|change, sight| self.arrival(name, change, sight))
            .await
    }

    /// Waits until a generation has ended, or the time is over. Looks every 10 to 80 ms.
    ///
    /// # Errors
    ///
    /// [`LatchAbsent`](ErrorKind::LatchAbsent) when the barrier was deleted; [`LatchExpired`](ErrorKind::LatchExpired) when 64 others
    /// have ended since; those of the calls.
    pub async fn wait(&self, arrival: &Arrival, timeout: Duration) -> Result<BarrierOutcome> {
        let until = Instant::now() + timeout.min(LONGEST_LATCH);
        let mut pauses = Pauses::growing(PAUSES.0, PAUSES.1);
        loop {
            let seen = self.look(self.table.deadline()).await;
            let ended = seen.and_then(|sight| ended(&sight, arrival));
            if let Some(outcome) = ended.map_err(|error| self.blame(error))? {
                return Ok(outcome);
            }
            let now = Instant::now();
            if now >= until {
                return Ok(BarrierOutcome::TimedOut);
            }
            sleep_until(until.min(now + pauses.next())).await;
        }
    }

    /// Arrives, and waits until the generation has ended or the time is over.
    ///
    /// # Errors
    ///
    /// Those of [`arrive`](Self::arrive) and [`wait`](Self::wait).
    pub async fn arrive_and_wait(
        &self,
        participant: &str,
        timeout: Duration,
    ) -> Result<(Arrival, BarrierOutcome)> {
        let until = Instant::now() + timeout.min(LONGEST_LATCH);
        let arrival = self.arrive(participant).await?;
        let outcome = self
            .wait(&arrival, until.saturating_duration_since(Instant::now()))
            .await?;
        Ok((arrival, outcome))
    }

    /// The barrier as it is; none when there is none.
    ///
    /// # Errors
    ///
    /// [`LatchCorrupt`](ErrorKind::LatchCorrupt) for what no version of this library writes; those of the call.
    pub async fn show(&self) -> Result<Option<BarrierInfo>> {
        let sight = self
            .look(self.table.deadline())
            .await
            .map_err(|error| self.blame(error))?;
        Ok(sight.state.as_ref().map(|state| BarrierInfo {
            key: self.key.clone(),
            parties: state.read.parties,
            generation: state.read.generation + u64::from(sight.is_over()),
            arrived: sight
                .present()
                .map_or(0, |seen| u32::try_from(seen.read.names.len()).unwrap_or(u32::MAX)),
        }))
    }

    /// Deletes the barrier; who waits is told that it is absent. Whether it was there.
    ///
    /// # Errors
    ///
    /// Those of the calls.
    pub async fn delete(&self) -> Result<bool> {
        let get = RegionAction::Get(self.get());
        let deadline = self.table.deadline();
        let mut found = false;
        loop {
            let row = self.send(vec![get.clone()], CallKind::Read, deadline).await;
            let row = row_of(row.map_err(|error| self.blame(error))?);
            let Some(last) = row.iter().flat_map(Row::cells).map(|cell| cell.timestamp).max() else {
                return Ok(found);
            };
            found = true;
            let delete = Delete::new(self.row.clone())
                .column(STATE, BARRIER)
                .column(STATE, ARRIVALS);
            let delete = RegionAction::Atomic(vec![delete.timestamp(last).into()]);
            let deleted = self.send(vec![delete], CallKind::IdempotentWrite, deadline).await;
            deleted.map_err(|error| self.blame(error))?;
        }
    }

    fn check(&self, parties: u32, time: Duration) -> Result<()> {
        if parties == 0 || parties > MOST_PARTIES {
            return Err(Error::invalid(format!(
                "a barrier of {parties} parties; it has from 1 to {MOST_PARTIES}"
            )));
        }
        if !(SHORTEST_LATCH..=LONGEST_LATCH).contains(&time) {
            return Err(Error::invalid(format!(
                "a generation of {time:?}; it may take from {SHORTEST_LATCH:?} to {LONGEST_LATCH:?}"
            )));
        }
        match self.cells_live {
            Some(life) => Err(Error::invalid(format!(
                "the table forgets what it has after {life:?}, and a barrier lives until it is deleted"
            ))
            .with_hint("set the TTL of its families to FOREVER")),
            None => Ok(()),
        }
    }

    fn arrival(&self, name: Name, change: ChangeId, sight: &Sight) -> Result<(Arrival, Option<Plan>)> {
        let Some(seen) = &sight.state else {
            return Err(absent());
        };
        let of = |state: &State| Arrival {
            barrier: state.barrier,
            generation: state.generation,
        };
        let present = sight.present();
        if present.is_some_and(|present| present.read.names.contains(&name)) {
            return Ok((of(&seen.read), None));
        }
        let state = match sight.is_over() {
            true => seen.read.clone().after(false),
            false => seen.read.clone(),
        };
        let arrival = of(&state);
        let mut names = present.map_or_else(Vec::new, |present| present.read.names.clone());
        names.push(name);
        let note = state.note.next(change, 0);
        let is_full = names.len() >= state.parties as usize;
        let mut mutations = Vec::new();
        let next = match is_full {
            true => state.after(true),
            false => State {
                is_filling: true,
                ..state
            },
        };
        let next = State { note, ..next };
        // At its own timestamp, so that no clock decides what is seen.
        let state = Put::new(self.row.clone()).cell_at(STATE, BARRIER, seen.timestamp, next.encode());
        mutations.push(state.into());
        if !is_full {
            let arrivals = Arrivals {
                barrier: arrival.barrier,
                generation: arrival.generation,
                names,
            };
            let put = Put::new(self.row.clone());
            let (put, life) = match present {
                // It expires when it would have.
                Some(Seen {
                    timestamp,
                    expires: Some(expires),
                    ..
                }) => (
                    put.cell_at(STATE, ARRIVALS, *timestamp, arrivals.encode()),
                    expires.saturating_sub(*timestamp),
                ),
                _ => (put.cell(STATE, ARRIVALS, arrivals.encode()), next.time),
            };
            mutations.push(put.ttl(Duration::from_millis(life)).into());
        }
        let condition = condition::columns_equal(
            &self.row,
            &[
                (STATE, BARRIER, Some(seen.value.clone())),
                (
                    STATE,
                    ARRIVALS,
                    sight.arrivals.as_ref().map(|seen| seen.value.clone()),
                ),
            ],
        );
        Ok((arrival, Some(Plan { mutations, condition })))
    }

    /// Plans on what is seen and makes that, until it is made or nothing is to be done.
    async fn change<T>(&self, planned: impl Fn(ChangeId, &Sight) -> Result<(T, Option<Plan>)>) -> Result<T> {
        let deadline = self.table.deadline();
        let changed = self.change_until(planned, deadline).await;
        changed.map_err(|error| self.blame(error))
    }

    async fn change_until<T>(
        &self,
        planned: impl Fn(ChangeId, &Sight) -> Result<(T, Option<Plan>)>,
        deadline: Instant,
    ) -> Result<T> {
        let change = ChangeId::unique();
        let mut pauses = Pauses::after_conflicts();
        let mut lost: Option<Error> = None;
        let mut sight = self.look(deadline).await?;
        loop {
            let (answer, plan) = planned(change, &sight)?;
            let Some(plan) = plan else {
                return Ok(answer);
            };
            let seen = match self.make(plan, deadline).await {
                // A delete marker of the same moment may hide what was created.
                Ok((true, seen)) if seen.state.is_some() => return Ok(answer),
                Ok((_, seen)) => seen,
                Err(error) if error.is_outcome_unknown() => {
                    lost.get_or_insert(error);
                    match self.look(deadline).await {
                        Ok(seen) => seen,
                        Err(error) => return Err(lost.unwrap_or(error)),
                    }
                }
                Err(error) => return Err(lost.unwrap_or(error)),
            };
            let before = sight.state.as_ref().map(|state| &state.read.note);
            let made = seen
                .state
                .as_ref()
                .map(|state| state.read.note.has(change, before));
            match (made, &lost) {
                (Some(Some(true)), _) => return Ok(answer),
                // Whether it was made before is forgotten, or deleted.
                (Some(None), Some(_)) | (None, Some(_)) if before.is_some() => {
                    return Err(lost.unwrap_or_else(contended));
                }
                _ => {}
            }
            sight = seen;
            let now = Instant::now();
            if now >= deadline {
                return Err(lost.unwrap_or_else(contended));
            }
            sleep_until(deadline.min(now + pauses.next())).await;
        }
    }

    /// Makes a change, if nothing has changed of what it was planned on: whether the server did, and what is seen behind it.
    async fn make(&self, plan: Plan, deadline: Instant) -> Result<(bool, Sight)> {
        let change = RegionAction::Conditional {
            mutations: plan.mutations,
            condition: plan.condition,
        };
        let actions = vec![change, RegionAction::Get(self.get())];
        let answers = self.send(actions, CallKind::Write, deadline).await?;
        let processed = matches!(
            answers.first(),
            Some(ActionAnswer::Processed { processed: true, .. })
        );
        Ok((processed, Sight::of(row_of(answers).as_ref())?))
    }

    async fn look(&self, deadline: Instant) -> Result<Sight> {
        let get = vec![RegionAction::Get(self.get())];
        Sight::of(row_of(self.send(get, CallKind::Read, deadline).await?).as_ref())
    }

    fn get(&self) -> Get {
        Get::new(self.row.clone())
            .column(STATE, BARRIER)
            .column(STATE, ARRIVALS)
    }

    async fn send(
        &self,
        actions: Vec<RegionAction>,
        kind: CallKind,
        deadline: Instant,
    ) -> Result<Vec<ActionAnswer>> {
        let call = MultiCall {
            row: self.row.clone(),
            actions,
            durability: Durability::SyncWal,
            kind,
        };
        let operation = match kind {
            CallKind::Read => "reading the barrier",
            _ => "changing the barrier",
        };
        self.table
            .multi_where(operation, &call, &AnyRegion, deadline)
            .await
    }

    fn blame(&self, error: Error) -> Error {
        error
            .at_operation(format!("barrier {}", self.key))
            .at_table(self.table.name())
    }
}

/// The row that was read, if one was and it is there.
fn row_of(answers: Vec<ActionAnswer>) -> Option<Row> {
    answers.into_iter().find_map(|answer| match answer {
        ActionAnswer::Row(row) => row,
        _ => None,
    })
}

/// How the generation ended of an arrival; none as long as it has not.
fn ended(sight: &Sight, arrival: &Arrival) -> Result<Option<BarrierOutcome>> {
    let state = match &sight.state {
        Some(seen) if seen.read.barrier == arrival.barrier => &seen.read,
        _ => return Err(absent()),
    };
    if state.generation <= arrival.generation {
        return Ok(sight.is_over().then_some(BarrierOutcome::Broken));
    }
    match state.ended(arrival.generation) {
        Some(outcome) => Ok(Some(outcome)),
        None => Err(Error::new(
            ErrorKind::LatchExpired,
            format!("how generation {} ended is forgotten", arrival.generation),
        )),
    }
}

fn absent() -> Error {
    Error::new(
        ErrorKind::LatchAbsent,
        "there is no such barrier, or it was deleted",
    )
    .with_hint("create makes it")
}

fn contended() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "others changed the barrier each time it was tried",
    )
    .with_retryable(true)
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("key", &self.key)
            .field("table", self.table.name())
            .finish_non_exhaustive()
    }
}
