//! The lock protocol, out of what a gateway can do: one cell at a time on a condition, stamped by the server; any cells of a row at a
//! timestamp, on no condition; reads.
//!
//! The marker is taken on a condition, and its value is the hold's own: so every later condition is "the marker is mine". What it is
//! stamped with, a read tells. All else is written at that very timestamp, with a TTL that ends where the marker's does: so however
//! late or often it arrives, it changes nothing that is not the hold's own, and nothing at all once the lease is over.

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use std::time::Duration;

use super::rows::{Rows, resend};
use crate::{
    client::Pauses,
    error::{Effect, Error, Result},
    lock::{
        ALONE, FENCING, FENCING_TTL, Grip, HeldBy, LONG_REST, LockLoss, LockRows, LockToken, MARKER, Millis,
        Moment, OWNER, Owner, Remains, Sight, TRIES, WATCH, changed_meanwhile, loss,
    },
};

/// One lock in its table.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) rows: Rows,
    pub(super) lock: LockRows,
}

/// What one token has of a lock.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) held: HeldBy,
    pub(super) fencing: u64,
    /// When the last lease was sent that was seen.
    pub(super) since: Moment,
    /// When the longest lease is over that was sent, whether or not it arrived.
    end: Moment,
    /// The longest TTL that was sent.
    longest: Millis,
    /// Until when what lies under it may live, for each row, by the server's clock. None when nobody knows.
    ///
    /// That was deleted; but HBase drops a delete marker that it finds behind two versions of a column, because one version is kept, and
    /// keeps what the marker hid in older files. So it must lie right under the hold, and does not count once the hold is over.
    horizons: Option<Vec<u64>>,
}

/// How an attempt to take a lock ended.
#[derive(Debug)]
pub(super) enum Attempt {
    Won(Hold),
    /// Somebody has it, or will not say: what was seen of the rows, but for what the attempt itself had and gave back.
    Lost(Vec<Sight>),
}

/// What stands in the marker of this hold and of no other. Java's clients, and ours, take any marker that is not empty for held.
fn mark(token: LockToken) -> Bytes {
    format!("M{token}").into()
}

fn unknown(error: Error) -> Error {
    error.with_effect(Effect::Unknown)
}

impl Hold {
    /// Whether the longest lease that was sent is over.
    pub(super) fn is_over(&self) -> bool {
        self.end.left().is_zero()
    }

    /// Whether the last lease is over that is known to have arrived: what is gone then may have ended with it.
    fn may_be_over(&self) -> bool {
        self.is_over() || self.since.after(self.held.ttl.into()).left().is_zero()
    }

    fn mark(&self) -> Bytes {
        mark(self.held.token)
    }
}

impl Place {
    /// Reads the rows, in one call but not at one moment.
    pub(super) async fn look(&self, deadline: Instant) -> Result<Vec<Sight>> {
        let rows = self
            .rows
            .get(&self.lock.rows, &[FENCING, MARKER, OWNER], deadline)
            .await?;
        Ok(rows
            .iter()
            .map(|row| Sight::of(&self.lock.family, &ALONE, row.as_ref()))
            .collect())
    }

