//! ZooKeeper's protocol for reading znodes: Jute records in frames with a length in front.
//!
//! The first frame of each direction opens the session and has no header. Each later request has an
//! id and an operation, its reply the same id and an error code.

use std::{fmt, time::Duration};

use bytes::{Buf, BufMut, Bytes};

/// The maximum length of a reply: ZooKeeper's own default (`jute.maxbuffer`).
pub(crate) const MAX_FRAME: usize = 0xf_ffff;
/// The length of the prefix of a frame.
pub(crate) const PREFIX: usize = 4;

const PASSWORD: usize = 16;
/// The length of the `Stat` of a znode.
const STAT: usize = 68;

/// Why bytes are not a reply of ZooKeeper.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame is longer than ZooKeeper's own limit, or its length is negative.
    #[error("a frame has the length {0}, and at most {MAX_FRAME} is accepted")]
    Length(i32),
    /// A frame ends within a field.
    #[error("a frame ends too early")]
    Truncated,
    /// A field is longer than the rest of its frame.
    #[error("a field has the length {0}, which is not there")]
    Field(i32),
    /// A reply belongs to another request.
    #[error("a reply to request {found} came instead of {expected}")]
    Unexpected {
        /// The id of the request.
        expected: i32,
        /// The id in the reply.
        found: i32,
    },
}

/// A request of an open session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    /// Reads the data of a znode.
    GetData(&'a str),
    /// Reads whether a znode exists.
    Exists(&'a str),
    /// Sends a token of the authentication.
    Sasl(&'a [u8]),
    /// Ends the session.
    CloseSession,
}

impl Request<'_> {
    /// Encodes the request with this id as a frame.
    pub(crate) fn encode(self, xid: i32) -> Vec<u8> {
        let watch = 0;
        let read = |out: &mut Vec<u8>, operation, path: &str| {
            out.put_i32(operation);
            put_buffer(out, path.as_bytes());
            out.put_u8(watch);
        };
        frame(|out| {
            out.put_i32(xid);
            match self {
                Self::GetData(path) => read(out, 4, path),
                Self::Exists(path) => read(out, 3, path),
                Self::Sasl(token) => {
                    out.put_i32(102);
                    put_buffer(out, token);
                }
                Self::CloseSession => out.put_i32(-11),
            }
        })
    }
}

/// Encodes the request for a new session, which the server ends when it gets no request for
/// `timeout`.
pub(crate) fn connect_request(timeout: Duration) -> Vec<u8> {
    let (version, last_zxid, session, read_only) = (0, 0, 0, 0);
    frame(|out| {
        out.put_i32(version);
        out.put_i64(last_zxid);
        out.put_i32(i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX));
        out.put_i64(session);
        put_buffer(out, &[0; PASSWORD]);
        out.put_u8(read_only);
    })
}

fn frame(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![0; PREFIX];
    write(&mut out);
    // A request has one path or token, which is shorter than 2 GiB.
    let length = (out.len() - PREFIX) as u32;
    out[..PREFIX].copy_from_slice(&length.to_be_bytes());
    out
}

fn put_buffer(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_i32(bytes.len() as i32);
    out.put_slice(bytes);
}

/// Reads the prefix of a frame.
pub(crate) fn frame_length(prefix: [u8; PREFIX]) -> Result<usize, FrameError> {
    let length = i32::from_be_bytes(prefix);
    usize::try_from(length)
        .ok()
        .filter(|length| *length <= MAX_FRAME)
        .ok_or(FrameError::Length(length))
}

/// Reads the answer to [`connect_request`], and returns whether the session is open.
pub(crate) fn decode_connect_response(mut frame: Bytes) -> Result<bool, FrameError> {
    let _version = take_i32(&mut frame)?;
    let timeout = take_i32(&mut frame)?;
    let _session = frame.try_get_i64().map_err(|_| FrameError::Truncated)?;
    // A flag follows from servers since 3.4: the session is read-only, which was not requested.
    take_buffer(&mut frame)?;
    Ok(timeout > 0)
}

/// Reads the reply to the request with this id: its body, or the code of the failure.
pub(crate) fn decode_reply(mut frame: Bytes, expected: i32) -> Result<Result<Bytes, ErrorCode>, FrameError> {
    let xid = take_i32(&mut frame)?;
    let _zxid = frame.try_get_i64().map_err(|_| FrameError::Truncated)?;
    let code = take_i32(&mut frame)?;
    if xid != expected {
        return Err(FrameError::Unexpected { expected, found: xid });
    }
    Ok(match code {
        0 => Ok(frame),
        code => Err(ErrorCode(code)),
    })
}

/// Reads the body of a reply to [`Request::GetData`].
pub(crate) fn decode_data(mut body: Bytes) -> Result<Bytes, FrameError> {
    let data = take_buffer(&mut body)?;
    decode_stat(&body)?;
    Ok(data)
}

/// Checks the body of a reply to [`Request::Exists`].
pub(crate) fn decode_stat(body: &Bytes) -> Result<(), FrameError> {
    if body.len() < STAT {
        return Err(FrameError::Truncated);
    }
    Ok(())
}

