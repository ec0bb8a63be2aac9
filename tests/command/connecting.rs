//! The choice of the cluster, and the errors for a wrong one.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

use rstest::rstest;

use crate::harness::{TestTable, answer, command, run, run_alone, uri};

/// The time limit of an error.
const IN_TIME: Duration = Duration::from_secs(10);

/// Starts a server that does this with every connection while the test runs, and returns its port.
fn server(serve: impl Fn(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            serve(stream.unwrap());
        }
    });
    port
}

#[rstest]
fn closed_port_is_reported_in_time(#[values("hbase+zk", "hbase+rpc")] scheme: &str) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = format!("{scheme}://{free}");
    let answer = run_alone(&["get", "orders", "r", "--connect", &address]);
    answer.refused(1, &["hbase-txn: ", "finding hbase:meta", &free.to_string()]);
    assert!(answer.took < IN_TIME && answer.stdout.is_empty(), "{answer:?}");
}

#[rstest]
fn a_port_that_answers_garbage_is_reported_in_time(#[values("hbase+zk", "hbase+rpc")] scheme: &str) {
    let port = server(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.read(&mut [0; 1024]);
    });
    let address = format!("{scheme}://127.0.0.1:{port}");
    let answer = run_alone(&["get", "orders", "r", "--connect", &address]);
    answer.refused(1, &["hbase-txn: ", &format!("127.0.0.1:{port}")]);
    assert!(answer.took < IN_TIME, "{answer:?}");
}

#[rstest]
fn a_port_that_never_answers_is_reported_in_time(#[values("hbase+zk", "hbase+rpc")] scheme: &str) {
    let port = server(|mut stream| {
        thread::spawn(move || while stream.read(&mut [0; 1024]).is_ok_and(|read| read > 0) {});
    });
    let address = format!("{scheme}://127.0.0.1:{port}");
    let answer = run_alone(&["scan", "orders", "--connect", &address]);
    answer.refused(1, &["hbase-txn: ", &format!("127.0.0.1:{port}")]);
    assert!(answer.took < IN_TIME, "{answer:?}");
}

#[test]
fn the_timeout_bounds_a_silent_port_too() {
    let port = server(|mut stream| {
        thread::spawn(move || while stream.read(&mut [0; 1024]).is_ok_and(|read| read > 0) {});
    });
    let address = format!("hbase+rpc://127.0.0.1:{port}");
    let answer = run_alone(&["get", "orders", "r", "--connect", &address, "--timeout", "500ms"]);
    answer.refused(1, &["hbase-txn: "]);
    assert!(answer.took < Duration::from_secs(3), "{answer:?}");
}

#[test]
fn user_of_hadoop_who_is_not_acted_as_is_named() {
    let line = ["get", "orders", "r", "--connect", "hbase+rpc://127.0.0.1:1"];
    let run = command(line).env("HADOOP_PROXY_USER", "tenant").spawn().unwrap();
    answer(run).refused(1, &["HADOOP_PROXY_USER is \"tenant\"", "with_effective_user"]);
}

