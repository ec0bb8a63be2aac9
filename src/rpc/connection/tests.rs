use futures::{FutureExt, StreamExt, future::join_all, stream::FuturesUnordered};
use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::{
    error::ErrorKind,
    wire::{
        frame::{
            CONNECTION_CALL_ID, MAX_FRAME, encode_request,
            server_side::{answer, decode_request, refusal},
        },
        pb,
    },
};

const GREETING: &[u8] = b"greeting";
const MINUTE: Duration = Duration::from_secs(60);

/// The other end of the stream.
struct Server {
    stream: DuplexStream,
    greeted: bool,
}

fn connect(room: usize) -> (RpcConnection, Server) {
    let (ours, stream) = duplex(room);
    let connection = RpcConnection::start(Box::new(ours), Bytes::from_static(GREETING), 1 << 20);
    (
        connection,
        Server {
            stream,
            greeted: false,
        },
    )
}

fn text(name: &str) -> pb::NameBytesPair {
    pb::NameBytesPair {
        name: name.to_owned(),
        value: None,
    }
}

/// Asks with a text; the answer's text comes back.
async fn ask_until(
    connection: &RpcConnection,
    question: &str,
    deadline: Instant,
) -> Result<String, CallError> {
    let body = connection
        .call(deadline, |call_id| {
            let question = text(question);
            encode_request(call_id, "Get", &question, Bytes::new(), MINUTE, None, MAX_FRAME)
        })
        .await?;
    Ok(body.parse::<pb::NameBytesPair>().unwrap().name)
}

async fn ask(connection: &RpcConnection, question: &str) -> Result<String, CallError> {
    ask_until(connection, question, Instant::now() + MINUTE).await
}

impl Server {
    /// The next request's call id and text.
    async fn hear(&mut self) -> (u32, String) {
        if !self.greeted {
            let mut greeting = [0; GREETING.len()];
            self.stream.read_exact(&mut greeting).await.unwrap();
            assert_eq!(greeting, GREETING);
            self.greeted = true;
        }
        let length = self.stream.read_u32().await.unwrap();
        let mut head = length.to_be_bytes().to_vec();
        head.resize(4 + length as usize, 0);
        self.stream.read_exact(&mut head[4..]).await.unwrap();
        let (header, question, _) = decode_request(&RequestFrame {
            head: head.into(),
            cells: Bytes::new(),
        });
        let question: pb::NameBytesPair = prost::Message::decode(question).unwrap();
        (header.call_id.unwrap(), question.name)
    }

