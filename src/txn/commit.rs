//! Sends the transaction of one group, until it has an outcome or its time is over.
//!
//! At the beginning of every turn of the loop nothing of the transaction is applied, and nothing that was sent can be:
//! an attempt either was refused before it was applied, or answered that a condition does not hold, and, where it
//! leaves a record, was fenced off.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use prost::Message;
use tokio::time::{Instant, timeout_at};

use super::{
    admission::{Admission, Turn},
    digest::Digest,
    gate::{METHOD, SERVICE},
    group_commit::SendGroup,
    outcome::{Committed, FailedCondition, Outcome, Rejection},
    part::Ending,
    partition_version,
    partitioned_table::PartitionedTable,
    plan::Group,
    read::Rows,
    record::{SeenRecord, State},
    sequence::Sequence,
    servers::Needs,
    settle::{Claim, Fenced, Unsettled},
};
use crate::{
    client::{EndpointCall, Pauses},
    error::{Effect, Error, ErrorKind, Result},
    model::{BytesBinary, Check, Comparison, Condition, Durability, Mutation},
    wire::{condition, convert, pb},
};

/// A group that may be sent.
pub(super) struct Prepared<'a> {
    pub(super) group: &'a Group,
    pub(super) sequence: Sequence<'a>,
    pub(super) durability: Durability,
    claim: Option<Claim>,
}

/// What is sent at once.
struct Attempt<'a> {
    mutations: Cow<'a, [Mutation]>,
    conditions: Vec<pb::Condition>,
}

/// What earlier attempts found.
#[derive(Default)]
struct Known {
    record: Option<SeenRecord>,
    /// The rows of the conditions.
    rows: Option<Rows>,
}

impl PartitionedTable {
    /// Checks a group and sends it when its turn comes.
    pub(super) async fn commit_group(&self, group: Group, deadline: Instant) -> Outcome {
        let ending = Ending::of(&group.parts);
        let outcome = self.commit_checked(group, deadline).await;
        ending.tell(&outcome);
        outcome
    }

    async fn commit_checked(&self, group: Group, deadline: Instant) -> Outcome {
        let prepared = match self.prepare(&group, deadline) {
            Ok(prepared) => prepared,
            Err(error) => return Outcome::Refused(self.blame(&group, error)),
        };
        match self.admission() {
            Some(admission) if prepared.may_share(self) => {
                let durability = prepared.durability;
                admission.commit_simple(&group, durability, deadline, self).await
            }
            admission => self.commit_now(prepared, admission, deadline).await,
        }
    }

    fn blame(&self, group: &Group, error: Error) -> Error {
        error
            .at_operation("transaction")
            .at_table(self.name())
            .at_row(&BytesBinary(group.partition.prefix()))
    }

    /// Sends what was prepared. Each of its calls waits for its turn, unless the caller has it.
    async fn commit_now(
        &self,
        prepared: Prepared<'_>,
        admission: Option<&Arc<Admission>>,
        deadline: Instant,
    ) -> Outcome {
        let blame = |error| self.blame(prepared.group, error);
        if self.watch().is_due()
            && let Err(changed) = self.read_rule_again(deadline).await
        {
            return Outcome::Refused(blame(changed));
        }
        let ended = match self.terms().endpoint {
            true => self.commit_by_endpoint(&prepared, admission, deadline).await,
            false => self.commit_by_multi(&prepared, admission, deadline).await,
        };
        match ended {
            Ok(outcome) => outcome,
            Err(error) => {
                let error = blame(explain(error));
                classify(error, prepared.claim)
            }
        }
    }

