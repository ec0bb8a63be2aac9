//! What an operation may cost the client: allocations, calls of the operating system, and the size of
//! its future.
//!
//! The server is a fake one in another thread, on a port of this machine. So the counts are those of
//! the client, and nearly the same in each run. A budget is about 1.4 times the count when it was
//! set: a change that doubles the cost fails. Lower the budget when the cost falls.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll},
    thread,
};

use futures::future::{BoxFuture, join_all};
use hbase_fake::FakeHBase;
use hbase_txn::{
    PartitionedTable,
    client::{
        Config, Connection, Connector, DialTarget, Get, Io, Put, Scan, Table, TcpConnector, WriterOptions,
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    runtime::{Builder, Runtime},
    sync::oneshot,
};

const ROWS: usize = 1_000;
const VALUE: [u8; 100] = [b'v'; 100];
/// The number of tasks where operations are concurrent.
const TASKS: usize = 64;

/// A client in this thread, and a fake cluster in another one.
struct Bench {
    runtime: Runtime,
    connection: Connection,
    transfers: Transfers,
    _stop: oneshot::Sender<()>,
    _turn: MutexGuard<'static, ()>,
}

impl Bench {
    fn start() -> Self {
        // Tests that run at the same time would change how many answers one read returns.
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (stop, stopped) = oneshot::channel();
        let (sender, started) = mpsc::channel();
        thread::spawn(move || {
            runtime().block_on(async {
                let hbase = FakeHBase::builder().servers(1).listen().await.unwrap();
                hbase.create_table("plain", &["f"], &[]);
                hbase.create_partitioned_table("orders", &["f"], 3);
                sender.send(hbase.uri()).unwrap();
                drop(stopped.await);
            });
        });
        let config = Config::from_uri(&started.recv().unwrap()).unwrap();
        let (runtime, transfers) = (runtime(), Transfers::default());
        let builder = Connection::builder(config).connector(transfers.clone());
        Self {
            connection: runtime.block_on(builder.connect()).unwrap(),
            runtime,
            transfers,
            _stop: stop,
            _turn: turn,
        }
    }

    fn table(&self) -> Table {
        self.connection.table("plain").unwrap()
    }

    /// Returns the allocations and transfers of `count` operations after as many to warm up.
    fn measure(&self, count: usize, operations: impl AsyncFn()) -> Cost {
        self.runtime.block_on(operations());
        self.transfers.reset();
        let allocations = allocation_counter::measure(|| self.runtime.block_on(operations())).count_total;
        let each = |total: f64| total / count as f64;
        let (reads, writes) = self.transfers.counts();
        Cost {
            allocations: each(allocations as f64),
            reads: each(reads as f64),
            writes: each(writes as f64),
        }
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The cost of one operation.
#[derive(Debug)]
struct Cost {
    allocations: f64,
    reads: f64,
    writes: f64,
}

impl Cost {
    #[track_caller]
    fn assert_allocations_within(&self, budget: f64) {
        println!("{self:.2?}, budget {budget} allocations");
        assert!(self.allocations <= budget, "{self:.2?} of {budget} allocations");
    }
}

fn row(number: usize) -> String {
    format!("{:03}row{number:04}", number % TASKS)
}

fn put(number: usize) -> Put {
    Put::new(row(number)).cell("f", "q", &VALUE[..])
}

#[test]
fn put_stays_within_its_budget() {
    let bench = Bench::start();
    let table = bench.table();
    let cost = bench.measure(ROWS, async || {
        for number in 0..ROWS {
            table.put(put(number)).await.unwrap();
        }
    });
    cost.assert_allocations_within(20.0);
}

#[test]
fn get_stays_within_its_budget() {
    let bench = Bench::start();
    let table = bench.table();
    bench.runtime.block_on(table.put(put(1))).unwrap();
    let cost = bench.measure(ROWS, async || {
        for _ in 0..ROWS {
            assert!(table.get(Get::new(row(1))).await.unwrap().is_some());
        }
    });
    cost.assert_allocations_within(20.0);
}

#[test]
fn concurrent_puts_stay_within_their_budgets() {
    let bench = Bench::start();
    let table = bench.table();
    let cost = bench.measure(ROWS, async || {
        let task = async |task: usize| {
            for number in (task..ROWS).step_by(TASKS) {
                table.put(put(number)).await.unwrap();
            }
        };
        join_all((0..TASKS).map(task)).await;
    });
    cost.assert_allocations_within(20.0);
    assert!(cost.writes <= 0.1 && cost.reads <= 0.15, "{cost:.2?}");
}

#[test]
fn bulk_write_stays_within_its_budget() {
    let bench = Bench::start();
    let table = bench.table();
    let cost = bench.measure(ROWS, async || {
        let writer = table.writer(WriterOptions::new());
        for number in 0..ROWS {
            writer.write(put(number)).await.unwrap();
        }
        writer.flush().await.unwrap();
    });
    cost.assert_allocations_within(10.0);
}

#[test]
fn scanned_row_stays_within_its_budget() {
    let bench = Bench::start();
    let table = bench.table();
    let puts = (0..ROWS).map(put);
    let written = bench.runtime.block_on(table.mutate_many(puts));
    assert!(written.iter().all(Result::is_ok));
    let cost = bench.measure(ROWS, async || {
        let mut scanner = table.scan(Scan::new()).unwrap();
        while scanner.next().await.unwrap().is_some() {}
    });
    cost.assert_allocations_within(1.5);
}

#[test]
fn commits_stay_within_their_budgets() {
    const COMMITS: usize = 256;
    let bench = Bench::start();
    let orders = bench
        .runtime
        .block_on(PartitionedTable::open(&bench.connection, "orders"))
        .unwrap();
    let commit = async |partition: usize| {
        let mut transaction = orders.transaction(format!("{partition:03}"));
        for number in 0..10 {
            transaction = transaction.put(put(partition + number * TASKS));
        }
        assert!(transaction.commit().await.is_committed());
    };
    let alone = bench.measure(COMMITS, async || {
        for number in 0..COMMITS {
            commit(number % TASKS).await;
        }
    });
    alone.assert_allocations_within(140.0);
    let concurrent = bench.measure(COMMITS, async || {
        let task = async |task: usize| {
            for _ in 0..COMMITS / TASKS {
                commit(task).await;
            }
        };
        join_all((0..TASKS).map(task)).await;
    });
    concurrent.assert_allocations_within(125.0);
    assert!(
        concurrent.writes <= 0.1 && concurrent.reads <= 0.15,
        "{concurrent:.2?}"
    );
}

/// Each task that waits holds a future, and the futures around it move it. What is seldom awaited is
/// boxed where it is awaited.
#[test]
fn futures_stay_within_their_budgets() {
    let bench = Bench::start();
    let table = bench.table();
    let orders = bench
        .runtime
        .block_on(PartitionedTable::open(&bench.connection, "orders"))
        .unwrap();
    for (operation, size, budget) in [
        ("put", size_of_val(&table.put(put(1))), 3_500),
        ("get", size_of_val(&table.get(Get::new(row(1)))), 3_500),
        ("commit", size_of_val(&orders.transaction("000").commit()), 3_800),
    ] {
        println!("{operation}: {size} bytes, budget {budget}");
        assert!(size <= budget, "{operation}: {size} bytes of {budget}");
    }
}

/// Counts the reads and writes of connections over TCP.
#[derive(Clone, Debug, Default)]
struct Transfers {
    reads: Arc<AtomicUsize>,
    writes: Arc<AtomicUsize>,
}

impl Transfers {
    fn reset(&self) {
        self.reads.store(0, Ordering::Relaxed);
        self.writes.store(0, Ordering::Relaxed);
    }

    fn counts(&self) -> (usize, usize) {
        (
            self.reads.load(Ordering::Relaxed),
            self.writes.load(Ordering::Relaxed),
        )
    }
}

impl Connector for Transfers {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (connecting, transfers) = (TcpConnector.connect(target), self.clone());
        Box::pin(async move {
            let io = connecting.await?;
            Ok(Box::new(Counted { io, transfers }) as Box<dyn Io>)
        })
    }
}

struct Counted {
    io: Box<dyn Io>,
    transfers: Transfers,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.transfers.reads.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.transfers.writes.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.transfers.writes.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
