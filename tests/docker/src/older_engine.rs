//! Lets a client that names a later version of Docker's API talk to an older engine: `older-engine
//! LISTEN ENGINE VERSION`, two Unix sockets and the version that the engine speaks.
//!
//! testcontainers always names the version that its own client was made for, and Debian 12's engine
//! refuses what it doesn't know. The calls that are needed here are the same in both; the path of
//! each request is changed to the engine's version, and nothing else.

use std::{env, error::Error, io};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream, unix::OwnedWriteHalf},
};

/// Where the version stands in the first line of a request, as in `GET /v1.53/info HTTP/1.1`.
const VERSION: &[u8] = b" /v";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [listen, engine, version] =
        <[String; 3]>::try_from(arguments).map_err(|_| "usage: older-engine LISTEN ENGINE VERSION")?;
    let listener = UnixListener::bind(listen)?;
    loop {
        let (client, _) = listener.accept().await?;
        let (engine, version) = (engine.clone(), version.clone());
        tokio::spawn(async move {
            if let Err(error) = forward(client, &engine, &version).await {
                eprintln!("older-engine: {error}");
            }
        });
    }
}

async fn forward(client: UnixStream, engine: &str, version: &str) -> io::Result<()> {
    let (mut requests, mut answers) = client.into_split();
    let (mut engine_answers, mut engine_requests) = UnixStream::connect(engine).await?.into_split();
    let back = tokio::spawn(async move { tokio::io::copy(&mut engine_answers, &mut answers).await });
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = requests.read(&mut buffer).await?;
        if read == 0 {
            break;
        }
        pass_on(&buffer[..read], version, &mut engine_requests).await?;
    }
    engine_requests.shutdown().await?;
    back.await??;
    Ok(())
}

/// A client writes the head of a request at once, and does not send another before it is answered:
/// so what begins like a request is one.
async fn pass_on(bytes: &[u8], version: &str, engine: &mut OwnedWriteHalf) -> io::Result<()> {
    let Some((before, behind)) = around_version(bytes) else {
        return engine.write_all(bytes).await;
    };
    engine.write_all(before).await?;
    engine.write_all(version.as_bytes()).await?;
    engine.write_all(behind).await
}

/// What stands before and behind the version in a request's path.
fn around_version(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let methods: [&[u8]; 5] = [b"GET", b"POST", b"PUT", b"DELETE", b"HEAD"];
    let method = methods.iter().find(|method| bytes.starts_with(method))?;
    let rest = bytes[method.len()..].strip_prefix(VERSION)?;
    let length = rest.iter().position(|byte| *byte == b'/')?;
    let start = method.len() + VERSION.len();
    Some((&bytes[..start], &rest[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_version_of_a_request_is_cut_out() {
        let (before, behind) = around_version(b"GET /v1.53/info HTTP/1.1\r\n").unwrap();
        assert_eq!((before, behind), (&b"GET /v"[..], &b"/info HTTP/1.1\r\n"[..]));
        assert!(around_version(b"GET /info HTTP/1.1\r\n").is_none());
        assert!(around_version(b"{\"path\": \"GET /v1.53/\"}").is_none());
    }
}
