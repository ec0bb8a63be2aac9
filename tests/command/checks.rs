//! `table check`: each problem that prevents transactions, on a table that has it.

use std::{
    env,
    io::BufRead,
    path::Path,
    process::{Command, Output},
};

use hbase_txn::{
    PartitionRule, TableDescriptorExt,
    client::{FamilyDescriptor, TableDescriptor},
};
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::{TestTable, answer, command, run, run_with_input, start, unique_name, uri, with_admin};

const RESTRICTION: &str = "hbase.regionserver.region.split_restriction.type";

/// A table with everything that transactions need; each case removes or changes one part.
fn whole(descriptor: TableDescriptor) -> TableDescriptor {
    let rule = PartitionRule::prefix_length(3).unwrap();
    rule.attributes()
        .into_iter()
        .fold(descriptor, |descriptor, (key, value)| {
            descriptor.with_attribute(key, value)
        })
        .with_family(FamilyDescriptor::new("f"))
        .with_multi_row_mutation_endpoint()
        .with_record_family()
}

/// Returns the findings: severity and name.
pub(crate) fn findings(table: &TestTable, code: i32) -> (Vec<(String, String)>, Vec<Value>) {
    let answer = run(&["table", "check", &table.0, "--output", "json"]);
    assert_eq!(answer.code, code, "{answer:?}");
    let objects = answer.objects();
    for object in &objects {
        for key in ["what", "why", "fix"] {
            assert!(
                object[key].as_str().is_some_and(|text| !text.is_empty()),
                "{object}"
            );
        }
        assert_eq!(object["table"], table.0.as_str());
    }
    let text = |object: &Value, key: &str| object[key].as_str().unwrap().to_owned();
    let names = objects
        .iter()
        .map(|object| (text(object, "severity"), text(object, "finding")));
    (names.collect(), objects)
}

/// Runs the command of a finding as a shell would. If it loses data, allows that in a second attempt.
pub(crate) fn fix(finding: &Value) {
    let command = finding["command"].as_str().unwrap_or_else(|| panic!("{finding}"));
    assert!(!command.contains("--allow"), "{command}");
    let mut output = shell(command);
    let refusal = String::from_utf8_lossy(&output.stderr).into_owned();
    if let Some((_, permission)) = refusal.split_once("; pass ") {
        output = shell(&format!("{command} {permission}"));
    }
    assert!(output.status.success(), "{command}: {output:?}");
}

fn shell(command: &str) -> Output {
    let folder = Path::new(env!("CARGO_BIN_EXE_hbase-txn")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), env::var("PATH").unwrap_or_default());
    Command::new("sh")
        .args(["-c", command])
        .env("PATH", path)
        .env("HBASE_TXN_CONNECT", uri())
        .output()
        .unwrap()
}

pub(crate) fn named(names: &[(&str, &str)]) -> Vec<(String, String)> {
    names
        .iter()
        .map(|(severity, name)| ((*severity).to_owned(), (*name).to_owned()))
        .collect()
}

#[test]
fn a_plain_table_has_neither_rule_nor_endpoint() {
    let table = TestTable::odd(
        "plain",
        |table| table.with_family(FamilyDescriptor::new("f")),
        &["m"],
    );
    let (names, objects) = findings(&table, 1);
    let expected = [
        ("broken", "rule-missing"),
        ("broken", "endpoint-missing"),
        ("note", "record-family-missing"),
    ];
    assert_eq!(names, named(&expected));
    assert_eq!(
        objects[1]["regions"].as_array().unwrap().len(),
        2,
        "each region is asked"
    );
    run_with_input(&["txn", "apply", &table.0], "{}").refused(1, &["hbase-txn table alter"]);
    let page = run(&["table", "check", &table.0]);
    assert!(
        page.code == 1 && page.stdout.contains("  fix: hbase-txn table alter "),
        "{page:?}"
    );
}

