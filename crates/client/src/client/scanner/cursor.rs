//! How far a scan has come.

use bytes::Bytes;

use super::ResultScanner;

impl ResultScanner {
    /// Returns the row that the scan has come to, or `None` before the first answer and at the end. All
    /// rows before it were returned, or behind it if the scan is reversed; it may have been returned too.
    ///
    /// A filter can keep a server busy for long without a row. The server reports how far it has come
    /// before the call times out, so the cursor moves while [`next`](Self::next) waits. Drop that call
    /// to look at it: the next one continues there. Another scan continues with the cursor as its
    /// [`start_row`](crate::Scan::start_row).
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use hbase_client::{Comparator, Comparison, Filter, Scan};
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// let rare = Filter::value(Comparison::Equal, Comparator::binary("lost"));
    /// let mut scanner = table.scan(Scan::new().filter(rare))?;
    /// loop {
    ///     match tokio::time::timeout(Duration::from_secs(1), scanner.next()).await {
    ///         Ok(row) => match row? {
    ///             Some(row) => println!("found {:?}", row.key()),
    ///             None => break,
    ///         },
    ///         Err(_) => println!("at {:?}", scanner.cursor()),
    ///     }
    /// }
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn cursor(&self) -> Option<&Bytes> {
        let row = self.ready.front().map_or(&self.position.0, |row| row.key());
        let has_begun = self.metrics.calls > 0;
        (has_begun && !(self.finished && self.ready.is_empty())).then_some(row)
    }
}
