//! Servers and clients that do not accept each other's identity. Every refusal is final, and its text
//! names the cause.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{Config, Connector, DialTarget, Io, TlsOptions},
};
use tokio::net::TcpStream;

use super::{
    support::standalone,
    tls::{PASSWORD, VERSIONS, config, has_tls, on_mutual_tls, on_tls, own, run, stores},
    *,
};

/// Stores whose certificate authority no cluster trusts.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("REPOSITORY")).join("crates/security/src/tls/fixtures")
}

/// Asserts that a client with these settings fails at once, and not at its deadline.
async fn assert_refused(config: Config, kind: ClientErrorKind, parts: &[&str]) {
    let began = Instant::now();
    let error = match connect(config).await {
        Ok(connection) => Admin::new(&connection).cluster_info().await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), kind, "{error}");
    says(&error, parts);
    assert!(!error.is_retryable() && !error.is_outcome_unknown(), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn plaintext_client_is_told_of_tls() {
    // With Kerberos, the server hangs up before the client has authenticated.
    let filter = |cluster: &Cluster| has_tls(cluster) && !cluster.status.ports.contains_key("kdc");
    on_those(filter, "--tls", async |cluster| {
        let config = cluster.config().with_tls(None);
        let kind = ClientErrorKind::AuthenticationRequired;
        assert_refused(
            config,
            kind,
            &["the server speaks TLS only", "hbase.client.netty.tls.enabled"],
        )
        .await;
    })
    .await;
}

#[tokio::test]
async fn plaintext_server_is_named() {
    let mut clusters = secure();
    clusters.push(standalone());
    clusters.retain(|cluster| !has_tls(cluster));
    on_all(&clusters, async |cluster| {
        let tls = TlsOptions::new(fixtures().join("trust.p12"), PASSWORD);
        let kind = ClientErrorKind::Protocol;
        let parts = ["does not speak TLS", "hbase.server.netty.tls.enabled"];
        assert_refused(config(cluster, tls), kind, &parts).await;
    })
    .await;
}

#[tokio::test]
async fn server_of_an_unknown_issuer_is_refused() {
    on_tls(async |cluster| {
        for version in VERSIONS {
            let tls = TlsOptions::new(fixtures().join("trust.p12"), PASSWORD).versions([version]);
            let parts = [
                "no certificate of the trust store has issued",
                "hbase.rpc.tls.truststore.location",
            ];
            assert_refused(
                config(cluster, tls),
                ClientErrorKind::AuthenticationFailed,
                &parts,
            )
            .await;
        }
    })
    .await;
}

/// Dials this machine for every name.
#[derive(Debug)]
struct Tunnel;

impl Connector for Tunnel {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let port = target.address.port;
        Box::pin(async move { Ok(Box::new(TcpStream::connect(("127.0.0.1", port)).await?) as Box<dyn Io>) })
    }
}

#[tokio::test]
async fn server_of_another_name_is_refused() {
    on_tls(async |cluster| {
        let port = cluster.status.ports["master"];
        let dialled = async |host: &str, tls: TlsOptions| {
            let address = format!("hbase+rpc://{host}:{port}").parse().unwrap();
            let config = config(cluster, tls).with_address(address);
            Connection::builder(config).connector(Tunnel).connect().await
        };
        let error = dialled("elsewhere.example", own(cluster)).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::AuthenticationFailed, "{error}");
        says(
            &error,
            &["is for localhost, 127.0.0.1, not for elsewhere.example"],
        );
        dialled("localhost", own(cluster)).await.unwrap();
        if !cluster.status.ports.contains_key("kdc") {
            dialled("elsewhere.example", own(cluster).verify_hostname(false))
                .await
                .unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn client_without_a_certificate_gets_the_same_error_in_both_versions() {
    on_mutual_tls(async |cluster| {
        for version in VERSIONS {
            let tls = TlsOptions::new(stores(cluster).join("trust.p12"), PASSWORD).versions([version]);
            let parts = [
                "the server requires a certificate of this client",
                "hbase.rpc.tls.keystore.location",
            ];
            assert_refused(
                config(cluster, tls),
                ClientErrorKind::AuthenticationFailed,
                &parts,
            )
            .await;
        }
    })
    .await;
}

#[tokio::test]
async fn client_with_a_wrong_certificate_gets_the_same_error_in_both_versions() {
    on_mutual_tls(async |cluster| {
        let folder = tempfile::tempdir().unwrap();
        let other_host = certificate_for_another_host(cluster, folder.path()).await;
        for key in [fixtures().join("stranger.p12"), other_host] {
            for version in VERSIONS {
                let tls = own(cluster).key_store(&key, PASSWORD).versions([version]);
                let parts = [
                    "the server refuses the certificate of this client",
                    "trust store of the servers",
                ];
                assert_refused(
                    config(cluster, tls),
                    ClientErrorKind::AuthenticationFailed,
                    &parts,
                )
                .await;
            }
        }
    })
    .await;
}

/// Returns a key store whose certificate the cluster's authority has issued to another host.
async fn certificate_for_another_host(cluster: &Cluster, folder: &Path) -> PathBuf {
    let store = ["-keystore", "other.p12", "-storepass", PASSWORD];
    let keytool = async |arguments: &[&str]| run(folder, "keytool", arguments).await;
    let key = [
        "-genkeypair",
        "-alias",
        "other",
        "-dname",
        "CN=other",
        "-keyalg",
        "EC",
        "-keysize",
        "256",
    ];
    keytool(&[&key[..], &store].concat()).await;
    let request = ["-certreq", "-alias", "other", "-file", "request"];
    keytool(&[&request[..], &store].concat()).await;
    let ca = stores(cluster).join("ca.p12");
    let ca = [
        "-keystore",
        ca.to_str().unwrap(),
        "-storepass",
        PASSWORD,
        "-alias",
        "ca",
    ];
    let sign = ["-gencert", "-rfc", "-infile", "request", "-outfile", "signed"];
    let extensions = ["-ext", "EKU=clientAuth", "-ext", "SAN=dns:elsewhere.example"];
    keytool(&[&sign[..], &extensions, &ca].concat()).await;
    let chain = [
        fs::read(folder.join("signed")).unwrap(),
        fs::read(stores(cluster).join("ca.pem")).unwrap(),
    ];
    fs::write(folder.join("chain"), chain.concat()).unwrap();
    let import = ["-importcert", "-noprompt", "-alias", "other", "-file", "chain"];
    keytool(&[&import[..], &store].concat()).await;
    folder.join("other.p12")
}

#[tokio::test]
async fn client_without_common_cipher_suites_is_told() {
    on_tls(async |cluster| {
        let tls = own(cluster).cipher_suites(["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
        let parts = [
            "no TLS version or cipher suite in common",
            "hbase.rpc.tls.ciphersuites",
        ];
        assert_refused(config(cluster, tls), ClientErrorKind::Protocol, &parts).await;
    })
    .await;
}

#[tokio::test]
async fn unusable_stores_are_named() {
    on_tls(async |cluster| {
        let trust = stores(cluster).join("trust.p12");
        for (tls, cause) in [
            (TlsOptions::new(&trust, "not this"), "the password is wrong"),
            (
                TlsOptions::new(trust.with_file_name("absent"), PASSWORD),
                "No such file",
            ),
            (
                TlsOptions::new(fixtures().join("nokeys.p12"), PASSWORD),
                "no trusted certificate",
            ),
        ] {
            assert_refused(
                config(cluster, tls),
                ClientErrorKind::InvalidConfig,
                &["trust store ", cause],
            )
            .await;
        }
    })
    .await;
}
