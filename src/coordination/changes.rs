//! Following a row: a stream of its states.

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use hbase_client::low_level::Pauses;
use tokio::time::sleep;

use super::contest::{MAX_PAUSE, MIN_PAUSE};
use crate::error::Result;

/// Returns a stream of what `read` returns: its first output, then each one with another key.
///
/// It polls with pauses that grow while the key stays. A failed poll is an item. The stream never
/// ends, and a dropped `next` is continued by the next one.
pub(super) fn changes<T, K, F>(
    read: impl Fn() -> F + Send + 'static,
    key: impl Fn(&T) -> K + Send + 'static,
) -> BoxStream<'static, Result<T>>
where
    T: Send + 'static,
    K: PartialEq + Send + 'static,
    F: Future<Output = Result<T>> + Send,
{
    let pauses = || Pauses::growing(MIN_PAUSE, MAX_PAUSE);
    let start = (read, key, None, pauses(), false);
    stream::unfold(
        start,
        move |(read, key, mut last, mut paused, mut is_started)| async move {
            let change = loop {
                if is_started {
                    sleep(paused.next_pause()).await;
                }
                is_started = true;
                match read().await {
                    Ok(state) => {
                        let now = Some(key(&state));
                        if now != last {
                            last = now;
                            paused = pauses();
                            break Ok(state);
                        }
                    }
                    Err(error) => break Err(error),
                }
            };
            Some((change, (read, key, last, paused, is_started)))
        },
    )
    .boxed()
}
