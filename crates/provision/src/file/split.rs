//! The initial split keys of a table.

use std::ops::Range;

use bytes::Bytes;
use hbase_client::BytesBinary;
use hbase_txn::PartitionRule;

use super::{
    faults::Faults,
    section::{Placed, Section},
};

/// The maximum number of regions of a new table.
const MAX_REGIONS: u64 = 65_536;
/// The maximum length of a row key (`HConstants.MAX_ROW_LENGTH`).
const MAX_KEY: usize = i16::MAX as usize;

/// The keys for evenly spread split keys, and the digits that generated split keys consist of.
const EVENLY: [(&str, Digits); 3] = [
    ("hex", Digits::Of(b"0123456789abcdef")),
    ("decimal", Digits::Of(b"0123456789")),
    ("bytes", Digits::Bytes),
];

#[derive(Clone, Copy)]
enum Digits {
    Of(&'static [u8]),
    Bytes,
}

/// Reads the split keys: listed in the file, or generated for a number of regions.
pub(super) fn read(
    mut section: Section<'_>,
    rule: Option<&PartitionRule>,
    faults: &mut Faults<'_>,
) -> Vec<Bytes> {
    let mut ways: Vec<(&str, Vec<Placed<Bytes>>)> = Vec::new();
    if let Some(keys) = section.byte_list("keys", faults) {
        refuse_disorder(&keys.value, faults);
        ways.push(("keys", keys.value));
    }
    for (key, digits) in EVENLY {
        if let Some(regions) = section.number(key, 2, MAX_REGIONS, faults) {
            let made = digits.boundaries(regions.value);
            let at = |value| Placed {
                value,
                place: regions.place.clone(),
            };
            ways.push((key, made.into_iter().map(at).collect()));
        }
    }
    let place = section.place();
    section.finish(faults);
    if ways.len() > 1 {
        let named: Vec<_> = ways.iter().map(|(key, _)| *key).collect();
        faults.add(
            place,
            format!("[split] has {}; only one of them is allowed", named.join(" and ")),
        );
    }
    let keys: Vec<_> = ways.into_iter().flat_map(|(_, keys)| keys).collect();
    if let Some(rule) = rule {
        refuse_cuts(&keys, rule, faults);
    }
    keys.into_iter().map(|key| key.value).collect()
}

fn refuse_disorder(keys: &[Placed<Bytes>], faults: &mut Faults<'_>) {
    for key in keys {
        if key.value.is_empty() {
            faults.add(
                key.place.clone(),
                "an empty split key; the first region always begins there",
            );
        } else if key.value.len() > MAX_KEY {
            let reason = format!(
                "a split key of {} bytes; a row key has at most {MAX_KEY}",
                key.value.len()
            );
            faults.add(key.place.clone(), reason);
        }
    }
    for pair in keys.windows(2) {
        let [before, key] = [&pair[0], &pair[1]];
        let (earlier, later) = (BytesBinary(&before.value), BytesBinary(&key.value));
        let reason = match before.value.cmp(&key.value) {
            std::cmp::Ordering::Less => continue,
            std::cmp::Ordering::Equal => format!("split key {later} is given twice"),
            std::cmp::Ordering::Greater => {
                format!("split keys are out of order: {later} sorts before {earlier}")
            }
        };
        faults.add(key.place.clone(), reason);
    }
}

/// Refuses boundaries that split a partition. Of generated keys, only the first is reported.
fn refuse_cuts(keys: &[Placed<Bytes>], rule: &PartitionRule, faults: &mut Faults<'_>) {
    let mut last: Option<&Range<usize>> = None;
    for key in keys {
        let Err(error) = rule.check_boundary(&key.value) else {
            continue;
        };
        if last.replace(&key.place) == Some(&key.place) {
            continue;
        }
        faults.add(key.place.clone(), error.to_string());
    }
}

impl Digits {
    fn count(self) -> u64 {
        match self {
            Self::Of(digits) => digits.len() as u64,
            Self::Bytes => 256,
        }
    }

    fn digit(self, value: u64) -> u8 {
        let at = usize::try_from(value).unwrap_or_default();
        match self {
            Self::Of(digits) => digits.get(at).copied().unwrap_or_default(),
            Self::Bytes => u8::try_from(value).unwrap_or(u8::MAX),
        }
    }

    /// Generates the boundaries for a number of regions, each as short as that number allows.
    fn boundaries(self, regions: u64) -> Vec<Bytes> {
        let base = self.count();
        let (mut width, mut all) = (1, base);
        while all < regions {
            all *= base;
            width += 1;
        }
        (1..regions)
            .map(|region| {
                let mut left = region * all / regions;
                let mut key = vec![0; width];
                for place in key.iter_mut().rev() {
                    *place = self.digit(left % base);
                    left /= base;
                }
                key.into()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("hex", 4, &[&b"4"[..], b"8", b"c"])]
    #[case("hex", 3, &[&b"5"[..], b"a"])]
    #[case("decimal", 10, &[&b"1"[..], b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"9"])]
    #[case("decimal", 2, &[&b"5"[..]])]
    #[case("bytes", 4, &[&b"\x40"[..], b"\x80", b"\xc0"])]
    fn keys_are_spread_evenly(#[case] way: &str, #[case] regions: u64, #[case] expected: &[&[u8]]) {
        let (_, digits) = EVENLY.iter().find(|(key, _)| *key == way).unwrap();
        assert_eq!(digits.boundaries(regions), expected);
    }

    #[test]
    fn however_many_there_are_they_are_in_order_and_differ() {
        for (_, digits) in EVENLY {
            for regions in [2, 5, 16, 17, 255, 256, 257, 1_000, MAX_REGIONS] {
                let keys = digits.boundaries(regions);
                assert_eq!(keys.len() as u64, regions - 1);
                assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{regions}");
            }
        }
    }
}
