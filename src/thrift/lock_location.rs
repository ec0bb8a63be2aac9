//! The lock protocol, out of what a gateway can do: one cell at a time on a condition, stamped by
//! the server; any cells of a row at a timestamp, on no condition; reads.
//!
//! The marker is taken on a condition, and its value is the hold's own: so every later condition is
//! "the marker is mine". What it is stamped with, a read tells. All else is written at that very
//! timestamp, with a TTL that ends where the marker's does: so however late or often it arrives, it
//! changes nothing that is not the hold's own, and nothing at all once the lease is over.

use bytes::Bytes;
use hbase_client::{Effect, low_level::Pauses};
use tokio::time::{Instant, sleep};

use std::time::Duration;

use super::{
    connection::Lane,
    rows::{Rows, resend},
};
use crate::{
    error::{Error, Result},
    lock::{
        ALONE, Abandoned, FENCING, FENCING_TTL, HeldBy, LONG_REST, LockLoss, LockRows, LockToken, MARKER,
        Millis, Moment, OWNER, Owner, Remains, RowLease, RowState, TRIES, changed_meanwhile, loss,
        next_renewal,
    },
};

/// One lock in its table.
#[derive(Clone, Debug)]
pub(super) struct ThriftLockLocation {
    pub(super) rows: Rows,
    pub(super) lock: LockRows,
}

/// What one token has of a lock.
#[derive(Clone, Debug)]
pub(super) struct ThriftClaim {
    pub(super) held: HeldBy,
    pub(super) fencing: u64,
    /// When the last lease was sent that was seen.
    pub(super) since: Moment,
    /// When the longest lease is over that was sent, whether or not it arrived.
    end: Moment,
    /// The longest TTL that was sent.
    longest: Millis,
    /// Until when what lies under it may live, for each row, by the server's clock. None when
    /// nobody knows.
    ///
    /// That was deleted; but HBase drops a delete marker that it finds behind two versions of a
    /// column, because one version is kept, and keeps what the marker hid in older files. So it
    /// must lie right under the hold, and does not count once the hold is over.
    horizons: Option<Vec<u64>>,
}

/// How an attempt to take a lock ended.
#[derive(Debug)]
pub(super) enum ThriftAttemptOutcome {
    Won(ThriftClaim),
    /// Another holder has it, or the outcome is unknown: the rows as they were read, without those
    /// that the attempt itself took and released.
    Lost(Vec<RowState>),
}

/// What stands in the marker of this hold and of no other. Java's clients, and ours, take any
/// marker that is not empty for held.
fn mark(token: LockToken) -> Bytes {
    format!("M{token}").into()
}

fn unknown(error: Error) -> Error {
    error.with_effect(Effect::Unknown)
}

impl ThriftClaim {
    /// Whether the longest lease that was sent is over.
    pub(super) fn is_over(&self) -> bool {
        self.end.left().is_zero()
    }

    /// Whether the last lease is over that is known to have arrived: what is gone then may have
    /// ended with it.
    fn may_be_over(&self) -> bool {
        self.is_over() || self.since.after(self.held.ttl.into()).left().is_zero()
    }

    fn mark(&self) -> Bytes {
        mark(self.held.token)
    }
}

/// An attempt of one token to acquire one lock.
#[derive(Clone)]
pub(super) struct ThriftAttempt {
    pub(super) location: ThriftLockLocation,
    /// What is to stand in its rows. The token is used for this one attempt.
    pub(super) held: HeldBy,
}

impl Abandoned for ThriftAttempt {
    fn row(&self) -> &Bytes {
        self.location.lock.lock_row()
    }

    fn lease(&self) -> Duration {
        self.held.ttl.into()
    }

    async fn give_back(attempts: &[Self]) -> Result<Vec<bool>> {
        let Some(Self { location, .. }) = attempts.first() else {
            return Ok(Vec::new());
        };
        let states = location.read(location.rows.connection.deadline()).await?;
        let mut whole = Vec::with_capacity(attempts.len());
        for Self { location, held } in attempts {
            let deadline = location.rows.connection.deadline();
            location.give_back_part(held, None, &states, deadline).await?;
            let mark = mark(held.token);
            whole.push(states.iter().all(|state| state.marked(&mark).is_some()));
        }
        Ok(whole)
    }
}

