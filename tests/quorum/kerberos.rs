//! A quorum that accepts clients with Kerberos tickets only.

use std::{fs, time::Duration};

use hbase_client::{Config, ErrorKind, TlsOptions};

use super::{
    HAS_SASL, Quorum, REQUIRES_SASL, Znodes, connect,
    kdc::{Kdc, REALM},
    member::Setup,
    refused, site, tls,
};

const SERVER: &str = "zookeeper/localhost";
/// A principal that the servers do not have.
const OTHER: &str = "other/localhost";
const USER: &str = "alice";
/// A user that may not read the guarded znodes.
const STRANGER: &str = "bob";

/// Returns the options of a server that authenticates clients, and requires it except of those of the
/// first server, on which the test writes.
fn setup(kdc: &Kdc, index: usize) -> Setup {
    let jaas = kdc.folder().join("jaas.conf");
    let module = format!(
        "Server {{\n  com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab=\"{}\" \
         storeKey=true useTicketCache=false principal=\"{SERVER}@{REALM}\";\n}};\n",
        kdc.keytab().display()
    );
    fs::write(&jaas, module).unwrap();
    let mut setup = tls::setup("none", "TLSv1.2");
    setup.options.extend([
        format!("-Djava.security.krb5.conf={}", kdc.configuration().display()),
        format!("-Djava.security.auth.login.config={}", jaas.display()),
    ]);
    match index {
        0 => setup.options.push(HAS_SASL.to_owned()),
        _ => setup.options.extend(REQUIRES_SASL.map(str::to_owned)),
    }
    setup
}

/// Returns a client of these servers with the ticket of a keytab, or of the cache of the user, which
/// is empty.
fn client(hosts: &[String], kdc: Option<&Kdc>) -> Config {
    client_as(USER, "/hbase", hosts, kdc)
}

/// Returns a client for the znodes below this one.
fn client_as(user: &str, znode: &str, hosts: &[String], kdc: Option<&Kdc>) -> Config {
    let (keytab, user) = (
        kdc.map(|kdc| kdc.keytab().display().to_string()),
        format!("{user}@{REALM}"),
    );
    let servers = format!("{SERVER}@{REALM}");
    let mut settings = vec![
        ("hbase.security.authentication", "kerberos"),
        ("hbase.master.kerberos.principal", &*servers),
        ("hbase.regionserver.kerberos.principal", &*servers),
        ("zookeeper.znode.parent", znode),
    ];
    if let Some(keytab) = &keytab {
        settings.extend([
            ("hbase.client.keytab.file", &**keytab),
            ("hbase.client.keytab.principal", &*user),
        ]);
    }
    site(hosts, &[], &settings)
}

#[tokio::test]
async fn servers_are_authenticated_to_if_they_require_it() {
    let test = "kerberos::servers_are_authenticated_to_if_they_require_it";
    let Some(mut kdc) = Kdc::start(test, &[SERVER, OTHER, USER, STRANGER]).await else {
        return;
    };
    let quorum = Quorum::start(|index| setup(&kdc, index)).await;
    quorum.write_znodes().await;
    let plain: Vec<_> = quorum.members.iter().map(|member| member.named_host()).collect();
    let secure: Vec<_> = quorum.members.iter().map(|member| member.tls_host()).collect();

    // The first server requires nothing, so that no ticket is needed.
    connect(client(&plain[..1], None)).await.unwrap();
    for _ in 0..3 {
        connect(client(&plain[1..], Some(&kdc))).await.unwrap();
    }
    let trust = tls::store("trust.p12");
    let with_tls = |config: Config| config.with_zookeeper_tls(Some(TlsOptions::new(&trust, "changeit")));
    connect(with_tls(client(&secure[1..], Some(&kdc)))).await.unwrap();

    refused(
        site(&plain[1..], &[], &[]),
        ErrorKind::AuthenticationRequired,
        &[
            "accepts authenticated clients only",
            "set hbase.security.authentication",
        ],
    )
    .await;
    refused(
        client(&plain[1..], None),
        ErrorKind::AuthenticationFailed,
        &[
            "does not authenticate this client",
            &plain[1],
            "no authentication to zookeeper@localhost",
            "kinit",
        ],
    )
    .await;
    // A server that requires nothing, and znodes that only the user may read.
    let guarded = Znodes {
        parent: "/guarded",
        acl: ("sasl", &format!("{USER}@{REALM}")),
    };
    quorum.write(guarded).await;
    let reader = |user, kdc| client_as(user, guarded.parent, &plain[..1], kdc);
    connect(reader(USER, Some(&kdc))).await.unwrap();
    let denied = [
        "does not let this client read the znodes of HBase",
        "NoAuth (-102)",
        "hbase+rpc://",
    ];
    refused(reader(STRANGER, Some(&kdc)), ErrorKind::AccessDenied, &denied).await;
    let simple = site(&plain[..1], &[], &[("zookeeper.znode.parent", guarded.parent)]);
    refused(simple, ErrorKind::AccessDenied, &denied).await;
    refused(
        reader(USER, None),
        ErrorKind::AuthenticationFailed,
        &["no authentication to zookeeper@localhost", "kinit"],
    )
    .await;

    // The tickets are forgotten after a refusal.
    let of_service = |service: &str| {
        let config = client(&plain[1..], Some(&kdc));
        let kerberos = config.kerberos().cloned();
        config.with_kerberos(kerberos.map(|kerberos| kerberos.with_zookeeper_service(service)))
    };
    refused(
        of_service("unknown"),
        ErrorKind::AuthenticationFailed,
        &["no authentication to unknown@localhost"],
    )
    .await;
    refused(
        of_service("other"),
        ErrorKind::AuthenticationFailed,
        &[
            "ZooKeeper refused the ticket for other@localhost: SessionClosedRequireSaslAuth (-124)",
            "hbase.zookeeper.property.sasl.client.username",
        ],
    )
    .await;

    kdc.kill();
    refused(
        client(&plain[1..], Some(&kdc)).with_registry_timeout(Duration::from_secs(4)),
        ErrorKind::AuthenticationFailed,
        &[
            "no authentication to zookeeper@localhost",
            "can be reached from here",
        ],
    )
    .await;
}
