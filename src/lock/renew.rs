//! Keeping a lock: renewals, and holds of other processes.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    clock::Moment,
    hold::{self, Hold, TRIES},
    layout::HELD,
    owner::{HeldBy, LockToken, Millis, Owner},
    place::Place,
    release::AGAIN,
    sight::Grip,
    state::LockLoss,
};
use crate::{
    error::{Error, ErrorKind, Result},
    model::BytesBinary,
};

/// How a renewal ended.
#[derive(Debug)]
pub(super) enum Renewal {
    /// It is held until then, by this machine's clock.
    Held(Moment),
    Lost(LockLoss),
}

/// What a token of another process has.
#[derive(Debug)]
pub(super) enum Resumed {
    Held(Hold),
    Lost(LockLoss),
}

impl Place {
    /// Renews the lease: it lasts this long from now on. It is never shortened.
    ///
    /// # Errors
    ///
    /// Those of the call. If its outcome is unknown, the hold is as it was or renewed; the next renewal finds out.
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) when the lock would outlive the cells that it is made of.
    pub(super) async fn renew(&self, hold: &mut Hold, lease: Duration, deadline: Instant) -> Result<Renewal> {
        for _ in 0..TRIES {
            let sent = Moment::now();
            // Since the marker's timestamp no more time has passed than since its sending.
            let ttl = Millis::ceil(hold.since.elapsed() + lease).max(hold.longest);
            if let Some(live) = self.cells_live.filter(|live| Millis::floor(*live) < ttl) {
                return Err(outlives(live, &self.rows.family));
            }
            hold.longest = ttl;
            hold.renewals += 1;
            let held = HeldBy {
                token: hold.token,
                renewal: hold.renewals,
                ttl,
                holder: hold.holder.clone(),
                over: hold.over,
            };
            let owner = Owner::Held(held);
            let value = owner.encode();
            let actions = hold
                .grips
                .iter()
                .enumerate()
                .map(|(index, grip)| {
                    let mut mutations = vec![self.rewrite(index, grip, HELD, &owner, ttl)];
                    mutations.extend(self.count(index));
                    self.if_held(index, grip, mutations)
                })
                .collect();
            let after = self.change("renewing the lock", actions, deadline).await?;
            let last_fencing = hold.last_fencing;
            if !hold.look_again(&after) {
                return Ok(Renewal::Lost(hold::loss(hold.token, hold.is_over(), &after)));
            }
            if hold.grips.iter().all(|grip| grip.value == value) {
                return Ok(Renewal::Held(hold.renewed_until(sent, lease, last_fencing)));
            }
            // An earlier renewal had arrived although its answer was lost.
        }
        Err(hold::changed_meanwhile("renewed"))
    }

    /// Renews what a token of another process has. None when it was; why not, when it is not held any more.
    ///
    /// # Errors
    ///
    /// As [`renew`](Self::renew).
    pub(super) async fn renew_for(
        &self,
        token: LockToken,
        lease: Duration,
        deadline: Instant,
    ) -> Result<Option<LockLoss>> {
        let renewal = match self.resume(token, deadline).await? {
            Resumed::Held(mut hold) => self
                .renew(&mut hold, lease, deadline)
                .await
                .map_err(|error| error.with_hint_if_unknown(AGAIN))?,
            Resumed::Lost(loss) => Renewal::Lost(loss),
        };
        Ok(match renewal {
            Renewal::Held(_) => None,
            Renewal::Lost(loss) => Some(loss),
        })
    }

    /// What a token of another process has of the lock, and since when.
    pub(super) async fn resume(&self, token: LockToken, deadline: Instant) -> Result<Resumed> {
        for _ in 0..TRIES {
            let sights = self.look(deadline).await?;
            let grips: Option<Vec<Grip>> = sights.iter().map(|sight| sight.grip(token)).collect();
            let Some(grips) = grips else {
                self.give_back_part(token, None, &sights, deadline).await?;
                return Ok(Resumed::Lost(hold::loss(token, true, &sights)));
            };
            // The server stamps the fencing cell, and so tells the time.
            let sent = Moment::now();
            let count = self.count(0).into_iter().collect();
            let actions = vec![self.if_held(0, &grips[0], count)];
            let after = self
                .change("asking for the time", actions, deadline)
                .await
                .map_err(|error| error.with_hint_if_unknown(AGAIN))?;
            let now = after.first().and_then(|sight| sight.fencing);
            let before = sights.first().and_then(|sight| sight.fencing);
            if let Some(now) = now.filter(|now| Some(*now) > before) {
                let since = grips.iter().map(|grip| grip.timestamp).min().unwrap_or(now);
                let age = Duration::from_millis(now.saturating_sub(since));
                return Ok(Resumed::Held(Hold::of(token, grips, sent.before(age), now)));
            }
            // It was renewed meanwhile, or is over.
        }
        Err(hold::changed_meanwhile("looked at"))
    }
}

fn outlives(live: Duration, family: &[u8]) -> Error {
    Error::new(
        ErrorKind::LimitExceeded,
        format!(
            "the lock can't be renewed for so long: the table's family keeps it for {live:?} in all from when it was acquired"
        ),
    )
    .with_hint(format!(
        "release it and acquire it anew; for longer holds raise the TTL of family {}",
        BytesBinary(family)
    ))
}
