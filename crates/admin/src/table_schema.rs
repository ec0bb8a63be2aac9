//! New tables with the schema of others.

use hbase_client::{Error, IntoTableName, Result};

use crate::admin::Admin;

impl Admin {
    /// Creates an empty table with the families and attributes of another one, and with the same region
    /// boundaries if `preserve_splits` is set.
    ///
    /// # Errors
    ///
    /// Returns [`TableNotFound`](hbase_client::ErrorKind::TableNotFound) if the table does not exist, and
    /// [`TableExists`](hbase_client::ErrorKind::TableExists) if the new one does.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_admin::Admin;
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &["m"]);
    /// # let connection = hbase.connect().await?;
    /// let admin = Admin::new(&connection);
    /// admin.clone_table_schema("orders", "archive", true).await?;
    /// assert_eq!(admin.regions("archive").await?.len(), 2);
    /// # Ok(()) });
    /// ```
    pub async fn clone_table_schema(
        &self,
        table: impl IntoTableName,
        new_table: impl IntoTableName,
        preserve_splits: bool,
    ) -> Result<()> {
        let (table, new_table) = (&table.into_table_name()?, new_table.into_table_name()?);
        let deadline = self.deadline();
        let in_context = |error: Error| error.at_operation(format!("cloning the schema of {table}"));
        let mut descriptor = self.until(deadline).descriptor(table).await.map_err(in_context)?;
        descriptor.name = new_table;
        let mut split_keys = Vec::new();
        if preserve_splits {
            let regions = self.until(deadline).regions(table).await.map_err(in_context)?;
            let start_keys = regions.into_iter().map(|found| found.region.start_key);
            split_keys.extend(start_keys.filter(|key| !key.is_empty()));
        }
        self.until(deadline)
            .create_table(&descriptor, &split_keys)
            .await
            .map_err(in_context)
    }
}
