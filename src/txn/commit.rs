//! Sends the transaction of one group.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use prost::Message;
use tokio::time::{Instant, timeout_at};

use super::{
    outcome::{Committed, Outcome},
    partitioned_table::PartitionedTable,
    plan::Group,
};
use crate::{
    client::{EndpointCall, RegionGuard, ServingRegion, Verdict},
    error::{Effect, Error, ErrorKind, Result},
    model::{BytesBinary, Durability, Partition},
    wire::{convert, pb},
};

pub(super) const SERVICE: &str = "MultiRowMutationService";
pub(super) const METHOD: &str = "MutateRows";

/// How long reading the rule again may hold a transaction up.
const RULE_READ: Duration = Duration::from_secs(5);

impl PartitionedTable {
    /// Checks a group and sends it, until it has an outcome or the deadline passes.
    pub(super) async fn commit_group(&self, group: &Group, deadline: Instant) -> Outcome {
        let blame = |error: Error| {
            error
                .at_operation("transaction")
                .at_table(self.name())
                .at_row(&BytesBinary(group.partition.prefix()))
        };
        let durability = match group.check(self.terms()) {
            Ok(durability) => durability,
            Err(error) => return Outcome::Refused(blame(error)),
        };
        if self.watch().is_due()
            && let Err(changed) = self.read_rule_again(deadline).await
        {
            return Outcome::Refused(blame(changed));
        }
        let call = EndpointCall::new(
            group.partition.first_key().clone(),
            SERVICE,
            METHOD,
            request(group, durability),
        );
        loop {
            let guard = WholeInRegion {
                table: self,
                partition: &group.partition,
                uncovered: Mutex::default(),
            };
            let answer = self
                .table()
                .call_endpoint_where("transaction", &call, &guard, deadline)
                .await;
            match answer.and_then(read_answer) {
                Ok(()) => {
                    return Outcome::Committed(Committed {
                        partition: group.partition.clone(),
                        rows: group.rows(),
                        mutations: group.mutations.len(),
                    });
                }
                Err(error) => {
                    if let Some((region, opening)) = guard.into_uncovered() {
                        if let Err(changed) = self.read_rule_again(deadline).await {
                            return Outcome::Refused(blame(changed));
                        }
                        self.watch().cover(region, opening);
                        continue;
                    }
                    return classify(blame(explain(error)));
                }
            }
        }
    }

    /// Reads the table's rule again, and fails when it is another one. A master that does not answer holds
    /// nothing up: the rule is read again later.
    async fn read_rule_again(&self, deadline: Instant) -> Result<()> {
        let deadline = deadline.min(Instant::now() + RULE_READ);
        let failure = match timeout_at(deadline, self.check_rule()).await {
            Ok(Ok(())) => {
                self.watch().read_now();
                return Ok(());
            }
            Ok(Err(changed)) if changed.kind() == ErrorKind::PartitionRuleChanged => {
                self.watch().changed();
                return Err(changed);
            }
            Ok(Err(error)) => error,
            Err(_) => Error::new(ErrorKind::DeadlineExceeded, "the master did not answer in time"),
        };
        tracing::warn!(table = %self.name(), error = %failure, "could not read the partition rule again");
        match self.watch().is_changed() {
            true => Err(Error::new(
                ErrorKind::PartitionRuleChanged,
                "the table had another rule when it was last read, and it can't be read now",
            )
            .with_source(failure)),
            false => Ok(()),
        }
    }
}

/// Lets a transaction pass only where its whole partition is, and only while the rule is known.
struct WholeInRegion<'a> {
    table: &'a PartitionedTable,
    partition: &'a Partition,
    /// An opening of a region that the rule was not read for yet.
    uncovered: Mutex<Option<(Bytes, i64)>>,
}

impl WholeInRegion<'_> {
    fn into_uncovered(self) -> Option<(Bytes, i64)> {
        self.uncovered
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl RegionGuard for WholeInRegion<'_> {
    fn check(&self, serving: ServingRegion<'_>) -> Verdict {
        let ServingRegion { region, opening } = serving;
        if !self.partition.is_whole_in(region) {
            return Verdict::LookAgain(cut(self.partition, &region.range_text()));
        }
        if !self.table.watch().covers(&region.name, opening) {
            *self.uncovered.lock().unwrap_or_else(PoisonError::into_inner) =
                Some((region.name.clone(), opening));
            return Verdict::Stop(Error::new(
                ErrorKind::PartitionRuleChanged,
                "the rule must be read again",
            ));
        }
        Verdict::Pass
    }
}

/// The error of a partition whose rows lie in two regions.
fn cut(partition: &Partition, range: &str) -> Error {
    Error::new(
        ErrorKind::PartitionCut,
        format!("partition {partition} is cut in two: the region of its first row, {range}, does not have all of it"),
    )
    .with_hint("merge the two regions and split at the partition's first key; hbase-txn table check lists them")
}

fn request(group: &Group, durability: Durability) -> Bytes {
    let mutation_request = group
        .mutations
        .iter()
        .map(|mutation| pb::MutationProto {
            durability: Some(convert::durability_code(durability)),
            ..convert::mutation_message(mutation)
        })
        .collect();
    pb::MutateRowsRequest {
        mutation_request,
        ..pb::MutateRowsRequest::default()
    }
    .encode_to_vec()
    .into()
}

/// Reads what the endpoint says to a call without conditions. Releases before 2.4.5 answer with nothing, later ones
/// that it was processed. Anything else proves nothing of what was done.
fn read_answer(answer: Bytes) -> Result<()> {
    let bad = |what| Error::new(ErrorKind::Protocol, what).with_effect(Effect::Unknown);
    match pb::MutateRowsResponse::decode(answer) {
        Ok(answer) if answer.processed != Some(false) => Ok(()),
        Ok(_) => Err(bad(
            "the endpoint says that conditions failed, and there were none",
        )),
        Err(error) => Err(bad("the endpoint's answer can't be read").with_source(error)),
    }
}

fn explain(error: Error) -> Error {
    match error.kind() {
        ErrorKind::EndpointMissing => error.with_hint(super::partitioned_table::ATTACH_ENDPOINT),
        _ => error,
    }
}

fn classify(error: Error) -> Outcome {
    match error.kind() {
        _ if error.is_outcome_unknown() => Outcome::Unknown(error),
        ErrorKind::PartitionCut => Outcome::Refused(error),
        _ => Outcome::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_says_nothing_or_processed_is_a_commit() {
        let answer = |processed| pb::MutateRowsResponse { processed }.encode_to_vec().into();
        assert!(read_answer(answer(None)).is_ok() && read_answer(answer(Some(true))).is_ok());
        for odd in [answer(Some(false)), Bytes::from_static(b"\xff\xff")] {
            let error = read_answer(odd).unwrap_err();
            assert!(error.is_outcome_unknown(), "{error}");
        }
    }
}
