//! The lock protocol, built from the calls of a gateway: put one cell on a condition, stamped by the
//! server; put or delete any cells of a row at a timestamp, without a condition; read.
//!
//! The marker is put on a condition, and its value names the hold and the renewal. Each renewal
//! requires the marker of the one before it, so a renewal that arrives late changes nothing. A read
//! returns the timestamp of the marker. All other cells are written at that timestamp, with a TTL
//! that ends with the marker's: however late or often they arrive, they change only cells of this
//! hold, and nothing after its lease. So no two holds have one timestamp.

use bytes::Bytes;
use hbase_client::SystemEnvironment;
use tokio::{runtime::Handle, time::Instant};

use std::time::Duration;

use super::{
    permits::Lane,
    rows::{Rows, resend},
};
use crate::{
    error::{Result, unknown, unknown_if},
    lock::{
        ALONE, Abandoned, FENCING, FENCING_TTL, HeldBy, LONG_REST, LockLoss, LockRows, LockToken, MARKER,
        Millis, Moment, OWNER, Owner, ReleaseOutcome, Remains, RowLease, RowState, TRIES, changed_meanwhile,
        loss, next_renewal,
    },
};

/// One lock in its table.
#[derive(Clone, Debug)]
pub(super) struct ThriftLockLocation {
    pub(super) rows: Rows,
    pub(super) lock: LockRows,
}

/// The hold of one token on a lock.
#[derive(Clone, Debug)]
pub(super) struct ThriftClaim {
    pub(super) held: HeldBy,
    pub(super) fencing: i64,
    /// When the last confirmed lease was sent.
    pub(super) since: Moment,
    /// The end of the longest lease that was sent, whether or not it arrived.
    end: Moment,
    /// The longest TTL that was sent.
    pub(super) longest: Millis,
    /// The number of the last renewal that was sent. Above `held.renewal`, its outcome is unknown.
    pub(super) sent: u64,
    /// Until when cells under the hold may live, for each row, by the server's clock. `None` if
    /// that is unknown.
    ///
    /// Those cells were deleted. But HBase drops a delete marker that lies behind two versions of a
    /// column, because one version is kept, and keeps the cells that the marker hid in older files.
    /// So the delete marker must lie directly under the hold, and does not count after it.
    horizons: Option<Vec<u64>>,
}

/// How an attempt to take a lock ended.
#[derive(Debug)]
pub(super) enum ThriftAttemptOutcome {
    Won(ThriftClaim),
    /// Another holder has it, or the outcome is unknown: the rows as they were read, without those
    /// that the attempt itself marked and released.
    Lost(Vec<RowState>),
}

/// The marker's value of one renewal of one hold; 0 is the acquisition. Java clients, and native
/// ones, read any marker that is not empty as held.
fn mark(token: LockToken, renewal: u64) -> Bytes {
    format!("M{token}.{renewal}").into()
}

/// The marker of a row and its timestamp, if this token put it.
fn mark_of(state: &RowState, token: LockToken) -> Option<(u64, &Bytes)> {
    let prefix = format!("M{token}.");
    state
        .mark()
        .filter(|(_, value)| value.starts_with(prefix.as_bytes()))
}

/// When a row was marked, if this token marked it.
fn marked(state: &RowState, token: LockToken) -> Option<u64> {
    mark_of(state, token).map(|(timestamp, _)| timestamp)
}

/// A gateway has no connection to HBase, and so no environment but the system's.
fn now() -> Moment {
    Moment::now(&SystemEnvironment)
}

impl ThriftClaim {
    /// Whether the longest lease that was sent has expired.
    pub(super) fn is_over(&self) -> bool {
        now() >= self.end
    }

    /// Whether the last confirmed lease has expired: cells that are gone may have expired with it.
    fn may_be_over(&self) -> bool {
        self.is_over() || now() >= self.since.after(self.held.ttl.into())
    }
}

/// An attempt of one token to acquire one lock.
#[derive(Clone)]
pub(super) struct ThriftAttempt {
    pub(super) location: ThriftLockLocation,
    /// The owner to be written to its rows. The token is used for this one attempt.
    pub(super) held: HeldBy,
}

impl Abandoned for ThriftAttempt {
    fn runtime(&self) -> &Handle {
        self.location.rows.connection.runtime()
    }

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
            whole.push(states.iter().all(|state| marked(state, held.token).is_some()));
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

