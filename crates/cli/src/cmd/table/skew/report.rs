//! The data of all forms of the report.

use hbase_provision::SkewReport;

use super::growth::Growth;

/// A report and its context.
#[derive(Debug)]
pub(super) struct ShownReport<'a> {
    pub(super) report: &'a SkewReport,
    /// `None` for the first run.
    pub(super) growth: Option<&'a Growth>,
    /// The cluster.
    pub(super) cluster: &'a str,
    /// The time of the report, in seconds since 1970.
    pub(super) at: u64,
}
