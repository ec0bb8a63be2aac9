//! The threads on which steps run that block.

use std::time::Duration;

use bytes::Bytes;
use tokio::{sync::Semaphore, task::spawn_blocking, time::sleep};

use super::mechanism::Mechanism;
use crate::{authentication_error::AuthenticationError, handshake::Step};

/// The maximum number of steps that block at the same time, in the whole process. A key
/// distribution centre that is silent holds each for tens of seconds.
pub(super) const BLOCKING_STEPS: usize = 4;

/// The pause before another try to begin a step.
const AGAIN: Duration = Duration::from_millis(5);

pub(super) static BLOCKING: Semaphore = Semaphore::const_new(BLOCKING_STEPS);

/// Takes a step, on a thread of its own if it may block.
///
/// # Cancel safety
///
/// A step that blocks ends on its own thread.
pub(super) async fn take_step(
    mut mechanism: Box<dyn Mechanism>,
    token: Bytes,
) -> Result<(Box<dyn Mechanism>, Step), AuthenticationError> {
    if !mechanism.blocks() {
        let next = mechanism.step(&token)?;
        return Ok((mechanism, next));
    }
    on_thread(move || {
        let next = mechanism.step(&token)?;
        Ok((mechanism, next))
    })
    .await
}

/// Calls a function of the library that may block, on a thread of its own.
///
/// # Cancel safety
///
/// The function ends on its own thread.
pub(super) async fn on_thread<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, AuthenticationError> + Send + 'static,
) -> Result<T, AuthenticationError> {
    // In the queue of the semaphore, a call in a runtime that nothing drives would keep its permit
    // without limit.
    let permit = loop {
        match BLOCKING.try_acquire() {
            Ok(permit) => break permit,
            Err(_) => sleep(AGAIN).await,
        }
    };
    let called = spawn_blocking(move || {
        let result = call();
        drop(permit);
        result
    });
    called.await.unwrap_or(Err(AuthenticationError::Interrupted))
}