    /// Tries to acquire the lock. If only some of the rows are won, they are given back.
    ///
    /// # Errors
    ///
    /// Returns the errors of the calls. If the outcome is unknown, the token may hold the lock, or
    /// may still acquire it.
    pub(super) async fn attempt(&self, held: &HeldBy, deadline: Instant) -> Result<ThriftAttemptOutcome> {
        let since = now();
        for (index, row) in self.lock.rows.iter().enumerate() {
            let new = (MARKER, mark(held.token, held.renewal));
            let put = self
                .rows
                .check_and_put(row, (&MARKER, None), new, held.ttl.into(), deadline)
                .await;
            // Even if the failed call had no effect, an earlier row may have been won.
            if !put.map_err(unknown_if(index > 0))? {
                break;
            }
        }
        self.settle(held, since, deadline).await.map_err(unknown)
    }

    /// Reads which rows were won, and completes the hold if all were.
    async fn settle(&self, held: &HeldBy, since: Moment, deadline: Instant) -> Result<ThriftAttemptOutcome> {
        let before = self.read(deadline).await?;
        let stamps: Option<Vec<u64>> = before.iter().map(|state| marked(state, held.token)).collect();
        let Some(stamps) = stamps else {
            return self.give_up(held, &before, before.clone(), deadline).await;
        };
        // A server whose clock is behind stamps a marker as the cell that it replaces.
        let is_later = |(before, stamp): (&RowState, &u64)| {
            let remains = before.remains();
            remains.is_none_or(|remains| remains.timestamp < *stamp)
        };
        if !before.iter().zip(&stamps).all(is_later) {
            return self.give_up(held, &before, before.clone(), deadline).await;
        }
        self.count(&before, deadline).await?;
        let horizons: Vec<u64> = before.iter().map(horizon).collect();
        for (index, row) in self.lock.rows.iter().enumerate() {
            let owner = [(OWNER, owner_at(held, stamps[index], Some(horizons[index])))];
            self.rows
                .put_at(row, stamps[index], &owner, held.ttl.into(), deadline)
                .await?;
        }
        self.lay_bare(held, &stamps, &before, deadline).await?;
        let after = self.read(deadline).await?;
        let is_ours = after.iter().zip(&stamps).all(|(state, stamp)| {
            marked(state, held.token) == Some(*stamp) && state.lease_of(held.token).is_some()
        });
        let fencing = |states: &[RowState]| states.first().and_then(|state| state.number);
        match fencing(&after) {
            Some(number) if is_ours && fencing(&before) < Some(number) => {
                Ok(ThriftAttemptOutcome::Won(ThriftClaim {
                    held: held.clone(),
                    fencing: number,
                    since,
                    end: since.after(held.ttl.into()),
                    longest: held.ttl,
                    sent: held.renewal,
                    horizons: Some(horizons),
                }))
            }
            _ => self.give_up(held, &before, after, deadline).await,
        }
    }

    /// Increments the fencing cell. An increment keeps the TTL of a cell but sets none, so a missing
    /// cell is created first.
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

    /// Deletes cells under the hold that would outlive it. They are known: until the hold's own owner
    /// cell is written, the row has that of the last holder.
    async fn lay_bare(
        &self,
        held: &HeldBy,
        stamps: &[u64],
        before: &[RowState],
        deadline: Instant,
    ) -> Result<()> {
        for ((row, stamp), before) in self.lock.rows.iter().zip(stamps).zip(before) {
            if row_lease(held, *stamp).outlived_by(before).is_some() {
                self.unmark(row, stamp - 1, deadline).await?;
            }
        }
        Ok(())
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

    /// Gives back the rows that the token marked, which were then read as `states`.
    async fn give_back_part(
        &self,
        held: &HeldBy,
        before: Option<&[RowState]>,
        states: &[RowState],
        deadline: Instant,
    ) -> Result<()> {
        for (index, state) in states.iter().enumerate().rev() {
            let Some(stamp) = marked(state, held.token) else {
                continue;
            };
            // Until its own owner cell is written, the row has that of the last holder.
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
                // How long the cells under it live is unknown.
                None => self.clear(&self.lock.rows[index], stamp, deadline).await?,
            }
        }
        Ok(())
    }

