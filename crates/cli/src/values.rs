//! Values of the command line: bytes, columns, cells, numbers.

use std::str::FromStr;

use bytes::Bytes;
use hbase_txn::client::parse_bytes_binary;

use crate::{exit::Failure, value_type::ValueType};

/// A family, or one of its columns: `F` or `F:Q`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) family: Bytes,
    pub(crate) qualifier: Option<Bytes>,
}

/// A column, with the type of its values if it is specified: `F:Q` or `F:Q:toLong`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypedColumn {
    pub(crate) column: Column,
    pub(crate) value_type: Option<ValueType>,
}

/// A column: `F:Q`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Column {
    pub(crate) family: Bytes,
    pub(crate) qualifier: Bytes,
}

/// A cell to write: `F:Q=VALUE` or `F:Q:toLong=5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CellValue {
    pub(crate) column: Column,
    pub(crate) value: Bytes,
}

/// Parses bytes in the notation of HBase's shell: `\xNN` for a byte, other characters as UTF-8.
pub(crate) fn bytes(text: &str) -> hbase_client::Result<Bytes> {
    parse_bytes_binary(text)
}

/// Parses text, which may also contain `\xNN`.
pub(crate) fn text(text: &str) -> Result<String, String> {
    let bytes = bytes(text).map_err(|error| error.to_string())?;
    String::from_utf8(bytes.into()).map_err(|_| "its bytes are no UTF-8".to_owned())
}

/// Parses `F` or `F:Q`.
pub(crate) fn part(text: &str) -> Result<Part, String> {
    match typed_part(text)? {
        (part, None) => Ok(part),
        (_, Some(value_type)) => Err(format!("there is no value here for {}", value_type.name())),
    }
}

/// Parses `F`, `F:Q` or `F:Q:toLong`.
pub(crate) fn typed_part(text: &str) -> Result<(Part, Option<ValueType>), String> {
    let (family, qualifier) = match text.split_once(':') {
        Some((family, qualifier)) => (family, Some(qualifier)),
        None => (text, None),
    };
    if family.is_empty() {
        return Err("a family or a column is written F or F:Q".to_owned());
    }
    let (qualifier, value_type) = match qualifier.and_then(|qualifier| qualifier.rsplit_once(':')) {
        Some((qualifier, name)) if is_conversion(name) => {
            let value_type = ValueType::named(name)
                .map_err(|error| format!(r"{error}; a colon of the qualifier itself is written \x3A"))?;
            (Some(qualifier), Some(value_type))
        }
        _ => (qualifier, None),
    };
    let read = |text: &str| bytes(text).map_err(|error| error.to_string());
    let part = Part {
        family: read(family)?,
        qualifier: qualifier.map(read).transpose()?,
    };
    Ok((part, value_type))
}

/// Returns whether this looks like the name of a conversion, such as `toLong`.
fn is_conversion(name: &str) -> bool {
    let rest = name.strip_prefix("to").unwrap_or_default();
    rest.starts_with(|first: char| first.is_ascii_uppercase())
        && rest.chars().all(|c| c.is_ascii_alphabetic())
}

/// Parses `F:Q`. The qualifier may be empty.
pub(crate) fn column(text: &str) -> Result<Column, String> {
    match part(text)? {
        Part {
            family,
            qualifier: Some(qualifier),
        } => Ok(Column { family, qualifier }),
        _ => Err("a column is written F:Q".to_owned()),
    }
}

/// Parses `F:Q` or `F:Q:toLong`.
pub(crate) fn typed_column(text: &str) -> Result<TypedColumn, String> {
    match typed_part(text)? {
        (
            Part {
                family,
                qualifier: Some(qualifier),
            },
            value_type,
        ) => Ok(TypedColumn {
            column: Column { family, qualifier },
            value_type,
        }),
        _ => Err("a column is written F:Q".to_owned()),
    }
}

/// Parses `F:Q=VALUE` or `F:Q:toLong=5`. An equals sign in the qualifier is written `\x3D`.
pub(crate) fn cell(text: &str) -> Result<CellValue, String> {
    let refusal = || "a cell is written F:Q=VALUE".to_owned();
    let (place, value) = text.split_once('=').ok_or_else(refusal)?;
    if !place.contains(':') {
        return Err(refusal());
    }
    let TypedColumn { column, value_type } = typed_column(place)?;
    let value = match value_type {
        Some(value_type) => value_type.encode(value)?,
        None => bytes(value).map_err(|error| error.to_string())?,
    };
    Ok(CellValue { column, value })
}

