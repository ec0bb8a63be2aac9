use std::{
    future::pending,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    time::Duration,
};

use rstest::rstest;
use rustls::{
    RootCertStore, ServerConfig, SupportedProtocolVersion,
    server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{error::ErrorKind, tls_options::CIPHER_SUITES};

const PASSWORD: &str = "changeit";
const BOTH: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("REPOSITORY"))
        .join("crates/security/src/tls/fixtures")
        .join(name)
}

fn trusting(name: &str) -> TlsOptions {
    TlsOptions::new(fixture(name), PASSWORD)
}

#[derive(Debug)]
struct Key(Arc<CertifiedKey>);

impl ResolvesServerCert for Key {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// A server that answers each byte with the same one.
struct Server {
    key: &'static str,
    versions: Vec<&'static SupportedProtocolVersion>,
    /// Whether it requires a certificate that the test CA has issued.
    mutual: bool,
}

impl Server {
    fn new(key: &'static str) -> Self {
        Self {
            key,
            versions: BOTH.to_vec(),
            mutual: false,
        }
    }

    async fn start(self) -> u16 {
        let provider = Arc::new(ring::default_provider());
        let key = store::key(&TlsStore::new(fixture(self.key), PASSWORD), &provider).unwrap();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&self.versions)
            .unwrap();
        let builder = if self.mutual {
            let ca = TlsStore::new(fixture("ca.pem"), "");
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(store::trusted(&ca).unwrap());
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let config = builder.with_cert_resolver(Arc::new(Key(Arc::new(key))));
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(stream).await?;
                    let mut byte = [0];
                    while stream.read(&mut byte).await? == 1 {
                        stream.write_all(&byte).await?;
                        stream.flush().await?;
                    }
                    io::Result::Ok(())
                });
            }
        });
        port
    }
}

/// Dials the server by this name, and has a byte answered.
async fn talk(client: &Arc<TlsClient>, port: u16, name: &str) -> io::Result<()> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let mut stream = client.handshake(stream, name).await?;
    stream.write_all(b"x").await?;
    stream.flush().await?;
    let mut byte = [0];
    stream.read_exact(&mut byte).await?;
    assert_eq!(&byte, b"x");
    Ok(())
}

async fn talk_with(options: TlsOptions, port: u16, name: &str) -> io::Result<()> {
    talk(&Arc::new(TlsClient::new(options, &TlsKeys::HBASE)), port, name).await
}

/// Returns the failure of such an attempt.
async fn failure(options: TlsOptions, port: u16, name: &str) -> TlsFailure {
    let error = talk_with(options, port, name).await.unwrap_err();
    TlsFailure::in_error(&error)
        .unwrap_or_else(|| panic!("{error}"))
        .clone()
}

#[rstest]
#[case("keytool.p12")]
#[case("keytool.jks")]
#[case("sec1.pem")]
#[case("rsa.p12")]
#[tokio::test]
async fn servers_are_reached_with_both_versions(
    #[case] key: &'static str,
    #[values("trust.p12", "trust.jks", "ca.pem")] trust: &str,
) {
    for version in BOTH {
        let server = Server {
            versions: vec![version],
            ..Server::new(key)
        };
        talk_with(trusting(trust), server.start().await, "localhost")
            .await
            .unwrap();
    }
}

#[rstest]
#[case(
    "stranger.p12",
    "trust.p12",
    "no certificate of the trust store has issued",
    "truststore.location"
)]
#[case(
    "other-host.p12",
    "trust.p12",
    "is for elsewhere.example, not for localhost",
    "name by which"
)]
#[case(
    "name-only.p12",
    "trust.p12",
    "a common name does not count",
    "subject alternative name"
)]
#[case("expired.p12", "trust.p12", "has expired", "renew")]
#[case("expired-self.p12", "expired-self.p12", "has expired", "renew")]
#[case("self-signed.pem", "trust.p12", "can't be accepted", "this very certificate")]
#[tokio::test]
async fn server_that_proves_no_identity_is_refused(
    #[case] key: &'static str,
    #[case] trust: &str,
    #[case] cause: &str,
    #[case] hint: &str,
) {
    let port = Server::new(key).start().await;
    let failure = failure(trusting(trust), port, "localhost").await;
    assert_eq!(failure.kind, ErrorKind::AuthenticationFailed);
    assert!(
        failure.what.contains(cause) && failure.hint.contains(hint),
        "{failure:?}"
    );
}

