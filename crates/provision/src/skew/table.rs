//! Combines the regions of a table in their order.

use hbase_admin::RegionLoad;
use hbase_client::{TableName, TableRegion};

use super::{
    partitions::{Partitions, Scale, Tally},
    region::RegionMeasure,
    report::{Amount, RegionSkew, SkewReport},
};

/// The maximum number of partition boundaries in the report of a region.
const BOUNDARIES: usize = 64;

/// The regions of a table so far.
#[derive(Debug)]
pub(super) struct TableMeasure {
    scale: Scale,
    partitions: Partitions,
    /// The last partition so far; the next region may have rows of it.
    open: Option<Tally>,
    users: Amount,
    reserved: Amount,
    squares: f64,
    regions: Vec<RegionSkew>,
}

impl TableMeasure {
    pub(super) fn new(scale: Scale, largest: usize) -> Self {
        Self {
            scale,
            partitions: Partitions::new(largest),
            open: None,
            users: Amount::default(),
            reserved: Amount::default(),
            squares: 0.0,
            regions: Vec::new(),
        }
    }

    /// Adds the next region.
    pub(super) fn add(&mut self, found: TableRegion, load: Option<RegionLoad>, measure: RegionMeasure) {
        let scale = self.scale;
        let (users, reserved) = (scale.amount(measure.users), scale.amount(measure.reserved));
        let boundaries = measure.boundaries.scaled(|at| scale.number(at));
        let (next_split, best_split) = boundaries.split(users.bytes + reserved.bytes);
        self.regions.push(RegionSkew {
            region: found.region,
            server: found.server,
            load,
            users,
            reserved,
            partitions: measure.partitions,
            boundaries: boundaries.some(BOUNDARIES),
            next_split,
            best_split,
        });
        self.users.add(measure.users);
        self.reserved.add(measure.reserved);
        self.squares += measure.squares;
        self.partitions.merge(measure.inner);
        for tally in [measure.first, measure.last].into_iter().flatten() {
            self.go_on(tally);
        }
    }

    /// Adds the next partition, or the rest of the open one.
    fn go_on(&mut self, tally: Tally) {
        match &mut self.open {
            Some(open) if open.partition == tally.partition => open.go_on(&tally),
            _ => {
                if let Some(before) = self.open.replace(tally) {
                    self.partitions.add(before, self.scale);
                }
            }
        }
    }

    pub(super) fn into_report(mut self, table: TableName, fraction: f64) -> SkewReport {
        if let Some(last) = self.open.take() {
            self.partitions.add(last, self.scale);
        }
        SkewReport {
            table,
            fraction,
            users: self.scale.amount(self.users),
            reserved: self.scale.amount(self.reserved),
            margin_bytes: self.scale.margin(self.squares),
            partitions: self.partitions.count(),
            histogram: self.partitions.histogram(),
            largest: self.partitions.into_largest(),
            regions: self.regions,
        }
    }
}