    fn prepare<'a>(&self, group: &'a Group, deadline: Instant) -> Result<Prepared<'a>> {
        let terms = self.terms();
        let durability = group.check(terms)?;
        let sequence = Sequence::fold(&group.mutations, &terms.limits)?;
        if sequence.replaces() && !terms.endpoint {
            return Err(Error::invalid(
                "a cell is deleted and written anew in one transaction, which needs the endpoint's conditions",
            )
            .with_hint("leave the delete out, or open the table with its endpoint"));
        }
        let digest = || Digest::of(&group.mutations, &group.conditions, &group.parts);
        let claim = match &group.record {
            Some(wish) => {
                let claim = Claim::of_wish(self, &group.partition, wish, digest)?;
                claim.check_window(deadline)?;
                Some(claim)
            }
            None => None,
        };
        Ok(Prepared {
            sequence,
            durability,
            claim,
            group,
        })
    }

    async fn commit_by_endpoint(
        &self,
        prepared: &Prepared<'_>,
        admission: Option<&Arc<Admission>>,
        deadline: Instant,
    ) -> Result<Outcome> {
        let mut known = Known::default();
        if let Some(claim) = &prepared.claim
            && prepared.group.record.as_ref().is_some_and(|wish| wish.of_caller)
        {
            known.record = claim.read(deadline).await?;
            if known.record.as_ref().is_some_and(is_committed) {
                return Ok(prepared.committed(true));
            }
        }
        let mut pauses = Pauses::after_conflicts();
        loop {
            let turn = turn(admission, prepared, deadline).await?;
            let attempt = self.form(prepared, &mut known, deadline).await?;
            if self.send_attempt(prepared, attempt, deadline).await? {
                return Ok(prepared.committed(false));
            }
            drop(turn);
            if let Some(claim) = &prepared.claim {
                // Another copy of the attempt may be on its way, which would find the conditions met.
                let fenced = claim.fence(known.record.as_ref(), deadline).await;
                match fenced.map_err(unless_settled)? {
                    Fenced::Stands(record) => known.record = Some(record),
                    Fenced::Found(found) if is_committed(&found) => {
                        return Ok(prepared.committed(found.record.writer != claim.writer));
                    }
                    Fenced::Found(_) => return Err(settled_elsewhere()),
                }
            }
            if let Some(rejection) = self.judge(prepared, &mut known, deadline).await? {
                return Ok(Outcome::Rejected(rejection));
            }
            // What was in the way is there no more, or was not one of the caller's conditions.
            if !pauses.wait_before(deadline).await {
                return Err(Error::new(
                    ErrorKind::DeadlineExceeded,
                    "gave up, nothing was applied: other writers were in the way each time",
                )
                .with_retryable(true));
            }
        }
    }

    /// What is sent next. Reads what must be known for that.
    async fn form<'a>(
        &self,
        prepared: &'a Prepared<'_>,
        known: &mut Known,
        deadline: Instant,
    ) -> Result<Attempt<'a>> {
        let Prepared { group, sequence, .. } = prepared;
        if known.rows.is_none() && group.conditions.iter().any(is_not_equal) {
            known.rows = Some(self.rows_of_conditions(group, deadline).await?);
        }
        let mut conditions = Vec::new();
        for condition in group.all_conditions() {
            let absent = known
                .rows
                .as_ref()
                .is_none_or(|rows| rows.value_is_absent(condition));
            conditions.extend(condition::condition_messages(condition, absent));
        }
        let as_they_are = sequence.mutations().filter(|_| !group.guard_timestamps);
        let mut mutations = if let Some(mutations) = as_they_are {
            Cow::Borrowed(mutations)
        } else {
            self.know_the_time(&group.partition, deadline).await?;
            let seen = self
                .newest_timestamps(&group.partition, sequence, deadline)
                .await?;
            let stamped = sequence.stamp(self.servers().now(), |row| seen.get(row).copied().unwrap_or(0))?;
            conditions.extend(
                stamped
                    .guards
                    .iter()
                    .map(|cell| condition::absent_from(&cell.row, &cell.family, &cell.qualifier, cell.from)),
            );
            Cow::Owned(stamped.mutations)
        };
        if self.terms().partition_version
            && !mutations.is_empty()
            && let Some(bump) = partition_version::bump(&group.partition)
        {
            mutations.to_mut().push(bump.into());
        }
        for part in &group.parts {
            let changes = timeout_at(deadline, part.changes()).await;
            let changes = changes.map_err(|_| no_time_for_parts())??;
            conditions.extend(changes.seen);
            if !changes.mutations.is_empty() {
                mutations.to_mut().extend(changes.mutations);
            }
        }
        if let Some(claim) = &prepared.claim {
            conditions.push(claim.condition(known.record.as_ref()));
            mutations
                .to_mut()
                .push(claim.committed(known.record.as_ref()).into());
        }
        Ok(Attempt {
            mutations,
            conditions,
        })
    }

    /// Sends an attempt. False when a condition does not hold.
    async fn send_attempt(
        &self,
        prepared: &Prepared<'_>,
        attempt: Attempt<'_>,
        deadline: Instant,
    ) -> Result<bool> {
        let partition = &prepared.group.partition;
        let conditional = !attempt.conditions.is_empty();
        let request = pb::MutateRowsRequest {
            mutation_request: attempt
                .mutations
                .iter()
                .map(|mutation| pb::MutationProto {
                    durability: Some(convert::durability_code(prepared.durability)),
                    ..convert::mutation_message(mutation)
                })
                .collect(),
            condition: attempt.conditions,
            ..pb::MutateRowsRequest::default()
        };
        let call = EndpointCall::new(
            partition.first_key().clone(),
            SERVICE,
            METHOD,
            request.encode_to_vec(),
        );
        // With a record, or with nothing to apply, twice is the same as once.
        let idempotent = prepared.claim.is_some() || attempt.mutations.is_empty();
        let call = if idempotent { call.idempotent() } else { call };
        let needs = Needs {
            conditions: conditional,
            clock: prepared.claim.is_some(),
            ..Needs::default()
        };
        let answer = self.call_gated(partition, &call, needs, deadline).await?;
        read_answer(answer, conditional)
    }

    /// The rejection, when conditions of the caller's do not hold as one consistent read shows them.
    async fn judge(
        &self,
        prepared: &Prepared<'_>,
        known: &mut Known,
        deadline: Instant,
    ) -> Result<Option<Rejection>> {
        let group = &prepared.group;
        if group.all_conditions().next().is_none() {
            return Ok(None);
        }
        let rows = self.rows_of_conditions(group, deadline).await?;
        let failed: Vec<_> = group
            .all_conditions()
            .filter(|condition| !condition.holds(rows.get(condition.row())))
            .map(|condition| failed(condition, &rows))
            .collect();
        known.rows = Some(rows);
        Ok((!failed.is_empty()).then(|| Rejection {
            partition: group.partition.clone(),
            failed,
        }))
    }
}

