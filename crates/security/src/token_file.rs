//! Files of tokens (`org.apache.hadoop.security.Credentials`), which YARN, Spark and Oozie write.

use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use crate::{
    delegation_token::DelegationToken,
    token_format::{KIND, TokenError, decode_token},
};

/// The maximum size of a file.
const MAX_FILE: u64 = 16 << 20;

const MAGIC: &[u8] = b"HDTS";
const WRITABLE: u8 = 0;
const PROTOBUF: u8 = 1;
/// The largest value and the smallest one that a number of one byte has.
const ONE_BYTE: std::ops::RangeInclusive<i8> = -112..=127;

/// Why a file of tokens cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// The file is too large.
    #[error("has more than {MAX_FILE} bytes")]
    TooLarge,
    /// The file is not one of tokens.
    #[error("is not a file of tokens: {0}")]
    Format(#[source] TokenFormatError),
    /// The file has a token of HBase that cannot be used.
    #[error("has an invalid token of HBase: {0}")]
    Token(#[source] TokenError),
}

/// Why bytes are not a file of tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFormatError {
    /// The first bytes are others.
    #[error("it does not begin with HDTS")]
    Magic,
    /// The format is not known.
    #[error("its format is {0}, and 0 and 1 are known")]
    Format(u8),
    /// The end is missing.
    #[error("it ends too early")]
    Truncated,
    /// A length is negative or too large.
    #[error("it has an invalid length")]
    Length,
    /// There are bytes behind the end.
    #[error("it has {0} bytes behind its end")]
    Trailing(usize),
    /// The protobuf message is invalid.
    #[error("its message cannot be read")]
    Message,
}

/// A token of any kind.
#[derive(Clone, PartialEq, Eq, Message)]
#[prost(skip_debug)]
struct StoredToken {
    #[prost(bytes = "bytes", required, tag = "1")]
    identifier: Bytes,
    #[prost(bytes = "bytes", required, tag = "2")]
    password: Bytes,
    #[prost(bytes = "bytes", required, tag = "3")]
    kind: Bytes,
    #[prost(bytes = "bytes", required, tag = "4")]
    service: Bytes,
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

/// Reads the delegation tokens of HBase in a file of either format. Tokens of other services are
/// skipped.
///
/// # Errors
///
/// Returns an error if the file cannot be read, is not one of tokens, or has an invalid token of HBase.
pub fn read_token_file(path: &Path) -> Result<Vec<DelegationToken>, TokenFileError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes));
    read.map_err(TokenFileError::Unreadable)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(TokenFileError::TooLarge);
    }
    decode_token_file(bytes.into())
}

/// Reads the contents of a file, as [`read_token_file`] does.
///
/// # Errors
///
/// Returns an error if they are not those of a file of tokens, or have an invalid token of HBase.
pub fn decode_token_file(file: Bytes) -> Result<Vec<DelegationToken>, TokenFileError> {
    let mut tokens = Vec::new();
    for token in decode_stored(file).map_err(TokenFileError::Format)? {
        let StoredToken {
            identifier,
            password,
            kind,
            service,
        } = token;
        if kind == KIND {
            tokens.push(decode_token(identifier, password, &service).map_err(TokenFileError::Token)?);
        }
    }
    Ok(tokens)
}

/// Returns the contents of a file with these tokens. They contain the passwords.
#[must_use]
pub fn encode_token_file(tokens: &[DelegationToken], format: TokenFileFormat) -> Bytes {
    let stored = |token: &DelegationToken| StoredToken {
        identifier: token.identifier.clone(),
        password: token.password.clone(),
        kind: KIND.into(),
        service: token.cluster_id.clone().into(),
    };
    let stored: Vec<_> = tokens.iter().map(stored).collect();
    encode_stored(&stored, format).freeze()
}

/// Reads the tokens of a file. Its secrets are skipped.
fn decode_stored(mut file: Bytes) -> Result<Vec<StoredToken>, TokenFormatError> {
    if !file.starts_with(MAGIC) {
        return Err(TokenFormatError::Magic);
    }
    file.advance(MAGIC.len());
    match file.try_get_u8().map_err(|_| TokenFormatError::Truncated)? {
        WRITABLE => {
            let tokens = decode_writable(&mut file)?;
            match file.len() {
                0 => Ok(tokens),
                len => Err(TokenFormatError::Trailing(len)),
            }
        }
        PROTOBUF => {
            let length = prost::decode_length_delimiter(&mut file).map_err(|_| TokenFormatError::Length)?;
            if length > file.len() {
                return Err(TokenFormatError::Truncated);
            }
            if length < file.len() {
                return Err(TokenFormatError::Trailing(file.len() - length));
            }
            let entries = Entries::decode(file).map_err(|_| TokenFormatError::Message)?;
            Ok(entries
                .tokens
                .into_iter()
                .filter_map(|entry| entry.token)
                .collect())
        }
        format => Err(TokenFormatError::Format(format)),
    }
}

