//! Futures dropped at every await point.

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};

use hbase_txn::{
    PartitionedTable,
    admin::Admin,
    client::{Connection, FamilyDescriptor, Get, Put, Scan, TableDescriptor},
};
use tokio::time::sleep;

use crate::{
    cluster::{FAMILY, PATIENCE, QUALIFIER, TestCluster, create_table, drop_table, until},
    history::{GroupId, check_whole, text},
    proxy::Proxy,
    settings::Settings,
};

/// Polls a future this many times and then drops it, unless it has completed: at once, so that its
/// request has not left, or when an answer may have arrived. Returns `None` if it was dropped.
async fn polled<F: Future>(times: usize, future: F) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), times);
    let output = poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        left -= 1;
        match left {
            0 => Poll::Ready(None),
            _ => Poll::Pending,
        }
    })
    .await;
    if output.is_none() && fastrand::bool() {
        sleep(Duration::from_millis(3)).await;
    }
    output
}

/// The largest number of connections of a client to three region servers: each region server as
/// such and as a registry, and the master as such and as a registry.
const MAX_CONNECTIONS: usize = 8;
/// More polls than any of these calls takes.
const ENOUGH: usize = 2_000;

struct Rig {
    cluster: TestCluster,
    proxy: Proxy,
    connection: Connection,
    table: PartitionedTable,
    settings: Settings,
}

impl Rig {
    async fn new(test: &'static str) -> Self {
        let cluster = TestCluster::take().await;
        let settings = Settings::of(test);
        let proxy = Proxy::new();
        let connection = Self::client(&cluster, &proxy).await;
        let split_keys = ["h", "p"].map(str::to_owned);
        let table = create_table(&connection, &settings, test, &split_keys)
            .await
            .unwrap();
        Self {
            cluster,
            proxy,
            connection,
            table,
            settings,
        }
    }

    async fn client(cluster: &TestCluster, proxy: &Proxy) -> Connection {
        Connection::builder(cluster.config())
            .connector(proxy.clone())
            .connect()
            .await
            .unwrap()
    }

    /// Checks that the client of a dropped call still works.
    async fn still_works(&self, connection: &Connection) {
        let table = connection.table(self.table.name().clone()).unwrap();
        for row in ["aaa", "iii", "qqq"] {
            table.get(Get::new(row)).await.unwrap();
        }
        assert!(self.proxy.open() <= 2 * MAX_CONNECTIONS, "{:?}", self.proxy);
    }

