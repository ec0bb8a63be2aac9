//! Services in the place of a gateway, late answers, and gateways that stop.

use std::time::Duration;

use hbase_local::LocalCluster;
use hbase_txn::{
    ClientErrorKind, Error, ErrorKind, Level,
    latch::WaitOutcome,
    thrift::{ThriftConnection, ThriftLatchManagerOptions, ThriftLockManagerOptions},
};

use super::{
    GATEWAY, connect_to, gateway, locks_of,
    parrot::{Answer, api_one, families, gateway_that, one_row, parrot, yes},
    port, try_lock,
};
use crate::support::{
    connect, eventually,
    forwarder::{Forwarder, nobody, stranger},
    latch_rows::latch_row,
    lock_rows::{FARM, lock_manager, lock_table},
    says, standalone, within,
};

const LEASE: Duration = Duration::from_secs(20);

/// The start of every message of the binary protocol; then "reply", the call's name and its number.
const REPLY: &[u8] = b"\x80\x01\x00\x02\x00\x00\x00\x13getThriftServerType\x00\x00\x00\x01";

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn server_that_is_no_gateway_is_named_at_once() {
    let _gateway = GATEWAY.read().await;
    let timeout = Duration::from_secs(2);
    let connect = async |port: u16, framed: bool| {
        let builder = ThriftConnection::builder(format!("127.0.0.1:{port}")).operation_timeout(timeout);
        let builder = if framed { builder.framed() } else { builder };
        within(timeout, builder.connect()).await.map(drop)
    };
    let reply = |rest: &[u8]| [REPLY, rest].concat();
    let exception = |kind: u8| {
        let mut answer = REPLY.to_vec();
        answer[3] = 3;
        [
            &answer[..],
            b"\x0b\x00\x01\x00\x00\x00\x02no\x08\x00\x02\x00\x00\x00",
            &[kind],
            b"\x00",
        ]
        .concat()
    };
    let cases: Vec<(&str, u16, &[ErrorKind])> = vec![
        (
            "nobody",
            nobody().await,
            &[ErrorKind::Client(ClientErrorKind::Unreachable)],
        ),
        (
            "an HTTP server",
            stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n").await,
            &[ErrorKind::Client(ClientErrorKind::Protocol)],
        ),
        (
            "somebody silent",
            stranger(b"").await,
            &[ErrorKind::Client(ClientErrorKind::DeadlineExceeded)],
        ),
        // HBase hangs up at the first bytes that it does not understand.
        (
            "HBase itself",
            standalone().status.ports["master"],
            &[
                ErrorKind::Client(ClientErrorKind::ConnectionLost),
                ErrorKind::Client(ClientErrorKind::Protocol),
                ErrorKind::Client(ClientErrorKind::DeadlineExceeded),
            ],
        ),
        (
            "a gateway of the second API",
            parrot(reply(b"\x08\x00\x00\x00\x00\x00\x02\x00")).await,
            &[ErrorKind::Client(ClientErrorKind::Protocol)],
        ),
        (
            "a name of two gigabytes",
            parrot(b"\x80\x01\x00\x02\x7f\xff\xff\xff".to_vec()).await,
            &[ErrorKind::Client(ClientErrorKind::Protocol)],
        ),
        (
            "a name of no length",
            parrot(b"\x80\x01\x00\x02\xff\xff\xff\xff".to_vec()).await,
            &[ErrorKind::Client(ClientErrorKind::Protocol)],
        ),
        (
            "a list of two thousand millions",
            parrot(reply(b"\x0f\x00\x07\x0c\x7f\xff\xff\xff")).await,
            &[ErrorKind::Client(ClientErrorKind::Protocol)],
        ),
        (
            "lists in lists in lists",
            parrot(reply(
                &[b"\x0f\x00\x07".to_vec(), b"\x0f\x00\x00\x00\x01".repeat(2_000)].concat(),
            ))
            .await,
            &[ErrorKind::Client(ClientErrorKind::Protocol)],
        ),
        (
            "a type that there is not",
            parrot(reply(b"\x63\x00\x00")).await,
            &[ErrorKind::Client(ClientErrorKind::Protocol)],
        ),
        (
            "the answer to another call",
            parrot(b"\x80\x01\x00\x02\x00\x00\x00\x0dgetTableNames\x00\x00\x00\x01\x00".to_vec()).await,
            &[ErrorKind::Client(ClientErrorKind::Protocol)],
        ),
        (
            "the answer to an earlier call",
            parrot(b"\x80\x01\x00\x02\x00\x00\x00\x13getThriftServerType\x00\x00\x00\x00\x00".to_vec()).await,
            &[ErrorKind::Client(ClientErrorKind::Protocol)],
        ),
        (
            "a gateway that fails",
            parrot(exception(6)).await,
            &[ErrorKind::Client(ClientErrorKind::Server)],
        ),
        (
            "something that answers every call alike",
            parrot(exception(1)).await,
            &[ErrorKind::Client(ClientErrorKind::Protocol)],
        ),
    ];
    for (what, port, kinds) in cases {
        let error = connect(port, false).await.expect_err(what);
        assert!(kinds.contains(&error.kind()), "{what}: {error:?}");
        says(
            &error,
            &[&format!("server 127.0.0.1:{port}"), "asking what the gateway is"],
        );
        assert!(!error.is_outcome_unknown(), "{what}: {error}");
    }
    let framed = |length: u32, message: &[u8]| [&length.to_be_bytes(), message].concat();
    let good = reply(b"\x08\x00\x00\x00\x00\x00\x01\x00");
    connect(
        parrot(framed(u32::try_from(good.len()).unwrap(), &good)).await,
        true,
    )
    .await
    .unwrap();
    for (what, answer) in [
        ("a frame of two gigabytes", framed(0x7FFF_FFFF, &good)),
        ("a frame that ends early", framed(12, &good)),
        ("an empty frame", framed(0, &good)),
    ] {
        let error = connect(parrot(answer).await, true).await.expect_err(what);
        assert_eq!(error.kind(), ClientErrorKind::Protocol, "{what}: {error}");
    }
    // More bytes than the answer. The rest is never taken for the next answer.
    let twice = parrot(good.repeat(2)).await;
    let gateway = connect_to(twice).await;
    let error = ThriftLockManagerOptions::new("c")
        .open(&gateway, "t")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Protocol, "{error}");
    // A gateway without framing misreads the frame's length.
    let error = connect(port(), true).await.unwrap_err();
    assert!(
        [
            ClientErrorKind::ConnectionLost,
            ClientErrorKind::Protocol,
            ClientErrorKind::DeadlineExceeded
        ]
        .map(ErrorKind::from)
        .contains(&error.kind()),
        "{error}"
    );
    for address in ["", "no host:9090", "127.0.0.1:0", "127.0.0.1:99999"] {
        ThriftConnection::connect(address).await.unwrap_err();
    }
    let none = ThriftConnection::builder("127.0.0.1")
        .connections(0)
        .connect()
        .await;
    assert_eq!(none.unwrap_err().kind(), ClientErrorKind::InvalidInput);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn a_late_answer_is_never_taken_for_that_to_another_call() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let table = lock_table(&connection, "thrift-late", 1, true).await;
    let forwarder = Forwarder::to(port()).await;
    // One connection, so that the next call could receive a late answer.
    let gateway = ThriftConnection::builder(format!("127.0.0.1:{}", forwarder.port))
        .connections(1)
        .operation_timeout(Duration::from_secs(5))
        .connect()
        .await
        .unwrap();
    let visitor = locks_of(&gateway, &table.name, "late", true).await;
    // A busy machine may take longer for any call, but no connection receives the answer to another
    // call.
    let unless_late = |error: Error| {
        let kinds = [ClientErrorKind::DeadlineExceeded, ClientErrorKind::Unreachable].map(ErrorKind::from);
        assert!(kinds.contains(&error.kind()), "{error:?}");
    };
    let asking = eventually("somebody impatient is served", async || {
        let impatient = ThriftConnection::builder(format!("127.0.0.1:{}", forwarder.port))
            .connections(1)
            .operation_timeout(Duration::from_millis(400));
        let impatient = impatient.connect().await.map_err(unless_late).ok()?;
        let options = ThriftLockManagerOptions::new("late")
            .farm(FARM)
            .without_java_clients();
        let asking = options.open(&impatient, table.name.clone()).await;
        asking.map_err(unless_late).ok()
    })
    .await;
    let held = try_lock(&visitor, "held", LEASE * 6).await.unwrap();
    for _ in 0..10 {
        forwarder.hold(true);
        // A read of the held lock. Its answer arrives when no task waits for it any more.
        let error = asking.show(Level::Dc, "held").await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded);
        assert!(!error.is_outcome_unknown());
        says(&error, &["127.0.0.1", "reading rows", &table.name.to_string()]);
        forwarder.hold(false);
        let show = async |id| {
            eventually("the gateway is heard again", async || {
                asking.show(Level::Dc, id).await.map_err(unless_late).ok()
            })
            .await
        };
        assert_eq!(show("free").await.holder, None);
        assert_eq!(show("held").await.holder.unwrap().token, Some(held.token()));
    }
    // A write with a lost answer may have been applied, and is released.
    forwarder.hold(true);
    let lost = asking
        .lock(Level::Dc, "lost")
        .unwrap()
        .ttl(LEASE)
        .acquire()
        .await
        .unwrap_err();
    assert!(lost.is_outcome_unknown(), "{lost}");
    forwarder.hold(false);
    let native = lock_manager(&connection, &table.name, "late").await;
    let _guard = eventually("what may have been won was given back", async || {
        native
            .lock(Level::Dc, "lost")
            .unwrap()
            .try_acquire()
            .await
            .unwrap()
    })
    .await;
    assert!(held.release().await.unwrap().is_released());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn killed_gateway_is_reported_and_used_again_when_it_returns() {
    let _alone = GATEWAY.write().await;
    let connection = connect().await;
    let table = lock_table(&connection, "thrift-killed", 1, false).await;
    let cluster = LocalCluster::new(&standalone().status.name).unwrap();
    let port = port();
    let gateway = gateway().await;
    let visitor = locks_of(&gateway, &table.name, "killed", false).await;
    let guard = try_lock(&visitor, "held", LEASE * 6).await.unwrap();
    // Several connections are idle when the gateway dies.
    let look = || visitor.show(Level::Dc, "held");
    futures::future::try_join_all((0..6).map(|_| look()))
        .await
        .unwrap();
    cluster.kill_thrift().await.unwrap();
    for _ in 0..8 {
        let error = look().await.unwrap_err();
        assert!(
            [ClientErrorKind::Unreachable, ClientErrorKind::ConnectionLost]
                .map(ErrorKind::from)
                .contains(&error.kind()),
            "{error:?}"
        );
        assert!(error.is_retryable() && !error.is_outcome_unknown(), "{error}");
        says(&error, &[&format!("127.0.0.1:{port}"), &table.name.to_string()]);
    }
    let refused = visitor
        .lock(Level::Dc, "other")
        .unwrap()
        .acquire()
        .await
        .unwrap_err();
    assert!(
        [ClientErrorKind::Unreachable, ClientErrorKind::ConnectionLost]
            .map(ErrorKind::from)
            .contains(&refused.kind()),
        "{refused:?}"
    );
    assert!(guard.is_held(), "the lease is HBase's, not the gateway's");
    let status = cluster.start_thrift().await.unwrap();
    assert_eq!(status.ports["thrift"], port);
    // The next calls succeed, on each of the connections that died.
    futures::future::try_join_all((0..6).map(|_| look()))
        .await
        .unwrap();
    // The same without calls in between.
    cluster.kill_thrift().await.unwrap();
    cluster.start_thrift().await.unwrap();
    futures::future::try_join_all((0..6).map(|_| look()))
        .await
        .unwrap();
    assert!(guard.release().await.unwrap().is_released());
    assert_eq!(connect_to(port).await.gateway().port, port);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn harmless_request_on_a_dying_connection_is_sent_again() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let table = lock_table(&connection, "thrift-dying", 1, true).await;
    let forwarder = Forwarder::to(port()).await;
    let gateway = ThriftConnection::builder(format!("127.0.0.1:{}", forwarder.port))
        .connections(1)
        .connect()
        .await
        .unwrap();
    let visitor = locks_of(&gateway, &table.name, "dying", true).await;
    assert_eq!(forwarder.accepted(), 1);
    forwarder.hang_up_at("getRowsWithColumns");
    assert_eq!(visitor.show(Level::Dc, "lock").await.unwrap().holder, None);
    assert_eq!(forwarder.accepted(), 2, "asked once more, on another one");
    forwarder.hang_up_at("checkAndPut");
    let request = visitor.lock(Level::Dc, "lock").unwrap().ttl(LEASE);
    let lost = request.try_acquire().await.unwrap_err();
    assert_eq!(lost.kind(), ClientErrorKind::ConnectionLost, "{lost:?}");
    assert!(lost.is_outcome_unknown(), "{lost}");
    // The request never reached the gateway.
    let guard = try_lock(&visitor, "lock", LEASE).await.unwrap();
    assert_eq!(forwarder.accepted(), 3);
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
async fn gateway_of_another_version_is_used_for_the_calls_it_knows() {
    for is_framed in [false, true] {
        let port = gateway_that(is_framed, |method, _| match method {
            "isTableEnabled" => yes(),
            "getColumnDescriptors" => families(&["D"]),
            _ => Answer::UnknownMethod,
        });
        let builder = ThriftConnection::builder(format!("127.0.0.1:{}", port.await));
        let builder = if is_framed { builder.framed() } else { builder };
        let gateway = builder.connect().await.unwrap();
        let locks = locks_of(&gateway, &"t".parse().unwrap(), "c", true).await;
        let request = locks.lock(Level::Dc, "lock").unwrap().ttl(LEASE);
        let error = request.try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Protocol, "{error:?}");
        assert!(!error.is_outcome_unknown(), "{error}");
        says(
            &error,
            &[
                "does not know the call",
                "checkAndPut",
                "of another version",
                "hbase thrift",
            ],
        );
    }
}

