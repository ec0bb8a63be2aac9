//! Peers that put escape sequences into all that they send.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use hbase_txn::client::{DelegationToken, TokenFile};

/// Clears the screen, sets the title, moves the cursor, ends the line, and the same in one byte.
pub const HOSTILE: &str = "\x1b[2J\x1b]0;owned\x07\r\n\x08\x7f\u{9b}2Jfine";

/// The code of a failed request of ZooKeeper: the session needs authentication.
const AUTHENTICATE: i32 = -115;

/// Starts a server that does this with every connection while the test runs, and returns its port.
fn server(serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            // The client may hang up at any time.
            let _ = serve(stream.unwrap());
        }
    });
    port
}

/// Starts servers of quorums with hostile znodes, and returns their ports.
pub fn zookeepers() -> Vec<u16> {
    let host = [
        &[0x0a, HOSTILE.len() as u8][..],
        HOSTILE.as_bytes(),
        b"\x10\x01\x18\x01",
    ]
    .concat();
    let server_name = [&[0x0a, host.len() as u8][..], &host].concat();
    let cluster_id = [&[0x0a, HOSTILE.len() as u8][..], HOSTILE.as_bytes()].concat();
    let writer = [&b"\xff\0\0\0"[..], &[HOSTILE.len() as u8], HOSTILE.as_bytes()].concat();
    let znode = |message: &[u8]| [&writer, &b"PBUF"[..], message].concat();
    let (of_server, of_cluster) = (znode(&server_name), znode(&cluster_id));
    let cut = znode(&server_name[..server_name.len() - 4]);
    vec![
        zookeeper(move |path| {
            if path.ends_with("/hbaseid") {
                Ok(of_cluster.clone())
            } else {
                Ok(of_server.clone())
            }
        }),
        zookeeper(move |_| Ok(cut.clone())),
        zookeeper(|_| Ok(HOSTILE.into())),
        zookeeper(|_| Err(AUTHENTICATE)),
        saying(HOSTILE.as_bytes().to_vec()),
    ]
}

/// Starts a server of ZooKeeper with these znodes, or with this code for them.
fn zookeeper(data: impl Fn(&str) -> Result<Vec<u8>, i32> + Send + Sync + 'static) -> u16 {
    server(move |mut stream| {
        read_frame(&mut stream)?;
        let session = [
            &[0; 4][..],
            &4_000_i32.to_be_bytes(),
            &[0; 8],
            &[0, 0, 0, 16],
            &[1; 17],
        ];
        write_frame(&mut stream, &session.concat())?;
        loop {
            let request = read_frame(&mut stream)?;
            let path = request.get(12..request.len() - 1).unwrap_or_default();
            let (code, body) = match request[4..8] {
                [0, 0, 0, 3] => (0, vec![0; 68]),
                [0, 0, 0, 4] => match data(&String::from_utf8_lossy(path)) {
                    Ok(data) => {
                        let length = (data.len() as i32).to_be_bytes();
                        (0, [&length[..], &data, &[0; 68]].concat())
                    }
                    Err(code) => (code, Vec::new()),
                },
                _ => (AUTHENTICATE, Vec::new()),
            };
            let header = [&request[..4], &[0; 8], &i32::to_be_bytes(code)].concat();
            write_frame(&mut stream, &[header, body].concat())?;
        }
    })
}

fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

fn write_frame(stream: &mut TcpStream, frame: &[u8]) -> io::Result<()> {
    stream.write_all(&[&(frame.len() as u32).to_be_bytes(), frame].concat())
}

/// Starts servers that refuse every client before it is authenticated, and returns their ports.
pub fn refusing() -> Vec<u16> {
    let text = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
    let challenge = |qop: &str| {
        let parts = format!("realm=\"{HOSTILE}\",nonce=\"{HOSTILE}\",qop=\"{qop}\",algorithm=md5-sess");
        [&[0; 4][..], &text(&parts)].concat()
    };
    let exception = [&[0x0a, HOSTILE.len() as u8][..], HOSTILE.as_bytes()].concat();
    // Call -1: the connection itself.
    let header = [
        b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12",
        &[exception.len() as u8][..],
        &exception,
    ];
    let header = header.concat();
    let frame = [&[header.len() as u8][..], &header].concat();
    let frame = [&(frame.len() as u32).to_be_bytes(), &frame[..]].concat();
    [
        [&[0, 0, 0, 1][..], &text(HOSTILE), &text(HOSTILE)].concat(),
        challenge("auth"),
        challenge(HOSTILE),
        [&[0; 4][..], &text(HOSTILE)].concat(),
        frame,
        HOSTILE.as_bytes().to_vec(),
    ]
    .map(saying)
    .to_vec()
}

/// Starts a server that answers every message with these bytes.
fn saying(words: Vec<u8>) -> u16 {
    server(move |mut stream| {
        while stream.read(&mut [0; 1_024])? > 0 {
            stream.write_all(&words)?;
        }
        Ok(())
    })
}

/// Returns the file of a token of a cluster that does not exist.
pub fn token_file() -> Vec<u8> {
    let identifier = b"\0\0\0\x0d\x08\0\x12\x01u\x18\x01\x20\x01\x28\x01\x30\x01";
    let mut file = b"HDTS\0\x01".to_vec();
    for part in [&b"id"[..], identifier, &[7; 20], b"HBASE_AUTH_TOKEN", b"id"] {
        file.push(part.len() as u8);
        file.extend(part);
    }
    file.push(0);
    file
}

/// Returns the token of [`token_file`].
pub fn token() -> DelegationToken {
    TokenFile::from_bytes(&token_file()).unwrap().tokens()[0].clone()
}