impl ThriftLockLocation {
    /// The same lock, by calls of this lane.
    pub(super) fn in_lane(&self, lane: Lane) -> Self {
        let mut location = self.clone();
        location.rows.connection = location.rows.connection.in_lane(lane);
        location
    }

    /// Reads the rows, in one call but not at one moment.
    pub(super) async fn read(&self, deadline: Instant) -> Result<Vec<RowState>> {
        let rows = self
            .rows
            .get(&self.lock.rows, &[FENCING, MARKER, OWNER], deadline)
            .await?;
        Ok(rows
            .iter()
            .map(|row| RowState::of(&self.lock.family, &ALONE, row.as_ref()))
            .collect())
    }

    /// Tries to take the lock. What was won in part is given back.
    ///
    /// # Errors
    ///
    /// Those of the calls. If the outcome is unknown, the token may have the lock, or still take
    /// it.
    pub(super) async fn attempt(&self, held: &HeldBy, deadline: Instant) -> Result<ThriftAttemptOutcome> {
        let since = Moment::now();
        let mark = mark(held.token);
        for (index, row) in self.lock.rows.iter().enumerate() {
            let new = (MARKER, mark.clone());
            let put = self
                .rows
                .check_and_put(row, (&MARKER, None), new, held.ttl.into(), deadline)
                .await;
            // However harmless a failure is itself, a row may have been won before it.
            if !put.map_err(|error| if index == 0 { error } else { unknown(error) })? {
                break;
            }
        }
        self.settle(held, since, &mark, deadline).await.map_err(unknown)
    }

    /// Finds out what was taken, and makes a hold of it if that is all.
    async fn settle(
        &self,
        held: &HeldBy,
        since: Moment,
        mark: &Bytes,
        deadline: Instant,
    ) -> Result<ThriftAttemptOutcome> {
        let before = self.read(deadline).await?;
        let stamps: Option<Vec<u64>> = before.iter().map(|state| state.marked(mark)).collect();
        let Some(stamps) = stamps else {
            return self.give_up(held, &before, before.clone(), deadline).await;
        };
        self.count(&before, deadline).await?;
        let horizons: Vec<u64> = before.iter().map(horizon).collect();
        for (index, row) in self.lock.rows.iter().enumerate() {
            let owner = [(OWNER, owner_at(held, stamps[index], Some(horizons[index])))];
            self.rows
                .put_at(row, stamps[index], &owner, held.ttl.into(), deadline)
                .await?;
        }
        let is_bare = self.lay_bare(held, &stamps, &before, deadline).await?;
        let after = self.read(deadline).await?;
        let is_ours = after
            .iter()
            .zip(&stamps)
            .all(|(state, stamp)| state.marked(mark) == Some(*stamp) && state.lease_of(held.token).is_some());
        let fencing = |states: &[RowState]| states.first().and_then(|state| state.fencing);
        match fencing(&after) {
            Some(number) if is_bare && is_ours && fencing(&before) < Some(number) => {
                Ok(ThriftAttemptOutcome::Won(ThriftClaim {
                    held: held.clone(),
                    fencing: number,
                    since,
                    end: since.after(held.ttl.into()),
                    longest: held.ttl,
                    horizons: Some(horizons),
                }))
            }
            _ => self.give_up(held, &before, after, deadline).await,
        }
    }

    /// Counts the fencing cell on. Counting sets no TTL but keeps it, so a cell that is not there
    /// is made first.
    async fn count(&self, before: &[RowState], deadline: Instant) -> Result<()> {
        let row = &self.lock.rows[0];
        if before.first().is_some_and(|state| state.fencing.is_none()) {
            let zero = Bytes::copy_from_slice(&0_u64.to_be_bytes());
            self.rows
                .check_and_put(row, (&FENCING, None), (FENCING, zero), FENCING_TTL, deadline)
                .await?;
        }
        self.rows.increment(row, &FENCING, 1, deadline).await?;
        Ok(())
    }

