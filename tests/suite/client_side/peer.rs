//! Peers that send what HBase never would: the call fails in time, or the bytes are skipped.

use std::{path::Path, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use hbase_txn::{
    ClientErrorKind,
    client::{Config, Connection, TlsOptions},
};
use prost::Message;
use rstest::rstest;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::support::{hostile, says, within};

const DEADLINE: Duration = Duration::from_secs(2);

#[derive(Message)]
struct ResponseHeader {
    #[prost(uint32, optional, tag = "1")]
    call_id: Option<u32>,
    #[prost(message, optional, tag = "2")]
    exception: Option<Exception>,
}

#[derive(Message)]
struct Exception {
    #[prost(string, tag = "1")]
    class: String,
    #[prost(string, tag = "2")]
    trace: String,
}

#[derive(Message)]
struct RequestHeader {
    #[prost(uint32, tag = "1")]
    call_id: u32,
}

#[derive(Message)]
struct MetaLocations {
    #[prost(message, repeated, tag = "1")]
    locations: Vec<MetaLocation>,
}

#[derive(Message)]
struct MetaLocation {
    #[prost(message, tag = "1")]
    region: Option<Region>,
    #[prost(message, tag = "2")]
    server: Option<Server>,
}

#[derive(Message)]
struct Region {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, tag = "2")]
    table: Option<TableName>,
}

#[derive(Message)]
struct TableName {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(string, tag = "2")]
    qualifier: String,
}

#[derive(Message)]
struct Server {
    #[prost(string, tag = "1")]
    host: String,
    #[prost(uint32, tag = "2")]
    port: u32,
}

fn frame(call_id: u32, exception: Option<Exception>, message: Option<&[u8]>) -> Bytes {
    let header = ResponseHeader {
        call_id: Some(call_id),
        exception,
    };
    let mut body = header.encode_length_delimited_to_vec();
    if let Some(message) = message {
        prost::encode_length_delimiter(message.len(), &mut body).unwrap();
        body.put_slice(message);
    }
    let mut out = BytesMut::new();
    out.put_u32(body.len().try_into().unwrap());
    out.put_slice(&body);
    out.freeze()
}

fn exception(call_id: u32, class: &str, message: &str) -> Bytes {
    let exception = Exception {
        class: class.to_owned(),
        trace: format!("{class}: {message}\n\tat a.B.c(B.java:1)"),
    };
    frame(call_id, Some(exception), None)
}

/// The answer of a working registry.
fn meta_location(call_id: u32) -> Bytes {
    let answer = MetaLocations {
        locations: vec![MetaLocation {
            region: Some(Region {
                id: 1,
                table: Some(TableName {
                    namespace: "hbase".into(),
                    qualifier: "meta".into(),
                }),
            }),
            server: Some(Server {
                host: "127.0.0.1".into(),
                port: 1,
            }),
        }],
    };
    frame(call_id, None, Some(&answer.encode_to_vec()))
}

/// Accepts connections, reads one request from each, and sends `words` of the call's id.
async fn peer(words: impl Fn(u32) -> Bytes + Send + Sync + 'static, stay: bool) -> Config {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let Ok(call_id) = request(&mut stream).await else {
                continue;
            };
            // The client may hang up in the middle of it.
            let _ = stream.write_all(&words(call_id)).await;
            if stay {
                let mut rest = [0; 64];
                while let Ok(1..) = stream.read(&mut rest).await {}
            }
        }
    });
    Config::from_uri(&format!("hbase+rpc://127.0.0.1:{port}"))
        .unwrap()
        .with_registry_timeout(DEADLINE)
}

/// Reads the preamble, the connection header and a request, and returns the request's call id.
async fn request(stream: &mut TcpStream) -> std::io::Result<u32> {
    let mut preamble = [0; 6];
    stream.read_exact(&mut preamble).await?;
    assert_eq!(&preamble, b"HBas\x00\x50");
    let mut frames = Vec::new();
    for _ in 0..2 {
        let length = stream.read_u32().await?;
        let mut frame = vec![0; length as usize];
        stream.read_exact(&mut frame).await?;
        frames.push(frame);
    }
    let header = RequestHeader::decode_length_delimited(&frames[1][..]).unwrap();
    Ok(header.call_id)
}

