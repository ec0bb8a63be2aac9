//! What a read requests of each row.

use std::fmt;

use bytes::Bytes;

use crate::{
    error::{Error, Result},
    model::{ReadFilter, limits::check_family},
};

/// The server reads counts as signed numbers: `u32::MAX` would be −1.
pub(super) const MOST: u32 = i32::MAX as u32;

/// A range of timestamps, from `from` to before `to`, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The first timestamp in the range.
    pub from: u64,
    /// The first timestamp after the range.
    pub to: u64,
}

impl TimeRange {
    pub(in crate::model) fn check(self) -> Result<()> {
        if self.from < self.to && self.to <= i64::MAX as u64 {
            Ok(())
        } else {
            Err(Error::invalid(format!("{self} is no range of time")))
        }
    }
}

impl fmt::Display for TimeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.from, self.to)
    }
}

/// Whether a read sees writes that are not complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IsolationLevel {
    /// Complete writes only: of each row, all changes of a call or none. The default.
    #[default]
    ReadCommitted,
    /// Also writes that the server has not finished. A row may have half of a change, and what was
    /// read may be lost if the server dies.
    ReadUncommitted,
}

/// Which copies of a region may answer a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// The primary only, which has all writes. The default.
    #[default]
    Strong,
    /// The primary, or one of the region's replicas if the primary does not answer soon. A replica
    /// lags behind by what it has not received yet, and its rows [say so](crate::Row::is_stale). Two
    /// reads may go back in time. It needs a table with `REGION_REPLICATION` above 1.
    Timeline,
}

/// What a read requests of each row. Shared by gets and scans.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selection {
    /// The families, each with its requested qualifiers; no qualifiers mean all of them.
    pub(crate) columns: Vec<(Bytes, Vec<Bytes>)>,
    pub(crate) max_versions: Option<u32>,
    pub(crate) time_range: Option<TimeRange>,
    /// The ranges of time of single families, which replace the general one.
    pub(crate) family_time_ranges: Vec<(Bytes, TimeRange)>,
    /// The most cells of a row in each family.
    pub(crate) max_results_per_family: Option<u32>,
    /// The number of cells of a row that are passed over in each family.
    pub(crate) offset_per_family: Option<u32>,
    pub(crate) load_families_on_demand: Option<bool>,
    pub(crate) isolation: IsolationLevel,
    pub(crate) consistency: Consistency,
    /// The only replica that may answer, if stale rows are accepted.
    pub(crate) replica_id: Option<u16>,
    /// The labels of cells that the user may see; `None` for all that it has.
    pub(crate) authorizations: Option<Vec<String>>,
    pub(crate) attributes: Vec<(String, Bytes)>,
    pub(crate) query_metrics: bool,
    /// Behind a pointer: few reads have one, and every read is moved.
    pub(crate) filter: Option<Box<ReadFilter>>,
}

