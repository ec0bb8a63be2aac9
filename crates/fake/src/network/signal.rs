//! A value that tasks wait for.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// A value that is shared, and that tasks wait for.
///
/// Waiters wake in the order in which they came. Those of tokio's `watch` wake in random order,
/// which would make runs of one seed differ.
#[derive(Debug)]
pub(super) struct Signal<T> {
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T> Clone for Signal<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T: Copy + PartialEq> Signal<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            shared: Arc::new(Shared {
                value: Mutex::new(value),
                changed: Notify::new(),
            }),
        }
    }

    pub(super) fn get(&self) -> T {
        *self.shared.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, value: T) {
        let mut current = self.shared.value.lock().unwrap_or_else(PoisonError::into_inner);
        if *current != value {
            *current = value;
            self.shared.changed.notify_waiters();
        }
    }

    /// Waits until the value is a wanted one, and returns it.
    pub(super) async fn wait_for(&self, wanted: impl Fn(T) -> bool) -> T {
        loop {
            // Made before the look at the value, so that no change is missed.
            let changed = self.shared.changed.notified();
            let value = self.get();
            if wanted(value) {
                return value;
            }
            changed.await;
        }
    }
}