/// Parses `KEY=VALUE`. The value may be empty.
pub(crate) fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a setting is written KEY=VALUE".to_owned()),
    }
}

/// A number or a duration that may be out of range. It parses anyway, so that the code that knows
/// the range refuses it, with the text of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranged<T> {
    text: String,
    value: Option<T>,
}

impl<T: Copy> Ranged<T> {
    pub(crate) fn new(text: &str, value: Option<T>) -> Self {
        Self {
            text: text.to_owned(),
            value,
        }
    }

    /// Returns the value, if it is in range.
    pub(crate) fn value(&self) -> Option<T> {
        self.value
    }

    /// Returns the value of this option.
    pub(crate) fn get(&self, option: &str) -> Result<T, Failure> {
        self.value
            .ok_or_else(|| Failure::Unparsable(format!("{option} {} is out of range", self.text)))
    }
}

/// Parses a whole number of any size and sign.
pub(crate) fn whole<T: FromStr + Copy>(text: &str) -> Result<Ranged<T>, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err("write a whole number".to_owned());
    }
    Ok(Ranged::new(text, text.parse().ok()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("f:q=v", "f", "q", "v")]
    #[case("f:q=", "f", "q", "")]
    #[case("f:=v", "f", "", "v")]
    #[case("f:a:b=c=d", "f", "a:b", "c=d")]
    #[case(r"f:a\x3Db=\x00\xfF", "f", "a=b", "\0\u{ff}")]
    fn reads_cells(
        #[case] text: &str,
        #[case] family: &'static str,
        #[case] qualifier: &'static str,
        #[case] value: &str,
    ) {
        let cell = cell(text).unwrap();
        assert_eq!(
            (cell.column.family, cell.column.qualifier),
            (family.into(), qualifier.into())
        );
        // Each character of the case is one byte.
        assert_eq!(cell.value, value.chars().map(|c| c as u8).collect::<Vec<_>>());
    }

    #[rstest]
    #[case("f:q:toLong=5", "q", "\0\0\0\0\0\0\0\x05")]
    #[case("f:a:b:toBoolean=true", "a:b", "\u{ff}")]
    #[case("f::toShort=-1", "", "\u{ff}\u{ff}")]
    #[case("f:toLong=5", "toLong", "5")]
    #[case(r"f:a\x3AtoLong=5", "a:toLong", "5")]
    #[case("f:a:tomorrow=5", "a:tomorrow", "5")]
    fn reads_typed_cells(#[case] text: &str, #[case] qualifier: &'static str, #[case] value: &str) {
        let cell = cell(text).unwrap();
        assert_eq!(cell.column.qualifier, qualifier);
        assert_eq!(cell.value, value.chars().map(|c| c as u8).collect::<Vec<_>>());
    }

    #[test]
    fn unknown_types_are_refused() {
        let refusal = typed_column("f:q:toInteger").unwrap_err();
        assert!(
            refusal.contains("toInteger") && refusal.contains("toInt,") && refusal.contains(r"\x3A"),
            "{refusal}"
        );
        part("f:q:toLong").unwrap_err();
    }

    #[rstest]
    #[case("f")]
    #[case("f:q")]
    #[case("f:q:toLong=five")]
    #[case("f=v")]
    #[case(":q=v")]
    #[case(r"f:q=\n")]
    fn refuses_what_is_no_cell(#[case] text: &str) {
        cell(text).unwrap_err();
    }

    #[test]
    fn a_family_is_no_column() {
        column("f").unwrap_err();
        assert_eq!(part("f").unwrap().qualifier, None);
        assert_eq!(part("f:").unwrap().qualifier, Some(Bytes::new()));
    }

    #[rstest]
    #[case("0", Some(0))]
    #[case("18446744073709551615", Some(u64::MAX))]
    #[case("99999999999999999999999", None)]
    #[case("-1", None)]
    fn reads_whole_numbers_of_any_size(#[case] text: &str, #[case] number: Option<u64>) {
        assert_eq!(whole(text), Ok(Ranged::new(text, number)));
    }

    #[test]
    fn a_number_out_of_range_is_told_as_it_was_written() {
        let number = whole::<u64>("99999999999999999999").unwrap();
        let refusal = number.get("--timestamp").unwrap_err().to_string();
        assert_eq!(refusal, "--timestamp 99999999999999999999 is out of range");
    }

    #[rstest]
    #[case("")]
    #[case("-")]
    #[case("+1")]
    #[case("1.0")]
    #[case("many")]
    fn refuses_what_is_no_whole_number(#[case] text: &str) {
        whole::<u64>(text).unwrap_err();
    }
}
