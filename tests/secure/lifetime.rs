//! Tickets that end, a KDC that does not answer, and keys that change, while calls go on.
//!
//! `KRB5_CONFIG` begins with a file that limits tickets to 20 seconds. With `HBASE_TXN_TEST_LONG` the
//! load lasts five minutes, and the KDC is away for 30 s; without, 25 s and 8 s.

use std::{
    env, fs, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures::{
    FutureExt,
    future::{BoxFuture, join, join_all},
};
use hbase_local::{BootOptions, LocalCluster};
use hbase_txn::{
    ClientErrorKind,
    client::{Config, Connection, Connector, DialTarget, Failure, Get, Io, Put, Table, TcpConnector},
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, duplex},
    time::{Sleep, sleep},
};

use super::{
    Cluster, config_of, is_long, on_kerberos,
    support::{
        eventually,
        table::{TestTable, by_three},
        value,
    },
};

/// Enough for a call that waits until the KDC answers again.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// The calls that are made at the same time.
const WORKERS: usize = 8;

/// Ends each connection after one to three seconds, and counts them.
#[derive(Clone, Debug, Default)]
pub(super) struct ShortConnections {
    pub(super) dials: Arc<AtomicUsize>,
}

impl Connector for ShortConnections {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        self.dials.fetch_add(1, Ordering::Relaxed);
        let dialled = TcpConnector.connect(target);
        let life = Duration::from_millis(fastrand::u64(1_000..3_000));
        let limited = dialled.map(move |stream| {
            Ok(Box::new(Limited {
                stream: stream?,
                end: Box::pin(sleep(life)),
            }) as Box<dyn Io>)
        });
        limited.boxed()
    }
}

/// A stream that fails when its time is over.
struct Limited {
    stream: Box<dyn Io>,
    end: Pin<Box<Sleep>>,
}

