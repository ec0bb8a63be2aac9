//! `table skew`: bars, objects, the page, growth.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::harness::{Answer, TestTable, answer, command, run, run_with_input, uri};

/// Runs `table skew` with its own state folder.
fn skew(state: &Path, arguments: &[&str]) -> Answer {
    let mut skew = command([&["table", "skew"], arguments].concat());
    skew.env("HBASE_TXN_CONNECT", uri()).env("XDG_STATE_HOME", state);
    answer(skew.spawn().unwrap())
}

/// Writes rows of 100 bytes, this many for each prefix.
fn fill(table: &TestTable, rows: &[(&str, usize)]) {
    let mut lines = String::new();
    for (prefix, rows) in rows {
        for row in 0..*rows {
            let line = json!({"mutations": [{
                "op": "put", "row": format!("{prefix}{row:04}"), "family": "f", "qualifier": "q",
                "value": "v".repeat(71),
            }]});
            lines.push_str(&format!("{line}\n"));
        }
    }
    run_with_input(&["txn", "apply", &table.0], &lines).done();
    // The transactions of a new table compare clocks, in a row that is kept for a minute.
    let clock = format!("{}\\xFF_txn\\xFFclock", rows[0].0);
    run(&["delete", &table.0, &clock, "--reserved"]).done();
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

#[test]
fn objects_bars_and_growth() {
    let state = tempfile::tempdir().unwrap();
    let options = ["--family", "f", "--prefix-length", "3", "--split", "mmm"];
    let table = TestTable::with("skew", &options);
    fill(&table, &[("aaa", 20), ("bbb", 60), ("mmm", 5)]);

    let first = skew(state.path(), &[&table.0, "--output", "json"]);
    assert_eq!(first.code, 0, "{first:?}");
    assert_eq!(first.stderr, "");
    let objects = first.objects();
    let expected = json!({
        "kind": "table", "table": table.0, "fraction": 1.0, "rows": 85, "bytes": 8500, "reserved_rows": 0,
        "reserved_bytes": 0, "margin_bytes": 0, "partitions": 3, "regions": 2, "growth": null,
    });
    assert_eq!(objects[0], expected);
    let regions = of_kind(&objects, "region");
    assert_eq!(regions.len(), 2);
    assert_eq!(regions[0]["next_split"], "at");
    let halves = json!({"key": "bbb", "before": 2000, "after": 6000});
    assert_eq!(
        (&regions[0]["next_split_at"], &regions[0]["best_split_at"]),
        (&halves, &halves)
    );
    assert_eq!(
        (&regions[1]["next_split"], &regions[1]["rows"]),
        (&json!("one-partition"), &json!(5))
    );
    let partitions = of_kind(&objects, "partition");
    assert_eq!(
        (&partitions[0]["partition"], &partitions[0]["bytes"]),
        (&json!("bbb"), &json!(6000))
    );
    assert_eq!(partitions[0]["region"], regions[0]["region"]);
    let sizes = of_kind(&objects, "size").into_iter();
    assert_eq!(
        sizes
            .map(|size| size["partitions"].as_u64().unwrap())
            .sum::<u64>(),
        3
    );

    fill(&table, &[("aaa", 50)]);
    let bars = skew(state.path(), &[&table.0, "--top", "2"]).done();
    for part in [
        "115 rows and 11.2 KiB in 3 partitions and 2 regions; all rows were read",
        "+30 rows, +2.9 KiB, ±0 partitions",
        "[-∞, mmm) ▲",
        "▲ Region [-∞, mmm) has 95.7 % of the table",
        &format!("hbase-txn table split {} bbb", table.0),
        "next split at bbb: 45.5 % | 54.5 %",
        "no split: one partition",
        "████",
        "from 256 B",
    ] {
        assert!(bars.contains(part), "{part:?} is not in\n{bars}");
    }
    assert!(!bars.contains('\u{1b}') && !bars.contains("  mmm  "), "{bars}");
    let second = skew(state.path(), &[&table.0, "--output", "json"]).objects();
    assert_eq!(
        (&second[0]["growth"]["rows"], &second[0]["growth"]["bytes"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(of_kind(&second, "partition")[1]["grown_bytes"], 0);
    fill(&table, &[("bbb", 70), ("ccc", 1)]);
    let third = skew(state.path(), &[&table.0, "--output", "json"]).objects();
    let growth = &third[0]["growth"];
    assert_eq!(
        [&growth["rows"], &growth["bytes"], &growth["partitions"]],
        [&json!(11), &json!(1100), &json!(1)]
    );
    let grown = |kind, key: &str| -> Vec<(Value, Value)> {
        let objects = of_kind(&third, kind).into_iter();
        objects
            .map(|object| (object[key].clone(), object["grown_bytes"].clone()))
            .collect()
    };
    let of_regions: Vec<Value> = grown("region", "rows")
        .into_iter()
        .map(|(_, grown)| grown)
        .collect();
    assert_eq!(of_regions, [1100, 0]);
    let of_partitions = grown("partition", "partition");
    let expected = [("bbb", 1000), ("aaa", 0), ("mmm", 0), ("ccc", 100)];
    assert_eq!(
        of_partitions,
        expected.map(|(partition, grown)| (json!(partition), json!(grown)))
    );

    // The file is damaged: this is reported, and fixed.
    let folder = state.path().join("hbase-txn/skew");
    let files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    fs::write(&files[0], "{").unwrap();
    let told = skew(state.path(), &[&table.0]);
    assert!(told.code == 0 && told.stderr.contains("damaged"), "{told:?}");
    assert_eq!(skew(state.path(), &[&table.0]).stderr, "");

    let sample = skew(state.path(), &[&table.0, "--sample", "0.5", "--output", "json"]).objects();
    assert_eq!(sample[0]["fraction"], 0.5);
}

#[test]
fn a_page_that_needs_nothing_else() {
    let state = tempfile::tempdir().unwrap();
    let table = TestTable::with(
        "skew_page",
        &["--family", "f", "--delimiter", "/", "--split", "m/"],
    );
    fill(
        &table,
        &[("<script>alert(1)</script>\"'&/", 3), ("m/", 400), ("z/", 2)],
    );
    let page = state.path().join("page.html");
    fs::write(&page, "the page before").unwrap();
    let arguments = [table.0.as_str(), "--html", page.to_str().unwrap()];
    let text = skew(state.path(), &arguments).done();
    let command = format!("hbase-txn table describe {}", table.0);
    assert!(
        text.contains("▲ Partition m has 98") && text.contains(&command),
        "{text}"
    );
    let first = fs::read_to_string(&page).unwrap();
    for part in [
        "<!DOCTYPE html>",
        "prefers-color-scheme: dark",
        "<svg aria-hidden",
        "<strong>▲ too large</strong>",
        &format!("<code>{command}</code>"),
        "This is the first run",
        "no split: one partition",
        "&lt;script&gt;alert(1)&lt;",
        "of the table",
    ] {
        assert!(first.contains(part), "{part:?} is not in\n{first}");
    }
    for none in ["http", "<script", "src=", "@import", "url(", "the page before"] {
        assert!(!first.contains(none), "{none:?} is in\n{first}");
    }
    fill(&table, &[("z/", 9)]);
    skew(state.path(), &arguments).done();
    let second = fs::read_to_string(&page).unwrap();
    assert!(second.contains("What has changed since"), "{second}");
    let left = fs::read_dir(state.path()).unwrap().count();
    assert_eq!(left, 2, "more than the page and the state");
}

#[test]
fn unwritable_reports_are_refused_before_the_work() {
    let table = TestTable::new("skew_refused");
    let name = table.0.as_str();
    run(&["table", "skew", name, "--sample", "2"]).refused(1, &["sample of 2", name]);
    run(&["table", "skew", name, "--sample", "some"]).refused(2, &["auto"]);
    run(&["table", "skew", name, "--top", "-1"]).refused(2, &["--top -1"]);
    run(&["table", "skew", name, "--html", "/no/such/folder/page.html"])
        .refused(1, &["/no/such/folder/page.html"]);
    run(&["table", "skew", "no_such_table"]).refused(1, &["no such table", "no_such_table"]);
}
