//! Reports changes to the log of the connection.

use std::io;

use hbase_client::{
    AdminChange, Error, ErrorKind, Result, TableDescriptor, TableName, low_level::change_log,
};

use crate::{
    admin::Admin,
    change::{Request, Tables},
};

impl Admin {
    /// Returns the descriptor that a change is about to replace, or `None` without a log, or without the
    /// table, which the change itself reports.
    pub(crate) async fn before_change(&self, table: &TableName) -> Result<Option<TableDescriptor>> {
        if change_log(&self.connection).is_none() {
            return Ok(None);
        }
        match self.descriptor(table).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == ErrorKind::TableNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a change, and reports it to the log.
    pub(crate) async fn logged<T>(
        &self,
        method: &'static str,
        request: &impl Request,
        tables: Tables<'_>,
        change: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Some(log) = change_log(&self.connection) else {
            return change.await;
        };
        let mut logged = AdminChange::new(self.nonce(), method, request);
        logged.before = tables.before.as_ref();
        logged.after = tables.after;
        log.begins(&logged).map_err(unwritable)?;
        let result = change.await;
        log.ended(&logged, result.as_ref().map(drop));
        result
    }
}

fn unwritable(error: io::Error) -> Error {
    let what = "not sent, because the log of changes can't be written";
    Error::new(ErrorKind::InvalidConfig, what).with_source(error)
}
