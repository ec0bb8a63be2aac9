//! Rows as fields with a separator, as HBase's `ImportTsv` reads them.

use std::{collections::BTreeSet, fmt, str};

use bytes::Bytes;
use hbase_txn::client::{BytesBinary, Cell, Mutation, Put, Row, parse_bytes_binary};

use super::line_length::check_length;
use crate::{
    cmd::{input_lines::InputLines, json_line::refuse_byte_order_mark},
    exit::Failure,
    output::Lines,
    value_type::ValueType,
    values::{self, Column, Part, TypedColumn},
};

const ROW_KEY: &str = "HBASE_ROW_KEY";
const TS_KEY: &str = "HBASE_TS_KEY";

/// A field for a column without a cell. It is no valid notation of bytes.
const ABSENT: &str = r"\N";

/// The format of the lines.
#[derive(Clone, Debug)]
pub(super) struct Tsv {
    pub(super) columns: Columns,
    pub(super) separator: Separator,
    /// Whether fields are bytes as they are, without `\xNN` and `\N`.
    pub(super) raw: bool,
}

/// The meaning of the fields of a line, in their order: one row key, at most one timestamp, and at
/// least one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Columns(Vec<Field>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Row,
    Timestamp,
    Column(TypedColumn),
}

/// An ASCII character between two fields. It is never a part of `\xNN` or `\N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Separator(u8);

/// Parses `HBASE_ROW_KEY,f:q1,f:q2`, also with spaces around the names. A comma in a name is written `\x2C`, a
/// space at its end `\x20`.
pub(super) fn columns(text: &str) -> Result<Columns, String> {
    let mut fields = Vec::new();
    for name in text.split(',').map(str::trim) {
        let field = match name {
            ROW_KEY => Field::Row,
            TS_KEY => Field::Timestamp,
            name if name.starts_with("HBASE_") && !name.contains(':') => {
                return Err(format!(
                    "{name} is not supported; there are {ROW_KEY} and {TS_KEY}"
                ));
            }
            name => {
                let (Part { family, qualifier }, value_type) = values::typed_part(name)?;
                let qualifier = qualifier.unwrap_or_default();
                let column = Column { family, qualifier };
                Field::Column(TypedColumn { column, value_type })
            }
        };
        let is_named = |other: &Field| match (other, &field) {
            (Field::Column(other), Field::Column(typed)) => other.column == typed.column,
            (other, field) => other == field,
        };
        if fields.iter().any(is_named) {
            return Err(format!("{name} is named twice"));
        }
        fields.push(field);
    }
    if !fields.contains(&Field::Row) {
        return Err(format!("{ROW_KEY} is missing"));
    }
    if !fields.iter().any(|field| matches!(field, Field::Column(_))) {
        return Err("name at least one column as F:Q".to_owned());
    }
    Ok(Columns(fields))
}

/// Parses a separator.
pub(super) fn separator(text: &str) -> Result<Separator, String> {
    let bytes = values::bytes(text).map_err(|error| error.to_string())?;
    match *bytes {
        [b'\\' | b'\n' | b'\r'] => Err("a backslash or a line end can't separate fields".to_owned()),
        [byte] if byte.is_ascii_alphanumeric() => Err("a letter or a digit can't separate fields".to_owned()),
        [byte] if byte.is_ascii() => Ok(Separator(byte)),
        _ => Err(r"a separator is one ASCII character, such as , or \x09".to_owned()),
    }
}

impl Columns {
    /// Returns the columns of cells.
    pub(super) fn of_cells(&self) -> impl Iterator<Item = &TypedColumn> {
        self.0.iter().filter_map(|field| match field {
            Field::Column(column) => Some(column),
            Field::Row | Field::Timestamp => None,
        })
    }

    /// Returns whether a field is the timestamp.
    pub(super) fn has_timestamp(&self) -> bool {
        self.0.contains(&Field::Timestamp)
    }
}

