//! Servers on real sockets, for other processes and other languages.

use std::{io, net::IpAddr, sync::Arc};

use tokio::{
    net::{TcpListener, TcpStream},
    time::sleep,
};

use super::{Dialer, Network, connection::Connection};
use crate::cluster::ServerIndex;

/// Opens sockets on an address of this machine for servers, so that their addresses are known before the cluster.
///
/// # Errors
///
/// Returns an error if the system has no port left, or does not have the address.
pub(crate) async fn bind(address: IpAddr, servers: usize) -> io::Result<Vec<TcpListener>> {
    let mut listeners = Vec::with_capacity(servers);
    for _ in 0..servers {
        listeners.push(TcpListener::bind((address, 0)).await?);
    }
    Ok(listeners)
}

impl Network {
    /// Serves the cluster's servers on these sockets, in their order.
    pub(crate) fn listen(&self, listeners: Vec<TcpListener>) {
        for (server, listener) in listeners.into_iter().enumerate() {
            tokio::spawn(self.dialer().accept(ServerIndex(server), listener));
        }
    }
}

impl Dialer {
    async fn accept(self, server: ServerIndex, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = self.open.wait_for(|open| !open) => return,
            };
            // A client that hung up at once is no reason to stop.
            if let Ok((stream, _)) = accepted {
                tokio::spawn(self.clone().serve(server, stream));
            }
        }
    }

    /// Serves a stream that the system has accepted. One that the server refuses is closed.
    async fn serve(self, server: ServerIndex, stream: TcpStream) {
        let Ok(dialling) = self.shared.lock().dial_server(server) else {
            return;
        };
        if dialling.lost {
            // Keeps the stream open, and reads nothing.
            self.open.wait_for(|open| !open).await;
            return;
        }
        if !dialling.delay.is_zero() {
            sleep(dialling.delay).await;
        }
        let Ok((id, life, chunk)) = self.shared.lock().connect(server) else {
            return;
        };
        if stream.set_nodelay(true).is_ok() {
            Connection::serve(Arc::clone(&self.shared), id, life, chunk, stream).await;
        }
    }
}
