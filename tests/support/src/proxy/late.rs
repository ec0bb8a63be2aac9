//! Requests that reach the server after their callers have given them up.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use super::{Shared, frames};

/// The time limit of a server's answer. A region that is busy for longer makes the test fail in
/// other ways.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request, and the preamble of its connection.
#[derive(Clone)]
pub(super) struct Late {
    pub(super) server: SocketAddr,
    pub(super) opening: Bytes,
    pub(super) request: Bytes,
}

impl Late {
    /// Sends the request over its own connection, and waits until the server has answered.
    pub(super) async fn deliver(self) -> io::Result<()> {
        let delivery = async {
            let mut server = TcpStream::connect(self.server).await?;
            server.write_all(&self.opening).await?;
            server.write_all(&self.request).await?;
            frames::frame(&mut server).await.map(drop)
        };
        timeout(PATIENCE, delivery).await?
    }

    /// Does the same after a delay, in the background.
    pub(super) fn deliver_after(self, time: Duration, shared: &Arc<Shared>) {
        let shared = Arc::clone(shared);
        shared.under_way.fetch_add(1, Ordering::AcqRel);
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            // A server that has died meanwhile never gets it.
            let _ = self.deliver().await;
            shared.under_way.fetch_sub(1, Ordering::AcqRel);
        });
    }
}