/// Reads the body of a reply to [`Request::Sasl`]. Returns `None` if the server sends no token, as
/// after the last one of the client.
pub(crate) fn decode_token(mut body: Bytes) -> Result<Option<Bytes>, FrameError> {
    take_nullable_buffer(&mut body)
}

fn take_i32(frame: &mut Bytes) -> Result<i32, FrameError> {
    frame.try_get_i32().map_err(|_| FrameError::Truncated)
}

/// Reads a buffer. One that is null is read as an empty one.
fn take_buffer(frame: &mut Bytes) -> Result<Bytes, FrameError> {
    Ok(take_nullable_buffer(frame)?.unwrap_or_default())
}

/// Reads a buffer, whose length is -1 if it is null.
fn take_nullable_buffer(frame: &mut Bytes) -> Result<Option<Bytes>, FrameError> {
    match take_i32(frame)? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(bytes) if bytes <= frame.len() => Ok(Some(frame.split_to(bytes))),
            _ => Err(FrameError::Field(length)),
        },
    }
}

/// The code of a failed request (`KeeperException.Code`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(i32);

impl ErrorCode {
    /// The znode does not exist.
    pub const NO_NODE: Self = Self(-101);
    /// The client may not read the znode.
    pub const NO_AUTH: Self = Self(-102);

