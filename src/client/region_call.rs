//! Calls of the region that has a row, on the condition that a guard lets it pass.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use super::Table;
use crate::{
    cluster::{Attempts, CallKind, Operation, RegionLocation},
    error::{Error, Result},
    model::{RegionInfo, ServerName},
    rpc::CallError,
    wire::cell_block::CellBlockDecoder,
};

/// What must be true of the region before a call goes there.
pub(crate) trait RegionGuard: Sync {
    /// Judges the region that the call is about to go to.
    fn check(&self, serving: ServingRegion<'_>) -> Verdict;
}

/// A region, who serves it, and which opening of it a call would meet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServingRegion<'a> {
    pub(crate) region: &'a RegionInfo,
    /// With its start code: a server that was started again is another one.
    pub(crate) server: &'a ServerName,
    /// Grows each time the region is opened: after a move, a change of the table, a crash.
    pub(crate) opening: i64,
}

/// Whether a call may go to a region.
#[derive(Debug)]
pub(crate) enum Verdict {
    Pass,
    /// Not as things look; but the map may be stale, so the region is looked up again, and judged once more.
    LookAgain(Error),
    Stop(Error),
}

/// No region is refused.
pub(crate) struct AnyRegion;

impl RegionGuard for AnyRegion {
    fn check(&self, _: ServingRegion<'_>) -> Verdict {
        Verdict::Pass
    }
}

impl Table {
    /// Calls a method of the server that has the operation's row, and reads its answer, until that succeeds or
    /// must not be tried again. Every location is judged anew, and gets a request of its own.
    pub(super) async fn call_region_where<M, A, T>(
        &self,
        operation: Operation<'_>,
        method: &'static str,
        guard: &dyn RegionGuard,
        request: impl Fn(&RegionInfo) -> M + Send + Sync,
        read: impl Fn(A, CellBlockDecoder) -> Result<T, CallError> + Send + Sync,
    ) -> Result<T>
    where
        M: Message,
        A: Message + Default,
        T: Send,
    {
        let mut attempts = Attempts::new(&self.connection.cluster, operation);
        loop {
            let location = self.guarded_location(&mut attempts, guard).await?;
            let request = request(&location.region);
            let answer = self
                .call(&location, method, &request, attempts.attempt_deadline())
                .await
                .and_then(|(answer, block)| read(answer, block));
            match answer {
                Ok(answer) => return Ok(answer),
                Err(failure) => attempts.recover(failure, &location).await?,
            }
        }
    }

    /// The region that has a row, as far as is known: it may have been split since.
    pub(crate) async fn region_of(&self, row: &Bytes, deadline: Instant) -> Result<RegionInfo> {
        let operation = Operation {
            name: "finding a region",
            table: &self.name,
            row: Cow::Borrowed(row),
            kind: CallKind::Read,
            deadline,
        };
        let location = Attempts::new(&self.connection.cluster, operation)
            .locate()
            .await?;
        Ok(location.region.clone())
    }

    /// Where the row is, in a region that the guard lets pass.
    pub(super) async fn guarded_location(
        &self,
        attempts: &mut Attempts<'_>,
        guard: &dyn RegionGuard,
    ) -> Result<Arc<RegionLocation>> {
        let mut looked_again = false;
        loop {
            let location = attempts.locate().await?;
            let serving = ServingRegion {
                region: &location.region,
                server: &location.server,
                opening: location.open_sequence,
            };
            match guard.check(serving) {
                Verdict::Pass => return Ok(location),
                Verdict::LookAgain(_) if !looked_again => {
                    looked_again = true;
                    self.connection.cluster.forget(&location);
                }
                Verdict::LookAgain(refusal) | Verdict::Stop(refusal) => {
                    return Err(refusal
                        .with_effect(attempts.effect())
                        .at_server(&location.server.address()));
                }
            }
        }
    }
}
