//! A request to the endpoint of one region, encoded once. No I/O.
//!
//! `MutateRowsRequest` consists of two repeated fields. So the bytes of several requests, one after the
//! other, are the request with the mutations and conditions of all.

use bytes::{Bytes, BytesMut};
use hbase_client::{
    Durability, Mutation,
    low_level::{MutationMessage, pb},
};
use prost::Message;

use crate::{
    partition::Partition,
    txn::proof::{probe::MUTATION_REQUEST, servers::Needs},
};

/// The approximate number of bytes of an encoded mutation besides its row and cells.
const OVERHEAD: usize = 32;

/// A request to the endpoint of one region.
#[derive(Clone, Debug)]
pub(in crate::txn) struct EndpointRequest {
    /// The partitions that must be whole in the region. The first one is the address.
    pub(in crate::txn) partitions: Vec<Partition>,
    mutations: Bytes,
    conditions: Bytes,
    /// Whether the request may be sent again, because it writes a record, or a copy is refused otherwise.
    pub(in crate::txn) repeatable: bool,
    /// Whether it sets the version of a partition, so that the server must be proven to refuse increments
    /// of what is no counter.
    holds: bool,
    /// The server's clock must have passed this timestamp when the request is sent.
    pub(in crate::txn) floor: u64,
}

impl EndpointRequest {
    /// Encodes a request, with one durability for all mutations.
    pub(in crate::txn) fn new<'a>(
        partition: &Partition,
        mutations: impl IntoIterator<Item = &'a Mutation> + Clone,
        conditions: Vec<pb::Condition>,
        durability: Durability,
        repeatable: bool,
    ) -> Self {
        let conditions = pb::MutateRowsRequest {
            condition: conditions,
            ..pb::MutateRowsRequest::default()
        };
        Self {
            partitions: vec![partition.clone()],
            mutations: encode_mutations(mutations, durability),
            conditions: conditions.encode_to_vec().into(),
            repeatable,
            holds: false,
            floor: 0,
        }
    }

    /// Sets the timestamp that the server's clock must have passed when the request is sent.
    pub(super) fn with_floor(mut self, floor: u64) -> Self {
        self.floor = floor;
        self
    }

    /// Declares that it sets the version of a partition.
    pub(super) fn that_holds(self, holds: bool) -> Self {
        Self { holds, ..self }
    }

    /// Concatenates requests that are all repeatable or all not, and further encoded mutations.
    pub(in crate::txn) fn concat(requests: &[&Self], further: &[Bytes]) -> Self {
        let mut partitions: Vec<Partition> = Vec::new();
        for request in requests {
            partitions.extend(request.partitions.iter().cloned());
            partitions.dedup();
        }
        let mutations = requests.iter().map(|request| &request.mutations);
        Self {
            partitions,
            mutations: concat(mutations.chain(further)),
            conditions: concat(requests.iter().map(|request| &request.conditions)),
            repeatable: requests.iter().any(|request| request.repeatable),
            holds: requests.iter().any(|request| request.holds),
            floor: requests.iter().map(|request| request.floor).max().unwrap_or(0),
        }
    }

    /// Returns the encoded `MutateRowsRequest`.
    pub(in crate::txn) fn message(&self) -> Bytes {
        if self.is_conditional() {
            concat([&self.mutations, &self.conditions].into_iter())
        } else {
            self.mutations.clone()
        }
    }

    /// Returns the number of bytes of the message.
    pub(in crate::txn) fn len(&self) -> usize {
        self.mutations.len() + self.conditions.len()
    }

    /// Returns whether there are conditions.
    pub(super) fn is_conditional(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// Returns whether executing the request twice has the effect of executing it once.
    pub(super) fn is_idempotent(&self) -> bool {
        self.repeatable || self.mutations.is_empty()
    }

    /// Returns whether it writes anything.
    pub(super) fn has_mutations(&self) -> bool {
        !self.mutations.is_empty()
    }

    /// Returns what its server must be proven to do.
    pub(in crate::txn) fn needs(&self) -> Needs {
        Needs {
            conditions: self.is_conditional(),
            clock: self.repeatable,
            refuses_increment: self.holds,
            ..Needs::default()
        }
    }
}

/// Encodes mutations as a part of a request.
pub(in crate::txn) fn encode_mutations<'a>(
    mutations: impl IntoIterator<Item = &'a Mutation> + Clone,
    durability: Durability,
) -> Bytes {
    let expected = mutations
        .clone()
        .into_iter()
        .map(|mutation| mutation.size() + OVERHEAD);
    let mut buffer = Vec::with_capacity(expected.sum());
    for mutation in mutations {
        MutationMessage::new(mutation, durability).encode_field(MUTATION_REQUEST, &mut buffer);
    }
    buffer.into()
}

fn concat<'a>(parts: impl Iterator<Item = &'a Bytes> + Clone) -> Bytes {
    let mut whole = BytesMut::with_capacity(parts.clone().map(Bytes::len).sum());
    parts.for_each(|part| whole.extend_from_slice(part));
    whole.freeze()
}

#[cfg(test)]
mod tests {
    use hbase_client::{Put, low_level::condition};

    use super::*;
    use crate::partition::PartitionRule;

    #[test]
    fn concatenated_requests_are_one_request_with_all_parts() {
        let rule = PartitionRule::prefix_length(3).unwrap();
        let request = |row: &'static str| {
            let put = Put::new(row).cell("f", "q", row);
            let absent = condition::cell_equals(&row.into(), &"f".into(), &"r".into(), None);
            let (partition, mutations) = (rule.partition_of(row.as_bytes()), [put.into()]);
            EndpointRequest::new(&partition, &mutations, vec![absent], Durability::SyncWal, true)
        };
        let version = [Put::new("aaaV").cell("f", "q", "v").into()];
        let version = encode_mutations(&version, Durability::SyncWal);
        let whole = EndpointRequest::concat(
            &[&request("aaa1"), &request("aaa2"), &request("bbb1")],
            &[version],
        );
        let message = pb::MutateRowsRequest::decode(whole.message()).unwrap();
        assert_eq!(message.encode_to_vec(), whole.message());
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