/// The methods by which gets and scans say what they request of each row.
macro_rules! selection_methods {
    () => {
        /// Reads all columns of this family.
        pub fn family(mut self, family: impl IntoBytes) -> Self {
            self.selection.family(family.into_bytes());
            self
        }

        /// Reads this column.
        pub fn column(mut self, family: impl IntoBytes, qualifier: impl IntoBytes) -> Self {
            self.selection
                .column(family.into_bytes(), qualifier.into_bytes());
            self
        }

        /// Reads up to this many versions of each column, newest first. The default is 1.
        pub fn versions(mut self, versions: u32) -> Self {
            self.selection.max_versions = Some(versions.min(MOST));
            self
        }

        /// Reads only versions in this range of time.
        pub fn time_range(mut self, range: TimeRange) -> Self {
            self.selection.time_range = Some(range);
            self
        }

        /// Reads of this family only versions in this range of time, whatever the range of the
        /// others is.
        pub fn column_family_time_range(mut self, family: impl IntoBytes, range: TimeRange) -> Self {
            let family = family.into_bytes();
            let ranges = &mut self.selection.family_time_ranges;
            ranges.retain(|(existing, _)| *existing != family);
            ranges.push((family, range));
            self
        }

        /// Reads at most this many cells of a row in each family, the first ones in HBase's order.
        /// With [`row_offset_per_column_family`](Self::row_offset_per_column_family) it pages through
        /// the columns of a wide row.
        pub fn max_results_per_column_family(mut self, cells: u32) -> Self {
            self.selection.max_results_per_family = Some(cells.min(MOST));
            self
        }

        /// Passes over this many cells of a row in each family.
        pub fn row_offset_per_column_family(mut self, cells: u32) -> Self {
            self.selection.offset_per_family = Some(cells.min(MOST));
            self
        }

        /// Sets whether the server reads a family that the filter does not need only for rows that
        /// pass it. Without this, the server decides
        /// (`hbase.hregion.scan.loadColumnFamiliesOnDemand`, by default it does).
        pub fn load_column_families_on_demand(mut self, on_demand: bool) -> Self {
            self.selection.load_families_on_demand = Some(on_demand);
            self
        }

        /// Sets whether the read sees writes that are not complete. By default it does not.
        pub fn isolation_level(mut self, level: IsolationLevel) -> Self {
            self.selection.isolation = level;
            self
        }

        /// Sets which copies of a region may answer. By default only the primary does.
        ///
        /// With [`Timeline`](crate::Consistency::Timeline), the replicas are asked if the primary has
        /// not answered within the [timeout for that](crate::Config::with_primary_call_timeouts), or
        /// has failed; the first answer counts.
        pub fn consistency(mut self, consistency: Consistency) -> Self {
            self.selection.consistency = consistency;
            self
        }

        /// Reads from this replica of each region only; 0 is the primary. Sets the
        /// [consistency](Self::consistency) to [`Timeline`](crate::Consistency::Timeline).
        ///
        /// The read waits while the replica is not served, and fails at its deadline if the table has
        /// no such replica. Use it to compare replicas.
        pub fn replica_id(mut self, id: u16) -> Self {
            self.selection.consistency = Consistency::Timeline;
            self.selection.replica_id = Some(id);
            self
        }

        /// Passes an attribute on to the server, where a coprocessor reads it. Replaces an earlier
        /// one of that name.
        pub fn attribute(mut self, name: impl Into<String>, value: impl IntoBytes) -> Self {
            set_attribute(
                &mut self.selection.attributes,
                name.into(),
                value.into_bytes(),
            );
            self
        }

        /// Makes the server report what it has read for each row, as
        /// [`Row::query_metrics`](crate::Row::query_metrics). Of the supported releases only 2.6
        /// does, and others ignore this.
        pub fn query_metrics(mut self) -> Self {
            self.selection.query_metrics = true;
            self
        }

        /// Reads only cells whose visibility expression these labels fulfil, of those that the user
        /// has. Without this, all labels of the user count. The cluster needs HBase's
        /// `VisibilityController`.
        pub fn authorizations(mut self, labels: impl IntoIterator<Item = impl Into<String>>) -> Self {
            self.selection.authorizations = Some(labels.into_iter().map(Into::into).collect());
            self
        }

        /// Reads only what passes the filter, and rows of which cells are left: a
        /// [`Filter`](crate::Filter) of cells, or any [`ReadFilter`]. Replaces an earlier filter.
        ///
        /// As in HBase's own client, the filter is applied to all versions that the family keeps, and
        /// the newest that pass are read. In a family with several versions, an older version may be
        /// found because the newest does not pass (except in a family with `NEW_VERSION_BEHAVIOR`).
        pub fn filter(mut self, filter: impl Into<ReadFilter>) -> Self {
            self.selection.filter = Some(Box::new(filter.into()));
            self
        }
    };
}

pub(super) use selection_methods;

impl Selection {
    pub(super) fn family(&mut self, family: Bytes) {
        self.columns.retain(|(existing, _)| *existing != family);
        self.columns.push((family, Vec::new()));
    }

    pub(super) fn column(&mut self, family: Bytes, qualifier: Bytes) {
        match self.columns.iter_mut().find(|(existing, _)| *existing == family) {
            // The whole family is requested already.
            Some((_, qualifiers)) if qualifiers.is_empty() => {}
            Some((_, qualifiers)) => qualifiers.push(qualifier),
            None => self.columns.push((family, vec![qualifier])),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.max_versions == Some(0) {
            return Err(Error::invalid("at least one version must be asked for"));
        }
        let of_families = self.family_time_ranges.iter().map(|(_, range)| *range);
        self.time_range
            .into_iter()
            .chain(of_families)
            .try_for_each(TimeRange::check)?;
        if self.max_results_per_family == Some(0) {
            return Err(Error::invalid("at least one cell of a family must be asked for"));
        }
        for (family, _) in &self.family_time_ranges {
            check_family(family)?;
        }
        self.filter.as_deref().map_or(Ok(()), ReadFilter::check)
    }
}
