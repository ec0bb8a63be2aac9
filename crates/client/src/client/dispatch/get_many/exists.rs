//! Whether many rows exist, with one call for each server.

use super::Table;
use crate::{
    client::get::exists,
    error::Result,
    model::{Get, ReadFilter, Row},
    wire::convert,
};

impl Table {
    /// Returns whether each of many rows has a requested cell, in the order of the gets. Makes the
    /// same calls as [`get_many`](Self::get_many), but transfers at most one cell of a row; all requested
    /// ones if the get has a [filter](Get::filter) or an
    /// [offset](Get::row_offset_per_column_family).
    ///
    /// # Errors
    ///
    /// Returns an error as [`get_many`](Self::get_many) does.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::Get;
    ///
    /// # use hbase_client::Put;
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// # table.put(Put::new("a").cell("f", "q", "v")).await?;
    /// let exist = table.exists_many(["a", "b"].map(Get::new)).await?;
    /// assert_eq!(exist, [true, false]);
    /// # Ok(()) });
    /// ```
    pub async fn exists_many(&self, gets: impl IntoIterator<Item = Get>) -> Result<Vec<bool>> {
        // The server says in its message whether the row exists, and yet puts the cells behind it.
        let one_cell = |get: Get| match (&get.selection.filter, get.selection.offset_per_family) {
            (None, None) => get.filter(ReadFilter::first_key_only()),
            _ => get,
        };
        let gets = gets.into_iter().map(one_cell);
        let rows = self
            .read_many(
                "exists_many",
                gets,
                convert::existence_message,
                |table, get, deadline| {
                    Box::pin(async move {
                        let message = convert::existence_message(&get);
                        let name = "exists_many";
                        let found = table.call_get(name, &get, &message, deadline, exists).await?;
                        Ok(found.then(|| Row::new(get.row, Vec::new())))
                    })
                },
            )
            .await?;
        Ok(rows.iter().map(Option::is_some).collect())
    }
}
