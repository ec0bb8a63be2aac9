//! Renewal of a lock, and holds of other processes.

use std::time::Duration;

use hbase_client::{BytesBinary, low_level::CallKind};
use tokio::time::Instant;

use super::{
    claim::{self, AGAIN, LockClaim, TRIES},
    location::{LockChange, LockLocation},
    owner::{HeldBy, LockToken, Millis, Owner},
    row_state::{RowLease, fencing_number},
};
use crate::{
    error::{ClientErrorKind, Error, Result},
    lock::{
        hold::{CallSharing, clock::Moment, lease::margin},
        state::LockLoss,
    },
};

impl LockLocation {
    /// Renews the lease for `lease` from now on, perhaps in a shared call. A longer lease is not shortened.
    /// Returns until when it lasts, by this machine's clock, or why the lock is lost.
    ///
    /// # Errors
    ///
    /// Returns the errors of the call, and [`LimitExceeded`](ClientErrorKind::LimitExceeded) if the
    /// lock would outlive its cells. If the outcome is unknown, the hold was renewed or is
    /// unchanged; the next renewal finds out.
    pub(in crate::lock) async fn renew(
        &self,
        claim: &mut LockClaim,
        lease: Duration,
        deadline: Instant,
        sharing: CallSharing,
    ) -> Result<Result<Moment, LockLoss>> {
        for _ in 0..TRIES {
            let sent = self.now();
            // No more time has passed since the marker's timestamp than since it was sent.
            let ttl = Millis::ceil(sent.since(claim.since) + lease).max(claim.longest);
            if let Some(live) = self.cells_live.filter(|live| Millis::floor(*live) < ttl) {
                return Err(outlives(live, &self.rows.family));
            }
            claim.renewals = claim::next_renewal(claim.renewals)?;
            // If the renewal is refused, the TTL is not applied.
            let longest_before = std::mem::replace(&mut claim.longest, ttl);
            let held = HeldBy {
                token: claim.token,
                renewal: claim.renewals,
                ttl,
                lease: Millis::floor(lease),
                holder: claim.holder.clone(),
                over: claim.over,
            };
            let owner = Owner::Held(held);
            let value = owner.encode();
            let actions = claim
                .row_leases
                .iter()
                .enumerate()
                .map(|(index, row_lease)| {
                    let mut mutations = vec![self.rewrite(index, row_lease, &owner, ttl)];
                    mutations.extend(self.count(index));
                    self.if_held(index, row_lease, mutations)
                })
                .collect();
            let after = match sharing {
                CallSharing::Alone => self.change("renewing the lock", actions, deadline).await?,
                CallSharing::Shared => self.renewals.renew(self, actions, deadline).await?,
            };
            let last_fencing = claim.last_fencing;
            if !claim.refresh(&after) {
                let is_over = self.now().since(claim.since) >= longest_before.into();
                return Ok(Err(claim::loss(claim.token, is_over, &after)));
            }
            if claim.row_leases.iter().all(|row_lease| row_lease.value == value) {
                return Ok(Ok(claim.renewed_until(sent, lease, last_fencing)));
            }
            // An earlier renewal was applied, although its answer was lost.
        }
        Err(claim::changed_meanwhile("renewed"))
    }

    /// Renews the hold of another process's token, for its own lease unless one is specified.
    /// Returns why it is lost if it is not held any more.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`renew`](Self::renew).
    pub(in crate::lock) async fn renew_for(
        &self,
        token: LockToken,
        lease: Option<Duration>,
        deadline: Instant,
    ) -> Result<Result<(), LockLoss>> {
        let mut claim = match self.resume(token, deadline).await? {
            Ok(claim) => claim,
            Err(loss) => return Ok(Err(loss)),
        };
        let lease = lease.unwrap_or_else(|| claim.own_lease());
        for _ in 0..TRIES {
            let renewed = self.renew(&mut claim, lease, deadline, CallSharing::Alone).await;
            match renewed.map_err(|error| error.with_hint_if_unknown(AGAIN))? {
                Ok(until) if until.before(margin(lease, None)) > self.now() => {
                    return Ok(Ok(()));
                }
                // The lease had expired when the answer arrived.
                Ok(_) => {}
                Err(loss) => return Ok(Err(loss)),
            }
        }
        let error = Error::new(
            ClientErrorKind::DeadlineExceeded,
            "the lock was renewed, but each time its lease expired before the answer arrived",
        );
        Err(error.with_retryable(true).with_hint("use a longer lease"))
    }

