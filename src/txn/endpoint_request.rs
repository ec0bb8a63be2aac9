//! A request to the endpoint of one region, encoded once. No I/O.
//!
//! `MutateRowsRequest` consists of two repeated fields. So the bytes of two requests, one after the
//! other, are the request with the mutations and conditions of both.

use bytes::{Bytes, BytesMut};
use hbase_client::{
    Durability, Mutation, Partition,
    low_level::{convert, pb},
};
use prost::Message;

use super::servers::Needs;

/// A request to the endpoint of one region.
#[derive(Clone, Debug)]
pub(super) struct EndpointRequest {
    /// The partitions that must be whole in the region. The first one is the address.
    pub(super) partitions: Vec<Partition>,
    pub(super) message: Bytes,
    /// Whether there are conditions.
    pub(super) conditional: bool,
    /// Whether records are written, in which case the request may be sent again.
    pub(super) recorded: bool,
    /// Whether there are mutations.
    pub(super) mutates: bool,
}

impl EndpointRequest {
    /// Encodes a request, with one durability for all mutations.
    pub(super) fn new(
        partition: &Partition,
        mutations: &[Mutation],
        conditions: Vec<pb::Condition>,
        durability: Durability,
        recorded: bool,
    ) -> Self {
        Self {
            partitions: vec![partition.clone()],
            conditional: !conditions.is_empty(),
            recorded,
            mutates: !mutations.is_empty(),
            message: encode(mutations, conditions, durability),
        }
    }

    /// Concatenates requests that are all recorded or all not, and further encoded mutations.
    pub(super) fn concat(requests: &[&Self], further: &[Bytes]) -> Self {
        let messages = || requests.iter().map(|request| &request.message).chain(further);
        let mut message = BytesMut::with_capacity(messages().map(Bytes::len).sum());
        messages().for_each(|part| message.extend_from_slice(part));
        let mut partitions: Vec<Partition> = Vec::new();
        for request in requests {
            partitions.extend(request.partitions.iter().cloned());
            partitions.dedup();
        }
        Self {
            partitions,
            message: message.freeze(),
            conditional: requests.iter().any(|request| request.conditional),
            recorded: requests.iter().any(|request| request.recorded),
            mutates: requests.iter().any(|request| request.mutates),
        }
    }

    /// Returns whether executing the request twice has the effect of executing it once.
    pub(super) fn is_idempotent(&self) -> bool {
        self.recorded || !self.mutates
    }

    /// Returns what its server must be proven to do.
    pub(super) fn needs(&self) -> Needs {
        Needs {
            conditions: self.conditional,
            clock: self.recorded,
            ..Needs::default()
        }
    }
}

/// Encodes mutations and conditions as a part of a request.
pub(super) fn encode(
    mutations: &[Mutation],
    conditions: Vec<pb::Condition>,
    durability: Durability,
) -> Bytes {
    let message = |mutation| pb::MutationProto {
        durability: Some(convert::durability_code(durability)),
        ..convert::mutation_message(mutation)
    };
    let request = pb::MutateRowsRequest {
        mutation_request: mutations.iter().map(message).collect(),
        condition: conditions,
        ..pb::MutateRowsRequest::default()
    };
    request.encode_to_vec().into()
}

#[cfg(test)]
mod tests {
    use hbase_client::{PartitionRule, Put, low_level::condition};

    use super::*;

    #[test]
    fn concatenated_requests_are_one_request_with_all_parts() {
        let rule = PartitionRule::prefix_length(3).unwrap();
        let request = |row: &'static str| {
            let put = Put::new(row).cell("f", "q", row);
            let absent = condition::cell_equals(&row.into(), &"f".into(), &"r".into(), None);
            let (partition, mutations) = (rule.partition_of(row.as_bytes()), [put.into()]);
            EndpointRequest::new(&partition, &mutations, vec![absent], Durability::SyncWal, true)
        };
        let version = encode(
            &[Put::new("aaaV").cell("f", "q", "v").into()],
            Vec::new(),
            Durability::SyncWal,
        );
        let whole = EndpointRequest::concat(
            &[&request("aaa1"), &request("aaa2"), &request("bbb1")],
            &[version],
        );
        let message = pb::MutateRowsRequest::decode(whole.message.clone()).unwrap();
        let rows: Vec<_> = message
            .mutation_request
            .iter()
            .filter_map(|mutation| mutation.row.clone())
            .collect();
        assert_eq!(rows, ["aaa1", "aaa2", "bbb1", "aaaV"]);
        assert_eq!(message.condition.len(), 3);
        let prefixes: Vec<_> = whole
            .partitions
            .iter()
            .map(|partition| partition.prefix().to_vec())
            .collect();
        assert_eq!(prefixes, [b"aaa", b"bbb"]);
        assert!(whole.is_idempotent() && whole.needs().conditions && whole.needs().clock);
    }
}
