//! Java clients and this library on the same latches.

use std::time::Duration;

use bytes::Bytes;
use hbase_txn::{
    ErrorKind, Level,
    admin::Admin,
    client::{Connection, Get, Scan, TableName},
    latch::{Latch, LatchState, LatchTableOptions, WaitOutcome},
};

use crate::support::{
    connect,
    java::{JavaLatch, JavaSide},
    latch_rows::{latch_manager, latch_row, latch_table},
    rows, standalone,
    table::TestTable,
};

const CLIENT: &str = "svc";
const FARMS: [&str; 2] = ["fra", "sgp"];
const LEVELS: [Level; 2] = [Level::Dc, Level::Xdc];
const HOUR: Duration = Duration::from_secs(3_600);
const PATIENCE: Duration = Duration::from_secs(20);

/// One latch, as seen by both sides.
struct Sides<'a> {
    java: &'a JavaSide,
    table: &'a TableName,
    level: Level,
    id: String,
    ours: [Latch; 2],
}

impl<'a> Sides<'a> {
    async fn new(
        java: &'a JavaSide,
        connection: &Connection,
        table: &'a TableName,
        level: Level,
        what: &str,
    ) -> Self {
        let id = format!("{what}-{level}");
        let mut ours = Vec::new();
        for farm in FARMS {
            let latches = latch_manager(connection, table, CLIENT, farm).await;
            ours.push(latches.latch(level, &id).unwrap());
        }
        let ours = ours.try_into().unwrap();
        Self {
            java,
            table,
            level,
            id,
            ours,
        }
    }

    fn theirs(&self, farm: usize) -> JavaLatch<'_> {
        JavaLatch {
            table: self.table,
            farm: FARMS[farm],
            client: CLIENT,
            id: &self.id,
        }
    }

    async fn java_counts(&self, farm: usize, by: i64) {
        self.java.count_latch(self.theirs(farm), by).await.unwrap();
    }

    /// Asserts that both sides read this count in every farm of the latch.
    async fn is(&self, count: u64) {
        let farms = match self.level {
            Level::Dc => 1,
            Level::Xdc => 2,
        };
        for farm in 0..farms {
            let level = self.level.to_string();
            let read = self.java.get_latch(self.theirs(farm), &level).await.unwrap();
            assert_eq!(read, Some(count.cast_signed()), "{}", self.id);
            let info = self.ours[farm].show().await.unwrap();
            let state = match count {
                0 => LatchState::Reached,
                _ => LatchState::Open,
            };
            assert_eq!((info.state, info.count), (state, Some(count)), "{}", self.id);
        }
    }

    async fn is_absent(&self) {
        let level = self.level.to_string();
        let read = self.java.get_latch(self.theirs(0), &level).await.unwrap();
        assert_eq!(read, None, "{}", self.id);
    }
}

/// Creates three tables: by the Java library, here for the Java library, and here.
async fn tables(java: &JavaSide, connection: &Connection) -> [TestTable; 3] {
    let javas = TestTable::unmade("javalatches");
    java.create_latch_table(&javas.name).await.unwrap();
    [
        javas,
        latch_table(connection, "latchjava", 4, false).await,
        latch_table(connection, "latchjava", 4, true).await,
    ]
}

#[tokio::test]
async fn participants_count_once_on_a_java_latch_with_room() {
    let (java, connection) = (JavaSide::start(&standalone()).await, connect().await);
    let table = latch_table(&connection, "latcharrive", 4, true).await;
    for level in LEVELS {
        let sides = Sides::new(&java, &connection, &table.name, level, "parts").await;
        java.init_latch(sides.theirs(0), 4, 3_600).await.unwrap();
        let arrived = sides.ours[0].arrive("one").await.unwrap();
        assert_eq!((arrived.left, arrived.counted), (3, true));
        sides.java_counts(0, -1).await;
        let arrived = sides.ours[0].arrive("one").await.unwrap();
        assert_eq!((arrived.left, arrived.counted), (2, false));
        assert_eq!(sides.ours[0].arrive("two").await.unwrap().left, 1);
        sides.java_counts(0, -1).await;
        sides.is(0).await;
        assert_eq!(sides.ours[0].show().await.unwrap().arrived, Some(2));
    }
}

