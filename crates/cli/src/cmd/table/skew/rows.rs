//! Tables of the page: rows with a bar and figures.

use std::{
    collections::HashSet,
    fmt::{self, Display, Formatter},
};

use super::{
    callouts::MARK,
    svg::{Bar, Escaped},
    words,
};

/// A row: what it is about, its bar, and its figures in columns.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// The label of the bar, in HTML.
    pub(super) label: String,
    /// What is wrong.
    pub(super) wrong: Option<&'static str>,
    /// A text below the label.
    pub(super) more: String,
    pub(super) bar: Bar,
    /// A text below the bar.
    pub(super) below: String,
    /// The figures, with the titles of their columns.
    pub(super) figures: Vec<(&'static str, Figure)>,
}

/// A figure.
#[derive(Debug)]
pub(super) struct Figure {
    text: String,
    /// Whether it is zero or unknown.
    empty: bool,
}

/// A table. Instead of columns in which no row has more than zero, it has their titles below.
#[derive(Debug)]
pub(super) struct Table {
    title: &'static str,
    rows: Vec<Row>,
    empty: Vec<&'static str>,
}

impl Figure {
    pub(super) fn of(figure: u64, text: impl Fn(u64) -> String) -> Self {
        Self {
            text: text(figure),
            empty: figure == 0,
        }
    }

    /// Creates a figure that may be unknown.
    pub(super) fn known(figure: Option<u64>, text: impl Fn(u64) -> String) -> Self {
        Self {
            text: figure.map_or_else(|| "–".to_owned(), text),
            empty: figure.is_none_or(|figure| figure == 0),
        }
    }

    /// Creates a difference in bytes, which is unknown for what is new.
    pub(super) fn grown(bytes: Option<i64>) -> Self {
        Self {
            text: bytes.map_or_else(|| "new".to_owned(), |bytes| words::signed(bytes, words::bytes)),
            empty: bytes == Some(0),
        }
    }
}

/// Formats what is wrong, with a mark for readers who can't see its colour.
pub(super) fn marked(text: &str) -> String {
    format!("<strong>{MARK} {}</strong>", Escaped(text))
}

impl Table {
    /// Creates a table; the title is that of the labels.
    pub(super) fn new(title: &'static str, rows: impl IntoIterator<Item = Row>) -> Self {
        let mut rows: Vec<Row> = rows.into_iter().collect();
        let filled: HashSet<&str> = rows
            .iter()
            .flat_map(|row| &row.figures)
            .filter_map(|(title, figure)| (!figure.empty).then_some(*title))
            .collect();
        let all = rows.first().into_iter().flat_map(|row| &row.figures);
        let empty = all
            .map(|(title, _)| *title)
            .filter(|title| !filled.contains(title));
        let empty = empty.collect();
        for row in &mut rows {
            row.figures.retain(|(title, _)| filled.contains(title));
        }
        Self { title, rows, empty }
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "<table>\n<thead><tr><th scope=\"col\">{}</th><td></td>",
            self.title
        )?;
        for (title, _) in self.rows.first().map_or(&[][..], |row| &row.figures) {
            write!(f, "<th scope=\"col\" class=\"number\">{title}</th>")?;
        }
        f.write_str("</tr></thead>\n<tbody>\n")?;
        for row in &self.rows {
            writeln!(f, "{row}")?;
        }
        f.write_str("</tbody>\n</table>\n")?;
        match self.empty.as_slice() {
            [] => Ok(()),
            empty => writeln!(
                f,
                "<p class=\"quiet\">0 or unknown in all rows: {}.</p>",
                empty.join(", ")
            ),
        }
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "<tr><th scope=\"row\">{}", self.label)?;
        if let Some(wrong) = self.wrong {
            write!(f, " {}", marked(wrong))?;
        }
        write!(
            f,
            "<small>{}</small></th><td class=\"chart\">{}<small>{}</small></td>",
            Escaped(&self.more),
            self.bar,
            Escaped(&self.below)
        )?;
        for (title, figure) in &self.figures {
            write!(
                f,
                "<td class=\"number\" data-title=\"{title}\">{}</td>",
                Escaped(&figure.text)
            )?;
        }
        f.write_str("</tr>")
    }
}
