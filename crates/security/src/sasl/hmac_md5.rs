//! HMAC-MD5 (RFC 2104), the sum of messages in HBase's AES and in DIGEST-MD5.

use md5::Context;

/// The size of the blocks of MD5.
const BLOCK: usize = 64;

/// The size of a sum in messages: the first bytes.
pub(crate) const SUM: usize = 10;

/// Returns the sum of these parts, of which messages carry the first bytes. The key has at most 64
/// bytes.
pub(crate) fn sum(key: &[u8], parts: &[&[u8]]) -> [u8; SUM] {
    let hash = |pad: u8, parts: &[&[u8]]| {
        let mut block = [pad; BLOCK];
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        let mut context = Context::new();
        context.consume(block);
        for part in parts {
            context.consume(part);
        }
        context.finalize().0
    };
    let inner = hash(0x36, parts);
    let [a, b, c, d, e, f, g, h, i, j, ..] = hash(0x5c, &[&inner]);
    [a, b, c, d, e, f, g, h, i, j]
}

/// Compares in a time that does not depend on the position of the first difference.
pub(crate) fn is_equal(sum: &[u8; SUM], other: &[u8]) -> bool {
    let difference = sum.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    other.len() == SUM && difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of RFC 2202 with short keys.
    #[test]
    fn sums_are_those_of_the_standard() {
        let cases: [(&[u8], &[u8], &[u8]); 3] = [
            (
                &[0x0b; 16],
                b"Hi There",
                b"\x92\x94\x72\x7a\x36\x38\xbb\x1c\x13\xf4",
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                b"\x75\x0c\x78\x3e\x6a\xb0\xb5\x03\xea\xa8",
            ),
            (
                &[0xaa; 16],
                &[0xdd; 50],
                b"\x56\xbe\x34\x52\x1d\x14\x4c\x88\xdb\xb8",
            ),
        ];
        for (key, message, expected) in cases {
            assert_eq!(sum(key, &[message]), expected);
            let (start, end) = message.split_at(5);
            let sum = sum(key, &[start, end]);
            assert!(is_equal(&sum, expected));
            assert!(!is_equal(&sum, &expected[1..]));
        }
        assert!(!is_equal(&[0; SUM], &[1; SUM]));
    }
}
