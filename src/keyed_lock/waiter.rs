//! Somebody who waits for a key: a task or a thread.

use std::{mem, sync::PoisonError, task::Waker};

use super::sync::{AtomicBool, Mutex, Ordering, Thread, yield_now};

/// How a key is wanted, or held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// By one alone.
    Exclusive,
    /// By any number at once, if all of them share it.
    Shared,
}

/// Who is to be woken.
pub(super) enum Sleeper {
    Task(Waker),
    Thread(Thread),
}

/// A place in the queue of a key.
pub(super) struct Waiter {
    /// Counts up in the order of arrival.
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

    /// Whether the key was handed to it.
    pub(super) fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::Acquire)
    }

    /// Whether it is this task that will be woken.
    pub(super) fn wakes(&self, waker: &Waker) -> bool {
        let sleeper = self.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(&*sleeper, Some(Sleeper::Task(known)) if known.will_wake(waker))
    }

    /// Has somebody else woken from now on. Whoever calls this looks then whether the key was handed over: who admits sets
    /// the mark before it takes the sleeper out, so either it finds the new one, or the new one finds the mark.
    pub(super) fn wake_instead(&self, sleeper: Sleeper) {
        drop(self.replace(Some(sleeper)));
    }

    /// Tells it that the key was handed to it. Never under a shard's lock: a waker is foreign code.
    pub(super) fn admit(&self) {
        self.admitted.store(true, Ordering::Release);
        match self.replace(None) {
            Some(Sleeper::Task(waker)) => waker.wake(),
            Some(Sleeper::Thread(thread)) => {
                thread.unpark();
                // Who went on running would be back for the key before that thread has had a processor, and then
                // everybody sleeps once for each section, one behind the other.
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
