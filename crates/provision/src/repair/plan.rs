//! The changes that a table's boundaries need.

use std::fmt;

use bytes::Bytes;
use hbase_client::{BytesBinary, RegionInfo};
use hbase_txn::{Partition, PartitionRule};

use crate::giant::RegionLoads;

/// A change of a table's boundaries.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairStep {
    /// Merge neighbouring regions, because the boundaries between them cut a partition. Then split
    /// the merged region at an edge of the partition, so that the table does not lose regions
    /// without need.
    Rejoin {
        /// The partition that is cut.
        partition: Partition,
        /// The neighbouring regions with rows of the partition, in order.
        regions: Vec<RegionInfo>,
        /// The size of their store files in MiB, as far as their servers have reported it.
        size_mib: u64,
        /// The key at which the merged region is split again, if it has room for other partitions.
        split_at: Option<Bytes>,
    },
    /// Split a region after its first partition, which is so large that HBase finds no split point
    /// in the region.
    SplitOff {
        /// The region's first partition.
        partition: Partition,
        /// The region.
        region: RegionInfo,
        /// The first key after the partition.
        at: Bytes,
    },
}

impl RepairStep {
    /// Returns the partition that needs the step.
    #[must_use]
    pub const fn partition(&self) -> &Partition {
        match self {
            Self::Rejoin { partition, .. } | Self::SplitOff { partition, .. } => partition,
        }
    }
}

/// Returns the step for the first partition that is cut.
fn first_cut(rule: &PartitionRule, regions: &[RegionInfo], loads: &RegionLoads) -> Option<RepairStep> {
    let cut_before = |region: &RegionInfo| rule.partition_cut_by(&region.start_key);
    let boundaries = regions.iter().enumerate().skip(1);
    let (at, partition) = boundaries
        .filter_map(|(at, region)| Some((at, cut_before(region)?)))
        .next()?;
    let also = regions[at + 1..]
        .iter()
        .take_while(|region| cut_before(region).as_ref() == Some(&partition));
    let (first, last) = (at - 1, at + also.count());
    let rejoined = &regions[first..=last];
    let sizes = rejoined.iter().filter_map(|region| loads.get(&region.name));
    Some(RepairStep::Rejoin {
        split_at: edge(&partition, &regions[first].start_key, &regions[last].end_key),
        partition,
        size_mib: sizes.map(|load| u64::from(load.store_files_mib)).sum(),
        regions: rejoined.to_vec(),
    })
}

/// Returns the steps for all partitions that are cut now. Consecutive steps may share a region.
pub(super) fn cuts(rule: &PartitionRule, regions: &[RegionInfo], loads: &RegionLoads) -> Vec<RepairStep> {
    let mut steps = Vec::new();
    let mut behind = regions;
    while let Some(step) = first_cut(rule, behind, loads) {
        let RepairStep::Rejoin {
            regions: rejoined, ..
        } = &step
        else {
            break;
        };
        let last = rejoined.last().map(|region| region.start_key.clone());
        let at = behind
            .iter()
            .position(|region| Some(&region.start_key) == last.as_ref());
        // The last merged region may also contain the beginning of the next cut partition.
        behind = &behind[at.unwrap_or(behind.len())..];
        steps.push(step);
    }
    steps
}

/// Returns the key at which the merged region is split again, if it has room for other partitions:
/// the beginning of the partition, or the first key after it. The key has no delimiter, because a
/// split restriction removes the delimiter, which would move the split, perhaps to the region's own
/// start.
fn edge(partition: &Partition, start: &Bytes, end: &Bytes) -> Option<Bytes> {
    let prefix = partition.prefix();
    if start < prefix {
        return Some(prefix.clone());
    }
    let behind = partition.key_behind();
    (!behind.is_empty() && (end.is_empty() || behind < *end)).then_some(behind)
}

