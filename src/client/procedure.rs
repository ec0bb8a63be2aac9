//! Waiting for what a master does: its calls only start procedures.

use prost::Message;
use tokio::time::Instant;

use super::{Admin, Connection, pauses::Pauses};
use crate::{
    cluster::CallKind,
    error::{Effect, Error, ErrorKind, RemoteException, Result},
    model::TableName,
    rpc::Ruling,
    wire::pb,
};

/// How a procedure ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    /// The master knows nothing of it: it told the result to somebody already, perhaps to us in an answer that
    /// was lost. What was asked for must be looked at itself.
    Forgotten,
}

/// The answer to a call that only starts a procedure.
pub(super) trait Started: Message + Default {
    /// The procedure; none when there was nothing to do.
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
    CreateNamespaceResponse SplitTableRegionResponse MergeTableRegionsResponse
}

impl Connection {
    /// Waits until a procedure has ended.
    pub(super) async fn await_procedure(&self, procedure: Option<u64>, deadline: Instant) -> Result<Ended> {
        let Some(proc_id) = procedure else {
            return Ok(Ended::Forgotten);
        };
        let request = pb::GetProcedureResultRequest { proc_id };
        let mut pauses = Pauses::polling();
        loop {
            let answer: pb::GetProcedureResultResponse = self
                .cluster
                .call_master("getProcedureResult", CallKind::Read, &request, deadline)
                .await
                .map_err(|error| error.with_effect(Effect::Unknown))?;
            match answer.state() {
                pb::get_procedure_result_response::State::Finished => {
                    return answer
                        .exception
                        .map_or(Ok(Ended::Done), |exception| Err(failure(exception)));
                }
                pb::get_procedure_result_response::State::NotFound => return Ok(Ended::Forgotten),
                pb::get_procedure_result_response::State::Running => {}
            }
            if !pauses.wait_before(deadline).await {
                return Err(
                    Error::new(ErrorKind::DeadlineExceeded, "the master has not finished in time")
                        .with_effect(Effect::Unknown)
                        .with_hint("it goes on by itself; look again later, or allow more time"),
                );
            }
        }
    }
}

impl Admin {
    /// Waits until the master is at work on a table for nobody: a procedure outlives the client that started it. Says false
    /// where the user may not see that.
    #[cfg(feature = "provision")]
    pub(crate) async fn await_idle_master(&self, table: &TableName, deadline: Instant) -> Result<bool> {
        let request = pb::GetLocksRequest {};
        let name = table.to_string();
        let mut pauses = Pauses::polling();
        loop {
            let call = self
                .connection
                .cluster
                .call_master("GetLocks", CallKind::Read, &request, deadline);
            let answer: pb::GetLocksResponse = match call.await {
                Ok(answer) => answer,
                Err(error) if error.kind() == ErrorKind::AccessDenied => return Ok(false),
                Err(error) => return Err(error.at_operation("waiting for the master").at_table(table)),
            };
            let busy = answer.lock.iter().any(|lock| {
                lock.resource_type() == pb::LockedResourceType::Table
                    && lock.lock_type() == pb::LockType::Exclusive
                    && lock.resource_name() == name
            });
            if !busy {
                return Ok(true);
            }
            if !pauses.wait_before(deadline).await {
                return Err(Error::new(
                    ErrorKind::DeadlineExceeded,
                    "the master is still at work on the table",
                )
                .at_operation("waiting for the master")
                .at_table(table)
                .with_hint("it goes on by itself; look again later, or allow more time"));
            }
        }
    }
}

fn failure(exception: pb::ForeignExceptionMessage) -> Error {
    let generic = exception.generic_exception.unwrap_or_default();
    let class = generic.class_name.unwrap_or_default();
    let message = generic.message.unwrap_or_default();
    let kind = Ruling::of(&class, &message, true).kind;
    Error::new(kind, "the master could not do it").with_remote(RemoteException {
        trace: format!("{class}: {message}"),
        class,
        message,
    })
}