#[rstest]
#[case(&["get", "orders", "r"], 1, &["--connect", "HBASE_TXN_CONNECT", "--config", "hbase-txn dev up"])]
#[case(&["get", "orders", "r", "--connect", "http://x"], 2, &["--connect", "http://x"])]
#[case(&["get", "orders", "r", "--connect", "foo"], 2, &["--connect", "foo"])]
#[case(&["get", "orders", "r", "--connect", "hbase+zk://localhost:notaport/hbase"], 2, &["--connect", "notaport"])]
#[case(&["get", "orders", "r", "--config", "/no/such/file"], 1, &["/no/such/file", "No such file"])]
#[case(&["table", "create", "t", "--family", "f", "--prefix-length", "0"], 2, &["prefix length of 0"])]
#[case(&["table", "create", "t", "--family", "f", "--prefix-length", "3", "--split", "xxxm"], 1, &["xxxm", "partition xxx"])]
#[case(&["table", "create", "t", "--family", "_txn", "--prefix-length", "3"], 1, &["_txn is reserved"])]
#[case(&["table", "create", "t", "--family", "f", "--family", "f", "--prefix-length", "3"], 1, &["family f is given twice"])]
#[case(&["table", "create", "t", "--family", "f", "--prefix-length", "-1"], 2, &["--prefix-length -1 is out of range"])]
#[case(&["scan", "orders", "--limit", "-1"], 2, &["--limit -1 is out of range"])]
#[case(&["table", "count", "orders", "--regions-at-once", "0"], 2, &["--regions-at-once 0 is out of range: 1 to 64"])]
#[case(&["table", "skew", "orders", "--regions-at-once", "65"], 2, &["--regions-at-once 65 is out of range: 1 to 64"])]
#[case(&["get", "orders", "r", "--versions", "-1"], 2, &["--versions -1 is out of range"])]
#[case(&["put", "orders", "r", "f:q=v", "--timestamp", "-5"], 2, &["--timestamp -5 is out of range"])]
#[case(&["put", "orders", "r", "f:q=v", "--timestamp", "99999999999999999999"], 2, &["--timestamp 99999999999999999999 is out of range"])]
#[case(&["put", "orders", "r", "f:q=v", "--ttl", "-1s"], 2, &["--ttl -1s is out of range"])]
#[case(&["scan", "orders", "--connect", "hbase+rpc://m", "--timeout", "-1s"], 2, &["--timeout -1s is out of range"])]
#[case(&["dev", "up", "--region-servers", "-1"], 2, &["--region-servers -1 is out of range"])]
#[case(&["txn", "apply", "orders", "/no/such/file"], 1, &["reading /no/such/file"])]
#[case(&["put", "orders", "a", "f:q=1", "f:q=2"], 1, &["row a", "cell f:q is put twice"])]
#[case(&["table", "create", "t", "--prefix-length", "3"], 2, &["--family"])]
#[case(&["table", "create", "t", "--family", "f"], 2, &["--prefix-length", "--delimiter"])]
#[case(&["get", "a:b:c", "r"], 2, &["can't be a table's name"])]
#[case(&["get", "orders", r"a\n"], 2, &["stray backslash"])]
#[case(&["scan", "orders", "--timeout", "soon"], 2, &["500ms, 1.5s, 5m, 1h or 1d"])]
#[case(&["frobnicate"], 2, &["frobnicate"])]
fn invalid_commands_need_no_server_to_be_refused(
    #[case] line: &[&str],
    #[case] code: i32,
    #[case] why: &[&str],
) {
    let answer = run_alone(line);
    answer.refused(code, why);
    assert!(answer.stdout.is_empty(), "{answer:?}");
}

#[test]
fn a_malformed_uri_in_the_environment_can_t_be_parsed_either() {
    let malformed = command(["get", "orders", "r"])
        .env("HBASE_TXN_CONNECT", "foo")
        .spawn();
    answer(malformed.unwrap()).refused(2, &["HBASE_TXN_CONNECT", "foo"]);
    let usage = command(["get"]).env("HBASE_TXN_CONNECT", "hbase+rpc://m").spawn();
    answer(usage.unwrap()).refused(2, &["Usage: hbase-txn get <TABLE> <ROW>"]);
    let empty = command(["get", "orders", "r"])
        .env("HBASE_TXN_CONNECT", "")
        .spawn();
    answer(empty.unwrap()).refused(1, &["no cluster is named"]);
}

#[rstest]
#[case(&["table", "create"])]
#[case(&["table", "check"])]
#[case(&["table", "describe"])]
#[case(&["table", "drop"])]
#[case(&["txn", "apply"])]
#[case(&["get"])]
#[case(&["scan"])]
#[case(&["put"])]
#[case(&["delete"])]
fn help_shows_an_example(#[case] command: &[&str]) {
    let help = run_alone(&[command, &["--help"]].concat()).done();
    assert!(
        help.contains(&format!("Example: hbase-txn {}", command.join(" "))),
        "{help}"
    );
}

