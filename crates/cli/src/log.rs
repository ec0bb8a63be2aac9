//! The log on stderr: a short line for each event and for the end of each operation.

use std::{fmt, io};

use tracing::{
    field::{Field, Visit},
    span::Record,
};
use tracing_subscriber::{
    EnvFilter,
    field::RecordFields,
    fmt::{
        FormatFields, FormattedFields,
        format::{FmtSpan, Writer},
    },
};

use crate::global::LogFilter;

/// Writes the events of the library that pass the filter to stderr.
pub(crate) fn start(filter: &LogFilter) {
    let subscriber = tracing_subscriber::fmt()
        .compact()
        .fmt_fields(ShortFields)
        .with_env_filter(EnvFilter::builder().parse_lossy(filter.text()))
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(io::stderr)
        .with_ansi(false);
    subscriber.init();
}

/// Fields for people: without those that are the same in each line, and without prefixes.
struct ShortFields;

impl<'w> FormatFields<'w> for ShortFields {
    fn format_fields<R: RecordFields>(&self, to: Writer<'w>, fields: R) -> fmt::Result {
        write(to, "", fields)
    }

    fn add_fields(&self, current: &'w mut FormattedFields<Self>, fields: &Record<'_>) -> fmt::Result {
        let separator = if current.fields.is_empty() { "" } else { " " };
        write(current.as_writer(), separator, fields)
    }
}

fn write(to: Writer<'_>, separator: &'static str, fields: impl RecordFields) -> fmt::Result {
    let mut visitor = ShortVisitor {
        to,
        separator,
        result: Ok(()),
    };
    fields.record(&mut visitor);
    visitor.result
}

struct ShortVisitor<'w> {
    to: Writer<'w>,
    /// What is written before the next field.
    separator: &'static str,
    result: fmt::Result,
}

impl Visit for ShortVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let name = match field.name() {
            "otel.kind" | "otel.name" | "db.system.name" | "db.namespace" | "time.busy" | "time.idle" => {
                return;
            }
            "message" | "db.operation.name" | "db.collection.name" => String::new(),
            name => format!("{}=", name.strip_prefix("hbase.").unwrap_or(name)),
        };
        let value = format!("{value:?}");
        let written = write!(self.to, "{}{name}{}", self.separator, value.trim_matches('"'));
        self.result = self.result.and(written);
        self.separator = " ";
    }
}
