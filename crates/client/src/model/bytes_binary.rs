//! Bytes in the notation of HBase's shell.

use std::fmt::{self, Write as _};

use bytes::{BufMut, Bytes, BytesMut};

use crate::error::{Error, Result};

/// Displays bytes as HBase's `toStringBinary` does: printable ASCII as it is, everything else, and
/// the backslash, as `\xNN` with upper-case digits.
///
/// # Example
///
/// ```
/// use hbase_client::BytesBinary;
///
/// assert_eq!(BytesBinary(b"\x00abc\\").to_string(), r"\x00abc\x5C");
/// ```
#[derive(Clone, Copy)]
pub struct BytesBinary<'a>(pub &'a [u8]);

impl fmt::Display for BytesBinary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0 {
            match byte {
                b'\\' => f.write_str("\\x5C")?,
                b' '..=b'~' => f.write_char(char::from(byte))?,
                _ => write!(f, "\\x{byte:02X}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for BytesBinary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Parses the output of [`BytesBinary`]: `\xNN` in either case is one byte, every other character
/// stands for its UTF-8 bytes.
///
/// HBase's own `toBytesBinary` accepts upper-case digits only and reads `\xff` as the text `xff`.
/// This function accepts both cases, and rejects any other backslash.
///
/// # Errors
///
/// Returns an error for a backslash that does not start `\xNN`, with its column (counted in
/// characters, from 1).
///
/// # Example
///
/// ```
/// use hbase_client::parse_bytes_binary;
///
/// assert_eq!(&parse_bytes_binary(r"a\x00\xfF").unwrap()[..], b"a\x00\xff");
/// assert!(parse_bytes_binary(r"a\n").unwrap_err().to_string().contains("column 2"));
/// ```
pub fn parse_bytes_binary(text: &str) -> Result<Bytes> {
    let mut out = BytesMut::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.put_slice(&rest.as_bytes()[..at]);
        let byte = rest[at..]
            .strip_prefix("\\x")
            .and_then(|digits| digits.as_bytes().first_chunk::<2>())
            .and_then(|&[high, low]| Some(hex_digit(high)? << 4 | hex_digit(low)?));
        let Some(byte) = byte else {
            let column = text[..text.len() - rest.len() + at].chars().count() + 1;
            // The text may be very long.
            let shown: String = text.chars().skip(column.saturating_sub(40)).take(80).collect();
            return Err(
                Error::invalid(format!("a stray backslash at column {column}, in {shown:?}"))
                    .with_hint(r"write a byte as \xNN and a backslash itself as \x5C"),
            );
        };
        out.put_u8(byte);
        rest = &rest[at + 4..];
    }
    out.put_slice(rest.as_bytes());
    Ok(out.freeze())
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(r"\xff", b"\xff")]
    #[case(r"\xFf", b"\xff")]
    #[case(r"xff", b"xff")]
    #[case("é", "é".as_bytes())]
    #[case("", b"")]
    fn reads_escapes_in_either_case_and_text_as_utf8(#[case] text: &str, #[case] bytes: &[u8]) {
        assert_eq!(&parse_bytes_binary(text).unwrap()[..], bytes);
    }

    #[rstest]
    #[case(r"\", 1)]
    #[case(r"é\x", 2)]
    #[case(r"ab\x4", 3)]
    #[case(r"ab\xG0", 3)]
    #[case(r"\x41\\", 5)]
    fn refuses_a_stray_backslash_and_names_its_column(#[case] text: &str, #[case] column: usize) {
        let error = parse_bytes_binary(text).unwrap_err();
        assert!(
            error.to_string().contains(&format!("column {column},")),
            "{error}"
        );
    }

    #[test]
    fn a_refusal_shows_only_a_part_of_a_long_text() {
        let text = format!("{0}\\{0}", "x".repeat(100_000));
        let error = parse_bytes_binary(&text).unwrap_err().to_string();
        assert!(
            error.contains("column 100001") && error.contains(r"x\\x") && error.len() < 300,
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn text_round_trips(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let text = BytesBinary(&bytes).to_string();
            prop_assert_eq!(&parse_bytes_binary(&text).unwrap()[..], &bytes[..]);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}") {
            let _ = parse_bytes_binary(&text);
        }
    }
}
