//! Calls of coprocessor endpoints: code on the region servers, addressed by row or by region.

use bytes::Bytes;
use tokio::time::Instant;

use super::{CallKind, RegionCall, Table};
use crate::{
    error::{Error, ErrorKind, Result},
    model::{IntoBytes, RegionInfo},
    rpc::CallError,
    wire::{cell_block::CellBlockDecoder, convert, pb},
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

    fn kind(&self) -> CallKind {
        if self.idempotent {
            CallKind::IdempotentWrite
        } else {
            CallKind::Write
        }
    }

    pub(super) fn message(&self, region: &RegionInfo) -> pb::CoprocessorServiceRequest {
        pb::CoprocessorServiceRequest {
            region: convert::region_specifier(region),
            call: pb::CoprocessorServiceCall {
                row: self.row.clone(),
                service_name: self.service.clone(),
                method_name: self.method.clone(),
                request: self.request.clone(),
            },
        }
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
        let mut attempts = RegionCall::new(self, OPERATION, &call.row, call.kind(), self.deadline());
        loop {
            let location = attempts.locate().await?;
            match attempts.attempt(&location).endpoint(call).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => attempts.recover(failure).await?,
            }
        }
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
        let mut attempts = RegionCall::new(self, OPERATION, &call.row, call.kind(), deadline);
        loop {
            let location = attempts.locate().await?;
            if location.region.name != region.name {
                attempts.look_again(&location, replaced(region, &location.region))?;
                continue;
            }
            match attempts.attempt(&location).endpoint(&call).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => attempts.recover(failure).await?,
            }
        }
    }
}

/// Returns the error of a region that was split or merged.
fn replaced(region: &RegionInfo, by: &RegionInfo) -> Error {
    let what = format!(
        "region {} does not exist any more: {} {} has its first row",
        region.encoded_text(),
        by.encoded_text(),
        by.range_text()
    );
    Error::new(ErrorKind::RegionNotFound, what)
        .at_operation(OPERATION)
        .at_table(&region.table)
}

/// Reads the answer of an endpoint. A missing value is a protocol error; an empty message is empty bytes.
pub(super) fn read(answer: pb::CoprocessorServiceResponse, _: CellBlockDecoder) -> Result<Bytes, CallError> {
    let missing = || CallError::BadAnswer("an endpoint's answer without a value".into());
    answer.value.value.ok_or_else(missing)
}
