//! What the text, the objects and the page show.

use hbase_provision::SkewReport;

use super::growth::Growth;

/// A report, and what is shown with it.
#[derive(Debug)]
pub(super) struct ShownReport<'a> {
    pub(super) report: &'a SkewReport,
    /// `None` at the first run.
    pub(super) growth: Option<&'a Growth>,
    /// The cluster.
    pub(super) cluster: &'a str,
    /// Seconds since 1970.
    pub(super) at: u64,
}
