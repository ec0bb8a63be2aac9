//! The name of a lock, and its row.

use std::{fmt, str::FromStr};

use bytes::Bytes;

use super::protocol::layout::COMPANION;
use crate::{
    error::{Error, Result},
    java_layout::{Level, distributed_row},
};

/// Separates the parts of a lock's key.
const SEPARATOR: char = '#';
/// The longest row key of HBase.
const MAX_ROW: usize = i16::MAX as usize;

/// A lock's full name: `DC#farm#client#id` or `XDC#client#id`, the keys of the Java library.
///
/// No part is empty, and farm and client contain no `#`, so no two names have the same key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LockName {
    level: Level,
    key: String,
}

impl LockName {
    /// Names a lock of one farm.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if a part is empty, farm or
    /// client contains a `#`, or the name is too long for a row key.
    pub fn dc(farm: &str, client: &str, id: &str) -> Result<Self> {
        check_part("farm", farm)?;
        check_part("client", client)?;
        Self::new(Level::Dc, format!("DC#{farm}#{client}#"), id)
    }

    /// Names a lock of all farms.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`dc`](Self::dc).
    pub fn xdc(client: &str, id: &str) -> Result<Self> {
        check_part("client", client)?;
        Self::new(Level::Xdc, format!("XDC#{client}#"), id)
    }

    fn new(level: Level, mut key: String, id: &str) -> Result<Self> {
        if id.is_empty() {
            return Err(Error::invalid("an empty lock id"));
        }
        key.push_str(id);
        // The row has a byte before the key, and a companion has a suffix.
        let longest = MAX_ROW - 1 - COMPANION.len();
        if key.len() > longest {
            return Err(Error::invalid(format!(
                "a lock's name of {} bytes; farm, client and id together may have {longest}",
                key.len()
            )));
        }
        Ok(Self { level, key })
    }

    /// Reads the name from a row key. Returns `None` for keys that this library does not write.
    pub(super) fn of_row(row: &[u8]) -> Option<Self> {
        let key = std::str::from_utf8(row.get(1..)?).ok()?;
        key.parse().ok().filter(|name: &Self| name.row() == row)
    }

    /// Returns the lock whose two rows are separated by a region boundary at this key, if there is
    /// one. Such a lock cannot be acquired.
    ///
    /// A table with the split restriction of [`LockTableOptions`](super::LockTableOptions) gets no
    /// such boundary.
    #[must_use]
    pub fn cut_by(boundary: impl AsRef<[u8]>) -> Option<Self> {
        let boundary = boundary.as_ref();
        // Between the lock's row and its companion, which is the last key that separates them.
        (1..boundary.len())
            .filter(|end| boundary[*end..] <= *COMPANION)
            .find_map(|end| Self::of_row(&boundary[..end]))
    }

    /// Returns its level.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// Returns its key, without the leading byte of its row.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the farm, or `None` for a lock of all farms.
    #[must_use]
    pub fn farm(&self) -> Option<&str> {
        match self.level {
            Level::Dc => self.key.split(SEPARATOR).nth(1),
            Level::Xdc => None,
        }
    }

    /// Returns the client id: the service to which the lock belongs, not the process that holds it.
    #[must_use]
    pub fn client(&self) -> &str {
        let before = match self.level {
            Level::Dc => 2,
            Level::Xdc => 1,
        };
        self.key.split(SEPARATOR).nth(before).unwrap_or_default()
    }

    /// Returns the lock's id among those of its client.
    #[must_use]
    pub fn id(&self) -> &str {
        let before = match self.level {
            Level::Dc => 3,
            Level::Xdc => 2,
        };
        self.key
            .splitn(before + 1, SEPARATOR)
            .nth(before)
            .unwrap_or_default()
    }

    pub(crate) fn row(&self) -> Bytes {
        distributed_row(self.key.as_bytes())
    }
}

impl FromStr for LockName {
    type Err = Error;