#[test]
fn a_misspelt_rule_is_told_from_a_missing_one() {
    let spoil = |table| whole(table).with_attribute(RESTRICTION, "Keyprefix");
    let table = TestTable::odd("misspelt", spoil, &[]);
    let (names, objects) = findings(&table, 1);
    assert_eq!(names, named(&[("broken", "rule-invalid")]));
    assert!(
        objects[0]["what"].as_str().unwrap().contains("Keyprefix"),
        "{objects:?}"
    );
}

#[test]
fn each_boundary_inside_a_partition_is_named() {
    let table = TestTable::odd("cut", whole, &["ggg", "xxxm", "xxxz", "yyyy"]);
    let (names, objects) = findings(&table, 1);
    assert_eq!(names, named(&[("broken", "boundary-inside-partition"); 3]));
    let partitions: Vec<_> = objects.iter().map(|object| &object["partition"]).collect();
    assert_eq!(partitions, ["xxx", "xxx", "yyy"]);
    assert_eq!(
        objects[0]["command"],
        format!("hbase-txn table repair {}", table.0)
    );
    run_with_input(&["txn", "apply", &table.0], "").refused(1, &["partition xxx", "xxxm", "table repair"]);
}

#[test]
fn a_table_whose_commits_can_be_lost() {
    let table = TestTable::odd(
        "weak",
        |table| whole(table).with_attribute("DURABILITY", "ASYNC_WAL"),
        &[],
    );
    let (names, objects) = findings(&table, 1);
    assert_eq!(names, named(&[("broken", "weak-durability")]));
    fix(&objects[0]);
    assert_eq!(findings(&table, 0).0, []);
    let weaken = ["table", "alter", &table.0, "--attribute", "DURABILITY=SKIP_WAL"];
    run(&weaken).refused(3, &["DURABILITY", "a crash loses", "--allow-data-loss"]);
    assert_eq!(findings(&table, 0).0, []);
}

#[test]
fn a_table_that_takes_no_writes() {
    let read_only = |table: TableDescriptor| whole(table).with_attribute("READONLY", "TRUE");
    let table = TestTable::odd("read_only", read_only, &[]);
    let (names, objects) = findings(&table, 1);
    assert_eq!(names, named(&[("broken", "read-only")]));
    fix(&objects[0]);
    assert_eq!(findings(&table, 0).0, []);
}

#[test]
fn a_disabled_table() {
    let table = TestTable::odd("disabled", whole, &[]);
    with_admin(async |admin| admin.disable_table(&table.name()).await.unwrap());
    assert_eq!(findings(&table, 1).0, named(&[("broken", "table-disabled")]));
    run(&["get", &table.0, "r"]).refused(1, &["disabled", &table.0]);
    run(&["txn", "apply", &table.0]).refused(1, &["disabled", "enable"]);
}

#[test]
fn a_missing_record_family_is_a_note() {
    let options = ["--family", "f", "--prefix-length", "3", "--no-record-family"];
    let table = TestTable::with("note", &options);
    let (names, objects) = findings(&table, 0);
    assert_eq!(names, named(&[("note", "record-family-missing")]));
    let keys: Vec<_> = objects[0].as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["command", "finding", "fix", "severity", "table", "what", "why"]
    );
    assert_eq!(objects[0]["severity"], json!("note"));
    run_with_input(&["txn", "apply", &table.0], "").done();
}

#[rstest]
#[case::forgetful(
    "forgetful",
    |table: TableDescriptor| {
        let family = FamilyDescriptor::new(TableDescriptor::RECORD_FAMILY).with_attribute("TTL", "60");
        whole(table).with_family(family)
    },
    "forgets records after 60 s",
    "--record-family"
)]
#[case::window(
    "window",
    |table| whole(table).with_attribute(TableDescriptor::REPLAY_WINDOW, "a day"),
    "a number of seconds, 300 at least",
    "--attribute 'hbase-txn.replay-window.seconds=86400'"
)]
fn settings_by_which_records_would_be_lost(
    #[case] label: &str,
    #[case] spoil: fn(TableDescriptor) -> TableDescriptor,
    #[case] what: &str,
    #[case] command: &str,
) {
    let table = TestTable::odd(label, spoil, &[]);
    let (names, objects) = findings(&table, 1);
    assert_eq!(names, named(&[("broken", "records-unusable")]));
    for (key, part) in [("what", what), ("command", command)] {
        assert!(objects[0][key].as_str().unwrap().contains(part), "{objects:?}");
    }
    run_with_input(&["txn", "apply", &table.0], "").refused(1, &[what]);
    fix(&objects[0]);
    assert_eq!(findings(&table, 0).0, []);
    run_with_input(&["txn", "apply", &table.0], "").done();
}

