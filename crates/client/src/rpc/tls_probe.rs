//! Detection of servers that speak only TLS, for a client without it.

use std::io;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Duration, Instant, timeout_at},
};

use super::connector::Io;
use crate::wire::tls;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Greets the server in TLS on a new connection, and returns whether it answers in TLS. HBase
/// silently closes a plain connection if it accepts TLS only
/// (`hbase.server.netty.tls.supportplaintext`).
pub(super) async fn is_spoken(
    dialled: impl Future<Output = io::Result<Box<dyn Io>>> + Send,
    deadline: Instant,
) -> bool {
    let greeting = async { answers_in_tls(&mut dialled.await?).await };
    let deadline = deadline.min(Instant::now() + PATIENCE);
    matches!(timeout_at(deadline, greeting).await, Ok(Ok(true)))
}

/// Greets the server of a new connection in TLS, and returns whether it answers in TLS.
pub(crate) async fn answers_in_tls(stream: &mut impl Io) -> io::Result<bool> {
    stream.write_all(&tls::client_hello()).await?;
    stream.flush().await?;
    let mut answer = [0; tls::BEGINNING];
    stream.read_exact(&mut answer).await?;
    Ok(tls::is_answer(&answer))
}
