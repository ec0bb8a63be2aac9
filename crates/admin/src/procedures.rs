//! The procedures of the master, and the locks that they hold.

use std::time::SystemTime;

use hbase_client::{RemoteException, Result, low_level::pb};

use crate::{admin::Admin, cluster_status::moment, procedure::remote_exception};

/// A procedure of the master: a change of a table, a region, a server or a peer, which it finishes also
/// after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Procedure {
    /// The id, unique in the cluster.
    pub id: u64,
    /// The procedure that has started this one, if it was another procedure.
    pub parent: Option<u64>,
    /// The full name of its Java class.
    pub class: String,
    /// The state.
    pub state: ProcedureState,
    /// The name of its owner, the user of the call that started it. `None` if the master does not say.
    pub owner: Option<String>,
    /// When it was started, by the master's clock.
    pub submitted: SystemTime,
    /// When its state last changed, by the master's clock.
    pub updated: SystemTime,
    /// Why it has failed.
    pub failure: Option<RemoteException>,
}

/// The state of a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProcedureState {
    /// It is not started yet.
    Initializing,
    /// It runs, or waits for a thread or a lock.
    Runnable,
    /// It waits for procedures that it has started.
    Waiting,
    /// It waits for a time to pass or for an event.
    WaitingTimeout,
    /// It has failed, and its steps are undone.
    RolledBack,
    /// It has succeeded.
    Success,
    /// It has failed, and its steps are about to be undone.
    Failed,
}

/// A lock of the master, which keeps procedures from changing one thing at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcedureLock {
    /// The kind of the locked thing.
    pub resource: LockedResource,
    /// The name of the locked thing: of a region, the encoded one.
    pub name: String,
    /// The procedure that holds the lock alone. `None` if procedures share it.
    pub exclusive_owner: Option<Procedure>,
    /// The number of procedures that share the lock.
    pub shared_count: u32,
    /// The procedures that wait for the lock.
    pub waiting: Vec<Procedure>,
}

/// The kind of a thing that procedures lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockedResource {
    /// A region server.
    Server,
    /// A namespace.
    Namespace,
    /// A table.
    Table,
    /// A region.
    Region,
    /// A replication peer.
    Peer,
    /// A kind that this version of the client does not know.
    Other,
}

impl ProcedureState {
    /// Returns whether a procedure in this state has ended.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Success | Self::RolledBack)
    }
}

impl From<pb::Procedure> for Procedure {
    fn from(message: pb::Procedure) -> Self {
        use pb::ProcedureState as State;

        Self {
            state: match message.state() {
                State::Initializing => ProcedureState::Initializing,
                State::Runnable => ProcedureState::Runnable,
                State::Waiting => ProcedureState::Waiting,
                State::WaitingTimeout => ProcedureState::WaitingTimeout,
                State::Rolledback => ProcedureState::RolledBack,
                State::Success => ProcedureState::Success,
                State::Failed => ProcedureState::Failed,
            },
            id: message.proc_id,
            parent: message.parent_id,
            class: message.class_name,
            owner: message.owner.filter(|owner| !owner.is_empty()),
            submitted: moment(message.submitted_time),
            updated: moment(message.last_update),
            failure: message.exception.map(|exception| remote_exception(*exception)),
        }
    }
}

impl From<pb::LockedResource> for ProcedureLock {
    fn from(message: pb::LockedResource) -> Self {
        use pb::LockedResourceType as Type;

        Self {
            resource: match Type::try_from(message.resource_type) {
                Ok(Type::Server) => LockedResource::Server,
                Ok(Type::Namespace) => LockedResource::Namespace,
                Ok(Type::Table) => LockedResource::Table,
                Ok(Type::Region) => LockedResource::Region,
                Ok(Type::Peer) => LockedResource::Peer,
                Err(_) => LockedResource::Other,
            },
            shared_count: message
                .shared_lock_count
                .and_then(|count| u32::try_from(count).ok())
                .unwrap_or(0),
            name: message.resource_name.unwrap_or_default(),
            exclusive_owner: message
                .exclusive_lock_owner_procedure
                .map(|procedure| (*procedure).into()),
            waiting: message
                .waiting_procedures
                .into_iter()
                .map(Procedure::from)
                .collect(),
        }
    }
}

impl Admin {
    /// Returns the procedures of the master: all that have not ended, and some of those that have ended in
    /// the last minutes. A user without the right to administer the cluster sees their own.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use hbase_admin::Admin;
    ///
    /// # async fn example(connection: &hbase_client::Connection) -> hbase_client::Result<()> {
    /// for procedure in Admin::new(connection).procedures().await? {
    ///     if !procedure.state.is_final() {
    ///         println!("{} {} since {:?}", procedure.id, procedure.class, procedure.submitted);
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn procedures(&self) -> Result<Vec<Procedure>> {
        let request = pb::GetProceduresRequest {};
        let answer: pb::GetProceduresResponse = self
            .call("GetProcedures", &request)
            .await
            .map_err(|error| error.at_operation("listing the procedures"))?;
        Ok(answer.procedure.into_iter().map(Procedure::from).collect())
    }

    /// Returns the locks that procedures of the master hold or wait for.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn procedure_locks(&self) -> Result<Vec<ProcedureLock>> {
        let request = pb::GetLocksRequest {};
        let answer: pb::GetLocksResponse = self
            .call("GetLocks", &request)
            .await
            .map_err(|error| error.at_operation("listing the locks of procedures"))?;
        Ok(answer.lock.into_iter().map(ProcedureLock::from).collect())
    }
}
