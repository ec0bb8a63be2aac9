//! The name of a latch, and its row.

use std::fmt;

use bytes::Bytes;

use super::layout::MAX_FARM;
use crate::{
    error::{Error, Result},
    java_layout::distributed_row,
};

/// Separates the parts of a latch's key.
const SEPARATOR: char = '_';
/// The longest row key of HBase.
const MAX_ROW: usize = i16::MAX as usize;

/// A latch's full name: `client_id`, the key of the Java library.
///
/// Neither part is empty, and the client contains no `_`, so no two names have the same key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LatchName {
    key: String,
}

impl LatchName {
    /// Names a latch of a client.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if a part is empty, the
    /// client contains a `_`, or the name is too long for a row key.
    pub fn new(client: &str, id: &str) -> Result<Self> {
        if client.is_empty() {
            return Err(Error::invalid("an empty client"));
        }
        if client.contains(SEPARATOR) {
            return Err(Error::invalid(format!(
                "client {client:?} has a '_', so that another client and id would have the same latch"
            )));
        }
        if id.is_empty() {
            return Err(Error::invalid("an empty latch id"));
        }
        // The row has a byte before the key.
        let (length, longest) = (client.len() + 1 + id.len(), MAX_ROW - 1);
        if length > longest {
            return Err(Error::invalid(format!(
                "a latch's name of {length} bytes; client and id together may have {longest}"
            )));
        }
        Ok(Self {
            key: format!("{client}{SEPARATOR}{id}"),
        })
    }

    /// Reads the name from a row key. Returns `None` for keys that this library does not write.
    pub(super) fn of_row(row: &[u8]) -> Option<Self> {
        let key = std::str::from_utf8(row.get(1..)?).ok()?;
        let (client, id) = key.split_once(SEPARATOR)?;
        Self::new(client, id).ok().filter(|name| name.row() == row)
    }

    /// Returns its key, without the leading byte of its row.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the client id: the service to which the latch belongs.
    #[must_use]
    pub fn client(&self) -> &str {
        self.key.split_once(SEPARATOR).map_or("", |(client, _)| client)
    }

    /// Returns the latch's id among those of its client.
    #[must_use]
    pub fn id(&self) -> &str {
        self.key.split_once(SEPARATOR).map_or("", |(_, id)| id)
    }

    pub(crate) fn row(&self) -> Bytes {
        distributed_row(self.key.as_bytes())
    }
}

/// Refuses an invalid farm name.
pub(crate) fn check_farm(farm: &str) -> Result<()> {
    if farm.is_empty() {
        return Err(Error::invalid("an empty farm"));
    }
    if farm.len() > MAX_FARM {
        return Err(Error::invalid(format!(
            "a farm's name of {} bytes; it may have {MAX_FARM}",
            farm.len()
        )));
    }
    Ok(())
}

impl fmt::Display for LatchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)
    }
}

impl fmt::Debug for LatchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LatchName({self})")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_key_has_its_parts_and_an_id_may_have_the_separator() {
        let name = LatchName::new("order-service", "batch_42").unwrap();
        assert_eq!(name.key(), "order-service_batch_42");
        assert_eq!((name.client(), name.id()), ("order-service", "batch_42"));
        assert_eq!(name.row()[1..], *b"order-service_batch_42");
        assert_eq!(LatchName::of_row(&name.row()), Some(name));
        assert_eq!(LatchName::of_row(b"\x00order-service_batch_42"), None);
    }

    #[rstest]
    #[case::would_collide(LatchName::new("a_b", "c"), "'_'")]
    #[case::no_client(LatchName::new("", "i"), "empty client")]
    #[case::no_id(LatchName::new("c", ""), "empty latch id")]
    #[case::too_long(LatchName::new("c", &"i".repeat(32_765)), "bytes")]
    fn names_that_would_collide_or_do_not_fit_are_refused(
        #[case] name: Result<LatchName>,
        #[case] expected: &str,
    ) {
        let error = name.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn the_longest_name_fits() {
        let name = LatchName::new("c", &"i".repeat(32_764)).unwrap();
        assert_eq!(name.row().len(), MAX_ROW);
        assert!(check_farm("").is_err());
        assert!(check_farm(&"f".repeat(MAX_FARM)).is_ok());
        assert!(check_farm(&"f".repeat(MAX_FARM + 1)).is_err());
    }
}
