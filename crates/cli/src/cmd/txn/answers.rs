//! Outcomes of transactions, in the order of the lines.

use std::{borrow::Cow, io};

use hbase_txn::{
    FailedCondition, Outcome, Unsettled,
    client::{BytesBinary, Cell, Printable, Row},
};
use serde::Serialize;
use serde_json::Value;

use super::format::RowTypes;
use crate::{
    exit::{Exit, Failure},
    global::Format,
    hints,
    output::{self, Lines},
    progress::Progress,
};

/// The outcome of a transaction. The keys and their order are fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Answer {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    outcome: &'static str,
    /// The number of rows that the transaction changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<usize>,
    /// Whether an earlier commit of the same id had applied it.
    #[serde(skip_serializing_if = "is_false")]
    replayed: bool,
    /// The conditions that did not hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<FailedObject>,
    /// The results of increments and appends, if the server returned them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    results: Vec<CellObject>,
    /// The id for settling an unknown outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A condition that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct FailedObject {
    label: String,
    row: String,
    /// The value that was found.
    found: Option<Value>,
}

/// A cell that an increment or an append wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct CellObject {
    row: String,
    family: String,
    qualifier: String,
    value: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_type: Option<&'static str>,
}

/// Prints answers, and keeps the most severe status.
#[derive(Debug)]
pub(super) struct Answers {
    lines: Lines,
    format: Format,
    progress: Option<Progress>,
    exit: Exit,
    committed: u64,
    /// The error of the output, and the number of outcomes that were not printed.
    broken: Option<(io::Error, usize)>,
}

impl Answers {
    pub(super) fn new(format: Format) -> Self {
        Self {
            lines: Lines::new(),
            format,
            progress: Progress::beside_output(),
            exit: Exit::Done,
            committed: 0,
            broken: None,
        }
    }

    /// Prints an outcome at once, because the calling program may wait for it before it sends the
    /// next line. Returns `false` if it can't be printed.
    pub(super) fn print(&mut self, answer: &Answer) -> bool {
        self.exit = self.exit.or_graver(answer.exit());
        self.committed += u64::from(answer.exit() == Exit::Done);
        if let Some(progress) = &self.progress {
            progress.step(&format!(
                "line {}, {} transactions committed",
                answer.line, self.committed
            ));
        }
        match &mut self.broken {
            Some((_, lost)) => *lost += 1,
            None => {
                if let Err(error) = write(&mut self.lines, answer, self.format) {
                    self.broken = Some((error, 1));
                }
            }
        }
        self.broken.is_none()
    }

    /// Records that the lines can't be read any further.
    pub(super) fn fail(&mut self, exit: Exit) {
        self.exit = self.exit.or_graver(exit);
    }

    /// Finishes, and returns the exit status.
    pub(super) fn end(self) -> Exit {
        if let Some(progress) = &self.progress {
            progress.finish();
        }
        let Some((error, lost)) = self.broken else {
            return self.exit;
        };
        output::complain(&format!(
            "hbase-txn: stopped, because the answers can't be written: {error}; {} of transactions that had begun could \
             not be told",
            output::counted(lost, "answer")
        ));
        self.exit.or_graver(Exit::Failed)
    }
}

impl Answer {
    pub(super) fn refused(line: u64, prefix: Option<String>, rows: Option<usize>, error: String) -> Self {
        Self {
            error: Some(error),
            ..Self::new(line, prefix, rows, "invalid")
        }
    }

    pub(super) fn of(
        line: u64,
        prefix: String,
        rows: usize,
        value_types: &RowTypes,
        outcome: Outcome,
    ) -> Self {
        let answer = Self::new(line, Some(prefix), Some(rows), outcome.name());
        match outcome {
            Outcome::Committed(committed) => Self {
                replayed: committed.replayed,
                results: committed
                    .results
                    .iter()
                    .flat_map(Row::cells)
                    .map(|cell| CellObject::new(cell, value_types))
                    .collect(),
                ..answer
            },
            Outcome::Rejected(rejection) => Self {
                failed: rejection
                    .failed
                    .into_iter()
                    .map(|condition| FailedObject::new(condition, value_types))
                    .collect(),
                ..answer
            },
            Outcome::Invalid(error) | Outcome::Aborted(error) => Self {
                error: Some(Failure::from(error).to_string()),
                ..answer
            },
            Outcome::Unknown(unsettled) => Self {
                id: unsettled.id().map(ToString::to_string),
                error: Some(unknown(&unsettled, answer.prefix.as_deref())),
                ..answer
            },
            _ => answer,
        }
    }

    fn new(line: u64, prefix: Option<String>, rows: Option<usize>, outcome: &'static str) -> Self {
        Self {
            line,
            prefix,
            outcome,
            rows,
            replayed: false,
            failed: Vec::new(),
            results: Vec::new(),
            id: None,
            error: None,
        }
    }

