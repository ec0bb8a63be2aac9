//! Peers that send what a gateway could send, whether true or not.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// The answer to a call: the encoded fields of its result, with the stop bytes.
pub(super) enum Answer {
    Result(Bytes),
    UnknownMethod,
    /// Closes the connection.
    HangUp,
}

/// Answers every request with the same bytes.
pub(super) async fn parrot(answer: Vec<u8>) -> u16 {
    let answer = Bytes::from(answer);
    peer(move |_| Some(answer.clone())).await
}

/// Answers each call under its name and number. `answer` gets the method and the encoded arguments.
pub(super) async fn gateway_that(
    is_framed: bool,
    answer: impl Fn(&str, &[u8]) -> Answer + Send + Sync + 'static,
) -> u16 {
    peer(move |request| {
        let message = &request[if is_framed { 4 } else { 0 }..];
        let length = u32::from_be_bytes(message[4..8].try_into().unwrap()) as usize;
        let (named, arguments) = message[4..].split_at(4 + length + 4);
        let method = std::str::from_utf8(&named[4..4 + length]).unwrap();
        let (kind, body) = match answer(method, arguments) {
            Answer::Result(body) => (2, body),
            Answer::UnknownMethod => (3, unknown_method(method)),
            Answer::HangUp => return None,
        };
        let reply = [b"\x80\x01\x00", &[kind][..], named, &body].concat();
        let length = u32::try_from(reply.len()).unwrap().to_be_bytes();
        Some(if is_framed {
            [&length[..], &reply].concat().into()
        } else {
            reply.into()
        })
    })
    .await
}

async fn peer(answer: impl Fn(&[u8]) -> Option<Bytes> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            tokio::spawn(async move {
                let mut request = vec![0; 64 << 10];
                while let Ok(read @ 1..) = client.read(&mut request).await {
                    let Some(answer) = answer(&request[..read]) else {
                        return;
                    };
                    if client.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32(bytes.len().try_into().unwrap());
    out.put_slice(bytes);
}

fn unknown_method(method: &str) -> Bytes {
    let mut out = BytesMut::from(&b"\x0b\x00\x01"[..]);
    put_bytes(&mut out, format!("Invalid method name: '{method}'").as_bytes());
    out.put_slice(b"\x08\x00\x02\x00\x00\x00\x01\x00");
    out.freeze()
}

/// The answer of the first API.
pub(super) fn api_one() -> Answer {
    Answer::Result(Bytes::from_static(b"\x08\x00\x00\x00\x00\x00\x01\x00"))
}

pub(super) fn yes() -> Answer {
    Answer::Result(Bytes::from_static(b"\x02\x00\x00\x01\x00"))
}

/// A result with these families, whose cells live without limit.
pub(super) fn families(names: &[&str]) -> Answer {
    let mut out = BytesMut::from(&b"\x0d\x00\x00\x0b\x0c"[..]);
    out.put_u32(names.len().try_into().unwrap());
    for name in names {
        put_bytes(&mut out, format!("{name}:").as_bytes());
        // `timeToLive`, the largest value: without limit.
        out.put_slice(b"\x08\x00\x09\x7f\xff\xff\xff\x00");
    }
    out.put_u8(0);
    Answer::Result(out.freeze())
}

/// A result of one row with one cell.
pub(super) fn one_row(row: &[u8], column: &str, value: &[u8]) -> Answer {
    let mut out = BytesMut::from(&b"\x0f\x00\x00\x0c\x00\x00\x00\x01\x0b\x00\x01"[..]);
    put_bytes(&mut out, row);
    out.put_slice(b"\x0d\x00\x02\x0b\x0c\x00\x00\x00\x01");
    put_bytes(&mut out, column.as_bytes());
    out.put_slice(b"\x0b\x00\x01");
    put_bytes(&mut out, value);
    out.put_slice(b"\x0a\x00\x02");
    out.put_u64(1_000);
    // The stop bytes of the cell, the row and the result.
    out.put_slice(b"\x00\x00\x00");
    Answer::Result(out.freeze())
}
