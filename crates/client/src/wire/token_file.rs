//! Files of tokens (`org.apache.hadoop.security.Credentials`), which YARN, Spark and Oozie write.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

const MAGIC: &[u8] = b"HDTS";
const WRITABLE: u8 = 0;
const PROTOBUF: u8 = 1;
/// The largest value and the smallest one that a number of one byte has.
const ONE_BYTE: std::ops::RangeInclusive<i8> = -112..=127;

/// Why bytes are not a file of tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenFileError {
    #[error("it does not begin with HDTS")]
    Magic,
    #[error("its format is {0}, and 0 and 1 are known")]
    Format(u8),
    #[error("it ends too early")]
    Truncated,
    #[error("it has an invalid length")]
    Length,
    #[error("it has {0} bytes behind its end")]
    Trailing(usize),
    #[error("its message cannot be read")]
    Message,
}

/// A token of any kind.
#[derive(Clone, PartialEq, Eq, Message)]
#[prost(skip_debug)]
pub(crate) struct StoredToken {
    #[prost(bytes = "bytes", required, tag = "1")]
    pub(crate) identifier: Bytes,
    #[prost(bytes = "bytes", required, tag = "2")]
    pub(crate) password: Bytes,
    #[prost(bytes = "bytes", required, tag = "3")]
    pub(crate) kind: Bytes,
    #[prost(bytes = "bytes", required, tag = "4")]
    pub(crate) service: Bytes,
}

impl fmt::Debug for StoredToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredToken")
            .field("kind", &self.kind)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Entry {
    #[prost(bytes = "bytes", required, tag = "1")]
    alias: Bytes,
    #[prost(message, optional, tag = "2")]
    token: Option<StoredToken>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Entries {
    #[prost(message, repeated, tag = "1")]
    tokens: Vec<Entry>,
}

/// The format of a file of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenFileFormat {
    /// The format that all versions of Hadoop read.
    #[default]
    Writable,
    /// The format of Hadoop 3, by protobuf.
    Protobuf,
}

/// Reads the tokens of a file. Its secrets are skipped.
pub(crate) fn decode_token_file(mut file: Bytes) -> Result<Vec<StoredToken>, TokenFileError> {
    if !file.starts_with(MAGIC) {
        return Err(TokenFileError::Magic);
    }
    file.advance(MAGIC.len());
    match file.try_get_u8().map_err(|_| TokenFileError::Truncated)? {
        WRITABLE => {
            let tokens = decode_writable(&mut file)?;
            match file.len() {
                0 => Ok(tokens),
                len => Err(TokenFileError::Trailing(len)),
            }
        }
        PROTOBUF => {
            let length = prost::decode_length_delimiter(&mut file).map_err(|_| TokenFileError::Length)?;
            if length > file.len() {
                return Err(TokenFileError::Truncated);
            }
            if length < file.len() {
                return Err(TokenFileError::Trailing(file.len() - length));
            }
            let entries = Entries::decode(file).map_err(|_| TokenFileError::Message)?;
            Ok(entries
                .tokens
                .into_iter()
                .filter_map(|entry| entry.token)
                .collect())
        }
        format => Err(TokenFileError::Format(format)),
    }
}

fn decode_writable(file: &mut Bytes) -> Result<Vec<StoredToken>, TokenFileError> {
    let mut tokens = Vec::new();
    for _ in 0..take_length(file)? {
        let _alias = take_bytes(file)?;
        tokens.push(StoredToken {
            identifier: take_bytes(file)?,
            password: take_bytes(file)?,
            kind: take_bytes(file)?,
            service: take_bytes(file)?,
        });
    }
    for _ in 0..take_length(file)? {
        let _alias = take_bytes(file)?;
        let _secret = take_bytes(file)?;
    }
    Ok(tokens)
}

/// Reads a number of Hadoop's variable length, which is not negative.
fn take_length(file: &mut Bytes) -> Result<usize, TokenFileError> {
    let first = file.try_get_i8().map_err(|_| TokenFileError::Truncated)?;
    if ONE_BYTE.contains(&first) {
        return usize::try_from(first).map_err(|_| TokenFileError::Length);
    }
    // -113 announces one byte, -114 two; from -121 on the number is negative.
    let bytes = match -112 - i16::from(first) {
        bytes @ 1..=4 => bytes as usize,
        _ => return Err(TokenFileError::Length),
    };
    if file.len() < bytes {
        return Err(TokenFileError::Truncated);
    }
    Ok(file.get_uint(bytes) as usize)
}

fn take_bytes(file: &mut Bytes) -> Result<Bytes, TokenFileError> {
    let length = take_length(file)?;
    if length > file.len() {
        return Err(TokenFileError::Truncated);
    }
    Ok(file.split_to(length))
}

