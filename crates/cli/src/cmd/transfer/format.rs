//! The two formats of files.

use std::path::Path;

use super::{
    json,
    tsv::{self, Columns, Separator, Tsv},
};
use crate::{cmd::json_line::LineMutation, exit::Failure};
use clap::{Args, ValueEnum};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// JSON objects, one a line
    Json,
    /// Fields with a separator, one row a line
    Tsv,
}

/// The options that both directions have.
#[derive(Debug, Args)]
pub(super) struct FormatOptions {
    /// Format of the lines [default: tsv with --columns, else by the extension of FILE; json for a pipe]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Kind>,
    /// Meaning of the fields, for TSV: HBASE_ROW_KEY, optionally HBASE_TS_KEY, and columns as F:Q
    #[arg(long, value_name = "NAMES", value_parser = tsv::columns)]
    columns: Option<Columns>,
    /// Character between two fields, for TSV [default: tab]
    #[arg(long, value_name = "C", value_parser = tsv::separator, requires = "columns")]
    separator: Option<Separator>,
}

/// The format of the lines.
#[derive(Clone, Debug)]
pub(super) enum Format {
    Json,
    Tsv(Tsv),
}

impl FormatOptions {
    /// Returns the format of a file, or of a pipe for `None`.
    pub(super) fn format(&self, file: Option<&Path>, raw: bool) -> Result<Format, Failure> {
        let kind = match (self.format, &self.columns, file) {
            (Some(kind), ..) => kind,
            (None, Some(_), _) => Kind::Tsv,
            (None, None, None) => Kind::Json,
            (None, None, Some(file)) => by_extension(file)?,
        };
        match (kind, &self.columns) {
            (Kind::Json, None) if raw => Err(unparsable("--raw is for TSV")),
            (Kind::Json, None) => Ok(Format::Json),
            (Kind::Json, Some(_)) => Err(unparsable("--columns is for TSV")),
            (Kind::Tsv, Some(columns)) => Ok(Format::Tsv(Tsv {
                columns: columns.clone(),
                separator: self.separator.unwrap_or(Separator::TAB),
                raw,
            })),
            (Kind::Tsv, None) => Err(unparsable(
                "TSV needs --columns, such as --columns HBASE_ROW_KEY,f:q1,f:q2",
            )),
        }
    }
}

impl Format {
    /// Returns the options that determine the meaning of a line.
    pub(super) fn options(&self) -> String {
        match self {
            Self::Json => "--format json".to_owned(),
            Self::Tsv(tsv) => tsv.options(),
        }
    }

    /// Returns whether a line has no contents.
    pub(super) fn is_blank(&self, text: &[u8]) -> bool {
        match self {
            Self::Json => text.iter().all(u8::is_ascii_whitespace),
            Self::Tsv(_) => matches!(text, b"" | b"\r"),
        }
    }

    /// Parses a line into its mutations, at least one. The error names the line.
    pub(super) fn parse(&self, number: u64, text: &[u8]) -> Result<Vec<LineMutation>, String> {
        match self {
            Self::Json => json::parse(number, text),
            Self::Tsv(tsv) => tsv.parse(number, text).map(|mutation| {
                vec![LineMutation {
                    mutation,
                    deletes_now: false,
                    counter: None,
                }]
            }),
        }
    }
}

fn by_extension(file: &Path) -> Result<Kind, Failure> {
    let extension = file.extension().and_then(|extension| extension.to_str());
    match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("json" | "jsonl" | "ndjson") => Ok(Kind::Json),
        Some("tsv" | "tab") => Ok(Kind::Tsv),
        _ => Err(unparsable(&format!(
            "the name {} does not show the format; add --format json or --format tsv",
            file.display()
        ))),
    }
}

fn unparsable(why: &str) -> Failure {
    Failure::Unparsable(why.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: FormatOptions,
    }

    fn format(line: &[&str], file: Option<&str>) -> Result<Format, String> {
        let line = Line::try_parse_from([&["hbase-txn"], line].concat());
        let options = line.map_err(|error| error.to_string())?.options;
        let format = options.format(file.map(Path::new), false);
        format.map_err(|failure| failure.to_string())
    }

    const COLUMNS: &str = "--columns=HBASE_ROW_KEY,f:q";

    #[rstest]
    #[case(&[], None, false)]
    #[case(&[], Some("a.json"), false)]
    #[case(&[], Some("a.b.JSONL"), false)]
    #[case(&["--format", "json"], Some("a.tsv"), false)]
    #[case(&[COLUMNS], Some("a.tsv"), true)]
    #[case(&[COLUMNS], Some("a.txt"), true)]
    #[case(&[COLUMNS, "--separator", ","], None, true)]
    fn format_is_named_or_guessed(#[case] line: &[&str], #[case] file: Option<&str>, #[case] is_tsv: bool) {
        assert_eq!(matches!(format(line, file).unwrap(), Format::Tsv(_)), is_tsv);
    }

    #[rstest]
    #[case(&[], Some("a.tsv"), "TSV needs --columns")]
    #[case(&["--format", "tsv"], None, "TSV needs --columns")]
    #[case(&[], Some("a.txt"), "--format json or --format tsv")]
    #[case(&["--format", "json", COLUMNS], None, "--columns is for TSV")]
    #[case(&["--separator", ","], None, "--columns")]
    fn other_combinations_are_refused(#[case] line: &[&str], #[case] file: Option<&str>, #[case] why: &str) {
        let refusal = format(line, file).unwrap_err();
        assert!(refusal.contains(why), "{refusal}");
    }
}
