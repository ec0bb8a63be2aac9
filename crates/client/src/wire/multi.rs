//! Calls whose gets and mutations are encoded before, once for all attempts.

use bytes::Bytes;
use prost::{Message, encoding};

use super::{
    convert,
    output::{Output, Part},
    pb,
};
use crate::model::RegionInfo;

/// The most bytes of an action besides its message: two tags, two lengths and the index.
const ACTION_OVERHEAD: usize = 16;

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
    /// [Encoded](EncodedRegionAction).
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(crate) region_action: Vec<Bytes>,
    #[prost(uint64, optional, tag = "2")]
    pub(crate) nonce_group: Option<u64>,
}

impl EncodedMultiRequest {
    /// Returns a call without nonces.
    pub(crate) fn new(region_action: Vec<Bytes>) -> Self {
        Self {
            region_action,
            nonce_group: None,
        }
    }
}

/// A [`pb::RegionAction`], to which encoded gets and mutations are added.
///
/// It is bytes from the start: a message for each action would be an eighth of the processor time of
/// a bulk write.
#[derive(Debug)]
pub(crate) struct EncodedRegionAction {
    message: Vec<u8>,
    actions: u32,
}

impl EncodedRegionAction {
    /// Creates a message without actions.
    pub(crate) fn new(region: &RegionInfo) -> Self {
        let mut message = Vec::new();
        encoding::message::encode(1, &convert::region_specifier(region), &mut message);
        Self { message, actions: 0 }
    }

    /// Makes room for this many actions and bytes of theirs.
    pub(crate) fn with_room(mut self, actions: usize, bytes: usize) -> Self {
        self.message.reserve(bytes + actions * ACTION_OVERHEAD);
        self
    }

    /// Lets all actions be applied or none.
    pub(crate) fn atomic(mut self) -> Self {
        self.message.number(2, 1);
        self
    }

    /// Lets the mutations be applied only if the condition holds. Follows the last mutation, because
    /// fields are in the order of their numbers.
    pub(crate) fn under(mut self, condition: &pb::Condition) -> Self {
        encoding::message::encode(4, condition, &mut self.message);
        self
    }

    /// Adds a get.
    pub(crate) fn get(&mut self, get: &[u8]) {
        self.add(3, get);
    }

    /// Adds a mutation.
    pub(crate) fn mutation(&mut self, mutation: &[u8]) {
        self.add(2, mutation);
    }

    fn add(&mut self, number: u32, message: &[u8]) {
        let action = Action {
            index: self.actions,
            number,
            message,
        };
        self.message.message(3, &action);
        self.actions += 1;
    }

    /// Returns the bytes of the message.
    pub(crate) fn finish(self) -> Bytes {
        self.message.into()
    }
}

/// A [`pb::Action`].
struct Action<'a> {
    /// Its place among the actions of the region.
    index: u32,
    /// The number of the field that has the message.
    number: u32,
    message: &'a [u8],
}

impl Part for Action<'_> {
    fn write(&self, output: &mut impl Output) {
        output.number(1, self.index.into());
        output.bytes(self.number, self.message);
    }

    fn expected_len(&self) -> usize {
        // A number and a message, both short.
        4 + self.message.len()
    }
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
