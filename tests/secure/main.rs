//! Clusters that authenticate or encrypt. `HBASE_TXN_TEST_SECURE` names local clusters of `dev up
//! --kerberos` or `dev up --tls`, separated by commas. `KRB5_CONFIG` lists the configurations of
//! their KDCs, separated by colons, before a test starts: the Kerberos library reads it.
//!
//! A test runs on all clusters that have what it is about. A kind of cluster that is missing is a
//! failure.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use hbase_test_support as support;

mod certificates;
mod clocks;
mod connection_uris;
mod guide;
mod impersonation;
mod java;
mod kerberos;
mod lifetime;
mod refusals;
mod tampering;
mod tls;
mod tls_refusals;
mod token_lifetime;
mod tokens;
mod work;

use std::{env, fs};

use hbase_local::LocalCluster;
use hbase_txn::{
    PartitionedTable, Result, Transaction,
    client::{Config, Connection, TicketSource},
};

use support::{Cluster, on_all, put, says, secure};

/// Runs a test on all clusters with Kerberos concurrently.
#[allow(clippy::future_not_send, reason = "a test runs on one thread")]
async fn on_kerberos(part: impl AsyncFn(&Cluster)) {
    on_those(
        |cluster| cluster.status.ports.contains_key("kdc"),
        "--kerberos",
        part,
    )
    .await;
}

/// Runs a test on all clusters with Kerberos that check permissions concurrently.
#[allow(clippy::future_not_send, reason = "a test runs on one thread")]
async fn on_guarded(part: impl AsyncFn(&Cluster)) {
    let checks = |cluster: &Cluster| {
        cluster.status.ports.contains_key("kdc") && server_site(cluster).contains("AccessController")
    };
    on_those(checks, "--kerberos --authorization", part).await;
}

/// Runs a test on all clusters whose client configuration has this setting concurrently.
#[allow(clippy::future_not_send, reason = "a test runs on one thread")]
async fn on_those(filter: impl Fn(&Cluster) -> bool, option: &str, part: impl AsyncFn(&Cluster)) {
    let mut clusters = secure();
    clusters.retain(filter);
    assert!(
        !clusters.is_empty(),
        "no cluster of dev up {option} to test against: run make test"
    );
    on_all(&clusters, part).await;
}

/// Returns whether this is the long form.
fn is_long() -> bool {
    env::var_os("HBASE_TXN_TEST_LONG").is_some()
}

/// Returns the text of the `hbase-site.xml` that clients of the cluster have.
fn client_site(cluster: &Cluster) -> String {
    fs::read_to_string(cluster.conf_dir().unwrap().join("hbase-site.xml")).unwrap()
}

/// Returns the text of the `hbase-site.xml` of the cluster's servers.
fn server_site(cluster: &Cluster) -> String {
    let local = LocalCluster::new(&cluster.status.name).unwrap();
    fs::read_to_string(local.folder().join("conf/hbase-site.xml")).unwrap()
}

fn transaction(table: &PartitionedTable) -> Transaction {
    table
        .transaction("xxx")
        .put(put("xxx1", "1"))
        .put(put("xxx2", "2"))
}

async fn connect(
    config: Config,
) -> Result<Connection, hbase_txn::client::Failure<hbase_txn::ClientErrorKind>> {
    Connection::builder(config).connect().await
}

/// Returns the name of the user as the server of `hbase:meta` knows it, and how it was authenticated.
async fn who_am_i(
    connection: &Connection,
) -> Result<(String, String), hbase_txn::client::Failure<hbase_txn::ClientErrorKind>> {
    let user = connection.authenticated_user().await?;
    Ok((user.name, user.method))
}

/// Returns the keytab of the configuration, and its principal.
fn keytab_of(config: &Config) -> (String, String) {
    match config.kerberos().unwrap().ticket() {
        TicketSource::Keytab { file, principal } => (file.display().to_string(), principal.clone()),
        other => panic!("no keytab but {other:?}"),
    }
}

/// Returns the settings of a client for a user whose key is in the cluster's keytab.
fn config_of(cluster: &Cluster, user: &str) -> Config {
    let config = cluster.config();
    let (file, principal) = keytab_of(&config);
    let (_, realm) = principal.rsplit_once('@').unwrap();
    let kerberos = config.kerberos().unwrap().clone();
    let kerberos = kerberos.with_keytab(file, format!("{user}@{realm}"));
    config.with_kerberos(Some(kerberos))
}
