//! Names and values of others control no terminal: they are escaped, whatever is printed.

use std::time::Duration;

use hbase_txn::{
    Level,
    admin::NamespaceDescriptor,
    client::{Connection, FamilyDescriptor},
    lock::{LockManagerOptions, LockTableOptions},
};
use serde_json::Value;

use crate::{
    harness::{Answer, TestTable, answer, command, run, unique_name, uri, with_admin},
    support::hostile::{self, HOSTILE},
};

/// The colours that the command itself uses.
const COLOURS: [&str; 5] = ["\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"];

/// Runs the binary against the cluster, in both formats, coloured and not. Returns the objects.
#[track_caller]
fn harmless(arguments: &[&str]) -> Vec<Value> {
    harmless_with(arguments, &[("HBASE_TXN_CONNECT", uri())])
}

/// Runs the binary with these variables, in both formats, coloured and not. Returns the objects.
#[track_caller]
fn harmless_with(arguments: &[&str], variables: &[(&str, &str)]) -> Vec<Value> {
    let mut objects = Vec::new();
    for (format, colour) in [("table", "never"), ("table", "always"), ("json", "always")] {
        let options = ["--output", format, "--color", colour];
        let mut command = command([arguments, &options].concat());
        let child = command.envs(variables.iter().copied()).spawn().unwrap();
        let Answer { stdout, stderr, .. } = answer(child);
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
#[ignore = "needs settings of namespaces"]
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
            let family = family.with_configuration(HOSTILE, HOSTILE);
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
        &["lock", "watch", &table.0, "one", "--wait", "1s"],
    ] {
        harmless(&[command, &of_client].concat());
    }
    harmless(&["lock", "list", &table.0]);
    assert!(runtime.block_on(guard.release()).unwrap().is_released());
}

/// Runs commands against a server that is not HBase's, also with a log of all events.
fn harmless_at(uri: &str, variables: &[(&str, &str)]) {
    let variables = [variables, &[("HBASE_TXN_CONNECT", uri)]].concat();
    for arguments in [
        &["table", "list"][..],
        &["get", "orders", "r", "--log", "trace"],
        &["doctor", "orders"],
    ] {
        harmless_with(&[arguments, &["--timeout", "1s"]].concat(), &variables);
    }
}

#[test]
fn hostile_zookeepers_control_no_terminal() {
    for port in hostile::zookeepers() {
        harmless_at(&format!("hbase+zk://127.0.0.1:{port}/hbase"), &[]);
    }
}

#[test]
fn hostile_refusals_of_a_token_control_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, hostile::token_file()).unwrap();
    let token = ("HADOOP_TOKEN_FILE_LOCATION", file.to_str().unwrap());
    for port in hostile::refusing() {
        let uri = format!("hbase+rpc://127.0.0.1:{port}?hbase.security.authentication=kerberos");
        harmless_at(&uri, &[token]);
    }
}
