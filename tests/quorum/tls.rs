//! TLS to the servers of a quorum. Each has a port with TLS and one without.

use std::{path::Path, time::Duration};

use hbase_client::{Config, ErrorKind};

use super::{Quorum, look_up, member::Setup, refused, site};

const PASSWORD: &str = "changeit";
/// By default, ZooKeeper 3.8 has suites of TLS 1.2 only.
const CIPHER_SUITES: &str =
    "TLS_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
/// The settings of servers that do not ask for a certificate of clients, and of those that require
/// one, with either version of TLS.
const SERVERS: [(&str, &str); 3] = [("none", "TLSv1.2"), ("need", "TLSv1.2"), ("need", "TLSv1.3")];

/// Returns the path of a store. The certificate authority of `trust` has issued the certificate of
/// `keytool`; `stranger` has none.
pub(crate) fn store(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/security/src/tls/fixtures");
    folder.join(name).display().to_string()
}

pub(crate) fn setup(client_auth: &str, version: &str) -> Setup {
    let options = [
        ("ssl.keyStore.location", &*store("keytool.p12")),
        ("ssl.keyStore.password", PASSWORD),
        ("ssl.trustStore.location", &store("trust.p12")),
        ("ssl.trustStore.password", PASSWORD),
        ("ssl.clientAuth", client_auth),
        ("ssl.protocol", version),
        ("ssl.enabledProtocols", version),
        ("ssl.ciphersuites", CIPHER_SUITES),
        (
            "authProvider.x509",
            "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        ),
    ];
    Setup {
        options: options
            .map(|(key, value)| format!("-Dzookeeper.{key}={value}"))
            .to_vec(),
        has_tls: true,
    }
}

/// Returns a client that trusts this store, and presents a key.
pub(crate) fn client(hosts: &[String], trusted: &str, key: Option<&str>) -> Config {
    let (trusted, key) = (store(trusted), key.map(store));
    let mut settings = vec![
        ("client.secure", "true"),
        ("clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty"),
        ("ssl.trustStore.location", &*trusted),
        ("ssl.trustStore.password", PASSWORD),
    ];
    if let Some(key) = &key {
        settings.extend([
            ("ssl.keyStore.location", &**key),
            ("ssl.keyStore.password", PASSWORD),
        ]);
    }
    site(hosts, &settings, &[])
}

#[tokio::test]
async fn servers_are_reached_by_tls_and_refusals_are_named() {
    let quorum = Quorum::start(|index| setup(SERVERS[index].0, SERVERS[index].1)).await;
    quorum.write_znodes().await;
    let hosts: Vec<_> = quorum
        .members
        .iter()
        .map(|member| vec![member.tls_host()])
        .collect();

    look_up(client(&hosts[0], "trust.p12", None)).await;
    look_up(client(&hosts[0], "ca.pem", None)).await;
    look_up(client(&hosts[1], "trust.jks", Some("keytool.jks"))).await;
    look_up(client(&hosts[2], "trust.p12", Some("keytool.p12"))).await;
    // A server that refuses this client leaves the look-up to another one.
    look_up(client(&hosts.concat(), "trust.p12", None)).await;

    let untrusted = client(&hosts[0], "self-signed.pem", None);
    refused(
        untrusted,
        ErrorKind::AuthenticationFailed,
        &[
            "there is no TLS to the ZooKeeper quorum",
            &hosts[0][0],
            "no certificate of the trust store has issued",
            "hbase.zookeeper.property.ssl.trustStore.location",
        ],
    )
    .await;
    for host in &hosts[1..] {
        refused(
            client(host, "trust.p12", None),
            ErrorKind::AuthenticationFailed,
            &[
                &host[0],
                "requires a certificate of this client",
                "hbase.zookeeper.property.ssl.keyStore.location",
            ],
        )
        .await;
        refused(
            client(host, "trust.p12", Some("stranger.p12")),
            ErrorKind::AuthenticationFailed,
            &[&host[0], "refuses the certificate of this client"],
        )
        .await;
    }

    // A server that closes the connection, or is silent, may be starting: these are repeated.
    let impatient = |config: Config| config.with_registry_timeout(Duration::from_secs(1));
    let plain = quorum.members[0].named_host();
    refused(
        impatient(client(&[plain], "trust.p12", None)),
        ErrorKind::Unreachable,
        &["is a ZooKeeper without TLS on this port", "secureClientPort"],
    )
    .await;
    refused(
        impatient(site(&hosts[0], &[], &[])),
        ErrorKind::Unreachable,
        &["speaks TLS only", "hbase.zookeeper.property.client.secure"],
    )
    .await;
}
