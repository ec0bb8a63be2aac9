//! Answers in a form in which two clusters can agree.
//!
//! Times of the server become the number of the operation in which they were given. Texts of
//! exceptions are left out.

use std::fmt::Write;

use bytes::Bytes;
use hbase_protocol as pb;

use super::raw::Refusal;

/// Timestamps below are chosen by an operation, and the others given by the server.
const SERVER_TIME: u64 = 1_000_000_000;
/// The clocks of driver and server may round differently.
const ROUNDING: u64 = 2;

/// The times of a sequence's operations on one cluster.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// The first and the last millisecond of each.
    pub(crate) spans: Vec<(u64, u64)>,
}

impl Times {
    fn name(&self, timestamp: u64) -> String {
        if timestamp < SERVER_TIME {
            return timestamp.to_string();
        }
        let place = self
            .spans
            .iter()
            .position(|(first, last)| (first - ROUNDING..=last + ROUNDING).contains(&timestamp));
        place.map_or_else(|| "unknown".to_owned(), |place| format!("now{place}"))
    }
}

/// Writes answers, without the prefix of the rows.
pub(crate) struct Writer<'a> {
    pub(crate) times: &'a Times,
    pub(crate) prefix: &'a str,
    pub(crate) text: String,
}

impl Writer<'_> {
    pub(crate) fn refusal(&mut self, refusal: &Refusal) {
        let Refusal {
            class, do_not_retry, ..
        } = refusal;
        let again = if *do_not_retry { "never again" } else { "again" };
        write!(self.text, "{class}, {again}").unwrap();
    }

    pub(crate) fn exception(&mut self, exception: &pb::NameBytesPair) {
        write!(self.text, "{}", exception.name).unwrap();
    }

    pub(crate) fn flag(&mut self, name: &str, flag: Option<bool>) {
        if let Some(flag) = flag {
            write!(self.text, "{name}={flag} ").unwrap();
        }
    }

    pub(crate) fn result(&mut self, result: &pb::Result) {
        self.flag("exists", result.exists);
        self.flag("partial", result.partial.filter(|partial| *partial));
        for cell in &result.cell {
            self.cell(cell);
        }
    }

    fn cell(&mut self, cell: &pb::Cell) {
        let row = printable(cell.row());
        let row = row.replace(self.prefix, "");
        write!(
            self.text,
            "{row}/{}:{}/{}/{:?}={} ",
            printable(cell.family()),
            printable(cell.qualifier()),
            self.times.name(cell.timestamp()),
            cell.cell_type(),
            printable(cell.value())
        )
        .unwrap();
    }
}

fn printable(bytes: &[u8]) -> String {
    Bytes::copy_from_slice(bytes).escape_ascii().to_string()
}
