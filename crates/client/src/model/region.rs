//! A region: a contiguous range of rows that one server serves.

use bytes::Bytes;

use super::{BytesBinary, ServerName, TableName};

/// A region of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionInfo {
    /// The table.
    pub table: TableName,
    /// The first row of the region; empty for the first region.
    pub start_key: Bytes,
    /// The first row after the region; empty for the last region.
    pub end_key: Bytes,
    /// The time of creation; of two overlapping regions, the one with the larger id is newer.
    pub region_id: u64,
    /// The full name, which is the region's row key in `hbase:meta`.
    pub name: Bytes,
    /// Whether it was split, and waits for its cleanup.
    pub split: bool,
    /// Whether it is permanently offline.
    pub offline: bool,
}

/// A region of a table, and the servers that serve it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRegion {
    /// The region.
    pub region: RegionInfo,
    /// The server of the region, or `None` while the region is unassigned.
    pub server: Option<ServerName>,
    /// The servers of its replicas that are served, each with the number of the replica, from 1.
    pub replicas: Vec<(u16, ServerName)>,
}

impl RegionInfo {
    /// Returns the one region of `hbase:meta`. Its name has the old style, without a digest.
    pub fn meta() -> Self {
        Self {
            table: TableName::meta(),
            start_key: Bytes::new(),
            end_key: Bytes::new(),
            region_id: 1,
            name: Bytes::from_static(b"hbase:meta,,1"),
            split: false,
            offline: false,
        }
    }

    /// Sets the name of a region that has been created since HBase 0.90, by its other fields
    /// (`RegionInfo.createRegionName`).
    pub(crate) fn named(self) -> Self {
        if self.table.is_meta() {
            return Self {
                name: Self::meta().name,
                ..self
            };
        }
        let table = self.table.to_string();
        let id = self.region_id.to_string();
        let prefix = [table.as_bytes(), b",", &self.start_key, b",", id.as_bytes()].concat();
        let digest = format!(".{:x}.", md5::compute(&prefix));
        Self {
            name: [&prefix[..], digest.as_bytes()].concat().into(),
            ..self
        }
    }

    /// Returns whether the row is in the range of this region.
    #[must_use]
    pub fn contains(&self, row: impl AsRef<[u8]>) -> bool {
        let row = row.as_ref();
        self.start_key <= row && (self.end_key.is_empty() || row < &self.end_key[..])
    }

    /// Returns the encoded name: the digest at the end of the full name, by which the master knows
    /// the region.
    #[must_use]
    pub fn encoded_name(&self) -> &[u8] {
        if self.table.is_meta() {
            return b"1588230740";
        }
        let name = self.name.strip_suffix(b".").unwrap_or(&self.name);
        match name.iter().rposition(|byte| *byte == b'.') {
            Some(dot) => &name[dot + 1..],
            None => name,
        }
    }

    /// Returns a replica of this region, which has a name of its own.
    pub(crate) fn replica(&self, id: u16) -> Self {
        let suffix = format!("_{id:04X}");
        // The names of `RegionInfo.createRegionName`: that of `hbase:meta` has no digest, and in
        // others the digest is that of all before it.
        if self.table.is_meta() {
            return Self {
                name: [&self.name[..], suffix.as_bytes()].concat().into(),
                ..self.clone()
            };
        }
        let encoded = self.encoded_name().len() + b"..".len();
        let prefix = &self.name[..self.name.len().saturating_sub(encoded)];
        let prefix = [prefix, suffix.as_bytes()].concat();
        let digest = format!(".{:x}.", md5::compute(&prefix));
        Self {
            name: [&prefix[..], digest.as_bytes()].concat().into(),
            ..self.clone()
        }
    }

    /// Returns the encoded name as text, in the form that HBase's shell accepts.
    #[must_use]
    pub fn encoded_text(&self) -> String {
        BytesBinary(self.encoded_name()).to_string()
    }

    /// Returns whether two regions have rows in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let before = |end: &Bytes, start: &Bytes| !end.is_empty() && end <= start;
        !before(&self.end_key, &other.start_key) && !before(&other.end_key, &self.start_key)
    }

    /// Returns the range as text: `[start, end)`.
    #[must_use]
    pub fn range_text(&self) -> String {
        let edge = |key: &Bytes| {
            if key.is_empty() {
                "-∞".to_owned()
            } else {
                BytesBinary(key).to_string()
            }
        };
        let end = if self.end_key.is_empty() {
            "∞".to_owned()
        } else {
            edge(&self.end_key)
        };
        format!("[{}, {end})", edge(&self.start_key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: &'static str, end: &'static str) -> RegionInfo {
        RegionInfo {
            table: "t".parse().unwrap(),
            start_key: start.into(),
            end_key: end.into(),
            name: Bytes::from(format!("t,{start},7.0123456789abcdef0123456789abcdef.")),
            ..RegionInfo::meta()
        }
    }

    #[test]
    fn the_start_is_inside_and_the_end_is_not() {
        let region = region("b", "d");
        assert!(
            !region.contains(b"a")
                && region.contains(b"b")
                && region.contains(b"czz")
                && !region.contains(b"d")
        );
        assert!(self::region("", "").contains(b"") && self::region("b", "").contains(b"\xff"));
    }

    #[test]
    fn regions_that_only_touch_do_not_overlap() {
        assert!(!region("", "b").overlaps(&region("b", "")));
        assert!(region("", "c").overlaps(&region("b", "")));
        assert!(region("", "").overlaps(&region("b", "c")));
    }

    #[test]
    fn replica_has_a_name_and_a_digest_of_its_own() {
        let primary = region("b.,c", "d");
        let replica = primary.replica(11);
        let digest = format!("{:x}", md5::compute("t,b.,c,7_000B"));
        assert_eq!(replica.name, format!("t,b.,c,7_000B.{digest}."));
        assert_eq!(replica.encoded_name(), digest.as_bytes());
        assert_eq!(
            (replica.start_key, replica.end_key),
            (primary.start_key, primary.end_key)
        );
    }

    #[test]
    fn name_is_computed_from_the_other_fields() {
        let digest = format!("{:x}", md5::compute("t,b.,c,7"));
        let found = RegionInfo {
            region_id: 7,
            ..region("b.,c", "d")
        };
        assert_eq!(found.named().name, format!("t,b.,c,7.{digest}."));
        assert_eq!(RegionInfo::meta().named(), RegionInfo::meta());
    }

    #[test]
    fn replica_of_meta_has_a_name_without_a_digest() {
        assert_eq!(RegionInfo::meta().replica(2).name, "hbase:meta,,1_0002");
    }

    #[test]
    fn the_encoded_name_is_the_digest_of_the_full_name() {
        assert_eq!(
            region("a.b,c", "").encoded_name(),
            b"0123456789abcdef0123456789abcdef"
        );
        assert_eq!(RegionInfo::meta().encoded_name(), b"1588230740");
    }
}