    async fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn answer(&mut self, call_id: u32, words: &str) {
        self.say(&answer(call_id, &text(words), b"")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_calls_in_flight_are_answered_in_any_order() {
    let (connection, mut server) = connect(256 << 10);
    let questions: Vec<String> = (0..1_000).map(|number| format!("question {number}")).collect();
    let calls = join_all(questions.iter().map(|question| ask(&connection, question)));
    let serve = async {
        let mut heard = Vec::new();
        for _ in &questions {
            heard.push(server.hear().await);
        }
        fastrand::shuffle(&mut heard);
        for (call_id, question) in heard {
            server.answer(call_id, &format!("answer to {question}")).await;
        }
    };
    let (answers, ()) = tokio::join!(calls, serve);
    for (question, answer) in questions.iter().zip(answers) {
        assert_eq!(answer.unwrap(), format!("answer to {question}"));
    }
    connection.drained().await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_time_out_or_are_dropped_disturb_no_other_and_their_answers_are_skipped() {
    let (connection, mut server) = connect(64 << 10);
    let patient = ask(&connection, "patient");
    let serve = async {
        let (patient, _) = server.hear().await;
        let (hasty, _) = server.hear().await;
        let (dropped, _) = server.hear().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        server.answer(hasty, "too late").await;
        server.answer(dropped, "to nobody").await;
        server.answer(4_000_000, "to a call that never was").await;
        server.answer(patient, "in time").await;
    };
    let impatient = async {
        let second = Duration::from_secs(1);
        let hasty = ask_until(&connection, "hasty", Instant::now() + second);
        let dropped = tokio::time::timeout(second, ask(&connection, "dropped"));
        let (hasty, dropped) = tokio::join!(hasty, dropped);
        assert!(dropped.is_err());
        match hasty {
            Err(CallError::Timeout { waited, sent: true }) => assert_eq!(waited, second),
            other => panic!("{other:?}"),
        }
    };
    let (patient, (), ()) = tokio::join!(patient, serve, impatient);
    assert_eq!(patient.unwrap(), "in time");
    assert!(connection.is_open());
    let again = async {
        let (call_id, _) = server.hear().await;
        server.answer(call_id, "again").await;
    };
    assert_eq!(tokio::join!(ask(&connection, "more"), again).0.unwrap(), "again");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_before_it_is_written_is_never_written_and_knows_it() {
    // The stream takes so little that the writer is stuck in the first request.
    let (connection, mut server) = connect(16);
    let mut first = Box::pin(ask(&connection, "first"));
    assert!(first.as_mut().now_or_never().is_none());
    tokio::task::yield_now().await;

    let mut dropped = Box::pin(ask(&connection, "dropped"));
    assert!(dropped.as_mut().now_or_never().is_none());
    drop(dropped);
    let soon = Instant::now() + Duration::from_secs(1);
    match ask_until(&connection, "late", soon).await {
        Err(CallError::Timeout { sent: false, .. }) => {}
        other => panic!("{other:?}"),
    }
    let serve = async {
        for expected in ["first", "last"] {
            let (call_id, question) = server.hear().await;
            assert_eq!(question, expected);
            server.answer(call_id, expected).await;
        }
    };
    let (first, last, ()) = tokio::join!(first, ask(&connection, "last"), serve);
    assert_eq!(
        (first.unwrap(), last.unwrap()),
        ("first".to_owned(), "last".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn when_the_stream_dies_every_call_learns_the_cause_and_whether_it_was_sent() {
    let (connection, server) = connect(16);
    let mut calls: FuturesUnordered<_> = ["sent", "queued", "queued too"]
        .into_iter()
        .map(|question| {
            let call = ask(&connection, question);
            async move { (question, call.await) }
        })
        .collect();
    assert!(calls.next().now_or_never().is_none());
    tokio::task::yield_now().await;
    // What came after the writer had begun is still in the queue.
    let mut later = Box::pin(ask(&connection, "later"));
    assert!(later.as_mut().now_or_never().is_none());
    drop(server);
    while let Some((question, result)) = calls.next().await {
        match result {
            Err(CallError::Lost { sent: true, .. }) => {}
            other => panic!("{question}: {other:?}"),
        }
    }
    match later.await {
        Err(CallError::Lost { sent: false, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(!connection.is_open());
    // So does one that comes too late.
    match ask(&connection, "too late").await {
        Err(CallError::Lost { sent: false, .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[rstest]
#[case::oversized(b"\x7f\xff\xff\xff")]
#[case::over_the_limit(b"\x00\x10\x00\x01")]
#[case::negative(b"\xff\xff\xff\xff")]
#[case::endless_varint(b"\x00\x00\x00\x06\xff\xff\xff\xff\xff\xff")]
#[case::header_past_the_frame(b"\x00\x00\x00\x02\x7f\x08")]
#[case::wrong_wire_type(b"\x00\x00\x00\x03\x02\x0b\x00")]
#[case::no_call_id(b"\x00\x00\x00\x02\x00\x00")]
#[case::empty_frame(b"\x00\x00\x00\x00")]
#[case::text(b"HTTP/1.1 400 Bad Request\r\n\r\n")]
#[tokio::test(start_paused = true)]
async fn what_is_no_frame_ends_the_connection_and_every_call_learns_it(#[case] bytes: &[u8]) {
    let (connection, mut server) = connect(64 << 10);
    let serve = async {
        server.hear().await;
        server.hear().await;
        server.say(bytes).await;
    };
    let (one, two, ()) = tokio::join!(ask(&connection, "one"), ask(&connection, "two"), serve);
    for result in [one, two] {
        match result {
            Err(error @ CallError::Garbled { sent: true, .. }) => {
                assert_eq!(error.into_error().kind(), ErrorKind::Protocol);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(!connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn random_bytes_never_hang_a_call_or_make_it_panic() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(100).collect();
        let (connection, mut server) = connect(64 << 10);
        let serve = async {
            server.hear().await;
            server.say(&bytes).await;
            drop(server);
        };
        let (result, ()) = tokio::join!(ask(&connection, "anything"), serve);
        result.unwrap_err();
        assert!(!connection.is_open());
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_is_cut_off_is_a_lost_connection() {
    let (connection, mut server) = connect(64 << 10);
    let serve = async {
        let (call_id, _) = server.hear().await;
        let whole = answer(call_id, &text("a long enough answer"), b"");
        server.say(&whole[..whole.len() - 3]).await;
        drop(server);
    };
    let (result, ()) = tokio::join!(ask(&connection, "anything"), serve);
    assert!(
        matches!(result, Err(CallError::Lost { sent: true, .. })),
        "{result:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_exception_about_the_connection_is_everyones_and_names_what_the_cluster_wants() {
    let (connection, mut server) = connect(64 << 10);
    let serve = async {
        server.hear().await;
        server.hear().await;
        let class = "org.apache.hadoop.hbase.security.AccessDeniedException";
        let trace = format!("{class}: Authentication is required");
        server.say(&refusal(CONNECTION_CALL_ID, class, &trace)).await;
    };
    let (one, two, ()) = tokio::join!(ask(&connection, "one"), ask(&connection, "two"), serve);
    for result in [one, two] {
        let error = result.unwrap_err().into_error();
        assert_eq!(error.kind(), ErrorKind::AuthenticationRequired);
        for part in ["Authentication is required", "Kerberos"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
    assert!(!connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn an_exception_about_a_connection_that_was_in_use_leaves_open_what_was_done() {
    let (connection, mut server) = connect(64 << 10);
    let serve = async {
        let (call_id, _) = server.hear().await;
        server.answer(call_id, "accepted").await;
        server.hear().await;
        let class = "org.apache.hadoop.hbase.ipc.FatalConnectionException";
        server
            .say(&refusal(CONNECTION_CALL_ID, class, &format!("{class}: no more")))
            .await;
    };
    let calls = async {
        ask(&connection, "first").await.unwrap();
        ask(&connection, "second").await
    };
    let (result, ()) = tokio::join!(calls, serve);
    let error = result.unwrap_err();
    assert!(matches!(error, CallError::Lost { sent: true, .. }), "{error:?}");
    let text = error.into_error().to_string();
    assert!(text.contains("FatalConnectionException: no more"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn closing_ends_calls_in_flight_as_lost_and_refuses_new_ones() {
    let (connection, mut server) = connect(64 << 10);
    let mut call = Box::pin(ask(&connection, "in flight"));
    assert!(call.as_mut().now_or_never().is_none());
    server.hear().await;
    assert!(connection.drained().now_or_never().is_none());
    connection.close();
    let result = call.await;
    assert!(
        matches!(result, Err(CallError::Lost { sent: true, .. })),
        "{result:?}"
    );
    let result = ask(&connection, "new").await;
    assert!(matches!(result, Err(CallError::Closed)), "{result:?}");
    connection.drained().await;
}
