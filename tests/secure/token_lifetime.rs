//! Delegation tokens that expire after 60 s while calls go on.

use std::{sync::atomic::Ordering, time::Duration};

use hbase_txn::{
    ClientErrorKind,
    client::{TokenFile, TokenFileFormat},
};
use tokio::{select, time::interval};

use super::{
    lifetime::{PATIENCE, ShortConnections, load, long_or},
    refusals::refused,
    support::{connect_by, table::by_three},
    tokens::{by_token, obtain},
    *,
};
use support::table::TestTable;

/// The life of a token, as the servers have it.
const LIFE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn no_call_fails_while_tokens_expire_and_connections_are_cut() {
    let has_short_tokens = |cluster: &Cluster| server_site(cluster).contains("hbase.auth.token.max.lifetime");
    let option = "--kerberos --set hbase.auth.token.max.lifetime=60000";
    on_those(has_short_tokens, option, async |cluster| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let replace = async || {
            let token = obtain(cluster).await;
            let file = TokenFile::new([token.clone()]);
            file.write(&path, TokenFileFormat::Writable).unwrap();
            token
        };
        let first = replace().await;
        let life = first.expires().duration_since(first.issued()).unwrap();
        assert_eq!(life, LIFE);

        let rows = TestTable::create_on(cluster, "tokens", by_three, &[]).await;
        let config = cluster.config().with_kerberos(None).with_token_file(&path).unwrap();
        let connector = ShortConnections::default();
        let connection = connect_by(connector.clone(), config.with_operation_timeout(PATIENCE)).await;
        let time = long_or(300, 90);
        let mut times = interval(LIFE / 3);
        let mut replaced = 0;
        let replacements = async {
            loop {
                times.tick().await;
                replace().await;
                replaced += 1;
            }
        };
        let table = rows.of(&connection);
        let (calls, longest) = select! {
            done = load(&table, time) => done,
            () = replacements => unreachable!(),
        };
        let dials = connector.dials.load(Ordering::Relaxed);
        println!(
            "{}: {calls} calls over {dials} connections by {replaced} tokens of {LIFE:?} in {time:?}, none failed; \
             the longest two took {longest:?}",
            cluster.status.name
        );
        assert!(calls > 1_000 && dials > 10, "{calls} calls, {dials} connections");
        let config = by_token(cluster.config(), first);
        refused(config, ClientErrorKind::AuthenticationFailed, &["Token has expired"]).await;
    })
    .await;
}