#[test]
fn versions_of_partitions_without_a_place() {
    let spoil = |table| whole(table).with_attribute(TableDescriptor::PARTITION_VERSION, "true");
    let table = TestTable::odd("unversioned", spoil, &[]);
    assert_eq!(
        findings(&table, 1).0,
        named(&[("broken", "version-family-missing")])
    );
    run_with_input(&["txn", "apply", &table.0], "").refused(1, &["_version"]);
}

#[test]
fn rule_is_refused_with_all_contradicting_boundaries() {
    let without_rule = |table: TableDescriptor| {
        table
            .with_family(FamilyDescriptor::new("f"))
            .with_multi_row_mutation_endpoint()
    };
    let table = TestTable::odd("contradicted", without_rule, &["ggg1", "xxx", "xxxm"]);
    let alter = ["table", "alter", &table.0, "--prefix-length", "3"];
    run(&alter).refused(3, &["ggg1", "xxxm"]);
    let described = run(&["table", "describe", &table.0, "--output", "json"])
        .objects()
        .remove(0);
    assert_eq!(described["rule"], Value::Null, "nothing was changed");
    run(&["table", "repair", &table.0, "--prefix-length", "3", "--yes"]).done();
    run(&alter).done();
    assert_eq!(findings(&table, 0).0, named(&[("note", "record-family-missing")]));
}

#[test]
fn alteration_is_reported_once() {
    let table = TestTable::with(
        "altered",
        &["--family", "f", "--prefix-length", "3", "--no-record-family"],
    );
    let alter = [
        "table",
        "alter",
        &table.0,
        "--record-family",
        "--family",
        "g",
        "--family-attribute",
        "f:TTL=86400",
        "--allow-data-loss",
        &format!("{}:f:TTL", table.0),
        "--output",
        "json",
    ];
    let done: Vec<_> = run(&alter).objects();
    assert!(done.iter().any(|step| step["done"] == "modify-table"), "{done:?}");
    let again = run(&alter).objects();
    assert!(
        !again.iter().any(|step| step["done"] == "modify-table"),
        "{again:?}"
    );
    let lossy = ["table", "alter", &table.0, "--family-attribute", "f:TTL=3600"];
    run(&lossy).refused(3, &["TTL", "--allow-data-loss"]);
    run(&["table", "alter", &table.0]).refused(2, &["nothing to change"]);
    run(&["table", "alter", &table.0, "--family-attribute", "h:TTL=1"]).refused(1, &["no family h"]);
    run(&["table", "alter", &unique_name("absent"), "--endpoint"]).refused(1, &["no such table"]);
}

#[test]
fn tables_are_disabled_and_enabled() {
    let table = TestTable::new("inuse");
    let state = |action| {
        run(&["table", action, &table.0, "--output", "json"])
            .objects()
            .remove(0)
    };
    for (action, enabled) in [
        ("disable", false),
        ("disable", false),
        ("enable", true),
        ("enable", true),
    ] {
        assert_eq!(state(action), json!({"table": table.0, "enabled": enabled}));
    }
}

