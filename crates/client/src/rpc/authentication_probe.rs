//! Detection of servers that require authentication, without a client that authenticates.

use std::io;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Duration, Instant, timeout_at},
};

use super::{call_error::CallError, connector::Io};
use crate::wire::preamble::{AuthMethod, preamble};

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The length of an empty token.
const EMPTY: [u8; 4] = [0; 4];
/// The beginning of the refusal of a token. A server without security answers with zeros.
const REFUSAL: [u8; 4] = [0, 0, 0, 1];

/// Sends an empty token on a new stream, and returns whether the server refuses it. HBase 3.0
/// silently closes a connection with SIMPLE authentication if it does not accept it.
pub(super) async fn is_required(
    dialled: impl Future<Output = Result<Box<dyn Io>, CallError>> + Send,
    deadline: Instant,
) -> bool {
    let exchange = async {
        let mut stream = dialled.await.map_err(io::Error::other)?;
        let opening = [&preamble(AuthMethod::Kerberos)[..], &EMPTY].concat();
        stream.write_all(&opening).await?;
        stream.flush().await?;
        let mut answer = [0; REFUSAL.len()];
        stream.read_exact(&mut answer).await?;
        io::Result::Ok(answer == REFUSAL)
    };
    let deadline = deadline.min(Instant::now() + PATIENCE);
    matches!(timeout_at(deadline, exchange).await, Ok(Ok(true)))
}