    /// Sees to it that nothing outlives the hold that lies under it. What was left there is known:
    /// until the hold's own owner cell is written, the row has that of the last holder. False
    /// when it can't be cleared away without the hold.
    async fn lay_bare(
        &self,
        held: &HeldBy,
        stamps: &[u64],
        before: &[RowState],
        deadline: Instant,
    ) -> Result<bool> {
        for ((row, stamp), before) in self.lock.rows.iter().zip(stamps).zip(before) {
            match row_lease(held, *stamp).outlived_by(before) {
                Some(remains) if remains.timestamp < *stamp => self.unmark(row, stamp - 1, deadline).await?,
                // Given back in the very millisecond in which it was taken again.
                Some(_) => return Ok(false),
                None => {}
            }
        }
        Ok(true)
    }

    async fn give_up(
        &self,
        held: &HeldBy,
        before: &[RowState],
        mut states: Vec<RowState>,
        deadline: Instant,
    ) -> Result<ThriftAttemptOutcome> {
        self.give_back_part(held, Some(before), &states, deadline).await?;
        forget_own(held.token, &mut states);
        Ok(ThriftAttemptOutcome::Lost(states))
    }

    /// Gives back what the token has of the rows, which were seen like this behind its marking.
    async fn give_back_part(
        &self,
        held: &HeldBy,
        before: Option<&[RowState]>,
        states: &[RowState],
        deadline: Instant,
    ) -> Result<()> {
        let mark = mark(held.token);
        for (index, state) in states.iter().enumerate().rev() {
            let Some(stamp) = state.marked(&mark) else {
                continue;
            };
            // As long as its own owner cell is not there, what the row has is still the one before
            // it.
            let own = state.lease_of(held.token);
            let before = match (before.and_then(|before| before.get(index)), own) {
                (Some(before), _) => Some(before),
                (None, None) => Some(state),
                (None, Some(_)) => None,
            };
            match before {
                Some(before) => {
                    self.vacate_row(index, stamp, row_lease(held, stamp).depth(before), deadline)
                        .await?;
                }
                // It is unknown how long the cells under it live.
                None => self.clear(&self.lock.rows[index], stamp, deadline).await?,
            }
        }
        Ok(())
    }

    /// Gives back a row that was marked then, under which nothing lives longer than this from then
    /// on.
    async fn vacate_row(&self, index: usize, stamp: u64, ttl: Millis, deadline: Instant) -> Result<()> {
        let row = &self.lock.rows[index];
        let free = (OWNER, Owner::Free { ttl }.encode());
        if Duration::from(ttl) > LONG_REST {
            self.unmark(row, stamp, deadline).await?;
            // A flush may drop the delete marker from under two later holds, so it stays known what
            // it was for.
            return self.rows.put_at(row, stamp, &[free], ttl.into(), deadline).await;
        }
        let cells = [(MARKER, Bytes::new()), free];
        self.rows.put_at(row, stamp, &cells, ttl.into(), deadline).await
    }

    async fn give_back_row(
        &self,
        index: usize,
        taken: Taken,
        claim: &ThriftClaim,
        deadline: Instant,
    ) -> Result<()> {
        match &claim.horizons {
            Some(horizons) if !taken.natively => {
                let rest = Millis(horizons[index].saturating_sub(taken.at));
                self.vacate_row(index, taken.at, claim.longest.max(rest), deadline)
                    .await
            }
            // What lies under the hold of another process is unknown; and renewing a native
            // one at its own timestamp at this moment may give it a longer life.
            _ => self.clear(&self.lock.rows[index], taken.at, deadline).await,
        }
    }

    /// Deletes the marker of a row, up to a timestamp. What is known of how long it would have
    /// lived stays.
    async fn unmark(&self, row: &Bytes, up_to: u64, deadline: Instant) -> Result<()> {
        self.rows.delete_up_to(row, up_to, &[MARKER], deadline).await
    }