/// Waits for the turn of the partition, where one is taken at all.
pub(super) async fn turn(
    admission: Option<&Arc<Admission>>,
    prepared: &Prepared<'_>,
    deadline: Instant,
) -> Result<Option<Turn>> {
    match admission {
        Some(admission) => admission
            .enter(&prepared.group.partition, deadline)
            .await
            .map(Some),
        None => Ok(None),
    }
}

impl SendGroup for PartitionedTable {
    async fn send(&self, group: &Group, deadline: Instant) -> Outcome {
        match self.prepare(group, deadline) {
            // Who calls this has the turn.
            Ok(prepared) => self.commit_now(prepared, None, deadline).await,
            Err(error) => Outcome::Refused(self.blame(group, error)),
        }
    }
}

impl Prepared<'_> {
    /// Whether it asks for nothing but its mutations, and so may go in one call with others.
    fn may_share(&self, table: &PartitionedTable) -> bool {
        let group = self.group;
        group.conditions.is_empty()
            && group.parts.is_empty()
            && !group.guard_timestamps
            && self.claim.is_none()
            && !self.sequence.replaces()
            // Without it the results of each are told.
            && table.terms().endpoint
    }

    fn committed(&self, replayed: bool) -> Outcome {
        Outcome::Committed(Committed {
            partition: self.group.partition.clone(),
            rows: self.group.rows(),
            mutations: self.group.mutations.len(),
            replayed,
            results: Vec::new(),
        })
    }
}

