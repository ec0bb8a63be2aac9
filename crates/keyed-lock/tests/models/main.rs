//! Every order of events in the keyed lock. Its core is compiled here a second time, on loom's
//! types: the files are those of the library, except `sync`.
//!
//! A model fails if an order of events violates an assertion, or leaves a thread asleep without
//! limit.

#![allow(
    dead_code,
    missing_docs,
    missing_debug_implementations,
    unnameable_types,
    unreachable_pub,
    clippy::absurd_extreme_comparisons,
    clippy::modulo_one,
    reason = "a part of the library, of which the models use a part"
)]

#[path = "../../src/acquire.rs"]
mod acquire;
#[path = "../../src/name.rs"]
mod name;
#[path = "../../src/shard.rs"]
mod shard;
#[path = "../../src/shards.rs"]
mod shards;
mod sync;
#[path = "../../src/waiter.rs"]
mod waiter;

use std::{
    future::Future,
    hash::Hash,
    pin::Pin,
    task::{Context, Poll, Wake, Waker},
};

use loom::{
    model::Builder,
    thread::{self, Thread},
};

use self::{
    acquire::{Acquire, KeyedGuard},
    shards::Shards,
    sync::{Arc, AtomicU64, Instant, Ordering},
    waiter::Mode,
};

/// A map, and the state of a section under the lock of one of its keys.
struct Model<K> {
    shards: Arc<Shards<K>>,
    /// The callers inside: 1 for each reader, more than all readers together for a writer.
    inside: AtomicU64,
    /// Incremented in two steps, which only the lock makes atomic.
    written: AtomicU64,
}

const WRITER: u64 = 1 << 32;

impl<K: Eq + Hash + Clone + Send + 'static> Model<K> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            shards: Arc::new(Shards::default()),
            inside: AtomicU64::new(0),
            written: AtomicU64::new(0),
        })
    }

    fn lock(&self, key: K) -> Acquire<'_, K> {
        Acquire::new(&self.shards, self.shards.name(key), Mode::Exclusive)
    }

    fn read(&self, key: K) -> Acquire<'_, K> {
        Acquire::new(&self.shards, self.shards.name(key), Mode::Shared)
    }

    /// Enters the section, checks that it is alone, and leaves.
    fn write(&self, guard: KeyedGuard<'_, K>) {
        assert_eq!(self.inside.fetch_add(WRITER, Ordering::Relaxed), 0);
        self.written
            .store(self.written.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        assert_eq!(self.inside.fetch_sub(WRITER, Ordering::Relaxed), WRITER);
        drop(guard);
    }

    /// Enters the section, checks that no writer is inside, and leaves.
    fn look(&self, guard: KeyedGuard<'_, K>) {
        assert!(self.inside.fetch_add(1, Ordering::Relaxed) < WRITER);
        assert!(self.inside.fetch_sub(1, Ordering::Relaxed) < WRITER);
        drop(guard);
    }

    /// Checks that no key is left, and that the key can be acquired.
    fn end(&self, key: K, written: u64) {
        assert_eq!(self.shards.len(), 0);
        assert!(self.lock(key.clone()).now().is_some(), "the key is dead");
        assert!(!self.shards.is_held(key));
        assert_eq!(self.written.load(Ordering::Relaxed), written);
    }
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    // More forced preemptions than such bugs are known to need.
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Wakes a thread of the model.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

/// A waker of this thread that differs from all others.
fn waker() -> Waker {
    Waker::from(std::sync::Arc::new(Unpark(thread::current())))
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(waker)) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Runs a future that is polled with a different waker each time.
fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    loop {
        match poll(&mut future, &waker()) {
            Some(output) => return output,
            None => thread::park(),
        }
    }
}

#[test]
fn two_threads_and_a_task_exclude_each_other() {
    check(|| {
        let model = Model::new();
        let [other, task] = [Arc::clone(&model), Arc::clone(&model)];
        let other = thread::spawn(move || other.write(other.lock(7_u64).blocking()));
        let task = thread::spawn(move || task.write(block_on(task.lock(7))));
        model.write(model.lock(7).blocking());
        other.join().unwrap();
        task.join().unwrap();
        model.end(7, 3);
    });
}

