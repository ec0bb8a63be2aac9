//! Servers that answer from a script.

use std::{
    future::pending,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    cluster::registry::zookeeper::*,
    config::Config,
    rpc::{RpcClient, TcpConnector},
};

const CONNECTED: &[u8] =
    b"\0\0\0\x25\0\0\0\0\0\0\x0f\xa0\x01\0\0\x03\x5d\x6e\0\x01\0\0\0\x10abcdefghijklmnop\0";
const NO_NODE: i32 = -101;
const REQUIRES_SASL: i32 = -124;

/// What a server does with each connection.
#[derive(Clone, Copy, Debug)]
enum Script {
    /// It closes the connection at the request for a session.
    NotServing,
    /// It reads, and never answers.
    Silent,
    /// It answers with these bytes, and then nothing.
    Bytes(&'static [u8]),
    /// It answers with these bytes, and closes the connection.
    Ends(&'static [u8]),
    /// It opens a session, and has the znode.
    Serves,
    /// It opens a session, and has `hbase:meta` with this many replicas, of which each second one is
    /// not served.
    HasReplicas(u16),
    /// It opens a session, and all requests fail with this code.
    Fails(i32),
    /// It opens a session, and has the parent znode alone.
    HasParent,
    /// It opens a session, and closes the connection at the first request.
    Leaves,
    /// It opens a session, and answers another request than the one that was sent.
    WrongId,
}
use Script::*;

/// A server of a quorum.
struct Server {
    host: HostPort,
    accepted: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl Server {
    async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (accepted, closed) = (Arc::default(), Arc::default());
        let counters: (Arc<AtomicUsize>, Arc<AtomicUsize>) = (Arc::clone(&accepted), Arc::clone(&closed));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counters.0.fetch_add(1, Ordering::SeqCst);
                let closed = Arc::clone(&counters.1);
                tokio::spawn(async move {
                    // An error is the end of the client's stream.
                    let _ = serve(stream, script).await;
                    closed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        let host = "127.0.0.1".to_owned();
        Self {
            host: HostPort { host, port },
            accepted,
            closed,
        }
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

async fn read(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; stream.read_u32().await? as usize];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

async fn serve(mut stream: TcpStream, script: Script) -> io::Result<()> {
    read(&mut stream).await?;
    match script {
        NotServing => return Ok(()),
        Silent => {}
        Bytes(bytes) => stream.write_all(bytes).await?,
        Ends(bytes) => return stream.write_all(bytes).await,
        _ => stream.write_all(CONNECTED).await?,
    }
    loop {
        let request = read(&mut stream).await?;
        let exists = request[4..8] == [0, 0, 0, 3];
        let code = match script {
            Leaves => return Ok(()),
            Fails(code) => code,
            HasParent if !exists => NO_NODE,
            HasReplicas(replicas) if replica(&request) > replicas => NO_NODE,
            _ => 0,
        };
        let xid = match script {
            WrongId => [0xff; 4],
            _ => *request.first_chunk().unwrap(),
        };
        let mut reply = [&xid[..], &[0; 8], &code.to_be_bytes()].concat();
        if code == 0 {
            if !exists {
                let data = match script {
                    HasReplicas(_) => meta(replica(&request)),
                    _ => master(),
                };
                reply.extend((data.len() as i32).to_be_bytes());
                reply.extend(data);
            }
            reply.extend([0; 68]);
        }
        stream.write_u32(reply.len() as u32).await?;
        stream.write_all(&reply).await?;
    }
}

/// Returns the number at the end of the path of a request, or 0.
fn replica(request: &[u8]) -> u16 {
    // The path is followed by the flag of a watch.
    let path = std::str::from_utf8(&request[12..request.len() - 1]).unwrap();
    path.rsplit('-').next().unwrap().parse().unwrap_or(0)
}

fn meta(replica: u16) -> Vec<u8> {
    use pb::region_state::State;
    let state = match replica % 2 {
        0 => State::Open,
        _ => State::Opening,
    };
    let message = pb::MetaRegionServer {
        server: convert::server_name_message(&ServerName::new("m", 1 + replica, 1).unwrap()),
        rpc_version: None,
        state: Some(state.into()),
    };
    [b"PBUF", &message.encode_to_vec()[..]].concat()
}

fn master() -> Vec<u8> {
    let message = pb::Master {
        master: pb::ServerName {
            host_name: "m".into(),
            port: Some(16000),
            start_code: Some(1),
        },
        ..Default::default()
    };
    [b"PBUF", &message.encode_to_vec()[..]].concat()
}

#[tokio::test]
async fn mapped_hosts_of_the_quorum_are_dialled() {
    let server = Server::start(Serves).await;
    let map = format!("zk.invalid:2181={}", server.host).parse().unwrap();
    let config = Config::from_uri("hbase+zk://zk.invalid")
        .unwrap()
        .with_address_map([map]);
    let access = Access::new(&config, &RpcClient::new(&config, Arc::new(TcpConnector)));
    let quorum = [HostPort::parse("zk.invalid", 2181).unwrap()];
    let registry = ZooKeeperRegistry::new(&quorum, "/hbase".into(), access);
    assert_eq!(ask(&registry).await.unwrap().host, "m");
}

async fn start(scripts: &[Script]) -> (Vec<Server>, ZooKeeperRegistry) {
    let mut servers = Vec::new();
    for script in scripts {
        servers.push(Server::start(*script).await);
    }
    let quorum: Vec<_> = servers.iter().map(|server| server.host.clone()).collect();
    let config = Config::from_uri("hbase+zk://zk").unwrap();
    let rpc = RpcClient::new(&config, Arc::new(TcpConnector));
    let access = Access::new(&config, &rpc);
    (servers, ZooKeeperRegistry::new(&quorum, "/hbase".into(), access))
}

async fn ask(registry: &ZooKeeperRegistry) -> Result<ServerName> {
    let deadline = Instant::now() + Duration::from_secs(3);
    Ok(registry.ask(Wanted::ActiveMaster, deadline).await?.server)
}

async fn refusal(script: Script) -> Error {
    let (_servers, registry) = start(&[script]).await;
    let limit = Duration::from_secs(2);
    timeout(limit, ask(&registry)).await.unwrap().unwrap_err()
}

#[tokio::test]
async fn the_znode_is_read_and_the_session_closed() {
    let (servers, registry) = start(&[Serves]).await;
    assert_eq!(ask(&registry).await.unwrap().host, "m");
    while servers[0].closed.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(servers[0].accepted(), 1);
}

#[tokio::test]
async fn replicas_of_meta_are_read_only_if_they_are_wanted() {
    for (there, wanted, ids) in [
        (0, true, vec![]),
        (5, true, vec![2, 4]),
        (100, true, vec![2, 4, 6, 8, 10, 12, 14, 16]),
        (5, false, vec![]),
    ] {
        let (servers, registry) = start(&[HasReplicas(there)]).await;
        let deadline = Instant::now() + Duration::from_secs(3);
        let found = registry
            .ask(Wanted::Meta { replicas: wanted }, deadline)
            .await
            .unwrap();
        let replicas = ids
            .into_iter()
            .map(|id| (id, ServerName::new("m", 1 + id, 1).unwrap()));
        assert_eq!(found.server.port, 1);
        assert_eq!(found.replicas, replicas.collect::<Vec<_>>());
        assert_eq!(servers[0].accepted(), 1);
    }
}

#[tokio::test]
async fn a_missing_znode_is_told_from_a_wrong_parent() {
    let starting = refusal(HasParent).await;
    assert!(
        starting.is_retryable() && starting.kind() == ErrorKind::Unreachable,
        "{starting}"
    );
    let wrong = refusal(Fails(NO_NODE)).await;
    assert!(
        !wrong.is_retryable() && wrong.kind() == ErrorKind::InvalidConfig,
        "{wrong}"
    );
    assert!(wrong.hint().unwrap().contains("zookeeper.znode.parent"));
}

#[tokio::test]
async fn failures_of_a_server_are_named() {
    for (script, what) in [
        (NotServing, "instead of opening a session"),
        (Ends(&CONNECTED[..20]), "closed the connection"),
        (Leaves, "closed the connection before it answered"),
        (Bytes(b"HTTP/1.1 400 Bad Request"), "has the length 1213486160"),
        (Bytes(b"\0\x10\0\0"), "has the length 1048576"),
        (Bytes(b"\x80\0\0\0"), "has the length -2147483648"),
        (Bytes(b"\0\0\0\x02ab"), "ends too early"),
        (
            Bytes(b"\0\0\0\x14\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\x7f\xff\xff\xff"),
            "a field has the length 2147483647",
        ),
        (
            Bytes(b"\0\0\0\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
            "opened no session",
        ),
        (WrongId, "a reply to request -1 came instead of 1"),
        (Fails(-118), "SessionMoved (-118)"),
    ] {
        let error = refusal(script).await;
        assert!(error.to_string().contains(what), "{script:?}: {error}");
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(error.is_retryable(), "{error}");
    }
}

#[tokio::test]
async fn missing_rights_are_not_retried() {
    let sasl = refusal(Fails(REQUIRES_SASL)).await;
    assert_eq!(sasl.kind(), ErrorKind::AuthenticationRequired);
    let acl = refusal(Fails(-102)).await;
    assert_eq!(acl.kind(), ErrorKind::AccessDenied);
    for error in [sasl, acl] {
        assert!(!error.is_retryable() && error.hint().is_some(), "{error}");
    }
}

#[tokio::test]
async fn any_server_that_serves_is_found() {
    let (_servers, registry) = start(&[NotServing, Leaves, Bytes(b"nonsense"), Serves, WrongId]).await;
    for _ in 0..20 {
        assert_eq!(ask(&registry).await.unwrap().host, "m");
    }
}

#[tokio::test]
async fn silent_servers_leave_time_for_the_others() {
    let (servers, registry) = start(&[Silent, Silent, Serves]).await;
    let began = Instant::now();
    for _ in 0..4 {
        let deadline = Instant::now() + Duration::from_millis(600);
        let found = registry.ask(Wanted::ActiveMaster, deadline).await;
        assert_eq!(found.unwrap().server.host, "m");
    }
    assert!(began.elapsed() < Duration::from_millis(2400));
    assert_eq!(servers[2].accepted(), 4);
}

#[tokio::test]
async fn silent_servers_are_named_before_the_deadline() {
    let (servers, registry) = start(&[Silent, Bytes(&CONNECTED[..9])]).await;
    let deadline = Instant::now() + Duration::from_millis(400);
    let error = registry.ask(Wanted::ActiveMaster, deadline).await.unwrap_err();
    for server in &servers {
        let named = format!("{} gave no answer within", server.host);
        assert!(error.to_string().contains(&named), "{error}");
    }
}

#[tokio::test]
async fn a_dropped_query_closes_its_connections() {
    let (servers, registry) = start(&[Silent]).await;
    let query = timeout(Duration::from_millis(100), ask(&registry));
    query.await.unwrap_err();
    while servers[0].closed.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
}

/// A frame that arrives slowly is waited for, and its announced length allocates nothing.
#[tokio::test]
async fn frames_may_arrive_in_pieces() {
    let (client, mut server) = tokio::io::duplex(64);
    let piecemeal = tokio::spawn(async move {
        for piece in CONNECTED.chunks(3) {
            server.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        pending::<()>().await;
    });
    let session = Session::open(client, Duration::from_secs(1)).await;
    session.unwrap();
    piecemeal.abort();
}
