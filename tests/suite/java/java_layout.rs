//! The layout of the Java lock library, as its hash and HBase's Java client produce it. The values
//! written out here are the format that this library must keep to.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::future::join_all;
use hbase_txn::{
    admin::Admin,
    client::{CellKind, FamilyDescriptor, Scan, TableDescriptor},
};

use crate::support::{
    connect,
    java::{JavaLatch, JavaLock, JavaSide, Spin},
    rows, says, standalone,
    table::TestTable,
};

/// The expected prefixes and keys, in hex.
fn vectors() -> Vec<(&'static str, &'static str)> {
    let lines = include_str!("../../hash_vectors.tsv").lines();
    let vectors: Vec<_> = lines
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once('\t').unwrap())
        .collect();
    assert_eq!(vectors.len(), 39);
    vectors
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Microseconds since 1970.
fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap().as_micros()).unwrap()
}

fn lock<'a>(table: &'a TestTable, level: &'a str) -> JavaLock<'a> {
    JavaLock {
        table: &table.name,
        level,
        farm: "fra",
        client: "svc",
        id: "order-1",
    }
}

#[tokio::test]
async fn javas_own_hash_makes_the_vectors() {
    let java = JavaSide::start(&standalone()).await;
    for (prefix, key) in vectors() {
        assert_eq!(java.row(key).await.unwrap(), format!("{prefix}{key}"), "{key}");
    }
}

