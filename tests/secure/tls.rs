//! Calls over TLS and mutual TLS, with stores in every format, and stores that change.

use std::path::{Path, PathBuf};

use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{Config, TlsOptions, TlsVersion},
};
use tempfile::TempDir;
use tokio::process::Command;

use super::{refusals::command, work::Work, *};
use support::{table::TestTable, value};

/// The password of the stores of all clusters.
pub(crate) const PASSWORD: &str = "changeit";
pub(crate) const VERSIONS: [TlsVersion; 2] = [TlsVersion::V1_2, TlsVersion::V1_3];

pub(crate) fn has_tls(cluster: &Cluster) -> bool {
    cluster.config().tls().is_some()
}

pub(crate) fn is_mutual(cluster: &Cluster) -> bool {
    has_tls(cluster) && client_site(cluster).contains("hbase.rpc.tls.keystore.location")
}

/// Runs a test on all clusters with TLS concurrently.
#[allow(clippy::future_not_send, reason = "a test runs on one thread")]
pub(crate) async fn on_tls(part: impl AsyncFn(&Cluster)) {
    on_those(has_tls, "--tls", part).await;
}

/// Runs a test on all clusters with mutual TLS concurrently.
#[allow(clippy::future_not_send, reason = "a test runs on one thread")]
pub(crate) async fn on_mutual_tls(part: impl AsyncFn(&Cluster)) {
    on_those(is_mutual, "--tls --mutual-tls", part).await;
}

/// Returns the folder of the cluster's stores.
pub(crate) fn stores(cluster: &Cluster) -> PathBuf {
    cluster.conf_dir().unwrap().with_file_name("tls")
}

/// Returns TLS with the cluster's own stores.
pub(crate) fn own(cluster: &Cluster) -> TlsOptions {
    with_key(
        cluster,
        stores(cluster).join("trust.p12"),
        &stores(cluster).join("client.p12"),
    )
}

/// Returns TLS with this trust store, and with this key store if the servers require one.
pub(crate) fn with_key(cluster: &Cluster, trust: PathBuf, key: &Path) -> TlsOptions {
    let options = TlsOptions::new(trust, PASSWORD);
    if is_mutual(cluster) {
        options.key_store(key, PASSWORD)
    } else {
        options
    }
}

pub(crate) fn config(cluster: &Cluster, tls: TlsOptions) -> Config {
    cluster.config().with_tls(Some(tls))
}

/// Runs a program in a folder, which must succeed.
pub(crate) async fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .await;
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let complaint = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {complaint}");
}

/// Returns TLS with the cluster's stores in PKCS12, JKS and PEM, and the folder of the latter two.
async fn forms(cluster: &Cluster) -> (TempDir, Vec<TlsOptions>) {
    let (folder, stores) = (tempfile::tempdir().unwrap(), stores(cluster));
    let path = |name: &str| folder.path().join(name);
    for name in ["trust", "client"] {
        let from = stores.join(format!("{name}.p12"));
        let to = format!("{name}.jks");
        let arguments = [
            "-importkeystore",
            "-noprompt",
            "-srckeystore",
            from.to_str().unwrap(),
        ];
        let more = [
            "-srcstorepass",
            PASSWORD,
            "-destkeystore",
            &to,
            "-deststoretype",
            "JKS",
        ];
        run(
            folder.path(),
            "keytool",
            &[&arguments[..], &more, &["-deststorepass", PASSWORD]].concat(),
        )
        .await;
    }
    let client = stores.join("client.p12");
    let pass = format!("pass:{PASSWORD}");
    let arguments = ["pkcs12", "-in", client.to_str().unwrap(), "-passin", &pass];
    run(
        folder.path(),
        "openssl",
        &[&arguments[..], &["-passout", &pass, "-out", "client.pem"]].concat(),
    )
    .await;
    let forms = vec![
        own(cluster),
        with_key(cluster, path("trust.jks"), &path("client.jks")),
        with_key(cluster, stores.join("ca.pem"), &path("client.pem")),
    ];
    (folder, forms)
}

