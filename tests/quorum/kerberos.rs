//! A quorum that accepts clients with Kerberos tickets only.

use std::{fs, time::Duration};

use hbase_client::{Config, ErrorKind, TlsOptions};

use super::{
    Quorum, REQUIRES_SASL, connect,
    kdc::{Kdc, REALM},
    member::Setup,
    refused, site, tls,
};

const SERVER: &str = "zookeeper/localhost";
/// A principal that the servers do not have.
const OTHER: &str = "other/localhost";
const USER: &str = "alice";

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
    if index > 0 {
        setup.options.extend(REQUIRES_SASL.map(str::to_owned));
    }
    setup
}

/// Returns a client of these servers with the ticket of a keytab, or of the cache of the user, which
/// is empty.
fn client(hosts: &[String], kdc: Option<&Kdc>) -> Config {
    let (keytab, user) = (
        kdc.map(|kdc| kdc.keytab().display().to_string()),
        format!("{USER}@{REALM}"),
    );
    let servers = format!("{SERVER}@{REALM}");
    let mut settings = vec![
        ("hbase.security.authentication", "kerberos"),
        ("hbase.master.kerberos.principal", &*servers),
        ("hbase.regionserver.kerberos.principal", &*servers),
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
    let Some(mut kdc) = Kdc::start(test, &[SERVER, OTHER, USER]).await else {
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
