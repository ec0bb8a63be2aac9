//! Waits for the master's procedures: its calls only start them.

use hbase_client::{
    Connection, Effect, Error, ErrorKind, RemoteException, Result, ServiceKind,
    low_level::{CallKind, Classification, ServerTarget, call_server, pb},
};
use prost::Message;
use tokio::time::Instant;

use crate::polling::poll_until;

/// How a procedure ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    /// The master does not know the procedure anymore: it has already returned the result, perhaps
    /// in an answer that was lost. The caller must look for the effect itself, and give what it reads
    /// to [`seen_after_change`].
    Forgotten,
}

impl Ended {
    /// Returns an error with an unknown outcome if the master has forgotten how the procedure ended, and
    /// nothing else shows it.
    pub(crate) fn certain(self) -> Result<()> {
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
pub(crate) fn seen_after_change<T>(read: Result<T>) -> Result<T> {
    read.map_err(|error| match error.kind() {
        ErrorKind::TableNotFound => error,
        _ => error.with_effect(Effect::Unknown),
    })
}

/// The answer to a call that only starts a procedure.
pub(crate) trait Started: Message + Default {
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

/// Waits until a procedure has ended.
pub(crate) async fn await_procedure(
    connection: &Connection,
    procedure: Option<u64>,
    deadline: Instant,
) -> Result<Ended> {
    let Some(proc_id) = procedure else {
        return Ok(Ended::Forgotten);
    };
    let request = pb::GetProcedureResultRequest { proc_id };
    let poll = async || {
        let target = ServerTarget::Master(ServiceKind::Master);
        let answer: pb::GetProcedureResultResponse = call_server(
            connection,
            target,
            "getProcedureResult",
            CallKind::Read,
            &request,
            deadline,
        )
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

/// Returns the error of a procedure that the deadline does not wait for.
pub(crate) fn unfinished(what: &'static str) -> Error {
    Error::new(ErrorKind::DeadlineExceeded, what)
        .with_hint("it goes on by itself; look again later, or allow more time")
}

fn failure(exception: pb::ForeignExceptionMessage) -> Error {
    let remote = remote_exception(exception);
    let kind = Classification::of(&remote.class, &remote.message, true).kind;
    Error::new(kind, "the master could not do it").with_remote(remote)
}

pub(crate) fn remote_exception(exception: pb::ForeignExceptionMessage) -> RemoteException {
    let generic = exception.generic_exception.unwrap_or_default();
    let class = generic.class_name.unwrap_or_default();
    let message = generic.message.unwrap_or_default();
    RemoteException {
        trace: format!("{class}: {message}"),
        class,
        message,
    }
}
