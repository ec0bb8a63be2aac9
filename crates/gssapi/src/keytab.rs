//! The principals of a keytab file.
//!
//! The library reports a keytab that does not exist, and one without the principal, as a missing
//! cache. Reading the names tells which it is. Keys are skipped.

use std::{collections::BTreeSet, fs::File, io::Read, path::Path};

/// The maximum size of a file, far beyond that of any real keytab.
const MAX_SIZE: u64 = 16 << 20;
/// The maximum number of components of a principal.
const MAX_COMPONENTS: u16 = 64;

/// Why the names of a keytab cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeytabError {
    #[error("{0}")]
    Unreadable(#[from] std::io::Error),
    #[error("it is no keytab of version 2")]
    Format,
    #[error("the entry at byte {0} is cut off or invalid")]
    Entry(usize),
}

/// Returns the principals of a file.
pub(crate) fn principals_of(file: &Path) -> Result<BTreeSet<String>, KeytabError> {
    let mut bytes = Vec::new();
    File::open(file)?.take(MAX_SIZE).read_to_end(&mut bytes)?;
    principals(&bytes)
}

/// Returns the principals of a keytab. It has the version 5.2, and then entries of a length each,
/// which is negative if the entry was deleted.
pub(crate) fn principals(bytes: &[u8]) -> Result<BTreeSet<String>, KeytabError> {
    let mut rest = bytes.strip_prefix(b"\x05\x02").ok_or(KeytabError::Format)?;
    let mut principals = BTreeSet::new();
    while !rest.is_empty() {
        let cut = || KeytabError::Entry(bytes.len() - rest.len());
        let (length, entries) = rest.split_first_chunk().ok_or_else(cut)?;
        let length = i32::from_be_bytes(*length);
        if length == 0 {
            // The rest is unused.
            break;
        }
        let size = usize::try_from(length.unsigned_abs()).map_err(|_| cut())?;
        let (entry, further) = entries.split_at_checked(size).ok_or_else(cut)?;
        if length > 0 {
            principals.insert(principal(entry).ok_or_else(cut)?);
        }
        rest = further;
    }
    Ok(principals)
}

/// Returns the principal of an entry: the number of components, the realm, and the components.
fn principal(mut entry: &[u8]) -> Option<String> {
    let components = take_u16(&mut entry)?;
    if components > MAX_COMPONENTS {
        return None;
    }
    let realm = take_text(&mut entry)?;
    let components: Option<Vec<String>> = (0..components).map(|_| take_text(&mut entry)).collect();
    Some(format!("{}@{realm}", components?.join("/")))
}

fn take_u16(bytes: &mut &[u8]) -> Option<u16> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u16::from_be_bytes(*number))
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = take_u16(bytes)?;
    let (text, rest) = bytes.split_at_checked(usize::from(length))?;
    *bytes = rest;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Returns whether the principals contain this one. Without a realm it stands for that name in any
/// realm, because the library adds its default realm.
pub(crate) fn contains(principals: &BTreeSet<String>, principal: &str) -> bool {
    principals.iter().any(|present| {
        let name = present
            .rsplit_once('@')
            .map_or(present.as_str(), |(name, _)| name);
        present == principal || name == principal
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// Returns an entry of a principal, without its length.
    fn entry(components: &[&str], realm: &str) -> Vec<u8> {
        let mut out = (components.len() as u16).to_be_bytes().to_vec();
        for text in [realm].iter().chain(components) {
            out.extend((text.len() as u16).to_be_bytes());
            out.extend(text.as_bytes());
        }
        // The type of the name, the time, the version, and a key of type 17.
        out.extend(b"\0\0\0\x01\0\0\0\0\x01\0\x11\0\x10");
        out.extend([0x5e; 16]);
        out
    }

    /// Returns a keytab of principals of the realm `R.TEST`.
    pub(crate) fn keytab(principals: &[&[&str]]) -> Vec<u8> {
        let mut out = b"\x05\x02".to_vec();
        for components in principals {
            let entry = entry(components, "R.TEST");
            out.extend((entry.len() as i32).to_be_bytes());
            out.extend(entry);
        }
        out
    }

    #[test]
    fn principals_are_read_and_deleted_entries_skipped() {
        let mut bytes = keytab(&[&["alice"], &["hbase", "rs1"], &["alice"]]);
        bytes.extend((-3_i32).to_be_bytes());
        bytes.extend(b"abc");
        let read = principals(&bytes).unwrap();
        let expected = ["alice@R.TEST", "hbase/rs1@R.TEST"].map(str::to_owned);
        assert_eq!(read, BTreeSet::from(expected));
        for (principal, is_there) in [
            ("alice", true),
            ("alice@R.TEST", true),
            ("alice@OTHER", false),
            ("hbase/rs1", true),
            ("hbase", false),
            ("bob@R.TEST", false),
        ] {
            assert_eq!(contains(&read, principal), is_there, "{principal}");
        }
        bytes.extend([0; 12]);
        assert_eq!(principals(&bytes).unwrap(), read);
    }

    #[rstest]
    #[case(b"", "no keytab")]
    #[case(b"\x05\x01", "no keytab")]
    #[case(b"\x05\x02\0\0", "byte 2")]
    #[case(b"\x05\x02\x7f\xff\xff\xff", "byte 2")]
    #[case(b"\x05\x02\x80\0\0\0", "byte 2")]
    #[case(b"\x05\x02\0\0\0\x04\xff\xff\0\0", "byte 2")]
    #[case(b"\x05\x02\0\0\0\x04\0\x01\xff\xff", "byte 2")]
    fn hostile_file_is_refused(#[case] bytes: &[u8], #[case] why: &str) {
        let error = principals(bytes).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = principals(&bytes);
            let _ = principals(&[b"\x05\x02", &bytes[..]].concat());
        }
    }
}