/// Writes the columns in one form for each meaning.
impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, field) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match field {
                Field::Row => f.write_str(ROW_KEY)?,
                Field::Timestamp => f.write_str(TS_KEY)?,
                Field::Column(TypedColumn { column, value_type }) => {
                    let Column { family, qualifier } = column;
                    let name = format!("{}:{}", BytesBinary(family), BytesBinary(qualifier));
                    f.write_str(&name.replace(',', r"\x2C").replace(' ', r"\x20"))?;
                    if let Some(value_type) = value_type {
                        write!(f, ":{}", value_type.name())?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Tsv {
    /// Returns the options that determine the meaning of a line.
    pub(super) fn options(&self) -> String {
        let Self {
            columns,
            separator: Separator(byte),
            raw,
        } = self;
        let raw = if *raw { " --raw" } else { "" };
        format!("--columns {columns} --separator \\x{byte:02X}{raw}")
    }

    /// Parses a line. The error names the line and the field, counted from 1.
    pub(super) fn parse(&self, number: u64, text: &[u8]) -> Result<Mutation, String> {
        refuse_byte_order_mark(number, text)?;
        let text = if self.raw {
            text
        } else {
            text.strip_suffix(b"\r").unwrap_or(text)
        };
        let fields: Vec<&[u8]> = text.split(|byte| *byte == self.separator.0).collect();
        let (found, named) = (fields.len(), self.columns.0.len());
        if found != named {
            return Err(format!(
                "line {number}: {found} field{} instead of {named}",
                if found == 1 { "" } else { "s" }
            ));
        }
        let (mut row, mut timestamp, mut cells) = (Bytes::new(), None, Vec::new());
        for (index, (field, text)) in self.columns.0.iter().zip(fields).enumerate() {
            let in_field = |why: String| format!("line {number}, field {}: {why}", index + 1);
            match field {
                Field::Row => row = self.bytes(text).map_err(in_field)?,
                Field::Timestamp => timestamp = Some(millis(text).map_err(in_field)?),
                Field::Column(_) if !self.raw && text == ABSENT.as_bytes() => {}
                Field::Column(TypedColumn { column, value_type }) => {
                    let value = self.value(text, *value_type).map_err(in_field)?;
                    cells.push((column, value));
                }
            }
        }
        if cells.is_empty() {
            return Err(format!("line {number}: a row without cells"));
        }
        let mut put = Put::new(row);
        for (column, value) in cells {
            put = put.cell(column.family.clone(), column.qualifier.clone(), value);
        }
        Ok(match timestamp {
            Some(timestamp) => put.timestamp(timestamp).into(),
            None => put.into(),
        })
    }

    fn value(&self, text: &[u8], value_type: Option<ValueType>) -> Result<Bytes, String> {
        let bytes = self.bytes(text)?;
        match value_type {
            Some(value_type) => value_type.encode(&String::from_utf8_lossy(&bytes)),
            None => Ok(bytes),
        }
    }

    fn bytes(&self, text: &[u8]) -> Result<Bytes, String> {
        if self.raw {
            return Ok(Bytes::copy_from_slice(text));
        }
        let text = str::from_utf8(text)
            .map_err(|_| r"its bytes are no UTF-8; write them as \xNN, or use --raw".to_owned())?;
        parse_bytes_binary(text).map_err(|error| error.to_string())
    }

    /// Writes a row: a line for each timestamp, or one with the newest cells if timestamps are no
    /// field. Writes nothing if the row has none of the columns.
    pub(super) fn write(&self, lines: &mut Lines, row: &Row) -> Result<(), Failure> {
        if !self.columns.has_timestamp() {
            return match row.cells() {
                [] => Ok(()),
                _ => self.line(lines, row, None),
            };
        }
        let timestamps: BTreeSet<u64> = row.cells().iter().map(|cell| cell.timestamp).collect();
        timestamps
            .into_iter()
            .try_for_each(|timestamp| self.line(lines, row, Some(timestamp)))
    }

    fn line(&self, lines: &mut Lines, row: &Row, timestamp: Option<u64>) -> Result<(), Failure> {
        let mut text = String::new();
        for (index, field) in self.columns.0.iter().enumerate() {
            if index > 0 {
                text.push(char::from(self.separator.0));
            }
            match field {
                Field::Row => text.push_str(&self.escaped(row.key())),
                Field::Timestamp => text.push_str(&timestamp.unwrap_or_default().to_string()),
                Field::Column(TypedColumn { column, value_type }) => {
                    let cell = row.cells().iter().find(|cell| {
                        cell.family == column.family
                            && cell.qualifier == column.qualifier
                            && timestamp.is_none_or(|timestamp| cell.timestamp == timestamp)
                    });
                    match (cell, value_type) {
                        (Some(cell), Some(value_type)) => {
                            text.push_str(&self.escaped(decoded(cell, *value_type)?.as_bytes()));
                        }
                        (Some(cell), None) => text.push_str(&self.escaped(&cell.value)),
                        (None, _) => text.push_str(ABSENT),
                    }
                }
            }
        }
        check_length(row.key(), text.len(), InputLines::LONGEST)?;
        Ok(lines.line(format_args!("{text}"))?)
    }

    /// Returns bytes in a notation without the separator.
    fn escaped(&self, bytes: &[u8]) -> String {
        let text = BytesBinary(bytes).to_string();
        let separator = char::from(self.separator.0);
        if text.contains(separator) {
            text.replace(separator, &format!("\\x{:02X}", self.separator.0))
        } else {
            text
        }
    }
}

/// Returns the text of a value of this type. Refuses other values, for which TSV has no form.
fn decoded(cell: &Cell, value_type: ValueType) -> Result<String, Failure> {
    let decoded = value_type.decode(&cell.value).map(|value| value.to_string());
    decoded.ok_or_else(|| {
        Failure::Refused(format!(
            "row {}: the value of {}:{} is not {}: {}",
            BytesBinary(&cell.row),
            BytesBinary(&cell.family),
            BytesBinary(&cell.qualifier),
            value_type.range(),
            BytesBinary(&cell.value[..cell.value.len().min(40)])
        ))
    })
}

impl Separator {
    /// The separator of HBase's tools.
    pub(super) const TAB: Self = Self(b'\t');
}

fn millis(text: &[u8]) -> Result<u64, String> {
    let number = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        format!(
            "the timestamp is \"{}\"; it must be a whole number of milliseconds, 0 or more",
            BytesBinary(&text[..text.len().min(40)])
        )
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn tsv(names: &str, separator_text: &str, raw: bool) -> Tsv {
        Tsv {
            columns: columns(names).unwrap(),
            separator: separator(separator_text).unwrap(),
            raw,
        }
    }

    fn put() -> Put {
        Put::new("r")
    }

    #[rstest]
    #[case("HBASE_ROW_KEY,f:a,f:b", "r\t1\t2", put().cell("f", "a", "1").cell("f", "b", "2"))]
    #[case("HBASE_ROW_KEY,f:a,f:b", "r\t\t\\N\r", put().cell("f", "a", ""))]
    #[case("f:a,HBASE_TS_KEY,HBASE_ROW_KEY", "1\t5\tr", put().cell("f", "a", "1").timestamp(5))]
    #[case("HBASE_ROW_KEY,f", "r\té\\x09", put().cell("f", "", "é\t"))]
    fn reads_fields(#[case] columns: &str, #[case] line: &str, #[case] expected: Put) {
        let read = tsv(columns, r"\x09", false).parse(1, line.as_bytes());
        assert_eq!(read, Ok(expected.into()));
    }

    #[rstest]
    #[case("HBASE_ROW_KEY,f:a:toLong", "r\t-5", put().cell("f", "a", -5i64))]
    #[case("HBASE_ROW_KEY,f:a:toBoolean,f:b", "r\ttrue\ttrue", put().cell("f", "a", true).cell("f", "b", "true"))]
    fn typed_fields_are_read_and_written(#[case] columns: &str, #[case] line: &str, #[case] expected: Put) {
        for separator in ["\t", "-"] {
            let line = line.replace('-', r"\x2D").replace('\t', separator);
            let read = tsv(columns, separator, false).parse(1, line.as_bytes());
            assert_eq!(read, Ok(expected.clone().into()));
        }
    }

    #[test]
    fn names_of_columns_are_trimmed() {
        let trimmed = columns("HBASE_ROW_KEY, f:a ,\tf:b").unwrap();
        assert_eq!(trimmed, columns("HBASE_ROW_KEY,f:a,f:b").unwrap());
        let kept = columns(r"HBASE_ROW_KEY,f:a\x20").unwrap();
        assert_eq!(kept.of_cells().next().unwrap().column.qualifier, "a ");
    }

    #[test]
    fn options_have_one_form_for_each_meaning() {
        let options = |names, separator, raw| tsv(names, separator, raw).options();
        let expected = r"--columns HBASE_ROW_KEY,HBASE_TS_KEY,f:a\x2Cb --separator \x2C --raw";
        assert_eq!(
            options(r"HBASE_ROW_KEY,HBASE_TS_KEY, f:\x61\x2cb", ",", true),
            expected
        );
        assert_eq!(
            options("HBASE_ROW_KEY,f", r"\x09", false),
            r"--columns HBASE_ROW_KEY,f: --separator \x09"
        );
    }

    #[test]
    fn raw_fields_are_bytes() {
        let read = tsv("HBASE_ROW_KEY,f:a", ",", true).parse(1, b"r,\\N\xff\r");
        assert_eq!(read, Ok(put().cell("f", "a", &b"\\N\xff\r"[..]).into()));
    }

    #[rstest]
    #[case(b"r\t1", "line 3: 2 fields instead of 3")]
    #[case(b"r", "line 3: 1 field instead of 3")]
    #[case(b"r\t1\t2\t3", "line 3: 4 fields instead of 3")]
    #[case(b"r\t\\n\t2", "line 3, field 2: a stray backslash at column 1")]
    #[case(b"r\t1\t\xff", "line 3, field 3: its bytes are no UTF-8")]
    #[case(b"r\t\\N\t\\N", "line 3: a row without cells")]
    #[case(b"\xEF\xBB\xBFr\t1\t2", "a byte order mark")]
    fn refuses_other_lines(#[case] line: &[u8], #[case] why: &str) {
        let refusal = tsv("HBASE_ROW_KEY,f:a,f:b", r"\x09", false)
            .parse(3, line)
            .unwrap_err();
        assert!(refusal.contains(why), "{refusal}");
    }

    #[rstest]
    #[case("1.5")]
    #[case("")]
    #[case("-1")]
    fn a_timestamp_is_a_whole_number(#[case] text: &str) {
        let line = format!("r,{text},1");
        let refusal = tsv("HBASE_ROW_KEY,HBASE_TS_KEY,f:a", ",", false).parse(3, line.as_bytes());
        assert!(
            refusal
                .unwrap_err()
                .starts_with("line 3, field 2: the timestamp is")
        );
    }

    #[rstest]
    #[case("f:a", "HBASE_ROW_KEY is missing")]
    #[case("HBASE_ROW_KEY", "at least one column")]
    #[case("HBASE_ROW_KEY,HBASE_TS_KEY", "at least one column")]
    #[case("HBASE_ROW_KEY,f:a,f:a", "f:a is named twice")]
    #[case("HBASE_ROW_KEY,f:a,f:a:toLong", "f:a:toLong is named twice")]
    #[case("HBASE_ROW_KEY,f:a,HBASE_ROW_KEY", "named twice")]
    #[case("HBASE_ROW_KEY,HBASE_CELL_TTL,f:a", "HBASE_CELL_TTL is not supported")]
    #[case("HBASE_ROW_KEY,,f:a", "written F or F:Q")]
    fn refuses_other_columns(#[case] text: &str, #[case] why: &str) {
        let refusal = columns(text).unwrap_err();
        assert!(refusal.contains(why), "{refusal}");
    }

    #[rstest]
    #[case("")]
    #[case(",,")]
    #[case("x")]
    #[case("0")]
    #[case(r"\x5C")]
    #[case(r"\x0A")]
    #[case(r"\xFF")]
    fn refuses_other_separators(#[case] text: &str) {
        separator(text).unwrap_err();
    }
}
