//! Pages of tables with typical contents.

use std::process::Command;

use hbase_fake::FakeHBase;
use hbase_provision::{Sampling, Skew, SkewReport};
use hbase_txn::{
    PartitionRule, TableDescriptorExt,
    admin::Admin,
    client::{FamilyDescriptor, Put, TableDescriptor},
};

use super::{
    callouts::{Callout, callouts},
    page::page,
    report::ShownReport,
};

/// Partitions: a prefix, a number of rows, and the size of their values.
type Contents = Vec<(String, usize, usize)>;

/// Measures a table with these region boundaries and rows.
fn measured(rule: &PartitionRule, splits: &[&str], contents: &Contents, sampling: Sampling) -> SkewReport {
    let mut report = None;
    FakeHBase::run(async |hbase| {
        let connection = hbase.connect().await?;
        let orders = TableDescriptor::new("orders")?.with_family(FamilyDescriptor::new("f"));
        let splits: Vec<_> = splits.iter().map(|key| (*key).to_owned().into()).collect();
        let admin = Admin::new(&connection);
        admin
            .create_table(&orders.with_partition_rule(rule), &splits)
            .await?;
        let table = connection.table("orders")?;
        for (prefix, rows, size) in contents {
            let row = |row| Put::new(format!("{prefix}{row:05}")).cell("f", "q", vec![b'v'; *size]);
            let put: hbase_client::Result<()> =
                table.mutate_many((0..*rows).map(row)).await.into_iter().collect();
            put?;
        }
        let skew = Skew::new(&connection, "orders")?.sampling(sampling);
        report = Some(skew.run(|_| {}).await?);
        Ok(())
    });
    report.unwrap()
}

fn by_slash(splits: &[&str], contents: &Contents) -> SkewReport {
    let rule = PartitionRule::delimiter("/").unwrap();
    measured(&rule, splits, contents, Sampling::Fraction(1.0))
}

fn shown(report: &SkewReport) -> String {
    page(&ShownReport {
        report,
        growth: None,
        cluster: "hbase+zk://zk1:2181/hbase",
        at: 1_795_000_000,
    })
}

fn part(prefix: impl Into<String>, rows: usize) -> (String, usize, usize) {
    (prefix.into(), rows, 71)
}

/// A table of which one region has nearly everything, in many partitions.
fn one_large_region() -> SkewReport {
    let mut contents: Contents = (0..40).map(|number| part(format!("t{number:03}/"), 50)).collect();
    contents.extend([part("a/", 20), part("z/", 30)]);
    by_slash(&["t000/", "z/"], &contents)
}

fn even() -> SkewReport {
    let contents = (0..40).map(|number| part(format!("t{number:03}/"), 10 + number % 3));
    by_slash(&["t010/", "t020/", "t030/"], &contents.collect())
}

/// Returns the rows of all tables of a page.
fn rows(page: &str) -> Vec<&str> {
    let rows = page.split("<tr><th scope=\"row\">").skip(1);
    rows.map(|row| row.split("</tr>").next().unwrap()).collect()
}

/// Returns the commands that stand out.
fn commands(report: &SkewReport) -> Vec<String> {
    let commands = callouts(report)
        .into_iter()
        .map(|Callout { command, .. }| command);
    commands.collect()
}

#[test]
fn large_region_has_a_colour_a_mark_and_a_command() {
    let report = one_large_region();
    let page = shown(&report);
    let (large, others): (Vec<_>, Vec<_>) = rows(&page)
        .into_iter()
        .partition(|row| row.contains("▲ too large"));
    assert_eq!(large.len(), 1, "{page}");
    assert!(
        large[0].starts_with("<span class=\"key\">[t000/, z/)") && large[0].contains("rect class=\"wrong\"")
    );
    assert!(
        others.iter().all(|row| !row.contains("class=\"wrong\"")),
        "{page}"
    );
    assert_eq!(commands(&report), ["hbase-txn table split orders t020/"]);
    assert!(
        page.contains("<code>hbase-txn table split orders t020/</code>"),
        "{page}"
    );
}

