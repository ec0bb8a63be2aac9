//! Rows and mutations as JSON lines.
//!
//! A row is written as `scan` prints it, and a mutation as `txn apply` reads it.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    time::Duration,
};

use bytes::Bytes;
use hbase_txn::client::{BytesBinary, Cell, Put, Row};
use serde::{Deserialize, de::IgnoredAny};

use super::line_length::check_length;
use crate::{
    cell_types::ValueTypes,
    cmd::{
        input_lines::InputLines,
        json_line::{self, LineMutation, LineValue, Object, keys},
        rows::RowObject,
    },
    exit::Failure,
    output::Lines,
    value_type::ValueType,
};

/// The maximum number of characters of a byte: `\\xNN`.
const MAX_CHARACTERS: usize = 5;
/// More than the number of characters of a cell or a row without its bytes.
const KEYS: usize = 160;

/// The form of a row.
pub(super) struct RowForm {
    pub(super) with_timestamps: bool,
    pub(super) value_types: ValueTypes,
}

/// Writes a row as one line, or as several that are short enough to be imported.
pub(super) fn write(lines: &mut Lines, row: &Row, form: &RowForm) -> Result<(), Failure> {
    write_lines(lines, row, form, InputLines::LONGEST)
}

fn write_lines(lines: &mut Lines, row: &Row, form: &RowForm, longest: usize) -> Result<(), Failure> {
    let mut rest = row.cells();
    while !rest.is_empty() {
        let (cells, behind) = rest.split_at(fitting(row.key(), rest, longest));
        rest = behind;
        let object = RowObject::of(row.key(), cells, &form.value_types);
        let object = if form.with_timestamps {
            object
        } else {
            object.without_timestamps()
        };
        if let [cell] = cells
            && max_length(row.key(), cell) > longest
        {
            let length = serde_json::to_vec(&object).map_err(io::Error::from)?.len();
            check_length(row.key(), length, longest)?;
        }
        lines.json(&object)?;
    }
    Ok(())
}

/// Returns how many of the cells surely fit into one line, at least 1.
fn fitting(row: &[u8], cells: &[Cell], longest: usize) -> usize {
    let mut length = KEYS + MAX_CHARACTERS * row.len();
    let fits = |cell: &&Cell| {
        length += max_length(b"", cell);
        length <= longest
    };
    cells.iter().take_while(fits).count().max(1)
}

fn max_length(row: &[u8], cell: &Cell) -> usize {
    let bytes = row.len() + cell.family.len() + cell.qualifier.len() + cell.value.len();
    KEYS + MAX_CHARACTERS * bytes
}

/// Parses a line into its mutations, at least one. The error names the line.
pub(super) fn parse(number: u64, text: &[u8]) -> Result<Vec<LineMutation>, String> {
    let Object(form) = json_line::parse::<Object<Form>>(number, text)?;
    let refuse = |why: &str| Err(format!("line {number}: {why}"));
    match form {
        Form { op: Some(_), .. } => {
            let Object(mutation) = json_line::parse::<Object<LineMutation>>(number, text)?;
            Ok(vec![mutation])
        }
        Form { cells: Some(_), .. } => {
            let Object(row) = json_line::parse::<Object<RowKeys>>(number, text)?;
            row.puts().or_else(|why| refuse(&why))
        }
        Form {
            mutations: Some(_), ..
        } => refuse("a line with `mutations` is a transaction; run hbase-txn txn apply"),
        _ => refuse(
            "it has neither `cells` nor `op`; write a row as hbase-txn scan --output json prints it, or a mutation",
        ),
    }
}

/// The keys that show what a line is.
#[derive(Deserialize)]
struct Form {
    op: Option<IgnoredAny>,
    cells: Option<IgnoredAny>,
    mutations: Option<IgnoredAny>,
}

/// A row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowKeys {
    #[serde(deserialize_with = "keys::row")]
    row: Bytes,
    #[serde(deserialize_with = "keys::cells")]
    cells: Vec<Object<CellKeys>>,
}

