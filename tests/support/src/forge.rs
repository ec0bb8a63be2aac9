//! Messages that the library would never send, by the numbers of their fields.

use bytes::Bytes;
use hbase_txn::client::EndpointCall;
use prost::Message;

#[derive(Message)]
struct MutateRowsRequest {
    #[prost(message, repeated, tag = "1")]
    mutations: Vec<Mutation>,
}

#[derive(Message)]
struct Mutation {
    #[prost(bytes = "bytes", tag = "1")]
    row: Bytes,
    #[prost(int32, tag = "2")]
    kind: i32,
    #[prost(message, repeated, tag = "3")]
    families: Vec<Family>,
}

#[derive(Message)]
struct Family {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(message, repeated, tag = "2")]
    columns: Vec<Column>,
}

#[derive(Message)]
struct Column {
    #[prost(bytes = "bytes", tag = "1")]
    qualifier: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

const PUT: i32 = 2;

/// An unchecked transaction on the region of `at`: puts of `q`, each a row and a family.
pub fn transaction(at: &'static str, puts: &[(&'static str, &'static str)]) -> EndpointCall {
    let mutations = puts
        .iter()
        .map(|(row, family)| Mutation {
            row: (*row).into(),
            kind: PUT,
            families: vec![Family {
                name: (*family).into(),
                columns: vec![Column {
                    qualifier: "q".into(),
                    value: "forged".into(),
                }],
            }],
        })
        .collect();
    EndpointCall::new(
        at,
        "MultiRowMutationService",
        "MutateRows",
        MutateRowsRequest { mutations }.encode_to_vec(),
    )
}
