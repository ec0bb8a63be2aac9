//! Frames: a 4-byte length, a header, a message, and perhaps a block of cells.

mod fault;
mod request;
mod response;
#[cfg(test)]
pub(crate) mod server_side;

use bytes::Bytes;

use super::compression::CompressionError;
pub(crate) use fault::RemoteFault;
pub(crate) use request::{RequestFrame, RequestOptions, encode_request};
pub(crate) use response::{AnswerError, Body, ResponseDecoder};

/// The largest request a server takes by default (`hbase.ipc.max.request.size`). It answers a
/// larger one with `RequestTooBigException` and closes the connection, with all other calls on it.
pub(crate) const MAX_FRAME: usize = 256 << 20;

/// The call id of an answer for the whole connection instead of one call: −1, in an unsigned field.
pub(crate) const CONNECTION_CALL_ID: u32 = u32::MAX;

/// Why bytes are not a frame. The start of the next frame is unknown then, so the connection has to
/// be closed. Only [`FrameError::RequestTooLarge`] and [`FrameError::Uncompressible`] affect just one call. The header of an answer
/// that is too large names its call; [`FrameError::ResponseTooLarge`] is an answer without such a
/// header.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the request takes {len} bytes, and {limit} are the most that may be sent")]
    RequestTooLarge { len: usize, limit: usize },
    #[error("the cells can't be compressed: {0}")]
    Uncompressible(CompressionError),
    #[error("a frame of {len} bytes was announced, and {limit} are the most that are accepted")]
    ResponseTooLarge { len: usize, limit: usize },
    #[error("it answers in TLS")]
    Tls,
    #[error("a frame of negative length was announced: {0}")]
    NegativeLength(i32),
    #[error("the {part} does not fit into its frame")]
    Cut { part: &'static str },
    #[error("the response does not say which call it answers")]
    NoCallId,
    #[error("{0} bytes of the frame belong to nothing")]
    Trailing(usize),
    #[error("the {part} can't be read: {source}")]
    Malformed {
        part: &'static str,
        source: prost::DecodeError,
    },
}

/// Splits a part with a varint length off the front of a frame.
fn split_delimited(frame: &mut Bytes, part: &'static str) -> Result<Bytes, FrameError> {
    match prost::decode_length_delimiter(&mut *frame) {
        Ok(len) if len <= frame.len() => Ok(frame.split_to(len)),
        _ => Err(FrameError::Cut { part }),
    }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, BytesMut};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_length_that_is_no_varint_or_too_long_is_refused() {
        for bytes in [
            b"".as_slice(),
            b"\x80",
            b"\x05abcd",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01rest",
        ] {
            let found = split_delimited(&mut Bytes::from_static(bytes), "header");
            assert!(
                matches!(found, Err(FrameError::Cut { part: "header" })),
                "{bytes:x?}: {found:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_delimited_part_comes_back_and_leaves_the_rest(part: Vec<u8>, rest: Vec<u8>) {
            let mut bytes = BytesMut::new();
            prost::encode_length_delimiter(part.len(), &mut bytes).unwrap();
            bytes.put_slice(&part);
            bytes.put_slice(&rest);
            let mut frame = bytes.freeze();
            prop_assert_eq!(split_delimited(&mut frame, "part").unwrap(), part);
            prop_assert_eq!(frame, rest);
        }
    }
}
