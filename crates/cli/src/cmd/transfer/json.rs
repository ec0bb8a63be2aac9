//! Rows and mutations as JSON lines.
//!
//! A row is written as `scan` prints it, and a mutation as `txn apply` reads it.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use bytes::Bytes;
use hbase_txn::{BytesBinary, Put};
use serde::{Deserialize, de::IgnoredAny};

use crate::cmd::json_line::{self, LineMutation, Object, keys};

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
    value: Option<Bytes>,
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
            value: keys.value.ok_or_else(|| needed("value"))?,
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
    use hbase_txn::{Delete, Mutation};
    use rstest::rstest;

    use super::*;

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
