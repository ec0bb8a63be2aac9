//! What a program that uses this client can observe of it: metrics and spans.
//!
//! | file | contents |
//! |---|---|
//! | `metric` | metrics for the recorder of the crate `metrics` (feature `metrics`) |
//! | `metric_off` | the same names without that feature; everything compiles to nothing |
//! | `span` | spans of operations, and the trace context in requests (feature `spans`) |
//! | `span_off` | the same names without that feature |
//! | `operation` | an operation from its beginning to its outcome, as both report it |
//! | `client_metrics` | the metrics of this crate |
//!
//! Labels are computed in closures, which are not called if the feature is off. A label is a word of
//! the program, never a name or a byte of the user's data.

pub(crate) mod client_metrics;
#[cfg(feature = "metrics")]
mod metric;
#[cfg(not(feature = "metrics"))]
mod metric_off;
mod operation;
#[cfg(feature = "spans")]
mod span;
#[cfg(not(feature = "spans"))]
mod span_off;

#[cfg(feature = "metrics")]
pub use self::metric::{GaugeUnit, Metric, Timer};
#[cfg(not(feature = "metrics"))]
pub use self::metric_off::{GaugeUnit, Metric, Timer};
pub(crate) use self::operation::ObservedOperation;
#[cfg(feature = "spans")]
pub use self::span::{CallerSpan, OperationSpan};
#[cfg(feature = "spans")]
pub(crate) use self::span::{SpanOptions, TraceHeaders};
#[cfg(not(feature = "spans"))]
pub use self::span_off::{CallerSpan, OperationSpan};
#[cfg(not(feature = "spans"))]
pub(crate) use self::span_off::{SpanOptions, TraceHeaders};
