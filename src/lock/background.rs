//! Futures that run to completion in the background when they are dropped.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{FutureExt, future::BoxFuture};
use tokio::runtime::Handle;

/// A future that continues in the background if it is dropped after its first poll and before its
/// completion. Its output is dropped then.
///
/// While it is awaited, its caller polls it: a separate task would cost two wake-ups of another
/// thread each time.
pub(crate) struct BackgroundTask<T: 'static> {
    /// `None` after completion.
    future: Option<BoxFuture<'static, T>>,
    /// The runtime in which it continues. `None` before the first poll, when nothing has started.
    runtime: Option<Handle>,
}

impl<T: 'static> BackgroundTask<T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            future: Some(future.boxed()),
            runtime: None,
        }
    }
}

/// Runs a future in the background of a runtime, or in the caller's runtime, if there is one, when
/// the other has shut down.
pub(crate) fn run_in_background(runtime: &Handle, future: impl Future<Output = ()> + Send + 'static) {
    let mut waiting = BackgroundTask {
        future: Some(future.boxed()),
        runtime: Handle::try_current().ok(),
    };
    runtime.spawn(async move {
        // From here on its timers belong to one runtime, so it can't be moved to another.
        if let Some(future) = waiting.future.take() {
            future.await;
        }
    });
}

impl<T: 'static> Future for BackgroundTask<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if self.runtime.is_none() {
            self.runtime = Handle::try_current().ok();
        }
        // A panic does not put the future back, so it counts as completed.
        let Some(mut future) = self.future.take() else {
            return Poll::Pending;
        };
        let polled = future.poll_unpin(cx);
        if polled.is_pending() {
            self.future = Some(future);
        }
        polled
    }
}

impl<T: 'static> Drop for BackgroundTask<T> {
    fn drop(&mut self) {
        if let (Some(future), Some(runtime)) = (self.future.take(), self.runtime.take()) {
            runtime.spawn(future.map(drop));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::{
        runtime::{Builder, Id, Runtime},
        sync::{Notify, oneshot},
    };

    use super::*;

    #[tokio::test]
    async fn dropped_background_work_goes_on_only_if_it_had_begun() {
        let gate = Arc::new(Notify::new());
        let background = |ended: oneshot::Sender<()>| {
            let gate = Arc::clone(&gate);
            BackgroundTask::new(async move {
                gate.notified().await;
                ended.send(())
            })
        };
        let (ended, end) = oneshot::channel();
        let mut begun = background(ended);
        assert!((&mut begun).now_or_never().is_none());
        drop(begun);
        gate.notify_one();
        end.await.unwrap();

        let (ended, end) = oneshot::channel();
        drop(background(ended));
        end.await.unwrap_err();

        let (ended, end) = oneshot::channel();
        gate.notify_one();
        background(ended).await.unwrap();
        end.await.unwrap();
    }

    fn runtime_id() -> Id {
        Handle::current().id()
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn the_runtime_of_the_caller_does_what_one_that_ended_can_not() {
        let (here, there) = (runtime(), runtime());
        let handle = there.handle().clone();
        let send = || {
            let (ended, end) = oneshot::channel();
            run_in_background(&handle, async move { _ = ended.send(runtime_id()) });
            end
        };
        let sent = {
            let _here = here.enter();
            send()
        };
        assert_eq!(there.block_on(sent), Ok(handle.id()));
        drop(there);
        assert_eq!(here.block_on(async { send().await }), Ok(here.handle().id()));
        here.block_on(send()).unwrap_err();
    }

    #[tokio::test]
    async fn one_that_panicked_does_not_go_on() {
        let background = BackgroundTask::new(async {
            tokio::task::yield_now().await;
            panic!("as it should");
        });
        let task = tokio::spawn(async move {
            let () = background.await;
        });
        assert!(task.await.unwrap_err().is_panic());
    }
}
