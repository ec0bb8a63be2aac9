//! Several keys at once.

use std::{
    collections::BTreeSet,
    fmt,
    future::Future,
    hash::Hash,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use super::{
    acquire::{Acquire, KeyedGuard},
    shards::Shards,
    sync::{Arc, Instant},
    waiter::Mode,
};

/// A guard of several held keys. Dropping it releases them all. Bind it to a name, such as
/// `_guards`: `let _ = …` drops it at once.
#[must_use = "the keys are released as soon as the guards are dropped"]
pub struct KeyedGuards<'a, K: Eq> {
    guards: Vec<KeyedGuard<'a, K>>,
}

/// A future that acquires several keys: await it, or call one of its methods. Before that it
/// neither locks nor queues.
///
/// # Cancel safety
///
/// A dropped future releases the keys that it holds and leaves the queue.
#[must_use = "nothing is locked until this is awaited, or one of its methods is called"]
pub struct AcquireAll<'a, K: Eq> {
    /// In descending order: the next key to acquire is the last.
    missing: Vec<Acquire<'a, K>>,
    held: Vec<KeyedGuard<'a, K>>,
}

impl<'a, K: Ord + Hash + Clone + 'static> AcquireAll<'a, K> {
    pub(super) fn new(shards: &'a Arc<Shards<K>>, keys: impl IntoIterator<Item = K>) -> Self {
        let keys: BTreeSet<K> = keys.into_iter().collect();
        let acquire = |key| Acquire::new(shards, shards.name(key), Mode::Exclusive);
        let missing: Vec<_> = keys.into_iter().rev().map(acquire).collect();
        Self {
            held: Vec::with_capacity(missing.len()),
            missing,
        }
    }
}

impl<'a, K: Eq + Clone> AcquireAll<'a, K> {
    /// Blocks this thread until all keys are acquired. Do not call it in a task; see
    /// [`Acquire::blocking`].
    pub fn blocking(mut self) -> KeyedGuards<'a, K> {
        let missing = mem::take(&mut self.missing).into_iter().rev();
        self.held.extend(missing.map(Acquire::blocking));
        KeyedGuards { guards: self.held }
    }

    /// Blocks this thread until all keys are acquired. Returns `None` if the deadline passes first.
    pub(super) fn block(self, deadline: Instant) -> Option<KeyedGuards<'a, K>> {
        self.each(|acquire| acquire.block(deadline))
    }

    /// Acquires all keys if all are free. Never waits.
    pub(super) fn now(self) -> Option<KeyedGuards<'a, K>> {
        self.each(Acquire::now)
    }

    fn each(
        mut self,
        take: impl Fn(Acquire<'a, K>) -> Option<KeyedGuard<'a, K>>,
    ) -> Option<KeyedGuards<'a, K>> {
        while let Some(next) = self.missing.pop() {
            self.held.push(take(next)?);
        }
        Some(KeyedGuards { guards: self.held })
    }
}

impl<'a, K: Eq + Clone> Future for AcquireAll<'a, K> {
    type Output = KeyedGuards<'a, K>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some(next) = self.missing.last_mut() {
            let guard = ready!(Pin::new(next).poll(context));
            self.held.push(guard);
            self.missing.pop();
        }
        Poll::Ready(KeyedGuards {
            guards: mem::take(&mut self.held),
        })
    }
}

/// No field is structurally pinned.
impl<K: Eq> Unpin for AcquireAll<'_, K> {}

impl<K: Eq> KeyedGuards<'_, K> {
    /// Returns the number of held keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.guards.len()
    }

    /// Returns whether no key is held, because none was requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// Converts the guards into ones that keep the map alive and borrow nothing, like
    /// [`KeyedGuard::into_owned`].
    pub fn into_owned(self) -> KeyedGuards<'static, K> {
        let guards = self.guards.into_iter().map(KeyedGuard::into_owned);
        KeyedGuards {
            guards: guards.collect(),
        }
    }
}

impl<K: Eq> fmt::Debug for KeyedGuards<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedGuards")
            .field("keys", &self.len())
            .finish_non_exhaustive()
    }
}

impl<K: Eq> fmt::Debug for AcquireAll<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireAll")
            .field("held", &self.held.len())
            .field("missing", &self.missing.len())
            .finish()
    }
}