    /// Gives back a row that was marked at `stamp`, under which no cell lives longer than `ttl` from
    /// then on.
    async fn vacate_row(&self, index: usize, stamp: u64, ttl: Millis, deadline: Instant) -> Result<()> {
        let row = &self.lock.rows[index];
        let free = (OWNER, Owner::FreedUnconditionally { ttl }.encode());
        if Duration::from(ttl) > LONG_REST {
            self.unmark(row, stamp, deadline).await?;
            // A flush may drop the delete marker under two later holds, so the owner cell still says
            // what it was for.
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
            // The cells under another process's hold are unknown; and a native renewal at the same
            // timestamp may lengthen their life at this moment.
            _ => self.clear(&self.lock.rows[index], taken.at, deadline).await,
        }
    }

    /// Deletes the marker of a row, up to a timestamp. The owner cell, which says how long it would
    /// have lived, stays.
    async fn unmark(&self, row: &Bytes, up_to: u64, deadline: Instant) -> Result<()> {
        self.rows.delete_up_to(row, up_to, &[MARKER], deadline).await
    }

    /// Deletes marker and owner cell of a row, up to a timestamp.
    async fn clear(&self, row: &Bytes, up_to: u64, deadline: Instant) -> Result<()> {
        self.rows
            .delete_up_to(row, up_to, &[MARKER, OWNER], deadline)
            .await
    }

