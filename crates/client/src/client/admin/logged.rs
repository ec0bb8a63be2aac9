//! Tells the log of a connection what the administration changes.

use std::io;

use super::{
    super::change_log::{AdminChange, Request, Tables},
    Admin,
};
use crate::{
    error::{Error, ErrorKind, Result},
    model::{TableDescriptor, TableName},
};

impl Admin {
    /// Returns the descriptor that a change is about to replace, or `None` without a log, or without the
    /// table, which the change itself reports.
    pub(super) async fn before_change(&self, table: &TableName) -> Result<Option<TableDescriptor>> {
        if self.connection.shared.change_log.is_none() {
            return Ok(None);
        }
        match self.descriptor(table).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == ErrorKind::TableNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a change, and tells the log.
    pub(super) async fn logged<T>(
        &self,
        method: &'static str,
        request: &impl Request,
        tables: Tables<'_>,
        change: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Some(log) = &self.connection.shared.change_log else {
            return change.await;
        };
        let logged = AdminChange {
            id: self.nonce(),
            method,
            before: tables.before.as_ref(),
            after: tables.after,
            request,
        };
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