#[test]
fn cut_partitions_are_planned_and_repaired() {
    let table = TestTable::odd("repaired", whole, &["ggg", "xxxm"]);
    let plan = run(&["table", "repair", &table.0, "--plan", "--output", "json"]).objects();
    assert_eq!(plan.len(), 1, "{plan:?}");
    assert_eq!(plan[0]["step"], "rejoin");
    assert_eq!(
        (&plan[0]["partition"], &plan[0]["split_at"]),
        (&json!("xxx"), &json!("xxx"))
    );
    assert_eq!(plan[0]["regions"].as_array().unwrap().len(), 2);
    assert!(plan[0]["size_mib"].is_u64(), "{plan:?}");
    let repair = ["table", "repair", &table.0, "--output", "json", "--within", "5m"];
    run(&repair).refused(1, &["is unchanged", "add --yes"]);
    let limited = [&repair[..], &["--yes", "--max-regions", "1"]].concat();
    run(&limited).refused(1, &["partition xxx is in 2 regions", "--max-regions"]);
    let planned = ["table", "repair", &table.0, "--plan", "--max-regions", "1"];
    run(&planned).refused(1, &["partition xxx is in 2 regions"]);
    let repair = [&repair[..], &["--yes"]].concat();
    let done = run(&repair);
    assert!(
        done.stderr.contains("merge regions"),
        "logs have the steps: {done:?}"
    );
    let done = done.objects();
    assert_eq!(done, [json!({"table": table.0, "rejoined": 1, "splits": 1})]);
    assert_eq!(run(&repair).objects()[0]["rejoined"], 0);
    assert_eq!(findings(&table, 0).0, []);
    let plain = TestTable::odd(
        "unruled",
        |table| table.with_family(FamilyDescriptor::new("f")),
        &[],
    );
    run(&["table", "repair", &plain.0]).refused(1, &["no partition rule", "table alter"]);
    run(&["table", "repair", &unique_name("absent")]).refused(1, &["no such table"]);
}

