//! What may stand where a gateway should, answers that come late, and gateways that end.

use std::time::Duration;

use hbase_txn::{ErrorKind, Level, ThriftConnection, ThriftLockManagerOptions, local::LocalCluster};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{GATEWAY, connect_to, gateway, locks_of, port, try_lock};
use crate::support::{
    connect, eventually,
    forwarder::{Forwarder, nobody, stranger},
    lock_rows::{lock_manager, lock_table},
    says, standalone, within,
};

const LEASE: Duration = Duration::from_secs(20);

/// Every message of the binary protocol begins so; then "reply", the call's name and its number.
const REPLY: &[u8] = b"\x80\x01\x00\x02\x00\x00\x00\x13getThriftServerType\x00\x00\x00\x01";

/// Answers every request with the same bytes.
async fn parrot(answer: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut request = [0; 1024];
                while let Ok(1..) = client.read(&mut request).await {
                    if client.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn what_is_no_gateway_is_named_and_not_waited_for() {
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
        ("nobody", nobody().await, &[ErrorKind::Unreachable]),
        (
            "an HTTP server",
            stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n").await,
            &[ErrorKind::Protocol],
        ),
        (
            "somebody silent",
            stranger(b"").await,
            &[ErrorKind::DeadlineExceeded],
        ),
        // It hangs up at the first thing that it does not understand.
        (
            "HBase itself",
            standalone().status.ports["master"],
            &[
                ErrorKind::ConnectionLost,
                ErrorKind::Protocol,
                ErrorKind::DeadlineExceeded,
            ],
        ),
        (
            "a gateway of the second API",
            parrot(reply(b"\x08\x00\x00\x00\x00\x00\x02\x00")).await,
            &[ErrorKind::Protocol],
        ),
        (
            "a name of two gigabytes",
            parrot(b"\x80\x01\x00\x02\x7f\xff\xff\xff".to_vec()).await,
            &[ErrorKind::Protocol],
        ),
        (
            "a name of no length",
            parrot(b"\x80\x01\x00\x02\xff\xff\xff\xff".to_vec()).await,
            &[ErrorKind::Protocol],
        ),
        (
            "a list of two thousand millions",
            parrot(reply(b"\x0f\x00\x07\x0c\x7f\xff\xff\xff")).await,
            &[ErrorKind::Protocol],
        ),
        (
            "lists in lists in lists",
            parrot(reply(
                &[b"\x0f\x00\x07".to_vec(), b"\x0f\x00\x00\x00\x01".repeat(2_000)].concat(),
            ))
            .await,
            &[ErrorKind::Protocol],
        ),
        (
            "a type that there is not",
            parrot(reply(b"\x63\x00\x00")).await,
            &[ErrorKind::Protocol],
        ),
        (
            "the answer to another call",
            parrot(b"\x80\x01\x00\x02\x00\x00\x00\x0dgetTableNames\x00\x00\x00\x01\x00".to_vec()).await,
            &[ErrorKind::Protocol],
        ),
        (
            "the answer to an earlier call",
            parrot(b"\x80\x01\x00\x02\x00\x00\x00\x13getThriftServerType\x00\x00\x00\x00\x00".to_vec()).await,
            &[ErrorKind::Protocol],
        ),
        (
            "a gateway that fails",
            parrot(exception(6)).await,
            &[ErrorKind::Server],
        ),
        (
            "something that answers every call alike",
            parrot(exception(1)).await,
            &[ErrorKind::Protocol],
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
        assert_eq!(error.kind(), ErrorKind::Protocol, "{what}: {error}");
    }
    // More than the answer: what is left over is never taken for the next one.
    let twice = parrot(good.repeat(2)).await;
    let gateway = connect_to(twice).await;
    let error = ThriftLockManagerOptions::new("c")
        .open(&gateway, "t".parse().unwrap())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    // A gateway without frames takes them for something else.
    let error = connect(port(), true).await.unwrap_err();
    assert!(
        [
            ErrorKind::ConnectionLost,
            ErrorKind::Protocol,
            ErrorKind::DeadlineExceeded
        ]
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
    assert_eq!(none.unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_is_never_taken_for_that_to_another_call() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let table = lock_table(&connection, "thrift-late", 1, true).await;
    let forwarder = Forwarder::to(port()).await;
    // One connection, so that a late answer would find the next call on it.
    let gateway = ThriftConnection::builder(format!("127.0.0.1:{}", forwarder.port))
        .connections(1)
        .operation_timeout(Duration::from_secs(5))
        .connect()
        .await
        .unwrap();
    let visitor = locks_of(&gateway, &table.name, "late", true).await;
    let impatient = ThriftConnection::builder(format!("127.0.0.1:{}", forwarder.port))
        .connections(1)
        .operation_timeout(Duration::from_millis(400))
        .connect()
        .await
        .unwrap();
    let asking = locks_of(&impatient, &table.name, "late", true).await;
    let held = try_lock(&visitor, "held", LEASE).await.unwrap();
    for _ in 0..10 {
        forwarder.hold(true);
        // Of the lock that is held: its answer comes when nobody waits for it any more.
        let error = asking.show(Level::Dc, "held").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
        assert!(!error.is_outcome_unknown());
        says(&error, &["127.0.0.1", "reading rows", &table.name.to_string()]);
        forwarder.hold(false);
        let free = eventually("the gateway is heard again", async || {
            asking.show(Level::Dc, "free").await.ok()
        })
        .await;
        assert_eq!(free.holder, None);
        let info = asking.show(Level::Dc, "held").await.unwrap();
        assert_eq!(info.holder.unwrap().token, Some(held.token()));
    }
    // A write whose answer is lost may have been done, and is given back.
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
async fn a_gateway_that_is_killed_is_told_and_served_again_when_it_is_back() {
    let _alone = GATEWAY.write().await;
    let connection = connect().await;
    let table = lock_table(&connection, "thrift-killed", 1, false).await;
    let cluster = LocalCluster::new(&standalone().status.name).unwrap();
    let port = port();
    let gateway = gateway().await;
    let visitor = locks_of(&gateway, &table.name, "killed", false).await;
    let guard = try_lock(&visitor, "held", LEASE * 6).await.unwrap();
    // Several connections wait for work when it dies.
    let look = || visitor.show(Level::Dc, "held");
    futures::future::try_join_all((0..6).map(|_| look()))
        .await
        .unwrap();
    cluster.kill_thrift().await.unwrap();
    for _ in 0..8 {
        let error = look().await.unwrap_err();
        assert!(
            [ErrorKind::Unreachable, ErrorKind::ConnectionLost].contains(&error.kind()),
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
        [ErrorKind::Unreachable, ErrorKind::ConnectionLost].contains(&refused.kind()),
        "{refused:?}"
    );
    assert!(guard.is_held(), "the lease is HBase's, not the gateway's");
    let status = cluster.start_thrift().await.unwrap();
    assert_eq!(status.ports["thrift"], port);
    // The next call works, on each of the connections that died.
    futures::future::try_join_all((0..6).map(|_| look()))
        .await
        .unwrap();
    assert!(guard.release().await.unwrap().is_released());
    assert_eq!(connect_to(port).await.gateway().port, port);
}
