//! What a region's endpoint is asked to see what it can do, without changing anything.

use bytes::Bytes;
use prost::Message;

use super::gate::{METHOD, SERVICE};
use crate::{
    client::EndpointCall,
    error::{Error, ErrorKind, Result},
    wire::{condition, pb},
};

/// Two conditions that exclude each other, and nothing else: a server that does not answer false does not honour
/// conditions, and would apply what stands under them.
pub(crate) fn contradiction(row: &Bytes, family: &Bytes) -> EndpointCall {
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
pub(crate) fn is_refused(answer: Bytes) -> Result<bool> {
    let answer = pb::MutateRowsResponse::decode(answer).map_err(|error| {
        Error::new(ErrorKind::Protocol, "the endpoint's answer can't be read").with_source(error)
    })?;
    Ok(answer.processed == Some(false))
}
