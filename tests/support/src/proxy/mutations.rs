//! The mutations in a request, by the numbers of their fields.

use bytes::{Buf, Bytes};
use prost::{Message, encoding::decode_varint};

/// A mutation, as far as the tests need it.
#[derive(Clone, PartialEq, Message)]
pub struct SentMutation {
    #[prost(bytes = "bytes", tag = "1")]
    pub row: Bytes,
    #[prost(enumeration = "Durability", tag = "6")]
    durability: i32,
}

/// The numbers of HBase's `MutationProto.Durability`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Durability {
    UseDefault = 0,
    SkipWal = 1,
    AsyncWal = 2,
    SyncWal = 3,
    FsyncWal = 4,
}

#[derive(Clone, PartialEq, Message)]
struct MultiRequest {
    #[prost(message, repeated, tag = "1")]
    regions: Vec<RegionAction>,
}

#[derive(Clone, PartialEq, Message)]
struct RegionAction {
    #[prost(message, repeated, tag = "3")]
    actions: Vec<Action>,
}

#[derive(Clone, PartialEq, Message)]
struct Action {
    #[prost(message, optional, tag = "2")]
    mutation: Option<SentMutation>,
}

#[derive(Clone, PartialEq, Message)]
struct ServiceRequest {
    #[prost(message, optional, tag = "2")]
    call: Option<ServiceCall>,
}

#[derive(Clone, PartialEq, Message)]
struct ServiceCall {
    #[prost(bytes = "bytes", tag = "4")]
    request: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct MutateRowsRequest {
    #[prost(message, repeated, tag = "1")]
    mutations: Vec<SentMutation>,
}

/// Returns the mutations in the frame of a request; none for other methods.
pub(super) fn of_request(method: &str, frame: &Bytes) -> Vec<SentMutation> {
    let mut message = frame.slice(4..);
    let header = decode_varint(&mut message).unwrap();
    message.advance(usize::try_from(header).unwrap());
    match method {
        "Multi" => MultiRequest::decode_length_delimited(message)
            .unwrap()
            .regions
            .into_iter()
            .flat_map(|region| region.actions)
            .filter_map(|action| action.mutation)
            .collect(),
        "ExecService" => ServiceRequest::decode_length_delimited(message)
            .unwrap()
            .call
            .map(|call| MutateRowsRequest::decode(call.request).unwrap().mutations)
            .unwrap_or_default(),
        _ => Vec::new(),
    }
}
