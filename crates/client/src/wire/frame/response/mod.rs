//! The decoding of responses.

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;

use super::{CONNECTION_CALL_ID, FrameError, MAX_FRAME, RemoteFault, split_delimited};
use crate::wire::pb;

/// The header of a large answer has a call id and the length of the cells, and no exception, and is
/// shorter than this.
const MAX_LARGE_HEADER: u8 = 64;
/// The first byte of every header: the tag of its field `call_id`.
const CALL_ID: u8 = 0x08;
/// The room that is reserved for reading when little is left. Answers are slices of it, so an answer
/// that is kept holds this much, and so does each connection.
const ROOM: usize = 16 << 10;
/// The largest answer whose room is reserved at once: an answer to a scan, whose bytes would otherwise be
/// copied at each growth. Memory that is only reserved costs addresses.
const RESERVED_AT_ONCE: usize = 2 << 20;

/// One complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResponseFrame {
    /// The id of the call. Answers to calls that were given up are skipped.
    pub(crate) call_id: u32,
    /// The server's answer.
    pub(crate) outcome: Result<Body, AnswerError>,
}

/// Why a call failed although the server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnswerError {
    /// The server answered with an exception.
    Fault(RemoteFault),
    /// The answer exceeds the limit, and is skipped.
    TooLarge { len: usize, limit: usize },
}

/// An answer. Both parts are slices of the frame's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    /// The response message.
    pub(crate) message: Bytes,
    /// The block of cells after it; often empty.
    pub(crate) cells: Bytes,
}

impl ResponseFrame {
    /// Returns whether it is about the connection, and not about one call: the server is about to
    /// close the connection.
    pub(crate) fn is_about_the_connection(&self) -> bool {
        self.call_id == CONNECTION_CALL_ID
    }
}

impl Body {
    /// Decodes the message of a method's answer.
    pub(crate) fn parse<M: Message + Default>(&self) -> Result<M, FrameError> {
        parse(self.message.clone(), "response")
    }
}

/// Splits a stream of bytes into responses. Reads only the header of a response that is too long,
/// and skips the rest.
#[derive(Clone, Debug)]
pub(crate) struct ResponseDecoder {
    limit: usize,
    /// The remaining bytes of a frame that is too long.
    skip: usize,
}

impl Default for ResponseDecoder {
    fn default() -> Self {
        Self::new(MAX_FRAME)
    }
}

impl ResponseDecoder {
    /// Creates a decoder that skips responses longer than `limit`.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, skip: 0 }
    }

    /// Takes the next response off the front of `buf`. Returns `None` if it is incomplete.
    ///
    /// With `None` there is room in `buf` to read into. Beyond 2 MiB the room grows with the received
    /// bytes and not with the announced length: four bytes from a peer must not cost 256 MiB.
    pub(crate) fn decode(&mut self, buf: &mut BytesMut) -> Result<Option<ResponseFrame>, FrameError> {
        let skipped = self.skip.min(buf.len());
        buf.advance(skipped);
        self.skip -= skipped;
        let Some(announced) = buf.first_chunk::<4>() else {
            make_room(buf, ROOM);
            return Ok(None);
        };
        let announced = i32::from_be_bytes(*announced);
        let len = usize::try_from(announced).map_err(|_| FrameError::NegativeLength(announced))?;
        if len > self.limit {
            return self.read_header(buf, len);
        }
        let missing = (4 + len).saturating_sub(buf.len());
        if missing > 0 {
            make_room(buf, missing);
            return Ok(None);
        }
        buf.advance(4);
        read_frame(buf.split_to(len).freeze()).map(Some)
    }

    /// Reads the call id of a frame that is too long, and skips the frame. Returns `None` if its
    /// header is incomplete.
    fn read_header(&mut self, buf: &mut BytesMut, len: usize) -> Result<Option<ResponseFrame>, FrameError> {
        let limit = self.limit;
        let no_frame = || FrameError::ResponseTooLarge { len, limit };
        let mut head = match buf.get(4..) {
            Some([size, field, ..]) if *size < MAX_LARGE_HEADER && *field == CALL_ID => {
                Bytes::copy_from_slice(&buf[4..buf.len().min(4 + usize::from(MAX_LARGE_HEADER))])
            }
            Some([_, _, ..]) => return Err(no_frame()),
            _ => {
                make_room(buf, ROOM);
                return Ok(None);
            }
        };
        if head.len() <= usize::from(head[0]) {
            make_room(buf, ROOM);
            return Ok(None);
        }
        let header: pb::ResponseHeader =
            parse(split_delimited(&mut head, "response header")?, "response header")?;
        let call_id = header.call_id.filter(|call_id| *call_id != CONNECTION_CALL_ID);
        let frame = ResponseFrame {
            call_id: call_id.ok_or_else(no_frame)?,
            outcome: Err(AnswerError::TooLarge { len, limit }),
        };
        let present = buf.len().min(4 + len);
        buf.advance(present);
        self.skip = 4 + len - present;
        Ok(Some(frame))
    }
}

fn read_frame(mut frame: Bytes) -> Result<ResponseFrame, FrameError> {
    let header: pb::ResponseHeader =
        parse(split_delimited(&mut frame, "response header")?, "response header")?;
    let call_id = header.call_id.ok_or(FrameError::NoCallId)?;
    if let Some(exception) = header.exception {
        return Ok(ResponseFrame {
            call_id,
            outcome: Err(AnswerError::Fault(exception.into())),
        });
    }
    let message = split_delimited(&mut frame, "response")?;
    let cells = header.cell_block_meta.map_or(0, |meta| meta.length());
    let cells = usize::try_from(cells)
        .ok()
        .filter(|len| *len <= frame.len())
        .map(|len| frame.split_to(len))
        .ok_or(FrameError::Cut { part: "cell block" })?;
    if !frame.is_empty() {
        return Err(FrameError::Trailing(frame.len()));
    }
    Ok(ResponseFrame {
        call_id,
        outcome: Ok(Body { message, cells }),
    })
}

fn parse<M: Message + Default>(bytes: Bytes, part: &'static str) -> Result<M, FrameError> {
    M::decode(bytes).map_err(|source| FrameError::Malformed { part, source })
}

/// Doubles a large buffer at most, and leaves it unchanged while a good part of the room is free.
fn make_room(buf: &mut BytesMut, missing: usize) {
    let wanted = missing.min(buf.len().max(RESERVED_AT_ONCE));
    if buf.capacity() - buf.len() < wanted.min(ROOM / 4) {
        buf.reserve(wanted);
    }
}

#[cfg(test)]
mod tests;
