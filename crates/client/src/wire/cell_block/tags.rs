//! The tags after the value of a cell, on connections that request them.
//!
//! ```text
//! uint16 rest of this tag, int8 type, value
//! ```

use std::num::NonZeroU64;

use super::CellBlockError;

/// The tag of a TTL: eight bytes, milliseconds.
const TTL: u8 = 8;

/// Returns when the cell with these tags expires: its timestamp plus the first TTL. Skips tags of
/// other types.
pub(crate) fn expiry(timestamp: u64, mut tags: &[u8]) -> Result<Option<NonZeroU64>, CellBlockError> {
    let mut ttl = None;
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
        tags = rest;
    }
    match tags {
        // Zero would be before 1970, and means the same as one: expired long ago.
        [] => {
            Ok(ttl
                .map(|ttl| NonZeroU64::new(timestamp.saturating_add_signed(ttl)).unwrap_or(NonZeroU64::MIN)))
        }
        _ => Err(contradiction("a tag has no length")),
    }
}

fn contradiction(part: &'static str) -> CellBlockError {
    CellBlockError::Contradiction { part }
}