async fn refused(config: Config) -> hbase_client::Error {
    let error = within(DEADLINE, Connection::builder(config).connect())
        .await
        .unwrap_err();
    says(
        &error,
        &["finding hbase:meta", "127.0.0.1:", "stage: ", "attempt "],
    );
    let text = error.to_string();
    assert!(text.len() < 1_000, "{text}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
    error
}

#[rstest]
#[case::oversized(b"\x7f\xff\xff\xff\x00\x00", "2147483647 bytes was announced")]
#[case::negative(b"\xff\xff\xff\xfe", "negative length was announced: -2")]
#[case::wrong_varint(b"\x00\x00\x00\x08\xff\xff\xff\xff\xff\xff\xff\xff", "protocol")]
#[case::header_past_the_frame(b"\x00\x00\x00\x02\x7f\x08", "does not fit into its frame")]
#[case::web_page(b"HTTP/1.1 400 Bad Request\r\n\r\n", "1213486160 bytes was announced")]
#[tokio::test]
async fn invalid_frame_is_named_and_not_retried(
    #[case] bytes: &'static [u8],
    #[case] why: &str,
    #[values(false, true)] stay: bool,
) {
    let error = refused(peer(move |_| Bytes::from_static(bytes), stay).await).await;
    assert_eq!(error.kind(), ClientErrorKind::Protocol, "{error}");
    says(&error, &[why, "attempt 1", "an HBase RPC port"]);
}

#[tokio::test]
async fn a_frame_that_is_cut_off_is_a_lost_connection_and_tried_again() {
    let cut = |call_id| meta_location(call_id).slice(..20);
    let error = refused(peer(cut, false).await).await;
    assert_eq!(error.kind(), ClientErrorKind::ConnectionLost, "{error}");
    assert!(error.attempts().unwrap() > 1);
}

#[tokio::test]
async fn a_frame_that_never_ends_is_silence() {
    let cut = |call_id| meta_location(call_id).slice(..20);
    let error = refused(peer(cut, true).await).await;
    assert_eq!(error.kind(), ClientErrorKind::Unreachable, "{error}");
}

#[tokio::test]
async fn answers_without_a_call_are_skipped() {
    let words = |call_id: u32| {
        let mut words = BytesMut::new();
        for stranger in [call_id + 1, 77, u32::MAX - 1] {
            words.put_slice(&meta_location(stranger));
            words.put_slice(&exception(stranger, "java.io.IOException", "not yours"));
        }
        words.put_slice(&meta_location(call_id));
        words.freeze()
    };
    within(DEADLINE, Connection::builder(peer(words, true).await).connect())
        .await
        .unwrap();
}

#[tokio::test]
async fn an_answer_that_is_no_message_is_named() {
    let error = refused(peer(|call_id| frame(call_id, None, Some(b"\x0a\x7f")), true).await).await;
    assert_eq!(error.kind(), ClientErrorKind::Protocol, "{error}");
    says(&error, &["can't be read"]);
}

#[rstest]
#[case::authentication(
    "security.AccessDeniedException",
    "Authentication is required",
    ClientErrorKind::AuthenticationRequired,
    "kerberos"
)]
#[case::bad_auth(
    "ipc.BadAuthException",
    "no such auth",
    ClientErrorKind::AuthenticationRequired,
    "SIMPLE"
)]
#[case::service(
    "ipc.UnknownServiceException",
    "ClientMetaService",
    ClientErrorKind::Protocol,
    "ClientMetaService"
)]
#[case::fatal(
    "ipc.FatalConnectionException",
    "Expected HEADER=",
    ClientErrorKind::Protocol,
    "Expected HEADER"
)]
#[tokio::test]
async fn connection_exception_is_final_and_names_the_requirement(
    #[case] class: &'static str,
    #[case] message: &'static str,
    #[case] kind: ClientErrorKind,
    #[case] hint: &str,
) {
    let words = move |_| exception(u32::MAX, &format!("org.apache.hadoop.hbase.{class}"), message);
    let error = refused(peer(words, false).await).await;
    assert_eq!(error.kind(), kind, "{error}");
    says(&error, &[message, hint, "attempt 1"]);
}

#[tokio::test]
async fn a_server_with_a_lot_to_say_is_quoted_briefly() {
    let long = |call_id| {
        let class = "org.apache.hadoop.hbase.DoNotRetryIOException";
        exception(call_id, class, &"blah ".repeat(10_000))
    };
    let error = refused(peer(long, true).await).await;
    assert!(error.remote().unwrap().message.len() > 40_000);
}

/// What a peer says is printed on terminals and in logs.
#[tokio::test]
async fn control_characters_of_a_server_are_escaped() {
    const CONTROLS: &str = "\x1b[2J\x1b]0;x\x07\u{9b}1m";
    let hostile = |call_id| {
        exception(
            call_id,
            &format!("a.{CONTROLS}Exception"),
            &format!("{CONTROLS} no\r"),
        )
    };
    let error = refused(peer(hostile, true).await).await;
    let remote = error.remote().unwrap();
    assert!(remote.class.contains(CONTROLS), "programs get it as it is");
    says(&error, &[r"\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}1mException"]);
}

