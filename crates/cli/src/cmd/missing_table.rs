//! Lock and latch tables that a command may create.

use std::future::Future;

use hbase_txn::{
    ClientErrorKind, Connection, Error, Result, TableName,
    latch::{LatchManager, LatchManagerOptions, LatchTableOptions},
    lock::{LockManager, LockManagerOptions, LockTableOptions},
};

use crate::{exit::Failure, progress::Progress};

/// Opens a lock table, and creates it if options for that are given and it does not exist.
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
        Some(table) => watched(name, options.create_table(table).open(connection, name.clone())).await,
    }
}

/// Opens a latch table, and creates it if options for that are given and it does not exist.
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
        Some(table) => watched(name, options.create_table(table).open(connection, name.clone())).await,
    }
}

/// Names the command that creates a missing table.
fn not_opened(error: Error, creating: &str) -> Failure {
    if error.kind() != ClientErrorKind::TableNotFound {
        return error.into();
    }
    let hint = format!("check its name, or create it: run hbase-txn {creating} --create");
    Failure::Library(error.with_better_hint(hint))
}

/// Shows the step on a terminal: creating many regions takes seconds.
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
