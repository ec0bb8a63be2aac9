//! Several locks, all of them or none.

use std::{collections::BTreeMap, fmt};

use futures::{
    StreamExt,
    future::{join_all, pending, select_all, try_join_all},
    stream::FuturesUnordered,
};
use hbase_client::low_level::TableCalls;
use tokio::time::Instant;

use super::{
    guard::{LockGuard, ReleaseOutcome},
    request::{LockRequest, RequestOutcome, attempt},
    state::LockLoss,
};
use crate::error::{ClientErrorKind, Error, ErrorKind, Result};

/// Several locks that were acquired together. Each has a lease of its own, and may be lost alone.
///
/// Dropping it gives all of them back, as dropping a [`LockGuard`] does.
///
/// # Example
///
/// ```no_run
/// # async fn example(locks: hbase_txn::lock::LockManager) -> hbase_txn::Result<()> {
/// use hbase_txn::{Level, lock::LockSet};
///
/// let requests = ["account-1", "account-2"].map(|id| locks.lock(Level::Dc, id));
/// let both = LockSet::acquire(requests.into_iter().collect::<Result<Vec<_>, _>>()?).await?;
/// // … what needs both …
/// both.release().await?;
/// # Ok(()) }
/// ```
#[must_use = "locks that are not bound to a name are released at once"]
pub struct LockSet {
    /// In the order in which they were asked for.
    guards: Vec<LockGuard>,
}

impl LockSet {
    /// Acquires all these locks, or none.
    ///
    /// First all are tried at once, those of one region in one call. If that does not give all of
    /// them, they are given back, and acquired one after the other in the order of their rows,
    /// which is the same for everybody: so two sets never wait for each other. They are waited for
    /// as long as the request that waits least.
    ///
    /// # Errors
    ///
    /// As [`LockRequest::acquire`], naming the lock that could not be had; and
    /// [`InvalidInput`](ClientErrorKind::InvalidInput) for no locks, and one that is asked for
    /// twice.
    pub async fn acquire(requests: Vec<LockRequest>) -> Result<Self> {
        let Some(wait) = requests.iter().map(|request| request.wait).min() else {
            return Err(Error::invalid("no locks to acquire"));
        };
        requests.iter().try_for_each(LockRequest::check)?;
        let until = Instant::now() + wait;
        let deadline = requests
            .iter()
            .map(|request| request.table().deadline() + wait)
            .min()
            .unwrap_or(until);
        // By table too: requests may come from several managers.
        let mut by_order: BTreeMap<_, usize> = BTreeMap::new();
        for (index, request) in requests.iter().enumerate() {
            if by_order.insert(request.order(), index).is_some() {
                return Err(
                    Error::invalid(format!("lock {} is asked for twice", request.name))
                        .at_table(request.table().name()),
                );
            }
        }
        let ordered: Vec<&LockRequest> = by_order.values().map(|index| &requests[*index]).collect();
        let mut turns = Vec::with_capacity(ordered.len());
        for request in &ordered {
            turns.push(request.turn(until).await?);
        }
        let guards = match try_all(&ordered, deadline).await? {
            Ok(guards) => guards,
            Err(refusal) if Instant::now() >= until => return Err(refusal),
            Err(_) => one_by_one(&ordered, until, deadline).await?,
        };
        let as_asked: BTreeMap<usize, LockGuard> = by_order
            .into_values()
            .zip(guards)
            .zip(turns)
            .map(|((index, guard), turn)| (index, guard.with_local_claim(requests[index].local_claim(turn))))
            .collect();
        let guards = as_asked.into_values().collect();
        Ok(Self { guards })
    }

    /// Returns the locks, in the order of their requests.
    pub fn guards(&self) -> &[LockGuard] {
        &self.guards
    }

    /// Returns whether all of them are held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guards.iter().all(LockGuard::is_held)
    }

    /// Waits until one of them is lost, and tells which.
    pub async fn lost(&self) -> (&str, LockLoss) {
        let losses = self.guards.iter().map(|guard| Box::pin(guard.lost()));
        let (loss, index, _) = select_all(losses).await;
        (self.guards[index].name(), loss)
    }

    /// Releases all of them, and returns for each whether it was held until now.
    ///
    /// # Errors
    ///
    /// The first of the calls' errors. The background goes on with what was not given back.
    pub async fn release(self) -> Result<Vec<(String, ReleaseOutcome)>> {
        let releases = self.guards.into_iter().map(|guard| async move {
            let name = guard.name().to_owned();
            Ok((name, guard.release().await?))
        });
        join_all(releases).await.into_iter().collect()
    }
}

