use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use bytes::BytesMut;
use futures::future::BoxFuture;
use prost::Message;
use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use crate::{
    config::HostPort,
    error::{Effect, ErrorKind},
    rpc::{AttemptLimit, Call, CallOptions, Classification, Io, Recovery, RpcClient, dialler::*},
    wire::{
        cell_block::CellBlockDecoder,
        frame::{
            CONNECTION_CALL_ID,
            server_side::{answer, refusal},
        },
        pb,
    },
};

/// What a server does with the pings of a connection with a compressor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// It answers them, and other requests with these cells.
    Uses(&'static [u8]),
    HangsUp,
    HangsUpOnce,
    /// It has no library.
    Fails,
    /// It is starting, and answers no ping.
    Starts,
    /// It refuses the connection when the first request comes in.
    Refuses,
}

#[derive(Clone, Debug)]
struct Servers {
    server: Server,
    dials: Arc<AtomicUsize>,
}

impl Servers {
    fn new(server: Server) -> Self {
        let dials = Arc::default();
        Self { server, dials }
    }

    fn client(&self) -> Arc<RpcClient> {
        Arc::new(RpcClient::new(&config(), Arc::new(self.clone())))
    }
}

fn config() -> Config {
    Config::from_uri("hbase+rpc://a")
        .unwrap()
        .with_max_frame_size(100_000)
        .with_compression(Some(Compression::ZLIB))
}

impl Connector for Servers {
    fn connect(&self, _: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let dial = self.dials.fetch_add(1, Ordering::Relaxed);
        let (ours, theirs) = duplex(1 << 20);
        tokio::spawn(serve(theirs, self.server, dial));
        Box::pin(async { Ok(Box::new(ours) as Box<dyn Io>) })
    }
}

async fn serve(mut stream: DuplexStream, server: Server, dial: usize) -> io::Result<()> {
    let mut preamble = [0; 6];
    stream.read_exact(&mut preamble).await?;
    let header = frame(&mut stream).await?;
    let header = pb::ConnectionHeader::decode(header).unwrap();
    let compressed = header.cell_block_compressor_class.is_some();
    loop {
        let mut request = frame(&mut stream).await?;
        let len = prost::decode_length_delimiter(&mut request).unwrap();
        let header = pb::RequestHeader::decode(request.split_to(len)).unwrap();
        let call_id = header.call_id();
        let len = prost::decode_length_delimiter(&mut request).unwrap();
        let get = pb::GetRequest::decode(request.split_to(len)).unwrap();
        let reply = match server {
            _ if get.get.row != "ping" => {
                let Server::Uses(cells) = server else {
                    unreachable!()
                };
                answer(call_id, &pb::GetResponse::default(), cells)
            }
            Server::Refuses => refusal(CONNECTION_CALL_ID, NO_REGION, ""),
            Server::HangsUp if compressed => return Ok(()),
            Server::HangsUpOnce if dial == 0 => return Ok(()),
            Server::Fails if compressed => refusal(call_id, "java.lang.RuntimeException", "no library"),
            Server::Starts => refusal(
                call_id,
                "org.apache.hadoop.hbase.ipc.ServerNotRunningYetException",
                "",
            ),
            _ => {
                if compressed {
                    let cells = Compression::ZLIB.decompress(&request, 1_000).unwrap();
                    let read: Vec<_> = CellBlockDecoder::new(cells, Codec::KeyValue).collect();
                    assert!(matches!(read[..], [Ok(_)]), "{read:?}");
                }
                refusal(call_id, NO_REGION, "")
            }
        };
        stream.write_all(&reply).await?;
    }
}

async fn frame(stream: &mut DuplexStream) -> io::Result<Bytes> {
    let mut bytes = BytesMut::zeroed(stream.read_u32().await? as usize);
    stream.read_exact(&mut bytes).await?;
    Ok(bytes.freeze())
}

async fn get(client: &Arc<RpcClient>) -> Result<CellBlockDecoder, CallError> {
    get_with(client, CallOptions::default()).await
}

async fn get_with(client: &Arc<RpcClient>, options: CallOptions) -> Result<CellBlockDecoder, CallError> {
    let server = HostPort {
        host: "a".to_owned(),
        port: 1,
    };
    let request = pb::GetRequest::default();
    let answer = client.call::<_, pb::GetResponse>(Call {
        server: &server,
        service: ServiceKind::Client,
        options,
        method: "Get",
        request: &request,
        cells: Bytes::new(),
        priority: None,
        limit: AttemptLimit::new(Instant::now() + Duration::from_secs(9), true),
    });
    answer.await.map(|(_, cells)| cells)
}

