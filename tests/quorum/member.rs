//! A server of a quorum.

use std::{
    collections::BTreeSet,
    fs,
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::sleep,
};

use super::java::Java;

/// How a server is started.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    /// Options of Java.
    pub(crate) options: Vec<String>,
    /// Whether the server has a port for TLS.
    pub(crate) has_tls: bool,
}

/// The ports of a server: for clients, for the other servers, for elections, and for clients with
/// TLS.
pub(crate) const PORTS: usize = 4;

/// A server, which is killed on drop.
#[derive(Debug)]
pub(crate) struct Member {
    java: Java,
    port: u16,
    tls_port: u16,
}

/// Returns different free ports, below those of outgoing connections.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let mut ports = BTreeSet::new();
    while ports.len() < count {
        let port = fastrand::u16(20_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            ports.insert(port);
        }
    }
    ports.into_iter().collect()
}

impl Member {
    /// Starts the server of this index.
    pub(crate) fn start(folder: &Path, index: usize, ports: &[u16], setup: &Setup) -> Self {
        let data = folder.join(index.to_string());
        fs::create_dir(&data).unwrap();
        fs::write(data.join("myid"), index.to_string()).unwrap();
        let own = &ports[PORTS * index..][..PORTS];
        let mut config = format!(
            "tickTime=500\ninitLimit=20\nsyncLimit=8\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n\
             admin.enableServer=false\n4lw.commands.whitelist=*\n",
            data.display(),
            own[0]
        );
        if setup.has_tls {
            config += &format!(
                "secureClientPort={}\nsecureClientPortAddress=127.0.0.1\n\
                 serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n",
                own[3]
            );
        }
        for (server, ports) in ports.chunks(PORTS).enumerate() {
            config += &format!("server.{server}=127.0.0.1:{}:{}\n", ports[1], ports[2]);
        }
        let file = data.join("zoo.cfg");
        fs::write(&file, config).unwrap();
        let arguments = ["org.apache.zookeeper.server.quorum.QuorumPeerMain".into(), file];
        Self {
            java: Java::start("2.6.4-hadoop3", &setup.options, &arguments, data.join("log")),
            port: own[0],
            tls_port: own[3],
        }
    }

    /// Returns the address for clients with TLS, by the name of its certificate and principal.
    pub(crate) fn tls_host(&self) -> String {
        format!("localhost:{}", self.tls_port)
    }

    /// Returns the address for clients without TLS, by the name of its principal.
    pub(crate) fn named_host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Kills the process at once.
    pub(crate) fn kill(&mut self) {
        self.java.kill();
    }

    /// Suspends the process.
    pub(crate) fn suspend(&self) {
        self.java.suspend();
    }

    /// Sends a four-letter word, and returns the answer, which is empty if there is none.
    pub(crate) async fn ask(&self, word: &str) -> String {
        let mut answer = String::new();
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)).await
            && stream.write_all(word.as_bytes()).await.is_ok()
        {
            // An error ends the answer.
            let _ = stream.read_to_string(&mut answer).await;
        }
        answer
    }

    /// Returns the id of the last change that the server has applied.
    pub(crate) async fn last_change(&self) -> String {
        let status = self.ask("srvr").await;
        let line = status.lines().find(|line| line.starts_with("Zxid: "));
        line.unwrap_or_default().to_owned()
    }

    /// Waits until the server has a quorum.
    pub(crate) async fn is_serving(&self) {
        self.answers("Mode: ").await;
    }

    /// Waits until the server has lost its quorum.
    pub(crate) async fn is_not_serving(&self) {
        self.answers("not currently serving").await;
    }

    async fn answers(&self, words: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.ask("srvr").await.contains(words) {
            assert!(Instant::now() < deadline, "no {words:?}: {}", self.java.log());
            sleep(Duration::from_millis(50)).await;
        }
    }
}