/// Asserts that neither an error nor one of its causes controls a terminal. Returns whether the error
/// quotes the peer.
fn harmless(error: &hbase_client::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        for text in [error.to_string(), format!("{error:?}")] {
            assert_eq!(text.chars().find(|c| c.is_control()), None, "{text:?}");
        }
        cause = error.source();
    }
    error.to_string().contains(r"\u{1b}[2J")
}

#[tokio::test]
async fn errors_of_a_hostile_zookeeper_control_no_terminal() {
    let mut quoted = 0;
    for port in hostile::zookeepers() {
        let config = Config::from_uri(&format!("hbase+zk://127.0.0.1:{port}/hbase")).unwrap();
        let config = config
            .with_registry_timeout(DEADLINE)
            .with_operation_timeout(DEADLINE);
        // With a token, the id of the cluster is read too.
        let by_token = config.clone().with_delegation_tokens([hostile::token()]);
        for config in [config, by_token] {
            let connecting = Connection::builder(config).connect();
            quoted += u8::from(harmless(&within(2 * DEADLINE, connecting).await.unwrap_err()));
        }
    }
    // The name of a server, and the id of the cluster.
    assert_eq!(quoted, 2);
}

#[tokio::test]
async fn errors_of_a_hostile_authentication_control_no_terminal() {
    let mut quoted = 0;
    for port in hostile::refusing() {
        let config = Config::from_uri(&format!("hbase+rpc://127.0.0.1:{port}")).unwrap();
        let config = config
            .with_delegation_tokens([hostile::token()])
            .with_registry_timeout(DEADLINE)
            .with_operation_timeout(DEADLINE);
        let connecting = Connection::builder(config).connect();
        quoted += u8::from(harmless(&within(2 * DEADLINE, connecting).await.unwrap_err()));
    }
    // An error, and an exception in a frame.
    assert_eq!(quoted, 2);
}

#[tokio::test]
async fn random_bytes_are_an_error_in_time() {
    for seed in 0..30 {
        let words = move |_| {
            let mut random = fastrand::Rng::with_seed(seed);
            std::iter::repeat_with(|| random.u8(..)).take(200).collect()
        };
        let config = peer(words, false)
            .await
            .with_registry_timeout(Duration::from_millis(300));
        refused(config).await;
    }
}

/// The TLS alert that a TLS server sends for plain text, and for a greeting that it does not
/// accept.
const ALERT: &[u8] = b"\x15\x03\x03\x00\x02\x02\x28";

/// A server that accepts TLS only. HBase's closes other connections silently.
async fn tls_only(answers_all: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut first = [0; 3];
                client.read_exact(&mut first).await?;
                if answers_all || first[..2] == *b"\x16\x03" {
                    client.write_all(ALERT).await?;
                }
                std::io::Result::Ok(())
            });
        }
    });
    port
}

#[rstest]
#[tokio::test]
async fn server_that_speaks_tls_only_is_named(#[values(true, false)] answers_all: bool) {
    let port = tls_only(answers_all).await;
    let config = Config::from_uri(&format!("hbase+rpc://127.0.0.1:{port}")).unwrap();
    let connect = Connection::builder(config.with_operation_timeout(DEADLINE)).connect();
    let error = within(DEADLINE, connect).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::AuthenticationRequired, "{error}");
    says(
        &error,
        &["TLS", &port.to_string(), "hbase.client.netty.tls.enabled"],
    );
}

/// A server without TLS that answers an empty token, and closes other connections silently, as HBase
/// 3.0 does.
async fn plaintext_only(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut first = [0; 4];
            if client.read_exact(&mut first).await.is_ok() && first == *b"HBas" {
                let _ = client.write_all(answer).await;
            }
        }
    });
    port
}

#[rstest]
#[tokio::test]
async fn server_that_speaks_no_tls_is_named(
    #[values(b"\0\0\0\x01\0\0\0\0\0\0\0\0", b"\0\0\0\0\xff\xff\xff\xa8")] answer: &'static [u8],
) {
    let port = plaintext_only(answer).await;
    let trust = Path::new(env!("REPOSITORY")).join("crates/security/src/tls/fixtures/trust.p12");
    let config = Config::from_uri(&format!("hbase+rpc://127.0.0.1:{port}")).unwrap();
    let config = config.with_tls(Some(TlsOptions::new(trust, "changeit")));
    let connect = Connection::builder(config.with_operation_timeout(DEADLINE)).connect();
    let error = within(DEADLINE, connect).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Protocol, "{error}");
    let parts = [
        "does not speak TLS",
        "hbase.server.netty.tls.enabled",
        "attempt 1",
    ];
    says(&error, &parts);
}
