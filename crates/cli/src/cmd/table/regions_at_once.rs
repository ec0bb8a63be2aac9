//! The option for reading several regions at the same time.

use std::ops::RangeInclusive;

use clap::Args;

use crate::{
    exit::Failure,
    values::{Ranged, whole},
};

const RANGE: RangeInclusive<usize> = 1..=64;

#[derive(Debug, Args)]
pub(super) struct RegionsAtOnce {
    /// Number of regions to read concurrently, 1 to 64
    #[arg(long, value_name = "N", default_value = "4", allow_hyphen_values = true, value_parser = whole::<usize>)]
    regions_at_once: Ranged<usize>,
}

impl RegionsAtOnce {
    pub(super) fn get(&self) -> Result<usize, Failure> {
        regions_at_once(&self.regions_at_once)
    }
}

/// Returns the value of the option.
pub(in crate::cmd) fn regions_at_once(option: &Ranged<usize>) -> Result<usize, Failure> {
    let regions = option.get("--regions-at-once")?;
    if RANGE.contains(&regions) {
        return Ok(regions);
    }
    Err(Failure::Unparsable(format!(
        "--regions-at-once {regions} is out of range: {} to {}",
        RANGE.start(),
        RANGE.end()
    )))
}
