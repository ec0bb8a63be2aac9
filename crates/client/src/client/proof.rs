//! Proof that a region server honours the conditions of a [`MultiCall`], before anything relies on
//! it.
//!
//! A server before 2.4 ignores conditions and applies the mutations. Each client proves each start
//! of a server with one call.

use std::{
    borrow::Cow,
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    ActionAnswer, CallKind, MultiCall, RegionAction, RegionGuard, ServingRegion, Table, Verdict, multi,
};
use crate::{
    cluster::{Operation, Proofs},
    error::{Effect, Error, ErrorKind, Result},
    model::{Comparator, Comparison, Condition, Delete, Durability, Filter, ServerName},
    wire::{condition, pb},
};

/// A column that no row has.
const PROBE: Bytes = Bytes::from_static(b"hbase-txn.probe");

/// A guard that lets a call pass if another guard does and the server is proven.
struct Proven<'a> {
    guard: &'a dyn RegionGuard,
    proofs: &'a Proofs,
    /// The server to which it stopped a call.
    unproven: Mutex<Option<ServerName>>,
}

impl RegionGuard for Proven<'_> {
    fn check(&self, serving: ServingRegion<'_>) -> Verdict {
        match self.guard.check(serving) {
            Verdict::Pass if !self.proofs.has(serving.server) => {
                let mut unproven = self.unproven.lock().unwrap_or_else(PoisonError::into_inner);
                *unproven = Some(serving.server.clone());
                Verdict::Stop(Error::new(ErrorKind::Server, "the server must be probed first"))
            }
            verdict => verdict,
        }
    }

    fn is_for_one_opening(&self) -> bool {
        self.guard.is_for_one_opening()
    }
}

/// A guard that records the server of the last attempt.
#[derive(Default)]
struct Visited(Mutex<Option<ServerName>>);

impl RegionGuard for Visited {
    fn check(&self, serving: ServingRegion<'_>) -> Verdict {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(serving.server.clone());
        Verdict::Pass
    }
}

impl Table {
    /// Sends the actions, at least one of which has a condition, to a server that is proven to
    /// honour conditions.
    pub(super) async fn multi_proven(
        &self,
        name: &'static str,
        call: &MultiCall,
        guard: &dyn RegionGuard,
        deadline: Instant,
    ) -> Result<Vec<ActionAnswer>> {
        let proofs = &self.connection.shared.cluster.proofs;
        let mut effect = Effect::None;
        loop {
            let proven = Proven {
                guard,
                proofs,
                unproven: Mutex::default(),
            };
            let error = match self.send_multi(name, call, &proven, deadline).await {
                Ok(answers) => return Ok(answers),
                Err(error) => error,
            };
            // An earlier attempt than the stopped one may have been applied.
            if error.is_outcome_unknown() {
                effect = Effect::Unknown;
            }
            let unproven = proven
                .unproven
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner);
            let proof = match (unproven, probe(call)) {
                (Some(server), Some(probe)) => self.prove(server, &probe, deadline).await,
                _ => Err(error),
            };
            proof.map_err(|error| error.with_effect(effect))?;
        }
    }

    /// Returns whether a server is proven to honour conditions, after a probe if it was not probed
    /// before. The probe goes to the row of a call with a condition, whose region may have moved: then
    /// another server is proven.
    pub(super) async fn prove_server(
        &self,
        server: &ServerName,
        call: &MultiCall,
        deadline: Instant,
    ) -> Result<bool> {
        let proofs = &self.connection.shared.cluster.proofs;
        if let (false, Some(probe)) = (proofs.has(server), probe(call)) {
            self.prove(server.clone(), &probe, deadline).await?;
        }
        Ok(proofs.has(server))
    }

    /// Probes the server of a probe's row, unless the expected server was proven meanwhile.
    async fn prove(&self, expected: ServerName, probe: &MultiCall, deadline: Instant) -> Result<()> {
        const OPERATION: &str = "proving conditions";
        let proofs = &self.connection.shared.cluster.proofs;
        let _turn = proofs
            .turn(&expected, deadline)
            .await
            .map_err(|error| error.at_operation(OPERATION).at_table(&self.name))?;
        if proofs.has(&expected) {
            return Ok(());
        }
        let operation = Operation {
            name: OPERATION,
            table: &self.name,
            row: Cow::Borrowed(&probe.row),
            kind: probe.kind,
            deadline,
        };
        let visited = Visited::default();
        let honours = self
            .call_guarded_region(
                operation,
                "Multi",
                &visited,
                |region| probe.message(region),
                |answer, block| match says_nothing(&answer) {
                    true => Ok(false),
                    false => multi::read(&probe.actions, answer, block).map(|answers| is_refused(&answers)),
                },
            )
            .await
            // It changes nothing of the caller's, even if its answer was lost.
            .map_err(|error| error.with_effect(Effect::None))?;
        // The last visited server is the one that answered.
        let visited = visited.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let server = visited.unwrap_or(expected);
        if honours {
            proofs.add(server);
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ConditionsUnsupported,
            "the region server applies changes whose condition does not hold",
        )
        .at_operation(OPERATION)
        .at_table(&self.name)
        .at_server(&server.address())
        .with_hint("locks, latches and conditional changes need HBase 2.4 or later on every region server"))
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
        kind: CallKind::IdempotentWrite,
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
            kind: CallKind::Write,
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
