//! The procedures of calls.

use bytes::Bytes;
use hbase_protocol as pb;
use pb::get_procedure_result_response::State;

use crate::{cluster::world::World, exception::Result};

impl World {
    /// Begins a procedure, unless the call with this nonce has begun it before: then returns that
    /// one's number. `work` returns the regions that must be open at the end.
    pub(super) fn procedure(
        &mut self,
        nonce: (u64, u64),
        work: impl FnOnce(&mut Self) -> Result<Vec<Bytes>>,
    ) -> Result<u64> {
        if let Some(number) = self.procedures.begun_by(nonce) {
            return Ok(number);
        }
        let regions = work(self)?;
        Ok(self.procedures.begin(nonce, regions))
    }

    /// Returns the state of a procedure. Its end is returned once.
    pub(super) fn progress(&mut self, number: u64) -> State {
        let is_open = |region: &Bytes| {
            let hosted = self.regions.get(region);
            hosted.is_none_or(|hosted| hosted.info.split || hosted.is_open())
        };
        match self.procedures.regions(number) {
            None => State::NotFound,
            Some(regions) if !regions.iter().all(is_open) => State::Running,
            Some(_) => {
                self.procedures.forget(number);
                State::Finished
            }
        }
    }
}
