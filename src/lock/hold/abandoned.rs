//! Background release of the locks of abandoned attempts.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use hbase_client::low_level::{Pauses, TableCalls};
use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{Instant, sleep},
};

use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    lock::protocol::{acquire::LockAttempt, layout::LockRows, row_state::RowState},
};

/// How long an attempt whose answer was lost may still be applied. A server drops a call that has
/// waited for longer than its client's timeout, and the calls of a disconnected client.
const LATEST_ARRIVAL: Duration = Duration::from_secs(120);

/// An attempt to take a lock that may have won it, or may still win it.
pub(crate) trait Abandoned: Clone + Send + Sync + 'static {
    /// Returns the row after which its lock is named.
    fn row(&self) -> &Bytes;

    /// Returns the lease of the lock.
    fn lease(&self) -> Duration;

    /// Returns the runtime of its connection.
    fn runtime(&self) -> &Handle;

    /// Releases the rows that attempts on one lock hold. Returns for each attempt whether it held
    /// all rows, and holds none any more; if not, it may hold some, or still take them.
    fn give_back(attempts: &[Self]) -> impl Future<Output = Result<Vec<bool>>> + Send;
}

/// The abandoned attempts of a process on the locks of one table. Each lock has one watcher.
pub(crate) struct Watchers<A>(Arc<Mutex<HashMap<Bytes, Watched<A>>>>);

/// The attempts of one watcher, in the order of their arrival.
struct Watched<A> {
    attempts: Vec<Late<A>>,
    /// Notified when another attempt arrives.
    more: Arc<Notify>,
}

#[derive(Clone)]
struct Late<A> {
    attempt: A,
    abandoned: Instant,
}

impl<A: Abandoned> Watchers<A> {
    /// Watches an attempt in the background, and releases what it won or wins.
    ///
    /// The watch ends when a check finds that the attempt won the whole lock; when a check succeeds
    /// after the attempt can no longer be applied, however long earlier checks failed; or when the
    /// lease of the latest possible win has expired.
    pub(crate) fn watch(&self, attempt: A) {
        let (key, runtime) = (attempt.row().clone(), attempt.runtime().clone());
        let late = Late {
            attempt,
            abandoned: Instant::now(),
        };
        let mut watched = self.watched();
        if let Some(there) = watched.get_mut(&key) {
            there.attempts.push(late);
            there.more.notify_one();
            return;
        }
        let more = Arc::new(Notify::new());
        let there = Watched {
            attempts: vec![late],
            more: Arc::clone(&more),
        };
        watched.insert(key.clone(), there);
        drop(watched);
        let watcher = Watcher {
            all: Self(Arc::clone(&self.0)),
            key: Some(key),
        };
        runtime.spawn(watcher.run(more));
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<Bytes, Watched<A>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A> Default for Watchers<A> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<A: Abandoned> Late<A> {
    /// Returns whether nothing is left to do, after a check that began at `looked`.
    fn is_over(&self, looked: Instant, whole: Result<bool, &Error>) -> bool {
        let arrival = self.abandoned + LATEST_ARRIVAL;
        match whole {
            Ok(whole) => whole || looked >= arrival,
            // The lock cannot be checked any more, or does not exist.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Client(ClientErrorKind::Closed)
                        | ErrorKind::Client(ClientErrorKind::TableNotFound)
                ) =>
            {
                true
            }
            Err(_) => looked >= arrival + self.attempt.lease(),
        }
    }
}

/// The watcher of the attempts on one lock.
struct Watcher<A: Abandoned> {
    all: Watchers<A>,
    /// `None` if nothing is left to watch.
    key: Option<Bytes>,
}

impl<A: Abandoned> Watcher<A> {
    async fn run(mut self, more: Arc<Notify>) {
        let mut pauses = Pauses::after_lost_answers();
        while let Some(attempts) = self.attempts() {
            let looked = Instant::now();
            let outcome = A::give_back(&attempts).await;
            if let Err(error) = &outcome {
                tracing::debug!(%error, "could not look for a lock that may have been won");
            }
            if self.is_done(looked, &outcome) {
                return;
            }
            tokio::select! {
                // A notification that is left over would cut the next pause short.
                biased;
                () = more.notified() => pauses = Pauses::after_lost_answers(),
                () = sleep(pauses.next_pause()) => {}
            }
        }
    }

    fn attempts(&self) -> Option<Vec<A>> {
        let watched = self.all.watched();
        let there = watched.get(self.key.as_ref()?)?;
        Some(there.attempts.iter().map(|late| late.attempt.clone()).collect())
    }

    /// Removes the attempts that need no further check; the outcome covers the first of them.
    /// Returns whether none is left.
    fn is_done(&mut self, looked: Instant, outcome: &Result<Vec<bool>>) -> bool {
        let mut watched = self.all.watched();
        let Some(there) = self.key.as_ref().and_then(|key| watched.get_mut(key)) else {
            return true;
        };
        let mut index = 0;
        there.attempts.retain(|late| {
            let whole = match outcome {
                // An attempt that arrived meanwhile was not checked.
                Ok(whole) => whole.get(index).copied().map(Ok),
                Err(error) => Some(Err(error)),
            };
            index += 1;
            !whole.is_some_and(|whole| late.is_over(looked, whole))
        });
        let is_done = there.attempts.is_empty();
        if is_done && let Some(key) = self.key.take() {
            watched.remove(&key);
        }
        is_done
    }
}

impl<A: Abandoned> Drop for Watcher<A> {
    /// Stops watching when the runtime of the connection shuts down; the remaining locks are held until
    /// their leases expire.
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.all.watched().remove(&key);
        }
    }
}

