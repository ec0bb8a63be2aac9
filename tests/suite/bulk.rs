//! Many puts and deletes at once.

use std::time::Duration;

use futures::{StreamExt, stream};
use hbase_txn::{
    ClientErrorKind,
    client::{Connection, Delete, Get, Increment, IngestEvent, Mutation, Put, Scan, Table, WriterOptions},
};

use crate::{
    proxy::Proxy,
    support::{
        connect, connect_by, eventually, forwarded, keys, put, says, standalone,
        table::{TestTable, plain},
        value, within,
    },
};

const ROWS: usize = 6_000;
const SPLITS: [&str; 3] = ["1500", "3000", "4500"];

fn row(number: usize) -> String {
    format!("{number:04}")
}

/// Connects through a proxy that counts calls.
async fn counted() -> (Proxy, Connection) {
    let proxy = Proxy::new();
    let connection = connect_by(proxy.clone(), standalone().config()).await;
    (proxy, connection)
}

async fn count(table: &Table) -> usize {
    keys(table, Scan::new()).await.len()
}

#[tokio::test]
async fn many_mutations_have_one_result_each() {
    let (proxy, connection) = counted().await;
    let shared = TestTable::create("mutate-many", plain, &SPLITS).await;
    let table = shared.of(&connection);
    let mut order: Vec<usize> = (0..ROWS).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    let puts = order.iter().map(|number| put(row(*number), row(*number)));
    for result in table.mutate_many(puts).await {
        result.unwrap();
    }
    let calls = proxy.requests("Multi");
    assert!(calls <= 16, "{calls} calls for {ROWS} rows");
    assert_eq!(count(&table).await, ROWS);

    let mutations = (0..ROWS).map(|number| -> Mutation {
        match number % 6 {
            0 if number % 600 == 0 => Put::new(row(number)).cell("absent", "q", "v").into(),
            1 => Delete::new(row(number)).into(),
            2 => Delete::new(row(number)).family("f").into(),
            3 => Delete::new(row(number)).column("f", "q").into(),
            4 => Delete::new(row(number)).version("f", "q", 1).into(),
            _ => put(row(number), "new").into(),
        }
    });
    for (number, result) in table.mutate_many(mutations).await.into_iter().enumerate() {
        let expected = match number % 600 {
            0 => Err(ClientErrorKind::FamilyNotFound),
            _ => Ok(()),
        };
        let kind = result.as_ref().copied().map_err(hbase_client::Error::kind);
        assert_eq!(kind, expected, "{number}: {result:?}");
        if let Err(error) = result {
            says(&error, &["mutate_many", &format!("row {}", row(number))]);
        }
    }
    for (number, found) in table
        .get_many((0..ROWS).map(|number| Get::new(row(number))))
        .await
        .unwrap()
        .into_iter()
        .enumerate()
    {
        let found = found.as_ref().and_then(|found| found.value("f", "q"));
        match number % 6 {
            1..4 => assert_eq!(found, None, "{number}"),
            4 => assert_eq!(found.unwrap(), &row(number)),
            _ if number % 600 == 0 => assert_eq!(found.unwrap(), &row(number)),
            _ => assert_eq!(found.unwrap(), "new", "{number}"),
        }
    }
    connection.close().await;
}

#[tokio::test]
async fn mutations_of_a_row_are_applied_in_their_order() {
    let connection = connect().await;
    let shared = TestTable::create("bulk-order", plain, &["b"]).await;
    let table = shared.of(&connection);
    // Each call has one of each row, and all share one deadline.
    let puts = (0..600).map(|number| put(["a", "b", "c"][number % 3], number.to_string()));
    for result in table.mutate_many(puts).await {
        result.unwrap();
    }
    for (row, last) in [("a", "597"), ("b", "598"), ("c", "599")] {
        assert_eq!(value(&table, row).await.as_deref(), Some(last));
    }
}

