//! Questions to a server of the registry instead of a preamble.

use bytes::BytesMut;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::connector::Io;
use crate::wire::{frame::ResponseDecoder, pb};

/// The question for the id of the cluster, instead of the preamble.
const REGISTRY: [u8; 6] = *b"Regist";

/// The question, instead of a preamble, which principal the server has.
const SECURITY: [u8; 6] = *b"Securi";

/// The maximum size of an answer.
const MAX_ANSWER: usize = 64 << 10;

/// Asks a server for its principal: masters and region servers serve the registry, and their
/// principals may differ. The stream can still be used if there is an answer. Returns `None` if there
/// is none: servers before 2.5.11 and 2.6.1 answer with an exception or close the stream.
pub(super) async fn principal<S: Io>(stream: &mut S) -> Option<String> {
    let answer: pb::SecurityPreamableResponse = ask(stream, SECURITY).await?;
    Some(answer.server_principal)
}

/// Asks a server for the id of its cluster. The server closes the stream. Returns `None` if there is
/// no answer: servers before 2.6, and some of 3.0, do not know the question.
pub(super) async fn cluster_id<S: Io>(stream: &mut S) -> Option<String> {
    let answer: pb::GetClusterIdResponse = ask(stream, REGISTRY).await?;
    answer.cluster_id
}

async fn ask<S: Io, M: Message + Default>(stream: &mut S, question: [u8; 6]) -> Option<M> {
    stream.write_all(&question).await.ok()?;
    stream.flush().await.ok()?;
    let mut decoder = ResponseDecoder::new(MAX_ANSWER);
    let mut received = BytesMut::new();
    loop {
        if let Some(answer) = decoder.decode(&mut received).ok()? {
            let body = answer.outcome.ok().filter(|_| received.is_empty())?;
            return body.parse().ok();
        }
        if stream.read_buf(&mut received).await.ok()? == 0 {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;
    use tokio::io::duplex;

    use super::*;

    /// Returns the principal that these bytes of a server are taken for.
    async fn answered(bytes: &[u8]) -> Option<String> {
        let (mut ours, mut theirs) = duplex(1 << 10);
        let server = async {
            let mut question = [0; 6];
            theirs.read_exact(&mut question).await.unwrap();
            assert_eq!(&question, b"Securi");
            theirs.write_all(bytes).await.unwrap();
            drop(theirs);
        };
        tokio::join!(principal(&mut ours), server).0
    }

    fn frame(header: &pb::ResponseHeader, message: &[u8]) -> BytesMut {
        let mut body = header.encode_length_delimited_to_vec();
        prost::encode_length_delimiter(message.len(), &mut body).unwrap();
        body.extend(message);
        let mut out = BytesMut::new();
        out.put_i32(body.len() as i32);
        out.put_slice(&body);
        out
    }

    #[tokio::test]
    async fn principal_is_in_a_frame_about_the_connection() {
        let header = pb::ResponseHeader {
            call_id: Some(u32::MAX),
            ..Default::default()
        };
        let answer = frame(&header, b"\x0a\x05a/b@R");
        assert_eq!(answered(&answer).await.as_deref(), Some("a/b@R"));
        assert_eq!(answered(&answer[..9]).await, None);
        let exception = pb::ResponseHeader {
            exception: Some(pb::ExceptionResponse::default()),
            ..header
        };
        assert_eq!(answered(&frame(&exception, b"")).await, None);
        for bytes in [&b""[..], b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\0"] {
            assert_eq!(answered(bytes).await, None);
        }
    }
}