#[derive(Deserialize)]
#[serde(try_from = "OptionalCellKeys")]
struct CellKeys {
    family: Bytes,
    qualifier: Bytes,
    value: Bytes,
    timestamp: Option<u64>,
    ttl_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionalCellKeys {
    #[serde(default, deserialize_with = "keys::family")]
    family: Option<Bytes>,
    #[serde(default, deserialize_with = "keys::qualifier")]
    qualifier: Option<Bytes>,
    #[serde(default, deserialize_with = "keys::value")]
    value: Option<LineValue>,
    #[serde(default, deserialize_with = "keys::value_type")]
    value_type: Option<ValueType>,
    #[serde(default, deserialize_with = "keys::timestamp")]
    timestamp: Option<u64>,
    #[serde(default, deserialize_with = "keys::ttl")]
    ttl_ms: Option<u64>,
}

impl TryFrom<OptionalCellKeys> for CellKeys {
    type Error = String;

    fn try_from(keys: OptionalCellKeys) -> Result<Self, String> {
        let needed = |key: &str| format!("a cell needs `{key}`");
        Ok(Self {
            family: keys.family.ok_or_else(|| needed("family"))?,
            qualifier: keys.qualifier.ok_or_else(|| needed("qualifier"))?,
            value: LineValue::bytes(keys.value, keys.value_type)?.ok_or_else(|| needed("value"))?,
            timestamp: keys.timestamp,
            ttl_ms: keys.ttl_ms,
        })
    }
}

impl RowKeys {
    /// Returns a put of the cells of each lifetime, because a put has only one.
    fn puts(self) -> Result<Vec<LineMutation>, String> {
        let cells: Vec<CellKeys> = self.cells.into_iter().map(|Object(cell)| cell).collect();
        if cells.is_empty() {
            return Err("a row without cells".to_owned());
        }
        refuse_a_cell_twice(&cells)?;
        let mut puts: BTreeMap<Option<u64>, Put> = BTreeMap::new();
        for cell in cells {
            let put = puts.remove(&cell.ttl_ms).unwrap_or_else(|| {
                let put = Put::new(self.row.clone());
                match cell.ttl_ms {
                    Some(millis) => put.ttl(Duration::from_millis(millis)),
                    None => put,
                }
            });
            let put = match cell.timestamp {
                Some(timestamp) => put.cell_at(cell.family, cell.qualifier, timestamp, cell.value),
                None => put.cell(cell.family, cell.qualifier, cell.value),
            };
            puts.insert(cell.ttl_ms, put);
        }
        let puts = puts.into_values().map(|put| LineMutation {
            mutation: put.into(),
            deletes_now: false,
            counter: None,
        });
        Ok(puts.collect())
    }
}

/// Refuses two values for one cell: the server would silently keep only one.
fn refuse_a_cell_twice(cells: &[CellKeys]) -> Result<(), String> {
    if cells.len() < 2 {
        return Ok(());
    }
    let mut seen = HashSet::with_capacity(cells.len());
    let key = |cell: &CellKeys| (cell.family.clone(), cell.qualifier.clone(), cell.timestamp);
    match cells.iter().find(|cell| !seen.insert(key(cell))) {
        None => Ok(()),
        Some(cell) => Err(format!(
            "cell {}:{} is put twice; leave one of the two out, or give them different timestamps",
            BytesBinary(&cell.family),
            BytesBinary(&cell.qualifier)
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        sync::{Arc, Mutex},
    };

    use hbase_txn::client::{CellKind, Delete, Mutation};
    use rstest::rstest;

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn cell(qualifier: &str, value: &'static [u8]) -> Cell {
        let [row, family, qualifier] = [&b"r\""[..], b"f", qualifier.as_bytes()].map(Bytes::copy_from_slice);
        Cell::new(row, family, qualifier, u64::MAX, CellKind::Put, value.into())
    }

    fn form() -> RowForm {
        RowForm {
            with_timestamps: true,
            value_types: ValueTypes::counters(),
        }
    }

    #[test]
    fn row_that_may_be_too_long_is_several_lines() {
        const LONGEST: usize = 780;
        let cells = [
            cell("a", &[0; 50]),
            cell("b", b"\"\\"),
            cell("c", &[0xff; 80]),
            cell("d", &[b'x'; 100]),
            cell("e", b""),
        ];
        let row = Row::new("r\"".into(), cells.to_vec());
        let buffer = Buffer::default();
        let mut lines = Lines::to(buffer.clone(), "buffer");
        write_lines(&mut lines, &row, &form(), LONGEST).unwrap();
        lines.flush().unwrap();
        let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
        assert!(text.lines().all(|line| line.len() <= LONGEST), "{text}");
        let puts = text.lines().flat_map(|line| mutations(line).unwrap());
        let found: Vec<_> = puts
            .flat_map(|mutation| match mutation {
                Mutation::Put(put) => put
                    .cells()
                    .map(|cell| (cell.qualifier, cell.value))
                    .collect::<Vec<_>>(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(found, cells.map(|cell| (cell.qualifier, cell.value)));
        assert_eq!(text.lines().count(), 4, "{text}");
    }

    #[test]
    fn cell_that_is_too_long_is_refused() {
        let row = Row::new("r\"".into(), vec![cell("q", &[0; 200])]);
        let mut lines = Lines::to(Buffer::default(), "buffer");
        let refusal = write_lines(&mut lines, &row, &form(), 700)
            .unwrap_err()
            .to_string();
        assert!(
            refusal.contains("row r\"") && refusal.contains("at most 700"),
            "{refusal}"
        );
    }

    fn mutations(text: &str) -> Result<Vec<Mutation>, String> {
        let lines = parse(7, text.as_bytes())?;
        Ok(lines.into_iter().map(|line| line.mutation).collect())
    }

    #[rstest]
    #[case(
        r#"{"row":"r\\xFF","cells":[{"family":"f","qualifier":"q","timestamp":5,"value":"\\x00"}]}"#,
        Put::new(&b"r\xff"[..]).cell_at("f", "q", 5, "\0")
    )]
    #[case(
        r#"{"cells":[{"value":"v","family":"f","qualifier":""},{"family":"g","qualifier":"q","value":"","timestamp":9}],"row":"r"}"#,
        Put::new("r").cell("f", "", "v").cell_at("g", "q", 9, "")
    )]
    #[case(
        r#"{"row":"r","cells":[{"family":"f","qualifier":"q","timestamp":5,"value":-1,"value_type":"toLong"}]}"#,
        Put::new("r").cell_at("f", "q", 5, -1i64)
    )]
    #[case(r#"{"op":"delete","row":"r"}"#, Delete::new("r"))]
    #[case(
        r#"{"op":"put","row":"r","family":"f","qualifier":"q","value":"v","timestamp":5}"#,
        Put::new("r").cell("f", "q", "v").timestamp(5)
    )]
    fn reads_rows_and_mutations(#[case] text: &str, #[case] mutation: impl Into<Mutation>) {
        assert_eq!(mutations(text), Ok(vec![mutation.into()]));
    }

    #[test]
    fn cells_of_each_lifetime_are_a_put() {
        let text = r#"{"row":"r","cells":[{"family":"f","qualifier":"a","value":"1","ttl_ms":5},
            {"family":"f","qualifier":"b","value":"2"},{"family":"f","qualifier":"c","value":"3","ttl_ms":5}]}"#;
        let lasting = Put::new("r").cell("f", "b", "2").into();
        let expiring = Put::new("r").cell("f", "a", "1").cell("f", "c", "3");
        let expiring = expiring.ttl(Duration::from_millis(5)).into();
        assert_eq!(mutations(text), Ok(vec![lasting, expiring]));
    }

    #[rstest]
    #[case("no", "line 7, column 2: not a JSON object")]
    #[case("{}", "line 7: it has neither `cells` nor `op`")]
    #[case(r#"{"mutations":[]}"#, "line 7: a line with `mutations` is a transaction")]
    #[case(r#"{"row":"r","cells":[]}"#, "line 7: a row without cells")]
    #[case(r#"{"row":"r","cells":5}"#, "line 7, column 20: `cells` is not an array")]
    #[case(r#"{"cells":[]}"#, "line 7, column 12: missing field `row`")]
    #[case(r#"{"row":"r","cells":[{"family":"f"}]}"#, "a cell needs `qualifier`")]
    #[case(r#"{"row":"r","cells":[["f"]]}"#, "not a JSON object")]
    #[case(r#"{"row":"r","cells":[{"family":"\\q"}]}"#, "a stray backslash")]
    #[case(r#"{"row":"r","cells":[],"op":"put"}"#, "unknown field `cells`")]
    #[case(
        r#"{"row":"r","cells":[{"family":"f","qualifier":"q","value":"1"},{"family":"f","qualifier":"q","value":"2"}]}"#,
        "line 7: cell f:q is put twice"
    )]
    fn refuses_other_lines(#[case] text: &str, #[case] why: &str) {
        let refusal = mutations(text).unwrap_err();
        assert!(
            refusal.contains(why) && refusal.starts_with("line 7"),
            "{refusal}"
        );
    }
}
