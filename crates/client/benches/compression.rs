//! The bytes and the time that the compression of cells costs or saves in a scan.
//!
//! `HBASE_URI=hbase+zk://… cargo bench -p hbase-client --features compression --bench compression`
//! writes a table of 20,000 rows of text, and scans it with each compression in turns, ten times.
//! It prints the median of the times, the bytes that arrived, and the ratio of each time to that
//! without compression in the same round.

#![allow(clippy::unwrap_used, reason = "a measurement may panic")]

use std::{
    env, io,
    pin::Pin,
    process,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use hbase_admin::Admin;
use hbase_client::{
    Compression, Config, Connection, Connector, DialTarget, FamilyDescriptor, Io, Mutation, Put, Scan, Table,
    TableDescriptor, TableName, TcpConnector,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const ROWS: usize = 20_000;
const ROUNDS: usize = 10;

/// Counts the bytes that arrive.
#[derive(Clone, Debug, Default)]
struct Counting(Arc<AtomicUsize>);

impl Connector for Counting {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (stream, counter) = (TcpConnector.connect(target), Arc::clone(&self.0));
        Box::pin(async move {
            let stream = stream.await?;
            Ok(Box::new(Counted { stream, counter }) as Box<dyn Io>)
        })
    }
}

struct Counted {
    stream: Box<dyn Io>,
    counter: Arc<AtomicUsize>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.counter
            .fetch_add(buffer.filled().len() - before, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A connection with a compression, and its measurements.
struct Subject {
    name: &'static str,
    table: Table,
    counter: Counting,
    times: Vec<Duration>,
    bytes: usize,
}

impl Subject {
    async fn connect(name: &'static str, compression: Option<Compression>, table: &TableName) -> Self {
        let counter = Counting::default();
        let connection = Connection::builder(config().with_compression(compression))
            .connector(counter.clone())
            .connect()
            .await
            .unwrap();
        Self {
            name,
            table: connection.table(table.clone()).unwrap(),
            counter,
            times: Vec::new(),
            bytes: 0,
        }
    }

    async fn scan(&mut self) {
        let before = self.counter.0.load(Ordering::Relaxed);
        let began = Instant::now();
        let mut rows = self.table.scan(Scan::new()).unwrap();
        let mut count = 0;
        while rows.next().await.unwrap().is_some() {
            count += 1;
        }
        self.times.push(began.elapsed());
        self.bytes = self.counter.0.load(Ordering::Relaxed) - before;
        assert_eq!(count, ROWS);
    }
}

fn config() -> Config {
    Config::from_uri(&env::var("HBASE_URI").unwrap()).unwrap()
}

fn median<T: PartialOrd + Copy>(mut numbers: Vec<T>) -> T {
    numbers.sort_by(|a, b| a.partial_cmp(b).unwrap());
    numbers[numbers.len() / 2]
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let name: TableName = format!("compression_{}", process::id()).parse().unwrap();
    let plain = Connection::builder(config()).connect().await.unwrap();
    let admin = Admin::new(&plain);
    let descriptor = TableDescriptor::from(name.clone()).with_family(FamilyDescriptor::new("f"));
    admin.create_table(&descriptor, &[]).await.unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    let rows = (0..ROWS).map(|number| {
        let value = format!(
            "{{\"order\":{number},\"customer\":\"{:08x}\",\"state\":\"{}\",\"lines\":[{}]}}",
            rng.u32(..),
            ["new", "paid", "sent"][rng.usize(..3)],
            "{\"article\":\"4711-0815\",\"count\":1,\"price\":\"19.99\"},".repeat(rng.usize(1..9)),
        );
        Mutation::from(Put::new(format!("{number:08}")).cell("f", "order", value))
    });
    let rows: Vec<_> = rows.collect();
    for result in plain.table(name.clone()).unwrap().mutate_many(rows).await {
        result.unwrap();
    }
    let mut subjects = Vec::new();
    for (what, compression) in [
        ("none", None),
        ("Snappy", Some(Compression::SNAPPY)),
        ("zlib", Some(Compression::ZLIB)),
        ("gzip", Some(Compression::GZIP)),
    ] {
        let mut subject = Subject::connect(what, compression, &name).await;
        subject.scan().await;
        subject.times.clear();
        subjects.push(subject);
    }
    for _ in 0..ROUNDS {
        for subject in &mut subjects {
            subject.scan().await;
        }
    }
    println!("{:8} {:>10} {:>12} {:>8}", "", "bytes", "median", "ratio");
    let base = subjects[0].times.clone();
    for subject in &subjects {
        let ratios = subject.times.iter().zip(&base);
        let ratios = ratios.map(|(time, base)| time.as_secs_f64() / base.as_secs_f64());
        let (time, ratio) = (median(subject.times.clone()), median(ratios.collect()));
        println!(
            "{:8} {:>10} {time:>12.1?} {ratio:>8.2}",
            subject.name, subject.bytes
        );
    }
    admin.disable_table(&name).await.unwrap();
    admin.delete_table(&name).await.unwrap();
}