    fn exit(&self) -> Exit {
        match self.outcome {
            "committed" => Exit::Done,
            "rejected" => Exit::NotMet,
            "unknown" => Exit::Unknown,
            _ => Exit::Failed,
        }
    }

    /// Formats the answer for people.
    fn text(&self) -> String {
        let mut text = format!("line {}: ", self.line);
        if let Some(prefix) = &self.prefix {
            text += &format!("partition {prefix}, ");
        }
        if let Some(rows) = self.rows {
            text += &format!("{}, ", output::counted(rows, "row"));
        }
        text += self.outcome;
        if self.replayed {
            text += " before";
        }
        for cell in &self.results {
            let (row, family, qualifier) = (&cell.row, &cell.family, &cell.qualifier);
            text += &format!("; {row} {family}:{qualifier} is {}", plain(&cell.value));
        }
        for (index, condition) in self.failed.iter().enumerate() {
            text += if index == 0 { ": not met: " } else { "; " };
            text += &condition.text();
        }
        if let Some(error) = &self.error {
            text += &format!(": {error}");
        }
        text
    }
}

impl FailedObject {
    fn new(condition: FailedCondition, value_types: &RowTypes) -> Self {
        Self {
            label: condition.label,
            row: BytesBinary(&condition.row).to_string(),
            found: condition.found.map(|cell| shown(&cell, value_types).0),
        }
    }

    fn text(&self) -> String {
        /// The number of characters of a value that are shown.
        const SHOWN: usize = 64;
        let label = &self.label;
        let Some(found) = &self.found else {
            return label.clone();
        };
        let found = plain(found);
        match found.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{label} (found {}…)", &found[..end]),
            None => format!("{label} (found {found})"),
        }
    }
}

impl CellObject {
    fn new(cell: &Cell, value_types: &RowTypes) -> Self {
        let (value, value_type) = shown(cell, value_types);
        Self {
            row: BytesBinary(&cell.row).to_string(),
            family: BytesBinary(&cell.family).to_string(),
            qualifier: BytesBinary(&cell.qualifier).to_string(),
            value,
            value_type,
        }
    }
}

/// Returns a value for JSON: a number or a boolean if its column has a type, else a string.
fn shown(cell: &Cell, value_types: &RowTypes) -> (Value, Option<&'static str>) {
    match value_types.get(&cell.row).and_then(|of_row| of_row.decode(cell)) {
        Some((value_type, value)) => (value, Some(value_type.name())),
        None => (BytesBinary(&cell.value).to_string().into(), None),
    }
}

/// Returns a value for people: a string without quotes.
fn plain(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => text.into(),
        other => other.to_string().into(),
    }
}

/// Describes why the answer is missing, and names the command that settles a transaction with an
/// id.
fn unknown(unsettled: &Unsettled, prefix: Option<&str>) -> String {
    let error = unsettled.error();
    let (Some(table), Some(prefix), Some(id)) = (error.table(), prefix, unsettled.id()) else {
        return error.to_string();
    };
    let [table, prefix, id] = [table, prefix, &id.to_string()].map(|text| hints::word(&text));
    format!("{error}: run hbase-txn txn outcome {table} {prefix} {id} --settle")
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

fn write(lines: &mut Lines, answer: &Answer, format: Format) -> io::Result<()> {
    match format {
        Format::Json => lines.json(answer)?,
        Format::Table => lines.line(format_args!("{}", Printable(answer.text())))?,
    }
    lines.flush()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn answer(outcome: &'static str) -> Answer {
        Answer {
            outcome,
            ..Answer::refused(1, None, None, "why".to_owned())
        }
    }

    #[rstest]
    #[case("committed", Exit::Done)]
    #[case("rejected", Exit::NotMet)]
    #[case("invalid", Exit::Failed)]
    #[case("aborted", Exit::Failed)]
    #[case("unknown", Exit::Unknown)]
    fn an_outcome_ends_the_command_so(#[case] outcome: &'static str, #[case] exit: Exit) {
        assert_eq!(answer(outcome).exit(), exit);
    }

    #[test]
    fn keys_that_say_nothing_are_left_out() {
        let json = serde_json::to_string(&answer("unknown")).unwrap();
        assert_eq!(json, r#"{"line":1,"outcome":"unknown","error":"why"}"#);
    }

    #[test]
    fn an_unknown_outcome_names_the_id_that_settles_it() {
        let unknown = Answer {
            id: Some("order-4711".to_owned()),
            prefix: Some("xxx".to_owned()),
            rows: Some(2),
            ..answer("unknown")
        };
        let json = serde_json::to_string(&unknown).unwrap();
        let expected =
            r#"{"line":1,"prefix":"xxx","outcome":"unknown","rows":2,"id":"order-4711","error":"why"}"#;
        assert_eq!(json, expected);
        assert_eq!(unknown.text(), "line 1: partition xxx, 2 rows, unknown: why");
    }
}