#[tokio::test]
async fn java_latch_expires_and_late_java_counts_make_no_latch() {
    let (java, connection) = (JavaSide::start(&standalone()).await, connect().await);
    for has_state in [true, false] {
        let table = latch_table(&connection, "latchlate", 4, has_state).await;
        for level in LEVELS {
            let sides = Sides::new(&java, &connection, &table.name, level, "late").await;
            let [ours, _] = &sides.ours;
            java.init_latch(sides.theirs(0), 3, 1).await.unwrap();
            let outcome = ours.wait(PATIENCE).await.unwrap();
            assert!(
                matches!(outcome, WaitOutcome::Expired | WaitOutcome::Absent),
                "{outcome:?}"
            );
            // No client of this library has written a note.
            assert_eq!(ours.show().await.unwrap().state, LatchState::Absent);
            sides.java_counts(0, -1).await;
            assert_eq!(
                java.get_latch(sides.theirs(0), "DC").await.unwrap(),
                Some(-1),
                "for ever"
            );
            assert_eq!(ours.show().await.unwrap().state, LatchState::Absent);
            assert_eq!(ours.wait(PATIENCE).await.unwrap(), WaitOutcome::Absent);
            assert_eq!(
                ours.count_down(1).await.unwrap_err().kind(),
                ErrorKind::LatchAbsent
            );
            ours.init(3, HOUR).await.unwrap();
            sides.is(3).await;
            sides.java_counts(0, -3).await;
            sides.is(0).await;
        }
    }
}

#[tokio::test]
async fn java_and_ours_count_at_once_and_none_is_lost() {
    const EACH: u32 = 60;
    let (java, connection) = (JavaSide::start(&standalone()).await, connect().await);
    for has_state in [true, false] {
        let table = latch_table(&connection, "latchrace", 1, has_state).await;
        for level in LEVELS {
            let sides = Sides::new(&java, &connection, &table.name, level, "race").await;
            let [ours, _] = &sides.ours;
            ours.init(1_000, HOUR).await.unwrap();
            let theirs = async {
                for _ in 0..EACH {
                    // The value soon returns to what it was.
                    sides.java_counts(0, 1).await;
                    sides.java_counts(0, -1).await;
                }
            };
            let mine = async {
                for _ in 0..EACH {
                    assert!(ours.count_down(1).await.unwrap().counted);
                }
            };
            tokio::join!(theirs, mine);
            sides.is(u64::from(1_000 - EACH)).await;
        }
    }
}

/// The keys among the Java vectors that are valid latch names here: their clients, ids and rows.
fn named_rows() -> Vec<(String, String, Bytes)> {
    let bytes = |hex: &str| -> Vec<u8> {
        let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(digits).collect()
    };
    let lines = include_str!("../../hash_vectors.tsv").lines();
    let vectors: Vec<_> = lines.filter(|line| !line.starts_with('#')).collect();
    assert_eq!(vectors.len(), 39);
    vectors
        .into_iter()
        .filter_map(|line| {
            let (prefix, key) = line.split_once('\t').unwrap();
            let key = String::from_utf8(bytes(key)).ok()?;
            let (client, id) = key.split_once('_')?;
            let row = [&bytes(prefix)[..], key.as_bytes()].concat();
            let complete = !client.is_empty() && !id.is_empty();
            complete.then(|| (client.to_owned(), id.to_owned(), row.into()))
        })
        .collect()
}

#[tokio::test]
async fn our_latches_are_in_the_rows_that_java_puts_them_in() {
    let connection = connect().await;
    let table = latch_table(&connection, "latchvectors", 1, true).await;
    let vectors = named_rows();
    assert!(vectors.len() >= 6, "{vectors:?}");
    for (client, id, row) in vectors {
        assert_eq!(latch_row(&client, &id), row);
        let latches = latch_manager(&connection, &table.name, &client, "fra").await;
        latches
            .latch(Level::Dc, &id)
            .unwrap()
            .init(3, HOUR)
            .await
            .unwrap();
        let found = table.of(&connection).get(Get::new(row.clone())).await.unwrap();
        let value = found.as_ref().and_then(|found| found.value("C", "count_fra"));
        assert_eq!(value.unwrap()[..], 3_i64.to_be_bytes(), "{client}_{id}");
    }
    let stored = rows(&table.of(&connection), Scan::new()).await;
    assert_eq!(stored.len(), named_rows().len());
}

