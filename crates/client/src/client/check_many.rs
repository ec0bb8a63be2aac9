//! Many conditional changes at once, with one call for each server.
//!
//! The first attempt of each change shares a call with others of its server. A change whose region
//! is in transition, or whose attempt failed, continues alone and delays no other.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, join_all},
    stream,
};
use tokio::time::Instant;

use super::{
    ActionAnswer, CallKind, CheckAndMutateResult, FailedAttempt, MultiCall, RegionAction, RegionCall, Table,
    multi,
};
use crate::{
    cluster::RegionLocation,
    error::{ErrorKind, Result},
    model::{Condition, Mutation},
    rpc::{AttemptLimit, CallError},
    wire::{cell_block::CellBlockDecoder, multi::EncodedMultiRequest, pb},
};

const NAME: &str = "check and mutate many";
/// The limits of one call, unless a single change is larger.
const MAX_CHANGES: usize = 1_000;
const MAX_BYTES: usize = 1 << 20;
/// The maximum number of servers, and of changes that continue alone, at the same time.
const CONCURRENT: usize = 64;

/// A change, and its index in the caller's list.
struct Change<'a> {
    place: usize,
    call: MultiCall,
    attempts: RegionCall<'a>,
}

/// A change and the location of its row.
struct Placed<'a> {
    change: Change<'a>,
    location: Arc<RegionLocation>,
}

/// A change that was not made in a call with others, with the failure of that call if it was sent.
struct Unmade<'a> {
    change: Change<'a>,
    failure: Option<FailedAttempt>,
}

impl<'a> From<Change<'a>> for Unmade<'a> {
    fn from(change: Change<'a>) -> Self {
        Self {
            change,
            failure: None,
        }
    }
}

/// The result of a change, by its index in the caller's list.
type Answer = (usize, Result<CheckAndMutateResult>);

impl Table {
    /// Makes many conditional changes, each as [`check_and_mutate`](Self::check_and_mutate) does, with
    /// one call for each server at a time. Returns their results in the order of the changes.
    ///
    /// Each change is atomic, and none depends on another one. Changes of the same row are made in
    /// any order. If one fails, the others are still made. A call has at most 1,000 changes, in
    /// about 1 MiB.
    ///
    /// # Errors
    ///
    /// The result of a change is an error as of [`check_and_mutate`](Self::check_and_mutate). If the answer to a
    /// call is lost, the outcome of all its changes is unknown.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, any of the changes may still be made.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::{Condition, Put};
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// # table.put(Put::new("job-8").cell("f", "owner", "worker-4")).await?;
    /// let claims = ["job-7", "job-8"].map(|job| {
    ///     let claim = Put::new(job).cell("f", "owner", "worker-3");
    ///     (Condition::absent(job, "f", "owner"), vec![claim.into()])
    /// });
    /// let results = table.check_and_mutate_many(claims).await;
    /// assert!(results[0].as_ref().is_ok_and(|result| result.success));
    /// assert!(results[1].as_ref().is_ok_and(|result| !result.success));
    /// # Ok(()) });
    /// ```
    pub async fn check_and_mutate_many(
        &self,
        changes: impl IntoIterator<Item = (Condition, Vec<Mutation>)>,
    ) -> Vec<Result<CheckAndMutateResult>> {
        let deadline = self.deadline();
        let (mut answers, mut valid) = (Vec::new(), Vec::new());
        for (place, (condition, mutations)) in changes.into_iter().enumerate() {
            match self.conditional_call(NAME, condition, mutations) {
                Ok(call) => {
                    let row = Cow::Owned(call.row.clone());
                    let attempts = RegionCall::of_row(self, NAME, row, CallKind::Write, deadline);
                    valid.push(Change {
                        place,
                        call,
                        attempts,
                    });
                }
                Err(error) => answers.push((place, Err(error))),
            }
        }
        let located = join_all(valid.into_iter().map(async |mut change| {
            let location = change.attempts.locate_now().await;
            (change, location)
        }));
        let mut servers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let mut steps: Vec<BoxFuture<'_, Vec<Answer>>> = Vec::new();
        for (change, location) in located.await {
            match location {
                Some(location) => servers
                    .entry(location.server.clone())
                    .or_default()
                    .push(Placed { change, location }),
                None => steps.push(self.check_alone(change.into()).map(|answer| vec![answer]).boxed()),
            }
        }
        for placed in servers.into_values() {
            steps.push(self.check_on_server(placed, deadline).boxed());
        }
        let mut steps = stream::iter(steps).buffer_unordered(CONCURRENT);
        while let Some(step) = steps.next().await {
            answers.extend(step);
        }
        answers.sort_by_key(|(place, _)| *place);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Makes changes on one server, in as few calls as the limits allow.
    async fn check_on_server<'a>(&'a self, placed: Vec<Placed<'a>>, deadline: Instant) -> Vec<Answer> {
        let mut answers = Vec::new();
        let mut alone = Vec::new();
        for call in calls(placed) {
            let (answered, failed) = self.check_together(call, deadline).await;
            answers.extend(answered);
            alone.extend(failed);
        }
        let alone = alone.into_iter().map(|unmade| self.check_alone(unmade).boxed());
        let mut alone = stream::iter(alone.collect::<Vec<_>>()).buffer_unordered(CONCURRENT);
        while let Some(answer) = alone.next().await {
            answers.push(answer);
        }
        answers
    }

