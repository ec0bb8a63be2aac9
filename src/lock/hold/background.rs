//! Futures that run to completion in the background when they are dropped.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use tokio::{runtime::Handle, sync::watch, time::sleep};

/// How long an attempt whose caller is gone may wait for the answer to a call in flight. What it may
/// have won after that is watched for.
const LAST_ANSWER: Duration = Duration::from_secs(10);

/// Reports to a future in a [`BackgroundTask`] that its caller has dropped it.
#[derive(Clone, Debug)]
pub(crate) struct Caller(watch::Receiver<bool>);

impl Caller {
    pub(crate) fn is_gone(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the caller has been gone for so long that no answer is waited for any more.
    pub(crate) async fn gone_for_long(mut self) {
        let gone = self.0.wait_for(|gone| *gone).await.is_ok();
        if gone {
            sleep(LAST_ANSWER).await;
        } else {
            std::future::pending::<()>().await;
        }
    }
}

/// The tasks that continue in the background after a request or guard was dropped.
#[derive(Clone, Debug)]
pub(crate) struct BackgroundTasks(Arc<watch::Sender<usize>>);

/// One of [`BackgroundTasks`], until it is dropped.
pub(crate) struct TrackedTask(Arc<watch::Sender<usize>>);

impl BackgroundTasks {
    pub(crate) fn begin(&self) -> TrackedTask {
        self.0.send_modify(|number| *number += 1);
        TrackedTask(Arc::clone(&self.0))
    }

    /// Waits until no task continues in the background.
    pub(crate) async fn done(&self) {
        // The sender is here, so the channel is open.
        let _ = self.0.subscribe().wait_for(|number| *number == 0).await;
    }
}

impl Default for BackgroundTasks {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Drop for TrackedTask {
    fn drop(&mut self) {
        self.0.send_modify(|number| *number -= 1);
    }
}

/// A future that continues in the background if it is dropped after its first poll and before its
/// completion. Its output is dropped then.
///
/// While it is awaited, its caller polls it: a separate task would cost two wake-ups of another
/// thread each time.
pub(crate) struct BackgroundTask<T: 'static> {
    /// `None` after completion.
    future: Option<BoxFuture<'static, T>>,
    /// The runtime in which it continues, because its timers are there. `None` before the first poll, when
    /// nothing has started.
    runtime: Option<Handle>,
    /// `None` if the future does not need to know.
    is_dropped: Option<watch::Sender<bool>>,
    /// Where it counts as long as it continues.
    tasks: BackgroundTasks,
}

impl<T: 'static> BackgroundTask<T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            future: Some(future.boxed()),
            runtime: None,
            is_dropped: None,
            tasks: BackgroundTasks::default(),
        }
    }

    /// Creates a task from a future that knows its caller, and counts it among these tasks while it
    /// continues in the background.
    pub(crate) fn of_caller<F>(tasks: BackgroundTasks, future: impl FnOnce(Caller) -> F) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let (is_dropped, caller) = watch::channel(false);
        let mut task = Self::new(future(Caller(caller)));
        task.is_dropped = Some(is_dropped);
        task.tasks = tasks;
        task
    }
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
            if let Some(is_dropped) = self.is_dropped.take() {
                is_dropped.send_replace(true);
            }
            let tracked = self.tasks.begin();
            runtime.spawn(async move {
                // What the output leaves to other tasks begins before this one is done.
                drop(future.await);
                drop(tracked);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::{Notify, oneshot};

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
