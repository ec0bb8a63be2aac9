//! The messages of a server that authenticates the client by SASL.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{authentication_error::ServerError, handshake::MessageError};

/// The maximum size of a token. Those of Kerberos have a few kilobytes.
const MAX_TOKEN: usize = 1 << 20;
/// The maximum size of each text of an error.
const MAX_TEXT: usize = 64 << 10;

const SUCCESS: i32 = 0;
const ERROR: i32 = 1;
/// The length of a token that asks for SIMPLE authentication (`SaslUtil.SWITCH_TO_SIMPLE_AUTH`).
const USE_SIMPLE: i32 = -88;
/// The length of a text that is null (`WritableUtils.writeString`).
const NULL: i32 = -1;

/// A message of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The next token of the mechanism.
    Token(Bytes),
    /// The server authenticates no clients.
    UseSimple,
    /// The server refuses the client.
    Error(ServerError),
    /// Not a message of SASL: a frame begins here, with an exception about the connection.
    Frame,
}

/// Returns a token with its length before it.
pub(crate) fn token(token: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(4 + token.len());
    out.put_i32(i32::try_from(token.len()).unwrap_or(i32::MAX));
    out.put_slice(token);
    out.freeze()
}

/// Takes the next message off the front of `buf`. Returns `None` if it is incomplete. Leaves a
/// [`Reply::Frame`] in it.
pub(crate) fn decode_reply(buf: &mut BytesMut) -> Result<Option<Reply>, MessageError> {
    let Some(status) = int(buf, 0) else {
        return Ok(None);
    };
    match status {
        SUCCESS => {
            if int(buf, 4) == Some(USE_SIMPLE) {
                buf.advance(8);
                return Ok(Some(Reply::UseSimple));
            }
            let Some(len) = part(buf, 4, MAX_TOKEN)?.map(<[u8]>::len) else {
                return Ok(None);
            };
            buf.advance(8);
            Ok(Some(Reply::Token(buf.split_to(len).freeze())))
        }
        ERROR => {
            let Some((error, size)) = decode_error(buf)? else {
                return Ok(None);
            };
            buf.advance(size);
            Ok(Some(Reply::Error(error)))
        }
        _ => Ok(Some(Reply::Frame)),
    }
}

/// Returns whether the first bytes after the authentication are an error instead of an answer: the
/// length of no frame and of no wrapped message is 1.
pub(crate) fn is_late_error(buf: &[u8]) -> bool {
    int(buf, 0) == Some(ERROR)
}

/// Takes the next wrapped message off the front of `buf`. Returns `None` if it is incomplete.
pub(crate) fn take_wrapped(buf: &mut BytesMut, limit: usize) -> Result<Option<BytesMut>, MessageError> {
    let Some(len) = part(buf, 0, limit)?.map(<[u8]>::len) else {
        return Ok(None);
    };
    buf.advance(4);
    Ok(Some(buf.split_to(len)))
}

/// Reads an error and its size. Returns `None` if it is incomplete.
fn decode_error(buf: &[u8]) -> Result<Option<(ServerError, usize)>, MessageError> {
    let Some(class) = text(buf, 4)? else {
        return Ok(None);
    };
    let at = 8 + class.len();
    let Some(message) = text(buf, at)? else {
        return Ok(None);
    };
    let size = at + 4 + message.len();
    let string = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let error = ServerError {
        class: string(class),
        message: string(message),
    };
    Ok(Some((error, size)))
}

fn int(buf: &[u8], at: usize) -> Option<i32> {
    buf.get(at..)?.first_chunk().copied().map(i32::from_be_bytes)
}

fn text(buf: &[u8], at: usize) -> Result<Option<&[u8]>, MessageError> {
    match int(buf, at) {
        Some(NULL) => Ok(Some(&[])),
        _ => part(buf, at, MAX_TEXT),
    }
}

