//! Unreachable addresses, addresses of other services, and wrong paths to a cluster.

use std::time::{Duration, Instant};

use hbase_txn::{
    ClientErrorKind,
    client::{Config, Connection, Get},
};
use rstest::rstest;

use crate::support::{
    connect_by, forwarded,
    forwarder::{nobody, stranger},
    put, says,
    spy::Spy,
    standalone,
    table::{SharedTable, plain},
    value, within,
};

const REGISTRY: Duration = Duration::from_secs(2);
static TABLE: SharedTable = SharedTable::new("addresses", plain, &[]);

#[derive(Clone, Copy, Debug)]
enum Peer {
    Nobody,
    Http,
    Silent,
}

impl Peer {
    async fn port(self) -> u16 {
        match self {
            Self::Nobody => nobody().await,
            Self::Http => stranger(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").await,
            Self::Silent => stranger(b"").await,
        }
    }
}

#[rstest]
#[tokio::test]
async fn address_without_hbase_fails_in_time_with_stage_and_attempt(
    #[values("hbase+zk", "hbase+rpc")] scheme: &str,
    #[values(Peer::Nobody, Peer::Http, Peer::Silent)] peer: Peer,
) {
    let port = peer.port().await;
    let config = Config::from_uri(&format!("{scheme}://127.0.0.1:{port}"))
        .unwrap()
        .with_registry_timeout(REGISTRY);
    let error = within(REGISTRY, Connection::builder(config).connect())
        .await
        .unwrap_err();
    let expected = match (scheme, peer) {
        ("hbase+rpc", Peer::Http) => ClientErrorKind::Protocol,
        _ => ClientErrorKind::Unreachable,
    };
    assert_eq!(error.kind(), expected, "{error}");
    assert!(!error.is_outcome_unknown());
    says(
        &error,
        &[
            "finding hbase:meta",
            "stage: ",
            &format!("127.0.0.1:{port}"),
            "attempt ",
            "check ",
        ],
    );
}

#[tokio::test]
#[ignore = "needs ZooKeeper"]
async fn a_wrong_znode_is_named_at_once() {
    let uri = standalone().uri.replace("/hbase", "/nowhere");
    let began = Instant::now();
    let error = Connection::connect(&uri).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(error.kind(), ClientErrorKind::InvalidConfig, "{error}");
    says(
        &error,
        &[
            "znode /nowhere does not exist",
            "zookeeper.znode.parent",
            "127.0.0.1:",
            "attempt 1",
        ],
    );
}

#[tokio::test]
#[ignore = "needs ZooKeeper"]
async fn the_port_of_zookeeper_is_no_rpc_registry_and_says_so_in_time() {
    let uri = standalone()
        .uri
        .replace("hbase+zk", "hbase+rpc")
        .replace("/hbase", "");
    let config = Config::from_uri(&uri).unwrap().with_registry_timeout(REGISTRY);
    let error = within(REGISTRY, Connection::builder(config).connect())
        .await
        .unwrap_err();
    says(&error, &["finding hbase:meta", "127.0.0.1:", "attempt "]);
}

#[rstest]
#[case("", "hbase+zk://")]
#[case("http://127.0.0.1:1", "hbase+zk://")]
#[case("hbase+rpc://127.0.0.1:0", "no host:port")]
#[case("hbase+zk://127.0.0.1:2181//hbase", "no path of a znode")]
#[tokio::test]
async fn invalid_address_is_refused_with_an_example(#[case] uri: &str, #[case] why: &str) {
    let error = Connection::connect(uri).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidConfig);
    says(&error, &[why, "hbase+rpc://host:port"]);
}

/// The registry works, but no region server answers at the address it returns.
#[rstest]
#[case(Peer::Nobody, ClientErrorKind::DeadlineExceeded, "can't connect")]
#[case(Peer::Http, ClientErrorKind::Protocol, "does not speak HBase's protocol")]
#[case(Peer::Silent, ClientErrorKind::DeadlineExceeded, "no answer within")]
#[tokio::test]
async fn wrong_region_server_fails_in_time_with_stage_and_attempt(
    #[case] peer: Peer,
    #[case] kind: ClientErrorKind,
    #[case] why: &str,
) {
    let deadline = Duration::from_secs(2);
    let config = standalone()
        .config()
        .with_operation_timeout(deadline)
        .with_read_timeout(Duration::from_millis(700));
    let connection = connect_by(Spy::with_detour(peer.port().await), config).await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    let error = within(deadline, table.get(Get::new("r"))).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    says(&error, &[why, "row r", "stage: ", "127.0.0.1:", "attempt "]);
}

#[tokio::test]
async fn silent_server_fails_reads_and_leaves_writes_unknown() {
    let deadline = Duration::from_secs(2);
    let cluster = standalone();
    let (connection, forwarder) = forwarded(cluster.config().with_operation_timeout(deadline)).await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    table.put(put("silent", "1")).await.unwrap();
    forwarder.mute(true);

    let write = within(deadline, table.put(put("silent", "2"))).await.unwrap_err();
    assert_eq!(write.kind(), ClientErrorKind::DeadlineExceeded, "{write}");
    assert!(write.is_outcome_unknown() && !write.is_retryable(), "{write}");
    says(
        &write,
        &[
            "row silent",
            "waiting for the answer",
            "may have been applied",
            "read the rows back",
        ],
    );

    let read = within(deadline, table.get(Get::new("silent"))).await.unwrap_err();
    assert_eq!(read.kind(), ClientErrorKind::DeadlineExceeded, "{read}");
    assert!(!read.is_outcome_unknown() && read.is_retryable(), "{read}");
    says(&read, &["row silent", "stage: ", "server 127.0.0.1:", "attempt "]);

    // The server worked all the time and had received the write.
    forwarder.mute(false);
    assert_eq!(value(&table, "silent").await.as_deref(), Some("2"));
}
