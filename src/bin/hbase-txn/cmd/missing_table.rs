//! Tables that a command makes when they are missing.

use std::future::Future;

use hbase_txn::{ErrorKind, Result, TableName};

use crate::{exit::Failure, progress::Progress};

/// Opens a table; makes it and opens it again when it is missing and may be made.
pub(crate) async fn open_or_make<T>(
    name: &TableName,
    opening: impl Future<Output = Result<T>>,
    making: Option<impl Future<Output = Result<bool>>>,
    again: impl Future<Output = Result<T>>,
) -> Result<T, Failure> {
    let error = match opening.await {
        Err(error) if error.kind() == ErrorKind::TableNotFound => error,
        done => return Ok(done?),
    };
    let Some(making) = making else {
        return Err(Failure::Refused(format!("{error}; but --no-create forbids it")));
    };
    let progress = Progress::on_a_terminal();
    if let Some(progress) = &progress {
        progress.step(&format!("making table {name}"));
    }
    let made = making.await;
    if let Some(progress) = &progress {
        progress.finish();
    }
    made?;
    Ok(again.await?)
}
