use bytes::BufMut;
use proptest::prelude::*;
use tokio::io::{DuplexStream, duplex};

use super::{super::scripted::Numbered, *};

const LIMIT: usize = 1 << 20;

/// A frame that refuses the connection, as the caller tells it from others.
const REFUSAL: &[u8] = b"\0\0\0\x07refused";

fn is_refusal(message: &[u8]) -> bool {
    message == &REFUSAL[4..]
}

fn pair(is_wrapped: bool) -> (SaslStream<DuplexStream>, SaslStream<DuplexStream>) {
    let (ours, theirs) = duplex(64);
    let layer = || is_wrapped.then(|| Box::<Numbered>::default() as Box<dyn SecurityLayer>);
    (
        SaslStream::new(ours, layer(), LIMIT, is_refusal),
        SaslStream::new(theirs, layer(), LIMIT, is_refusal),
    )
}

/// Returns what a client reads of these bytes, with a layer or without.
async fn read(bytes: &[u8], is_wrapped: bool) -> io::Result<Vec<u8>> {
    let (mut client, mut server) = pair(is_wrapped);
    let write = async {
        let _ = server.inner.write_all(bytes).await;
        drop(server);
    };
    let mut read = Vec::new();
    let (result, ()) = tokio::join!(client.read_to_end(&mut read), write);
    result.map(|_| read)
}

fn wrapped(messages: &[&[u8]]) -> Vec<u8> {
    let mut layer = Numbered::default();
    let mut out = Vec::new();
    for message in messages {
        let message = layer.wrap(message).unwrap();
        out.put_i32(message.len() as i32);
        out.put_slice(&message);
    }
    out
}

fn refusal(error: &io::Error) -> Option<&AuthenticationError> {
    error.get_ref()?.downcast_ref()
}

#[tokio::test]
async fn messages_are_wrapped_in_pieces_and_unwrapped() {
    for is_wrapped in [true, false] {
        let (mut client, mut server) = pair(is_wrapped);
        let message: Vec<u8> = (0..1_000_u32).map(|number| number as u8).collect();
        let write = async {
            client.write_all(&message).await.unwrap();
            client.shutdown().await.unwrap();
        };
        let mut read = Vec::new();
        let (result, ()) = tokio::join!(server.read_to_end(&mut read), write);
        result.unwrap();
        assert_eq!(read, message);
    }
}

#[tokio::test]
async fn pieces_of_a_vectored_write_share_a_message() {
    let (mut client, mut server) = pair(true);
    let slices = [&b"ab"[..], b"", b"cdefgh", b"ijklm"].map(IoSlice::new);
    let written = client.write_vectored(&slices).await.unwrap();
    assert_eq!(written, Numbered::MAX_MESSAGE);
    client.flush().await.unwrap();
    let mut bytes = [0; 4 + 1 + Numbered::MAX_MESSAGE + 1];
    server.inner.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes[..], wrapped(&[b"abcdefghij"]));
}

#[tokio::test]
async fn messages_need_not_match_reads_and_may_be_empty() {
    let bytes = wrapped(&[b"ab", b"", b"cdef"]);
    assert_eq!(read(&bytes, true).await.unwrap(), b"abcdef");
}

#[tokio::test]
async fn altered_repeated_or_missing_message_breaks_the_stream() {
    let bytes = wrapped(&[b"ab", b"cd"]);
    for at in 0..bytes.len() {
        let mut altered = bytes.clone();
        altered[at] ^= 1;
        read(&altered, true).await.unwrap_err();
    }
    let (first, second) = bytes.split_at(bytes.len() / 2);
    read(&[first, first, second].concat(), true).await.unwrap_err();
    read(second, true).await.unwrap_err();
    read(&bytes[..bytes.len() - 1], true).await.unwrap_err();
}

#[tokio::test]
async fn broken_stream_yields_nothing_more() {
    let bytes = wrapped(&[b"ab", b"cd"]);
    let (mut client, mut server) = pair(true);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    server.inner.write_all(first).await.unwrap();
    server.inner.write_all(first).await.unwrap();
    server.inner.write_all(second).await.unwrap();
    let mut read = [0; 2];
    client.read_exact(&mut read).await.unwrap();
    for _ in 0..3 {
        client.read_exact(&mut read).await.unwrap_err();
    }
}

#[tokio::test]
async fn hostile_length_is_refused_without_room_for_it() {
    for announced in [i32::MIN, -1, (LIMIT + MAX_OVERHEAD + 1) as i32] {
        let error = read(&announced.to_be_bytes(), true).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
    let (mut client, mut server) = pair(true);
    server
        .inner
        .write_all(&(LIMIT as i32).to_be_bytes())
        .await
        .unwrap();
    drop(server);
    client.read_u8().await.unwrap_err();
    assert!(client.received.capacity() <= 2 * ROOM);
}

#[tokio::test]
async fn error_instead_of_the_first_answer_is_a_refusal() {
    let mut bytes = vec![0, 0, 0, 1];
    for text in [
        &b"javax.security.sasl.SaslException"[..],
        b"Problem with callback handler",
    ] {
        bytes.put_i32(text.len() as i32);
        bytes.put_slice(text);
    }
    for is_wrapped in [true, false] {
        let error = read(&bytes, is_wrapped).await.unwrap_err();
        let refusal = refusal(&error).unwrap().exception().unwrap().to_string();
        assert!(refusal.contains("Problem with callback handler"), "{refusal}");
        let error = read(&bytes[..20], is_wrapped).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[tokio::test]
async fn later_bytes_are_not_taken_for_a_refusal() {
    let plain = b"\0\0\0\x02ab\0\0\0\x01\0\0\0\0\0\0\0\0";
    assert_eq!(read(plain, false).await.unwrap(), plain);
    let bytes = [&wrapped(&[b"ab"])[..], b"\0\0\0\x01\0\0\0\0\0\0\0\0"].concat();
    let error = read(&bytes, true).await.unwrap_err();
    assert!(refusal(&error).is_none(), "{error}");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for is_wrapped in [true, false] {
            let _ = runtime.block_on(read(&bytes, is_wrapped));
        }
    }
}

#[tokio::test]
async fn refusal_of_the_connection_is_read_although_it_is_not_wrapped() {
    assert_eq!(read(REFUSAL, true).await.unwrap(), REFUSAL);
    // No other frame is, and none behind a wrapped message.
    read(b"\0\0\0\x07of call", true).await.unwrap_err();
    let behind = [&wrapped(&[b"answer"]), REFUSAL].concat();
    read(&behind, true).await.unwrap_err();
}

/// HBase 2.5.12 refuses a user after it has sent the keys for AES.
#[tokio::test]
async fn refusal_behind_the_keys_is_read_although_it_is_not_wrapped() {
    let keys = wrapped(&[b"keys"]);
    for is_early in [true, false] {
        let (ours, mut socket) = duplex(1 << 10);
        let mut client = SaslStream::new(ours, Some(Box::<Numbered>::default()), LIMIT, is_refusal);
        let (first, second) = if is_early {
            ([&keys[..], REFUSAL].concat(), vec![])
        } else {
            (keys.clone(), REFUSAL.to_vec())
        };
        socket.write_all(&first).await.unwrap();
        let mut read = [0; 4];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(client.set_layer(Box::<Numbered>::default()), 0);
        socket.write_all(&second).await.unwrap();
        drop(socket);
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, REFUSAL);
    }
}
