//! Delegation tokens: how a client obtains one, authenticates by it, and learns why it is refused.

use std::time::{Duration, Instant, SystemTime};

use hbase_client::{Connection, DelegationToken, Error};
use hbase_txn::{
    ClientErrorKind, Config, Get, IntoTableName, PartitionedTable, Protection, Scan, TokenFile, TokenFileFormat,
};

use super::{
    on_kerberos,
    support::{
        Cluster, keys, put,
        table::{TestTable, by_three},
    },
    transaction,
};

async fn connect(config: Config) -> Result<Connection, Error> {
    Connection::builder(config).connect().await
}

/// Obtains a token by Kerberos.
async fn token(cluster: &Cluster) -> DelegationToken {
    let connection = connect(cluster.config()).await.unwrap();
    let user = connection.authenticated_user().await.unwrap();
    assert_eq!(user.method, "KERBEROS");
    let token = connection.delegation_token().await.unwrap();
    assert_eq!(token.user(), user.name);
    assert!(token.expires() > SystemTime::now() + Duration::from_secs(30));
    connection.close().await;
    token
}

/// Returns the settings of a client that has these tokens alone.
fn by_tokens(config: Config, tokens: impl IntoIterator<Item = DelegationToken>) -> Config {
    config.with_kerberos(None).with_delegation_tokens(tokens)
}

/// Returns the token with this byte of its file altered, counted from the password's end.
fn altered(token: &DelegationToken, find: &[u8]) -> DelegationToken {
    let mut file = TokenFile::new([token.clone()])
        .to_bytes(TokenFileFormat::Writable)
        .to_vec();
    let at = file.windows(find.len()).position(|part| part == find).unwrap();
    file[at] ^= 1;
    TokenFile::from_bytes(&file).unwrap().tokens()[0].clone()
}
