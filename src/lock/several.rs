//! Several locks, all of them or none.

use std::{collections::BTreeMap, fmt};

use futures::{
    StreamExt,
    future::{join_all, pending, select_all, try_join_all},
    stream::FuturesUnordered,
};
use hbase_client::low_level::{CallKind, RegionCall, TableCalls};
use tokio::time::Instant;

use super::{
    hold::guard::LockGuard,
    request::{LockRequest, RequestOutcome, attempt, while_open},
    state::{LockLoss, ReleaseOutcome},
};
use crate::{
    error::{Error, ErrorKind, Result},
    observe,
};

/// Several locks that were acquired together. Each has its own lease and can be lost alone.
///
/// Dropping the set releases all of them, as dropping a [`LockGuard`] does. Bind it to a name, such
/// as `_locks`: `let _ = …` drops it at once.
///
/// # Example
///
/// ```
/// use hbase_txn::{Level, lock::LockSet};
///
/// # use hbase_txn::lock::LockManagerOptions;
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_table("dlm_locks", &["D"], &[]);
/// # let options = LockManagerOptions::new("billing").farm("fra");
/// # let locks = options.open(&hbase.connect().await?, "dlm_locks").await?;
/// let requests = ["account-1", "account-2"].map(|id| locks.lock(Level::Dc, id));
/// let both = LockSet::acquire(requests.into_iter().collect::<Result<Vec<_>, _>>()?).await?;
/// assert!(both.is_held());
/// // … what needs both …
/// for (name, outcome) in both.release().await? {
///     assert!(outcome.is_released(), "{name} was lost");
/// }
/// # Ok(()) });
/// ```
#[must_use = "locks that are not bound to a name are released at once"]
pub struct LockSet {
    /// In the order of the requests.
    guards: Vec<LockGuard>,
}

impl LockSet {
    /// Acquires all these locks, or none.
    ///
    /// First, all of them are tried at once, the locks of one region in one call. If one is not
    /// available, the others are released, and all are acquired one after the other in the order of
    /// their rows. That order is the same for all clients, so two sets never wait for each other.
    /// The shortest [wait](LockRequest::wait) of the requests is the wait of the set.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`LockRequest::acquire`], naming the lock that was not available, and
    /// [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if there are no requests or two for the same
    /// lock.
    pub async fn acquire(requests: Vec<LockRequest>) -> Result<Self> {
        let Some(first) = requests.first() else {
            return Err(Error::invalid("no locks to acquire"));
        };
        let table = first.table().name().clone();
        let acquiring = while_open(&requests, Self::acquire_all(&requests));
        let acquired = observe::acquisition("set", &table, acquiring).await;
        acquired.map_err(|error| error.at_operation("acquiring several locks").at_table(&table))
    }