impl AsyncRead for Limited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.end.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Poll::Pending => Pin::new(&mut self.stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Limited {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Fails unless tickets end soon.
pub(super) fn needs_short_tickets() {
    let files = env::var("KRB5_CONFIG").unwrap_or_default();
    let first = files.split(':').next().unwrap_or_default();
    let text = fs::read_to_string(first).unwrap_or_default();
    assert!(
        text.contains("ticket_lifetime = 20s"),
        "KRB5_CONFIG={files}: run make test-secure"
    );
}

/// Returns a time of the long form, or of the short one.
pub(super) fn long_or(long: u64, short: u64) -> Duration {
    Duration::from_secs(if is_long() { long } else { short })
}

/// Writes and reads rows until the time is over. Each call may be sent again, and none may fail.
/// Returns the number of calls, and the longest time of one.
pub(super) async fn load(table: &Table, time: Duration) -> (usize, Duration) {
    let until = Instant::now() + time;
    let workers = (0..WORKERS).map(async |worker| {
        let (row, mut calls, mut longest) = (format!("xxx{worker}"), 0, Duration::ZERO);
        while Instant::now() < until {
            let began = Instant::now();
            let text = calls.to_string();
            let put = Put::new(row.clone())
                .cell("f", "q", text.clone())
                .timestamp(calls + 1);
            table.put(put).await.unwrap();
            assert_eq!(value(table, row.clone()).await, Some(text));
            longest = longest.max(began.elapsed());
            calls += 1;
        }
        (2 * calls as usize, longest)
    });
    let done = join_all(workers).await;
    let longest = done.iter().map(|(_, longest)| *longest).max().unwrap_or_default();
    (done.iter().map(|(calls, _)| calls).sum(), longest)
}

async fn connect(cluster: &Cluster, connector: &ShortConnections) -> Connection {
    let config = cluster.config().with_operation_timeout(PATIENCE);
    let builder = Connection::builder(config).connector(connector.clone());
    builder.connect().await.unwrap()
}

#[tokio::test]
async fn no_call_fails_while_tickets_end_and_connections_are_cut() {
    needs_short_tickets();
    on_kerberos(async |cluster| {
        let rows = TestTable::create_on(cluster, "tickets", by_three, &[]).await;
        let connector = ShortConnections::default();
        let connection = connect(cluster, &connector).await;
        let time = long_or(300, 25);
        let (calls, longest) = load(&rows.of(&connection), time).await;
        let dials = connector.dials.load(Ordering::Relaxed);
        println!(
            "{}: {calls} calls over {dials} connections in {time:?}, none failed; the longest two took {longest:?}",
            cluster.status.name
        );
        assert!(calls > 1_000 && dials > 7, "{calls} calls, {dials} connections");
    })
    .await;
}

#[tokio::test]
async fn calls_wait_for_a_kdc_that_is_away() {
    needs_short_tickets();
    on_kerberos(async |cluster| {
        let rows = TestTable::create_on(cluster, "kdc", by_three, &[]).await;
        let connector = ShortConnections::default();
        let connection = connect(cluster, &connector).await;
        let pids = LocalCluster::new(&cluster.status.name).unwrap().status().unwrap().pids;
        let kdc = Pid::from_raw(pids["kdc"]).unwrap();
        let (away, time) = (long_or(30, 8), long_or(40, 12));
        let suspension = async {
            kill_process(kdc, Signal::STOP).unwrap();
            sleep(away).await;
            kill_process(kdc, Signal::CONT).unwrap();
        };
        let table = rows.of(&connection);
        let ((calls, longest), ()) = join(load(&table, time), suspension).await;
        println!(
            "{}: {calls} calls while the KDC was away for {away:?}, none failed; the longest two took {longest:?}",
            cluster.status.name
        );
        let get = table.get(Get::new("xxx0")).await.unwrap();
        assert!(get.is_some());
    })
    .await;
}

/// Refuses the first connection by a forged error, and passes on the others.
#[derive(Debug, Default)]
struct Forging {
    dials: AtomicUsize,
}

impl Connector for Forging {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        if self.dials.fetch_add(1, Ordering::Relaxed) > 0 {
            return TcpConnector.connect(target);
        }
        let (ours, mut theirs) = duplex(1 << 16);
        tokio::spawn(async move {
            let _ = theirs.read(&mut [0; 1_024]).await;
            theirs.write_all(b"\0\0\0\x01\0\0\0\x03a.B\0\0\0\x06forged").await
        });
        async { Ok(Box::new(ours) as Box<dyn Io>) }.boxed()
    }
}

/// Connects, and reads a row.
async fn read(config: Config, connector: Forging) -> Result<Connection, Failure<ClientErrorKind>> {
    let connection = Connection::builder(config).connector(connector).connect().await?;
    connection.table("hbase:meta")?.get(Get::new("a")).await?;
    Ok(connection)
}

#[tokio::test]
async fn forged_refusal_costs_no_tickets_while_no_kdc_is_reached() {
    needs_short_tickets();
    on_kerberos(async |cluster| {
        // No other test has tickets of this user.
        let config = config_of(cluster, "alice").with_operation_timeout(Duration::from_secs(10));
        if config.tls().is_some() {
            // The forged answer is none of TLS, and is not read.
            return;
        }
        let connector = Forging {
            dials: AtomicUsize::new(1),
        };
        let first = read(config.clone(), connector).await.unwrap();
        // The library reads its configuration again when it has changed, at most once a second.
        let reaches_kdc = async |expected| {
            let what = format!("a KDC is reached: {expected}");
            let is_reached = async || (first.kdc_clock().await.is_ok() == expected).then_some(());
            eventually(&what, is_reached).await;
        };
        let conf = &cluster.status.environment["KRB5_CONFIG"];
        let before = fs::read_to_string(conf).unwrap();
        let kdc = format!(":{}", cluster.status.ports["kdc"]);
        fs::write(conf, before.replace(&kdc, ":1")).unwrap();
        reaches_kdc(false).await;
        let result = read(config, Forging::default()).await;
        fs::write(conf, &before).unwrap();
        reaches_kdc(true).await;
        result.unwrap();
    })
    .await;
}

#[tokio::test]
async fn client_goes_on_when_all_keys_change() {
    needs_short_tickets();
    on_kerberos(async |cluster| {
        let rows = TestTable::create_on(cluster, "keys", by_three, &[]).await;
        let connection = connect(cluster, &ShortConnections::default()).await;
        let table = rows.of(&connection);
        let put = |text: &'static str| Put::new("xxx1").cell("f", "q", text).timestamp(1);
        table.put(put("before")).await.unwrap();
        // The KDC makes new keys at each start.
        let local = LocalCluster::new(&cluster.status.name).unwrap();
        let keytab = local.folder().join("kerberos/keytab");
        let before = fs::read(&keytab).unwrap();
        local.down().await.unwrap();
        local.up(&BootOptions::new()).await.unwrap();
        assert_ne!(fs::read(&keytab).unwrap(), before);
        table.put(put("after")).await.unwrap();
        assert_eq!(value(&table, "xxx1").await.as_deref(), Some("after"));
    })
    .await;
}
