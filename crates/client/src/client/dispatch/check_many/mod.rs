//! Many conditional changes at once, with few calls to each server.

use bytes::Bytes;
use futures::{Stream, stream};
use tokio::time::Instant;

use super::{
    ActionResult, Dispatch, Ended, Item, Kind,
    flow::{FlowLimits, LANES},
    results::bad,
};
use crate::{
    client::{
        CallKind, CheckAndMutateResult, FailedAttempt, MultiCall, RegionAttempt, Table,
        region_call::multi::{self, ActionAnswer, RegionAction},
    },
    error::{Error, Result},
    model::{BytesBinary, Condition, Mutation, RegionInfo},
    rpc::CallError,
    wire::{cell_block::CellBlockDecoder, pb},
};

const NAME: &str = "check and mutate many";

/// The answer to some of the conditional changes of one call. Each is identified by its index in the
/// list that was passed.
#[derive(Debug)]
pub enum CheckAnswer {
    /// Changes that were made, or refused by their conditions.
    Done(Vec<usize>),
    /// Changes that failed for good or did not complete before the deadline.
    Failed(Vec<(usize, Error)>),
}

impl Table {
    /// Makes many conditional changes, each as [`check_and_mutate`](Self::check_and_mutate) does, in
    /// few calls to each server. Returns their results in the order of the changes.
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
        let (mut answers, mut valid) = (Vec::new(), Vec::new());
        for (place, (condition, mutations)) in changes.into_iter().enumerate() {
            match self.conditional_call(NAME, condition, mutations) {
                Ok(call) => valid.push(item(place, call)),
                Err(error) => answers.push((place, Err(error))),
            }
        }
        let deadline = self.deadline();
        let mutations = valid.iter().flat_map(|change| change.payload.mutations());
        self.wait_out_deletes(mutations).await;
        let mut changing = Dispatch::new(self, Checks::MANY, NAME, deadline, valid);
        while let Some(ended) = changing.next().await {
            match ended {
                Ended::Done(results) => answers.extend(results.into_iter().map(|(change, result)| {
                    self.record_result(&change.payload, &result);
                    (change.place, Ok(result))
                })),
                Ended::Failed(changes, error) => {
                    let failed = changes.iter();
                    answers.extend(failed.map(|change| (change.place, Err(of_row(change, &error)))));
                }
            }
        }
        answers.sort_unstable_by_key(|(place, _)| *place);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Makes conditional changes, one action each, and returns each answer as soon as it is known. One call
    /// has at most 128 changes of a server, in eight calls at a time. Every change is answered once, by the
    /// deadline.
    pub(crate) fn check_each(
        &self,
        name: &'static str,
        changes: Vec<MultiCall>,
        deadline: Instant,
    ) -> impl Stream<Item = CheckAnswer> + Send + '_ {
        let items = changes.into_iter().enumerate();
        let items = items.map(|(place, call)| item(place, call));
        let changing = Dispatch::new(self, Checks::SOON, name, deadline, items.collect());
        stream::unfold(changing, async |mut changing| {
            let answer = match changing.next().await? {
                Ended::Done(done) => {
                    CheckAnswer::Done(done.into_iter().map(|(change, _)| change.place).collect())
                }
                Ended::Failed(failed, error) => {
                    let failed = failed.iter();
                    CheckAnswer::Failed(
                        failed
                            .map(|change| (change.place, of_row(change, &error)))
                            .collect(),
                    )
                }
            };
            Some((answer, changing))
        })
    }
}

/// Returns the error of several changes as that of one.
fn of_row(change: &Item<MultiCall>, error: &Error) -> Error {
    error.clone().of_row(&BytesBinary(&change.row))
}

/// Conditional changes, each of which is an action of its own.
#[derive(Clone, Copy)]
struct Checks(FlowLimits);

impl Checks {
    /// For as many changes as possible in few calls.
    const MANY: Self = Self(FlowLimits {
        lanes: LANES,
        operations: 1_000,
        bytes: 1 << 20,
    });
    /// For answers that come soon. A server makes the conditional changes of a call one after the other,
    /// and syncs its log after each; those of several calls share syncs.
    const SOON: Self = Self(FlowLimits {
        lanes: 8,
        operations: 128,
        bytes: 1 << 20,
    });
}

fn item(place: usize, call: MultiCall) -> Item<MultiCall> {
    Item {
        place,
        row: call.row.clone(),
        weight: call.mutations().map(Mutation::size).sum(),
        payload: call,
    }
}

impl Kind for Checks {
    type Payload = MultiCall;
    type Output = CheckAndMutateResult;

    const CALL_KIND: CallKind = CallKind::Write;

    fn limits(self) -> FlowLimits {
        self.0
    }

    fn actions(self, changes: Vec<Item<MultiCall>>) -> Vec<Vec<Item<MultiCall>>> {
        changes.into_iter().map(|change| vec![change]).collect()
    }

    fn message(self, region: &RegionInfo, changes: &[Item<MultiCall>]) -> Bytes {
        let MultiCall {
            actions, durability, ..
        } = &changes[0].payload;
        RegionAction::message(actions, region, *durability)
    }

    fn read(
        self,
        changes: &[Item<MultiCall>],
        _is_repeated: bool,
        result: pb::RegionActionResult,
        block: &mut CellBlockDecoder,
    ) -> Result<ActionResult<CheckAndMutateResult>, CallError> {
        let Item { row, payload, .. } = &changes[0];
        let read = multi::read_results(&payload.actions, vec![result], block);
        // Cells that an earlier answer did not count would be read as this one's.
        let is_of_row = |answer: &ActionAnswer| match answer {
            ActionAnswer::Processed { cells, .. } => cells.iter().all(|cell| cell.row == *row),
            _ => true,
        };
        if !read.iter().flatten().all(is_of_row) {
            return Err(bad("a cell of another row than that of the change"));
        }
        Ok(read.map(|answers| vec![Ok(CheckAndMutateResult::new(row.clone(), answers))]))
    }

    async fn prove(
        self,
        attempt: &mut RegionAttempt<'_, '_>,
        change: &Item<MultiCall>,
    ) -> Result<(), FailedAttempt> {
        attempt.prove_conditions(&change.payload).await
    }
}

#[cfg(test)]
mod tests;