    /// Parses a key: `DC#farm#client#id` or `XDC#client#id`.
    fn from_str(key: &str) -> Result<Self> {
        let parts = key.split_once(SEPARATOR).and_then(|(level, rest)| {
            let (first, rest) = rest.split_once(SEPARATOR)?;
            Some(match level {
                "DC" => (Some(first), rest.split_once(SEPARATOR)?),
                "XDC" => (None, (first, rest)),
                _ => return None,
            })
        });
        match parts {
            Some((Some(farm), (client, id))) => Self::dc(farm, client, id),
            Some((None, (client, id))) => Self::xdc(client, id),
            None => Err(Error::invalid(format!(
                "{key:?} is not a full name: DC#FARM#CLIENT#ID or XDC#CLIENT#ID"
            ))),
        }
    }
}

fn check_part(what: &str, text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(format!("an empty {what}")));
    }
    if text.contains(SEPARATOR) {
        return Err(Error::invalid(format!(
            "{what} {text:?} has a '#', so that another farm, client and id would have the same lock"
        )));
    }
    Ok(())
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockName({self})")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_key_has_its_parts_and_an_id_may_have_the_separator() {
        let dc = LockName::dc("fra", "svc", "order#1").unwrap();
        assert_eq!(dc.key(), "DC#fra#svc#order#1");
        assert_eq!((dc.farm(), dc.client(), dc.id()), (Some("fra"), "svc", "order#1"));
        let xdc = LockName::xdc("svc", "ключ").unwrap();
        assert_eq!(xdc.key(), "XDC#svc#ключ");
        assert_eq!((xdc.farm(), xdc.client(), xdc.id()), (None, "svc", "ключ"));
        for name in [dc, xdc] {
            assert_eq!(LockName::of_row(&name.row()), Some(name.clone()));
            assert_eq!(name.key().parse::<LockName>().unwrap(), name);
        }
        for key in [
            "",
            "DC#fra#svc",
            "XDC#svc",
            "XDC#svc#",
            "dc#fra#svc#a",
            "SEM#DC#fra#svc#a",
        ] {
            key.parse::<LockName>().unwrap_err();
        }
    }

    #[rstest]
    #[case::would_collide(LockName::dc("f#c", "d", "i"), "'#'")]
    #[case::would_collide_too(LockName::xdc("c#d", "i"), "'#'")]
    #[case::no_farm(LockName::dc("", "c", "i"), "empty farm")]
    #[case::no_client(LockName::xdc("", "i"), "empty client")]
    #[case::no_id(LockName::xdc("c", ""), "empty lock id")]
    #[case::too_long(LockName::xdc("c", &"i".repeat(32_767)), "bytes")]
    fn names_that_would_collide_or_do_not_fit_are_refused(
        #[case] name: Result<LockName>,
        #[case] expected: &str,
    ) {
        let error = name.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn a_boundary_cuts_the_lock_between_whose_rows_it_lies() {
        let name = LockName::xdc("svc", "order").unwrap();
        let behind = |suffix: &[u8]| [&name.row()[..], suffix].concat();
        for suffix in [b"\x00", b"0", b"\xff", &b"\xff_own"[..]] {
            assert_eq!(LockName::cut_by(behind(suffix)), Some(name.clone()));
        }
        for suffix in [&b""[..], b"\xff_own\x00", b"\xff\xff"] {
            assert_eq!(LockName::cut_by(behind(suffix)), None, "{suffix:?}");
        }
        for bucket in 0..=u8::MAX {
            assert_eq!(LockName::cut_by([bucket]), None);
        }
    }

    #[rstest]
    #[case(b"")]
    #[case(b"x")]
    #[case(b"\x41DC#fra#order-1")]
    #[case(b"\x00XDC#svc#order-1")]
    #[case(b"\x7eXDC#svc#order-1\xff_own")]
    fn rows_of_others_have_no_name(#[case] row: &[u8]) {
        assert_eq!(LockName::of_row(row), None);
    }
}
