//! What was begun comes to its end, whoever still waits for it.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{FutureExt, future::BoxFuture};
use tokio::runtime::Handle;

/// A future that goes on in the background when it is dropped between its first poll and its end; what it comes to is dropped
/// there.
///
/// As long as somebody waits for it, it is polled where it is awaited: a task of its own would cost two wake-ups of
/// another thread each time.
pub(crate) struct Lasting<T: 'static> {
    /// None at its end.
    future: Option<BoxFuture<'static, T>>,
    /// Where it goes on; none before the first poll, when nothing was begun.
    runtime: Option<Handle>,
}

impl<T: 'static> Lasting<T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            future: Some(future.boxed()),
            runtime: None,
        }
    }
}

impl<T: 'static> Future for Lasting<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if self.runtime.is_none() {
            self.runtime = Handle::try_current().ok();
        }
        // Not put back by a panic: that is an end too.
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

impl<T: 'static> Drop for Lasting<T> {
    fn drop(&mut self) {
        if let (Some(future), Some(runtime)) = (self.future.take(), self.runtime.take()) {
            runtime.spawn(future.map(drop));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::{Notify, oneshot};

    use super::*;

    #[tokio::test]
    async fn what_is_dropped_before_its_end_goes_on_and_what_was_not_begun_does_not() {
        let gate = Arc::new(Notify::new());
        let lasting = |ended: oneshot::Sender<()>| {
            let gate = Arc::clone(&gate);
            Lasting::new(async move {
                gate.notified().await;
                ended.send(())
            })
        };
        let (ended, end) = oneshot::channel();
        let mut begun = lasting(ended);
        assert!((&mut begun).now_or_never().is_none());
        drop(begun);
        gate.notify_one();
        end.await.unwrap();

        let (ended, end) = oneshot::channel();
        drop(lasting(ended));
        end.await.unwrap_err();

        let (ended, end) = oneshot::channel();
        gate.notify_one();
        lasting(ended).await.unwrap();
        end.await.unwrap();
    }

    #[tokio::test]
    async fn one_that_panicked_does_not_go_on() {
        let lasting = Lasting::new(async {
            tokio::task::yield_now().await;
            panic!("as it should");
        });
        let task = tokio::spawn(async move {
            let () = lasting.await;
        });
        assert!(task.await.unwrap_err().is_panic());
    }
}
