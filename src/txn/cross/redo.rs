//! The redo of a partition: what a committed transaction writes there, kept at home until it is applied.
//! No I/O.
//!
//! It is in the row of the attempt's record, in the family of versions, which has no TTL: `_version:d1` for
//! the partition after home, and so on. While there is one, the transaction is committed, whatever became
//! of its record.

use bytes::Bytes;
use hbase_client::{
    Delete, Durability, Mutation, Put, TableDescriptor,
    low_level::{DeleteScope, MutationParts, MutationStamp, pb},
};
use prost::Message;

use crate::{
    error::{ClientErrorKind, Error, Result},
    partition::Partition,
    table_descriptor::TableDescriptorExt,
    txn::commit::endpoint_request::encode_mutations,
};

/// The maximum number of bytes of all redo of a transaction.
pub(in crate::txn) const MAX_BYTES: usize = 4 << 20;
/// The column of the redo of the first partition after home: all are written in one call, and deleted in
/// one.
pub(in crate::txn) const FIRST: &str = "d1";

const FORMAT: u8 = 1;

/// Returns the column of the redo of the partition at this position.
pub(in crate::txn) fn qualifier(index: usize) -> Bytes {
    format!("d{index}").into()
}

/// Refuses a mutation that can't be applied later to the same effect.
pub(in crate::txn) fn check(mutation: &Mutation) -> Result<()> {
    let refuse = |what: &str| {
        let what = format!("{what} in a partition of a transaction that is not the first one");
        Err(mutation.in_context(Error::invalid(what)))
    };
    let is_stamped = match mutation {
        Mutation::Put(put) => {
            put.stamp().is_some() || put.parts().iter().any(|cell| cell.timestamp.is_some())
        }
        Mutation::Delete(delete) => {
            let is_exact = |scope: &DeleteScope| {
                matches!(
                    scope,
                    DeleteScope::FamilyVersion { .. } | DeleteScope::Version { .. }
                )
            };
            delete.stamp().is_some() || delete.parts().iter().any(is_exact)
        }
        _ => return refuse("an increment or append"),
    };
    if is_stamped {
        return refuse("a timestamp");
    }
    Ok(())
}

/// Encodes mutations that were [checked](check): the format, and the mutations of a `MutateRowsRequest`. It is
/// never empty, so that its cell does not count as absent.
pub(in crate::txn) fn encode(mutations: &[Mutation], durability: Durability) -> Bytes {
    [&[FORMAT][..], &encode_mutations(mutations, durability)]
        .concat()
        .into()
}

/// Decodes the redo of a partition.
///
/// # Errors
///
/// Returns [`Protocol`](ClientErrorKind::Protocol) if it is not one of this partition that this version
/// can read.
pub(in crate::txn) fn decode(value: &Bytes, partition: &Partition) -> Result<Vec<Mutation>> {
    let parse = || {
        let (&FORMAT, mutations) = value.split_first()? else {
            return None;
        };
        let request = pb::MutateRowsRequest::decode(value.slice_ref(mutations)).ok()?;
        let mutations: Option<Vec<_>> = request.mutation_request.into_iter().map(mutation).collect();
        let is_of_partition = |mutation: &Mutation| {
            let row = mutation.row();
            partition.contains(row) && !partition.reserves(row) && check(mutation).is_ok()
        };
        mutations.filter(|mutations| mutations.iter().all(is_of_partition))
    };
    parse().ok_or_else(|| {
        let what = format!(
            "the redo of partition {partition} can't be read, of {} bytes",
            value.len()
        );
        Error::new(ClientErrorKind::Protocol, what)
            .with_hint("a newer version of this package, or something else, writes the version family")
    })
}

fn mutation(message: pb::MutationProto) -> Option<Mutation> {
    use pb::mutation_proto::{DeleteType, MutationType};
    let durability = durability(message.durability());
    let row = message.row?;
    let columns = message.column_value;
    let mut cells = columns.iter().flat_map(|column| &column.qualifier_value);
    if message.timestamp.is_some() || cells.any(|cell| cell.timestamp.is_some()) {
        return None;
    }
    let attributes = message.attribute.into_iter();
    let attributes = attributes.map(|attribute| (attribute.name, attribute.value.unwrap_or_default()));
    match MutationType::try_from(message.mutate_type?).ok()? {
        MutationType::Put => {
            let mut put = Put::new(row).durability(durability);
            for column in columns {
                for cell in column.qualifier_value {
                    let (qualifier, value) =
                        (cell.qualifier.unwrap_or_default(), cell.value.unwrap_or_default());
                    put = put.cell(column.family.clone(), qualifier, value);
                }
            }
            let put = attributes.fold(put, |put, (name, value)| put.attribute(name, value));
            Some(put.into())
        }
        MutationType::Delete => {
            let mut delete = Delete::new(row).durability(durability);
            for column in columns {
                for cell in column.qualifier_value {
                    let family = column.family.clone();
                    delete = match DeleteType::try_from(cell.delete_type?).ok()? {
                        DeleteType::DeleteFamily => delete.family(family),
                        DeleteType::DeleteMultipleVersions => {
                            delete.column(family, cell.qualifier.unwrap_or_default())
                        }
                        _ => return None,
                    };
                }
            }
            let delete = attributes.fold(delete, |delete, (name, value)| delete.attribute(name, value));
            Some(delete.into())
        }
        _ => None,
    }
}