impl fmt::Display for RepairStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |region: &RegionInfo| region.encoded_text();
        match self {
            Self::Rejoin {
                partition,
                regions,
                size_mib,
                split_at,
            } => {
                let names: Vec<_> = regions.iter().map(name).collect();
                write!(
                    f,
                    "merge regions {} ({size_mib} MiB): partition {partition} is cut at ",
                    names.join(", ")
                )?;
                for (index, region) in regions.iter().skip(1).enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(f, "{comma}{}", BytesBinary(&region.start_key))?;
                }
                match split_at {
                    Some(key) => write!(f, "; then split at {}", BytesBinary(key)),
                    None => Ok(()),
                }
            }
            Self::SplitOff {
                partition,
                region,
                at,
            } => write!(
                f,
                "split region {} at {}: behind its first partition, {partition}",
                name(region),
                BytesBinary(at)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions(boundaries: &[&'static str]) -> Vec<RegionInfo> {
        let starts = [""].iter().chain(boundaries);
        let ends = boundaries.iter().chain(&[""]);
        starts
            .zip(ends)
            .map(|(start, end)| RegionInfo {
                table: "t".parse().unwrap(),
                start_key: (*start).into(),
                end_key: (*end).into(),
                name: format!("t,{start},7.{start}.").into(),
                ..RegionInfo::meta()
            })
            .collect()
    }

    /// Describes the steps: partition, regions, and split keys.
    fn steps(rule: &PartitionRule, boundaries: &[&'static str]) -> Vec<String> {
        let steps = cuts(rule, &regions(boundaries), &RegionLoads::new());
        steps.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_cut_is_merged_and_the_boundary_goes_to_the_partitions_edge() {
        let rule = PartitionRule::prefix_length(3).unwrap();
        assert!(steps(&rule, &["ggg", "xxx"]).is_empty() && steps(&rule, &[]).is_empty());
        assert_eq!(
            steps(&rule, &["ggg", "xxxm"]),
            ["merge regions ggg, xxxm (0 MiB): partition xxx is cut at xxxm; then split at xxx"]
        );
        assert_eq!(
            steps(&rule, &["xxx", "xxxm", "xxxz", "xxy"]),
            ["merge regions xxx, xxxm, xxxz (0 MiB): partition xxx is cut at xxxm, xxxz"]
        );
        assert_eq!(
            steps(&rule, &["xxx", "xxxm", "zzz"]),
            ["merge regions xxx, xxxm (0 MiB): partition xxx is cut at xxxm; then split at xxy"]
        );
        assert_eq!(
            steps(&rule, &["xxx", "xxxm"]),
            ["merge regions xxx, xxxm (0 MiB): partition xxx is cut at xxxm; then split at xxy"]
        );
    }

    #[test]
    fn each_partition_that_is_cut_is_a_step() {
        let rule = PartitionRule::delimiter("/").unwrap();
        assert_eq!(
            steps(&rule, &["a/1", "b/1", "b/2", "c/"]),
            [
                "merge regions , a/1 (0 MiB): partition a is cut at a/1; then split at a",
                "merge regions a/1, b/1, b/2 (0 MiB): partition b is cut at b/1, b/2; then split at b",
            ]
        );
        // If a region already begins at the partition, with or without the delimiter, the other
        // edge is used.
        for start in ["a", "a/"] {
            assert_eq!(
                steps(&rule, &[start, "a/1", "c"]),
                [format!(
                    "merge regions {start}, a/1 (0 MiB): partition a is cut at a/1; then split at a0"
                )]
            );
        }
        assert_eq!(
            steps(&rule, &["/1"]),
            ["merge regions , /1 (0 MiB): partition  is cut at /1; then split at 0"]
        );
    }

    /// Applying the steps one after the other leaves no cut, and no fewer regions than before.
    #[test]
    fn steps_that_are_done_one_after_the_other_leave_no_cut() {
        let rule = PartitionRule::prefix_length(2).unwrap();
        for boundaries in [
            &["aa1", "aa2", "bb", "cc9"][..],
            &["a", "aab", "aac", "ab1", "ac2"],
            &["\u{7f}x1"],
        ] {
            let mut regions = regions(boundaries);
            let mut steps = 0;
            while let Some(RepairStep::Rejoin {
                regions: rejoined,
                split_at,
                ..
            }) = first_cut(&rule, &regions, &RegionLoads::new())
            {
                let removed: Vec<_> = rejoined
                    .iter()
                    .skip(1)
                    .map(|region| region.start_key.clone())
                    .collect();
                let mut keys: Vec<Bytes> = regions
                    .iter()
                    .skip(1)
                    .map(|region| region.start_key.clone())
                    .collect();
                keys.retain(|key| !removed.contains(key));
                keys.extend(split_at);
                keys.sort_unstable();
                let texts: Vec<&'static str> = keys
                    .iter()
                    .map(|key| &*String::leak(String::from_utf8(key.to_vec()).unwrap()))
                    .collect();
                regions = self::regions(&texts);
                steps += 1;
                assert!(steps <= boundaries.len(), "{boundaries:?} does not end");
            }
            assert!(cuts(&rule, &regions, &RegionLoads::new()).is_empty());
        }
    }
}
