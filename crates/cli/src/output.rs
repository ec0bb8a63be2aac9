//! The only access to stdout and stderr. A closed pipe is an error to handle, never a panic.

use std::{
    fmt,
    io::{self, BufWriter, Write},
};

use comfy_table::{ContentArrangement, Table, presets};
use hbase_txn::BytesBinary;
use serde::{Serialize, Serializer};

use crate::style::{Meaning, Target, paint};

/// Writes one line of text.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")
        .and_then(|()| stdout.flush())
        .map_err(|error| in_context(STDOUT, &error))
}

/// The name of stdout in errors.
const STDOUT: &str = "to stdout";

/// Adds the context of the write to an error.
fn in_context(target: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("writing {target}: {}", plain(error)))
}

/// Returns the system's message without the error number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_owned()
}

/// Writes one object as one line of compact JSON.
pub(crate) fn json(object: &impl Serialize) -> io::Result<()> {
    line(&serde_json::to_string(object)?)
}

/// A buffer for many lines, written when it is full or when [`flush`](Self::flush) is called.
pub(crate) struct Lines {
    buffer: BufWriter<Box<dyn Write + Send>>,
    /// The name of the target in errors.
    target: String,
}

impl Lines {
    /// Creates a buffer for stdout.
    pub(crate) fn new() -> Self {
        Self::to(io::stdout(), STDOUT)
    }

    /// Creates a buffer for another target, with its name in errors.
    pub(crate) fn to(target: impl Write + Send + 'static, name: &str) -> Self {
        Self {
            buffer: BufWriter::with_capacity(64 << 10, Box::new(target)),
            target: name.to_owned(),
        }
    }

    pub(crate) fn line(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        let written = self.buffer.write_fmt(text);
        let ended = written.and_then(|()| self.buffer.write_all(b"\n"));
        ended.map_err(|error| in_context(&self.target, &error))
    }

    pub(crate) fn json(&mut self, object: &impl Serialize) -> io::Result<()> {
        let written = serde_json::to_writer(&mut self.buffer, object).map_err(io::Error::from);
        let ended = written.and_then(|()| self.buffer.write_all(b"\n"));
        ended.map_err(|error| in_context(&self.target, &error))
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let flushed = self.buffer.flush();
        flushed.map_err(|error| in_context(&self.target, &error))
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lines {}", self.target)
    }
}

/// Bytes in JSON, in the notation of HBase's shell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&BytesBinary(self.0))
    }
}

/// Formats a table for people, on stdout. Its first line is the header.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    for row in rows {
        table.add_row(row);
    }
    let text = table.trim_fmt();
    match text.split_once('\n') {
        Some((header, rows)) => format!("{}\n{rows}", paint(Target::Stdout, Meaning::Heading, header)),
        None => paint(Target::Stdout, Meaning::Heading, &text),
    }
}

/// Writes a line to stderr. Ignores errors, because a closed stderr is no reason to stop.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Writes a question to stderr, without a line end.
pub(crate) fn ask(question: &str) {
    let _ = write!(io::stderr().lock(), "{question}");
}

/// Formats a number of things: `1 row`, `2 rows`.
pub(crate) fn counted(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}