    async fn end(self) {
        drop_table(&self.connection, &self.table).await;
        self.connection.close().await;
        until("end of all connections", Duration::from_secs(10), async || {
            (self.proxy.open() == 0).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn reads_and_writes_of_a_new_client_can_be_dropped_at_any_point() {
    let rig = Rig::new("cancel_cold").await;
    // Two in each region, before any that a dropped put may write.
    let rows = ["bbb", "ccc", "jjj", "kkk", "sss", "ttt"];
    for row in rows {
        let put = Put::new(row).cell(FAMILY, QUALIFIER, "v");
        rig.table.table().put(put).await.unwrap();
    }
    for call in ["get", "scan", "put"] {
        let times = first_to_complete(async |times| {
            // The client has no locations and connections yet, so the call goes through every
            // stage.
            let connection = Rig::client(&rig.cluster, &rig.proxy).await;
            let table = connection.table(rig.table.name().clone()).unwrap();
            let row = format!("iii-{call}-{times:04}");
            let done = match call {
                "get" => polled(times, table.get(Get::new(row)))
                    .await
                    .map(|got| drop(got.unwrap())),
                "put" => {
                    let put = Put::new(row).cell(FAMILY, QUALIFIER, "v");
                    polled(times, table.put(put)).await.map(Result::unwrap)
                }
                _ => {
                    let mut scanner = table.scan(Scan::new().caching(1)).unwrap();
                    let (mut seen, mut is_complete) = (Vec::new(), false);
                    // The first opens a scanner. If it completes, the second one continues that.
                    for times in [times, 1] {
                        let next = polled(times, scanner.next()).await;
                        is_complete |= next.is_some();
                        seen.extend(next.and_then(Result::unwrap));
                    }
                    // A dropped call loses no row: the scanner continues.
                    while let Some(row) = scanner.next().await.unwrap() {
                        seen.push(row);
                    }
                    let seen: Vec<_> = seen.iter().map(|row| text(row).0).collect();
                    assert_eq!(seen, rows);
                    is_complete.then_some(())
                }
            };
            rig.still_works(&connection).await;
            if times % 2 == 0 {
                connection.close().await;
            }
            done
        })
        .await;
        println!("{call}: complete after {times} polls");
        assert!(times > 3, "{call} has more await points than {times}");
    }
    rig.end().await;
}

#[tokio::test]
async fn transaction_dropped_at_any_point_is_whole_or_absent() {
    let rig = Rig::new("cancel_commit").await;
    let mut groups = Vec::new();
    for round in 0..8 * rig.settings.rounds {
        let times = first_to_complete(async |times| {
            let group = GroupId {
                partition: ["aaa", "iii", "qqq"][round as usize % 3].to_owned(),
                writer: round,
                number: u32::try_from(times).unwrap(),
            };
            let mut transaction = rig.table.transaction(group.partition.clone());
            for index in 0..3 {
                let put = Put::new(group.row(index)).cell(FAMILY, QUALIFIER, group.value(3));
                transaction = transaction.put(put);
            }
            let outcome = polled(times, transaction.commit()).await;
            let committed = outcome.map(|outcome| assert!(outcome.is_committed(), "{outcome}"));
            groups.push((group, committed.is_some()));
            rig.still_works(&rig.connection).await;
            committed
        })
        .await;
        assert!(times > 1, "a commit waits for its answer");
    }
    let mut scanner = rig.table.table().scan(Scan::new()).unwrap();
    let mut rows = Vec::new();
    while let Some(row) = scanner.next().await.unwrap() {
        rows.push(row);
    }
    check_whole(&rows);
    let found: Vec<String> = rows.iter().map(|row| text(row).0).collect();
    for (group, committed) in &groups {
        assert!(
            !committed || found.contains(&group.row(0)),
            "{group} was acknowledged"
        );
    }
    assert!(rig.proxy.open() <= MAX_CONNECTIONS, "{:?}", rig.proxy);
    rig.end().await;
}

#[tokio::test]
async fn making_a_table_can_be_dropped_at_any_point() {
    let rig = Rig::new("cancel_create").await;
    let admin = Admin::new(&rig.connection).with_operation_timeout(PATIENCE);
    let descriptor = |times: usize| {
        let name = format!("{}_{times}", rig.table.name());
        TableDescriptor::new(name)
            .unwrap()
            .with_family(FamilyDescriptor::new(FAMILY))
    };
    // Most await points are pauses between polls of the master; the short form skips some.
    let mut tried = Vec::new();
    let mut times = 1;
    loop {
        tried.push(times);
        let descriptor = descriptor(times);
        let done = polled(times, admin.create_table(&descriptor, &[])).await;
        rig.still_works(&rig.connection).await;
        if let Some(created) = done {
            created.unwrap();
            break;
        }
        assert!(times < ENOUGH);
        times += if rig.settings.rounds > 1 {
            1
        } else {
            times.div_ceil(2)
        };
    }
    println!(
        "create_table: complete after {times} polls, dropped {} times",
        tried.len() - 1
    );
    assert!(tried.len() > 2);
    for times in tried {
        remove(&admin, &descriptor(times)).await;
    }
    assert!(rig.proxy.open() <= MAX_CONNECTIONS, "{:?}", rig.proxy);
    rig.end().await;
}

/// Deletes a table that may not exist, or may still be in creation.
async fn remove(admin: &Admin, descriptor: &TableDescriptor) {
    until("end of a table", PATIENCE, async || {
        if !admin.exists(&descriptor.name).await.ok()? {
            return Some(());
        }
        admin.delete_table(&descriptor.name).await.ok()
    })
    .await;
}

/// Calls with one poll, with two, and so on, until one call completes. Returns the number of polls
/// that it took.
async fn first_to_complete(mut call: impl AsyncFnMut(usize) -> Option<()>) -> usize {
    for times in 1..ENOUGH {
        if call(times).await.is_some() {
            return times;
        }
    }
    panic!("not complete after {ENOUGH} polls");
}