    /// Renews the lease: it lasts this long from now on, and is never shortened. Returns the end of
    /// the lease by this machine's clock, or why the lock is lost.
    ///
    /// # Errors
    ///
    /// Returns the errors of the calls. If the outcome is unknown, the lease is unchanged or renewed;
    /// the next renewal finds out.
    pub(super) async fn renew(
        &self,
        claim: &mut ThriftClaim,
        lease: Duration,
        deadline: Instant,
    ) -> Result<Result<Moment, LockLoss>> {
        let sent = now();
        let token = claim.held.token;
        // Each renewal has its own number, also one that is sent again: the earlier copy may still
        // arrive, and its number must not be taken for this one's.
        let renewal = next_renewal(claim.sent)?;
        let expected = if claim.sent == claim.held.renewal {
            vec![mark(token, claim.held.renewal); self.lock.rows.len()]
        } else {
            let states = self.read(deadline).await.map_err(unknown)?;
            let marks = states.iter().map(|state| mark_of(state, token));
            match marks.map(|mark| Some(mark?.1.clone())).collect() {
                Some(marks) => marks,
                None => return Ok(Err(self.loss(claim, states))),
            }
        };
        let ttl = Millis::floor(lease).max(claim.longest);
        claim.longest = ttl;
        claim.end = claim.end.max(sent.after(ttl.into()));
        claim.sent = renewal;
        let new = mark(token, renewal);
        for (row, expected) in self.lock.rows.iter().zip(&expected) {
            let new = (MARKER, new.clone());
            // A refusal may answer the gateway's own second copy of a call that was applied. Only
            // the read says what was.
            self.rows
                .check_and_put(row, (&MARKER, Some(expected)), new, ttl.into(), deadline)
                .await
                .map_err(unknown)?;
        }
        let states = self.read(deadline).await.map_err(unknown)?;
        let marks: Option<Vec<_>> = states.iter().map(|state| mark_of(state, token)).collect();
        let Some(marks) = marks else {
            return Ok(Err(self.loss(claim, states)));
        };
        if marks.iter().any(|(_, value)| **value != new) {
            return Err(unknown(changed_meanwhile("renewed")));
        }
        let stamps: Vec<u64> = marks.into_iter().map(|(stamp, _)| stamp).collect();
        claim.held.renewal = renewal;
        claim.held.ttl = ttl;
        claim.held.lease = Millis::floor(lease);
        claim.since = sent;
        for (index, (row, stamp)) in self.lock.rows.iter().zip(&stamps).enumerate() {
            // A delete marker behind two versions would be dropped, so the version before is deleted.
            if let Some(before) = stamp.checked_sub(1) {
                self.unmark(row, before, deadline).await.map_err(unknown)?;
            }
            let horizon = claim.horizons.as_ref().map(|horizons| horizons[index]);
            let owner = [(OWNER, owner_at(&claim.held, *stamp, horizon))];
            // The lease is renewed without it, but a release by token needs it.
            self.rows
                .put_at(row, *stamp, &owner, ttl.into(), deadline)
                .await
                .map_err(unknown)?;
        }
        Ok(Ok(sent.after(lease)))
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// Returns the errors of the calls. If the outcome is unknown, the lock may still be held, until
    /// its lease expires.
    pub(super) async fn vacate(&self, claim: &ThriftClaim, deadline: Instant) -> Result<ReleaseOutcome> {
        let mut states = self.read(deadline).await?;
        // If the token holds it now, it held it until this release; later changes are not a loss.
        let is_held = states.iter().all(|state| Taken::by(claim, state).is_some());
        let outcome = if is_held {
            ReleaseOutcome::Released
        } else {
            ReleaseOutcome::Lost(self.loss(claim, states.clone()))
        };
        for _ in 0..TRIES {
            let taken: Vec<Option<Taken>> = states.iter().map(|state| Taken::by(claim, state)).collect();
            if taken.iter().all(Option::is_none) {
                return Ok(outcome);
            }
            for (index, taken) in taken.into_iter().enumerate().rev() {
                let Some(taken) = taken else { continue };
                resend(deadline, || self.give_back_row(index, taken, claim, deadline))
                    .await
                    .map_err(unknown)?;
            }
            // A renewal in flight may have been applied first.
            states = self.read(deadline).await.map_err(unknown)?;
        }
        Err(unknown(changed_meanwhile("released")))
    }

    /// Releases the hold of a token, also of another process.
    pub(super) async fn release(&self, token: LockToken, deadline: Instant) -> Result<ReleaseOutcome> {
        let mut states = self.read(deadline).await?;
        let row_leases = || states.iter().filter_map(|state| state.lease_of(token));
        let Some(row_lease) = row_leases().max_by_key(|row_lease| row_lease.held.ttl) else {
            // A renewal was cut short before it wrote the owner cell, or was too late for one row and
            // has marked the other.
            let is_held = states.iter().all(|state| marked(state, token).is_some());
            for (row, state) in self.lock.rows.iter().zip(&states).rev() {
                if let Some(at) = marked(state, token) {
                    self.clear(row, at, deadline).await.map_err(unknown)?;
                }
            }
            if is_held {
                return Ok(ReleaseOutcome::Released);
            }
            forget_own(token, &mut states);
            return Ok(ReleaseOutcome::Lost(loss(token, true, &states)));
        };
        let ttl = row_lease.held.ttl;
        // The owner cells of a hold through a gateway say how long the cells under it live. Of a
        // native hold, or a part of one, that is unknown.
        let horizons = states.iter().map(|state| {
            marked(state, token)?;
            state
                .lease_of(token)
                .map(|row_lease| horizon(&row_lease.before()))
        });
        let claim = ThriftClaim {
            horizons: horizons.collect(),
            sent: row_lease.held.renewal,
            held: row_lease.held,
            fencing: 0,
            since: now(),
            // Its start is unknown: a lock that is gone a moment later counts as expired, not as
            // removed.
            end: now(),
            longest: ttl,
        };
        self.vacate(&claim, deadline).await
    }

    fn loss(&self, claim: &ThriftClaim, mut states: Vec<RowState>) -> LockLoss {
        forget_own(claim.held.token, &mut states);
        loss(claim.held.token, claim.may_be_over(), &states)
    }
}

/// A row that a token holds.
#[derive(Clone, Copy, Debug)]
struct Taken {
    at: u64,
    /// By a client that reaches HBase itself.
    natively: bool,
}

impl Taken {
    fn by(claim: &ThriftClaim, state: &RowState) -> Option<Self> {
        let through_a_gateway = marked(state, claim.held.token).map(|at| Self { at, natively: false });
        through_a_gateway.or_else(|| {
            let at = state.lease_of(claim.held.token)?.timestamp;
            Some(Self { at, natively: true })
        })
    }
}

/// The owner cell of a hold at this timestamp. It also says until when the cells deleted under it
/// would have lived, if that is longer.
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

/// Until when the cells left on a row may live.
fn horizon(before: &RowState) -> u64 {
    before.remains().map_or(0, Remains::horizon)
}

/// Leaves out the rows that the token itself marked.
fn forget_own(token: LockToken, states: &mut [RowState]) {
    for state in states {
        if marked(state, token).is_some() {
            *state = RowState::default();
        }
    }
}
