//! Waits for the work of servers.

use hbase_client::{Error, ErrorKind, Result, low_level::Pauses};
use tokio::time::Instant;

/// Polls for a server's work until a poll returns a result, or until the deadline: then fails with
/// `unfinished`.
pub(crate) async fn poll_until<T, F: Future<Output = Result<Option<T>>>>(
    deadline: Instant,
    poll: impl Fn() -> F,
    unfinished: impl FnOnce() -> Error,
) -> Result<T> {
    let mut pauses = Pauses::polling();
    let mut is_at_work = false;
    loop {
        match poll().await {
            Ok(Some(result)) => return Ok(result),
            Ok(None) => is_at_work = true,
            // The deadline has cut this poll short; the ones before say more.
            Err(error) if is_at_work && error.kind() == ErrorKind::DeadlineExceeded => {
                return Err(unfinished().with_source(error));
            }
            Err(error) => return Err(error),
        }
        if !pauses.wait_before(deadline).await {
            return Err(unfinished());
        }
    }
}