#[tokio::test]
async fn name_is_checked_unless_that_is_switched_off() {
    let port = Server::new("other-host.p12").start().await;
    talk_with(trusting("trust.p12").verify_hostname(false), port, "localhost")
        .await
        .unwrap();
    let port = Server::new("stranger.p12").start().await;
    failure(trusting("trust.p12").verify_hostname(false), port, "localhost").await;
}

#[tokio::test]
async fn address_in_a_certificate_is_no_other_name_of_its_server() {
    let port = Server::new("by-address.p12").start().await;
    let client = Arc::new(TlsClient::new(trusting("trust.p12"), &TlsKeys::HBASE));
    talk(&client, port, "127.0.0.1").await.unwrap();
    // The connection leads to that address.
    for name in ["localhost", "127.0.0.2"] {
        let error = talk(&client, port, name).await.unwrap_err();
        let expected = format!("127.0.0.1, not for {name}");
        assert!(error.to_string().contains(&expected), "{error}");
    }
}

#[tokio::test]
async fn authority_as_its_own_server_is_trusted_by_equal_bytes() {
    let port = Server::new("self-signed.pem").start().await;
    talk_with(trusting("self.pem"), port, "localhost").await.unwrap();
    let failure = failure(trusting("self.pem"), port, "elsewhere").await;
    assert!(failure.what.contains("not for elsewhere"), "{failure}");
}

#[rstest]
#[case(None, "requires a certificate of this client", "keystore.location")]
#[case(
    Some("stranger.p12"),
    "refuses the certificate of this client",
    "trust store of the servers"
)]
#[tokio::test]
async fn refused_client_gets_the_same_error_in_both_versions(
    #[case] key: Option<&str>,
    #[case] cause: &str,
    #[case] hint: &str,
) {
    for version in BOTH {
        let server = Server {
            versions: vec![version],
            mutual: true,
            ..Server::new("keytool.p12")
        };
        let options = trusting("trust.p12");
        let options = match key {
            Some(key) => options.key_store(fixture(key), PASSWORD),
            None => options,
        };
        let failure = failure(options, server.start().await, "localhost").await;
        assert_eq!(failure.kind, ErrorKind::AuthenticationFailed);
        assert!(
            failure.what.contains(cause) && failure.hint.contains(hint),
            "{failure:?}"
        );
    }
}

#[rstest]
#[case("keytool.p12")]
#[case("keytool.jks")]
#[case("java-encrypted.pem")]
#[case("rsa.jks")]
#[tokio::test]
async fn client_is_accepted_with_its_certificate(#[case] key: &str) {
    for version in BOTH {
        let server = Server {
            versions: vec![version],
            mutual: true,
            ..Server::new("rsa.p12")
        };
        let options = trusting("trust.p12").key_store(fixture(key), PASSWORD);
        talk_with(options, server.start().await, "localhost")
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn plaintext_server_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream
            .write_all(b"\x00\x00\x00\x93\x91\x01\x08\xff")
            .await
            .unwrap();
        pending::<()>().await;
    });
    let failure = failure(trusting("trust.p12"), port, "localhost").await;
    assert_eq!(failure.kind, ErrorKind::Protocol);
    assert!(failure.what.contains("does not speak TLS"), "{failure}");
}

#[tokio::test]
async fn silent_server_is_given_up_after_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = trusting("trust.p12").handshake_timeout(Duration::from_millis(50));
    let error = talk_with(options, port, "localhost").await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(TlsFailure::in_error(&error).is_none(), "another attempt may help");
}

