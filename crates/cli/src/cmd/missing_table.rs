//! Lock and latch tables that a command may create.

use std::future::Future;

use hbase_txn::{
    ClientErrorKind, Connection, Error, Result, TableName,
    latch::{LatchManager, LatchManagerOptions, LatchTableOptions},
    lock::{LockManager, LockManagerOptions, LockTableOptions},
};

use crate::{exit::Failure, progress::Progress};

/// Opens a lock table. Creates it if it does not exist and `create` has options.
pub(crate) async fn open_locks(
    connection: &Connection,
    options: LockManagerOptions,
    name: &TableName,
    create: Option<LockTableOptions>,
) -> Result<LockManager, Failure> {
    match create {
        None => {
            let opened = options.open(connection, name.clone()).await;
            opened.map_err(|error| not_opened(error, "lock acquire"))
        }
        Some(table) => watched(name, options.open_or_create(connection, table)).await,
    }
}

/// Opens a latch table. Creates it if it does not exist and `create` has options.
pub(crate) async fn open_latches(
    connection: &Connection,
    options: LatchManagerOptions,
    name: &TableName,
    create: Option<LatchTableOptions>,
) -> Result<LatchManager, Failure> {
    match create {
        None => {
            let opened = options.open(connection, name.clone()).await;
            opened.map_err(|error| not_opened(error, "latch init"))
        }
        Some(table) => watched(name, options.open_or_create(connection, table)).await,
    }
}

/// Converts the error; a missing table gets the command that creates it as the hint.
fn not_opened(error: Error, creating: &str) -> Failure {
    if error.kind() != ClientErrorKind::TableNotFound {
        return error.into();
    }
    let hint = format!("check its name, or create it: run hbase-txn {creating} --create");
    Failure::Library(error.with_better_hint(hint))
}

/// Shows progress on a terminal, because creating many regions takes seconds.
async fn watched<T>(name: &TableName, opening: impl Future<Output = Result<T>>) -> Result<T, Failure> {
    let progress = Progress::on_a_terminal();
    if let Some(progress) = &progress {
        progress.step(&format!("opening table {name}, creating it if needed"));
    }
    let opened = opening.await;
    if let Some(progress) = &progress {
        progress.finish();
    }
    Ok(opened?)
}