#[test]
fn other_ids_come_and_go_while_one_is_held_alone() {
    check(|| {
        let model = Model::new();
        let [other, same] = [Arc::clone(&model), Arc::clone(&model)];
        let other = thread::spawn(move || drop(other.lock(8_u64).blocking()));
        let same = thread::spawn(move || same.write(same.lock(7).blocking()));
        model.write(model.lock(7).blocking());
        other.join().unwrap();
        same.join().unwrap();
        model.end(7, 2);
    });
}

#[test]
fn keys_that_are_not_ids_exclude_each_other() {
    check(|| {
        let model = Model::new();
        let other = Arc::clone(&model);
        let other = thread::spawn(move || {
            other.write(other.lock("key").blocking());
            drop(other.lock("another").blocking());
        });
        model.write(block_on(model.lock("key")));
        other.join().unwrap();
        model.end("key", 2);
    });
}

#[test]
fn the_only_waiter_is_dropped_while_it_is_handed_the_key() {
    check(|| {
        let model = Model::new();
        let guard = model.lock(7_u64).now().unwrap();
        let other = Arc::clone(&model);
        let other = thread::spawn(move || {
            let mut acquire = other.lock(7);
            let got = poll(&mut acquire, &waker()).or_else(|| poll(&mut acquire, &waker()));
            let written = got.is_some();
            if let Some(guard) = got {
                other.write(guard);
            }
            u64::from(written)
        });
        model.write(guard);
        let written = other.join().unwrap();
        model.end(7, 1 + written);
    });
}

#[test]
fn waiter_after_a_dropped_one_gets_the_key() {
    check(|| {
        let model = Model::new();
        let guard = model.lock(7_u64).now().unwrap();
        let [dropped, behind] = [Arc::clone(&model), Arc::clone(&model)];
        let dropped = thread::spawn(move || {
            let got = poll(&mut dropped.lock(7), &waker());
            drop(got);
        });
        let behind = thread::spawn(move || behind.write(behind.lock(7).blocking()));
        model.write(guard);
        dropped.join().unwrap();
        behind.join().unwrap();
        model.end(7, 2);
    });
}

#[test]
fn a_deadline_passes_while_the_key_is_handed_over() {
    check(|| {
        let model = Model::new();
        let guard = model.lock(7_u64).now().unwrap();
        let [hurried, patient] = [Arc::clone(&model), Arc::clone(&model)];
        let hurried = thread::spawn(move || match hurried.lock(7).block(Instant(2)) {
            Some(guard) => {
                hurried.write(guard);
                1
            }
            None => 0,
        });
        let patient = thread::spawn(move || patient.write(patient.lock(7).blocking()));
        model.write(guard);
        let written = hurried.join().unwrap();
        patient.join().unwrap();
        model.end(7, 2 + written);
    });
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    check(|| {
        let model = Model::new();
        let [reader, writer] = [Arc::clone(&model), Arc::clone(&model)];
        let reader = thread::spawn(move || reader.look(reader.read(7_u64).blocking()));
        let writer = thread::spawn(move || writer.write(writer.lock(7).blocking()));
        model.look(model.read(7).blocking());
        reader.join().unwrap();
        writer.join().unwrap();
        model.end(7, 1);
    });
}

#[test]
fn readers_get_on_when_the_writer_before_them_is_dropped() {
    check(|| {
        let model = Model::new();
        let guard = model.read(7_u64).now().unwrap();
        let [reader, writer] = [Arc::clone(&model), Arc::clone(&model)];
        let reader = thread::spawn(move || reader.look(block_on(reader.read(7))));
        let writer = thread::spawn(move || {
            let got = poll(&mut writer.lock(7), &waker());
            drop(got);
        });
        // Returns only after the reader was admitted.
        reader.join().unwrap();
        model.look(guard);
        writer.join().unwrap();
        model.end(7, 0);
    });
}
