//! The tags after the value of a cell, on connections that request them.
//!
//! ```text
//! uint16 rest of this tag, int8 type, value
//! ```

use std::num::NonZeroU64;

use super::CellBlockError;

/// Types of HBase's `TagType`. Visibility labels are numbers, or text in cells from a replica.
const ACL: u8 = 1;
const VISIBILITY: u8 = 2;
const VISIBILITY_TEXT: u8 = 7;
/// Eight bytes, milliseconds.
const TTL: u8 = 8;

/// The meaning of the tags of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tags {
    /// The timestamp plus the first TTL.
    pub(crate) expiry: Option<NonZeroU64>,
    /// Whether there is an ACL or a visibility expression.
    pub(crate) has_access_rules: bool,
}

impl Tags {
    /// Reads the tags of a cell with this timestamp. Skips those of other types.
    pub(crate) fn read(timestamp: u64, mut tags: &[u8]) -> Result<Self, CellBlockError> {
        let (mut ttl, mut has_access_rules) = (None, false);
        // Reads all tags, also after the TTL: a tag that does not fit means that the lengths were
        // misread.
        while let Some((len, rest)) = tags.split_first_chunk() {
            let (tag, rest) = rest
                .split_at_checked(u16::from_be_bytes(*len).into())
                .ok_or_else(|| contradiction("a tag is longer than the tags"))?;
            let (kind, value) = tag
                .split_first()
                .ok_or_else(|| contradiction("a tag has no type"))?;
            if *kind == TTL && ttl.is_none() {
                let millis = value
                    .try_into()
                    .map_err(|_| contradiction("a TTL is not eight bytes long"))?;
                ttl = Some(i64::from_be_bytes(millis));
            }
            has_access_rules |= matches!(*kind, ACL | VISIBILITY | VISIBILITY_TEXT);
            tags = rest;
        }
        if !tags.is_empty() {
            return Err(contradiction("a tag has no length"));
        }
        // Zero would be before 1970, and means the same as one: expired long ago.
        let expiry =
            ttl.map(|ttl| NonZeroU64::new(timestamp.saturating_add_signed(ttl)).unwrap_or(NonZeroU64::MIN));
        Ok(Self {
            expiry,
            has_access_rules,
        })
    }
}

fn contradiction(part: &'static str) -> CellBlockError {
    CellBlockError::Contradiction { part }
}
