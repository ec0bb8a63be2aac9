//! Calls whose gets and mutations are encoded before, once for all attempts.

use bytes::Bytes;
use prost::Message;

use super::pb;

/// A [`pb::GetRequest`].
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncodedGetRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) region: Option<pb::RegionSpecifier>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) get: Option<Bytes>,
}

/// A [`pb::MutateRequest`].
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncodedMutateRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) region: Option<pb::RegionSpecifier>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) mutation: Option<Bytes>,
    #[prost(uint64, optional, tag = "4")]
    pub(crate) nonce_group: Option<u64>,
}

/// A [`pb::MultiRequest`].
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncodedMultiRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) region_action: Vec<EncodedRegionAction>,
    #[prost(uint64, optional, tag = "2")]
    pub(crate) nonce_group: Option<u64>,
}

impl EncodedMultiRequest {
    /// Returns a call without nonces.
    pub(crate) fn new(region_action: Vec<EncodedRegionAction>) -> Self {
        Self {
            region_action,
            nonce_group: None,
        }
    }
}

/// A [`pb::RegionAction`].
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncodedRegionAction {
    #[prost(message, optional, tag = "1")]
    pub(crate) region: Option<pb::RegionSpecifier>,
    #[prost(bool, optional, tag = "2")]
    pub(crate) atomic: Option<bool>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) action: Vec<EncodedAction>,
    #[prost(message, optional, tag = "4")]
    pub(crate) condition: Option<pb::Condition>,
}

/// A [`pb::Action`].
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncodedAction {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) index: Option<u32>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) mutation: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(crate) get: Option<Bytes>,
}

/// A [`pb::MultiResponse`] to mutations, whose results are empty and are not read.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MutationsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) region_action_result: Vec<MutationsResult>,
    #[prost(message, optional, tag = "3")]
    pub(crate) region_statistics: Option<pb::MultiRegionLoadStats>,
}

/// A [`pb::RegionActionResult`].
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MutationsResult {
    #[prost(message, repeated, tag = "1")]
    pub(crate) result_or_exception: Vec<MutationResult>,
    #[prost(message, optional, tag = "2")]
    pub(crate) exception: Option<pb::NameBytesPair>,
}

/// A [`pb::ResultOrException`].
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MutationResult {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) index: Option<u32>,
    #[prost(message, optional, boxed, tag = "3")]
    pub(crate) exception: Option<Box<pb::NameBytesPair>>,
}