/// Tables as the Java library creates them: 257 regions, which keep a real server busy for 20 seconds. `make test`
/// creates them on the fake cluster only.
mod of_257_regions {
    use super::*;

    #[tokio::test]
    async fn either_side_begins_a_latch_and_both_count_and_read_it() {
        let (java, connection) = (JavaSide::start(&standalone()).await, connect().await);
        for table in &tables(&java, &connection).await {
            for level in LEVELS {
                for java_begins in [true, false] {
                    let what = if java_begins { "theirs" } else { "ours" };
                    let sides = Sides::new(&java, &connection, &table.name, level, what).await;
                    let [ours, far] = &sides.ours;
                    if java_begins {
                        java.init_latch(sides.theirs(0), 9, 3_600).await.unwrap();
                    } else {
                        ours.init(9, HOUR).await.unwrap();
                    }
                    sides.is(9).await;
                    assert_eq!(
                        ours.init(9, HOUR).await.unwrap_err().kind(),
                        ErrorKind::LatchExists
                    );
                    for _ in 0..2 {
                        assert!(ours.count_down(1).await.unwrap().counted);
                        sides.java_counts(0, -1).await;
                    }
                    sides.is(5).await;
                    sides.java_counts(0, 1).await;
                    assert_eq!(ours.count_up(2).await.unwrap().left, 8);
                    sides.is(8).await;
                    let mut left = 8;
                    if level == Level::Xdc {
                        sides.java_counts(1, -2).await;
                        assert_eq!(far.count_down(3).await.unwrap().left, 3);
                        sides.java_counts(1, -1).await;
                        sides.is(2).await;
                        left = 2;
                    }
                    assert_eq!(ours.count_down(left - 1).await.unwrap().left, 1);
                    // A waiter of this library notices a Java client's last count-down.
                    let waiter = ours.clone();
                    let waiting = tokio::spawn(async move { waiter.wait(PATIENCE).await });
                    sides.java_counts(0, -1).await;
                    assert_eq!(waiting.await.unwrap().unwrap(), WaitOutcome::Reached);
                    sides.is(0).await;
                    assert!(ours.delete().await.unwrap());
                    sides.is_absent().await;
                    // A latch that was deleted here can be created by the Java client.
                    java.init_latch(sides.theirs(0), 2, 3_600).await.unwrap();
                    sides.is(2).await;
                    assert_eq!(ours.count_down(2).await.unwrap().left, 0);
                    sides.is(0).await;
                }
            }
        }
    }

    #[tokio::test]
    async fn latch_table_is_javas_with_a_second_family_and_a_rule() {
        let (java, connection) = (JavaSide::start(&standalone()).await, connect().await);
        let (theirs, ours, without) = (
            TestTable::unmade("javamade"),
            TestTable::unmade("ourmade"),
            TestTable::unmade("ourmade"),
        );
        java.create_latch_table(&theirs.name).await.unwrap();
        let options = LatchTableOptions::from(ours.name.clone()).java_layout();
        assert!(options.create(&Admin::new(&connection)).await.unwrap());
        assert!(
            !options.create(&Admin::new(&connection)).await.unwrap(),
            "it is there"
        );
        let options = LatchTableOptions::from(without.name.clone())
            .no_state_family()
            .regions(1);
        assert!(options.create(&Admin::new(&connection)).await.unwrap());

        let theirs = java.descriptor(&theirs.name).await.unwrap();
        let made = java.descriptor(&ours.name).await.unwrap();
        let bare = java.descriptor(&without.name).await.unwrap();
        assert_eq!(made.start_keys, theirs.start_keys);
        let counts = &theirs.families["C"];
        assert_eq!(theirs.families, [("C".to_owned(), counts.clone())].into());
        assert_eq!(bare.families, theirs.families);
        let both = ["C", "S"].map(|family| (family.to_owned(), counts.clone()));
        assert_eq!(made.families, both.into());
        for made in [made, bare] {
            made.adds_whole_buckets_to(&theirs);
        }
        // The Java client accepts the table as it is.
        let latch = JavaLatch {
            table: &ours.name,
            farm: FARMS[0],
            client: CLIENT,
            id: "taken",
        };
        java.init_latch(latch, 1, 60).await.unwrap();
        assert_eq!(java.get_latch(latch, "XDC").await.unwrap(), Some(1));
    }
}
