//! Compressed cells. The classes that each release can use are in `tests/versions`.

use std::time::{Duration, Instant};

use hbase_txn::{
    ClientErrorKind,
    client::{Compression, Config, Connection, Get, Increment, Mutation, Put, Row, Scan, Table},
};

use crate::support::{
    collect, says, standalone,
    table::{TestTable, plain},
};

const HADOOP: &str = "org.apache.hadoop.io.compress";

async fn connect(config: Config) -> Connection {
    Connection::builder(config).connect().await.unwrap()
}

fn compressed(class: &str) -> Config {
    standalone()
        .config()
        .with_compression(Some(Compression::from_class(class).unwrap()))
}

/// The sizes of the values, whose sum is several MiB.
const SIZES: [usize; 9] = [0, 1, 100, 10_000, 65_536, 65_537, 262_145, 1 << 20, 5 << 20];

/// Returns values of which each has parts that can be compressed, and parts that cannot.
fn values(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let values = SIZES.iter().map(|size| {
        let mut value = vec![7; *size];
        for part in value.chunks_mut(300).step_by(2) {
            rng.fill(part);
        }
        value
    });
    values.collect()
}

/// Writes rows on a connection, and reads them on it in each way.
async fn write_and_read(table: &Table, class: &str) -> Vec<Row> {
    let values = values(1);
    let puts = values.iter().enumerate().map(|(number, value)| {
        let put = Put::new(format!("{class} {number}")).cell("f", "q", value.clone());
        Mutation::from(put.cell("f", "other", "small"))
    });
    for result in table.mutate_many(puts).await {
        result.unwrap();
    }
    let prefix = format!("{class} ");
    let found = collect(table.scan(Scan::prefix(prefix.clone())).unwrap()).await;
    assert_eq!(found.len(), SIZES.len(), "{class}");
    for (row, value) in found.iter().zip(&values) {
        assert!(row.value("f", "q").unwrap() == value, "{class} {}", value.len());
        assert_eq!(row.value("f", "other").unwrap(), "small", "{class}");
        let again = table.get(Get::new(row.key().clone())).await.unwrap();
        assert!(again.as_ref() == Some(row), "{class} {}", value.len());
    }
    let gets = found.iter().map(|row| Get::new(row.key().clone()));
    let again = table.get_many(gets.collect::<Vec<_>>()).await.unwrap();
    assert!(
        again.into_iter().map(Option::unwrap).eq(found.iter().cloned()),
        "{class}"
    );
    let increment = Increment::new(format!("counter {class}")).column("f", "n", 7);
    let counted = table.increment(increment).await.unwrap();
    assert_eq!(counted.cells().len(), 1, "{class}");
    found
}

#[tokio::test]
#[ignore = "needs servers that compress cell blocks"]
async fn rows_of_all_sizes_are_equal_with_and_without_compression() {
    let shared = TestTable::create("compression", plain, &[]).await;
    let uncompressed = connect(standalone().config()).await;
    for class in ["DefaultCodec", "GzipCodec", "SnappyCodec"] {
        let connection = connect(compressed(&format!("{HADOOP}.{class}"))).await;
        let found = write_and_read(&shared.of(&connection), class).await;
        let scan = Scan::prefix(format!("{class} "));
        let expected = collect(shared.of(&uncompressed).scan(scan).unwrap()).await;
        assert!(found == expected, "{class}");
        connection.close().await;
    }
}

#[tokio::test]
async fn server_without_the_compressor_is_named_at_once() {
    let shared = TestTable::create("compression", plain, &[]).await;
    // The first one has no class there, the others no library.
    for class in [
        "org.apache.hadoop.hbase.io.compress.zstd.ZstdCodec",
        "org.apache.hadoop.io.compress.Lz4Codec",
        "org.apache.hadoop.io.compress.ZStandardCodec",
    ] {
        let connection = connect(compressed(class)).await;
        let began = Instant::now();
        let table = shared.of(&connection);
        let error = table.get(Get::new("a")).await.unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(5), "{class}");
        assert_eq!(error.kind(), ClientErrorKind::InvalidConfig, "{error}");
        says(&error, &["127.0.0.1:", class, "GzipCodec", "with_compression"]);
        assert_eq!(error.effect(), hbase_client::Effect::None);
    }
}
