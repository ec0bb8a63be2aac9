//! Where regions are split.

use bytes::Bytes;
use hbase_protocol as pb;

use super::world::World;
use crate::{
    exception::{Exception, Result},
    region::attribute,
};

const RESTRICTION: &str = "hbase.regionserver.region.split_restriction.";

impl World {
    /// Returns the row at which the master splits a region that is to be split at this one.
    pub(super) fn restricted_split_row(&self, region: &Bytes, row: Bytes) -> Result<Bytes> {
        let table = self.hosted(region)?.info.table.clone();
        Ok(restricted(&self.table(&table)?.schema, row))
    }

    /// Returns the row at which a server would split a region: the middle one, cut by policy and
    /// restriction. A split at the start key, which may be the result, fails.
    pub(crate) fn split_point(&self, region: &Bytes) -> Result<Bytes> {
        let hosted = self.hosted(region)?;
        let mut rows: Vec<Bytes> = Vec::new();
        for cell in hosted.region.iter().flat_map(|region| region.dump()) {
            if rows.last() != Some(&cell.row) {
                rows.push(cell.row);
            }
        }
        let schema = &self.table(&hosted.info.table)?.schema;
        let middle = rows.get(rows.len() / 2).filter(|_| rows.len() > 1);
        let row = middle.map(|row| restricted(schema, by_policy(schema, row.clone())));
        row.filter(|row| hosted.info.contains(row))
            .ok_or_else(|| Exception::do_not_retry(format!("{} is not splittable", hosted.info.name_text())))
    }
}

fn cut_at_length(row: Bytes, length: Option<&[u8]>) -> Bytes {
    let length = length.and_then(|length| std::str::from_utf8(length).ok()?.parse::<usize>().ok());
    match length {
        Some(length) if length > 0 => row.slice(..length.min(row.len())),
        _ => row,
    }
}

fn cut_at_delimiter(row: Bytes, delimiter: Option<&[u8]>) -> Bytes {
    let Some(delimiter) = delimiter.filter(|delimiter| !delimiter.is_empty()) else {
        return row;
    };
    match row.windows(delimiter.len()).position(|part| part == delimiter) {
        Some(end) if end > 0 => row.slice(..end),
        _ => row,
    }
}

fn by_policy(schema: &pb::TableSchema, row: Bytes) -> Bytes {
    let policy = attribute(schema, "SPLIT_POLICY")
        .map(String::from_utf8_lossy)
        .unwrap_or_default();
    if policy.ends_with(".DelimitedKeyPrefixRegionSplitPolicy") {
        cut_at_delimiter(
            row,
            attribute(schema, "DelimitedKeyPrefixRegionSplitPolicy.delimiter"),
        )
    } else if policy.ends_with(".KeyPrefixRegionSplitPolicy") {
        cut_at_length(row, attribute(schema, "KeyPrefixRegionSplitPolicy.prefix_length"))
    } else {
        row
    }
}

fn restricted(schema: &pb::TableSchema, row: Bytes) -> Bytes {
    let value = |key: &str| attribute(schema, &format!("{RESTRICTION}{key}"));
    match value("type") {
        Some(b"KeyPrefix") => cut_at_length(row, value("prefix_length")),
        Some(b"DelimitedKeyPrefix") => cut_at_delimiter(row, value("delimiter")),
        _ => row,
    }
}
