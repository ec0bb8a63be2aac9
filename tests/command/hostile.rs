//! Names and values of others control no terminal: they are escaped, whatever is printed.

use std::time::Duration;

use hbase_txn::{
    Connection, FamilyDescriptor, Level, NamespaceDescriptor,
    lock::{LockManagerOptions, LockTableOptions},
};
use serde_json::Value;

use crate::harness::{Answer, TestTable, run, unique_name, uri, with_admin};

/// Clears the screen, sets the title, moves the cursor, ends the line, and the same in one byte.
const HOSTILE: &str = "\x1b[2J\x1b]0;owned\x07\r\n\x08\x7f\u{9b}2Jfine";
/// The colours that the command itself uses.
const COLOURS: [&str; 5] = ["\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"];

/// Runs the binary in both formats, coloured and not. Returns the objects.
#[track_caller]
fn harmless(arguments: &[&str]) -> Vec<Value> {
    let mut objects = Vec::new();
    for (format, colour) in [("table", "never"), ("table", "always"), ("json", "always")] {
        let options = ["--output", format, "--color", colour];
        let Answer { stdout, stderr, .. } = run(&[arguments, &options].concat());
        for text in [&stdout, &stderr] {
            let text = match colour {
                "always" => COLOURS
                    .iter()
                    .fold(text.clone(), |text, colour| text.replace(colour, "")),
                _ => text.clone(),
            };
            let control = text.chars().find(|c| c.is_control() && *c != '\n');
            assert_eq!(control, None, "{arguments:?}: {text:?}");
            let forged = text
                .lines()
                .find(|line| line.starts_with("fine") || line.is_empty() && format == "json");
            assert_eq!(forged, None, "{arguments:?}: {text:?}");
        }
        if format == "json" {
            let lines = stdout.lines().map(|line| serde_json::from_str(line).unwrap());
            objects = lines.collect();
        }
    }
    objects
}

#[test]
fn settings_of_others_control_no_terminal() {
    let name = unique_name("hostile");
    let namespace = NamespaceDescriptor::new(&name).with_configuration("note", HOSTILE);
    with_admin(async |admin| admin.create_namespace(namespace).await.unwrap());
    let listed = harmless(&["namespace", "list"]);
    run(&["namespace", "delete", &name]);
    let ours = listed.iter().find(|object| object["namespace"] == *name).unwrap();
    assert_eq!(ours["settings"]["note"], HOSTILE, "JSON has the text as it is");

    let table = TestTable::odd(
        "hostile",
        |table| {
            let family = FamilyDescriptor::new("f").with_attribute("note", HOSTILE);
            table.with_family(family).with_attribute(HOSTILE, HOSTILE)
        },
        &[],
    );
    harmless(&["table", "describe", &table.0]);
    harmless(&["table", "check", &table.0]);
    harmless(&["doctor", &table.0]);
    harmless(&["provision", "export", &table.0]);
    harmless(&["get", &table.0, HOSTILE]);
    harmless(&["put", &table.0, "r", &format!("{HOSTILE}:q=v")]);
}

#[test]
fn names_of_holders_control_no_terminal() {
    let table = TestTable::odd(
        "holders",
        |table| LockTableOptions::from(table.name).descriptor(),
        &[],
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let guard = runtime.block_on(async {
        let connection = Connection::connect(uri()).await.unwrap();
        let options = LockManagerOptions::new("client").farm("fra").holder(HOSTILE);
        let locks = options.open(&connection, table.name()).await.unwrap();
        let request = locks.lock(Level::Dc, "one").unwrap().ttl(Duration::from_secs(60));
        request.try_acquire().await.unwrap().unwrap()
    });
    let of_client = ["--farm", "fra", "--client", "client"];
    for command in [
        &["lock", "show", &table.0, "one"][..],
        &["lock", "acquire", &table.0, "one"],
        &["lock", "watch", &table.0, "one", "--for", "1s"],
    ] {
        harmless(&[command, &of_client].concat());
    }
    harmless(&["lock", "list", &table.0]);
    assert!(runtime.block_on(guard.release()).unwrap().is_released());
}