#[tokio::test]
async fn invalid_mutations_fail_alone() {
    let connection = connect().await;
    let shared = TestTable::create("bulk-invalid", plain, &[]).await;
    let table = shared.of(&connection);
    let mutations: [Mutation; 4] = [
        put("a", "v").into(),
        Put::new("b").into(),
        Increment::new("c").column("f", "q", 1).into(),
        put("d", "v").into(),
    ];
    let results = table.mutate_many(mutations.clone()).await;
    let kinds: Vec<_> = results
        .iter()
        .map(|result| result.as_ref().err().map(hbase_client::Error::kind))
        .collect();
    let invalid = Some(ClientErrorKind::InvalidInput);
    assert_eq!(kinds, [None, invalid, invalid, None]);
    assert_eq!(count(&table).await, 2);
    assert!(table.mutate_many([] as [Put; 0]).await.is_empty());

    let writer = table.writer(WriterOptions::new());
    for (mutation, kind) in mutations.into_iter().zip(kinds) {
        let written = writer.write(mutation).await;
        assert_eq!(written.err().map(|error| error.kind()), kind);
    }
    writer.flush().await.unwrap();
    assert_eq!(writer.watermark(), 2);
}

#[tokio::test]
async fn rows_of_meta_are_deleted_in_bulk() {
    let meta = connect().await.table("hbase:meta").unwrap();
    // No region has these names.
    let deletes = (0..3).map(|number| Delete::new(format!("no_such_table,{number},0")));
    let deleted = within(Duration::from_secs(30), meta.mutate_many(deletes)).await;
    assert_eq!(deleted.len(), 3);
    for result in deleted {
        result.unwrap();
    }
}

#[tokio::test]
async fn writer_follows_a_split_and_a_move() {
    let (proxy, connection) = counted().await;
    let shared = TestTable::create("writer", plain, &SPLITS).await;
    let table = shared.of(&connection);
    let writer = table.writer(WriterOptions::new().buffer_size(64 << 10));
    for number in 0..ROWS {
        // The split is not in the client's cache; its next call finds the region gone.
        if number == ROWS / 2 {
            shared.split_at(&connect().await, "4000").await;
        }
        let written = writer.write(put(row(number), row(number))).await.unwrap();
        assert_eq!(written, number as u64);
    }
    writer.flush().await.unwrap();
    assert_eq!(writer.watermark(), ROWS as u64);
    assert!(writer.take_failures().is_empty());
    assert_eq!(count(&table).await, ROWS);
    let calls = proxy.requests("Multi");
    assert!(calls < ROWS / 4, "{calls} calls for {ROWS} rows");
    connection.close().await;
}

#[tokio::test]
async fn writer_reports_each_failure_until_it_is_taken() {
    let connection = connect().await;
    let shared = TestTable::create("writer-failures", plain, &[]).await;
    let table = shared.of(&connection);
    let writer = table.writer(WriterOptions::new());
    for number in 0..100 {
        let family = if number % 10 == 3 { "absent" } else { "f" };
        writer
            .write(Put::new(row(number)).cell(family, "q", "v"))
            .await
            .unwrap();
    }
    for _ in 0..2 {
        let failed = writer.flush().await.unwrap_err();
        assert_eq!(failed.kind(), ClientErrorKind::FamilyNotFound);
        says(&failed, &["flush", "10 writes have failed", "row 0003"]);
    }
    let mut failures = writer.take_failures();
    failures.sort_by_key(|failed| failed.number);
    let numbers: Vec<u64> = failures.iter().map(|failed| failed.number).collect();
    assert_eq!(numbers, (0..10).map(|ten| ten * 10 + 3).collect::<Vec<_>>());
    writer.flush().await.unwrap();
    assert_eq!(count(&table).await, 90);

    // A caller that never reads them is stopped.
    let stopped = within(Duration::from_secs(60), async {
        loop {
            if let Err(error) = writer.write(Put::new("x").cell("absent", "q", "v")).await {
                break error;
            }
            tokio::task::yield_now().await;
        }
    });
    let stopped = stopped.await;
    assert_eq!(stopped.kind(), ClientErrorKind::LimitExceeded, "{stopped}");
    says(&stopped, &["1000 writes have failed", "take_failures"]);
}