#[test]
fn a_doctor_looks_at_the_tables_it_is_asked_for() {
    let (sound, cut) = (TestTable::new("healthy"), TestTable::odd("ill", whole, &["xxxm"]));
    let doctor = run(&["doctor", &sound.0, &cut.0, "--output", "json"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    let broken: Vec<_> = doctor
        .objects()
        .into_iter()
        .filter(|finding| finding["severity"] == "broken")
        .collect();
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert_eq!(
        (&broken[0]["table"], &broken[0]["partition"]),
        (&json!(cut.0), &json!("xxx"))
    );
    let page = run(&["doctor", &sound.0]);
    assert!(
        page.code == 0 && page.stdout.starts_with("cluster hbase+"),
        "{page:?}"
    );
    assert!(
        page.stdout
            .ends_with("\nno problems found (1 table, 1 region queried)\n"),
        "{page:?}"
    );
    let page = run(&["table", "check", &sound.0]).done();
    assert_eq!(
        page,
        format!("{}: no problems found (1 region queried)\n", sound.0)
    );
    run(&["doctor", &unique_name("absent")]).refused(1, &["no such table"]);
}

#[test]
fn findings_are_grouped_by_table_with_broken_ones_first() {
    let options = ["--family", "f", "--prefix-length", "3", "--no-record-family"];
    let noted = [
        TestTable::with("noted", &options),
        TestTable::with("noted", &options),
    ];
    let unrecorded = |table: TableDescriptor| {
        let rule = PartitionRule::prefix_length(3).unwrap();
        table
            .with_partition_rule(&rule)
            .with_family(FamilyDescriptor::new("f"))
            .with_multi_row_mutation_endpoint()
            .with_attribute("DURABILITY", "SKIP_WAL")
    };
    let cut = TestTable::odd("cut_twice", unrecorded, &["xxxm", "xxxz"]);
    let doctor = run(&["doctor", &noted[0].0, &noted[1].0, &cut.0, &cut.0]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    let heads: Vec<_> = doctor
        .stdout
        .lines()
        .skip(1)
        .filter(|line| !line.starts_with(' '))
        .filter(|line| !line.contains(" the cluster: "))
        .map(|line| line.split(": ").take(3).collect::<Vec<_>>().join(": "))
        .collect();
    let head =
        |severity: &str, table: &TestTable, finding: &str| format!("{severity}: {}: {finding}", table.0);
    let missing = "record-family-missing";
    let expected = [
        head("broken", &cut, "boundary-inside-partition"),
        head("broken", &cut, "boundary-inside-partition"),
        head("broken", &cut, "weak-durability"),
        head("note", &cut, missing),
        head("note", &noted[0], missing),
        head("note", &noted[1], missing),
    ];
    assert_eq!(heads[..6], expected, "{doctor:?}");
    assert!(
        heads[6].starts_with("3 broken, ") && heads[6].ends_with(" notes"),
        "{doctor:?}"
    );
    let mut lines: Vec<_> = doctor.stdout.lines().collect();
    lines.sort_unstable();
    assert!(lines.windows(2).all(|pair| pair[0] != pair[1]), "{doctor:?}");
}

/// A command that runs until it is told to end, or its test ends.
struct Watcher(std::process::Child);

impl Watcher {
    /// Tells it to end, and returns its status.
    fn end(&mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }
}

#[test]
fn a_watch_without_an_answer_asks_again_and_proves_nothing() {
    let name = unique_name("awaited");
    for command in [&["doctor", &name][..], &["table", "check", &name]] {
        let mut watcher = Watcher(start(&[command, &["--watch", "1s"]].concat()));
        let mut lines = std::io::BufReader::new(watcher.0.stderr.take().unwrap()).lines();
        for _ in 0..2 {
            let complaint = lines.next().unwrap().unwrap();
            assert!(
                complaint.contains("no such table") && complaint.contains("the next audit is in 1s"),
                "{complaint}"
            );
        }
        assert_eq!(watcher.end(), Some(1), "{command:?}");
    }
}

#[test]
fn watch_reports_new_and_fixed_findings() {
    let table = TestTable::new("watched");
    let command = ["table", "check", &table.0, "--watch", "1s", "--output", "json"];
    let mut watcher = Watcher(start(&command));
    let lines = std::io::BufReader::new(watcher.0.stdout.take().unwrap()).lines();
    // Regions in transition are reported, too: those of this table open again.
    let mut changes = lines
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
        .filter(|change| change["finding"] == "splits-disabled");
    run(&["table", "alter", &table.0, "--splits", "off"]).done();
    let found = changes.next().unwrap();
    assert_eq!(found["change"], "found");
    fix(&found);
    assert_eq!(changes.next().unwrap()["change"], "gone");
    assert_eq!(
        watcher.end(),
        Some(0),
        "the last answer was that nothing is broken"
    );
    run(&["table", "check", &table.0, "--watch", "10ms"]).refused(1, &["the shortest interval is 1s"]);
}

#[test]
fn text_for_people_has_colours_on_request_only() {
    let table = TestTable::new("colours");
    let plain = run(&["table", "check", "no_such_table"]);
    assert!(plain.stderr.starts_with("hbase-txn: "), "{plain:?}");
    let check = ["table", "check", "no_such_table", "--color"];
    let always = run(&[&check[..], &["always"]].concat());
    assert!(
        always.stderr.starts_with("\x1b[31mhbase-txn:\x1b[0m "),
        "{always:?}"
    );
    let never = run(&[&check[..], &["never"]].concat());
    assert_eq!(never.stderr, plain.stderr);

    let describe = ["table", "describe", &table.0];
    let page = run(&describe).done();
    assert!(
        page.contains("\n family  attributes\n") && !page.contains('\x1b'),
        "{page:?}"
    );
    let colored = run(&[&describe[..], &["--color", "always"]].concat()).done();
    assert!(
        colored.contains("\n\x1b[1m family  attributes\x1b[0m\n"),
        "{colored:?}"
    );
    assert_eq!(colored.replace("\x1b[1m", "").replace("\x1b[0m", ""), page);
    let json = run(&[&describe[..], &["--color", "always", "--output", "json"]].concat()).done();
    assert!(!json.contains('\x1b'), "{json:?}");

    with_admin(async |admin| admin.disable_table(&table.name()).await.unwrap());
    let findings = run(&["table", "check", &table.0, "--color", "always"]);
    assert!(
        findings.stdout.contains("\x1b[31mbroken\x1b[0m: "),
        "{findings:?}"
    );
    let forced = command(["table", "check", &table.0])
        .env("HBASE_TXN_CONNECT", uri())
        .env("CLICOLOR_FORCE", "1")
        .env_remove("NO_COLOR")
        .spawn();
    assert_eq!(answer(forced.unwrap()).stdout, findings.stdout);
}
