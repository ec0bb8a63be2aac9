//! Watching a lock: a stream of its changes.

use std::{
    collections::VecDeque,
    time::{Duration, SystemTime},
};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use hbase_client::low_level::{Pauses, TableCalls};
use tokio::time::{Instant, sleep};

use super::{
    manager::LockManager,
    protocol::{location::LockLocation, row_state::RowState, slots::SlotRow},
    state::LockHolder,
};
use crate::{
    error::{Error, Result},
    java_layout::Level,
};

/// The first pause between two polls, and the longest one while nothing changes.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));
/// The deadline of a poll.
const POLL_TIMEOUT: Duration = Duration::from_secs(10);

/// A change of a lock, or its state when a watch begins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockEvent {
    /// What happened.
    pub kind: LockEventKind,
    /// The holder, or the last one if its hold has ended. `None` if the lock is free and no holder
    /// was seen.
    pub holder: Option<LockHolder>,
    /// The last fencing number, while it is kept: for an election the term, for a lock a number
    /// that renewals raise too.
    pub fencing: Option<i64>,
    /// The number of processes that wait, at most 64. A process that died counts for three more
    /// seconds. `None` for an election, whose candidates leave no trace.
    pub waiting: Option<usize>,
}

/// The kind of a [`LockEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockEventKind {
    /// The lock is held as the watch begins.
    Held,
    /// The lock is free as the watch begins.
    Free,
    /// A client has acquired the lock.
    Acquired,
    /// The holder has extended its lease.
    Renewed,
    /// The hold ended before its lease: it was released, or revoked.
    Released,
    /// The lease expired.
    Expired,
    /// The hold of a client that records no lease, as Java clients do, was released or expired.
    Ended,
    /// Another number of processes waits.
    Waiting,
}

impl LockManager {
    /// Returns a stream of a lock's events: first its state, then each change.
    ///
    /// The stream polls the server, with pauses that grow to half a second while nothing changes.
    /// A hold that begins and ends between two polls is not seen, several renewals are one event,
    /// and a release in the last half second of a lease may be reported as an expiry, or, for a shorter
    /// lease, the other way round. The stream
    /// never ends. It fails in time: a poll takes ten seconds or the operation timeout at most. A
    /// failed poll is an `Err` item, after which the stream may be polled again; the next event is
    /// the difference to the last successful poll.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the id is empty or too
    /// long, or if the lock is of one farm and no farm was specified.
    ///
    /// # Cancel safety
    ///
    /// `next` may be dropped and called again: no change is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::TryStreamExt;
    /// use hbase_txn::{Level, lock::{LockEventKind, LockManagerOptions}};
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("dlm_locks", &["D"], &[]);
    /// # let options = LockManagerOptions::new("billing").farm("fra");
    /// # let locks = options.open(&hbase.connect().await?, "dlm_locks").await?;
    /// let mut events = locks.watch(Level::Dc, "nightly-export")?;
    /// # let _guard = locks.lock(Level::Dc, "nightly-export")?.acquire().await?;
    /// while let Some(event) = events.try_next().await? {
    ///     match (event.kind, event.holder) {
    ///         (LockEventKind::Acquired | LockEventKind::Held, Some(holder)) => println!("held by {holder}"),
    ///         (kind, _) => println!("{kind:?}"),
    ///     }
    ///     # break;
    /// }
    /// # Ok(()) });
    /// ```
    #[must_use = "a stream does nothing unless it is polled"]
    pub fn watch(&self, level: Level, id: &str) -> Result<BoxStream<'static, Result<LockEvent>>> {
        let (name, location) = self.location(level, id)?;
        let in_context = move |location: &LockLocation, error| location.in_context(&name, error);
        Ok(events(Observer::new(location, true, in_context)))
    }
}

impl SlotRow {
    /// Returns a stream of the events of one slot, with these words for the operation in errors.
    pub(crate) fn watch(&self, slot: &str, operation: String) -> BoxStream<'static, Result<LockEvent>> {
        let location = self.location(&[slot.to_owned()]);
        let in_context = move |location: &LockLocation, error: Error| {
            error
                .at_operation(operation.clone())
                .at_table(location.table.name())
        };
        events(Observer::new(location, false, in_context))
    }
}

fn events<C>(observer: Observer<C>) -> BoxStream<'static, Result<LockEvent>>
where
    C: Fn(&LockLocation, Error) -> Error + Send + 'static,
{
    stream::unfold(observer, async |mut observer| {
        let event = observer.next().await;
        Some((event, observer))
    })
    .boxed()
}

