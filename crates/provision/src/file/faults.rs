//! Errors in a table file, with their positions.

use std::ops::Range;

use hbase_txn::Error;

/// The errors found in a file so far.
#[derive(Debug)]
pub(super) struct Faults<'t> {
    origin: &'t str,
    text: &'t str,
    found: Vec<(usize, String)>,
}

impl<'t> Faults<'t> {
    pub(super) const fn of(origin: &'t str, text: &'t str) -> Self {
        Self {
            origin,
            text,
            found: Vec::new(),
        }
    }

    /// Adds an error at a position of the text.
    pub(super) fn add(&mut self, place: Range<usize>, reason: impl Into<String>) {
        self.found.push((place.start, reason.into()));
    }

    /// Returns a position as `FILE:LINE:COLUMN`.
    pub(super) fn position(&self, place: &Range<usize>) -> String {
        let (line, column) = self.line_and_column(place.start);
        format!("{}:{line}:{column}", self.origin)
    }

    /// Returns the line of a position, from 1.
    pub(super) fn line(&self, place: &Range<usize>) -> usize {
        self.line_and_column(place.start).0
    }

    /// Whether a value is a basic string (in double quotes) with a backslash, which TOML itself
    /// interprets.
    pub(super) fn is_escaped(&self, place: &Range<usize>) -> bool {
        let raw = self.text.get(place.clone()).unwrap_or_default();
        raw.starts_with('"') && raw.contains('\\')
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns one error with one line for each fault, in the order of their positions.
    pub(super) fn into_error(mut self) -> Error {
        self.found.sort();
        let lines: Vec<String> = self
            .found
            .iter()
            .map(|(at, reason)| format!("{}: {reason}", self.position(&(*at..*at))))
            .collect();
        Error::invalid_lines(&lines)
    }

    /// Returns the line and the column, both from 1; the column is in characters.
    fn line_and_column(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }
}