fn is_committed(seen: &SeenRecord) -> bool {
    seen.record.state == State::Committed
}

fn is_not_equal(condition: &Condition) -> bool {
    matches!(
        condition.check,
        Check::Compare {
            comparison: Comparison::NotEqual,
            ..
        }
    )
}

fn failed(condition: &Condition, rows: &Rows) -> FailedCondition {
    let found = condition
        .column()
        .and_then(|(family, qualifier)| rows.get(condition.row())?.cell(family, qualifier));
    FailedCondition {
        label: condition.label_text().into_owned(),
        row: condition.row().clone(),
        found: found.cloned(),
    }
}

/// A fence that failed leaves the attempts before it open. One that finds the record of another transaction does not:
/// ours can't be applied over it.
fn unless_settled(error: Error) -> Error {
    match error.kind() {
        ErrorKind::IdReused => error,
        _ => error.with_effect(Effect::Unknown),
    }
}

fn no_time_for_parts() -> Error {
    Error::new(
        ErrorKind::DeadlineExceeded,
        "gave up, nothing was applied: a lock of the transaction was being renewed, or a latch read, until its time was over",
    )
    .with_retryable(true)
}

fn settled_elsewhere() -> Error {
    Error::new(
        ErrorKind::Aborted,
        "somebody else settled the transaction as not applied while it was being committed",
    )
    .with_hint("commit it again, if it is still wanted")
}

/// Reads what the endpoint says: whether the conditions held. Releases before 2.4.5 answer a call without conditions
/// with nothing, later ones that it was processed. Anything else proves nothing of what was done.
fn read_answer(answer: Bytes, conditional: bool) -> Result<bool> {
    let bad = |what| Error::new(ErrorKind::Protocol, what).with_effect(Effect::Unknown);
    match pb::MutateRowsResponse::decode(answer).map(|answer| answer.processed) {
        Ok(Some(true)) => Ok(true),
        Ok(None) if !conditional => Ok(true),
        Ok(Some(false)) if conditional => Ok(false),
        Ok(Some(false)) => Err(bad(
            "the endpoint says that conditions failed, and there were none",
        )),
        Ok(None) => Err(bad("the endpoint does not say whether the conditions held")),
        Err(error) => Err(bad("the endpoint's answer can't be read").with_source(error)),
    }
}

fn explain(error: Error) -> Error {
    match error.kind() {
        ErrorKind::EndpointMissing => error.with_hint(super::partitioned_table::ATTACH_ENDPOINT),
        _ => error,
    }
}

fn classify(error: Error, claim: Option<Claim>) -> Outcome {
    match error.kind() {
        _ if error.is_outcome_unknown() => Outcome::Unknown(Unsettled::new(error, claim)),
        ErrorKind::PartitionCut
        | ErrorKind::PartitionRuleChanged
        | ErrorKind::ConditionsUnsupported
        | ErrorKind::AtomicityUnsupported
        | ErrorKind::ClockSkew
        | ErrorKind::IdReused => Outcome::Refused(error),
        _ => Outcome::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_says_what_was_asked_proves_anything() {
        let answer = |processed| pb::MutateRowsResponse { processed }.encode_to_vec().into();
        assert!(read_answer(answer(None), false).unwrap() && read_answer(answer(Some(true)), false).unwrap());
        assert!(read_answer(answer(Some(true)), true).unwrap());
        assert!(!read_answer(answer(Some(false)), true).unwrap());
        for (odd, conditional) in [
            (answer(Some(false)), false),
            (answer(None), true),
            (Bytes::from_static(b"\xff\xff"), true),
        ] {
            let error = read_answer(odd, conditional).unwrap_err();
            assert!(error.is_outcome_unknown(), "{error}");
        }
    }
}
