//! The procedures of calls.

use bytes::Bytes;
use hbase_protocol as pb;
use pb::get_procedure_result_response::State;

use crate::{
    cluster::{
        call::{Answer, Call},
        names::TableName,
        world::World,
    },
    exception::{Exception, Result},
};

/// The nonce group and the nonce of a call, as its message has them.
pub(in crate::cluster) type Nonce = (Option<u64>, Option<u64>);

impl World {
    /// Begins a procedure, unless the call with this nonce has begun it before: then returns that
    /// one's number. `work` returns the regions that must be open at the end.
    pub(in crate::cluster) fn procedure(
        &mut self,
        nonce: Nonce,
        work: impl FnOnce(&mut Self) -> Result<Vec<Bytes>>,
    ) -> Result<u64> {
        self.begin_procedure(nonce, |world| work(world).map(Ok))
    }

    /// As [`procedure`](Self::procedure) on a table that a message names.
    pub(super) fn table_procedure(
        &mut self,
        table: &pb::TableName,
        nonce: Nonce,
        work: impl FnOnce(&mut Self, &TableName) -> Result<Vec<Bytes>>,
    ) -> Result<u64> {
        let name = TableName::from_message(table)?;
        self.procedure(nonce, |world| work(world, &name))
    }

    /// Begins a procedure that checks nothing before its call is answered: clients learn of a failure
    /// when they ask for its result.
    pub(super) fn unchecked_table_procedure(
        &mut self,
        table: &pb::TableName,
        nonce: Nonce,
        work: impl FnOnce(&mut Self, &TableName) -> Result<Vec<Bytes>>,
    ) -> Result<u64> {
        let name = TableName::from_message(table)?;
        self.begin_procedure(nonce, |world| Ok(work(world, &name)))
    }

    fn begin_procedure(
        &mut self,
        (group, nonce): Nonce,
        work: impl FnOnce(&mut Self) -> Result<Result<Vec<Bytes>>>,
    ) -> Result<u64> {
        let nonce = (group.unwrap_or(0), nonce.unwrap_or(0));
        if let Some(number) = self.procedures.begun_by(nonce) {
            return Ok(number);
        }
        let outcome = work(self)?;
        Ok(self.procedures.begin(nonce, outcome))
    }

    /// Answers with the state of a procedure. Its end is returned once.
    pub(super) fn procedure_result(&mut self, call: &Call) -> Result<Answer> {
        let pb::GetProcedureResultRequest { proc_id } = call.decode()?;
        let is_open = |region: &Bytes| {
            let hosted = self.regions.get(region);
            hosted.is_none_or(|hosted| hosted.info.split || hosted.is_open())
        };
        let (state, exception) = match self.procedures.outcome(proc_id) {
            None => (State::NotFound, None),
            Some(Ok(regions)) if !regions.iter().all(is_open) => (State::Running, None),
            Some(outcome) => {
                let exception = outcome.as_ref().err().map(foreign);
                self.procedures.forget(proc_id);
                (State::Finished, exception)
            }
        };
        Answer::of(&pb::GetProcedureResultResponse {
            state: state.into(),
            submitted_time: None,
            last_update: None,
            result: None,
            exception,
        })
    }
}

/// Returns a failure as a procedure reports it.
fn foreign(exception: &Exception) -> pb::ForeignExceptionMessage {
    pb::ForeignExceptionMessage {
        source: Some(String::new()),
        generic_exception: Some(pb::GenericExceptionMessage {
            class_name: Some(exception.class_name()),
            message: Some(exception.message.clone()),
            error_info: None,
        }),
    }
}
