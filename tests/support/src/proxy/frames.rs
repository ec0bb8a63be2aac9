//! The frames of HBase's protocol, as far as a proxy needs them.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The column that identifies a `Multi` as a probe for conditions.
const PROBE: &[u8] = b"hbase-txn.probe";

/// `HBas`, the version, the authentication method.
const PREAMBLE: usize = 6;

/// The header of a request, before its message.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RequestHeader {
    #[prost(uint32, optional, tag = "1")]
    pub(super) call_id: Option<u32>,
    #[prost(string, optional, tag = "3")]
    pub(super) method_name: Option<String>,
    #[prost(message, repeated, tag = "8")]
    attributes: Vec<Attribute>,
}

/// The header of a connection.
#[derive(Message)]
struct ConnectionHeader {
    #[prost(message, repeated, tag = "7")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// The header of an answer, before its message.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseHeader {
    #[prost(uint32, optional, tag = "1")]
    pub(super) call_id: Option<u32>,
    #[prost(message, optional, tag = "2")]
    exception: Option<Exception>,
}

#[derive(Clone, PartialEq, Message)]
struct Exception {
    #[prost(string, tag = "1")]
    class: String,
    #[prost(string, tag = "2")]
    stack_trace: String,
}

/// A `Multi` as decoded by a server that does not know conditions.
#[derive(Message)]
struct MultiRequest {
    #[prost(message, repeated, tag = "1")]
    region_actions: Vec<RegionAction>,
}

#[derive(Message)]
struct RegionAction {
    #[prost(bytes = "bytes", tag = "1")]
    region: Bytes,
    #[prost(bool, optional, tag = "2")]
    atomic: Option<bool>,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    actions: Vec<Bytes>,
}

/// Returns the attributes of a request.
pub(super) fn request_attributes(frame: &Bytes) -> Vec<(String, Bytes)> {
    pairs(header::<RequestHeader>(frame).unwrap().attributes)
}

/// Returns the attributes of a connection.
pub(super) fn connection_attributes(opening: &Bytes) -> Vec<(String, Bytes)> {
    let header = opening.slice(PREAMBLE + 4..);
    pairs(ConnectionHeader::decode(header).unwrap().attributes)
}

fn pairs(attributes: Vec<Attribute>) -> Vec<(String, Bytes)> {
    let pairs = attributes.into_iter();
    pairs.map(|Attribute { name, value }| (name, value)).collect()
}

/// Returns the name by which the rule identifies a request.
pub(super) fn method(frame: &Bytes, method: Option<String>) -> String {
    let is_probe = || frame.windows(PROBE.len()).any(|part| part == PROBE);
    match method {
        Some(method) if method == "Multi" && is_probe() => super::PROBE.to_owned(),
        method => method.unwrap_or_default(),
    }
}

/// Returns the frame of a `Multi` without its conditions.
pub(super) fn without_conditions(frame: &Bytes) -> io::Result<Bytes> {
    let mut rest = frame.slice(4..);
    let header: Bytes = delimited(&mut rest)?;
    let request = MultiRequest::decode(delimited(&mut rest)?).map_err(io::Error::other)?;
    let mut changed = BytesMut::new();
    prost::encode_length_delimiter(header.len(), &mut changed).map_err(io::Error::other)?;
    changed.put_slice(&header);
    changed.put_slice(&request.encode_length_delimited_to_vec());
    changed.put_slice(&rest);
    let length = u32::try_from(changed.len()).map_err(io::Error::other)?;
    Ok([&length.to_be_bytes(), &changed[..]].concat().into())
}

/// Removes a length-prefixed message from the bytes.
fn delimited(bytes: &mut Bytes) -> io::Result<Bytes> {
    let length = prost::decode_length_delimiter(&mut *bytes).map_err(io::Error::other)?;
    Ok(bytes.split_to(length))
}

/// The answer of a server whose region is too busy for writes.
pub(super) fn too_busy(call_id: Option<u32>) -> Bytes {
    let class = "org.apache.hadoop.hbase.RegionTooBusyException";
    let header = ResponseHeader {
        call_id,
        exception: Some(Exception {
            class: class.to_owned(),
            stack_trace: format!("{class}: refused by the fault proxy"),
        }),
    };
    let header = header.encode_length_delimited_to_vec();
    let mut frame = BytesMut::with_capacity(4 + header.len());
    frame.put_u32(u32::try_from(header.len()).unwrap());
    frame.put_slice(&header);
    frame.freeze()
}

/// Returns the beginning of a connection: the preamble, and the connection header in a frame.
pub(super) async fn opening(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Bytes> {
    let mut preamble = [0; PREAMBLE];
    stream.read_exact(&mut preamble).await?;
    let header = frame(stream).await?;
    Ok([&preamble, &header[..]].concat().into())
}

/// One frame, its length included.
pub(super) async fn frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Bytes> {
    let length = stream.read_u32().await?;
    let mut frame = BytesMut::zeroed(4 + length as usize);
    (&mut frame[..4]).put_u32(length);
    stream.read_exact(&mut frame[4..]).await?;
    Ok(frame.freeze())
}

/// The header of a frame.
pub(super) fn header<M: Message + Default>(frame: &Bytes) -> io::Result<M> {
    M::decode_length_delimited(&frame[4..]).map_err(io::Error::other)
}
