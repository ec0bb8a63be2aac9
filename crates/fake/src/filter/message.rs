//! The messages of filters and comparators.

use bytes::Bytes;
use prost::Message;

use crate::exception::{Exception, Result};

/// The package of HBase's filters.
const PACKAGE: &str = "org.apache.hadoop.hbase.filter.";

/// Returns the name of a class in the package of filters.
pub(super) fn class(name: &str) -> Result<&str> {
    name.strip_prefix(PACKAGE)
        .ok_or_else(|| Exception::not_modelled(format!("class {name} as a filter or comparator")))
}

/// Decodes a message, of which every field must be known.
pub(super) fn decode<M: Message + Default>(bytes: &Bytes, name: &str) -> Result<M> {
    let message = M::decode(bytes.clone())
        .map_err(|error| Exception::io(format!("DeserializationException: {name}: {error}")))?;
    if message.encode_to_vec() == bytes[..] {
        Ok(message)
    } else {
        Err(Exception::not_modelled(format!("a field of {name}")))
    }
}