/// Decodes a row key from hex.
fn lock_row(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// Creates a table with one region; nothing in the layout depends on region boundaries.
async fn one_region(family: &'static str) -> TestTable {
    let descriptor = |name| TableDescriptor::from(name).with_family(FamilyDescriptor::new(family));
    TestTable::create("java", descriptor, &[]).await
}

#[tokio::test]
async fn java_counts_in_a_latch() {
    let (java, connection) = (JavaSide::start(&standalone()).await, connect().await);
    let table = one_region("C").await;
    let latch = |farm| JavaLatch {
        table: &table.name,
        farm,
        client: "client",
        id: "latch-1",
    };
    assert_eq!(java.get_latch(latch("fra"), "DC").await.unwrap(), None);
    assert_eq!(java.get_latch(latch("fra"), "XDC").await.unwrap(), None);
    java.init_latch(latch("fra"), 3, 60).await.unwrap();
    java.init_latch(latch("nyc"), 2, 60).await.unwrap();
    java.count_latch(latch("fra"), -1).await.unwrap();
    assert_eq!(java.get_latch(latch("fra"), "DC").await.unwrap(), Some(2));
    assert_eq!(java.get_latch(latch("fra"), "XDC").await.unwrap(), Some(4));
    let stored = rows(&table.of(&connection), Scan::new()).await;
    assert_eq!(hex(stored[0].key()), "4b636c69656e745f6c617463682d31");
    assert_eq!(
        stored[0].value("C", "count_fra").unwrap()[..],
        2_i64.to_be_bytes()
    );
}

#[tokio::test]
async fn a_load_tells_of_every_cycle_in_the_time_of_this_process() {
    let java = JavaSide::start(&standalone()).await;
    let table = one_region("D").await;
    let began = micros();
    let cycles = java
        .spin(Spin {
            threads: 3,
            table: &table.name,
            level: "DC",
            farm: "fra",
            client: "svc",
            ids: &["a", "b"],
            ttl_s: 90,
            inside: Duration::from_millis(3),
            pause: Duration::from_millis(1),
            lasting: Duration::from_millis(300),
        })
        .await
        .unwrap();
    let ended = micros();
    assert!(!cycles.is_empty());
    for cycle in cycles {
        assert!(
            began < cycle.enter && cycle.leave < ended,
            "{cycle:?} not in {began}..{ended}"
        );
        assert!(
            cycle.leave - cycle.enter >= 3_000 && cycle.thread < 3,
            "{cycle:?}"
        );
        assert!(["a", "b"].contains(&cycle.id.as_str()));
    }
}

#[tokio::test]
async fn concurrent_java_programs_answer_and_an_error_ends_none() {
    let sides = join_all((0..3).map(async |_| JavaSide::start(&standalone()).await)).await;
    let table = TestTable::unmade("javanone");
    for java in sides {
        let error = java.acquire(lock(&table, "DC"), 90).await.unwrap_err();
        says(
            &format!("{error:?}"),
            &["TableNotFoundException", table.name.qualifier()],
        );
        let error = java.acquire(lock(&table, "AC"), 90).await.unwrap_err();
        says(&format!("{error:?}"), &["neither DC nor XDC"]);
        assert_eq!(java.row("").await.unwrap(), "01");
    }
}

/// Tables as the Java library creates them: 257 regions, which keep a real server busy for 20 seconds. `make test`
/// creates them on the fake cluster only.
mod of_257_regions {
    use super::*;

    #[tokio::test]
    async fn the_lock_table_that_java_makes_and_what_it_writes_there() {
        let (java, connection) = (JavaSide::start(&standalone()).await, connect().await);
        let table = TestTable::unmade("javalocks");
        java.create_lock_table(&table.name).await.unwrap();

        let descriptor = java.descriptor(&table.name).await.unwrap();
        let family = [
            ("BLOCKCACHE", "true"),
            ("BLOCKSIZE", "65536"),
            ("BLOOMFILTER", "ROW"),
            ("COMPRESSION", "GZ"),
            ("DATA_BLOCK_ENCODING", "NONE"),
            ("INDEX_BLOCK_ENCODING", "NONE"),
            ("IN_MEMORY", "false"),
            ("KEEP_DELETED_CELLS", "FALSE"),
            ("MIN_VERSIONS", "0"),
            ("REPLICATION_SCOPE", "0"),
            ("TTL", "2147483647"),
            ("VERSIONS", "1"),
        ];
        let text = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let family: BTreeMap<_, _> = family.map(text).into();
        assert_eq!(descriptor.families, [("D".to_owned(), family.clone())].into());
        // The Java client adds `IS_META` on its own.
        let attributes = [("IS_META", "false"), ("hbase.store.file-tracker.impl", "DEFAULT")].map(text);
        assert_eq!(descriptor.attributes, attributes.into());
        let prefixes = (0..=u8::MAX).map(|prefix| hex(&[prefix]));
        let start_keys: Vec<_> = std::iter::once(String::new()).chain(prefixes).collect();
        assert_eq!(descriptor.start_keys, start_keys);
        // This library reads the same values.
        let found = Admin::new(&connection).descriptor(&table.name).await.unwrap();
        let found = found.families[0].attributes.iter();
        let expected = family
            .iter()
            .map(|(key, value)| (key.as_bytes(), value.as_bytes()));
        assert!(found.map(|(key, value)| (&key[..], &value[..])).eq(expected));

        // Each cycle is a put with the Java client's timestamp and a row delete marker with the
        // server's.
        let data = table.of(&connection);
        for (level, row) in [
            ("DC", "6244432366726123737663236f726465722d31"),
            ("XDC", "7e58444323737663236f726465722d31"),
        ] {
            let lock = lock(&table, level);
            let began = micros() / 1_000;
            assert!(java.acquire_by_clock(lock, 90, -5_000).await.unwrap());
            assert!(!java.acquire(lock, 90).await.unwrap());
            let scan = || Scan::prefix(lock_row(row)).raw();
            let stored = rows(&data, scan()).await;
            let [cell] = stored[0].cells() else {
                panic!("{stored:?}")
            };
            assert_eq!(hex(stored[0].key()), row);
            assert_eq!(
                (&cell.family[..], &cell.qualifier[..], &cell.value[..]),
                (&b"D"[..], &b"L"[..], &b"M"[..])
            );
            // The Java client's clock was five seconds behind.
            let at = cell.timestamp + 5_000;
            assert!((began..=micros() / 1_000).contains(&at), "{at}");
            java.release(lock).await.unwrap();
            let stored = rows(&data, scan()).await;
            let kinds: Vec<_> = stored[0].cells().iter().map(|cell| cell.kind).collect();
            assert_eq!(kinds, [CellKind::DeleteFamily, CellKind::Put]);
        }
    }
}
