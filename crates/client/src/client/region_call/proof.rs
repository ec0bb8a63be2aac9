//! Proof that a region server honours the conditions of a [`MultiCall`], before anything relies on
//! it.
//!
//! A server before 2.4 ignores conditions and applies the mutations. Each client proves each start
//! of a server with one call.

use bytes::Bytes;

use super::{
    failed_attempt::{Cause, PROVING_CONDITIONS},
    multi,
};
use crate::{
    client::{ActionAnswer, MultiCall, RegionAction, Table},
    cluster::{Attempts, RegionLocation},
    error::{Error, ErrorKind},
    model::{Comparator, Comparison, Condition, Delete, Durability, Filter},
    wire::{condition, pb},
};

/// A column that no row has.
const PROBE: Bytes = Bytes::from_static(b"hbase-txn.probe");

impl Table {
    /// Proves that the server of a location honours conditions, if the call has some and that is not
    /// known yet. The probe goes to the row of the call.
    pub(in crate::client) async fn prove_conditions(
        &self,
        attempts: &Attempts<'_>,
        location: &RegionLocation,
        call: &MultiCall,
    ) -> Result<(), Cause> {
        let (server, proofs) = (&location.server, &self.connection.shared.cluster.proofs);
        if !call.has_conditions() || proofs.has(server, PROVING_CONDITIONS) {
            return Ok(());
        }
        let _turn = proofs
            .turn(server, PROVING_CONDITIONS, attempts.deadline())
            .await?;
        if proofs.has(server, PROVING_CONDITIONS) {
            return Ok(());
        }
        let probe = probe(call).ok_or_else(|| {
            let what = "a condition without a mutation can't be proven to be honoured";
            Error::new(ErrorKind::InvalidInput, what)
        })?;
        let request = probe.message(&location.region);
        let limit = attempts.probe_limit(location);
        let (answer, block) = self.call(location, "Multi", &request, limit).await?;
        if !says_nothing(&answer) && is_refused(&multi::read(&probe.actions, answer, block)?) {
            proofs.add(server.clone(), PROVING_CONDITIONS);
            return Ok(());
        }
        let what = "the region server applies changes whose condition does not hold";
        let error = Error::new(ErrorKind::ConditionsUnsupported, what).with_hint(
            "locks, latches and conditional changes need HBase 2.4 or later on every region server",
        );
        Err(error.into())
    }
}

/// Returns a conditional change of a row that the call changes. The condition does not hold, and a
/// server that ignores it changes only a cell that no row has.
fn probe(call: &MultiCall) -> Option<MultiCall> {
    let mutation = call.actions.iter().find_map(|action| match action {
        RegionAction::Conditional { mutations, .. } => mutations.first(),
        RegionAction::Get(_) | RegionAction::Atomic(_) => None,
    })?;
    let row = mutation.row().clone();
    let (delete, condition) = match mutation.families().next() {
        Some(family) => (
            Delete::new(row.clone()).version(family.clone(), PROBE, 1),
            condition::cell_equals(&row, family, &PROBE, Some(&PROBE)),
        ),
        // A delete of a whole row names no family.
        None => {
            let filter = Filter::value(Comparison::Equal, Comparator::binary(PROBE));
            let condition = Condition::matches(row.clone(), filter);
            (
                Delete::new(row.clone()).timestamp(0),
                condition::single_row_message(&condition)?,
            )
        }
    };
    Some(MultiCall {
        row,
        actions: vec![RegionAction::Conditional {
            mutations: vec![delete.into()],
            condition,
        }],
        durability: Durability::AsyncWal,
    })
}

fn is_refused(answers: &[ActionAnswer]) -> bool {
    matches!(answers, [ActionAnswer::Processed { processed: false, .. }])
}

/// Returns whether an answer is that of a server without conditions: it applied the change, and
/// reports nothing else.
fn says_nothing(answer: &pb::MultiResponse) -> bool {
    match answer.region_action_result.as_slice() {
        [result] => {
            let mut parts = result.result_or_exception.iter();
            result.processed.is_none()
                && result.exception.is_none()
                && parts.all(|part| part.exception.is_none())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Append, Mutation, Put};

    fn answer(processed: Option<bool>, exception: Option<pb::NameBytesPair>) -> pb::MultiResponse {
        pb::MultiResponse {
            region_action_result: vec![pb::RegionActionResult {
                result_or_exception: vec![pb::ResultOrException {
                    index: Some(0),
                    ..Default::default()
                }],
                processed,
                exception,
            }],
            ..Default::default()
        }
    }

    #[test]
    fn answer_without_processed_comes_from_an_old_server() {
        assert!(says_nothing(&answer(None, None)));
        assert!(!says_nothing(&answer(Some(false), None)));
        assert!(!says_nothing(&answer(Some(true), None)));
        // Such a call goes to another server, or is repeated.
        assert!(!says_nothing(&answer(None, Some(pb::NameBytesPair::default()))));
        assert!(!says_nothing(&pb::MultiResponse::default()));
    }

    #[test]
    fn probe_names_what_it_stands_for_and_changes_nothing() {
        let call = |mutation: Mutation| MultiCall {
            row: "a".into(),
            actions: vec![RegionAction::Conditional {
                mutations: vec![mutation],
                condition: pb::Condition::default(),
            }],
            durability: Durability::SyncWal,
        };
        for mutation in [
            Put::new("b").cell("f", "q", "v").into(),
            Append::new("b").cell("f", "q", "v").into(),
        ] {
            let probe = probe(&call(mutation)).unwrap();
            let [RegionAction::Conditional { mutations, condition }] = &probe.actions[..] else {
                panic!("{probe:?}");
            };
            assert_eq!((&probe.row[..], &condition.row[..]), (&b"b"[..], &b"b"[..]));
            assert_eq!(condition.family.as_deref(), Some(&b"f"[..]));
            let delete = Delete::new("b").version("f", PROBE, 1);
            assert_eq!(mutations[..], [delete.into()]);
        }
        let whole = probe(&call(Delete::new("b").into())).unwrap();
        assert!(
            matches!(&whole.actions[..], [RegionAction::Conditional { condition, .. }] if condition.filter.is_some())
        );
    }
}
