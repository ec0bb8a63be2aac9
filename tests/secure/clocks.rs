//! Clocks that differ from that of the KDC. MIT's library adopts the time of the KDC when it requests a
//! ticket, so that many clients work nevertheless: the audit compares the clocks.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    thread,
    time::Duration,
};

use hbase_provision::audit_cluster;
use hbase_txn::client::Connection;

use super::{
    Cluster, connect, keytab_of, on_kerberos,
    refusals::{command, fill},
    support::{clock_shift, says, standalone, table, table::TestTable},
    tokens,
};

/// The clocks are those of one machine.
const EQUAL: Duration = Duration::from_secs(2);

async fn assert_equal(connection: &Connection) {
    let clock = connection.kdc_clock().await.unwrap().unwrap();
    assert!(clock.ahead() < EQUAL && clock.behind() < EQUAL, "{clock}");
}

#[tokio::test]
async fn clock_is_compared_with_the_kdcs_for_keytabs_and_caches() {
    on_kerberos(async |cluster| {
        let by_keytab = connect(cluster.config()).await.unwrap();
        assert_equal(&by_keytab).await;
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        fill(&cache, cluster);
        let kerberos = cluster.config().kerberos().unwrap().clone();
        let kerberos = kerberos.with_ticket_cache(format!("FILE:{}", cache.display()));
        let config = cluster.config().with_kerberos(Some(kerberos));
        assert_equal(&connect(config).await.unwrap()).await;

        let table = TestTable::create_on(cluster, "kdc_clock", table::plain, &[]).await;
        let audit = audit_cluster(&by_keytab, std::slice::from_ref(&table.name))
            .await
            .unwrap();
        says(&audit.kdc_clock.unwrap(), &["clock within ", " s of the KDC's"]);
        let mut findings = audit.findings.iter();
        assert!(findings.all(|finding| finding.finding != "kdc-clock-distant"));
    })
    .await;
}

#[tokio::test]
async fn client_that_needs_no_ticket_asks_no_kdc() {
    let simple = connect(standalone().config()).await.unwrap();
    assert_eq!(simple.kdc_clock().await.unwrap(), None);
    on_kerberos(async |cluster| {
        let token = tokens::obtain(cluster).await;
        let config = cluster.config().with_delegation_tokens([token]);
        let connection = connect(config).await.unwrap();
        assert_eq!(connection.kdc_clock().await.unwrap(), None);
    })
    .await;
}

/// Runs `doctor` on a table, as a process whose clock is ahead by so many seconds.
fn doctor(cluster: &Cluster, table: &TestTable, ahead: i64) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_hbase-txn"))
        .args(["doctor", &table.name.to_string()])
        .envs(&cluster.status.environment)
        .env("HBASE_CONF_DIR", cluster.conf_dir().unwrap())
        .env_remove("HBASE_TXN_CONNECT")
        .env(clock_shift::PRELOAD, clock_shift::compile(folder.path()))
        .env(clock_shift::SHIFT, ahead.to_string())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[tokio::test]
async fn clock_that_differs_from_the_kdcs_is_found() {
    on_kerberos(async |cluster| {
        let table = TestTable::create_on(cluster, "kdc_clock", table::by_three, &[]).await;
        let differences = [
            (120, "note", "ahead of"),
            (400, "broken", "ahead of"),
            (-120, "note", "behind"),
            (-400, "broken", "behind"),
        ];
        // To a clock that is behind, the new certificates are not valid yet.
        let has_tls = cluster.config().tls().is_some();
        let count = if has_tls { 2 } else { 4 };
        for (ahead, severity, direction) in differences.into_iter().take(count) {
            let (is_healthy, text) = doctor(cluster, &table, ahead);
            let finding =
                format!("{severity}: the cluster: kdc-clock-distant: the clock of this machine is at least ");
            let direction = format!(" s {direction} that of the key distribution centre");
            says(&text, &[&finding, &direction, "timedatectl set-ntp true"]);
            assert_eq!(is_healthy, severity == "note", "{text}");
        }
        let (is_healthy, text) = doctor(cluster, &table, 0);
        assert!(is_healthy && !text.contains("kdc-clock-distant"), "{text}");
        says(&text, &["; clock within ", " s of the KDC's"]);
    })
    .await;
}

/// Returns an element of DER with less than 128 bytes.
fn der(tag: u8, contents: &[u8]) -> Vec<u8> {
    [&[tag, u8::try_from(contents.len()).unwrap()], contents].concat()
}

/// Returns the `KRB-ERROR` (RFC 4120, 5.9.1) of a KDC whose clock differs too much.
fn skew(realm: &str) -> Vec<u8> {
    let int = |value: u8| der(0x02, &[value]);
    let text = |value: &str| der(0x1b, value.as_bytes());
    let names = der(0x30, &[text("krbtgt"), text(realm)].concat());
    let server = der(0x30, &[der(0xa0, &int(2)), der(0xa1, &names)].concat());
    let fields = [
        der(0xa0, &int(5)),
        der(0xa1, &int(30)),
        der(0xa4, &der(0x18, b"20200101000000Z")),
        der(0xa5, &int(0)),
        der(0xa6, &int(37)),
        der(0xa9, &text(realm)),
        der(0xaa, &server),
    ];
    der(0x7e, &der(0x30, &fields.concat()))
}

/// Answers requests until the client hangs up.
fn answer(mut client: TcpStream, error: &[u8]) -> std::io::Result<()> {
    loop {
        let mut length = [0; 4];
        client.read_exact(&mut length)?;
        let mut request = vec![0; u32::from_be_bytes(length) as usize];
        client.read_exact(&mut request)?;
        let length = (error.len() as u32).to_be_bytes();
        client.write_all(&[&length, error].concat())?;
    }
}

/// Returns the port of a KDC whose clock differs too much from that of every client.
fn kdc(error: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // The end of the client ends it.
            let _ = answer(client, &error);
        }
    });
    port
}

#[tokio::test]
async fn clock_that_the_kdc_refuses_is_named() {
    on_kerberos(async |cluster| {
        let (keytab, client) = keytab_of(&cluster.config());
        let (_, realm) = client.rsplit_once('@').unwrap();
        let conf = fs::read_to_string(&cluster.status.environment["KRB5_CONFIG"]).unwrap();
        let (own, other) = (cluster.status.ports["kdc"], kdc(skew(realm)));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("krb5.conf");
        fs::write(&file, conf.replace(&format!(":{own}"), &format!(":{other}"))).unwrap();
        let variables = [
            ("KRB5_CONFIG", file.to_str().unwrap()),
            ("KRB5CCNAME", "FILE:/no/such/cache"),
            ("KRB5_CLIENT_KTNAME", &keytab),
        ];
        let (is_healthy, text) = command(cluster, &["doctor"], &variables);
        assert!(!is_healthy, "{text}");
        says(&text, &["Clock skew too great", "by NTP"]);
    })
    .await;
}
