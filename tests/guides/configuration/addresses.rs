use hbase_txn::{Result, client::Config};

fn config() -> Result<Config> {
    Ok(Config::from_uri("hbase+rpc://master-0.hbase")?.with_address_map([
        "master-0.hbase:16000=localhost:26000".parse()?,
        "rs-0.hbase:16020=localhost:26020".parse()?,
    ]))
}

#[test]
fn example_runs() {
    assert_eq!(config().unwrap().address_map().len(), 2);
}
