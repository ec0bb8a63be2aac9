//! Probes of a region's endpoint, which change nothing.

use bytes::Bytes;
use hbase_client::{
    Durability, Effect, EndpointCall, Error as ClientError, Mutation, Table,
    low_level::{MutationMessage, condition, pb},
};
use prost::Message;

use crate::error::{ClientErrorKind, Error, Result};

pub(in crate::txn) const ATTACH_ENDPOINT: &str = "attach MultiRowMutationEndpoint to the table";
pub(in crate::txn) const SERVICE: &str = "MultiRowMutationService";
pub(in crate::txn) const METHOD: &str = "MutateRows";
/// The number of the field `mutation_request` in `MutateRowsRequest`.
pub(in crate::txn) const MUTATION_REQUEST: u32 = 1;

/// Returns whether the endpoint honours conditions in the region of a row. Changes nothing.
///
/// # Errors
///
/// Returns an error if the region has no endpoint or does not answer within the table's operation
/// timeout.
pub async fn honours_conditions(table: &Table, row: &Bytes, family: &Bytes) -> Result<bool> {
    let answer = table.call_endpoint(&contradiction(row, family)).await;
    is_refused(answer.map_err(without_effect)?)
}

/// Proves that the endpoint answers in the region of a row. Sends an empty transaction, which every
/// version answers and which changes nothing.
///
/// # Errors
///
/// Returns [`EndpointMissing`](ClientErrorKind::EndpointMissing) if the endpoint does not answer.
pub(in crate::txn) async fn prove_endpoint(table: &Table, row: Bytes) -> Result<()> {
    let probe = EndpointCall::new(row, SERVICE, METHOD, Bytes::new()).idempotent();
    match table.call_endpoint(&probe).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ClientErrorKind::EndpointMissing => Err(Error::new(
            ClientErrorKind::EndpointMissing,
            "MultiRowMutationEndpoint does not answer on the table",
        )
        .with_source(error)
        .with_hint(ATTACH_ENDPOINT)),
        Err(error) => Err(without_effect(error).into()),
    }
}

/// A probe changes nothing, even if its answer was lost.
fn without_effect(error: ClientError) -> ClientError {
    error.with_effect(Effect::None)
}

/// Returns a call with two conditions that exclude each other and no mutations. A server that does
/// not answer `false` ignores conditions and would apply mutations under them.
pub(super) fn contradiction(row: &Bytes, family: &Bytes) -> EndpointCall {
    let values = [Bytes::from_static(b"0"), Bytes::from_static(b"1")];
    let request = pb::MutateRowsRequest {
        condition: values
            .iter()
            .map(|value| condition::cell_equals(row, family, &Bytes::new(), Some(value)))
            .collect(),
        ..pb::MutateRowsRequest::default()
    };
    EndpointCall::new(row.clone(), SERVICE, METHOD, request.encode_to_vec()).idempotent()
}

/// Returns a call with these mutations.
pub(super) fn transaction(row: Bytes, mutations: &[Mutation]) -> EndpointCall {
    let mut message = Vec::new();
    for mutation in mutations {
        MutationMessage::new(mutation, Durability::AsyncWal).encode_field(MUTATION_REQUEST, &mut message);
    }
    EndpointCall::new(row, SERVICE, METHOD, message).idempotent()
}

/// Returns whether the endpoint rejected the contradiction.
pub(super) fn is_refused(answer: Bytes) -> Result<bool> {
    let answer = pb::MutateRowsResponse::decode(answer).map_err(|error| {
        Error::new(ClientErrorKind::Protocol, "the endpoint's answer can't be read").with_source(error)
    })?;
    Ok(answer.processed == Some(false))
}