    /// Deletes marker and owner cell of a row, up to a timestamp.
    async fn clear(&self, row: &Bytes, up_to: u64, deadline: Instant) -> Result<()> {
        self.rows
            .delete_up_to(row, up_to, &[MARKER, OWNER], deadline)
            .await
    }

    /// Renews the lease: it lasts this long from now on. It is never shortened. The reason when it
    /// is lost; else until when it is held, by this machine's clock.
    ///
    /// # Errors
    ///
    /// Those of the calls. If the outcome is unknown, the hold is as it was or renewed; the next
    /// renewal finds out.
    pub(super) async fn renew(
        &self,
        claim: &mut ThriftClaim,
        lease: Duration,
        deadline: Instant,
    ) -> Result<std::result::Result<Moment, LockLoss>> {
        let sent = Moment::now();
        let renewal = next_renewal(claim.held.renewal)?;
        let (ttl, mark) = (Millis::floor(lease).max(claim.longest), claim.mark());
        claim.longest = ttl;
        claim.end = claim.end.max(sent.after(ttl.into()));
        let mut put = Vec::with_capacity(self.lock.rows.len());
        for row in &self.lock.rows {
            let new = (MARKER, mark.clone());
            let renewed = self
                .rows
                .check_and_put(row, (&MARKER, Some(&mark)), new, ttl.into(), deadline)
                .await;
            put.push(renewed.map_err(unknown)?);
        }
        let states = self.read(deadline).await.map_err(unknown)?;
        let stamps: Option<Vec<u64>> = states.iter().map(|state| state.marked(&mark)).collect();
        let Some(stamps) = stamps else {
            return Ok(Err(self.loss(claim, states)));
        };
        // A refusal may be the answer to a second copy of what was done; then the marker left its
        // owner cell behind.
        let is_renewed = |(state, put): (&RowState, bool)| put || state.lease_of(claim.held.token).is_none();
        if !states.iter().zip(put).all(is_renewed) {
            return Err(unknown(changed_meanwhile("renewed")));
        }
        claim.held.renewal = renewal;
        claim.held.ttl = ttl;
        claim.since = sent;
        for (index, (row, stamp)) in self.lock.rows.iter().zip(&stamps).enumerate() {
            // The mark before is one version too many: a delete marker behind it would be dropped.
            if let Some(before) = stamp.checked_sub(1) {
                self.unmark(row, before, deadline).await.map_err(unknown)?;
            }
            let horizon = claim.horizons.as_ref().map(|horizons| horizons[index]);
            let owner = [(OWNER, owner_at(&claim.held, *stamp, horizon))];
            // It names the holder, and no more: the lease is renewed without it.
            if let Err(error) = self.rows.put_at(row, *stamp, &owner, ttl.into(), deadline).await {
                tracing::debug!(%error, "could not name the holder of a lock");
            }
        }
        Ok(Ok(sent.after(lease)))
    }

    /// Gives the lock back, if it is still held. None when it was.
    ///
    /// # Errors
    ///
    /// Those of the calls. If the outcome is unknown, the lock may still be held, until its lease
    /// is over.
    pub(super) async fn vacate(&self, claim: &ThriftClaim, deadline: Instant) -> Result<Option<LockLoss>> {
        let mut states = self.read(deadline).await?;
        // Whoever is seen in it now had it until now; what happens to it from here on is none of
        // the holder's doing.
        let is_held = states.iter().all(|state| Taken::by(claim, state).is_some());
        let lost = (!is_held).then(|| self.loss(claim, states.clone()));
        for _ in 0..TRIES {
            let taken: Vec<Option<Taken>> = states.iter().map(|state| Taken::by(claim, state)).collect();
            if taken.iter().all(Option::is_none) {
                return Ok(lost);
            }
            for (index, taken) in taken.into_iter().enumerate().rev() {
                let Some(taken) = taken else { continue };
                resend(deadline, || self.give_back_row(index, taken, claim, deadline))
                    .await
                    .map_err(unknown)?;
            }
            // A renewal that was on its way may have come first.
            states = self.read(deadline).await.map_err(unknown)?;
        }
        Err(unknown(changed_meanwhile("released")))
    }

