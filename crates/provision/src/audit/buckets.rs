//! The 256 buckets of tables for locks and latches, by which such a table is recognised.

use hbase_client::{TableDescriptor, TableRegion};
use hbase_txn::PartitionRule;

/// Half of the boundaries that the Java libraries create.
const MANY: usize = 128;

/// Whether a table has the buckets of tables for locks and latches: by its rule of one byte, which this
/// toolkit sets, or by the boundaries at each byte that the Java libraries create. Families of these names
/// show nothing by themselves.
pub(super) fn has_buckets(descriptor: &TableDescriptor, regions: &[TableRegion]) -> bool {
    match PartitionRule::from_descriptor(descriptor) {
        Ok(PartitionRule::PrefixLength(length)) => length.get() == 1,
        Ok(PartitionRule::Delimiter(_)) => false,
        Err(_) => {
            let starts = || regions.iter().map(|region| &region.region.start_key[..]);
            // No other table is likely to have a boundary at the zero byte: no row is before it. HBase may have
            // merged that region since.
            starts().any(|start| start == [0]) || starts().filter(|start| start.len() == 1).count() >= MANY
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hbase_client::RegionInfo;
    use hbase_txn::TableDescriptorExt;

    use super::*;

    fn is_recognised(descriptor: &TableDescriptor, starts: &[&'static [u8]]) -> bool {
        let regions: Vec<_> = starts
            .iter()
            .map(|start| TableRegion {
                region: RegionInfo {
                    table: descriptor.name.clone(),
                    start_key: Bytes::from_static(start),
                    ..RegionInfo::meta()
                },
                server: None,
                replicas: Vec::new(),
            })
            .collect();
        has_buckets(descriptor, &regions)
    }

    #[test]
    fn buckets_are_a_rule_or_boundaries_and_no_family() {
        let plain = TableDescriptor::new("t").unwrap();
        let with = |rule: PartitionRule| plain.clone().with_partition_rule(&rule);
        assert!(is_recognised(
            &with(PartitionRule::prefix_length(1).unwrap()),
            &[b""]
        ));
        assert!(!is_recognised(
            &with(PartitionRule::prefix_length(2).unwrap()),
            &[b"", b"\0"]
        ));
        assert!(!is_recognised(
            &with(PartitionRule::delimiter("/").unwrap()),
            &[b"", b"\0"]
        ));
        assert!(is_recognised(&plain, &[b"", b"\0", b"\x01", b"\xff"]));
        assert!(!is_recognised(&plain, &[b""]));
        assert!(!is_recognised(&plain, &[b"", b"4", b"8"]));
        // HBase has split a region.
        assert!(is_recognised(&plain, &[b"", b"\0", b"\0\x01"]));
    }
}
