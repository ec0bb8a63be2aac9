//! Calls of coprocessor endpoints: code on the region servers, addressed by row.

use std::borrow::Cow;

use bytes::Bytes;
use tokio::time::Instant;

use super::Table;
use crate::{
    cluster::{Attempts, CallKind, Operation},
    error::{Error, Result},
    model::RegionInfo,
    rpc::CallError,
    wire::{convert, pb},
};

/// A call of a coprocessor endpoint, on the region that has a row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointCall {
    /// The row whose region is called; it need not exist.
    pub row: Bytes,
    /// The service. Services of HBase's own package are called by their short name, all others by their full one.
    pub service: String,
    /// The method, spelt as in the service's definition.
    pub method: String,
    /// The request message, serialized.
    pub request: Bytes,
    /// Whether twice is the same as once. If so, the call is sent again when its answer is lost.
    pub idempotent: bool,
}

impl EndpointCall {
    /// A call that is not sent again once it may have arrived.
    #[must_use]
    pub fn new(
        row: impl Into<Bytes>,
        service: impl Into<String>,
        method: impl Into<String>,
        request: impl Into<Bytes>,
    ) -> Self {
        Self {
            row: row.into(),
            service: service.into(),
            method: method.into(),
            request: request.into(),
            idempotent: false,
        }
    }

    /// Says that twice is the same as once.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }
}

/// What must be true of the region before a call goes there.
pub(crate) trait RegionGuard: Sync {
    /// Judges the region that the call is about to go to.
    fn check(&self, serving: ServingRegion<'_>) -> Verdict;
}

/// A region, and which opening of it a call would meet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServingRegion<'a> {
    pub(crate) region: &'a RegionInfo,
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
struct AnyRegion;

impl RegionGuard for AnyRegion {
    fn check(&self, _: ServingRegion<'_>) -> Verdict {
        Verdict::Pass
    }
}

impl Table {
    /// Calls a coprocessor endpoint on the region that has a row, and returns its answer, serialized.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put); and [`EndpointMissing`](crate::ErrorKind::EndpointMissing) when the service does
    /// not answer on the region.
    pub async fn call_endpoint(&self, call: &EndpointCall) -> Result<Bytes> {
        self.call_endpoint_where("endpoint call", call, &AnyRegion, self.deadline())
            .await
    }

    /// Calls an endpoint, but only on a region that the guard lets pass. Every location is judged anew.
    pub(crate) async fn call_endpoint_where(
        &self,
        name: &'static str,
        call: &EndpointCall,
        guard: &dyn RegionGuard,
        deadline: Instant,
    ) -> Result<Bytes> {
        let kind = if call.idempotent {
            CallKind::IdempotentWrite
        } else {
            CallKind::Write
        };
        let operation = Operation {
            name,
            table: &self.name,
            row: Cow::Borrowed(&call.row),
            kind,
            deadline,
        };
        let mut attempts = Attempts::new(&self.connection.cluster, operation);
        let mut looked_again = false;
        loop {
            let location = attempts.locate().await?;
            let serving = ServingRegion {
                region: &location.region,
                opening: location.open_sequence,
            };
            match guard.check(serving) {
                Verdict::Pass => {}
                Verdict::LookAgain(_) if !looked_again => {
                    looked_again = true;
                    self.connection.cluster.forget(&location);
                    continue;
                }
                Verdict::LookAgain(refusal) | Verdict::Stop(refusal) => {
                    return Err(refusal
                        .with_effect(attempts.effect())
                        .at_server(&location.server.address()));
                }
            }
            let request = pb::CoprocessorServiceRequest {
                region: convert::region_specifier(&location.region),
                call: pb::CoprocessorServiceCall {
                    row: call.row.clone(),
                    service_name: call.service.clone(),
                    method_name: call.method.clone(),
                    request: call.request.clone(),
                },
            };
            let answer = self
                .call::<_, pb::CoprocessorServiceResponse>(
                    &location,
                    "ExecService",
                    &request,
                    attempts.attempt_deadline(),
                )
                .await
                // An answer without a value is none: an empty message has a value too, of no bytes.
                .and_then(|(answer, _)| {
                    let missing = || CallError::BadAnswer("an endpoint's answer without a value".into());
                    answer.value.value.ok_or_else(missing)
                });
            match answer {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    looked_again = false;
                    attempts.recover(failure, &location).await?;
                }
            }
        }
    }
}
