//! Waits for the master's procedures: its calls only start them.

use prost::Message;
use tokio::time::Instant;

use super::{Admin, Connection, pauses::poll_until};
use crate::{
    cluster::CallKind,
    error::{Effect, Error, ErrorKind, RemoteException, Result},
    model::IntoTableName,
    rpc::Classification,
    wire::{pb, procedures},
};

/// How a procedure ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    /// The master does not know the procedure anymore: it has already returned the result, perhaps
    /// in an answer that was lost. The caller must look for the effect itself, and give what it reads
    /// to [`seen_after_change`].
    Forgotten,
}

impl Ended {
    /// Returns an error with an unknown outcome if the master has forgotten how the procedure ended, and
    /// nothing else shows it.
    pub(super) fn certain(self) -> Result<()> {
        match self {
            Self::Done => Ok(()),
            Self::Forgotten => Err(Error::new(
                ErrorKind::Server,
                "the master does not say any more how it ended",
            )
            .with_effect(Effect::Unknown)),
        }
    }
}

/// Returns what a read shows after a change. Without an answer, the change may have been made.
pub(super) fn seen_after_change<T>(read: Result<T>) -> Result<T> {
    read.map_err(|error| match error.kind() {
        ErrorKind::TableNotFound => error,
        _ => error.with_effect(Effect::Unknown),
    })
}

/// The answer to a call that only starts a procedure.
pub(super) trait Started: Message + Default {
    /// Returns the procedure, or `None` if there was nothing to do.
    fn procedure(&self) -> Option<u64>;
}

macro_rules! started {
    ($($answer:ident)*) => {
        $(impl Started for pb::$answer {
            fn procedure(&self) -> Option<u64> {
                self.proc_id
            }
        })*
    };
}

started! {
    CreateTableResponse ModifyTableResponse DisableTableResponse EnableTableResponse DeleteTableResponse
    CreateNamespaceResponse ModifyNamespaceResponse DeleteNamespaceResponse SplitTableRegionResponse
    MergeTableRegionsResponse TruncateTableResponse AddColumnResponse ModifyColumnResponse DeleteColumnResponse
    AddReplicationPeerResponse RemoveReplicationPeerResponse EnableReplicationPeerResponse DisableReplicationPeerResponse
    UpdateReplicationPeerConfigResponse TruncateRegionResponse ModifyTableStoreFileTrackerResponse
    ModifyColumnStoreFileTrackerResponse
}

impl Started for pb::RestoreSnapshotResponse {
    fn procedure(&self) -> Option<u64> {
        Some(self.proc_id)
    }
}

impl Connection {
    /// Waits until a procedure has ended.
    pub(super) async fn await_procedure(&self, procedure: Option<u64>, deadline: Instant) -> Result<Ended> {
        let Some(proc_id) = procedure else {
            return Ok(Ended::Forgotten);
        };
        let request = pb::GetProcedureResultRequest { proc_id };
        let poll = async || {
            let answer: pb::GetProcedureResultResponse = self
                .shared
                .cluster
                .call_master("getProcedureResult", CallKind::Read, &request, deadline)
                .await
                .map_err(|error| error.with_effect(Effect::Unknown))?;
            match answer.state() {
                pb::get_procedure_result_response::State::Finished => answer
                    .exception
                    .map_or(Ok(Some(Ended::Done)), |exception| Err(failure(exception))),
                pb::get_procedure_result_response::State::NotFound => Ok(Some(Ended::Forgotten)),
                pb::get_procedure_result_response::State::Running => Ok(None),
            }
        };
        let unfinished = || unfinished("the master has not finished in time").with_effect(Effect::Unknown);
        poll_until(deadline, poll, unfinished).await
    }
}

impl Admin {
    /// Waits until the master has finished all procedures that create or change a table, of any
    /// client: a procedure outlives the client that started it, and leaves the table in an
    /// intermediate state meanwhile. Only an administrator sees procedures of other users. Returns
    /// at once if there are none.
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`](ErrorKind::DeadlineExceeded) if they do not end within the
    /// operation timeout.
    pub async fn await_table_procedures(&self, table: impl IntoTableName) -> Result<()> {
        let table = &table.into_table_name()?;
        let in_context = |error: Error| error.at_operation("waiting for the master").at_table(table);
        let deadline = self.deadline();
        let poll = async || {
            let cluster = &self.connection.shared.cluster;
            let request = pb::GetProceduresRequest {};
            let answer: pb::GetProceduresResponse = cluster
                .call_master("GetProcedures", CallKind::Read, &request, deadline)
                .await?;
            let begun = |procedure| procedures::is_changing(procedure, table);
            Ok((!answer.procedure.iter().any(begun)).then_some(()))
        };
        let unfinished = || unfinished("the master is still at work on the table");
        poll_until(deadline, poll, unfinished).await.map_err(in_context)
    }
}

/// Returns the error of a procedure that the deadline does not wait for.
pub(super) fn unfinished(what: &'static str) -> Error {
    Error::new(ErrorKind::DeadlineExceeded, what)
        .with_hint("it goes on by itself; look again later, or allow more time")
}

fn failure(exception: pb::ForeignExceptionMessage) -> Error {
    let remote = remote_exception(exception);
    let kind = Classification::of(&remote.class, &remote.message, true).kind;
    Error::new(kind, "the master could not do it").with_remote(remote)
}

pub(super) fn remote_exception(exception: pb::ForeignExceptionMessage) -> RemoteException {
    let generic = exception.generic_exception.unwrap_or_default();
    let class = generic.class_name.unwrap_or_default();
    let message = generic.message.unwrap_or_default();
    RemoteException {
        trace: format!("{class}: {message}"),
        class,
        message,
    }
}