#[tokio::test]
async fn versions_and_suites_without_a_common_one_are_named() {
    let server = Server {
        versions: vec![&TLS12],
        ..Server::new("keytool.p12")
    };
    let port = server.start().await;
    let newer = trusting("trust.p12").versions([TlsVersion::V1_3]);
    let rsa = trusting("trust.p12").cipher_suites(["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
    for options in [newer, rsa] {
        let failure = failure(options, port, "localhost").await;
        assert_eq!(failure.kind, ErrorKind::Protocol);
        assert!(
            failure.what.contains("version or cipher suite in common"),
            "{failure}"
        );
    }
    let ecdsa = trusting("trust.p12").cipher_suites(["x", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]);
    talk_with(ecdsa, port, "localhost").await.unwrap();
}

#[rstest]
#[case(trusting("trust.p12").cipher_suites(["TLS_RSA_WITH_AES_128_CBC_SHA"]), "TLS_RSA_WITH_AES_128_CBC_SHA")]
#[case(trusting("trust.p12").versions([]), "no TLS version")]
#[case(trusting("absent.jks"), "absent.jks")]
#[case(trusting("trust.p12").key_store(fixture("trust.p12"), PASSWORD), "no private key")]
#[tokio::test]
async fn unusable_settings_are_named(#[case] options: TlsOptions, #[case] cause: &str) {
    let port = Server::new("keytool.p12").start().await;
    let failure = failure(options, port, "localhost").await;
    assert_eq!(failure.kind, ErrorKind::InvalidConfig);
    assert!(failure.what.contains(cause), "{failure}");
}

#[tokio::test]
async fn name_that_no_certificate_has_is_refused() {
    let port = Server::new("keytool.p12").start().await;
    let failure = failure(trusting("trust.p12"), port, "a b").await;
    assert!(failure.what.contains("\"a b\""), "{failure}");
}

#[tokio::test]
async fn stores_are_read_again_when_they_change() {
    let folder = tempfile::tempdir().unwrap();
    let trust = folder.path().join("trust");
    let put = |name: &str| {
        let new = folder.path().join("new");
        fs::copy(fixture(name), &new).unwrap();
        fs::rename(new, &trust).unwrap();
    };
    put("trust.p12");
    let options = TlsOptions::new(&trust, PASSWORD);
    let fixed = Arc::new(TlsClient::new(options.clone().reload(false), &TlsKeys::HBASE));
    let client = Arc::new(TlsClient::new(options, &TlsKeys::HBASE));
    let [ours, other] = [
        Server::new("keytool.p12").start().await,
        Server::new("self-signed.pem").start().await,
    ];
    for client in [&client, &fixed] {
        talk(client, ours, "localhost").await.unwrap();
        talk(client, other, "localhost").await.unwrap_err();
    }
    // An unreadable file leaves the former contents in use.
    fs::write(&trust, "half of a").unwrap();
    talk(&client, ours, "localhost").await.unwrap();
    fs::remove_file(&trust).unwrap();
    talk(&client, ours, "localhost").await.unwrap();
    put("self.pem");
    talk(&client, other, "localhost").await.unwrap();
    talk(&client, ours, "localhost").await.unwrap_err();
    talk(&fixed, ours, "localhost").await.unwrap();
}

#[tokio::test]
async fn unreadable_store_is_read_again_at_the_next_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let trust = folder.path().join("trust");
    let client = Arc::new(TlsClient::new(TlsOptions::new(&trust, PASSWORD), &TlsKeys::HBASE));
    let port = Server::new("keytool.p12").start().await;
    talk(&client, port, "localhost").await.unwrap_err();
    fs::copy(fixture("trust.p12"), &trust).unwrap();
    talk(&client, port, "localhost").await.unwrap();
}

#[test]
fn listed_cipher_suites_are_those_of_the_provider() {
    let mut provided: Vec<_> = ring::default_provider()
        .cipher_suites
        .iter()
        .map(|suite| suite.suite().as_str().unwrap().replacen("TLS13_", "TLS_", 1))
        .collect();
    let mut listed = CIPHER_SUITES.map(str::to_owned).to_vec();
    provided.sort();
    listed.sort();
    assert_eq!(listed, provided);
}