    /// Gives a hold back, until its lease is over.
    pub(super) async fn abandon(&self, claim: &ThriftClaim) {
        let mut pauses = Pauses::after_lost_answers();
        while !claim.is_over() {
            match self.vacate(claim, self.rows.connection.deadline()).await {
                Ok(_) => return,
                Err(error) => tracing::debug!(%error, "could not give a lock back"),
            }
            sleep(pauses.next_pause()).await;
        }
    }

    /// Gives back what a token of another process has. None when it had the lock.
    pub(super) async fn release(&self, token: LockToken, deadline: Instant) -> Result<Option<LockLoss>> {
        let mut states = self.read(deadline).await?;
        let mark = mark(token);
        let row_leases = || states.iter().filter_map(|state| state.lease_of(token));
        let Some(row_lease) = row_leases().max_by_key(|row_lease| row_lease.held.ttl) else {
            // A renewal that came too late for one row has left its mark on the other.
            for (row, state) in self.lock.rows.iter().zip(&states).rev() {
                if let Some(at) = state.marked(&mark) {
                    self.clear(row, at, deadline).await.map_err(unknown)?;
                }
            }
            forget_own(token, &mut states);
            return Ok(Some(loss(token, true, &states)));
        };
        let ttl = row_lease.held.ttl;
        // Of what lies under a hold through a gateway its owner cells tell; of another, or of a
        // part, nobody knows.
        let horizons = states.iter().map(|state| {
            state.marked(&mark)?;
            state
                .lease_of(token)
                .map(|row_lease| horizon(&row_lease.before()))
        });
        let claim = ThriftClaim {
            horizons: horizons.collect(),
            held: row_lease.held,
            fencing: 0,
            since: Moment::now(),
            // Its beginning is unknown: a lock that is gone a moment later counts as expired, not
            // as removed.
            end: Moment::now(),
            longest: ttl,
        };
        self.vacate(&claim, deadline).await
    }

    fn loss(&self, claim: &ThriftClaim, mut states: Vec<RowState>) -> LockLoss {
        forget_own(claim.held.token, &mut states);
        loss(claim.held.token, claim.may_be_over(), &states)
    }
}

/// A row that a token has.
#[derive(Clone, Copy, Debug)]
struct Taken {
    at: u64,
    /// By a client that reaches HBase itself.
    natively: bool,
}

impl Taken {
    fn by(claim: &ThriftClaim, state: &RowState) -> Option<Self> {
        let through_a_gateway = state.marked(&claim.mark()).map(|at| Self { at, natively: false });
        through_a_gateway.or_else(|| {
            let at = state.lease_of(claim.held.token)?.timestamp;
            Some(Self { at, natively: true })
        })
    }
}

/// The owner cell of a hold at this timestamp, which says also until when what was cleared from
/// under it would live, if that is longer.
fn owner_at(held: &HeldBy, timestamp: u64, horizon: Option<u64>) -> Bytes {
    let outlives = |horizon: &u64| *horizon > timestamp.saturating_add(held.ttl.0);
    // It counts from the timestamp before the hold's own: `RowLease::before`.
    let over = horizon
        .filter(outlives)
        .map(|horizon| Millis(horizon.saturating_sub(timestamp).saturating_add(1)));
    Owner::Held(HeldBy { over, ..held.clone() }).encode()
}

fn row_lease(held: &HeldBy, timestamp: u64) -> RowLease {
    RowLease {
        timestamp,
        value: Owner::Held(held.clone()).encode(),
        held: held.clone(),
    }
}

/// Until when what was left on a row may live.
fn horizon(before: &RowState) -> u64 {
    before.remains().map_or(0, Remains::horizon)
}

/// Leaves out what the token itself has of the rows.
fn forget_own(token: LockToken, states: &mut [RowState]) {
    let mark = mark(token);
    for state in states {
        if state.marked(&mark).is_some() {
            *state = RowState::default();
        }
    }
}
