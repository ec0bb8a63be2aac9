//! Frames: requests as they come, answers as they go. Bytes only.

use std::{collections::BTreeMap, time::Duration};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hbase_protocol as pb;
use prost::Message;

use crate::{
    cluster::Answer,
    exception::{Exception, Result},
};

/// `hbase.ipc.max.request.size`.
pub(super) const MAX_REQUEST: usize = 256 << 20;
/// `hbase.ipc.min.client.request.timeout`.
const MIN_TIMEOUT: Duration = Duration::from_millis(20);
/// More than any header has; a request that is too big is answered only with a header below this.
const MAX_HEADER: usize = 1 << 20;
/// The call id of answers that are about the connection.
pub(super) const NO_CALL: u32 = u32::MAX;
/// The exception for bytes that are not the message they should be.
const BAD_MESSAGE: &str = "org.apache.hbase.thirdparty.com.google.protobuf.InvalidProtocolBufferException";

/// The next piece of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Frame(Bytes),
    /// More bytes must come.
    Incomplete,
    /// A request over the limit, with its call id. The server answers, and closes the connection.
    TooBig {
        call_id: u32,
        length: usize,
    },
    /// The server closes the connection.
    Broken(&'static str),
}

/// Cuts the next frame off.
pub(super) fn cut(input: &mut BytesMut) -> Piece {
    let Some(length) = input.first_chunk::<4>() else {
        return Piece::Incomplete;
    };
    let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
        return Piece::Broken("negative frame length");
    };
    if length > MAX_REQUEST {
        return too_big(&input[4..], length);
    }
    if input.len() - 4 < length {
        return Piece::Incomplete;
    }
    input.advance(4);
    // A frame of its own: values that are stored as slices must not keep the buffer.
    let frame = Bytes::copy_from_slice(&input[..length]);
    input.advance(length);
    Piece::Frame(frame)
}

/// Reads the call id of a request that is not read as a whole (`NettyRpcFrameDecoder`).
fn too_big(mut rest: &[u8], length: usize) -> Piece {
    let ends = rest.iter().take(5).any(|byte| byte & 0x80 == 0);
    if !ends && rest.len() < 5 {
        return Piece::Incomplete;
    }
    match prost::decode_length_delimiter(&mut rest) {
        Ok(header) if header <= MAX_HEADER => match rest.get(..header).map(pb::RequestHeader::decode) {
            None => Piece::Incomplete,
            Some(Ok(header)) => Piece::TooBig {
                call_id: header.call_id(),
                length,
            },
            Some(Err(_)) => Piece::Broken("unreadable request header"),
        },
        _ => Piece::Broken("unreadable request header"),
    }
}

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) id: u32,
    pub(super) method: String,
    pub(super) parameter: Bytes,
    pub(super) cells: Bytes,
    pub(super) priority: u32,
    pub(super) timeout: Option<Duration>,
    pub(super) trace: BTreeMap<String, String>,
    pub(super) attributes: BTreeMap<String, Bytes>,
}

/// A request that no handler gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadRequest {
    /// The header cannot be read: the server closes the connection.
    Connection(&'static str),
    /// The server answers with an exception.
    Call { id: u32, exception: Exception },
}

/// Reads a request, and refuses parts of its header that are not modelled.
pub(super) fn request(mut frame: Bytes, has_codec: bool) -> Result<Request, BadRequest> {
    let header = delimited(&mut frame).ok_or(BadRequest::Connection("unreadable request header"))?;
    let bytes = header.clone();
    let Ok(header) = pb::RequestHeader::decode(header) else {
        return Err(BadRequest::Connection("unreadable request header"));
    };
    let id = header.call_id();
    let known = is_canonical(&header, &bytes);
    parts(header, frame, has_codec)
        .and_then(|request| {
            if known {
                Ok(request)
            } else {
                Err(Exception::not_modelled("a field of RequestHeader"))
            }
        })
        .map_err(|exception| BadRequest::Call { id, exception })
}

/// Returns whether a message encodes to the bytes that it was decoded from. If not, they have
/// fields that the message does not have.
pub(super) fn is_canonical<M: Message>(message: &M, bytes: &[u8]) -> bool {
    let mut again = message.encode_to_vec();
    if again == bytes {
        return true;
    }
    // The trace context is a map, which has no order.
    let mut bytes = bytes.to_vec();
    again.sort_unstable();
    bytes.sort_unstable();
    again == bytes
}

