//! Spans without the feature `spans`: nothing is created, and requests carry no trace context.

#![allow(clippy::unused_self, reason = "the signatures of `span`")]

use crate::{
    error::{Failure, FailureKind},
    model::{RegionInfo, ServerName, TableName},
    wire::pb,
};

/// How operations are traced.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanOptions {}

/// The headers by which a server continues a trace: none.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceHeaders {}

impl TraceHeaders {
    #[inline]
    pub(crate) fn trace_info(&self) -> Option<pb::RpctInfo> {
        None
    }
}

/// The span of an operation. Does nothing without the feature `spans`.
#[derive(Debug)]
pub struct OperationSpan;

impl OperationSpan {
    /// Begins the span of an operation that makes several calls.
    #[inline]
    #[must_use]
    pub fn begin(_: &'static str, _: &TableName) -> Self {
        Self
    }

    #[inline]
    pub(super) fn of_client(_: &'static str, _: Option<&TableName>) -> Self {
        Self
    }

    #[inline]
    pub(super) fn record_row(&self, _: &SpanOptions, _: &[u8]) {}

    #[inline]
    pub(super) fn record_attempt(&self, _: Option<&RegionInfo>, _: &ServerName, _: u32) {}

    #[inline]
    pub(super) fn trace_headers(&self, _: &SpanOptions) -> TraceHeaders {
        TraceHeaders {}
    }

    #[inline]
    pub(super) fn in_scope<T>(&self, run: impl FnOnce() -> T) -> T {
        run()
    }

    /// Returns the future.
    #[inline]
    pub fn within<F: Future>(&self, future: F) -> F {
        future
    }

    /// Records the kind of a failure.
    #[inline]
    pub fn record_error<K: FailureKind>(&self, _: &Failure<K>) {}

    /// Records the outcome.
    #[inline]
    pub fn end(&mut self, _: &'static str) {}
}

/// The span in which a caller waits.
#[derive(Clone, Debug)]
pub struct CallerSpan;

impl CallerSpan {
    /// Returns the span of the current task.
    #[inline]
    #[must_use]
    pub fn current() -> Self {
        Self
    }

    /// Returns the future.
    #[inline]
    pub fn within<F: Future>(&self, future: F) -> F {
        future
    }
}
