//! A task or thread that waits for a key.

use std::{mem, sync::PoisonError, task::Waker};

use super::sync::{AtomicBool, Mutex, Ordering, Thread, yield_now};

/// The mode in which a key is requested or held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Held by one holder.
    Exclusive,
    /// Held by any number of holders.
    Shared,
}

/// The task or thread to wake.
pub(super) enum Sleeper {
    Task(Waker),
    Thread(Thread),
}

/// An entry in the queue of a key.
pub(super) struct Waiter {
    /// Increases in the order of arrival.
    pub(super) ticket: u64,
    pub(super) mode: Mode,
    admitted: AtomicBool,
    sleeper: Mutex<Option<Sleeper>>,
}

impl Waiter {
    pub(super) fn new(ticket: u64, mode: Mode, sleeper: Sleeper) -> Self {
        Self {
            ticket,
            mode,
            admitted: AtomicBool::new(false),
            sleeper: Mutex::new(Some(sleeper)),
        }
    }

    /// Whether the key was handed to this waiter.
    pub(super) fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::Acquire)
    }

    /// Whether this waker's task will be woken.
    pub(super) fn wakes(&self, waker: &Waker) -> bool {
        let sleeper = self.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(&*sleeper, Some(Sleeper::Task(known)) if known.will_wake(waker))
    }

    /// Replaces the sleeper to wake. The caller then checks whether the key was handed over.
    /// `admit` sets its flag before it takes the sleeper, so either `admit` finds the new sleeper
    /// or the caller finds the flag.
    pub(super) fn wake_instead(&self, sleeper: Sleeper) {
        drop(self.replace(Some(sleeper)));
    }

    /// Notifies the waiter that the key was handed to it. Never call it under a shard's lock: a
    /// waker is foreign code.
    pub(super) fn admit(&self) {
        self.admitted.store(true, Ordering::Release);
        match self.replace(None) {
            Some(Sleeper::Task(waker)) => waker.wake(),
            Some(Sleeper::Thread(thread)) => {
                thread.unpark();
                // Without a yield, this thread could request the key again before the woken thread
                // has a processor. Each thread would then sleep once per section.
                yield_now();
            }
            None => {}
        }
    }

    fn replace(&self, sleeper: Option<Sleeper>) -> Option<Sleeper> {
        mem::replace(
            &mut self.sleeper.lock().unwrap_or_else(PoisonError::into_inner),
            sleeper,
        )
    }
}