fn parts(header: pb::RequestHeader, mut frame: Bytes, has_codec: bool) -> Result<Request> {
    let pb::RequestHeader {
        call_id,
        trace_info,
        method_name,
        request_param,
        cell_block_meta,
        priority,
        timeout,
        attribute,
    } = header;
    let method = method_name.unwrap_or_default();
    if request_param != Some(true) {
        return Err(Exception::do_not_retry(format!(
            "Invalid request header: method_name: {method:?}, should have param set in it"
        )));
    }
    let parameter = delimited(&mut frame).ok_or_else(|| {
        Exception::new(
            BAD_MESSAGE,
            "is unable to read call parameter from client; the input ended unexpectedly in the middle of a field",
        )
    })?;
    let cells = match cell_block_meta {
        Some(meta) if meta.length() as usize > frame.len() => {
            return Err(Exception::new(
                "java.lang.IllegalArgumentException",
                format!(
                    "is unable to read call parameter from client; newLimit > capacity: ({} > {})",
                    meta.length(),
                    frame.len()
                ),
            ));
        }
        Some(meta) => frame.split_to(meta.length() as usize),
        None => Bytes::new(),
    };
    if !frame.is_empty() {
        return Err(Exception::not_modelled("bytes after a request"));
    }
    if !cells.is_empty() && !has_codec {
        return Err(Exception::not_modelled(
            "a cell block on a connection without a codec",
        ));
    }
    Ok(Request {
        id: call_id.unwrap_or_default(),
        method,
        parameter,
        cells,
        priority: priority.unwrap_or_default(),
        timeout: timeout
            .filter(|millis| *millis > 0)
            .map(|millis| Duration::from_millis(millis.into()).max(MIN_TIMEOUT)),
        trace: trace_info
            .map(|trace| trace.headers.into_iter().collect())
            .unwrap_or_default(),
        attributes: attributes(attribute),
    })
}

/// Returns the attributes of a connection or a request.
pub(super) fn attributes(pairs: Vec<pb::NameBytesPair>) -> BTreeMap<String, Bytes> {
    let attributes = pairs.into_iter();
    attributes
        .map(|pair| (pair.name, pair.value.unwrap_or_default()))
        .collect()
}

/// Cuts a part off that begins with its length.
fn delimited(frame: &mut Bytes) -> Option<Bytes> {
    let length = prost::decode_length_delimiter(&mut *frame).ok()?;
    (length <= frame.len()).then(|| frame.split_to(length))
}

/// Appends the answer to a call.
pub(super) fn answer(id: u32, answer: &Result<Answer>, out: &mut BytesMut) {
    match answer {
        Ok(Answer { message, cells }) => {
            let cell_block_meta = (!cells.is_empty()).then(|| pb::CellBlockMeta {
                length: Some(u32::try_from(cells.len()).unwrap_or(u32::MAX)),
            });
            let header = pb::ResponseHeader {
                call_id: Some(id),
                exception: None,
                cell_block_meta,
            };
            response(&header, Some(message), cells, out);
        }
        Err(exception) => failure(id, exception, exception.trace(), out),
    }
}

/// Appends an exception about the connection. Its text has the message only
/// (`ServerRpcConnection.getErrorResponse`).
pub(super) fn connection_failure(exception: &Exception, out: &mut BytesMut) {
    failure(NO_CALL, exception, exception.message.clone(), out);
}

fn failure(id: u32, exception: &Exception, stack_trace: String, out: &mut BytesMut) {
    let (hostname, port) = exception.moved_to.clone().unzip();
    let header = pb::ResponseHeader {
        call_id: Some(id),
        exception: Some(pb::ExceptionResponse {
            exception_class_name: Some(exception.class_name()),
            stack_trace: Some(stack_trace),
            hostname,
            port: port.map(i32::from),
            do_not_retry: Some(exception.is_do_not_retry()),
            server_overloaded: Some(exception.is_server_overloaded()),
        }),
        cell_block_meta: None,
    };
    response(&header, None, &[], out);
}

/// Appends a message that answers a preamble.
pub(super) fn preamble_answer(message: &impl Message, out: &mut BytesMut) {
    let header = pb::ResponseHeader {
        call_id: Some(NO_CALL),
        exception: None,
        cell_block_meta: None,
    };
    response(&header, Some(&message.encode_to_vec()), &[], out);
}

fn response(header: &pb::ResponseHeader, message: Option<&Vec<u8>>, cells: &[u8], out: &mut BytesMut) {
    let delimited = |length: usize| prost::length_delimiter_len(length) + length;
    let length =
        delimited(header.encoded_len()) + message.map_or(0, |message| delimited(message.len())) + cells.len();
    out.reserve(4 + length);
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    out.put_slice(&header.encode_length_delimited_to_vec());
    if let Some(message) = message {
        prost::encoding::encode_varint(message.len() as u64, out);
        out.put_slice(message);
    }
    out.put_slice(cells);
}
