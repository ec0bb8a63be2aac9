//! Connection URIs whose parameters are the settings of a secure cluster.

use hbase_client::low_level::site_properties;
use hbase_txn::{admin::Admin, client::ConnectionUri};

use super::*;

/// Returns the URI of the cluster with its settings as parameters, and an `hbase-site.xml` of the
/// passwords, which a URI can't have.
fn uri_of(cluster: &Cluster) -> (String, String) {
    let properties = site_properties(&client_site(cluster)).unwrap();
    let (passwords, settings): (Vec<_>, Vec<_>) = properties
        .iter()
        .partition(|(name, _)| name.ends_with("password"));
    let encoded = |text: &str| {
        let escapes = [("%", "%25"), ("&", "%26"), ("+", "%2B"), ("#", "%23")];
        escapes
            .iter()
            .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    };
    let parameters = settings
        .iter()
        .map(|(name, value)| format!("{name}={}", encoded(value)));
    let parameters: Vec<_> = parameters.collect();
    let passwords = passwords
        .iter()
        .map(|(name, value)| format!("<property><name>{name}</name><value>{value}</value></property>"));
    let passwords: String = passwords.collect();
    (
        format!("{}?{}", cluster.config().address(), parameters.join("&")),
        format!("<configuration>{passwords}</configuration>"),
    )
}

#[tokio::test]
async fn settings_of_a_secure_cluster_may_be_parameters() {
    on_all(&secure(), async |cluster| {
        let (uri, passwords) = uri_of(cluster);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hbase-site.xml");
        fs::write(&file, passwords).unwrap();
        let uri: ConnectionUri = uri.parse().unwrap();
        let config = uri.over_hbase_site_file(&file).unwrap();
        let expected = cluster.config();
        assert_eq!(config.kerberos(), expected.kerberos());
        assert_eq!(config.protection(), expected.protection());
        assert_eq!(config.tls(), expected.tls());
        Admin::new(&connect(config).await.unwrap())
            .tables()
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test]
async fn command_reads_parameters() {
    on_kerberos(async |cluster| {
        let (uri, passwords) = uri_of(cluster);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("passwords.xml");
        fs::write(&file, passwords).unwrap();
        let list = |uri: &str| {
            let file = file.to_str().unwrap();
            let line = ["--connect", uri, "--config", file, "table", "list"];
            refusals::command(cluster, &line, &[])
        };
        let (is_done, text) = list(&uri);
        assert!(is_done, "{text}");
        let simple = uri.replace("authentication=kerberos", "authentication=simple");
        assert_ne!(simple, uri);
        let (is_done, text) = list(&simple);
        assert!(!is_done);
        says(
            &text,
            &[
                "keytab.file is not read",
                "set hbase.security.authentication to kerberos",
            ],
        );
    })
    .await;
}
