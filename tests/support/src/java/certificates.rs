//! Servers whose certificates Java's client accepts or refuses.

use std::{path::PathBuf, process::Stdio};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Child,
    task::spawn_blocking,
    time::timeout,
};

use super::{PATIENCE, build, program};

/// A server of TLS.
pub struct JavaTlsServer {
    pub port: u16,
    /// Why Java's client refuses its certificate, if it does.
    pub refusal: Option<String>,
}

/// Starts a server for each folder, by the key in its `server.p12`, and connects with Java's client, which
/// trusts the certificates in its `trust.pem`. The servers run until the process is dropped.
pub async fn tls_servers(folders: &[PathBuf]) -> (Child, Vec<JavaTlsServer>) {
    let built = spawn_blocking(build::build).await.unwrap();
    let mut child = program(&built, "hbasetxn.Certificates")
        .args(folders)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut servers = Vec::new();
    for folder in folders {
        let line = timeout(PATIENCE, lines.next_line()).await;
        let line = line.expect("the Java program hangs").unwrap();
        let line = line.unwrap_or_else(|| panic!("the Java program ended at {}", folder.display()));
        let (port, refusal) = line.split_once(' ').unwrap();
        servers.push(JavaTlsServer {
            port: port.parse().unwrap(),
            refusal: Some(refusal.to_owned()).filter(|refusal| !refusal.is_empty()),
        });
    }
    (child, servers)
}