#[tokio::test]
async fn stream_is_ingested_with_its_failures() {
    let connection = connect().await;
    let shared = TestTable::create("ingest", plain, &SPLITS).await;
    let table = shared.of(&connection);
    let puts = stream::iter(0..ROWS).map(|number| match number % 1_000 {
        1 => Put::new(row(number)),
        2 => Put::new(row(number)).cell("absent", "q", "v"),
        _ => put(row(number), "v"),
    });
    let mut events = table.ingest(puts, WriterOptions::new().buffer_size(64 << 10));
    let (mut failed, mut done) = (Vec::new(), 0);
    while let Some(event) = events.next().await {
        match event {
            IngestEvent::Failed(failure) => {
                assert!(failure.number >= done);
                failed.push((failure.number, failure.error.kind()));
            }
            IngestEvent::Watermark(watermark) => {
                assert!(watermark > done);
                done = watermark;
            }
            other => panic!("{other:?}"),
        }
    }
    failed.sort_by_key(|(number, _)| *number);
    let kinds = [ClientErrorKind::InvalidInput, ClientErrorKind::FamilyNotFound];
    let expected = (0..ROWS as u64 / 1_000)
        .flat_map(|thousand| [1, 2].map(|number| (thousand * 1_000 + number, kinds[number as usize - 1])));
    assert_eq!(failed, expected.collect::<Vec<_>>());
    assert_eq!(done, ROWS as u64);
    assert_eq!(count(&table).await, ROWS - failed.len());
}

#[tokio::test]
async fn thousands_of_failures_in_a_stream_are_each_reported() {
    let (connection, forwarder) = forwarded(standalone().config()).await;
    let shared = TestTable::create("ingest-silent", plain, &["b"]).await;
    let table = shared.of(&connection);
    table.put(put("a", "v")).await.unwrap();
    forwarder.mute(true);
    let brief = table.clone().with_operation_timeout(Duration::from_secs(1));
    let puts = stream::iter(0..10_000).map(|number| put(format!("{number:05}"), "w"));
    let events = brief.ingest(puts, WriterOptions::new().buffer_size(500_000));
    let failures = events.filter_map(async |event| match event {
        IngestEvent::Failed(failure) => Some(failure.error.kind()),
        _ => None,
    });
    let kinds: Vec<_> = within(Duration::from_secs(60), failures.collect()).await;
    assert_eq!(kinds, vec![ClientErrorKind::DeadlineExceeded; 10_000]);
}

#[tokio::test]
async fn consumer_that_stops_reading_stops_the_source() {
    let connection = connect().await;
    let shared = TestTable::create("ingest-stopped", plain, &[]).await;
    let table = shared.of(&connection);
    let mut taken = 0;
    let endless = stream::iter(0..).inspect(|_| taken += 1);
    let puts = endless.map(|number: u64| put(format!("{number:012}"), "v"));
    let mut events = table.ingest(puts, WriterOptions::new().buffer_size(10_000));
    let event = within(Duration::from_secs(60), events.next()).await;
    let Some(IngestEvent::Watermark(done)) = event else {
        panic!("{event:?}")
    };
    // All that was taken gets stored, and nothing more is taken.
    let stored = eventually("all that was taken is stored", async || {
        let stored = count(&table).await;
        (stored >= usize::try_from(done).unwrap()).then_some(stored)
    });
    let stored = stored.await;
    drop(events);
    assert!(taken >= stored && taken < 1_000, "{taken} taken, {stored} stored");
}

#[tokio::test]
async fn silent_server_stops_a_writer_and_bounds_its_memory() {
    let (connection, forwarder) = forwarded(standalone().config()).await;
    let shared = TestTable::create("writer-silent", plain, &["b"]).await;
    let table = shared.of(&connection);
    table.put(put("a", "v")).await.unwrap();
    forwarder.mute(true);
    let brief = table.clone().with_operation_timeout(Duration::from_secs(1));
    let writer = brief.writer(WriterOptions::new().buffer_size(1_000));
    let mut written = 0;
    while tokio::time::timeout(Duration::from_millis(100), writer.write(put("a", "w")))
        .await
        .is_ok()
    {
        written += 1;
        assert!(written < 100, "the buffer is not bounded");
    }
    assert!(written > 2);
    let failed = within(Duration::from_secs(30), writer.flush()).await.unwrap_err();
    assert_eq!(failed.kind(), ClientErrorKind::DeadlineExceeded, "{failed}");
    assert_eq!(writer.take_failures().len() as u64, writer.watermark());

    forwarder.mute(false);
    let writer = table.writer(WriterOptions::new());
    writer.write(put("c", "v")).await.unwrap();
    within(Duration::from_secs(60), writer.flush()).await.unwrap();
    assert_eq!(value(&table, "c").await.as_deref(), Some("v"));
}