#[test]
fn an_even_table_has_nothing_wrong() {
    let report = even();
    assert_eq!(callouts(&report), []);
    let page = shown(&report);
    assert!(page.contains("Nothing stands out."), "{page}");
    assert!(
        !page.contains("<strong>") && !page.contains("<li class=\"wrong\""),
        "{page}"
    );
}

#[test]
fn large_partition_and_its_region_have_two_commands() {
    let contents = vec![part("a/", 150), part("big/", 900), part("c/", 1), part("m/", 3)];
    let report = by_slash(&["m/"], &contents);
    let expected = [
        "hbase-txn table split orders big/",
        "hbase-txn table describe orders",
    ];
    assert_eq!(commands(&report), expected);
    // No split helps if the region has little or nothing else.
    let mostly = vec![part("a/", 5), part("big/", 900), part("m/", 3)];
    assert_eq!(commands(&by_slash(&["m/"], &mostly)), expected[1..]);
    let report = by_slash(&["big/", "c/"], &contents);
    assert_eq!(commands(&report), expected[1..]);
    // The region is no larger than the other, but the partition is.
    let others = (0..50).map(|number| part(format!("m{number}/"), 10));
    let contents: Contents = contents.into_iter().chain(others).collect();
    let report = by_slash(&["m/"], &contents);
    assert_eq!(commands(&report), expected[..1]);
}

#[test]
fn partition_that_is_cut_is_repaired() {
    let contents = vec![part("a b/", 50), part("c/", 50)];
    let report = by_slash(&["a b/00020"], &contents);
    let page = shown(&report);
    assert!(
        page.contains("▲ cut by a boundary") && page.contains("class=\"wrong\""),
        "{page}"
    );
    let command = "hbase-txn table repair orders --partition 'a b'";
    assert_eq!(commands(&report)[0], command);
}

#[test]
fn commands_are_quoted_for_a_shell() {
    let key = "it's $(x) \"`&;\\\u{1}\n/";
    let contents = vec![part("a/", 150), part(key, 900), part("m/", 3)];
    let report = by_slash(&["m/"], &contents);
    let command = &commands(&report)[0];
    let printed = command.replace("hbase-txn table split", "printf '%s|'");
    let output = Command::new("sh").args(["-c", &printed]).output().unwrap();
    let expected = r#"orders|it's $(x) "`&;\x5C\x01\x0A/|"#;
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{command}");
}

#[test]
fn every_bar_has_a_label_and_no_column_is_all_zeros() {
    for report in [one_large_region(), even(), by_slash(&["m/"], &Contents::new())] {
        let page = shown(&report);
        let rows = rows(&page);
        assert!(!rows.is_empty());
        for row in &rows {
            let (label, rest) = row.split_once("<small>").unwrap();
            assert!(label.len() > 3 && rest.matches("<svg").count() == 1, "{row}");
        }
        // The servers' reports are in MiB, and nothing is in files. There are reads, and writes.
        for none in ["\"files (MiB)\"", "\"memory (MiB)\"", "\"the toolkit's own\""] {
            assert!(
                !page.contains(&format!("data-title={none}")),
                "{none} is in {page}"
            );
        }
    }
}

#[test]
fn marks_of_partitions_and_splits_differ_and_have_a_legend() {
    let page = shown(&one_large_region());
    let row = rows(&page)
        .into_iter()
        .find(|row| row.contains("too large"))
        .unwrap();
    assert!(
        row.matches("class=\"edge\"").count() > 20 && row.matches("class=\"split\"").count() == 1,
        "{row}"
    );
    let legend = page.split("<ul class=\"legend\">").nth(1).unwrap();
    let legend = legend.split("</ul>").next().unwrap();
    for meaning in [
        "a region",
        "▲ much larger",
        "a partition begins",
        "the next split",
    ] {
        assert!(legend.contains(meaning), "{legend}");
    }
}
