//! The elections, semaphores, read/write locks and groups of a table.

use hbase_client::BytesBinary;

use super::{
    election::{self, Leader},
    group::{self, GroupInfo},
    read_write::{self, ReadWriteInfo},
    semaphore::{self, SemaphoreInfo},
};
use crate::{
    error::{Error, Result},
    lock::{LockManager, LockName},
};

/// An election, a semaphore, a read/write lock or a group of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoordinationInfo {
    /// Its key: the kind and the name, with a `#` between them.
    pub key: String,
    /// Its farm, client and id.
    pub name: LockName,
    /// Its kind and its state.
    pub state: CoordinationState,
}

/// The kind of a [`CoordinationInfo`], and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoordinationState {
    /// An election with a leader.
    Election(Leader),
    /// A semaphore, with or without holders.
    Semaphore(SemaphoreInfo),
    /// A read/write lock with holders.
    ReadWrite(ReadWriteInfo),
    /// A group with members.
    Group(GroupInfo),
}

/// Lists the elections with a leader, the semaphores, the held read/write locks and the groups with
/// members of the table, of all clients and farms, in the order of their rows.
///
/// The list is not a snapshot: the table is scanned, and each is as it was when the scan passed it.
///
/// # Errors
///
/// Returns the errors of the scan, [`LimitExceeded`](crate::ClientErrorKind::LimitExceeded) for more
/// than a million, and [`DefinitionMismatch`](crate::ErrorKind::DefinitionMismatch) for a semaphore
/// whose number of permits cannot be read.
pub async fn list(locks: &LockManager) -> Result<Vec<CoordinationInfo>> {
    let mut found = Vec::new();
    for (kind, name, seen) in locks.slot_rows().await? {
        let key = format!("{kind}#{name}");
        let state = match &*kind {
            election::KIND => election::leader(seen).map(CoordinationState::Election),
            group::KIND | read_write::KIND if seen.held.is_empty() => None,
            group::KIND => Some(CoordinationState::Group(group::info(&key, seen))),
            read_write::KIND => Some(CoordinationState::ReadWrite(read_write::info(&key, seen))),
            semaphore::KIND => {
                let in_context = |error: Error| {
                    error
                        .at_operation(format!("semaphore {}", BytesBinary(key.as_bytes())))
                        .at_table(locks.table())
                };
                let permits = seen
                    .definition
                    .as_ref()
                    .map(|definition| semaphore::decode(&definition.value));
                let permits = permits.transpose().map_err(in_context)?;
                permits.map(|permits| CoordinationState::Semaphore(semaphore::info(&key, permits, seen)))
            }
            _ => None,
        };
        found.extend(state.map(|state| CoordinationInfo { key, name, state }));
    }
    Ok(found)
}
