//! The frames of HBase's protocol, as far as a proxy must know them.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt};

/// `HBas`, the version, the way of authentication.
const PREAMBLE: usize = 6;

/// What a request says of itself before its message.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RequestHeader {
    #[prost(uint32, optional, tag = "1")]
    pub(super) call_id: Option<u32>,
    #[prost(string, optional, tag = "3")]
    pub(super) method_name: Option<String>,
}

/// What an answer says of itself before its message.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseHeader {
    #[prost(uint32, optional, tag = "1")]
    pub(super) call_id: Option<u32>,
}

/// The opening of a connection: the preamble, and the connection header in a frame.
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
