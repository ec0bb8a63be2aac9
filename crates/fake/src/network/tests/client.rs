//! A client that writes frames itself.

use hbase_protocol as pb;
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub(super) const CODEC: &str = "org.apache.hadoop.hbase.codec.KeyValueCodec";
/// A call without parameters that each region server answers.
pub(super) const METHOD: &str = "GetClusterId";

pub(super) struct RawClient<S> {
    pub(super) stream: S,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) id: u32,
    pub(super) exception: Option<pb::ExceptionResponse>,
    pub(super) message: Vec<u8>,
}

impl Answered {
    pub(super) fn class(&self) -> &str {
        let class = self.exception.as_ref().map_or("", |it| it.exception_class_name());
        class.rsplit('.').next().unwrap()
    }

    pub(super) fn text(&self) -> &str {
        self.exception.as_ref().map_or("", |it| it.stack_trace())
    }
}

/// A connection header that is accepted.
pub(super) fn connection_header(user: &str) -> pb::ConnectionHeader {
    pb::ConnectionHeader {
        user_info: Some(pb::UserInformation {
            effective_user: user.to_owned(),
            real_user: None,
        }),
        service_name: Some("ClientMetaService".to_owned()),
        cell_block_codec_class: Some(CODEC.to_owned()),
        version_info: Some(pb::VersionInfo {
            version: "2.6.0".to_owned(),
            version_major: Some(2),
            version_minor: Some(6),
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub(super) fn request_header(id: u32, method: &str) -> pb::RequestHeader {
    pb::RequestHeader {
        call_id: Some(id),
        method_name: Some(method.to_owned()),
        request_param: Some(true),
        ..Default::default()
    }
}

/// A frame: the length of the parts, and the parts.
pub(super) fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let parts = parts.concat();
    let mut frame = u32::try_from(parts.len()).unwrap().to_be_bytes().to_vec();
    frame.extend(parts);
    frame
}

/// A request without a parameter's content.
pub(super) fn request(header: &pb::RequestHeader) -> Vec<u8> {
    frame(&[&header.encode_length_delimited_to_vec(), &[0]])
}

impl<S: AsyncRead + AsyncWrite + Unpin> RawClient<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream }
    }

    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    pub(super) async fn open(&mut self, user: &str) {
        self.open_with(&connection_header(user)).await;
    }

    pub(super) async fn open_with(&mut self, header: &pb::ConnectionHeader) {
        self.send(b"HBas\x00\x50").await;
        self.send(frame(&[&header.encode_to_vec()])).await;
    }

    pub(super) async fn call(&mut self, id: u32) {
        self.call_with(&request_header(id, METHOD)).await;
    }

    pub(super) async fn call_with(&mut self, header: &pb::RequestHeader) {
        self.send(request(header)).await;
    }

    /// Returns the next answer; `None` if the server has closed the connection.
    pub(super) async fn answer(&mut self) -> Option<Answered> {
        let length = self.stream.read_u32().await.ok()?;
        let mut frame = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut frame).await.ok()?;
        let mut rest = &frame[..];
        let header = pb::ResponseHeader::decode_length_delimited(&mut rest).unwrap();
        assert_eq!(header.cell_block_meta, None);
        let message = match header.exception {
            Some(_) => Vec::new(),
            None => {
                let length = prost::decode_length_delimiter(&mut rest).unwrap();
                rest[..length].to_vec()
            }
        };
        Some(Answered {
            id: header.call_id.unwrap(),
            exception: header.exception,
            message,
        })
    }

    /// Returns what comes until the server closes the connection.
    pub(super) async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).await.unwrap();
        rest
    }
}