#[tokio::test(start_paused = true)]
async fn compressed_answer_is_read() {
    let cells = Compression::ZLIB.compress(&ping::CELL.repeat(3)).unwrap();
    let servers = Servers::new(Server::Uses(cells.to_vec().leak()));
    let found = get(&servers.client()).await.unwrap();
    assert_eq!(found.count(), 3);
    assert_eq!(servers.dials.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn call_that_requires_privacy_is_not_sent_in_plain() {
    // It does not expect any request but pings.
    let servers = Servers::new(Server::Fails);
    let config = config().with_compression(None);
    let client = Arc::new(RpcClient::new(&config, Arc::new(servers)));
    let options = CallOptions {
        requires_privacy: true,
        ..CallOptions::default()
    };
    let error = get_with(&client, options).await.unwrap_err();
    assert!(matches!(error, CallError::NotPrivate), "{error:?}");
    let classification = error.classify();
    assert_eq!(
        (classification.kind, classification.effect),
        (ErrorKind::InvalidConfig, Effect::None)
    );
}

#[rstest]
#[case::no_zlib(b"\0\0\0\x05hello", ErrorKind::Protocol)]
#[case::truncated(&[0x78, 0x01, 0x4b], ErrorKind::Protocol)]
#[tokio::test(start_paused = true)]
async fn bad_compressed_answer_fails_its_call_only(#[case] cells: &'static [u8], #[case] kind: ErrorKind) {
    let servers = Servers::new(Server::Uses(cells));
    let client = servers.client();
    for _ in 0..2 {
        let error = get(&client).await.unwrap_err();
        let classification = error.classify();
        assert_eq!(
            (classification.kind, classification.effect),
            (kind, Effect::Unknown),
            "{error}"
        );
    }
    assert_eq!(servers.dials.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn bomb_is_an_answer_that_is_too_large() {
    let bomb = Compression::ZLIB.compress(&vec![0; 10 << 20]).unwrap();
    assert!(bomb.len() < 100_000);
    let servers = Servers::new(Server::Uses(bomb.to_vec().leak()));
    let error = get(&servers.client()).await.unwrap_err();
    assert_eq!(error.classify().kind, ErrorKind::LimitExceeded);
    let error = error.into_error();
    assert!(error.to_string().contains("100000 bytes"), "{error}");
    assert!(error.hint().unwrap().contains("with_max_frame_size"), "{error}");
}

#[rstest]
#[case::no_class(Server::HangsUp, 3)]
#[case::no_library(Server::Fails, 3)]
#[tokio::test(start_paused = true)]
async fn server_without_the_compressor_is_named(#[case] server: Server, #[case] dials: usize) {
    let servers = Servers::new(server);
    let error = get(&servers.client()).await.unwrap_err();
    assert_eq!(servers.dials.load(Ordering::Relaxed), dials);
    let classification = error.classify();
    assert_eq!(classification.kind, ErrorKind::InvalidConfig, "{error}");
    assert_eq!(classification.effect, Effect::None);
    let error = error.into_error();
    assert!(
        error.to_string().contains("hadoop.io.compress.DefaultCodec"),
        "{error}"
    );
    assert_eq!(error.remote().is_some(), server == Server::Fails);
}

#[tokio::test(start_paused = true)]
async fn connection_that_is_lost_once_is_no_refusal() {
    let servers = Servers::new(Server::HangsUpOnce);
    let dialler = Dialler::new(&config(), Arc::new(servers.clone()));
    dialler.open(&target(), Codec::KeyValue).await.unwrap();
    assert_eq!(servers.dials.load(Ordering::Relaxed), 3);
}

/// Such a refusal may be false. Nothing but a ping was sent by then.
#[rstest]
#[tokio::test(start_paused = true)]
async fn connection_that_seals_is_refused_before_any_call(
    #[values(None, Some(Compression::ZLIB))] compression: Option<Compression>,
) {
    let config = config().with_compression(compression);
    let open = async |server| {
        let mut dialler = Dialler::new(&config, Arc::new(Servers::new(server)));
        dialler.seals = true;
        dialler.open(&target(), Codec::KeyValue).await
    };
    let refusal = open(Server::Refuses).await.unwrap_err();
    assert_eq!(refusal.classify().effect, Effect::None, "{refusal:?}");
    let accepted = open(Server::Uses(b"")).await.unwrap();
    assert!(accepted.has_heard());
}

fn target() -> DialTarget {
    DialTarget {
        address: HostPort {
            host: "a".to_owned(),
            port: 1,
        },
        service: ServiceKind::Client,
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_starts_is_asked_again_by_the_caller() {
    let error = get(&Servers::new(Server::Starts).client()).await.unwrap_err();
    let Classification { recovery, effect, .. } = error.classify();
    assert_eq!(
        (recovery, effect),
        (Recovery::ForgetServer, Effect::None),
        "{error:?}"
    );
}
