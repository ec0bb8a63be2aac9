//! What a region's endpoint is asked to see what it can do, without changing anything.

use bytes::Bytes;
use hbase_client::{
    EndpointCall, Table,
    low_level::{condition, pb},
};
use prost::Message;

use crate::error::{ClientErrorKind, Error, Result};

pub(super) const ATTACH_ENDPOINT: &str = "attach MultiRowMutationEndpoint to the table";
pub(super) const SERVICE: &str = "MultiRowMutationService";
pub(super) const METHOD: &str = "MutateRows";

/// Asks the region that has a row whether its endpoint honours conditions. Changes nothing.
///
/// # Errors
///
/// Returns an error if the region has no endpoint or does not answer within the table's operation
/// timeout.
pub async fn honours_conditions(table: &Table, row: &Bytes, family: &Bytes) -> Result<bool> {
    is_refused(table.call_endpoint(&contradiction(row, family)).await?)
}

/// Proves that the endpoint answers in the region of a row, by a transaction with nothing in it,
/// which every version answers and none does anything for.
///
/// # Errors
///
/// Returns [`EndpointMissing`](ClientErrorKind::EndpointMissing) if it does not.
pub(super) async fn prove_endpoint(table: &Table, row: Bytes) -> Result<()> {
    let probe = EndpointCall::new(row, SERVICE, METHOD, Bytes::new()).idempotent();
    match table.call_endpoint(&probe).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ClientErrorKind::EndpointMissing => Err(Error::new(
            ClientErrorKind::EndpointMissing,
            "MultiRowMutationEndpoint does not answer on the table",
        )
        .with_source(error)
        .with_hint(ATTACH_ENDPOINT)),
        Err(error) => Err(error.into()),
    }
}

/// Two conditions that exclude each other, and nothing else: a server that does not answer false
/// does not honour conditions, and would apply what stands under them.
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

/// Whether conditions were honoured that can't hold.
pub(super) fn is_refused(answer: Bytes) -> Result<bool> {
    let answer = pb::MutateRowsResponse::decode(answer).map_err(|error| {
        Error::new(ClientErrorKind::Protocol, "the endpoint's answer can't be read").with_source(error)
    })?;
    Ok(answer.processed == Some(false))
}
