//! Base64 (RFC 4648), in which delegation tokens are names and passwords.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes, with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut bits = [0; 4];
        bits[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(bits);
        for digit in 0..4 {
            let index = bits >> (18 - 6 * digit) & 0x3f;
            text.push(if digit <= chunk.len() {
                char::from(ALPHABET[index as usize])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// The vectors of RFC 4648, and all digits.
    #[rstest]
    #[case(b"", "")]
    #[case(b"f", "Zg==")]
    #[case(b"fo", "Zm8=")]
    #[case(b"foo", "Zm9v")]
    #[case(b"foob", "Zm9vYg==")]
    #[case(b"fooba", "Zm9vYmE=")]
    #[case(b"foobar", "Zm9vYmFy")]
    #[case(b"\xff\xfe\xfb", "//77")]
    #[case(b"\xfb\xef\xbe", "++++")]
    fn text_is_that_of_the_standard(#[case] bytes: &[u8], #[case] text: &str) {
        assert_eq!(base64(bytes), text);
    }
}