#[tokio::test]
async fn unrequested_row_is_not_taken_for_an_absent_one() {
    let port = gateway_that(false, |method, _| match method {
        "getThriftServerType" => api_one(),
        "isTableEnabled" => yes(),
        "getColumnDescriptors" => families(&["D"]),
        "getRowsWithColumns" => one_row(b"another", "D:L", b"M"),
        _ => Answer::UnknownMethod,
    });
    let gateway = connect_to(port.await).await;
    let locks = locks_of(&gateway, &"t".parse().unwrap(), "c", true).await;
    let error = locks.show(Level::Dc, "lock").await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Protocol, "{error:?}");
    says(
        &error,
        &[
            "a row that was not requested",
            "row another",
            "table t",
            "reading rows",
        ],
    );
}

#[tokio::test]
async fn waiter_is_notified_if_another_latch_is_unreadable() {
    let port = gateway_that(false, |method, arguments| match method {
        "getThriftServerType" => api_one(),
        "isTableEnabled" => yes(),
        "getColumnDescriptors" => families(&["C", "S"]),
        // The column of one farm, which is read by a separate call.
        "getRowsWithColumns" if arguments.windows(11).any(|part| part == b"C:count_fra") => {
            one_row(&latch_row("svc", "job"), "C:count_fra", &0_u64.to_be_bytes())
        }
        _ => Answer::HangUp,
    });
    let gateway = connect_to(port.await).await;
    let latches = ThriftLatchManagerOptions::new("svc", "fra");
    let latches = latches.open(&gateway, "t").await.unwrap();
    let (one, all) = [Level::Dc, Level::Xdc]
        .map(|level| latches.latch(level, "job").unwrap())
        .into();
    let patience = Duration::from_secs(2);
    let (one, all) = tokio::join!(one.wait(patience), all.wait(patience));
    assert_eq!(one.unwrap(), WaitOutcome::Reached);
    assert_eq!(all.unwrap_err().kind(), ClientErrorKind::DeadlineExceeded);
}
