//! The only access to stdout and stderr.
//!
//! Parts of what is printed come from servers, from other users and from files. None of them gets a
//! control character to a terminal or a log: they are escaped, except the colours of [`style`](crate::style)
//! and the ends of lines in a [`page`].
//!
//! A reader may close stdout at any time. A command that does something goes on and drops its results;
//! one that only reads ends: [`Lines`] fail then, and loops ask [`is_closed`]. Neither exits with the
//! status of success.

use std::{
    fmt,
    io::{self, BufWriter, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use comfy_table::{ContentArrangement, Table, presets};
use hbase_txn::client::BytesBinary;
use serde::{Serialize, Serializer};
use serde_json::ser::Formatter;

use crate::style::{self, Meaning, Target, paint};

/// Whether the reader of stdout has closed it.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns whether the reader of stdout has closed it, so that something was not written.
pub(crate) fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Writes one line of text, or drops it if the reader has closed stdout.
pub(crate) fn line(text: &str) -> io::Result<()> {
    write_line(&style::printable(Target::Stdout, text))
}

/// Writes lines of text, as [`line`] does. What comes from elsewhere must not have ends of lines:
/// [`table`] escapes them.
pub(crate) fn page(text: &str) -> io::Result<()> {
    write_line(&printable_lines(Target::Stdout, text))
}

/// Prints one JSON object per line.
pub(crate) fn json_lines(objects: impl Iterator<Item = impl Serialize>) -> io::Result<()> {
    let mut lines = Lines::new();
    for object in objects {
        lines.json(&object)?;
    }
    lines.flush()
}

fn printable_lines(target: Target, text: &str) -> String {
    let lines = text.split('\n').map(|line| style::printable(target, line));
    lines.collect::<Vec<_>>().join("\n")
}

fn write_line(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    match written.map_err(|error| in_context(STDOUT, &error)) {
        Err(_) if is_closed() => Ok(()),
        written => written,
    }
}

/// The name of stdout in errors.
const STDOUT: &str = "to stdout";

/// Adds the context of the write to an error.
fn in_context(target: &str, error: &io::Error) -> io::Error {
    if target == STDOUT && error.kind() == io::ErrorKind::BrokenPipe {
        CLOSED.store(true, Ordering::Relaxed);
    }
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
    write_line(&json_text(object)?)
}

/// Returns an object as compact JSON without control characters.
pub(crate) fn json_text(object: &impl Serialize) -> io::Result<String> {
    let mut text = Vec::new();
    write_json(&mut text, object)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn write_json(to: impl Write, object: &impl Serialize) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(to, EscapedControls);
    object.serialize(&mut serializer).map_err(io::Error::from)
}

/// Compact JSON in which DEL and the control characters C1 are escaped too.
struct EscapedControls;

impl Formatter for EscapedControls {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        let mut rest = text;
        // Nearly always: bytes are shown in ASCII.
        if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return writer.write_all(text.as_bytes());
        }
        while let Some((at, control)) = rest.char_indices().find(|(_, c)| c.is_control()) {
            write!(writer, "{}\\u{:04x}", &rest[..at], u32::from(control))?;
            rest = &rest[at + control.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
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

    /// Writes a line as it is, also to files: the caller escapes what comes from elsewhere.
    pub(crate) fn line(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        let written = self.buffer.write_fmt(text);
        let ended = written.and_then(|()| self.buffer.write_all(b"\n"));
        ended.map_err(|error| in_context(&self.target, &error))
    }

    pub(crate) fn json(&mut self, object: &impl Serialize) -> io::Result<()> {
        let written = write_json(&mut self.buffer, object);
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
        table.add_row(row.map(|cell| style::printable(Target::Stdout, &cell)));
    }
    let text = table.trim_fmt();
    match text.split_once('\n') {
        Some((header, rows)) => format!("{}\n{rows}", paint(Target::Stdout, Meaning::Heading, header)),
        None => paint(Target::Stdout, Meaning::Heading, &text),
    }
}

/// Writes lines to stderr, with the rule of [`page`]. Ignores errors, because a closed stderr is no
/// reason to stop.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", printable_lines(Target::Stderr, text));
}

/// Writes a question to stderr, without a line end.
pub(crate) fn ask(question: &str) {
    let question = printable_lines(Target::Stderr, question);
    let _ = write!(io::stderr().lock(), "{question}");
}

/// Formats a number of things: `1 row`, `2 rows`.
pub(crate) fn counted(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}