impl Abandoned for LockAttempt {
    fn row(&self) -> &Bytes {
        self.location.rows.lock_row()
    }

    fn lease(&self) -> Duration {
        self.held.ttl.into()
    }

    fn runtime(&self) -> &Handle {
        self.location.table.runtime()
    }

    async fn give_back(attempts: &[Self]) -> Result<Vec<bool>> {
        // Attempts on one row of slots may want different slots.
        let mut outcome: Vec<(&LockRows, Vec<RowState>)> = Vec::new();
        let mut whole = Vec::with_capacity(attempts.len());
        for Self { location, held, .. } in attempts {
            let index = match outcome.iter().position(|(rows, _)| **rows == location.rows) {
                Some(index) => index,
                None => {
                    outcome.push((&location.rows, location.read(location.table.deadline()).await?));
                    outcome.len() - 1
                }
            };
            let states = &outcome[index].1;
            let is_released = location
                .give_back_part(held.token, None, states, location.table.deadline())
                .await?;
            let was_held = states.iter().all(|state| state.lease_of(held.token).is_some());
            whole.push(is_released && was_held);
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    const LEASE: Duration = Duration::from_secs(1_000);

    struct Server {
        runtime: Handle,
        answers: AtomicBool,
        outcome: AtomicUsize,
        given_back: AtomicUsize,
    }

    #[derive(Clone)]
    struct Trial {
        server: Arc<Server>,
        won: bool,
    }

    impl Abandoned for Trial {
        fn row(&self) -> &Bytes {
            static ROW: Bytes = Bytes::from_static(b"row");
            &ROW
        }

        fn lease(&self) -> Duration {
            LEASE
        }

        fn runtime(&self) -> &Handle {
            &self.server.runtime
        }

        async fn give_back(trials: &[Self]) -> Result<Vec<bool>> {
            let server = &trials[0].server;
            server.outcome.fetch_add(1, Ordering::Relaxed);
            if !server.answers.load(Ordering::Relaxed) {
                return Err(Error::new(ClientErrorKind::ConnectionLost, "no answer"));
            }
            let won = trials.iter().filter(|trial| trial.won).count();
            server.given_back.fetch_add(won, Ordering::Relaxed);
            Ok(trials.iter().map(|trial| trial.won).collect())
        }
    }

    fn server_of(runtime: &Handle) -> Arc<Server> {
        Arc::new(Server {
            runtime: runtime.clone(),
            answers: AtomicBool::default(),
            outcome: AtomicUsize::default(),
            given_back: AtomicUsize::default(),
        })
    }

    fn abandon(watchers: &Watchers<Trial>, server: &Arc<Server>, won: bool) {
        let server = Arc::clone(server);
        watchers.watch(Trial { server, won });
    }

    #[tokio::test(start_paused = true)]
    async fn attempt_is_watched_until_a_look_after_its_time_succeeds() {
        let (watchers, server) = (Watchers::default(), server_of(&Handle::current()));
        abandon(&watchers, &server, true);
        abandon(&watchers, &server, false);
        sleep(3 * LATEST_ARRIVAL).await;
        assert_eq!(watchers.watched().len(), 1);
        server.answers.store(true, Ordering::Relaxed);
        sleep(Duration::from_secs(3)).await;
        assert_eq!(server.given_back.load(Ordering::Relaxed), 1);
        assert!(watchers.watched().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn attempt_is_forgotten_when_its_lease_is_over_in_any_case() {
        let (watchers, server) = (Watchers::default(), server_of(&Handle::current()));
        abandon(&watchers, &server, true);
        sleep(LATEST_ARRIVAL + LEASE - Duration::from_secs(3)).await;
        assert_eq!(watchers.watched().len(), 1);
        sleep(Duration::from_secs(6)).await;
        assert!(watchers.watched().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_at_one_lock_share_their_looks() {
        let (watchers, server) = (Watchers::default(), server_of(&Handle::current()));
        server.answers.store(true, Ordering::Relaxed);
        for _ in 0..100 {
            abandon(&watchers, &server, false);
        }
        sleep(LATEST_ARRIVAL / 2).await;
        abandon(&watchers, &server, true);
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        assert_eq!(
            server.given_back.load(Ordering::Relaxed),
            1,
            "it was not looked for at once"
        );
        sleep(LATEST_ARRIVAL).await;
        assert!(watchers.watched().is_empty());
        let outcome = server.outcome.load(Ordering::Relaxed);
        assert!((60..=150).contains(&outcome), "{outcome}");
    }

    #[test]
    fn runtime_that_ends_takes_its_watchers_along() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let (watchers, server) = (Watchers::default(), server_of(runtime.handle()));
        // From a thread without a runtime.
        abandon(&watchers, &server, true);
        runtime.block_on(tokio::task::yield_now());
        assert_eq!(watchers.watched().len(), 1);
        drop(runtime);
        assert!(watchers.watched().is_empty());
        abandon(&watchers, &server, true);
        assert!(watchers.watched().is_empty());
    }
}
