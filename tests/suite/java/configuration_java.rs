//! Files `hbase-site.xml` as this client and HBase's own read them.

use std::{collections::BTreeMap, fs, path::Path};

use hbase_txn::client::{ClusterAddress, Config};

use crate::support::java::configurations;

/// What this client makes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The same settings as Java, without a warning.
    Same,
    /// A warning that names this key.
    Warns(&'static str),
    /// An error that says this, and the file.
    Refuses(&'static str),
}

use Verdict::{Refuses, Same, Warns};

fn site(properties: &str) -> Vec<u8> {
    format!("<?xml version=\"1.0\"?>\n<configuration>\n{properties}\n</configuration>\n").into_bytes()
}

fn property(name: &str, value: &str) -> String {
    format!("<property><name>{name}</name><value>{value}</value></property>")
}

fn with(properties: &[(&str, &str)]) -> Vec<u8> {
    let properties: String = properties
        .iter()
        .map(|(name, value)| property(name, value))
        .collect();
    site(&properties)
}

/// A file of which the encoding is declared.
fn declared(encoding: &str, comment: &[u8]) -> Vec<u8> {
    let mut file = format!("<?xml version=\"1.0\" encoding=\"{encoding}\"?><configuration><!--").into_bytes();
    file.extend(comment);
    file.extend(b"-->");
    file.extend(property(QUORUM, "zk1").as_bytes());
    file.extend(b"</configuration>");
    file
}

fn utf_16(text: &[u8]) -> Vec<u8> {
    let units = String::from_utf8(text.to_vec()).unwrap();
    let units = units.encode_utf16().flat_map(u16::to_be_bytes);
    [0xfe, 0xff].into_iter().chain(units).collect()
}

const QUORUM: &str = "hbase.zookeeper.quorum";
const CLIENT_QUORUM: &str = "hbase.client.zookeeper.quorum";
const PORT: &str = "hbase.zookeeper.property.clientPort";
const CLIENT_PORT: &str = "hbase.client.zookeeper.property.clientPort";
const ZNODE: &str = "zookeeper.znode.parent";
const PAUSE: &str = "hbase.client.pause";
const SCAN: &str = "hbase.client.replicaCallTimeout.scan";
const MAX_CELL: &str = "hbase.client.keyvalue.maxsize";

/// The files, with what this client makes of them.
fn cases() -> Vec<(&'static str, Vec<u8>, Verdict)> {
    let text = |text: &str| text.as_bytes().to_vec();
    let zk = property(QUORUM, "zk1");
    vec![
        (
            "a sound file",
            with(&[(QUORUM, "zk1, zk2"), (PORT, "2182"), (ZNODE, "/h"), (PAUSE, "7")]),
            Same,
        ),
        ("only defaults", with(&[(MAX_CELL, "1")]), Same),
        // What is no configuration.
        (
            "text",
            text("hbase.zookeeper.quorum=zk1\n"),
            Refuses("outside of <configuration>"),
        ),
        ("nothing", text(""), Refuses("there is no <configuration>")),
        (
            "JSON",
            text("{\"hbase.zookeeper.quorum\": \"zk1\"}"),
            Refuses("outside of <configuration>"),
        ),
        (
            "zoo.cfg",
            text("clientPort=2181\nserver.1=zk1:2888:3888\n"),
            Refuses("outside of <configuration>"),
        ),
        (
            "two roots",
            text("<configuration/><configuration/>"),
            Refuses("after the end of <configuration>"),
        ),
        (
            "text behind the root",
            text("<configuration></configuration>\nzk1"),
            Refuses("outside of <configuration>"),
        ),
        (
            "text before the root",
            text("zk1<configuration></configuration>"),
            Refuses("outside of <configuration>"),
        ),
        (
            "another root",
            text("<project><property/></project>"),
            Refuses("<project> in place of <configuration>"),
        ),
        (
            "a root that is not closed",
            text(&format!("<configuration>{zk}")),
            Refuses("never closed"),
        ),
        // Encodings.
        (
            "UTF-8 with a mark",
            [&[0xef, 0xbb, 0xbf][..], &with(&[(QUORUM, "zk1")])].concat(),
            Same,
        ),
        ("ISO-8859-1, only ASCII", declared("ISO-8859-1", b"a"), Same),
        ("GBK, only ASCII", declared("GBK", b"a"), Same),
        ("GBK", declared("GBK", &[0xd6, 0xd0]), Refuses("UTF-8")),
        ("ISO-8859-1", declared("ISO-8859-1", &[0xe9]), Refuses("UTF-8")),
        (
            "ISO-8859-1 that may be UTF-8",
            declared("ISO-8859-1", "é".as_bytes()),
            Refuses("ISO-8859-1"),
        ),
        ("UTF-16", utf_16(&with(&[(QUORUM, "zk1")])), Refuses("UTF-8")),
        // Names and values.
        (
            "two values",
            site(
                "<property><name>hbase.zookeeper.quorum</name><value>zk1</value><value>zk2</value></property>",
            ),
            Same,
        ),
        (
            "two names",
            site("<property><name>a</name><name>hbase.zookeeper.quorum</name><value>zk1</value></property>"),
            Same,
        ),
        (
            "a property without a value",
            site(&format!(
                "{zk}<property><name>hbase.zookeeper.quorum</name></property>"
            )),
            Same,
        ),
        (
            "a final property",
            site(
                "<property><name>hbase.client.pause</name><value>7</value><final>true</final></property>\
                  <property><name>hbase.client.pause</name><value>8</value></property>",
            ),
            Same,
        ),
        (
            "attributes",
            site("<property name=\"hbase.client.pause\" value=\"7\"/>"),
            Same,
        ),
        (
            "CDATA and a comment",
            site(&property(QUORUM, "<![CDATA[zk]]><!-- 1 -->1")),
            Same,
        ),
        (
            "an entity of a DTD",
            text(
                "<!DOCTYPE configuration [<!ENTITY zk \"zk1\">]><configuration><property>\
                  <name>hbase.zookeeper.quorum</name><value>&zk;</value></property></configuration>",
            ),
            Refuses("&zk;"),
        ),
        ("a number in hex", with(&[(PAUSE, "0x64")]), Same),
        ("a negative number in hex", with(&[(MAX_CELL, "-0x1")]), Same),
        ("a number with a sign", with(&[(PAUSE, "+7")]), Same),
        ("a number with blanks", with(&[(PAUSE, " 7\n")]), Same),
        (
            "a number with a suffix",
            with(&[(PAUSE, "7L")]),
            Refuses("hbase.client.pause"),
        ),
        (
            "a word for a number",
            with(&[(PAUSE, "soon")]),
            Refuses("hbase.client.pause"),
        ),
        (
            "a default of HBase",
            with(&[(PAUSE, "${hbase.rpc.timeout}")]),
            Same,
        ),
        ("another property", with(&[("a", "9"), (PAUSE, "${a}0")]), Same),
        (
            "no such property",
            with(&[(PAUSE, "${a}")]),
            Refuses("hbase.client.pause"),
        ),
        // The quorum.
        ("a comma at the end", with(&[(QUORUM, "zk1,zk2,")]), Same),
        ("two commas", with(&[(QUORUM, "zk1,,zk2")]), Same),
        (
            "a port of one host",
            with(&[(QUORUM, "zk1:2183,zk2"), (PORT, "2182")]),
            Same,
        ),
        (
            "a path in ZooKeeper",
            with(&[(QUORUM, "zk1:2181,zk2:2181/root"), (ZNODE, "/h")]),
            Same,
        ),
        (
            "a path behind a host without a port",
            with(&[(QUORUM, "zk1,zk2/root")]),
            Refuses(QUORUM),
        ),
        ("a port in hex", with(&[(QUORUM, "zk1"), (PORT, "0x886")]), Same),
        (
            "a quorum of the client",
            with(&[(QUORUM, "zk1"), (CLIENT_QUORUM, "zk2,zk3"), (PORT, "2182")]),
            Same,
        ),
        (
            "a quorum and a port of the client",
            with(&[
                (QUORUM, "zk1"),
                (CLIENT_QUORUM, "zk2"),
                (CLIENT_PORT, "2183"),
                (PORT, "2182"),
            ]),
            Same,
        ),
        (
            "a port of the client alone",
            with(&[(QUORUM, "zk1"), (CLIENT_PORT, "2183")]),
            Warns(CLIENT_PORT),
        ),
        // Keys of HBase's own client.
        ("the time for the primary", with(&[(SCAN, "77")]), Same),
        (
            "regions that are located ahead",
            with(&[("hbase.client.locate.prefetch.limit", "3")]),
            Warns("hbase.client.locate.prefetch.limit"),
        ),
        (
            "a connection of another class",
            with(&[("hbase.client.connection.impl", "com.example.Connection")]),
            Warns("hbase.client.connection.impl"),
        ),
    ]
}

/// Returns the settings that Java prints, as this client has them.
fn settings(config: &Config) -> BTreeMap<String, String> {
    let ClusterAddress::ZooKeeper { quorum, znode } = config.address() else {
        panic!("{}", config.address());
    };
    let hosts: Vec<_> = quorum.iter().map(ToString::to_string).collect();
    let max_cell = match config.max_cell_size() {
        usize::MAX => -1,
        bytes => i64::try_from(bytes).unwrap(),
    };
    BTreeMap::from(
        [
            ("quorum", hosts.join(",")),
            ("znode", znode.clone()),
            (PAUSE, config.pause().as_millis().to_string()),
            (SCAN, config.primary_scan_timeout().as_micros().to_string()),
            (MAX_CELL, max_cell.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    )
}

/// Brings Java's settings into the form of this client's.
fn normal(mut java: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let quorum = java["quorum"].clone();
    let (hosts, root) = quorum.split_at(quorum.find('/').unwrap_or(quorum.len()));
    let hosts: Vec<_> = hosts.split(',').map(str::trim).collect();
    // What hbase-default.xml of a jar has for tests on one machine.
    let hosts = hosts.join(",").replace("127.0.0.1:", "localhost:");
    let znode = format!("{root}{}", java["znode"]);
    java.insert("quorum".to_owned(), hosts);
    java.insert("znode".to_owned(), znode);
    if java[SCAN] == "-1" {
        java.insert(SCAN.to_owned(), "1000000".to_owned());
    }
    java
}

#[tokio::test]
async fn file_is_read_as_java_reads_it_or_with_a_word_about_it() {
    let folder = tempfile::tempdir().unwrap();
    let cases = cases();
    let mut files = Vec::new();
    for (number, (_, contents, _)) in cases.iter().enumerate() {
        let file = folder.path().join(format!("{number}.xml"));
        fs::write(&file, contents).unwrap();
        files.push(file);
    }
    files.push(Path::new("/dev/null").to_owned());
    let mut cases: Vec<_> = cases
        .into_iter()
        .map(|(name, _, verdict)| (name, verdict))
        .collect();
    cases.push(("/dev/null", Refuses("there is no <configuration>")));
    let java = configurations(&files).await;
    let mut wrong = Vec::new();
    for (((name, verdict), file), java) in cases.into_iter().zip(&files).zip(java) {
        let ours = Config::from_hbase_site_file(file);
        let is_right = match (&ours, verdict) {
            (Ok(config), Same) => {
                let java = java.clone().map(normal);
                config.warnings().is_empty() && java.as_ref() == Ok(&settings(config))
            }
            (Ok(config), Warns(key)) => config.warnings().iter().any(|warning| warning.contains(key)),
            (Err(error), Refuses(why)) => {
                let text = error.to_string();
                text.contains(why) && text.matches(file.to_str().unwrap()).count() == 1
            }
            _ => false,
        };
        if !is_right {
            let ours = ours.map(|config| (settings(&config), config.warnings().to_vec()));
            wrong.push(format!("{name}, {verdict:?}:\n  {ours:?}\n  Java: {java:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
