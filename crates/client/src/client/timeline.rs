//! Reads that a replica of the region may answer.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::timeout;

use crate::{
    cluster::{Cluster, RegionLocation},
    rpc::{CallError, Recovery},
};

/// Calls in flight, each with the location that it goes to.
pub(super) type Calls<'a, T> = FuturesUnordered<BoxFuture<'a, (Arc<RegionLocation>, Result<T, CallError>)>>;

/// Calls a region, and its replicas too if the region does not answer within `patience` or fails.
/// Returns the first answer, or the failure of the region itself, with its location; and the other
/// calls, which are still in flight. Calls a single replica if one is chosen.
pub(super) async fn first_answer<'a, T, F>(
    cluster: &Cluster,
    primary: &Arc<RegionLocation>,
    replica_id: Option<u16>,
    patience: Duration,
    call: impl Fn(Arc<RegionLocation>) -> F + Send + Sync,
) -> (Arc<RegionLocation>, Result<T, CallError>, Calls<'a, T>)
where
    T: Send,
    F: Future<Output = Result<T, CallError>> + Send + 'a,
{
    if let Some(id) = replica_id {
        let Some(replica) = primary.replica(id) else {
            return (Arc::clone(primary), Err(CallError::NoReplica(id)), Calls::new());
        };
        let answer = call(Arc::clone(&replica)).await;
        return (replica, answer, Calls::new());
    }
    let call = |location: Arc<RegionLocation>| {
        let call = call(Arc::clone(&location));
        async move { (location, call.await) }.boxed()
    };
    let mut calls = Calls::from_iter([call(Arc::clone(primary))]);
    let mut failure = None;
    let mut next = timeout(patience, calls.next()).await;
    let mut asked_replicas = false;
    loop {
        match next {
            Ok(Some((location, Ok(answer)))) => return (location, Ok(answer), calls),
            Ok(Some((location, Err(failed)))) => {
                if location.region.name != primary.region.name {
                    cluster.forget(&location);
                } else {
                    let recovery = failed.classify().recovery;
                    cluster.forget_after(recovery, &location);
                    failure = Some(failed);
                    // The replicas would refuse it too.
                    if recovery == Recovery::Fail {
                        break;
                    }
                }
            }
            Ok(None) => break,
            Err(_) => {}
        }
        if !asked_replicas {
            asked_replicas = true;
            calls.extend(primary.replicas().map(&call));
        }
        next = Ok(calls.next().await);
    }
    let failure = failure.unwrap_or_else(|| CallError::BadAnswer("no answer".into()));
    (Arc::clone(primary), Err(failure), calls)
}
