//! Requests that reach the server when everybody has given them up.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use super::{Shared, frames};

/// How long a server may take to answer; a region that is busy for longer fails the test by other
/// means.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request, and what its connection began with.
#[derive(Clone)]
pub(super) struct Late {
    pub(super) server: SocketAddr,
    pub(super) opening: Bytes,
    pub(super) request: Bytes,
}

impl Late {
    /// Hands the request over by a connection of its own, and waits until the server has answered.
    pub(super) async fn deliver(self) -> io::Result<()> {
        let delivery = async {
            let mut server = TcpStream::connect(self.server).await?;
            server.write_all(&self.opening).await?;
            server.write_all(&self.request).await?;
            frames::frame(&mut server).await.map(drop)
        };
        timeout(PATIENCE, delivery).await?
    }

    /// The same after a while, behind everybody's back.
    pub(super) fn deliver_after(self, time: Duration, shared: &Arc<Shared>) {
        let shared = Arc::clone(shared);
        shared.under_way.fetch_add(1, Ordering::AcqRel);
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            // A server that died meanwhile never gets it.
            let _ = self.deliver().await;
            shared.under_way.fetch_sub(1, Ordering::AcqRel);
        });
    }
}