    /// Tries to take the lock. What was won in part is given back.
    ///
    /// # Errors
    ///
    /// Those of the calls. If the outcome is unknown, the token may have the lock, or still take it.
    pub(super) async fn attempt(&self, held: &HeldBy, deadline: Instant) -> Result<Attempt> {
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
    async fn settle(&self, held: &HeldBy, since: Moment, mark: &Bytes, deadline: Instant) -> Result<Attempt> {
        let before = self.look(deadline).await?;
        let stamps: Option<Vec<u64>> = before.iter().map(|sight| sight.marked(mark)).collect();
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
        let after = self.look(deadline).await?;
        let is_ours = after
            .iter()
            .zip(&stamps)
            .all(|(sight, stamp)| sight.marked(mark) == Some(*stamp) && sight.grip(held.token).is_some());
        let fencing = |sights: &[Sight]| sights.first().and_then(|sight| sight.fencing);
        match fencing(&after) {
            Some(number) if is_bare && is_ours && fencing(&before) < Some(number) => Ok(Attempt::Won(Hold {
                held: held.clone(),
                fencing: number,
                since,
                end: since.after(held.ttl.into()),
                longest: held.ttl,
                horizons: Some(horizons),
            })),
            _ => self.give_up(held, &before, after, deadline).await,
        }
    }

    /// Counts the fencing cell on. Counting sets no TTL but keeps it, so a cell that is not there is made first.
    async fn count(&self, before: &[Sight], deadline: Instant) -> Result<()> {
        let row = &self.lock.rows[0];
        if before.first().is_some_and(|sight| sight.fencing.is_none()) {
            let zero = Bytes::copy_from_slice(&0_u64.to_be_bytes());
            self.rows
                .check_and_put(row, (&FENCING, None), (FENCING, zero), FENCING_TTL, deadline)
                .await?;
        }
        self.rows.increment(row, &FENCING, 1, deadline).await?;
        Ok(())
    }

    /// Sees to it that nothing outlives the hold that lies under it. What was left there is known: until the hold's own owner cell is
    /// written, the row has that of whoever gave it back. False when it can't be cleared away without the hold.
    async fn lay_bare(
        &self,
        held: &HeldBy,
        stamps: &[u64],
        before: &[Sight],
        deadline: Instant,
    ) -> Result<bool> {
        for ((row, stamp), before) in self.lock.rows.iter().zip(stamps).zip(before) {
            match grip(held, *stamp).outlived_by(before) {
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
        before: &[Sight],
        mut sights: Vec<Sight>,
        deadline: Instant,
    ) -> Result<Attempt> {
        self.give_back_part(held, Some(before), &sights, deadline).await?;
        forget_own(held.token, &mut sights);
        Ok(Attempt::Lost(sights))
    }

    /// Gives back what the token has of the rows, which were seen like this behind its marking.
    async fn give_back_part(
        &self,
        held: &HeldBy,
        before: Option<&[Sight]>,
        sights: &[Sight],
        deadline: Instant,
    ) -> Result<()> {
        let mark = mark(held.token);
        for (index, sight) in sights.iter().enumerate().rev() {
            let Some(stamp) = sight.marked(&mark) else {
                continue;
            };
            // As long as its own owner cell is not there, what the row has is still the one before it.
            let own = sight.grip(held.token);
            let before = match (before.and_then(|before| before.get(index)), own) {
                (Some(before), _) => Some(before),
                (None, None) => Some(sight),
                (None, Some(_)) => None,
            };
            match before {
                Some(before) => {
                    self.vacate_row(index, stamp, grip(held, stamp).depth(before), deadline)
                        .await?;
                }
                // What lies under it may live longer than anybody knows.
                None => self.clear(&self.lock.rows[index], stamp, deadline).await?,
            }
        }
        Ok(())
    }

    /// Gives back a row that was marked then, under which nothing lives longer than this from then on.
    async fn vacate_row(&self, index: usize, stamp: u64, ttl: Millis, deadline: Instant) -> Result<()> {
        let row = &self.lock.rows[index];
        let free = (OWNER, Owner::Free { ttl }.encode());
        if Duration::from(ttl) > LONG_REST {
            self.unmark(row, stamp, deadline).await?;
            // A flush may drop the delete marker from under two later holds, so it stays known what it was for.
            return self.rows.put_at(row, stamp, &[free], ttl.into(), deadline).await;
        }
        let cells = [(MARKER, Bytes::new()), free];
        self.rows.put_at(row, stamp, &cells, ttl.into(), deadline).await
    }

    async fn give_back_row(&self, index: usize, taken: Taken, hold: &Hold, deadline: Instant) -> Result<()> {
        match &hold.horizons {
            Some(horizons) if !taken.natively => {
                let rest = Millis(horizons[index].saturating_sub(taken.at));
                self.vacate_row(index, taken.at, hold.longest.max(rest), deadline)
                    .await
            }
            // Of a hold of another process nobody knows what lies under it; and who renews a native one at its own timestamp at this
            // moment may give it a longer life.
            _ => self.clear(&self.lock.rows[index], taken.at, deadline).await,
        }
    }

    /// Deletes the marker of a row, up to a timestamp. What is known of how long it would have lived stays.
    async fn unmark(&self, row: &Bytes, up_to: u64, deadline: Instant) -> Result<()> {
        self.rows.delete_up_to(row, up_to, &[MARKER], deadline).await
    }

    /// Deletes marker and owner cell of a row, up to a timestamp.
    async fn clear(&self, row: &Bytes, up_to: u64, deadline: Instant) -> Result<()> {
        self.rows
            .delete_up_to(row, up_to, &[MARKER, OWNER], deadline)
            .await
    }

    /// Waits for an attempt whose answer was lost, and gives back what it won.
    pub(super) async fn watch(&self, held: &HeldBy) {
        let end = Instant::now() + WATCH;
        let mut pauses = Pauses::after_lost_answers();
        while Instant::now() < end {
            match self.give_back(held).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "could not look for a lock that may have been won"),
            }
            sleep(pauses.next()).await;
        }
    }

    /// Gives back what the token has of the rows. Whether it had all of them; with less, the rest may still come.
    async fn give_back(&self, held: &HeldBy) -> Result<bool> {
        let deadline = self.rows.connection.deadline();
        let sights = self.look(deadline).await?;
        self.give_back_part(held, None, &sights, deadline).await?;
        let mark = mark(held.token);
        Ok(sights.iter().all(|sight| sight.marked(&mark).is_some()))
    }

    /// Renews the lease: it lasts this long from now on. It is never shortened. The reason when it is lost; else until when it is
    /// held, by this machine's clock.
    ///
    /// # Errors
    ///
    /// Those of the calls. If the outcome is unknown, the hold is as it was or renewed; the next renewal finds out.
    pub(super) async fn renew(
        &self,
        hold: &mut Hold,
        lease: Duration,
        deadline: Instant,
    ) -> Result<std::result::Result<Moment, LockLoss>> {
        let sent = Moment::now();
        let (ttl, mark) = (Millis::floor(lease).max(hold.longest), hold.mark());
        hold.longest = ttl;
        hold.end = hold.end.max(sent.after(ttl.into()));
        let mut put = Vec::with_capacity(self.lock.rows.len());
        for row in &self.lock.rows {
            let new = (MARKER, mark.clone());
            let renewed = self
                .rows
                .check_and_put(row, (&MARKER, Some(&mark)), new, ttl.into(), deadline)
                .await;
            put.push(renewed.map_err(unknown)?);
        }
        let sights = self.look(deadline).await.map_err(unknown)?;
        let stamps: Option<Vec<u64>> = sights.iter().map(|sight| sight.marked(&mark)).collect();
        let Some(stamps) = stamps else {
            return Ok(Err(self.loss(hold, sights)));
        };
        // A refusal may be the answer to a second copy of what was done; then the marker left its owner cell behind.
        let is_renewed = |(sight, put): (&Sight, bool)| put || sight.grip(hold.held.token).is_none();
        if !sights.iter().zip(put).all(is_renewed) {
            return Err(unknown(changed_meanwhile("renewed")));
        }
        hold.held.renewal += 1;
        hold.held.ttl = ttl;
        hold.since = sent;
        for (index, (row, stamp)) in self.lock.rows.iter().zip(&stamps).enumerate() {
            // The mark before is one version too many: a delete marker behind it would be dropped.
            self.unmark(row, stamp - 1, deadline).await.map_err(unknown)?;
            let horizon = hold.horizons.as_ref().map(|horizons| horizons[index]);
            let owner = [(OWNER, owner_at(&hold.held, *stamp, horizon))];
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
    /// Those of the calls. If the outcome is unknown, the lock may still be held, until its lease is over.
    pub(super) async fn vacate(&self, hold: &Hold, deadline: Instant) -> Result<Option<LockLoss>> {
        let mut sights = self.look(deadline).await?;
        // Whoever is seen in it now had it until now; what happens to it from here on is none of the holder's doing.
        let is_held = sights.iter().all(|sight| Taken::by(hold, sight).is_some());
        let lost = (!is_held).then(|| self.loss(hold, sights.clone()));
        for _ in 0..TRIES {
            let taken: Vec<Option<Taken>> = sights.iter().map(|sight| Taken::by(hold, sight)).collect();
            if taken.iter().all(Option::is_none) {
                return Ok(lost);
            }
            for (index, taken) in taken.into_iter().enumerate().rev() {
                let Some(taken) = taken else { continue };
                resend(deadline, || self.give_back_row(index, taken, hold, deadline))
                    .await
                    .map_err(unknown)?;
            }
            // A renewal that was on its way may have come first.
            sights = self.look(deadline).await.map_err(unknown)?;
        }
        Err(unknown(changed_meanwhile("released")))
    }

    /// Gives a hold back, until its lease is over.
    pub(super) async fn abandon(&self, hold: &Hold) {
        let mut pauses = Pauses::after_lost_answers();
        while !hold.is_over() {
            match self.vacate(hold, self.rows.connection.deadline()).await {
                Ok(_) => return,
                Err(error) => tracing::debug!(%error, "could not give a lock back"),
            }
            sleep(pauses.next()).await;
        }
    }

    /// Gives back what a token of another process has. None when it had the lock.
    pub(super) async fn release(&self, token: LockToken, deadline: Instant) -> Result<Option<LockLoss>> {
        let mut sights = self.look(deadline).await?;
        let mark = mark(token);
        let grips = || sights.iter().filter_map(|sight| sight.grip(token));
        let Some(grip) = grips().max_by_key(|grip| grip.held.ttl) else {
            // A renewal that came too late for one row has left its mark on the other.
            for (row, sight) in self.lock.rows.iter().zip(&sights).rev() {
                if let Some(at) = sight.marked(&mark) {
                    self.clear(row, at, deadline).await.map_err(unknown)?;
                }
            }
            forget_own(token, &mut sights);
            return Ok(Some(loss(token, true, &sights)));
        };
        let ttl = grip.held.ttl;
        // Of what lies under a hold through a gateway its owner cells tell; of another, or of a part, nobody knows.
        let horizons = sights.iter().map(|sight| {
            sight.marked(&mark)?;
            sight.grip(token).map(|grip| horizon(&grip.before()))
        });
        let hold = Hold {
            horizons: horizons.collect(),
            held: grip.held,
            fencing: 0,
            since: Moment::now(),
            // Nobody tells when it began: what is gone a moment later is over, and was not removed.
            end: Moment::now(),
            longest: ttl,
        };
        self.vacate(&hold, deadline).await
    }

    fn loss(&self, hold: &Hold, mut sights: Vec<Sight>) -> LockLoss {
        forget_own(hold.held.token, &mut sights);
        loss(hold.held.token, hold.may_be_over(), &sights)
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
    fn by(hold: &Hold, sight: &Sight) -> Option<Self> {
        let through_a_gateway = sight.marked(&hold.mark()).map(|at| Self { at, natively: false });
        through_a_gateway.or_else(|| {
            let at = sight.grip(hold.held.token)?.timestamp;
            Some(Self { at, natively: true })
        })
    }
}

/// The owner cell of a hold at this timestamp, which says also until when what was cleared from under it would live, if that is longer.
fn owner_at(held: &HeldBy, timestamp: u64, horizon: Option<u64>) -> Bytes {
    let outlives = |horizon: &u64| *horizon > timestamp.saturating_add(held.ttl.0);
    // It counts from the timestamp before the hold's own: `Grip::before`.
    let over = horizon
        .filter(outlives)
        .map(|horizon| Millis(horizon.saturating_sub(timestamp).saturating_add(1)));
    Owner::Held(HeldBy { over, ..held.clone() }).encode()
}

fn grip(held: &HeldBy, timestamp: u64) -> Grip {
    Grip {
        timestamp,
        value: Owner::Held(held.clone()).encode(),
        held: held.clone(),
    }
}

/// Until when what was left on a row may live.
fn horizon(before: &Sight) -> u64 {
    before.remains().map_or(0, Remains::horizon)
}

/// Leaves out what the token itself has of the rows.
fn forget_own(token: LockToken, sights: &mut [Sight]) {
    let mark = mark(token);
    for sight in sights {
        if sight.marked(&mark).is_some() {
            *sight = Sight::default();
        }
    }
}
