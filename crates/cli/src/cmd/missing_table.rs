//! Lock and latch tables that a command may create.

use std::future::Future;

use hbase_txn::{
    ClientErrorKind, Error, Result,
    client::{Connection, TableName},
    latch::{LatchManager, LatchManagerOptions, LatchTableOptions},
    lock::{LockManager, LockManagerOptions, LockTableOptions},
};

use crate::{exit::Failure, progress::Progress};

/// What a command does if its table does not exist.
#[derive(Debug)]
pub(crate) enum Missing<T> {
    /// It fails.
    Refused,
    /// It fails, and would create the table with `--create`.
    NotCreated,
    /// It creates the table with these options.
    Created(T),
}

/// Opens a lock table. Creates it if it does not exist and `missing` has options.
pub(crate) async fn open_locks(
    connection: &Connection,
    options: LockManagerOptions,
    name: &TableName,
    missing: Missing<LockTableOptions>,
) -> Result<LockManager, Failure> {
    match missing {
        Missing::Created(table) => watched(name, options.open_or_create(connection, table)).await,
        missing => {
            let opened = options.open(connection, name.clone()).await;
            opened.map_err(|error| not_opened(error, &missing))
        }
    }
}

/// Opens a latch table. Creates it if it does not exist and `missing` has options.
pub(crate) async fn open_latches(
    connection: &Connection,
    options: LatchManagerOptions,
    name: &TableName,
    missing: Missing<LatchTableOptions>,
) -> Result<LatchManager, Failure> {
    match missing {
        Missing::Created(table) => watched(name, options.open_or_create(connection, table)).await,
        missing => {
            let opened = options.open(connection, name.clone()).await;
            opened.map_err(|error| not_opened(error, &missing))
        }
    }
}

/// Converts the error. The hint for a missing table names `--create` only if the command has it.
fn not_opened<T>(error: Error, missing: &Missing<T>) -> Failure {
    if error.kind() != ClientErrorKind::TableNotFound {
        return error.into();
    }
    Failure::Library(error.with_better_hint(match missing {
        Missing::NotCreated => "check its name, or add --create to create it",
        _ => "check its name: run hbase-txn table list",
    }))
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