/// Writes a file of tokens, named by their services.
pub(crate) fn encode_token_file(tokens: &[StoredToken], format: TokenFileFormat) -> BytesMut {
    let mut out = BytesMut::from(MAGIC);
    match format {
        TokenFileFormat::Writable => {
            out.put_u8(WRITABLE);
            put_length(&mut out, tokens.len());
            for token in tokens {
                let StoredToken {
                    identifier,
                    password,
                    kind,
                    service,
                } = token;
                for part in [service, identifier, password, kind, service] {
                    put_length(&mut out, part.len());
                    out.put_slice(part);
                }
            }
            let secrets = 0;
            put_length(&mut out, secrets);
        }
        TokenFileFormat::Protobuf => {
            out.put_u8(PROTOBUF);
            let entry = |token: &StoredToken| Entry {
                alias: token.service.clone(),
                token: Some(token.clone()),
            };
            let entries = Entries {
                tokens: tokens.iter().map(entry).collect(),
            };
            out.put_slice(&entries.encode_length_delimited_to_vec());
        }
    }
    out
}

fn put_length(out: &mut BytesMut, length: usize) {
    if let Ok(short) = i8::try_from(length) {
        out.put_i8(short);
        return;
    }
    let bytes = (usize::BITS - length.leading_zeros()).div_ceil(8) as usize;
    out.put_i8(-112 - bytes as i8);
    out.put_uint(length as u64, bytes);
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use rstest::rstest;

    use super::*;

    fn token() -> StoredToken {
        StoredToken {
            identifier: "id".into(),
            password: "pw".into(),
            kind: "K".into(),
            service: "s".into(),
        }
    }

    #[test]
    fn files_are_those_of_hadoop() {
        let writable: &[u8] = b"HDTS\0\x01\x01s\x02id\x02pw\x01K\x01s\0";
        let protobuf: &[u8] = b"HDTS\x01\x15\x0a\x13\x0a\x01s\x12\x0e\x0a\x02id\x12\x02pw\x1a\x01K\x22\x01s";
        for (format, bytes) in [
            (TokenFileFormat::Writable, writable),
            (TokenFileFormat::Protobuf, protobuf),
        ] {
            assert_eq!(encode_token_file(&[token()], format), bytes);
            assert_eq!(decode_token_file(bytes.into()).unwrap(), [token()]);
            for length in 0..bytes.len() {
                decode_token_file(bytes[..length].into()).unwrap_err();
            }
            let longer = [bytes, b"x"].concat();
            assert_eq!(decode_token_file(longer.into()), Err(TokenFileError::Trailing(1)));
        }
    }

    #[rstest]
    #[case(b"", TokenFileError::Magic)]
    #[case(b"PK\x03\x04", TokenFileError::Magic)]
    #[case(b"HDTS", TokenFileError::Truncated)]
    #[case(b"HDTS\x02", TokenFileError::Format(2))]
    #[case(b"HDTS\0\xff", TokenFileError::Length)]
    #[case(b"HDTS\0\x87\xff", TokenFileError::Length)]
    #[case(b"HDTS\0\x8b\x7f\xff\xff\xff\xff", TokenFileError::Length)]
    #[case(b"HDTS\0\x8c\x7f\xff\xff\xff", TokenFileError::Truncated)]
    #[case(b"HDTS\0\x01\x8c\xff\xff\xff\xff", TokenFileError::Truncated)]
    #[case(b"HDTS\x01\xff\xff\xff\xff\x7f", TokenFileError::Truncated)]
    #[case(b"HDTS\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", TokenFileError::Length)]
    #[case(b"HDTS\x01\x02\x0a\x7f", TokenFileError::Message)]
    fn hostile_file_is_refused(#[case] file: &'static [u8], #[case] error: TokenFileError) {
        assert_eq!(decode_token_file(Bytes::from_static(file)), Err(error));
    }

    #[test]
    fn secrets_are_skipped() {
        let writable = b"HDTS\0\0\x01\x05alias\x06secret";
        assert_eq!(decode_token_file(Bytes::from_static(writable)), Ok(Vec::new()));
        let protobuf = b"HDTS\x01\x09\x12\x07\x0a\x01a\x1a\x02se";
        assert_eq!(decode_token_file(Bytes::from_static(protobuf)), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn tokens_come_back(parts in vec(vec(any::<u8>(), 0..300), 0..12), is_writable: bool) {
            let mut parts = parts.into_iter().map(Bytes::from);
            let mut tokens = Vec::new();
            while let Some(identifier) = parts.next() {
                let mut next = || parts.next().unwrap_or_default();
                tokens.push(StoredToken { identifier, password: next(), kind: next(), service: next() });
            }
            let format = match is_writable {
                true => TokenFileFormat::Writable,
                false => TokenFileFormat::Protobuf,
            };
            let file = encode_token_file(&tokens, format).freeze();
            prop_assert_eq!(decode_token_file(file).unwrap(), tokens);
        }

        #[test]
        fn lengths_come_back(length in 0_usize..=u32::MAX as usize) {
            let mut out = BytesMut::new();
            put_length(&mut out, length);
            prop_assert_eq!(take_length(&mut out.freeze()).unwrap(), length);
        }
    }
}