    /// Returns whether the server accepts authenticated clients only.
    #[must_use]
    pub fn requires_authentication(self) -> bool {
        matches!(self.0, -115 | -124)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            -1 => "SystemError",
            -2 => "RuntimeInconsistency",
            -4 => "ConnectionLoss",
            -5 => "MarshallingError",
            -6 => "Unimplemented",
            -7 => "OperationTimeout",
            -8 => "BadArguments",
            -101 => "NoNode",
            -102 => "NoAuth",
            -112 => "SessionExpired",
            -115 => "AuthFailed",
            -118 => "SessionMoved",
            -122 => "RequestTimeout",
            -124 => "SessionClosedRequireSaslAuth",
            -127 => "ThrottledOp",
            _ => return write!(f, "error {}", self.0),
        };
        write!(f, "{name} ({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// Frames of ZooKeeper 3.8.4 without their prefix: the answers to [`connect_request`], and to a
    /// request for the data of `/hbase/master`.
    const CONNECTED: &[u8] =
        b"\0\0\0\0\0\0\x0f\xa0\x01\0\0\xbd\x44\xff\0\x02\0\0\0\x10\x0d\x0c\xa5\x3d\x04\xb8\x62\
        \x8a\xdf\x1d\x48\xdb\x86\x89\x8f\xf1\0";
    const MASTER: &[u8] = b"\0\0\0\x01\0\0\0\0\0\0\0\x32\0\0\0\0\0\0\0\x3d\xff\0\0\0\x14master:23464\xbf\x72\xdf\
        \xeb\x72\xa1\x87\x72PBUF\x0a\x16\x0a\x09127.0.0.1\x10\xa8\xb7\x01\x18\xfd\xfa\xed\xb5\xa1\x34\x10\0\x18\xff\xff\
        \xff\xff\x0f\0\0\0\0\0\0\0\x0b\0\0\0\0\0\0\0\x0b\0\0\x01\xa2\x16\xbb\x82\xd3\0\0\x01\xa2\x16\xbb\x82\xd3\0\0\0\0\
        \0\0\0\0\0\0\0\0\x01\0\0\xbd\x44\xff\0\0\0\0\0\x3d\0\0\0\0\0\0\0\0\0\0\0\x0b";

    fn bytes(parts: &[&[u8]]) -> Bytes {
        parts.concat().into()
    }

    #[test]
    fn requests_are_encoded_as_zookeeper_reads_them() {
        assert_eq!(
            connect_request(Duration::from_secs(4)),
            [
                &b"\0\0\0\x2d\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0f\xa0\0\0\0\0\0\0\0\0\0\0\0\x10"[..],
                &[0; 17]
            ]
            .concat()
        );
        assert_eq!(
            Request::GetData("/hbase/master").encode(1),
            b"\0\0\0\x1a\0\0\0\x01\0\0\0\x04\0\0\0\x0d/hbase/master\0"
        );
        assert_eq!(
            Request::Exists("/hbase").encode(2),
            b"\0\0\0\x13\0\0\0\x02\0\0\0\x03\0\0\0\x06/hbase\0"
        );
        assert_eq!(
            Request::CloseSession.encode(3),
            b"\0\0\0\x08\0\0\0\x03\xff\xff\xff\xf5"
        );
        assert_eq!(
            Request::Sasl(b"token").encode(4),
            b"\0\0\0\x11\0\0\0\x04\0\0\0\x66\0\0\0\x05token"
        );
        let longest = connect_request(Duration::MAX);
        assert_eq!(longest[16..20], i32::MAX.to_be_bytes());
    }

    #[test]
    fn lengths_above_the_limit_are_refused() {
        assert_eq!(frame_length([0, 0, 0, 0]), Ok(0));
        assert_eq!(frame_length([0, 0x0f, 0xff, 0xff]), Ok(MAX_FRAME));
        assert_eq!(
            frame_length([0, 0x10, 0, 0]),
            Err(FrameError::Length(0x0010_0000))
        );
        assert_eq!(frame_length([0xff; 4]), Err(FrameError::Length(-1)));
        assert_eq!(frame_length(*b"HTTP"), Err(FrameError::Length(0x4854_5450)));
    }

    #[test]
    fn a_session_without_a_timeout_is_not_open() {
        assert_eq!(decode_connect_response(CONNECTED.into()), Ok(true));
        // Servers before 3.4 send no flag.
        let old = &CONNECTED[..CONNECTED.len() - 1];
        assert_eq!(decode_connect_response(old.into()), Ok(true));
        let refused = bytes(&[&[0; 16], b"\0\0\0\x10", &[0; 17]]);
        assert_eq!(decode_connect_response(refused), Ok(false));
    }

    #[test]
    fn truncated_and_hostile_connect_responses_are_refused() {
        for length in 0..CONNECTED.len() - 1 {
            let cut = Bytes::copy_from_slice(&CONNECTED[..length]);
            decode_connect_response(cut).unwrap_err();
        }
        for length in [17_i32, i32::MAX, -2, i32::MIN] {
            let frame = bytes(&[&CONNECTED[..16], &length.to_be_bytes(), &[0; 16]]);
            assert_eq!(decode_connect_response(frame), Err(FrameError::Field(length)));
        }
    }

    #[test]
    fn replies_have_the_id_of_their_request() {
        let reply = bytes(&[&7_i32.to_be_bytes(), &[0; 12], b"body"]);
        assert_eq!(decode_reply(reply.clone(), 7), Ok(Ok("body".into())));
        assert_eq!(
            decode_reply(reply, 8),
            Err(FrameError::Unexpected {
                expected: 8,
                found: 7
            })
        );
        let failed = bytes(&[&7_i32.to_be_bytes(), &[0; 8], &(-101_i32).to_be_bytes()]);
        assert_eq!(decode_reply(failed.clone(), 7), Ok(Err(ErrorCode::NO_NODE)));
        for length in 0..failed.len() {
            let cut = failed.slice(..length);
            assert_eq!(decode_reply(cut, 7), Err(FrameError::Truncated));
        }
    }

    #[test]
    fn data_is_followed_by_its_stat() {
        let body = decode_reply(MASTER.into(), 1).unwrap().unwrap();
        let master = decode_data(body).unwrap();
        assert!(master.starts_with(b"\xff\0\0\0\x14master:23464"), "{master:?}");
        assert_eq!(master.len(), 61);
        let stat = [0; STAT];
        assert_eq!(decode_data(bytes(&[b"\0\0\0\x02ab", &stat])), Ok("ab".into()));
        assert_eq!(decode_data(bytes(&[&[0xff; 4], &stat])), Ok(Bytes::new()));
        assert_eq!(
            decode_data(bytes(&[b"\0\0\0\x02ab", &stat[1..]])),
            Err(FrameError::Truncated)
        );
        assert_eq!(
            decode_data(bytes(&[b"\0\0\0\x47ab", &stat])),
            Err(FrameError::Field(0x47))
        );
        assert_eq!(
            decode_data(bytes(&[b"\x80\0\0\0ab", &stat])),
            Err(FrameError::Field(i32::MIN))
        );
    }

    #[test]
    fn tokens_are_read_and_hostile_lengths_refused() {
        assert_eq!(decode_token(bytes(&[b"\0\0\0\x02ab"])), Ok(Some("ab".into())));
        assert_eq!(decode_token(bytes(&[&[0; 4]])), Ok(Some(Bytes::new())));
        assert_eq!(decode_token(bytes(&[&[0xff; 4]])), Ok(None));
        assert_eq!(decode_token(bytes(&[&[0; 3]])), Err(FrameError::Truncated));
        for length in [3, i32::MAX, -2, i32::MIN] {
            let body = bytes(&[&length.to_be_bytes(), b"ab"]);
            assert_eq!(decode_token(body), Err(FrameError::Field(length)));
        }
    }

    #[test]
    fn error_codes_have_names() {
        assert_eq!(ErrorCode::NO_NODE.to_string(), "NoNode (-101)");
        assert_eq!(ErrorCode(-999).to_string(), "error -999");
        assert!(ErrorCode(-124).requires_authentication() && !ErrorCode::NO_AUTH.requires_authentication());
    }

    proptest! {
        #[test]
        fn data_is_read_as_it_was_written(data in vec(any::<u8>(), 0..200), xid: i32) {
            let mut body = Vec::new();
            put_buffer(&mut body, &data);
            body.extend([0; STAT]);
            let frame = bytes(&[&xid.to_be_bytes(), &[0; 12], &body]);
            let body = decode_reply(frame, xid).unwrap().unwrap();
            prop_assert_eq!(decode_data(body).unwrap(), data);
        }
    }
}
