//! Detection of servers that answer a client which authenticates, without such a client.

use std::io;

use hbase_security::{AuthMethod, preamble};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Duration, Instant, timeout_at},
};

use super::{call_error::CallError, connector::Io};

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The length of an empty token.
const EMPTY: [u8; 4] = [0; 4];
/// The beginning of the refusal of a token.
const REFUSAL: [u8; 4] = [0, 0, 0, 1];
/// The beginning of the answer of a server without security.
const NO_SECURITY: [u8; 4] = [0; 4];

/// Returns whether the server refuses an empty token. HBase 3.0 silently closes a connection with
/// SIMPLE authentication if it does not accept it.
pub(super) async fn is_required(
    dialled: impl Future<Output = Result<Box<dyn Io>, CallError>> + Send,
    deadline: Instant,
) -> bool {
    answer(dialled, deadline).await == Some(REFUSAL)
}

/// Returns whether the server answers an empty token on a stream without TLS. HBase 3.0 without TLS
/// silently closes a connection that begins with TLS.
pub(super) async fn is_answered(
    dialled: impl Future<Output = io::Result<Box<dyn Io>>> + Send,
    deadline: Instant,
) -> bool {
    let dialled = async { dialled.await.map_err(CallError::of_dial) };
    matches!(answer(dialled, deadline).await, Some(REFUSAL | NO_SECURITY))
}

/// Sends an empty token on a new stream, and returns the beginning of the answer.
async fn answer(
    dialled: impl Future<Output = Result<Box<dyn Io>, CallError>> + Send,
    deadline: Instant,
) -> Option<[u8; 4]> {
    let exchange = async {
        let mut stream = dialled.await.map_err(io::Error::other)?;
        let opening = [&preamble(AuthMethod::Kerberos)[..], &EMPTY].concat();
        stream.write_all(&opening).await?;
        stream.flush().await?;
        let mut answer = [0; REFUSAL.len()];
        stream.read_exact(&mut answer).await?;
        io::Result::Ok(answer)
    };
    let deadline = deadline.min(Instant::now() + PATIENCE);
    timeout_at(deadline, exchange).await.ok()?.ok()
}
