//! The server's side of the protocol, for tests.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use super::{RequestFrame, split_delimited};
use crate::wire::pb;

/// Returns the header, parameter and cells of a request.
pub(crate) fn decode_request(frame: &RequestFrame) -> (pb::RequestHeader, Bytes, Bytes) {
    let mut bytes = BytesMut::new();
    bytes.put_slice(&frame.head);
    bytes.put_slice(&frame.cells);
    let mut bytes = bytes.freeze();
    assert_eq!(bytes.get_u32() as usize, bytes.len());
    let header = split_delimited(&mut bytes, "header").unwrap();
    let header = pb::RequestHeader::decode(header).unwrap();
    let param = split_delimited(&mut bytes, "parameter").unwrap();
    let announced = header.cell_block_meta.as_ref().map_or(0, |meta| meta.length());
    assert_eq!(bytes.len(), announced as usize);
    (header, param, bytes)
}

/// Returns a whole response frame. An exception has no message.
pub(crate) fn encode_response(
    mut header: pb::ResponseHeader,
    message: Option<&impl Message>,
    cells: &[u8],
) -> Bytes {
    if !cells.is_empty() {
        header.cell_block_meta = Some(pb::CellBlockMeta {
            length: Some(cells.len().try_into().unwrap()),
        });
    }
    let mut body = BytesMut::new();
    header.encode_length_delimited(&mut body).unwrap();
    if let Some(message) = message {
        message.encode_length_delimited(&mut body).unwrap();
    }
    body.put_slice(cells);
    let mut out = BytesMut::new();
    out.put_u32(body.len().try_into().unwrap());
    out.put_slice(&body);
    out.freeze()
}

/// Returns the answer to a successful call.
pub(crate) fn answer(call_id: u32, message: &impl Message, cells: &[u8]) -> Bytes {
    let header = pb::ResponseHeader {
        call_id: Some(call_id),
        ..Default::default()
    };
    encode_response(header, Some(message), cells)
}

/// Returns the answer to a failed call.
pub(crate) fn refusal(call_id: u32, class: &str, trace: &str) -> Bytes {
    let header = pb::ResponseHeader {
        call_id: Some(call_id),
        exception: Some(pb::ExceptionResponse {
            exception_class_name: Some(class.to_owned()),
            stack_trace: Some(trace.to_owned()),
            ..Default::default()
        }),
        ..Default::default()
    };
    encode_response(header, None::<&pb::NameBytesPair>, b"")
}
