//! An operation from its beginning to its outcome.

use super::{
    OperationSpan, SpanOptions, Timer, TraceHeaders,
    client_metrics::{OPERATION_DURATION, OPERATIONS},
};
use crate::{
    error::{Effect, Failure, FailureKind},
    model::{RegionInfo, ServerName, TableName},
};

/// What is reported of an operation: its span, its duration, and its outcome. One that is dropped
/// without an outcome was cancelled.
#[derive(Debug)]
pub(crate) struct ObservedOperation {
    name: &'static str,
    span: OperationSpan,
    timer: Timer,
    has_ended: bool,
}

impl ObservedOperation {
    pub(crate) fn begin(
        options: &SpanOptions,
        name: &'static str,
        table: Option<&TableName>,
        row: &[u8],
    ) -> Self {
        let span = OperationSpan::of_client(name, table);
        span.record_row(options, row);
        Self {
            name,
            span,
            timer: Timer::start(),
            has_ended: false,
        }
    }

    /// Records the region and the server that an attempt goes to, and the number of the attempt.
    pub(crate) fn attempt(&self, region: Option<&RegionInfo>, server: &ServerName, attempt: u32) {
        self.span.record_attempt(region, server, attempt);
    }

    /// Returns the headers by which a server continues the trace of the operation.
    pub(crate) fn trace_headers(&self, options: &SpanOptions) -> TraceHeaders {
        self.span.trace_headers(options)
    }

    /// Runs code within the span.
    pub(crate) fn in_scope<T>(&self, run: impl FnOnce() -> T) -> T {
        self.span.in_scope(run)
    }

    pub(crate) fn succeed(&mut self) {
        self.end("ok");
    }

    pub(crate) fn fail<K: FailureKind>(&mut self, error: &Failure<K>) {
        if self.has_ended {
            return;
        }
        self.span.record_error(error);
        self.end(match error.effect() {
            Effect::None => "failed",
            Effect::Unknown => "unknown",
        });
    }

    fn end(&mut self, outcome: &'static str) {
        if self.has_ended {
            return;
        }
        self.has_ended = true;
        self.span.end(outcome);
        OPERATIONS.count(|| [self.name, outcome]);
        OPERATION_DURATION.record_since(self.timer, || [self.name]);
    }
}

impl Drop for ObservedOperation {
    fn drop(&mut self) {
        self.end("cancelled");
    }
}
