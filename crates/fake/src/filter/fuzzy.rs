//! `FuzzyRowFilter`.

use bytes::Bytes;
use hbase_protocol as pb;

use super::{Filter, Verdict};
use crate::{
    cell::Cell,
    exception::{Exception, Result},
};

/// The byte of a processed mask for a byte that must be equal.
const FIXED: u8 = 0xff;

/// `FuzzyRowFilter`. It reads on with the next row where a server seeks to the next that matches; the
/// rows in between do not match, unless they are shorter than a key.
pub(super) struct FuzzyRow {
    keys: Vec<FuzzyKey>,
    reversed: bool,
    excluded: bool,
    /// No key matches a further row.
    done: bool,
}

/// The bytes of a key, or `None` for any byte.
struct FuzzyKey(Vec<Option<u8>>);

impl FuzzyRow {
    /// Creates the filter of a release that has the first version of masks, or has not.
    pub(super) fn new(message: pb::FuzzyRowFilter, first_masks: bool) -> Result<Self> {
        // The byte for "any" of a processed mask; in the first version it is that for "fixed" of an
        // unprocessed one.
        let is_first = first_masks && !message.is_mask_v2.unwrap_or(false);
        let any = if is_first { 0 } else { 2 };
        let keys: Vec<_> = message.fuzzy_keys_data;
        Ok(Self {
            keys: keys
                .iter()
                .map(|pair| FuzzyKey::new(&pair.first, &pair.second, any))
                .collect::<Result<_>>()?,
            reversed: false,
            excluded: false,
            done: false,
        })
    }
}

impl FuzzyKey {
    fn new(key: &Bytes, mask: &Bytes, any: u8) -> Result<Self> {
        if key.len() != mask.len() {
            return Err(Exception::io("Fuzzy pair lengths do not match"));
        }
        let processed = mask.iter().all(|byte| [FIXED, any].contains(byte));
        let is_any = |byte: u8| if processed { byte == any } else { byte == 1 };
        if !processed && mask.iter().any(|byte| ![0, 1, FIXED].contains(byte)) {
            return Err(Exception::not_modelled("a fuzzy mask of another version"));
        }
        let bytes = key.iter().zip(mask);
        Ok(Self(
            bytes
                .map(|(byte, mask)| (!is_any(*mask)).then_some(*byte))
                .collect(),
        ))
    }

    /// Returns whether it matches a row behind one that it does not match.
    fn matches_after(&self, row: &[u8], reversed: bool) -> bool {
        let any = if reversed { 0 } else { u8::MAX };
        let last = self.0.iter().map(|byte| byte.unwrap_or(any));
        let order = last.cmp(row.iter().copied());
        if reversed { order.is_lt() } else { order.is_gt() }
    }

    fn matches(&self, row: &[u8]) -> Result<bool> {
        if row.len() < self.0.len() {
            return Err(Exception::not_modelled("a row shorter than a fuzzy key"));
        }
        let mut bytes = self.0.iter().zip(row);
        Ok(bytes.all(|(key, byte)| key.is_none_or(|key| key == *byte)))
    }
}

impl Filter for FuzzyRow {
    fn gives_hints(&self) -> bool {
        true
    }

    fn reverse(&mut self) -> Result<()> {
        self.reversed = true;
        Ok(())
    }

    fn reset(&mut self) {
        self.excluded = false;
    }

    fn all_remaining(&self) -> bool {
        self.done
    }

    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        for key in &self.keys {
            if key.matches(&cell.row)? {
                return Ok(Verdict::Include);
            }
        }
        self.excluded = true;
        let (row, reversed) = (&cell.row, self.reversed);
        self.done = !self.keys.iter().any(|key| key.matches_after(row, reversed));
        Ok(Verdict::NextRow)
    }

    fn excludes_whole_row(&mut self) -> bool {
        self.excluded
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn matches(mask: &'static [u8], any: u8, row: &[u8]) -> bool {
        let key = FuzzyKey::new(&Bytes::from_static(b"ab"), &Bytes::from_static(mask), any).unwrap();
        key.matches(row).unwrap()
    }

    #[rstest]
    #[case::unprocessed(&[0, 1], 2, b"ax", true)]
    #[case::processed(&[FIXED, 2], 2, b"ax", true)]
    #[case::processed_by_the_first_version(&[FIXED, 0], 0, b"ax", true)]
    #[case::of_another_version(&[FIXED, 0], 2, b"ax", false)]
    #[case::fixed(&[0, 0], 2, b"ax", false)]
    #[case::fixed_looks_processed(&[0, 0], 0, b"xx", true)]
    #[case::longer(&[0, 1], 2, b"axx", true)]
    #[case::other(&[0, 1], 2, b"xb", false)]
    fn masks_are_read_by_version(
        #[case] mask: &'static [u8],
        #[case] any: u8,
        #[case] row: &[u8],
        #[case] expected: bool,
    ) {
        assert_eq!(matches(mask, any, row), expected);
    }

    #[test]
    fn shorter_rows_are_refused() {
        let key = FuzzyKey::new(&"ab".into(), &vec![0, 1].into(), 2).unwrap();
        assert!(key.matches(b"a").unwrap_err().is_not_modelled());
    }
}