/// The last poll of a lock, and the events that were not yielded yet.
struct Observer<C> {
    location: LockLocation,
    /// Whether waiting processes leave tickets.
    has_tickets: bool,
    in_context: C,
    /// `None` before the first poll.
    known: Option<Vec<RowState>>,
    events: VecDeque<LockEvent>,
    pauses: Pauses,
    /// Whether the next poll follows a pause.
    is_paused: bool,
}

fn pauses() -> Pauses {
    Pauses::growing(PAUSES.0, PAUSES.1)
}

impl<C: Fn(&LockLocation, Error) -> Error> Observer<C> {
    fn new(location: LockLocation, has_tickets: bool, in_context: C) -> Self {
        Self {
            location,
            has_tickets,
            in_context,
            known: None,
            events: VecDeque::new(),
            pauses: pauses(),
            is_paused: false,
        }
    }

    /// Polls until there is an event, or a poll fails.
    async fn next(&mut self) -> Result<LockEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            if std::mem::replace(&mut self.is_paused, true) {
                sleep(self.pauses.next_pause()).await;
            }
            let deadline = self.location.table.deadline().min(Instant::now() + POLL_TIMEOUT);
            let read = self.location.read(deadline).await;
            let states = read.map_err(|error| (self.in_context)(&self.location, error))?;
            self.observe(states);
        }
    }

    fn observe(&mut self, states: Vec<RowState>) {
        let kinds = match &self.known {
            Some(known) => changes(known, &states),
            None => match holder(&states) {
                Some(holder) => vec![(LockEventKind::Held, Some(holder))],
                None => vec![(LockEventKind::Free, None)],
            },
        };
        if !kinds.is_empty() {
            self.pauses = pauses();
        }
        let number = states.first().and_then(|state| state.number);
        let waiting = self.has_tickets.then(|| waiting(&states));
        self.events
            .extend(kinds.into_iter().map(|(kind, holder)| LockEvent {
                kind,
                holder,
                fencing: number,
                waiting,
            }));
        self.known = Some(states);
    }
}

fn holder(states: &[RowState]) -> Option<LockHolder> {
    states.iter().find_map(RowState::occupant).map(LockHolder::of)
}

fn waiting(states: &[RowState]) -> usize {
    states.first().map_or(0, |state| state.tickets.len())
}

/// Returns the changes between two polls, in their order.
fn changes(before: &[RowState], now: &[RowState]) -> Vec<(LockEventKind, Option<LockHolder>)> {
    let (last, next) = (holder(before), holder(now));
    // A Java client leaves no token, but each of its holds has a timestamp of its own.
    let is_same = |last: &LockHolder, next: &LockHolder| match last.token {
        Some(token) => next.token == Some(token),
        None => next.token.is_none() && next.since == last.since,
    };
    let mut changes = Vec::new();
    match (last, next) {
        (Some(last), Some(next)) if is_same(&last, &next) => {
            if last.lease != next.lease {
                changes.push((LockEventKind::Renewed, Some(next)));
            }
        }
        (last, next) => {
            if let Some(last) = last {
                let end = end(&last, next.as_ref().map(|next| next.since), before, now);
                changes.push((end, Some(last)));
            }
            changes.extend(next.map(|next| (LockEventKind::Acquired, Some(next))));
        }
    }
    if changes.is_empty() && waiting(before) != waiting(now) {
        changes.push((LockEventKind::Waiting, holder(now)));
    }
    changes
}

/// Returns how a hold ended. All times are the region server's, so that this machine's clock does
/// not matter.
fn end(
    last: &LockHolder,
    next_since: Option<SystemTime>,
    before: &[RowState],
    now: &[RowState],
) -> LockEventKind {
    let was_given_back = last.token.is_some_and(|token| {
        let mut rows = before.iter().zip(now);
        rows.any(|(before, now)| {
            let row_lease = before.lease_of(token);
            row_lease.is_some_and(|row_lease| now.was_given_back(&row_lease))
        })
    });
    let fencing = |states: &[RowState]| states.first().and_then(|state| state.fencing);
    let lease_end = last.lease.and_then(|lease| last.since.checked_add(lease));
    match (lease_end, next_since) {
        _ if was_given_back => LockEventKind::Released,
        (Some(end), Some(next)) if next < end => LockEventKind::Released,
        // An expiry leaves the fencing cell unchanged, a forced release increments it, and a Java
        // client deletes it with the row.
        (_, None) if fencing(before) != fencing(now) => LockEventKind::Released,
        (Some(_), _) => LockEventKind::Expired,
        (None, _) => LockEventKind::Ended,
    }
}
