//! Waiting for a condition until a deadline.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

const INTERVAL: Duration = Duration::from_millis(50);

/// Returns whether the condition became true before the deadline. Checks it at least once.
pub(super) async fn until(deadline: Instant, mut condition: impl FnMut() -> bool + Send) -> bool {
    let met = try_until(deadline, || Ok::<_, ()>(condition().then_some(()))).await;
    matches!(met, Ok(Some(())))
}

/// Returns the first result of the probe, or `None` after the deadline. An error ends the wait.
pub(super) async fn try_until<T: Send, E: Send>(
    deadline: Instant,
    mut probe: impl FnMut() -> Result<Option<T>, E> + Send,
) -> Result<Option<T>, E> {
    loop {
        if let Some(found) = probe()? {
            return Ok(Some(found));
        }
        let now = Instant::now();
        if now >= deadline {
            return Ok(None);
        }
        if now + INTERVAL < deadline {
            sleep(INTERVAL).await;
        } else {
            sleep_until(deadline).await;
        }
    }
}
