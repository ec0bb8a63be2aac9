//! Which regions of `hbase:meta` a call on a range of rows reads, on a fake cluster in virtual time.

use std::time::Duration;

use futures::TryStreamExt;
use hbase_client::{Connection, EndpointCall, Put, RegionAnswer, Scan, Table};
use hbase_fake::{Call, FakeHBase, FaultHandle};

const REGIONS: usize = 3_000;

/// Creates a table of many regions, the first rows of which are `r0001`, `r0002` and so on.
fn create_table(hbase: &FakeHBase) {
    let splits: Vec<_> = (1..REGIONS).map(|region| format!("r{region:04}")).collect();
    let splits: Vec<_> = splits.iter().map(String::as_str).collect();
    hbase.create_table("t", &["f"], &splits);
}

/// Returns a handle that counts the calls on `hbase:meta`, and delays their answers.
fn meta_calls(hbase: &FakeHBase, delay: Duration) -> FaultHandle {
    hbase.fault(Call::Any.on("hbase:meta").delay_answer(delay))
}

/// Returns the keys that a scan of several regions at once reads, in order.
async fn keys(table: &Table, scan: Scan) -> hbase_client::Result<Vec<String>> {
    let rows = table.scan_regions(scan, 4)?.in_order().into_stream();
    rows.map_ok(|row| String::from_utf8_lossy(row.key()).into_owned())
        .try_collect()
        .await
}

#[test]
fn a_range_reads_only_its_own_regions_of_meta() {
    FakeHBase::run(async |hbase| {
        create_table(hbase);
        let meta = meta_calls(hbase, Duration::ZERO);
        let table = hbase.connect().await?.table("t")?;
        for row in ["r1500", "r1501x", "r1502", "r1503"] {
            table.put(Put::new(row).cell("f", "q", "v")).await?;
        }
        let range = || Scan::new().start_row("r1500x").stop_row("r1503");
        let unknown = hbase.connect().await?.table("t")?;
        for (table, most) in [(&unknown, 2), (&unknown, 1), (&table, 1)] {
            let before = meta.happened();
            assert_eq!(keys(table, range()).await?, ["r1501x", "r1502"]);
            let calls = meta.happened() - before;
            assert!((1..=most).contains(&calls), "{calls} calls instead of {most}");
        }
        let before = meta.happened();
        let down = Scan::new().start_row("r1502").stop_row("r1500").reversed();
        assert_eq!(keys(&table, down).await?, ["r1502", "r1501x"]);
        assert!(meta.happened() <= before + 1, "{}", hbase.trace());
        Ok(())
    });
}

#[test]
fn each_page_of_meta_has_a_time_limit_of_its_own() {
    FakeHBase::run(async |hbase| {
        create_table(hbase);
        let meta = meta_calls(hbase, Duration::from_millis(400));
        let config = hbase.config().with_read_timeout(Duration::from_millis(500));
        let connection = Connection::builder(config).connector(hbase.connector());
        let table = connection.connect().await?.table("t")?;
        let before = meta.happened();
        assert!(keys(&table, Scan::new()).await?.is_empty());
        let pages = meta.happened() - before;
        assert!((3..=4).contains(&pages), "{pages}: {}", hbase.trace());
        Ok(())
    });
}

/// Returns the first and the last row of each region that is called for a range.
async fn called(table: &Table, start: &str, stop: &str) -> hbase_client::Result<Vec<String>> {
    // No server has the service, so each region answers with an error.
    let call = EndpointCall::new(start, "Absent", "call", "");
    let answers = table.call_endpoint_on_range(&call, stop, 4).await?;
    let range = |answer: &RegionAnswer| {
        let key = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        format!(
            "{}-{}",
            key(&answer.region.start_key),
            key(&answer.region.end_key)
        )
    };
    Ok(answers.iter().map(range).collect())
}

#[test]
fn known_regions_that_were_merged_or_split_leave_no_gap() {
    FakeHBase::run(async |hbase| {
        hbase.create_table("t", &["f"], &["c", "f", "m"]);
        let table = hbase.connect().await?.table("t")?;
        for row in ["a", "d", "g", "n"] {
            table.put(Put::new(row).cell("f", "q", "v")).await?;
        }
        assert_eq!(called(&table, "g", "p").await?, ["f-m", "m-"]);
        hbase.merge("t", "g");
        hbase.settled().await;
        assert_eq!(called(&table, "g", "p").await?, ["c-m", "m-"]);
        hbase.split("t", "e");
        hbase.settled().await;
        assert_eq!(called(&table, "d", "f").await?, ["c-e", "e-m"]);
        assert_eq!(called(&table, "f", "g").await?, ["e-m"]);
        assert_eq!(called(&table, "", "").await?, ["-c", "c-e", "e-m", "m-"]);
        Ok(())
    });
}