#[tokio::test]
async fn transactions_locks_bulk_and_scans_work_with_every_store_and_version() {
    on_tls(async |cluster| {
        let work = Work::on(cluster).await;
        let (_folder, forms) = forms(cluster).await;
        for (number, options) in forms.into_iter().enumerate() {
            for version in VERSIONS {
                let tls = options.clone().versions([version]);
                let connection = connect(config(cluster, tls)).await.unwrap();
                work.run(&connection, &format!("id-{number}-{version:?}")).await;
                Admin::new(&connection).cluster_info().await.unwrap();
            }
        }
    })
    .await;
}

#[tokio::test]
async fn large_requests_and_answers_are_whole() {
    on_tls(async |cluster| {
        let table = TestTable::create_on(cluster, "large", support::table::plain, &[]).await;
        for version in VERSIONS {
            let config = config(cluster, own(cluster).versions([version]));
            work::large(config, &table).await;
        }
    })
    .await;
}

#[tokio::test]
async fn registry_of_the_servers_speaks_tls_too() {
    on_tls(async |cluster| {
        let port = cluster.status.ports["master"];
        for host in ["127.0.0.1", "localhost"] {
            let address = format!("hbase+rpc://{host}:{port}").parse().unwrap();
            let connection = connect(cluster.config().with_address(address)).await.unwrap();
            Admin::new(&connection).cluster_info().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn names_from_a_zookeeper_without_tls_are_a_warning() {
    let filter = |cluster: &Cluster| has_tls(cluster) && !cluster.status.ports.contains_key("kdc");
    on_those(filter, "--tls", async |cluster| {
        let (succeeded, text) = command(cluster, &["--log", "warn", "table", "list"], &[]);
        assert!(succeeded, "{text}");
        says(
            &text,
            &["WARN", "from a ZooKeeper without TLS", "with_zookeeper_tls"],
        );
    })
    .await;
}

/// Replaces a file as certificate managers do, by renaming a new one.
fn replace(file: &Path, by: &Path) {
    let new = file.with_extension("new");
    fs::copy(by, &new).unwrap();
    fs::rename(new, file).unwrap();
}

#[tokio::test]
async fn new_connections_use_changed_stores_and_live_ones_stay() {
    on_tls(async |cluster| {
        let table = TestTable::create_on(cluster, "rotated", support::table::plain, &[]).await;
        let (folder, stores) = (tempfile::tempdir().unwrap(), stores(cluster));
        let [trust, key] = ["trust", "key"].map(|name| folder.path().join(name));
        replace(&trust, &stores.join("trust.p12"));
        replace(&key, &stores.join("client.p12"));
        let tls = with_key(cluster, trust.clone(), &key);
        let connection = connect(config(cluster, tls)).await.unwrap();
        let plain = table.of(&connection);
        plain.put(put("a", "1")).await.unwrap();

        let fixtures = tls_refusals::fixtures();
        if is_mutual(cluster) {
            replace(&key, &fixtures.join("stranger.p12"));
        } else {
            replace(&trust, &fixtures.join("trust.p12"));
        }
        // The master has not been dialled yet, and the region server has.
        let error = Admin::new(&connection).cluster_info().await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::AuthenticationFailed, "{error}");
        plain.put(put("a", "2")).await.unwrap();

        // The renewed certificates, and then a file that is not written completely.
        replace(&trust, &stores.join("trust.p12"));
        replace(&key, &stores.join("client.p12"));
        Admin::new(&connection).cluster_info().await.unwrap();
        fs::write(&trust, "half of a").unwrap();
        let other = connect(config(cluster, own(cluster))).await.unwrap();
        assert_eq!(value(&table.of(&other), "a").await.as_deref(), Some("2"));
        plain.put(put("a", "3")).await.unwrap();
    })
    .await;
}
