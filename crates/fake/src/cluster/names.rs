//! Names of tables, regions and servers.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use hbase_protocol as pb;

use crate::exception::{Exception, Result};

/// The name of the region of `hbase:meta`; it has no hash.
const META_REGION: &[u8] = b"hbase:meta,,1";
/// The encoded name of the region of `hbase:meta`.
pub(crate) const META_ENCODED: &[u8] = b"1588230740";
/// The length of the hash in a region's name.
const HASH: usize = 32;

/// The name of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TableName {
    pub(crate) namespace: String,
    pub(crate) qualifier: String,
}

impl TableName {
    pub(crate) fn new(namespace: &str, qualifier: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            qualifier: qualifier.to_owned(),
        }
    }

    /// Parses `namespace:qualifier`, or a qualifier alone for the namespace `default`.
    pub(crate) fn parse(text: &str) -> Self {
        match text.split_once(':') {
            Some((namespace, qualifier)) => Self::new(namespace, qualifier),
            None => Self::new("default", text),
        }
    }

    pub(crate) fn meta() -> Self {
        Self::new("hbase", "meta")
    }

    pub(crate) fn is_system(&self) -> bool {
        self.namespace == "hbase"
    }

    pub(crate) fn from_message(message: &pb::TableName) -> Result<Self> {
        let pb::TableName { namespace, qualifier } = message;
        let text = |bytes: &Bytes| {
            let text = std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty());
            let legal = text.filter(|text| {
                let legal = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
                text.chars().all(legal) && !text.starts_with(['.', '-'])
            });
            legal.map(str::to_owned).ok_or_else(|| {
                Exception::io(format!(
                    "java.lang.IllegalArgumentException: illegal table name {:?}",
                    String::from_utf8_lossy(bytes)
                ))
            })
        };
        Ok(Self {
            namespace: text(namespace)?,
            qualifier: text(qualifier)?,
        })
    }

    pub(crate) fn message(&self) -> pb::TableName {
        pb::TableName {
            namespace: self.namespace.clone().into(),
            qualifier: self.qualifier.clone().into(),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "default" => f.write_str(&self.qualifier),
            namespace => write!(f, "{namespace}:{}", self.qualifier),
        }
    }
}

/// A region as `hbase:meta` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegionInfo {
    pub(crate) table: TableName,
    pub(crate) start_key: Bytes,
    pub(crate) end_key: Bytes,
    pub(crate) id: u64,
    /// The row of the region in `hbase:meta`.
    pub(crate) name: Bytes,
    /// The hash in the name.
    pub(crate) encoded: Bytes,
    /// Whether the region was split, and only waits for its removal.
    pub(crate) split: bool,
}

impl RegionInfo {
    pub(crate) fn new(table: TableName, start_key: Bytes, end_key: Bytes, id: u64) -> Self {
        let mut name = BytesMut::new();
        name.put_slice(table.to_string().as_bytes());
        name.put_u8(b',');
        name.put_slice(&start_key);
        name.put_slice(format!(",{id}").as_bytes());
        let hash = format!("{:x}", md5::compute(&name));
        name.put_slice(format!(".{hash}.").as_bytes());
        Self {
            table,
            start_key,
            end_key,
            id,
            name: name.freeze(),
            encoded: hash.into(),
            split: false,
        }
    }

    /// Returns the one region of `hbase:meta`.
    pub(crate) fn meta() -> Self {
        Self {
            table: TableName::meta(),
            start_key: Bytes::new(),
            end_key: Bytes::new(),
            id: 1,
            name: Bytes::from_static(META_REGION),
            encoded: Bytes::from_static(META_ENCODED),
            split: false,
        }
    }

    pub(crate) fn is_meta(&self) -> bool {
        self.encoded == META_ENCODED
    }

    pub(crate) fn contains(&self, row: &[u8]) -> bool {
        row >= &self.start_key[..] && (self.end_key.is_empty() || row < &self.end_key[..])
    }

    /// Whether the other region begins where this one ends.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        self.table == other.table && !self.end_key.is_empty() && self.end_key == other.start_key
    }

    pub(crate) fn message(&self) -> pb::RegionInfo {
        pb::RegionInfo {
            region_id: self.id,
            table_name: self.table.message(),
            start_key: Some(self.start_key.clone()),
            end_key: Some(self.end_key.clone()),
            offline: Some(self.split),
            split: Some(self.split),
            replica_id: Some(0),
        }
    }

    pub(crate) fn specifier(&self) -> pb::RegionSpecifier {
        pb::RegionSpecifier {
            r#type: pb::region_specifier::RegionSpecifierType::RegionName.into(),
            value: self.name.clone(),
        }
    }

    pub(crate) fn name_text(&self) -> String {
        text(&self.name)
    }
}

/// Returns the encoded name of the region that a message specifies; of an unknown form, the name
/// itself.
pub(crate) fn encoded_name(specifier: &pb::RegionSpecifier) -> Bytes {
    use pb::region_specifier::RegionSpecifierType::RegionName;
    let pb::RegionSpecifier { r#type: _, value } = specifier;
    if specifier.r#type() != RegionName {
        return value.clone();
    }
    if value == META_REGION {
        return Bytes::from_static(META_ENCODED);
    }
    match value.len().checked_sub(HASH + 2) {
        Some(dot) if value[dot] == b'.' && value.ends_with(b".") => value.slice(dot + 1..value.len() - 1),
        _ => value.clone(),
    }
}

/// Returns bytes as Java's `Bytes.toStringBinary` does.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\x5C"),
            b' '..=b'~' => text.push(char::from(*byte)),
            byte => text.push_str(&format!("\\x{byte:02X}")),
        }
    }
    text
}

/// A server and its start: another start of the same address is another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerName {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) start_code: u64,
}

impl ServerName {
    pub(crate) fn message(&self) -> pb::ServerName {
        pb::ServerName {
            host_name: self.host.clone(),
            port: Some(self.port.into()),
            start_code: Some(self.start_code),
        }
    }

    /// Returns host and port as `hbase:meta` and connection URIs have them.
    pub(crate) fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.host, self.port, self.start_code)
    }
}