    async fn acquire_all(requests: &[LockRequest]) -> Result<Self> {
        let wait = requests.iter().map(|request| request.wait).min();
        let wait = wait.unwrap_or_default();
        requests.iter().try_for_each(LockRequest::check)?;
        let until = Instant::now() + wait;
        let deadline = requests
            .iter()
            .map(|request| request.table().deadline() + wait)
            .min()
            .unwrap_or(until);
        // Requests may come from several managers, so the order includes the table.
        let mut by_order: BTreeMap<_, usize> = BTreeMap::new();
        for (index, request) in requests.iter().enumerate() {
            if by_order.insert(request.order(), index).is_some() {
                return Err(
                    Error::invalid(format!("lock {} is requested twice", request.name))
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
        let mut as_asked: BTreeMap<usize, LockGuard> = BTreeMap::new();
        for ((index, guard), turn) in by_order.into_values().zip(guards).zip(turns) {
            let request = &requests[index];
            let guard = guard.with_local_claim(request.local_claim(turn));
            let admitted = request.admit(guard).map_err(|error| request.in_context(error))?;
            as_asked.insert(index, admitted);
        }
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

    /// Waits until one of them is lost, and returns its name and the loss.
    pub async fn lost(&self) -> (&str, LockLoss) {
        let losses = self.guards.iter().map(|guard| Box::pin(guard.lost()));
        let (loss, index, _) = select_all(losses).await;
        (self.guards[index].name(), loss)
    }

    /// Releases all of them, and returns for each one whether it was held until now.
    ///
    /// # Errors
    ///
    /// Returns the first error of the calls. The release of the remaining locks continues in the
    /// background.
    pub async fn release(self) -> Result<Vec<(String, ReleaseOutcome)>> {
        let releases = self.guards.into_iter().map(|guard| async move {
            let name = guard.name().to_owned();
            Ok((name, guard.release().await?))
        });
        join_all(releases).await.into_iter().collect()
    }
}

/// The outcome of one try for all locks.
enum All {
    Won(Vec<LockGuard>),
    /// No lock is kept. The error names the lock that was not won.
    Refused(Error),
    /// No lock is kept: their region was split after it was looked up, and its daughters are known
    /// by now.
    Parted(Error),
}

/// Tries all of them once, and once more if the known regions were outdated.
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
        let (table, row) = (request.table(), request.row());
        let call = RegionCall::new(table, "finding a region", row, CallKind::Read, deadline);
        let location = call.into_location().await?;
        let region = location.region().name.clone();
        regions.entry(region).or_default().push(index);
    }
    let calls = regions
        .into_values()
        .map(|members| try_region(requests, members, deadline));
    // Awaits all of them even if one fails: dropping a guard in an unused answer releases its lock.
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
                        RequestOutcome::Won(guard) => failed = Some(All::Refused(guard.early_loss_error())),
                        RequestOutcome::Lost(states) => {
                            failed = Some(All::Refused(requests[index].refused(&states)));
                        }
                    }
                }
            }
            // If one lock is cut by a region boundary itself, another try cannot help.
            Err(error) if error.kind() == ErrorKind::PartitionCut && error.is_retryable() => {
                failed.get_or_insert(All::Parted(error));
            }
            Err(error) if error.kind() == ErrorKind::PartitionCut || error.is_outcome_unknown() => {
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

/// Tries the locks of one region once.
async fn try_region(
    requests: &[&LockRequest],
    members: Vec<usize>,
    deadline: Instant,
) -> Result<Vec<(usize, RequestOutcome)>> {
    let together: Vec<LockRequest> = members.iter().map(|index| requests[*index].clone()).collect();
    let (outcome, _) = attempt(together, None, deadline).await?;
    Ok(members.into_iter().zip(outcome).collect())
}

/// Acquires them in order, each while those before it are held.
async fn one_by_one(requests: &[&LockRequest], until: Instant, deadline: Instant) -> Result<Vec<LockGuard>> {
    let mut guards: Vec<LockGuard> = Vec::with_capacity(requests.len());
    for request in requests {
        // The wait for the next lock may be longer than a lease, so each one is renewed until all
        // are held.
        let kept = (*request).clone().auto_renew();
        let guard = tokio::select! {
            // A set that has lost a lock is not acquired, even if the next lock has just been won.
            biased;
            error = first_lost(&guards) => return Err(error),
            won = kept.compete(until, deadline) => won?,
        };
        guards.push(guard);
    }
    for (guard, request) in guards.iter().zip(requests) {
        if !request.renewed {
            guard.stop_auto_renewal();
        }
        // The lease begins when the set is returned.
        guard.renew_if_aged().await.map_err(|error| match error.kind() {
            ErrorKind::LockLost => guard.early_loss_error(),
            _ => error,
        })?;
    }
    match guards.iter().find(|guard| !guard.is_held()) {
        None => Ok(guards),
        Some(lost) => Err(lost.early_loss_error()),
    }
}

/// Waits until one of them is lost, and returns its error.
async fn first_lost(guards: &[LockGuard]) -> Error {
    let losses = guards.iter().map(|guard| async move {
        guard.lost().await;
        guard.early_loss_error()
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
