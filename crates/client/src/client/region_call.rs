//! Calls to the region of a row, checked by a guard.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use super::{Table, lanes};
use crate::{
    cluster::{Attempts, CallKind, Operation, RegionLocation},
    error::{Error, Result},
    model::{Get, RegionInfo, Row, ServerName},
    rpc::CallError,
    wire::cell_block::CellBlockDecoder,
};

/// A check of the region that a call is about to go to.
///
/// The client asks the guard before each attempt, because the region may have moved, split or been
/// reopened since the last one.
pub trait RegionGuard: Sync {
    /// Decides whether the call may go to this region. Must not block.
    fn check(&self, serving: ServingRegion<'_>) -> Verdict;

    /// Returns whether only this opening of the region may execute the call. If a connection to the
    /// server has ended since the region was located, the call is not sent, and the guard is asked
    /// about a new location.
    fn is_for_one_opening(&self) -> bool {
        false
    }
}

/// A region, the server that serves it, and the sequence number of its opening, as far as the
/// client knows.
#[derive(Clone, Copy, Debug)]
pub struct ServingRegion<'a> {
    /// The region.
    pub region: &'a RegionInfo,
    /// The server. Its start code distinguishes it from the same server before a restart.
    pub server: &'a ServerName,
    /// The sequence number of the opening (`openSeqNum` in `hbase:meta`). Grows each time the
    /// region is opened: after a move, a change of the table, or a crash.
    pub opening: i64,
    /// When the region was opened, in milliseconds since 1970 by the clock of the master (2.4 and
    /// later write it as the timestamp of `info:seqnumDuringOpen`), or `None` if it is not known.
    pub opened_at: Option<u64>,
}

/// The decision of a [`RegionGuard`].
#[derive(Debug)]
pub enum Verdict {
    /// Sends the call to the region.
    Pass,
    /// Looks up the region again, because the cached location may be stale, and asks the guard once
    /// more. The call fails with this error if the guard refuses that region too.
    LookAgain(Error),
    /// Fails the call with this error. No further attempt is made.
    Stop(Error),
}

/// A [`RegionGuard`] that lets every call pass.
#[derive(Clone, Copy, Debug)]
pub struct AnyRegion;

impl RegionGuard for AnyRegion {
    fn check(&self, _: ServingRegion<'_>) -> Verdict {
        Verdict::Pass
    }
}

impl Table {
    /// Calls a method of the region server that serves the operation's row. Retries until the call
    /// succeeds, must not be repeated, or its deadline passes. The guard checks every location, and
    /// each location gets its own request.
    pub(super) async fn call_guarded_region<M, A, T>(
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
        let mut attempts = Attempts::new(&self.connection.shared.cluster, operation);
        loop {
            let location = self.guarded_location(&mut attempts, guard).await?;
            let request = request(&location.region);
            let answer = self
                .call(
                    &location,
                    method,
                    &request,
                    attempts.guarded_limit(&location, guard.is_for_one_opening()),
                )
                .await
                .and_then(|(answer, block)| read(answer, block));
            match answer {
                Ok(answer) => {
                    attempts.succeed();
                    return Ok(answer);
                }
                Err(failure) => attempts.recover(failure, &location).await?,
            }
        }
    }

    /// Reads a row of a region that the guard lets pass, in a call that it may share with others.
    pub(crate) async fn get_where(
        &self,
        name: &'static str,
        get: &Get,
        guard: &dyn RegionGuard,
        deadline: Instant,
    ) -> Result<Option<Row>> {
        let operation = Operation {
            name,
            table: &self.name,
            row: Cow::Borrowed(&get.row),
            kind: CallKind::Read,
            deadline,
        };
        let mut attempts = Attempts::new(&self.connection.shared.cluster, operation);
        let operation = lanes::Operation::get(get);
        loop {
            let location = self.guarded_location(&mut attempts, guard).await?;
            let client = &self.connection.shared;
            let limit = attempts.guarded_limit(&location, guard.is_for_one_opening());
            match client
                .execute(&location, &self.options.call, &operation, limit)
                .await
            {
                Ok(row) => {
                    attempts.succeed();
                    return Ok(row);
                }
                Err(failure) => attempts.recover(failure, &location).await?,
            }
        }
    }

    /// Returns the region of a row according to the cache or `hbase:meta`; it may have been split
    /// since.
    pub(crate) async fn region_of(&self, row: &Bytes, deadline: Instant) -> Result<RegionInfo> {
        let operation = Operation {
            name: "finding a region",
            table: &self.name,
            row: Cow::Borrowed(row),
            kind: CallKind::Read,
            deadline,
        };
        let mut attempts = Attempts::new(&self.connection.shared.cluster, operation);
        let location = attempts.locate().await?;
        attempts.succeed();
        Ok(location.region.clone())
    }

    /// Returns the name of the region of a row according to the cache.
    pub(crate) fn known_region(&self, row: &[u8]) -> Option<Bytes> {
        let cluster = &self.connection.shared.cluster;
        let location = cluster.known_location(&self.name, row)?;
        Some(location.region.name.clone())
    }

    /// Returns the location of the row, in a region that the guard lets pass.
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
                opened_at: location.opened_at,
            };
            match guard.check(serving) {
                Verdict::Pass => return Ok(location),
                Verdict::LookAgain(_) if !looked_again => {
                    looked_again = true;
                    self.connection.shared.cluster.forget(&location);
                }
                Verdict::LookAgain(refusal) | Verdict::Stop(refusal) => {
                    let refusal = refusal
                        .with_effect(attempts.effect())
                        .at_server(&location.server.address());
                    attempts.fail(&refusal);
                    return Err(refusal);
                }
            }
        }
    }
}
