//! A server of a quorum, in a process of its own.

use std::{
    collections::BTreeSet,
    env,
    fs::{self, File},
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use hbase_local::Home;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::sleep,
};

/// Runs a program until this shell's input ends, so that the program never outlives the test.
const TIED: &str = "\"$@\" </dev/null & echo $!; read _; kill -9 $!";

/// A server, which is killed on drop.
#[derive(Debug)]
pub(crate) struct Member {
    shell: Child,
    pid: u32,
    port: u16,
    log: PathBuf,
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
    /// Starts the server of this index. It uses three of the ports: for clients, for the other
    /// servers, and for elections.
    pub(crate) fn start(folder: &Path, index: usize, ports: &[u16], settings: &[&str]) -> Self {
        let data = folder.join(index.to_string());
        fs::create_dir(&data).unwrap();
        fs::write(data.join("myid"), index.to_string()).unwrap();
        let port = ports[3 * index];
        let mut config = format!(
            "tickTime=500\ninitLimit=20\nsyncLimit=8\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
             admin.enableServer=false\n4lw.commands.whitelist=*\n",
            data.display()
        );
        for (server, ports) in ports.chunks(3).enumerate() {
            config += &format!("server.{server}=127.0.0.1:{}:{}\n", ports[1], ports[2]);
        }
        let file = data.join("zoo.cfg");
        fs::write(&file, config).unwrap();
        let log = data.join("log");
        let out = File::create(&log).unwrap();
        let mut shell = Command::new("sh")
            .args(["-c", TIED, "sh"])
            .arg(java())
            .args([
                "-Xmx64m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-XX:-UsePerfData",
            ])
            .args(settings)
            .arg("-cp")
            .arg(format!("{}/*", jars().display()))
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(out)
            .spawn()
            .unwrap();
        let mut pid = String::new();
        let mut printed = BufReader::new(shell.stdout.take().unwrap());
        printed.read_line(&mut pid).unwrap();
        // The server prints its log to the same pipe.
        let mut copy = File::options().append(true).open(&log).unwrap();
        std::thread::spawn(move || std::io::copy(&mut printed, &mut copy));
        Self {
            shell,
            pid: pid.trim().parse().unwrap(),
            port,
            log,
        }
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Kills the process at once.
    pub(crate) fn kill(&mut self) {
        drop(self.shell.stdin.take());
        self.shell.wait().unwrap();
    }

    /// Suspends the process.
    pub(crate) fn suspend(&self) {
        let kill = format!("kill -STOP {}", self.pid);
        // `kill` is built into the shell; the program may not be installed.
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
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
            let log = || fs::read_to_string(&self.log).unwrap_or_default();
            assert!(Instant::now() < deadline, "no {words:?}: {}", log());
            sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

fn java() -> PathBuf {
    match env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        Some(home) => Path::new(&home).join("bin/java"),
        None => "java".into(),
    }
}

fn jars() -> PathBuf {
    let jars = Home::from_env().unwrap().cache().join("jars/2.6.4-hadoop3");
    assert!(jars.is_dir(), "no jars of HBase 2.6.4: run make test");
    jars
}
