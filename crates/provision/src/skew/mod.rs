//! The distribution of a table's rows over its partitions and regions.
//!
//! | file | contents |
//! |---|---|
//! | `run` | [`Skew`]: reads the regions side by side |
//! | `report` | [`SkewReport`] and its parts |
//! | `region` | the measures of one region |
//! | `table` | the regions, put together in their order |
//! | `partitions` | completed partitions: the largest, and the number of each size |
//! | `boundaries` | the first rows of partitions, where a region can be split |
//!
//! Rows come in the order of their keys, so those of a partition come one behind the other. One
//! partition is counted at a time, and what is kept does not grow with their number.

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
