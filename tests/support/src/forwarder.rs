//! A forwarder to a server, and ports where no server listens.

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
    task::{AbortHandle, JoinHandle},
    time::sleep,
};

/// Forwards a port of this machine to a server until it is dropped.
#[derive(Debug)]
pub struct Forwarder {
    pub port: u16,
    server: u16,
    switches: Arc<Switches>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Switches {
    /// Answers are dropped.
    mute: AtomicBool,
    /// The next answer is replaced by bytes that no HBase would send, and the rest of it is
    /// dropped.
    garble: AtomicBool,
    /// Answers are held while this is set.
    held: AtomicBool,
    /// The number of requests; the bytes that a client writes at once count as one.
    asked: AtomicUsize,
    /// The number of answers from the server. Bytes that it writes at once count as one.
    answered: AtomicUsize,
    /// The request of this number is held while this is set.
    stop: AtomicUsize,
    /// The connection to the server closes instead of the next request with these words.
    hang_up: Mutex<Option<&'static str>>,
    /// Requests with these words are dropped.
    lose: Mutex<Option<&'static str>>,
    accepted: AtomicUsize,
    /// The tasks that serve the connections.
    links: Mutex<Vec<AbortHandle>>,
    /// The connections up to this number forward no bytes.
    silent: AtomicUsize,
}

/// A connection of the forwarder.
#[derive(Clone)]
struct Link {
    number: usize,
    /// The server's port, and the port that replaces it in answers to clients.
    renamed: Option<(u16, u16)>,
    switches: Arc<Switches>,
}

impl Link {
    fn is_silent(&self) -> bool {
        self.number <= self.switches.silent.load(Ordering::SeqCst)
    }
}

impl Forwarder {
    pub async fn to(server: u16) -> Self {
        Self::start(server, false).await
    }

    /// Starts a forwarder for clients that dial the addresses in the server's answers: its port is
    /// replaced by the forwarder's there. Both have five digits.
    pub async fn in_front_of(server: u16) -> Self {
        Self::start(server, true).await
    }

    async fn start(server: u16, rename: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let switches = Arc::<Switches>::default();
        let task = listen(listener, server, rename, Arc::clone(&switches));
        Self {
            port,
            server,
            switches,
            task,
        }
    }

    /// Sets whether answers are dropped.
    pub fn mute(&self, mute: bool) {
        self.switches.mute.store(mute, Ordering::SeqCst);
    }

    /// The present connections forward no more bytes in either direction; they stay open.
    pub fn silence_existing(&self) {
        self.switches.silent.store(self.accepted(), Ordering::SeqCst);
    }

    /// Sets whether answers are held; afterwards all of them are sent.
    pub fn hold(&self, held: bool) {
        self.switches.held.store(held, Ordering::SeqCst);
    }

    /// Replaces the next answer by nonsense.
    pub fn garble(&self) {
        self.switches.garble.store(true, Ordering::SeqCst);
    }

    /// Holds the request after this many others, until another number is set.
    pub fn stop_behind(&self, more: usize) {
        self.switches
            .stop
            .store(self.asked() + more + 1, Ordering::SeqCst);
    }

    /// Returns whether a request is held.
    pub fn has_stopped(&self) -> bool {
        self.asked() == self.switches.stop.load(Ordering::SeqCst)
    }

    /// Releases the held request.
    pub fn go_on(&self) {
        self.switches.stop.store(0, Ordering::SeqCst);
    }

    /// Closes the connection at the next request that has these words, once.
    pub fn hang_up_at(&self, words: &'static str) {
        *self.switches.hang_up.lock().unwrap() = Some(words);
    }

    /// From now on requests with these words are dropped.
    pub fn lose(&self, words: &'static str) {
        *self.switches.lose.lock().unwrap() = Some(words);
    }

    /// Closes all connections, and refuses new ones.
    pub async fn refuse(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
        for link in self.switches.links.lock().unwrap().drain(..) {
            link.abort();
        }
    }

    /// Listens again, on the same port.
    pub async fn accept_again(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.unwrap();
        self.task = listen(listener, self.server, false, Arc::clone(&self.switches));
    }

    /// Returns the number of requests.
    pub fn asked(&self) -> usize {
        self.switches.asked.load(Ordering::SeqCst)
    }

    /// Returns the number of answers.
    pub fn answered(&self) -> usize {
        self.switches.answered.load(Ordering::SeqCst)
    }

    pub fn accepted(&self) -> usize {
        self.switches.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Accepts the connections of a listener.
fn listen(listener: TcpListener, server: u16, rename: bool, switches: Arc<Switches>) -> JoinHandle<()> {
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let link = Link {
                number: switches.accepted.fetch_add(1, Ordering::SeqCst) + 1,
                renamed: rename.then_some((server, port)),
                switches: Arc::clone(&switches),
            };
            let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let asking = tokio::spawn(ask(from_client, to_server, link.clone()));
            let passing = tokio::spawn(pass(from_server, to_client, link));
            let links = [asking.abort_handle(), passing.abort_handle()];
            switches.links.lock().unwrap().extend(links);
        }
    })
}

/// Forwards requests.
async fn ask(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, link: Link) {
    let switches = &link.switches;
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if link.is_silent() {
            continue;
        }
        let number = switches.asked.fetch_add(1, Ordering::SeqCst) + 1;
        while switches.stop.load(Ordering::SeqCst) == number {
            sleep(Duration::from_millis(2)).await;
        }
        let has = |words: &mut &'static str| {
            let words = words.as_bytes();
            buffer[..count].windows(words.len()).any(|part| part == words)
        };
        if switches.lose.lock().unwrap().as_mut().is_some_and(has) {
            continue;
        }
        if switches.hang_up.lock().unwrap().take_if(has).is_some() {
            // The server then closes its end, and the client sees that.
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// Forwards answers.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, link: Link) {
    let switches = &link.switches;
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        switches.answered.fetch_add(1, Ordering::SeqCst);
        while switches.held.load(Ordering::SeqCst) {
            sleep(Duration::from_millis(2)).await;
        }
        if switches.mute.load(Ordering::SeqCst) || link.is_silent() {
            continue;
        }
        if let Some((server, port)) = link.renamed {
            rename(&mut buffer[..count], server, port);
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

/// Replaces a port after the address of this machine: in a `ServerName`, and in the text of
/// `hbase:meta`.
fn rename(bytes: &mut [u8], from: u16, to: u16) {
    const HOST: &[u8] = b"127.0.0.1";
    let forms = |port: u16| {
        let mut varint = vec![0x10];
        prost::encode_length_delimiter(port.into(), &mut varint).unwrap();
        [
            [HOST, &varint].concat(),
            [HOST, format!(":{port}").as_bytes()].concat(),
        ]
    };
    for (from, to) in forms(from).into_iter().zip(forms(to)) {
        assert_eq!(from.len(), to.len());
        let mut at = 0;
        while let Some(found) = bytes[at..].windows(from.len()).position(|part| part == from) {
            bytes[at + found..][..to.len()].copy_from_slice(&to);
            at += found + to.len();
        }
    }
}

/// Returns a port where another program than HBase listens: it sends these bytes to each client,
/// and then nothing.
pub async fn stranger(greeting: &'static [u8]) -> u16 {
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

/// Returns a port where no program listens.
pub async fn nobody() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().port()
}