/// Returns the bytes behind the length at this position. Returns `None` if some are missing.
fn part(buf: &[u8], at: usize, limit: usize) -> Result<Option<&[u8]>, MessageError> {
    let Some(announced) = int(buf, at) else {
        return Ok(None);
    };
    let len = usize::try_from(announced).map_err(|_| MessageError::NegativeLength(announced))?;
    if len > limit {
        return Err(MessageError::TooLarge { len, limit });
    }
    Ok(buf.get(at + 4..at + 4 + len))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn error(class: &str, message: &str) -> Reply {
        Reply::Error(ServerError {
            class: class.into(),
            message: message.into(),
        })
    }

    #[rstest]
    #[case(b"\0\0\0\0\0\0\0\x02ab", Reply::Token(Bytes::from_static(b"ab")))]
    #[case(b"\0\0\0\0\0\0\0\0", Reply::Token(Bytes::new()))]
    #[case(b"\0\0\0\0\xff\xff\xff\xa8", Reply::UseSimple)]
    #[case(b"\0\0\0\x01\0\0\0\x03a.B\0\0\0\x02no", error("a.B", "no"))]
    #[case(b"\0\0\0\x01\0\0\0\x03a.B\xff\xff\xff\xff", error("a.B", ""))]
    fn message_is_read_when_it_is_complete(#[case] bytes: &[u8], #[case] reply: Reply) {
        for missing in 1..=bytes.len() {
            let mut buf = BytesMut::from(&bytes[..bytes.len() - missing]);
            assert_eq!(decode_reply(&mut buf).unwrap(), None, "{missing} bytes missing");
        }
        let mut buf = BytesMut::from(&[bytes, b"rest"].concat()[..]);
        assert_eq!(decode_reply(&mut buf).unwrap(), Some(reply));
        assert_eq!(&buf[..], b"rest");
    }

    #[test]
    fn frame_stays_in_the_buffer() {
        let mut buf = BytesMut::from(&b"\0\0\0\x93..."[..]);
        assert_eq!(decode_reply(&mut buf).unwrap(), Some(Reply::Frame));
        assert_eq!(buf.len(), 7);
    }

    #[rstest]
    #[case(b"\0\0\0\0\xff\xff\xff\xfe", "negative length")]
    #[case(b"\0\0\0\0\0\x10\0\x01", "1048577 bytes")]
    #[case(b"\0\0\0\x01\0\x01\0\x01", "65537 bytes")]
    #[case(b"\0\0\0\x01\x80\0\0\0", "negative length")]
    #[case(b"\0\0\0\x01\0\0\0\x01a\xff\xff\xff\xfe", "negative length")]
    fn hostile_length_is_refused(#[case] bytes: &[u8], #[case] why: &str) {
        let error = decode_reply(&mut BytesMut::from(bytes)).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }

    #[test]
    fn wrapped_message_is_taken_when_it_is_complete() {
        let mut buf = BytesMut::from(&b"\0\0\0\x02a"[..]);
        assert!(take_wrapped(&mut buf, 2).unwrap().is_none());
        buf.extend_from_slice(b"bc");
        assert_eq!(take_wrapped(&mut buf, 2).unwrap().unwrap(), &b"ab"[..]);
        assert_eq!(buf, &b"c"[..]);
        for bytes in [b"\0\0\0\x03", b"\xff\xff\xff\xff"] {
            take_wrapped(&mut BytesMut::from(&bytes[..]), 2).unwrap_err();
        }
    }

    #[test]
    fn late_error_is_told_from_a_frame() {
        assert!(is_late_error(b"\0\0\0\x01"));
        for other in [&b"\0\0\0"[..], b"\0\0\x01\0", b"\0\0\0\x02"] {
            assert!(!is_late_error(other));
        }
    }

    proptest! {
        #[test]
        fn token_comes_back(bytes: Vec<u8>) {
            let mut buf = BytesMut::from(&b"\0\0\0\0"[..]);
            buf.extend_from_slice(&token(&bytes));
            let reply = decode_reply(&mut buf).unwrap();
            prop_assert_eq!(reply, Some(Reply::Token(bytes.into())));
        }
    }
}
