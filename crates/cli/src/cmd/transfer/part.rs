//! The parts of an export. The rows of a part are exported in their order.

use bytes::Bytes;
use hbase_txn::client::{BytesBinary, Scan, parse_bytes_binary};
use serde::{Deserialize, Serialize};

/// A range of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    /// The first row, or `None` for the first one of the export.
    start: Option<Key>,
    /// The first row after it, or `None` for the end of the export.
    stop: Option<Key>,
    /// The last row that is exported.
    exported: Option<Key>,
}

/// A row key. Its text is that of HBase's shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
struct Key(Bytes);

impl From<Key> for String {
    fn from(Key(bytes): Key) -> Self {
        BytesBinary(&bytes).to_string()
    }
}

impl TryFrom<String> for Key {
    type Error = hbase_client::Error;

    fn try_from(text: String) -> Result<Self, hbase_client::Error> {
        parse_bytes_binary(&text).map(Self)
    }
}

impl Part {
    /// Returns the parts between these keys of an export, which are in order.
    pub(super) fn between(keys: impl IntoIterator<Item = Bytes>) -> Vec<Self> {
        let mut parts = vec![Self::default()];
        for key in keys {
            if let Some(last) = parts.last_mut() {
                last.stop = Some(Key(key.clone()));
            }
            parts.push(Self {
                start: Some(Key(key)),
                ..Self::default()
            });
        }
        parts
    }

    /// Returns the scan of the rows that are not exported. The other scan is that of the export.
    pub(super) fn scan(&self, all: &Scan) -> Scan {
        let scan = all.clone();
        let scan = match (&self.exported, &self.start) {
            (Some(Key(row)), _) => scan.start_row_exclusive(row.clone()),
            (None, Some(Key(row))) => scan.start_row(row.clone()),
            (None, None) => scan,
        };
        match &self.stop {
            Some(Key(row)) => scan.stop_row(row.clone()),
            None => scan,
        }
    }

    /// Records that the rows up to this one are exported.
    pub(super) fn advance(&mut self, row: Bytes) {
        self.exported = Some(Key(row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_an_export_and_continue_after_a_restart() {
        let all = Scan::prefix("b");
        let mut parts = Part::between(["b3", "b\u{7f}"].map(Bytes::from));
        parts[1].advance(Bytes::from_static(b"b5\xff"));
        let text = serde_json::to_string(&parts).unwrap();
        assert_eq!(
            text,
            r#"[{"start":null,"stop":"b3","exported":null},{"start":"b3","stop":"b\\x7F","exported":"b5\\xFF"},{"start":"b\\x7F","stop":null,"exported":null}]"#
        );
        let read: Vec<Part> = serde_json::from_str(&text).unwrap();
        assert_eq!(read, parts);
        let scans: Vec<_> = read.iter().map(|part| part.scan(&all)).collect();
        let expected = [
            all.clone().stop_row("b3"),
            all.clone()
                .start_row_exclusive(&b"b5\xff"[..])
                .stop_row("b\u{7f}"),
            all.clone().start_row("b\u{7f}"),
        ];
        assert_eq!(scans, expected);
    }
}
