//! Whether bulk writes follow the load that servers report.

use super::Config;

impl Config {
    /// Returns whether bulk writes follow the load that servers report.
    #[must_use]
    pub fn backpressure(&self) -> bool {
        self.backpressure
    }

    /// Sets whether bulk writes ([`Table::writer`](crate::Table::writer),
    /// [`Table::mutate_many`](crate::Table::mutate_many) and the like) follow the load that servers
    /// report. Off by default, as in HBase.
    ///
    /// Servers report the load of a region only if `hbase.client.backpressure.enabled` is `true` in
    /// their own configuration. With their usual buffers they crash then; see
    /// [docs/configuration.md](https://docs.rs/crate/hbase-txn/latest/source/docs/configuration.md).
    ///
    /// If a load is reported, mutations that wait for a region pause after each answer, while its
    /// memstore is filled beyond 80 % of the size at which it is flushed, or 95 % of the heap of
    /// its server is in use, or the number of its files is beyond 80 % of that at which flushes wait
    /// for compactions. The pause grows with the load up to the [pause of an overloaded
    /// server](Self::with_overloaded_pause), and takes at most half of the time to the deadline.
    /// Without the reports, bulk writes slow down only after a server has refused a call because it
    /// is overloaded.
    #[must_use]
    pub fn with_backpressure(mut self, enabled: bool) -> Self {
        self.backpressure = enabled;
        self
    }
}