    /// Makes changes in one call. Returns the results, and the changes that need another attempt.
    async fn check_together<'a>(
        &'a self,
        mut call: Vec<Placed<'a>>,
        deadline: Instant,
    ) -> (Vec<Answer>, Vec<Unmade<'a>>) {
        let (mut answers, mut again) = (Vec::<Answer>::new(), Vec::<Unmade<'_>>::new());
        let location = loop {
            let Some(Placed { change, location }) = call.first_mut() else {
                return (answers, again);
            };
            let location = Arc::clone(location);
            let mut attempt = change.attempts.attempt(&location);
            let Err(failure) = attempt.prove_conditions(&change.call).await else {
                break location;
            };
            // The probe has the families of the first change, of which one may not exist.
            if failure.kind() == ErrorKind::FamilyNotFound {
                let Placed { change, .. } = call.remove(0);
                let failure = Some(failure);
                again.push(Unmade { change, failure });
                continue;
            }
            for (index, Placed { change, .. }) in call.into_iter().enumerate() {
                let failure = (index == 0 || failure.is_final()).then(|| failure.clone());
                again.push(Unmade { change, failure });
            }
            return (answers, again);
        };
        let limits = call
            .iter_mut()
            .map(|Placed { change, location }| change.attempts.attempt(location).limit());
        let limit = limits
            .reduce(AttemptLimit::with)
            .unwrap_or_else(|| AttemptLimit::new(deadline, false));
        let region_action = call
            .iter()
            .flat_map(|Placed { change, location }| change.call.message(&location.region).region_action);
        let request = EncodedMultiRequest::new(region_action.collect());
        let mutations = call.iter().flat_map(|placed| placed.change.call.mutations());
        self.wait_out_deletes(mutations).await;
        let answer = self
            .call(&location, "Multi", &request, limit)
            .await
            .and_then(|(answer, block)| read(&call, answer, block));
        let results = match answer {
            Ok(results) => results,
            Err(failure) => call.iter().map(|_| Err(failure.clone())).collect(),
        };
        for (placed, result) in call.into_iter().zip(results) {
            let Placed { mut change, location } = placed;
            match change.attempts.attempt(&location).ended(result) {
                Ok(result) => {
                    self.record_result(&change.call, &result);
                    answers.push((change.place, Ok(result)));
                }
                Err(failure) => again.push(Unmade {
                    change,
                    failure: Some(failure),
                }),
            }
        }
        (answers, again)
    }

    /// Makes a change in a call of its own, with the attempts that are left.
    async fn check_alone(&self, unmade: Unmade<'_>) -> Answer {
        let Unmade { change, failure } = unmade;
        let Change {
            place,
            call,
            mut attempts,
        } = change;
        let result = async {
            if let Some(failure) = failure {
                attempts.recover(failure).await?;
            }
            self.wait_out_deletes(call.mutations()).await;
            let answers = attempts.multi(&call).await?;
            let result = CheckAndMutateResult::new(call.row.clone(), answers);
            self.record_result(&call, &result);
            Ok(result)
        };
        (place, result.await)
    }
}

/// Groups the changes of one server into calls.
fn calls(placed: Vec<Placed<'_>>) -> Vec<Vec<Placed<'_>>> {
    let mut calls: Vec<Vec<_>> = Vec::new();
    let mut bytes = 0;
    for placed in placed {
        let size = size(&placed.change.call);
        bytes += size;
        match calls.last_mut() {
            Some(call) if call.len() < MAX_CHANGES && bytes <= MAX_BYTES => call.push(placed),
            _ => {
                bytes = size;
                calls.push(vec![placed]);
            }
        }
    }
    calls
}

fn size(call: &MultiCall) -> usize {
    let of_action = |action: &RegionAction| match action {
        RegionAction::Conditional { mutations, .. } => mutations.iter().map(Mutation::size).sum(),
        RegionAction::Get(_) | RegionAction::Atomic(_) => 0,
    };
    call.actions.iter().map(of_action).sum()
}

/// Reads the answers to all changes of a call.
fn read(
    call: &[Placed<'_>],
    answer: pb::MultiResponse,
    mut block: CellBlockDecoder,
) -> Result<Vec<Result<CheckAndMutateResult, CallError>>, CallError> {
    let results = answer.region_action_result;
    if results.len() != call.len() {
        let what = format!("{} answers to {} region actions", results.len(), call.len());
        return Err(CallError::BadAnswer(what.into()));
    }
    let read = |(placed, result): (&Placed<'_>, _)| {
        let MultiCall { actions, row, .. } = &placed.change.call;
        let read = multi::read_results(actions, vec![result], &mut block);
        // Cells that an earlier answer did not count would be read as this one's.
        let is_of_row = |answer: &ActionAnswer| match answer {
            ActionAnswer::Processed { cells, .. } => cells.iter().all(|cell| cell.row == *row),
            _ => true,
        };
        if !read.iter().flatten().all(is_of_row) {
            return Err(CallError::BadAnswer(
                "a cell of another row than that of the change".into(),
            ));
        }
        Ok(read.map(|answers| CheckAndMutateResult::new(row.clone(), answers)))
    };
    call.iter().zip(results).map(read).collect()
}

#[cfg(test)]
mod tests;