fn decode_writable(file: &mut Bytes) -> Result<Vec<StoredToken>, TokenFormatError> {
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
fn take_length(file: &mut Bytes) -> Result<usize, TokenFormatError> {
    let first = file.try_get_i8().map_err(|_| TokenFormatError::Truncated)?;
    if ONE_BYTE.contains(&first) {
        return usize::try_from(first).map_err(|_| TokenFormatError::Length);
    }
    // -113 announces one byte, -114 two; from -121 on the number is negative.
    let bytes = match -112 - i16::from(first) {
        bytes @ 1..=4 => bytes as usize,
        _ => return Err(TokenFormatError::Length),
    };
    if file.len() < bytes {
        return Err(TokenFormatError::Truncated);
    }
    Ok(file.get_uint(bytes) as usize)
}

fn take_bytes(file: &mut Bytes) -> Result<Bytes, TokenFormatError> {
    let length = take_length(file)?;
    if length > file.len() {
        return Err(TokenFormatError::Truncated);
    }
    Ok(file.split_to(length))
}

/// Writes a file of tokens, named by their services.
fn encode_stored(tokens: &[StoredToken], format: TokenFileFormat) -> BytesMut {
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
            assert_eq!(encode_stored(&[token()], format), bytes);
            assert_eq!(decode_stored(bytes.into()).unwrap(), [token()]);
            for length in 0..bytes.len() {
                decode_stored(bytes[..length].into()).unwrap_err();
            }
            let longer = [bytes, b"x"].concat();
            assert_eq!(decode_stored(longer.into()), Err(TokenFormatError::Trailing(1)));
        }
    }

    #[rstest]
    #[case(b"", TokenFormatError::Magic)]
    #[case(b"PK\x03\x04", TokenFormatError::Magic)]
    #[case(b"HDTS", TokenFormatError::Truncated)]
    #[case(b"HDTS\x02", TokenFormatError::Format(2))]
    #[case(b"HDTS\0\xff", TokenFormatError::Length)]
    #[case(b"HDTS\0\x87\xff", TokenFormatError::Length)]
    #[case(b"HDTS\0\x8b\x7f\xff\xff\xff\xff", TokenFormatError::Length)]
    #[case(b"HDTS\0\x8c\x7f\xff\xff\xff", TokenFormatError::Truncated)]
    #[case(b"HDTS\0\x01\x8c\xff\xff\xff\xff", TokenFormatError::Truncated)]
    #[case(b"HDTS\x01\xff\xff\xff\xff\x7f", TokenFormatError::Truncated)]
    #[case(b"HDTS\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", TokenFormatError::Length)]
    #[case(b"HDTS\x01\x02\x0a\x7f", TokenFormatError::Message)]
    fn hostile_file_is_refused(#[case] file: &'static [u8], #[case] error: TokenFormatError) {
        assert_eq!(decode_stored(Bytes::from_static(file)), Err(error));
    }

    #[test]
    fn tokens_of_other_services_are_skipped() {
        let stored = |kind: &'static str| StoredToken {
            identifier: "not HBase's".into(),
            password: "p".into(),
            kind: kind.into(),
            service: "s".into(),
        };
        let file = |kind| encode_stored(&[stored(kind)], TokenFileFormat::Writable).freeze();
        assert!(
            decode_token_file(file("HDFS_DELEGATION_TOKEN"))
                .unwrap()
                .is_empty()
        );
        let error = decode_token_file(file(KIND)).unwrap_err().to_string();
        assert!(
            error.contains("an invalid token of HBase: its identifier"),
            "{error}"
        );
    }

    #[test]
    fn secrets_are_skipped() {
        let writable = b"HDTS\0\0\x01\x05alias\x06secret";
        assert_eq!(decode_stored(Bytes::from_static(writable)), Ok(Vec::new()));
        let protobuf = b"HDTS\x01\x09\x12\x07\x0a\x01a\x1a\x02se";
        assert_eq!(decode_stored(Bytes::from_static(protobuf)), Ok(Vec::new()));
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
            let format = if is_writable { TokenFileFormat::Writable } else { TokenFileFormat::Protobuf };
            let file = encode_stored(&tokens, format).freeze();
            prop_assert_eq!(decode_stored(file).unwrap(), tokens);
        }

        #[test]
        fn lengths_come_back(length in 0_usize..=u32::MAX as usize) {
            let mut out = BytesMut::new();
            put_length(&mut out, length);
            prop_assert_eq!(take_length(&mut out.freeze()).unwrap(), length);
        }
    }
}
