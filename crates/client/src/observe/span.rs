//! Spans of operations, and the trace context in requests.
//!
//! Names of fields are those of OpenTelemetry's conventions for databases, where there is one.
//! `otel.…` are those that the crate `tracing-opentelemetry` reads.

use std::{collections::HashMap, fmt, sync::Arc};

use tokio::time::Instant;
use tracing::{Instrument, Span, field::Empty, info_span, instrument::Instrumented};

use crate::{
    error::{Failure, FailureKind},
    model::{BytesBinary, RegionInfo, ServerName, TableName},
    wire::pb,
};

/// Returns the headers of the current span.
type HeadersOfSpan = dyn Fn() -> HashMap<String, String> + Send + Sync;

/// How operations are traced.
#[derive(Clone, Default)]
pub(crate) struct SpanOptions {
    pub(crate) headers: Option<Arc<HeadersOfSpan>>,
    /// Whether spans have the rows of operations.
    pub(crate) rows: bool,
}

impl fmt::Debug for SpanOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanOptions")
            .field("headers", &self.headers.is_some())
            .field("rows", &self.rows)
            .finish()
    }
}

/// The headers by which a server continues a trace, or none.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceHeaders(Option<Arc<HashMap<String, String>>>);

impl TraceHeaders {
    /// Returns the field of a request's header.
    pub(crate) fn trace_info(&self) -> Option<pb::RpctInfo> {
        let headers = self.0.as_ref()?;
        Some(pb::RpctInfo {
            headers: HashMap::clone(headers),
            ..pb::RpctInfo::default()
        })
    }
}

/// The span of an operation. One that is dropped without an outcome was cancelled.
#[derive(Debug)]
pub struct OperationSpan {
    span: Span,
    /// When it began. `None` once it has ended, and if it is disabled: a clock is not read in vain.
    began: Option<Instant>,
}

impl OperationSpan {
    /// Begins the span of an operation that makes several calls.
    #[must_use]
    pub fn begin(name: &'static str, table: &TableName) -> Self {
        Self::new(name, Some(table), "internal")
    }

    pub(super) fn of_client(name: &'static str, table: Option<&TableName>) -> Self {
        Self::new(name, table, "client")
    }

    fn new(name: &'static str, table: Option<&TableName>, kind: &'static str) -> Self {
        let span = info_span!(
            target: "hbase_client::operation",
            "operation",
            otel.name = Empty,
            otel.kind = kind,
            otel.status_code = Empty,
            db.system.name = "hbase",
            db.operation.name = name,
            db.namespace = Empty,
            db.collection.name = Empty,
            server.address = Empty,
            server.port = Empty,
            hbase.region = Empty,
            hbase.row = Empty,
            hbase.attempt = Empty,
            hbase.outcome = Empty,
            hbase.duration_ms = Empty,
            error.type = Empty,
        );
        if !span.is_disabled() {
            match table {
                Some(table) => {
                    span.record(
                        "otel.name",
                        tracing::field::display(format_args!("{name} {table}")),
                    );
                    span.record("db.namespace", table.namespace());
                    span.record("db.collection.name", table.qualifier());
                }
                None => {
                    span.record("otel.name", name);
                }
            }
        }
        let began = (!span.is_disabled()).then(Instant::now);
        Self { span, began }
    }

    pub(super) fn record_row(&self, options: &SpanOptions, row: &[u8]) {
        if options.rows && !row.is_empty() {
            let row = BytesBinary(row);
            self.span.record("hbase.row", tracing::field::display(row));
        }
    }

    pub(super) fn record_attempt(&self, region: Option<&RegionInfo>, server: &ServerName, attempt: u32) {
        if self.span.is_disabled() {
            return;
        }
        if let Some(region) = region {
            self.span.record("hbase.region", region.encoded_text());
        }
        self.span.record("server.address", &*server.host);
        self.span.record("server.port", server.port);
        self.span.record("hbase.attempt", attempt);
    }

    pub(super) fn trace_headers(&self, options: &SpanOptions) -> TraceHeaders {
        let headers = options.headers.as_ref();
        let headers = headers.map(|headers| self.span.in_scope(|| headers()));
        TraceHeaders(headers.filter(|headers| !headers.is_empty()).map(Arc::new))
    }

    pub(super) fn in_scope<T>(&self, run: impl FnOnce() -> T) -> T {
        self.span.in_scope(run)
    }

    /// Returns the future within the span.
    pub fn within<F: Future>(&self, future: F) -> Instrumented<F> {
        future.instrument(self.span.clone())
    }

    /// Records the kind of a failure. It has no bytes of rows.
    pub fn record_error<K: FailureKind>(&self, error: &Failure<K>) {
        self.span
            .record("error.type", tracing::field::debug(error.kind()));
        self.span.record("otel.status_code", "ERROR");
    }

    /// Records the outcome, once.
    pub fn end(&mut self, outcome: &'static str) {
        if let Some(began) = self.began.take() {
            self.span.record("hbase.outcome", outcome);
            let duration = began.elapsed().as_secs_f64() * 1e3;
            self.span.record("hbase.duration_ms", duration);
        }
    }
}

impl Drop for OperationSpan {
    fn drop(&mut self) {
        self.end("cancelled");
    }
}

/// The span in which a caller waits, for a task that works for it.
#[derive(Clone, Debug)]
pub struct CallerSpan(Span);

impl CallerSpan {
    /// Returns the span of the current task.
    #[must_use]
    pub fn current() -> Self {
        Self(Span::current())
    }

    /// Returns the future within the span.
    pub fn within<F: Future>(&self, future: F) -> Instrumented<F> {
        future.instrument(self.0.clone())
    }
}
