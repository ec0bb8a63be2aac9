//! A port that leads to a server, or to nothing good.

use std::{
    sync::{
        Arc, Mutex,
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
    /// How many requests came: what a client writes at once is one.
    asked: AtomicUsize,
    /// The request of this number is kept back as long as this is so.
    stop: AtomicUsize,
    /// In place of the next request with these words the server sees the connection end.
    hang_up: Mutex<Option<&'static str>>,
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
                    tokio::spawn(ask(from_client, to_server, Arc::clone(&switches)));
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

    /// The request behind the next so many is kept back, until another number is named.
    pub(crate) fn stop_behind(&self, more: usize) {
        self.switches
            .stop
            .store(self.asked() + more + 1, Ordering::SeqCst);
    }

    /// Whether a request is kept back.
    pub(crate) fn has_stopped(&self) -> bool {
        self.asked() == self.switches.stop.load(Ordering::SeqCst)
    }

    /// No request is kept back any more.
    pub(crate) fn go_on(&self) {
        self.switches.stop.store(0, Ordering::SeqCst);
    }

    /// The connection ends at the next request that has these words, once.
    pub(crate) fn hang_up_at(&self, words: &'static str) {
        *self.switches.hang_up.lock().unwrap() = Some(words);
    }

    /// How many requests came.
    pub(crate) fn asked(&self) -> usize {
        self.switches.asked.load(Ordering::SeqCst)
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

/// Hands requests on.
async fn ask(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, switches: Arc<Switches>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let number = switches.asked.fetch_add(1, Ordering::SeqCst) + 1;
        while switches.stop.load(Ordering::SeqCst) == number {
            sleep(Duration::from_millis(2)).await;
        }
        let has = |words: &mut &'static str| {
            let words = words.as_bytes();
            buffer[..count].windows(words.len()).any(|part| part == words)
        };
        if switches.hang_up.lock().unwrap().take_if(has).is_some() {
            // The server ends its side then, and the client sees that.
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// Hands answers on.
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
