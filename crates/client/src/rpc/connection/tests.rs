use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures::{FutureExt, StreamExt, future::join_all, stream::FuturesUnordered};
use rstest::rstest;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};

use crate::{
    error::ErrorKind,
    rpc::connection::*,
    wire::{
        frame::{
            CONNECTION_CALL_ID, MAX_FRAME, RequestOptions, encode_request,
            server_side::{answer, decode_request, refusal},
        },
        pb,
    },
};

const GREETING: &[u8] = b"greeting";
const MINUTE: Duration = Duration::from_secs(60);
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// The other end of the stream.
struct Server {
    stream: DuplexStream,
    greeted: bool,
}

fn start(io: impl Io, sealed: bool) -> RpcConnection {
    let link = Link {
        io: Box::new(io),
        sealed,
        is_private: false,
        liveness: Arc::new(Liveness::new()),
        idle_timeout: IDLE_TIMEOUT,
    };
    let greeting = Bytes::from_static(GREETING);
    RpcConnection::start(link, Service::Client, greeting, 1 << 20)
}

fn connect(room: usize) -> (RpcConnection, Server) {
    let (ours, stream) = duplex(room);
    let connection = start(ours, false);
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

/// Sends a text as a request, and returns the text of the answer.
async fn ask_until(
    connection: &RpcConnection,
    question: &str,
    deadline: Instant,
) -> Result<String, CallError> {
    let limit = AttemptLimit::new(deadline, false);
    ask_within(connection, question, limit).await
}

async fn ask_within(
    connection: &RpcConnection,
    question: &str,
    limit: AttemptLimit,
) -> Result<String, CallError> {
    let body = connection
        .call(&limit, |call_id| {
            let question = text(question);
            let options = RequestOptions {
                timeout: MINUTE,
                ..RequestOptions::default()
            };
            encode_request(call_id, "Get", &question, Bytes::new(), options, MAX_FRAME)
        })
        .await?;
    Ok(body.parse::<pb::NameBytesPair>().unwrap().name)
}

async fn ask(connection: &RpcConnection, question: &str) -> Result<String, CallError> {
    ask_until(connection, question, Instant::now() + MINUTE).await
}

impl Server {
    /// Returns the next request's call id and text.
    async fn hear(&mut self) -> (u32, String) {
        let (call_id, question) = self.hear_frame().await;
        let question: pb::NameBytesPair = prost::Message::decode(question).unwrap();
        (call_id, question.name)
    }

    /// Returns the call id of the next request, which is a ping.
    async fn hear_ping(&mut self) -> u32 {
        let (call_id, ping) = self.hear_frame().await;
        let ping: pb::GetRequest = prost::Message::decode(ping).unwrap();
        assert_eq!(ping.get.row, "ping");
        call_id
    }

    /// Reads as much as the stream has room for after each pause, this many times or until a
    /// request is complete.
    async fn hear_slowly(&mut self, pause: Duration, times: usize) -> Option<u32> {
        let mut bytes = BytesMut::new();
        for _ in 0..times {
            tokio::time::sleep(pause).await;
            self.stream.read_buf(&mut bytes).await.unwrap();
            let frame = bytes.get(GREETING.len()..).unwrap_or_default();
            let length = frame.first_chunk::<4>().map(|length| u32::from_be_bytes(*length));
            if length.is_some_and(|length| frame.len() == 4 + length as usize) {
                let head = bytes.split_off(GREETING.len()).freeze();
                let cells = Bytes::new();
                return decode_request(&RequestFrame { head, cells }).0.call_id;
            }
        }
        None
    }

    async fn hear_frame(&mut self) -> (u32, Bytes) {
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
        (header.call_id.unwrap(), question)
    }

    async fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn answer(&mut self, call_id: u32, words: &str) {
        self.say(&answer(call_id, &text(words), b"")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn call_for_the_process_of_an_older_connection_is_not_sent() {
    let located = Instant::now();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let (connection, mut server) = connect(1 << 10);
    let ask_located_at = |connected_before| {
        let limit = AttemptLimit {
            connected_before: Some(connected_before),
            ..AttemptLimit::new(Instant::now() + MINUTE, false)
        };
        ask_within(&connection, "anyone", limit)
    };
    let refused = ask_located_at(located).await;
    assert!(matches!(refused, Err(CallError::NewConnection)), "{refused:?}");
    let serve = async {
        let (call_id, _) = server.hear().await;
        // It is the first call that was sent.
        assert_eq!(call_id, 0);
        server.answer(call_id, "here").await;
    };
    let (answer, ()) = tokio::join!(ask_located_at(Instant::now()), serve);
    assert_eq!(answer.unwrap(), "here");
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
async fn dropped_and_expired_calls_disturb_no_other_call() {
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
async fn call_that_ends_before_its_write_is_never_written() {
    // The stream accepts so little that the writer is stuck in the first request.
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
async fn dead_stream_reports_the_cause_and_whether_a_call_was_sent() {
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
    // Requests after the start of the write are still in the queue.
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
    // So does a request that comes too late.
    match ask(&connection, "too late").await {
        Err(CallError::Lost { sent: false, .. }) => {}
        other => panic!("{other:?}"),
    }
}

/// Takes some bytes, and then fails.
struct Breaking {
    room: usize,
}

impl AsyncRead for Breaking {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Breaking {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        Poll::Ready(match taken {
            0 => Err(io::ErrorKind::ConnectionReset.into()),
            taken => Ok(taken),
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A stream with records may have sent them and report that it took nothing.
#[rstest]
#[tokio::test]
async fn partly_taken_request_counts_as_sent_only_if_sealed(#[values(false, true)] sealed: bool) {
    let stream = Breaking {
        room: GREETING.len() + 3,
    };
    let connection = start(stream, sealed);
    for result in join_all(["one", "other"].map(|question| ask(&connection, question))).await {
        match result {
            Err(CallError::Lost { sent, .. }) => assert_eq!(sent, sealed),
            other => panic!("{other:?}"),
        }
    }
}

#[rstest]
#[case::oversized(b"\x7f\xff\xff\xff\x02\x07\x01")]
#[case::negative(b"\xff\xff\xff\xff")]
#[case::endless_varint(b"\x00\x00\x00\x06\xff\xff\xff\xff\xff\xff")]
#[case::header_past_the_frame(b"\x00\x00\x00\x02\x7f\x08")]
#[case::wrong_wire_type(b"\x00\x00\x00\x03\x02\x0b\x00")]
#[case::no_call_id(b"\x00\x00\x00\x02\x00\x00")]
#[case::empty_frame(b"\x00\x00\x00\x00")]
#[case::text(b"HTTP/1.1 400 Bad Request\r\n\r\n")]
#[tokio::test(start_paused = true)]
async fn invalid_frame_ends_the_connection_for_all_calls(#[case] bytes: &[u8]) {
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
async fn too_large_answer_fails_its_own_call_only() {
    let (connection, mut server) = connect(64 << 10);
    let serve = async {
        let (large, _) = server.hear().await;
        let (small, _) = server.hear().await;
        server
            .say(&answer(large, &text("large"), &vec![0; 2 << 20]))
            .await;
        server.answer(small, "small").await;
    };
    let calls = async { tokio::join!(ask(&connection, "large"), ask(&connection, "small")) };
    let ((large, small), ()) = tokio::join!(calls, serve);
    assert_eq!(small.unwrap(), "small");
    let error = large.unwrap_err().into_error();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.hint().unwrap().contains("with_max_frame_size"), "{error}");
    assert!(connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn only_the_first_bytes_of_a_connection_are_taken_for_tls() {
    const RECORD: &[u8] = b"\x16\x03\x03";
    const PIECE: usize = 2 << 10;
    let (connection, mut server) = connect(64 << 10);
    let serve = async {
        let (large, _) = server.hear().await;
        let (write, _) = server.hear().await;
        let skipped = answer(large, &text("large"), &RECORD.repeat(1 << 20));
        let (begin, rest) = skipped.split_at(PIECE);
        let record = 3 + rest[3..].windows(3).position(|bytes| bytes == RECORD).unwrap();
        // Fewer bytes than are needed to tell, and then bytes that look like TLS.
        for piece in [
            begin,
            &rest[..record - 2],
            &rest[record - 2..record],
            &rest[record..],
        ] {
            server.say(piece).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.answer(write, "done").await;
    };
    let calls = async { tokio::join!(ask(&connection, "large"), ask(&connection, "write")) };
    let ((large, write), ()) = tokio::join!(calls, serve);
    assert!(
        matches!(large, Err(CallError::AnswerTooLarge { .. })),
        "{large:?}"
    );
    assert_eq!(write.unwrap(), "done");
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
async fn connection_exception_reaches_all_and_names_the_requirement() {
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
        for part in ["Authentication is required", "kerberos"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
    assert!(!connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn exception_on_a_used_connection_leaves_the_outcome_unknown() {
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

#[tokio::test]
async fn calls_of_another_runtime_end_with_that_of_the_connection() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let (connection, mut server) = {
        let _entered = runtime.enter();
        connect(64 << 10)
    };
    let shut_down = async {
        server.hear().await;
        runtime.shutdown_background();
    };
    let (result, ()) = tokio::join!(ask(&connection, "in flight"), shut_down);
    assert!(
        matches!(result, Err(CallError::RuntimeEnded { sent: true })),
        "{result:?}"
    );
    assert!(!connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn repeatable_call_ends_when_the_peer_does_not_answer_a_ping() {
    let (connection, mut server) = connect(64 << 10);
    let began = Instant::now();
    let limit = |repeatable| AttemptLimit::new(began + MINUTE, repeatable);
    let serve = async {
        server.hear().await;
        server.hear().await;
        server.hear_ping().await;
        server
    };
    let repeatable = async {
        let answer = ask_within(&connection, "repeatable", limit(true)).await;
        assert!(
            matches!(answer, Err(CallError::Timeout { sent: true, .. })),
            "{answer:?}"
        );
        assert_eq!(began.elapsed(), liveness::PATIENCE + PING_TIMEOUT);
        assert!(connection.is_silent(MINUTE) && connection.is_open());
    };
    // A call that must not be repeated keeps waiting.
    let other = ask_within(&connection, "not repeatable", limit(false));
    let (other, (), _server) = tokio::join!(other, repeatable, serve);
    assert!(matches!(other, Err(CallError::Timeout { .. })), "{other:?}");
    assert_eq!(began.elapsed(), MINUTE);
}

#[tokio::test(start_paused = true)]
async fn slow_answer_of_a_peer_that_answers_pings_is_waited_for() {
    let (connection, mut server) = connect(64 << 10);
    let began = Instant::now();
    let limit = AttemptLimit::new(began + MINUTE, true);
    let serve = async {
        let (slow, _) = server.hear().await;
        for _ in 0..3 {
            let ping = server.hear_ping().await;
            let class = "org.apache.hadoop.hbase.NotServingRegionException";
            server.say(&refusal(ping, class, class)).await;
        }
        server.answer(slow, "at last").await;
    };
    let (answer, ()) = tokio::join!(ask_within(&connection, "slow", limit), serve);
    assert_eq!(answer.unwrap(), "at last");
    assert_eq!(began.elapsed(), 3 * liveness::PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn slow_upload_of_a_repeatable_call_is_completed() {
    let (connection, mut server) = connect(64);
    let began = Instant::now();
    let limit = AttemptLimit::new(began + MINUTE, true);
    let serve = async {
        let pause = Duration::from_secs(2);
        let call_id = server.hear_slowly(pause, 20).await.unwrap();
        server.answer(call_id, "whole").await;
    };
    let question = "a long question ".repeat(50);
    let (answer, ()) = tokio::join!(ask_within(&connection, &question, limit), serve);
    assert_eq!(answer.unwrap(), "whole");
    assert!(began.elapsed() > 3 * (liveness::PATIENCE + PING_TIMEOUT));
}

#[tokio::test(start_paused = true)]
async fn peer_that_vanishes_during_an_upload_is_silent() {
    let (connection, mut server) = connect(64);
    let began = Instant::now();
    let limit = AttemptLimit::new(began + MINUTE, true);
    let pause = Duration::from_secs(2);
    let question = "a long question ".repeat(50);
    let serve = server.hear_slowly(pause, 5);
    let (answer, heard) = tokio::join!(ask_within(&connection, &question, limit), serve);
    assert_eq!(heard, None);
    assert!(matches!(answer, Err(CallError::Timeout { .. })), "{answer:?}");
    assert_eq!(began.elapsed(), 5 * pause + liveness::PATIENCE + PING_TIMEOUT);
    assert!(connection.is_silent(MINUTE));
}

#[tokio::test(start_paused = true)]
async fn idle_connection_is_pinged_before_an_unrepeatable_call() {
    let (connection, mut server) = connect(64 << 10);
    tokio::time::advance(IDLE - Duration::from_millis(1)).await;
    let connection = Arc::new(connection);
    assert!(connection.is_alive().await);
    tokio::time::advance(Duration::from_millis(1)).await;
    let serve = async {
        let ping = server.hear_ping().await;
        let class = "org.apache.hadoop.hbase.NotServingRegionException";
        server.say(&refusal(ping, class, class)).await;
    };
    // One ping for all calls that wait, although the one that sent it has gone.
    let mut gone = Box::pin(connection.is_alive());
    assert!(futures::poll!(&mut gone).is_pending());
    let mut stalled = Box::pin(connection.is_alive());
    assert!(futures::poll!(&mut stalled).is_pending());
    let wait = async {
        let waiting = [connection.is_alive(), connection.is_alive()];
        let mut waiting = waiting.map(Box::pin);
        for one in &mut waiting {
            assert!(futures::poll!(one).is_pending());
        }
        drop(gone);
        join_all(waiting).await
    };
    let (alive, ()) = tokio::join!(wait, serve);
    assert_eq!(alive, [true, true]);
    tokio::time::advance(IDLE - Duration::from_millis(1)).await;
    assert!(connection.is_alive().await);
    assert_eq!(connection.calls_in_flight(), 0);
    tokio::time::advance(Duration::from_millis(1)).await;
    // The answer to an old ping proves nothing.
    assert!(!connection.is_alive().await);
    assert!(stalled.await);
}

#[tokio::test(start_paused = true)]
async fn connection_without_calls_ends_after_the_idle_timeout() {
    let (connection, mut server) = connect(64 << 10);
    let serve = async {
        let (call_id, _) = server.hear().await;
        // The call is in flight for longer than the idle timeout.
        tokio::time::sleep(IDLE_TIMEOUT + MINUTE).await;
        server.answer(call_id, "late").await;
    };
    let deadline = Instant::now() + 10 * MINUTE;
    let (answered, ()) = tokio::join!(ask_until(&connection, "one", deadline), serve);
    assert_eq!(answered.unwrap(), "late");
    tokio::time::sleep(IDLE_TIMEOUT - Duration::from_secs(1)).await;
    assert!(connection.is_open());
    tokio::time::timeout(2 * IDLE_TIMEOUT, connection.closed())
        .await
        .unwrap();
    let refused = ask(&connection, "another").await;
    assert!(
        matches!(refused, Err(CallError::Lost { sent: false, .. })),
        "{refused:?}"
    );
}
