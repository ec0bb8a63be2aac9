//! How a table's rows are spread over its partitions and regions.
//!
//! | file | what |
//! |---|---|
//! | `run` | [`Skew`]: reads the regions side by side |
//! | `report` | [`SkewReport`] and its parts |
//! | `region` | what is measured of one region while its rows come by |
//! | `table` | the regions, put together in their order |
//! | `partitions` | partitions that were read to their end: the largest, how many of which size |
//! | `boundaries` | where partitions begin, and so where a region can be split |
//!
//! Rows come in the order of their keys, so those of a partition come one behind the other. One partition is counted at a
//! time, and what is kept does not grow with their number.

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
