//! A port that leads to a server, or to nothing good.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    task::JoinHandle,
    time::sleep,
};

/// Forwards a port of this machine to a server, until it is dropped.
#[derive(Debug)]
pub(crate) struct Forwarder {
    pub(crate) port: u16,
    switches: Arc<Switches>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Switches {
    /// Answers are thrown away.
    mute: AtomicBool,
    /// The next answer is replaced by what no HBase would say, and everything behind it left out.
    garble: AtomicBool,
    /// Answers are kept back as long as this is so.
    held: AtomicBool,
    accepted: AtomicUsize,
}

impl Forwarder {
    pub(crate) async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let switches = Arc::<Switches>::default();
        let task = tokio::spawn({
            let switches = Arc::clone(&switches);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    switches.accepted.fetch_add(1, Ordering::SeqCst);
                    let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    tokio::spawn(pass(from_client, to_server, Arc::default()));
                    tokio::spawn(pass(from_server, to_client, Arc::clone(&switches)));
                }
            }
        });
        Self { port, switches, task }
    }

    /// From now on the client hears nothing.
    pub(crate) fn mute(&self, mute: bool) {
        self.switches.mute.store(mute, Ordering::SeqCst);
    }

    /// As long as this is so the client hears nothing; then it hears all that was said.
    pub(crate) fn hold(&self, held: bool) {
        self.switches.held.store(held, Ordering::SeqCst);
    }

    /// Instead of the next answer the client hears nonsense.
    pub(crate) fn garble(&self) {
        self.switches.garble.store(true, Ordering::SeqCst);
    }

    pub(crate) fn accepted(&self) -> usize {
        self.switches.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, switches: Arc<Switches>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        while switches.held.load(Ordering::SeqCst) {
            sleep(Duration::from_millis(2)).await;
        }
        if switches.mute.load(Ordering::SeqCst) {
            continue;
        }
        let garble = switches.garble.swap(false, Ordering::SeqCst);
        let bytes: &[u8] = if garble {
            b"HTTP/1.1 400 Bad Request\r\n\r\n"
        } else {
            &buffer[..count]
        };
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

/// A port where something else than HBase listens: it says this to everyone, and then nothing.
pub(crate) async fn stranger(greeting: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                if client.write_all(greeting).await.is_ok() {
                    let mut sink = [0; 1024];
                    while let Ok(1..) = client.read(&mut sink).await {}
                }
            });
        }
    });
    port
}

/// A port where nothing listens.
pub(crate) async fn nobody() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().port()
}
