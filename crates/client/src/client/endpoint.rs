//! Calls of coprocessor endpoints: code on the region servers, addressed by row or by region.

use std::borrow::Cow;

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    Table,
    region_call::{AnyRegion, RegionGuard, ServingRegion, Verdict},
};
use crate::{
    cluster::{CallKind, Operation},
    error::{Error, ErrorKind, Result},
    model::{IntoBytes, RegionInfo},
    rpc::CallError,
    wire::{convert, pb},
};

const OPERATION: &str = "endpoint call";

/// A call of a coprocessor endpoint on the region of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointCall {
    /// The row whose region is called; it need not exist.
    pub row: Bytes,
    /// The service: the short name for services of HBase's own package, the full name for all
    /// others.
    pub service: String,
    /// The method, spelt as in the service's definition.
    pub method: String,
    /// The request message, serialized.
    pub request: Bytes,
    /// Whether executing the call twice has the same effect as once. If so, the call is repeated
    /// when its answer is lost.
    pub idempotent: bool,
}

impl EndpointCall {
    /// Creates a call that is not repeated once the server may have received it.
    #[must_use]
    pub fn new(
        row: impl IntoBytes,
        service: impl Into<String>,
        method: impl Into<String>,
        request: impl IntoBytes,
    ) -> Self {
        Self {
            row: row.into_bytes(),
            service: service.into(),
            method: method.into(),
            request: request.into_bytes(),
            idempotent: false,
        }
    }

    /// Declares that executing the call twice has the same effect as once, so that it may be
    /// repeated.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }
}

/// A guard that lets calls pass to one region.
struct OneRegion<'a>(&'a RegionInfo);

impl RegionGuard for OneRegion<'_> {
    fn check(&self, serving: ServingRegion<'_>) -> Verdict {
        if serving.region.name == self.0.name {
            return Verdict::Pass;
        }
        let what = format!(
            "region {} does not exist any more: {} {} has its first row",
            self.0.encoded_text(),
            serving.region.encoded_text(),
            serving.region.range_text()
        );
        let error = Error::new(ErrorKind::RegionNotFound, what);
        Verdict::LookAgain(error.at_operation(OPERATION).at_table(&self.0.table))
    }
}

impl Table {
    /// Calls a coprocessor endpoint on the region of a row, and returns its serialized answer.
    ///
    /// # Errors
    ///
    /// Returns an error as [`put`](Self::put) does, and
    /// [`EndpointMissing`](crate::ErrorKind::EndpointMissing) if the service does not answer on the
    /// region.
    pub async fn call_endpoint(&self, call: &EndpointCall) -> Result<Bytes> {
        self.call_endpoint_where(OPERATION, call, &AnyRegion, self.deadline())
            .await
    }

    /// Calls a coprocessor endpoint on one region, as `Admin::regions` of the crate `hbase-admin` lists
    /// it, and returns its serialized answer. The call's row is not used.
    ///
    /// # Errors
    ///
    /// Returns an error as [`call_endpoint`](Self::call_endpoint) does, and
    /// [`RegionNotFound`](crate::ErrorKind::RegionNotFound) if the region was split or merged. Another
    /// region is never called instead.
    pub async fn call_endpoint_on_region(&self, region: &RegionInfo, call: &EndpointCall) -> Result<Bytes> {
        self.call_endpoint_on(region, call, self.deadline()).await
    }

    pub(super) async fn call_endpoint_on(
        &self,
        region: &RegionInfo,
        call: &EndpointCall,
        deadline: Instant,
    ) -> Result<Bytes> {
        let call = EndpointCall {
            row: region.start_key.clone(),
            ..call.clone()
        };
        self.call_endpoint_where(OPERATION, &call, &OneRegion(region), deadline)
            .await
    }

    /// Calls an endpoint, but only on a region that the guard lets pass. The guard checks the
    /// location of each attempt.
    pub(crate) async fn call_endpoint_where(
        &self,
        name: &'static str,
        call: &EndpointCall,
        guard: &dyn RegionGuard,
        deadline: Instant,
    ) -> Result<Bytes> {
        let operation = Operation {
            name,
            table: &self.name,
            row: Cow::Borrowed(&call.row),
            kind: match call.idempotent {
                true => CallKind::IdempotentWrite,
                false => CallKind::Write,
            },
            deadline,
        };
        let request = |region: &RegionInfo| pb::CoprocessorServiceRequest {
            region: convert::region_specifier(region),
            call: pb::CoprocessorServiceCall {
                row: call.row.clone(),
                service_name: call.service.clone(),
                method_name: call.method.clone(),
                request: call.request.clone(),
            },
        };
        // An answer without a value is none; an empty message has a value of no bytes.
        let read = |answer: pb::CoprocessorServiceResponse, _| {
            let missing = || CallError::BadAnswer("an endpoint's answer without a value".into());
            answer.value.value.ok_or_else(missing)
        };
        self.call_guarded_region(operation, "ExecService", guard, request, read)
            .await
    }
}