/// How trying all of them once ended.
enum All {
    Won(Vec<LockGuard>),
    /// None is kept; the error says which was not won.
    Refused(Error),
    /// None is kept: their region was split since it was looked up, and where they are now is known
    /// by now.
    Parted(Error),
}

/// Tries all of them once; and once more where what was known of their regions was old.
async fn try_all(requests: &[&LockRequest], deadline: Instant) -> Result<Result<Vec<LockGuard>>> {
    let outcome = match try_by_region(requests, deadline).await? {
        All::Parted(_) => try_by_region(requests, deadline).await?,
        outcome => outcome,
    };
    Ok(match outcome {
        All::Won(guards) => Ok(guards),
        All::Refused(refusal) | All::Parted(refusal) => Err(refusal),
    })
}

async fn try_by_region(requests: &[&LockRequest], deadline: Instant) -> Result<All> {
    let mut regions: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (index, request) in requests.iter().enumerate() {
        let region = request.table().region_of(request.row(), deadline).await?;
        regions.entry(region.name).or_default().push(index);
    }
    let calls = regions
        .into_values()
        .map(|members| try_region(requests, members, deadline));
    // All of them, also when one fails: an answer that is not taken gives its locks back by being
    // dropped.
    let answers = join_all(calls).await;
    let mut guards: BTreeMap<usize, LockGuard> = BTreeMap::new();
    let mut failed = None;
    for answer in answers {
        match answer {
            Ok(outcome) => {
                for (index, outcome) in outcome {
                    match outcome {
                        RequestOutcome::Won(guard) if guard.is_held() => {
                            guards.insert(index, guard);
                        }
                        RequestOutcome::Won(guard) => failed = Some(All::Refused(guard.lost_early())),
                        RequestOutcome::Lost(states) => {
                            failed = Some(All::Refused(requests[index].refused(&states)));
                        }
                    }
                }
            }
            // One that is cut itself can't be had, now or later.
            Err(error) if error.kind() == ClientErrorKind::PartitionCut && error.is_retryable() => {
                failed.get_or_insert(All::Parted(error));
            }
            Err(error) if error.kind() == ClientErrorKind::PartitionCut || error.is_outcome_unknown() => {
                failed = Some(All::Refused(error));
            }
            Err(error) => return Err(error),
        }
    }
    let guards = guards.into_values();
    let Some(failed) = failed else {
        return Ok(All::Won(guards.collect()));
    };
    // Competing clients must find them free before the next attempt.
    try_join_all(guards.map(LockGuard::release)).await?;
    Ok(failed)
}

/// Tries those of one region once.
async fn try_region(
    requests: &[&LockRequest],
    members: Vec<usize>,
    deadline: Instant,
) -> Result<Vec<(usize, RequestOutcome)>> {
    let together: Vec<LockRequest> = members.iter().map(|index| requests[*index].clone()).collect();
    let (outcome, _) = attempt(together, None, deadline).await?;
    Ok(members.into_iter().zip(outcome).collect())
}

/// Acquires them in order, each when those before it are held.
async fn one_by_one(requests: &[&LockRequest], until: Instant, deadline: Instant) -> Result<Vec<LockGuard>> {
    let mut guards: Vec<LockGuard> = Vec::with_capacity(requests.len());
    for request in requests {
        // Others may be waited for longer than a lease, so each is renewed until all are there.
        let kept = (*request).clone().auto_renew();
        let guard = tokio::select! {
            won = kept.compete(until, deadline) => won?,
            error = first_lost(&guards) => return Err(error),
        };
        guards.push(guard);
    }
    for (guard, request) in guards.iter().zip(requests) {
        if !request.renewed {
            guard.renew_no_more();
        }
        // The lease is to begin with the set.
        guard.freshen().await.map_err(|error| match error.kind() {
            ErrorKind::LockLost => guard.lost_early(),
            _ => error,
        })?;
    }
    match guards.iter().find(|guard| !guard.is_held()) {
        None => Ok(guards),
        Some(lost) => Err(lost.lost_early()),
    }
}

/// Waits until one of them is lost, and says which.
async fn first_lost(guards: &[LockGuard]) -> Error {
    let losses = guards.iter().map(|guard| async move {
        guard.lost().await;
        guard.lost_early()
    });
    let mut losses: FuturesUnordered<_> = losses.collect();
    match losses.next().await {
        Some(error) => error,
        None => pending().await,
    }
}

impl fmt::Debug for LockSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockSet").field(&self.guards).finish()
    }
}