#[test]
fn the_version_is_told() {
    let version = run_alone(&["--version"]).done();
    assert_eq!(version, format!("hbase-txn {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
#[ignore = "needs ZooKeeper"]
fn options_beat_the_environment_and_the_file_in_any_position() {
    let table = TestTable::new("options");
    run(&["put", &table.0, "r", "f:q=1", "--timestamp", "7"]).done();
    let row = "{\"row\":\"r\",\"cells\":[{\"family\":\"f\",\"qualifier\":\"q\",\"timestamp\":7,\"value\":\"1\"}]}\n";
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("hbase-site.xml");
    let property =
        |name: &str, value: &str| format!("<property><name>{name}</name><value>{value}</value></property>");
    let quorum = uri()
        .strip_prefix("hbase+zk://")
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    let (host, port) = quorum.split_once(':').unwrap();
    let properties =
        property("hbase.zookeeper.quorum", host) + &property("hbase.zookeeper.property.clientPort", port);
    fs::write(&site, format!("<configuration>{properties}</configuration>")).unwrap();
    let site = site.to_str().unwrap();
    let nowhere = "hbase+rpc://127.0.0.1:1";
    let lines: [(&[&str], &str); 5] = [
        (
            &["--connect", uri(), "--output", "json", "get", &table.0, "r"],
            nowhere,
        ),
        (
            &["get", "--output", "json", "--connect", uri(), &table.0, "r"],
            nowhere,
        ),
        (
            &["get", &table.0, "r", "--output", "json", "--connect", uri()],
            nowhere,
        ),
        (&["get", &table.0, "r", "--output", "json"], uri()),
        (&["get", &table.0, "r", "--output", "json", "--config", site], ""),
    ];
    for (line, environment) in lines {
        let child = command(line)
            .env("HBASE_TXN_CONNECT", environment)
            .spawn()
            .unwrap();
        assert_eq!(answer(child).done(), row, "{line:?}");
    }
    let line = ["get", &table.0, "r", "--config", site, "--timeout", "2s"];
    let beaten = answer(command(line).env("HBASE_TXN_CONNECT", nowhere).spawn().unwrap());
    beaten.refused(1, &["127.0.0.1:1"]);
}

#[test]
#[ignore = "needs ZooKeeper"]
fn conf_dir_of_the_environment_leads_to_the_cluster() {
    let table = TestTable::new("conf_dir");
    run(&["put", &table.0, "r", "f:q=1"]).done();
    let (_, rest) = uri().split_once("://").unwrap();
    let (quorum, _) = rest.split_once('/').unwrap();
    let (host, port) = quorum.split_once(':').unwrap();
    let folder = tempfile::tempdir().unwrap();
    let property =
        |name: &str, value: &str| format!("<property><name>{name}</name><value>{value}</value></property>");
    let write = |file: &str, body: &str| {
        let xml =
            format!("<configuration xmlns:xi=\"http://www.w3.org/2001/XInclude\">{body}</configuration>");
        fs::write(folder.path().join(file), xml).unwrap();
    };
    // As in real files: one includes the other, and both use the environment.
    write(
        "core-site.xml",
        &property("quorum.host", "${env.TEST_QUORUM_HOST:-nowhere}"),
    );
    write(
        "hbase-site.xml",
        &("<xi:include href=\"ports.xml\"/>".to_owned()
            + &property("hbase.zookeeper.quorum", "${quorum.host}")
            + &property("hbase.rpc.timeout", "0")
            + &property("hbase.client.rpc.compressor", "a.Compressor")),
    );
    write(
        "ports.xml",
        &property("hbase.zookeeper.property.clientPort", port),
    );
    let started = command(["get", &table.0, "r", "--output", "json"])
        .env("HBASE_CONF_DIR", folder.path())
        .env("TEST_QUORUM_HOST", host)
        .spawn();
    let answer = answer(started.unwrap());
    assert!(
        answer.stderr.contains("hbase.client.rpc.compressor"),
        "{answer:?}"
    );
    assert!(answer.done().contains("\"value\":\"1\""));
}

#[test]
fn log_has_a_line_for_each_operation_with_its_attempts_and_outcome() {
    let table = TestTable::new("logged");
    run(&["put", &table.0, "xxxr", "f:q=1"]).done();
    let answer = run(&["get", &table.0, "xxxr", "--log", "hbase_client=debug"]);
    for part in [
        "close get ",
        " attempt=1",
        " outcome=ok",
        " server.address=",
        " region=",
        &table.0,
    ] {
        assert!(answer.stderr.contains(part), "{part:?} is not in {answer:?}");
    }
    let quiet = run(&["get", &table.0, "xxxr", "--log", "warn"]);
    assert!(quiet.stderr.is_empty(), "{quiet:?}");
}
