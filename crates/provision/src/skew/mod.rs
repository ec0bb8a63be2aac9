//! The distribution of a table's rows over its partitions and regions.
//!
//! | file | contents |
//! |---|---|
//! | `run` | [`Skew`]: reads the regions concurrently |
//! | `report` | [`SkewReport`] and its parts |
//! | `region` | the measures of one region |
//! | `table` | combines the regions in their order |
//! | `partitions` | completed partitions: the largest, and the number of each size |
//! | `boundaries` | the first rows of partitions, at which a region can be split |
//!
//! Rows arrive in key order, so the rows of a partition are contiguous. One partition is counted at
//! a time, and memory does not grow with the number of partitions.

mod boundaries;
mod partitions;
mod region;
mod report;
mod run;
mod table;

pub use report::{
    Amount, NextSplit, PartitionSize, RegionSkew, SizeBucket, SkewProgress, SkewReport, SplitPoint,
};
pub use run::{Sampling, Skew};