fn durability(code: pb::mutation_proto::Durability) -> Durability {
    use pb::mutation_proto::Durability as Code;
    match code {
        Code::UseDefault => Durability::UseDefault,
        Code::SkipWal => Durability::SkipWal,
        Code::AsyncWal => Durability::AsyncWal,
        Code::SyncWal => Durability::SyncWal,
        Code::FsyncWal => Durability::FsyncWal,
    }
}

/// Returns the put that keeps the redo of each partition after home, all with one timestamp.
pub(in crate::txn) fn keep(row: Bytes, redo: &[Bytes], timestamp: u64) -> Put {
    let cells = redo.iter().enumerate();
    cells.fold(Put::new(row), |put, (at, redo)| {
        put.cell_at(
            TableDescriptor::VERSION_FAMILY,
            qualifier(at + 1),
            timestamp,
            redo.clone(),
        )
    })
}

/// Returns the delete of all redo of an attempt up to this timestamp.
pub(in crate::txn) fn forget(row: Bytes, timestamp: u64) -> Delete {
    Delete::new(row)
        .family(TableDescriptor::VERSION_FAMILY)
        .timestamp(timestamp)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hbase_client::Increment;
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::partition::PartitionRule;

    fn partition() -> Partition {
        PartitionRule::prefix_length(3).unwrap().partition("xxx").unwrap()
    }

    fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
        let cell = ("[fg]", "[a-c]{0,2}", prop::collection::vec(any::<u8>(), 0..8));
        let put = prop::collection::vec(cell, 1..4).prop_map(|cells| {
            let put = Put::new("xxxp").durability(Durability::FsyncWal);
            let put = cells.into_iter().fold(put, |put, (family, qualifier, value)| {
                put.cell(family, qualifier, value)
            });
            Mutation::from(put.ttl(Duration::from_secs(60)))
        });
        let scope = ("[fg]", prop::option::of("[a-c]{0,2}"));
        let delete = prop::collection::vec(scope, 0..4).prop_map(|scopes| {
            let scopes = scopes.into_iter();
            let delete = scopes.fold(
                Delete::new("xxxd"),
                |delete, (family, qualifier)| match qualifier {
                    Some(qualifier) => delete.column(family, qualifier),
                    None => delete.family(family),
                },
            );
            Mutation::from(delete)
        });
        prop::collection::vec(prop_oneof![put, delete], 0..5)
    }

    proptest! {
        #[test]
        fn decoded_redo_is_sent_as_the_mutations_were(mutations in mutations()) {
            let encoded = encode(&mutations, Durability::FsyncWal);
            let decoded = decode(&encoded, &partition()).unwrap();
            prop_assert_eq!(encode(&decoded, Durability::FsyncWal), encoded);
            prop_assert!(decoded.iter().all(|mutation| mutation.durability() == Durability::FsyncWal));
        }

        #[test]
        fn unknown_redo_is_an_error_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(mutations) = decode(&bytes.into(), &partition()) {
                prop_assert!(mutations.iter().all(|mutation| partition().contains(mutation.row())));
            }
        }
    }

    #[rstest]
    #[case::increment(Increment::new("xxxa").column("f", "q", 1).into())]
    #[case::stamped_put(Put::new("xxxa").cell("f", "q", "v").timestamp(7).into())]
    #[case::stamped_cell(Put::new("xxxa").cell_at("f", "q", 7, "v").into())]
    #[case::stamped_delete(Delete::new("xxxa").timestamp(7).into())]
    #[case::version(Delete::new("xxxa").version("f", "q", 7).into())]
    #[case::other_partition(Put::new("yyya").cell("f", "q", "v").into())]
    #[case::reserved_row(Put::new(&b"xxx\xff_txn\xffversion"[..]).cell("f", "q", "v").into())]
    fn redo_of_others_or_at_another_time_is_refused(#[case] mutation: Mutation) {
        let encoded = encode(&[mutation], Durability::UseDefault);
        let error = decode(&encoded, &partition()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the redo of partition xxx can't be read"),
            "{error}"
        );
    }
}
