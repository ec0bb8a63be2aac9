//! The znodes that servers of HBase write, written by a test.

use hbase_protocol as pb;
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const CREATE: i32 = 1;
const CLOSE_SESSION: i32 = -11;

/// The scheme and the id of the whole world.
pub(crate) const ANYONE: (&str, &str) = ("world", "anyone");

/// The parent of the znodes, and the scheme and the id of those that have all rights.
#[derive(Clone, Copy)]
pub(crate) struct Znodes<'a> {
    pub(crate) parent: &'a str,
    pub(crate) acl: (&'a str, &'a str),
}

/// Creates the znodes of a region server that has `hbase:meta`, and of an active master.
pub(crate) async fn write_znodes(
    quorum: &str,
    Znodes { parent, acl }: Znodes<'_>,
    region_server: &(String, u16),
    master: &(String, u16),
) {
    let mut stream = TcpStream::connect(quorum).await.unwrap();
    // A session of 10 s: no version, no last change, no id, a password of 16 bytes, not read-only.
    let connect = [
        &[0; 12][..],
        &10_000_i32.to_be_bytes(),
        &[0; 8],
        &16_i32.to_be_bytes(),
        &[0; 17],
    ];
    call(&mut stream, &connect.concat()).await;
    let meta = pb::MetaRegionServer {
        server: server_name(region_server),
        ..Default::default()
    };
    let master = pb::Master {
        master: server_name(master),
        ..Default::default()
    };
    for (name, data) in [
        ("", Vec::new()),
        ("/meta-region-server", stored(&meta)),
        ("/master", stored(&master)),
    ] {
        let path = format!("{parent}{name}");
        // Others can create below the parent.
        let (scheme, id) = if name.is_empty() { ANYONE } else { acl };
        let mut request = [1_i32, CREATE].map(i32::to_be_bytes).concat();
        put(&mut request, path.as_bytes());
        put(&mut request, &data);
        // One entry: all rights.
        request.extend([1_i32, 31].map(i32::to_be_bytes).concat());
        put(&mut request, scheme.as_bytes());
        put(&mut request, id.as_bytes());
        let persistent = 0_i32.to_be_bytes();
        request.extend(persistent);
        let reply = call(&mut stream, &request).await;
        assert_eq!(reply[12..16], [0; 4], "{path} was not created");
    }
    call(&mut stream, &[1, CLOSE_SESSION].map(i32::to_be_bytes).concat()).await;
}

/// Returns a message as HBase stores it, behind the id of its writer.
fn stored(message: &impl Message) -> Vec<u8> {
    [b"\xff\0\0\0\x04testPBUF", &message.encode_to_vec()[..]].concat()
}

fn server_name((host, port): &(String, u16)) -> pb::ServerName {
    pb::ServerName {
        host_name: host.clone(),
        port: Some((*port).into()),
        start_code: Some(1),
    }
}

fn put(request: &mut Vec<u8>, bytes: &[u8]) {
    request.extend((bytes.len() as i32).to_be_bytes());
    request.extend(bytes);
}

async fn call(stream: &mut TcpStream, request: &[u8]) -> Vec<u8> {
    stream.write_u32(request.len() as u32).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut reply = vec![0; stream.read_u32().await.unwrap() as usize];
    stream.read_exact(&mut reply).await.unwrap();
    reply
}