    /// Reads the hold of a token, and its age. Returns why it is lost if the token holds nothing.
    ///
    /// The increment of the fencing cell reads the server's clock. It is sent after `sent`, so the
    /// age of the hold at `sent` is at most what the increment's timestamp says.
    pub(in crate::lock) async fn resume(
        &self,
        token: LockToken,
        deadline: Instant,
    ) -> Result<Result<LockClaim, LockLoss>> {
        for _ in 0..TRIES {
            let states = self.read(deadline).await?;
            let row_leases: Option<Vec<RowLease>> =
                states.iter().map(|state| state.lease_of(token)).collect();
            let Some(row_leases) = row_leases else {
                self.give_back_part(token, None, &states, deadline).await?;
                return Ok(Err(claim::loss(token, true, &states)));
            };
            let sent = self.now();
            let count = self.count(0).into_iter().collect();
            let change = LockChange {
                operation: "reading the server's clock",
                caller: None,
                actions: vec![self.if_held(0, &row_leases[0], count)],
                read_before: false,
                read_after: None,
                kind: CallKind::Write,
                deadline,
                locations: &[self],
            };
            let outcome = change.send().await;
            let outcome = outcome.map_err(|error| error.with_hint_if_unknown(AGAIN))?;
            let now = outcome.after.first().and_then(|state| state.fencing);
            let number = now.and_then(fencing_number);
            let row_leases: Option<Vec<RowLease>> =
                outcome.after.iter().map(|state| state.lease_of(token)).collect();
            // If the increment was refused, the number may be another client's, from before `sent`.
            if outcome.processed == [true]
                && let (Some(now), Some(number), Some(row_leases)) = (now, number, row_leases)
            {
                let since = row_leases
                    .iter()
                    .map(|row_lease| row_lease.timestamp)
                    .min()
                    .unwrap_or(now);
                let age = Duration::from_millis(now.saturating_sub(since));
                return Ok(Ok(LockClaim::of(
                    token,
                    row_leases,
                    sent.before(age),
                    number,
                    now,
                )));
            }
        }
        Err(claim::changed_meanwhile("read"))
    }
}

fn outlives(live: Duration, family: &[u8]) -> Error {
    Error::new(
        ClientErrorKind::LimitExceeded,
        format!(
            "cannot renew the lock for so long: the table's family keeps its cells for {live:?} after the acquisition"
        ),
    )
    .with_hint(format!(
        "release the lock and acquire it again; for longer holds raise the TTL of family {}",
        BytesBinary(family)
    ))
}

#[cfg(test)]
mod tests {
    use hbase_fake::FakeHBase;
    use tokio::time::sleep;

    use super::*;
    use crate::{Level, lock::manager::two_processes};

    #[test]
    fn renewal_by_token_is_for_the_locks_own_lease() {
        const LEASE: Duration = Duration::from_secs(100);
        FakeHBase::run(async |hbase| {
            let [locks, others] = two_processes(hbase).await?;
            let guard = locks.lock(Level::Dc, "a")?.ttl(LEASE).acquire().await?;
            let token = guard.detach();
            let seconds_from_the_acquisition = async || {
                let holder = others.show(Level::Dc, "a").await?.holder.ok_or("not held")?;
                Ok::<_, Box<dyn std::error::Error>>(holder.lease.unwrap_or_default().as_secs())
            };
            sleep(LEASE / 2).await;
            assert_eq!(others.renew(Level::Dc, "a", token, None).await?, Ok(()));
            assert_eq!(seconds_from_the_acquisition().await?, 150);
            // A specified lease is the lock's own from then on.
            assert_eq!(others.renew(Level::Dc, "a", token, LEASE * 2).await?, Ok(()));
            sleep(LEASE).await;
            assert_eq!(locks.renew(Level::Dc, "a", token, None).await?, Ok(()));
            assert_eq!(seconds_from_the_acquisition().await?, 350);
            Ok(())
        });
    }
}
