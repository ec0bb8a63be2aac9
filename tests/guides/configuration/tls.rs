use hbase_txn::{
    Result,
    client::{Config, TlsOptions},
};

fn config() -> Result<Config> {
    let tls = TlsOptions::new("/etc/hbase/trust.jks", "changeit")
        // Only for servers that require a certificate of clients.
        .key_store("/etc/hbase/client.p12", "changeit");
    Ok(Config::from_uri("hbase+rpc://m1,m2")?.with_tls(Some(tls)))
}

#[test]
fn example_runs() {
    assert!(config().unwrap().tls().is_some());
}
