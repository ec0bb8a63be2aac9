use std::time::Duration;

use bytes::{BufMut, BytesMut};
use rstest::rstest;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::timeout,
};

use super::{
    super::{
        scripted::Scripted,
        thread::{BLOCKING, BLOCKING_STEPS},
    },
    *,
};
use crate::error::ErrorKind;

/// The client's bytes up to its first token, `a`.
const OPENING: &[u8] = b"HBas\0\x51\0\0\0\x01a";

/// Sends a token, and expects one.
fn first() -> (&'static str, Result<Step, AuthenticationError>) {
    ("", Ok(Step::Continue(b"a".to_vec())))
}

fn steps(
    further: impl IntoIterator<Item = (&'static str, Result<Step, AuthenticationError>)>,
) -> Box<Scripted> {
    Box::new(Scripted::new([first()].into_iter().chain(further)))
}

/// Negotiates with a server that reads and writes as given, and then closes the stream.
async fn negotiate_with(
    mechanism: Box<Scripted>,
    server: impl AsyncFnOnce(&mut DuplexStream),
) -> Result<Accepted, HandshakeError> {
    let (mut ours, mut theirs) = duplex(1 << 16);
    let server = async {
        server(&mut theirs).await;
        drop(theirs);
    };
    let (accepted, ()) = tokio::join!(negotiate(&mut ours, mechanism), server);
    accepted
}

async fn expect(stream: &mut DuplexStream, bytes: &[u8]) {
    let mut read = vec![0; bytes.len()];
    stream.read_exact(&mut read).await.unwrap();
    assert_eq!(read, bytes);
}

/// Answers the first token with these bytes.
async fn answer(bytes: &[u8]) -> HandshakeError {
    let answer = negotiate_with(steps([]), async |server| {
        expect(server, OPENING).await;
        server.write_all(bytes).await.unwrap();
    });
    answer.await.unwrap_err()
}

#[rstest]
#[tokio::test]
async fn tokens_are_exchanged_until_the_last(#[values(true, false)] blocks: bool) {
    let mut mechanism = steps([
        ("b", Ok(Step::Continue(Vec::new()))),
        ("", Ok(Step::Last(b"c".to_vec()))),
    ]);
    mechanism.blocks = blocks;
    let accepted = negotiate_with(mechanism, async |server| {
        expect(server, OPENING).await;
        server.write_all(b"\0\0\0\0\0\0\0\x01b").await.unwrap();
        expect(server, b"\0\0\0\0").await;
        server.write_all(b"\0\0\0\0\0\0\0\0").await.unwrap();
        expect(server, b"\0\0\0\x01c").await;
    });
    let accepted = accepted.await.unwrap();
    assert!(matches!(accepted, Accepted::Authenticated(None)), "{accepted:?}");
}

#[tokio::test]
async fn reply_may_arrive_byte_by_byte_and_need_no_answer() {
    let accepted = negotiate_with(steps([("bcd", Ok(Step::Complete))]), async |server| {
        expect(server, OPENING).await;
        for byte in b"\0\0\0\0\0\0\0\x03bcd" {
            server.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    let accepted = accepted.await.unwrap();
    assert!(matches!(accepted, Accepted::Authenticated(None)), "{accepted:?}");
}

#[tokio::test]
async fn server_without_security_is_reported() {
    let accepted = negotiate_with(steps([]), async |server| {
        expect(server, OPENING).await;
        server.write_all(b"\0\0\0\0\xff\xff\xff\xa8").await.unwrap();
    });
    assert!(matches!(accepted.await.unwrap(), Accepted::Simple));
}

#[tokio::test]
async fn server_error_has_its_class_and_message() {
    let mut bytes = BytesMut::new();
    bytes.put_i32(1);
    for text in ["javax.security.sasl.SaslException", "GSS initiate failed"] {
        bytes.put_i32(text.len() as i32);
        bytes.put_slice(text.as_bytes());
    }
    let HandshakeError::Unauthenticated(error) = answer(&bytes).await else {
        panic!("no refusal");
    };
    assert_eq!(error.kind(), ErrorKind::AuthenticationFailed);
    let exception = error.exception().unwrap().to_string();
    assert_eq!(
        exception,
        "javax.security.sasl.SaslException: GSS initiate failed"
    );
    // A message that is null.
    let HandshakeError::Unauthenticated(error) = answer(b"\0\0\0\x01\0\0\0\x03a.B\xff\xff\xff\xff").await
    else {
        panic!("no refusal");
    };
    assert_eq!(error.exception().unwrap().message, "");
}

#[tokio::test]
async fn frame_instead_of_a_token_is_left_to_the_caller() {
    for bytes in [&b"\0\0\0\x93..."[..], b"\x10\0\0\0\0\0", b"\xff\xff\xff\xff\0\0"] {
        let error = answer(bytes).await;
        assert!(
            matches!(&error, HandshakeError::Frame(received) if received == bytes),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn silent_close_and_hostile_lengths_end_the_attempt() {
    for bytes in [
        &b""[..],
        b"\0\0\0",
        b"\0\0\0\0\0\0\0\x05abcd",
        b"\0\0\0\x01\0\0\0\x09",
    ] {
        let error = answer(bytes).await;
        assert!(matches!(error, HandshakeError::Stream(_)), "{error:?}");
    }
    for bytes in [
        b"\0\0\0\0\x7f\xff\xff\xff",
        b"\0\0\0\0\x80\0\0\0",
        b"\0\0\0\x01\x7f\xff\xff\xff",
    ] {
        let error = answer(bytes).await;
        assert!(matches!(error, HandshakeError::Message(_)), "{error:?}");
    }
}

#[tokio::test]
async fn bytes_that_no_server_sends_yet_are_refused() {
    let accepted = negotiate_with(steps([("b", Ok(Step::Last(Vec::new())))]), async |server| {
        expect(server, OPENING).await;
        server.write_all(b"\0\0\0\0\0\0\0\x01bx").await.unwrap();
        expect(server, b"\0\0\0\0").await;
    });
    let error = accepted.await.unwrap_err();
    assert!(matches!(error, HandshakeError::Message(_)), "{error:?}");
}

#[tokio::test]
async fn refusal_of_the_mechanism_ends_the_attempt() {
    let refused = steps([("b", Err(AuthenticationError::NoSecurity))]);
    let accepted = negotiate_with(refused, async |server| {
        expect(server, OPENING).await;
        server.write_all(b"\0\0\0\0\0\0\0\x01b").await.unwrap();
    });
    let error = accepted.await.unwrap_err();
    assert!(matches!(error, HandshakeError::Unauthenticated(_)), "{error:?}");
}

#[tokio::test]
async fn dropped_attempt_does_not_hold_a_thread_of_others() {
    for _ in 0..2 * BLOCKING_STEPS {
        let (mut ours, _theirs) = duplex(1 << 16);
        let attempt = negotiate(&mut ours, steps([]));
        assert!(timeout(Duration::from_millis(20), attempt).await.is_err());
    }
    let permits = timeout(
        Duration::from_secs(10),
        BLOCKING.acquire_many(BLOCKING_STEPS as u32),
    );
    assert!(permits.await.is_ok());
}
