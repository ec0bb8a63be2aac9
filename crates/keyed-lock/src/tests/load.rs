//! Many callers on few ids, like HBase's own test of `IdLock`: an id has one holder at a time, and
//! no key is left at the end. `HBASE_TXN_TEST_LONG` makes it run as long as HBase's test.

use std::{env, sync::atomic::AtomicU64};

use super::*;

const IDS: u64 = 16;
const OWNERS: u64 = 128;

fn length() -> Duration {
    match env::var_os("HBASE_TXN_TEST_LONG") {
        Some(_) => Duration::from_secs(15),
        None => Duration::from_millis(1_500),
    }
}

/// The owner inside each section; 0 for none.
#[derive(Default)]
struct Sections([AtomicU64; IDS as usize]);

impl Sections {
    fn enter(&self, id: u64, owner: u64) {
        let before = self.0[id as usize].swap(owner, Ordering::Relaxed);
        assert_eq!(before, 0, "id {id} has two holders");
    }

    fn leave(&self, id: u64, owner: u64) {
        let before = self.0[id as usize].swap(0, Ordering::Relaxed);
        assert_eq!(before, owner, "id {id} had another holder meanwhile");
    }
}

#[expect(clippy::disallowed_methods, reason = "a section that takes time")]
fn stay() {
    thread::sleep(Duration::from_millis(fastrand::u64(1..=4)));
}

#[test]
fn threads_exclude_each_other_as_in_hbases_own_test() {
    let (locks, sections) = (IdLock::new(), Sections::default());
    let (end, done) = (Instant::now() + length(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for owner in 1..=OWNERS {
            let (locks, sections, done) = (&locks, &sections, &done);
            scope.spawn(move || {
                while Instant::now() < end {
                    let id = fastrand::u64(..IDS);
                    let _guard = locks.lock(id).blocking();
                    sections.enter(id, owner);
                    stay();
                    sections.leave(id, owner);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    println!("{} sections", done.load(Ordering::Relaxed));
    assert!(done.into_inner() as u64 > OWNERS);
    assert!(locks.is_empty());
}

#[test]
fn tasks_and_threads_exclude_each_other_on_one_map() {
    let locks = IdLock::new();
    let (sections, done) = (Arc::new(Sections::default()), Arc::new(AtomicUsize::new(0)));
    let (end, half) = (Instant::now() + length(), OWNERS / 2);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let tasks: Vec<_> = (1..=half)
        .map(|owner| {
            let (locks, sections, done) = (locks.clone(), Arc::clone(&sections), Arc::clone(&done));
            runtime.spawn(async move {
                while Instant::now() < end {
                    let id = fastrand::u64(..IDS);
                    // Half of the tasks give up now and then.
                    let patience = Duration::from_millis(if owner % 2 == 0 { 5 } else { 60_000 });
                    let Ok(_guard) = locks.lock(id).until(Instant::now() + patience).await else {
                        continue;
                    };
                    sections.enter(id, owner);
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(0..=2))).await;
                    sections.leave(id, owner);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    thread::scope(|scope| {
        for owner in half + 1..=OWNERS {
            let (locks, sections, done) = (&locks, &sections, &done);
            scope.spawn(move || {
                while Instant::now() < end {
                    let id = fastrand::u64(..IDS);
                    let patience = Duration::from_micros(if owner % 2 == 0 { 5_000 } else { 60_000_000 });
                    let Ok(_guard) = locks.lock(id).blocking_until(Instant::now() + patience) else {
                        continue;
                    };
                    sections.enter(id, owner);
                    sections.leave(id, owner);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    assert!(done.load(Ordering::Relaxed) as u64 > OWNERS);
    assert!(locks.is_empty());
}

#[test]
fn writes_of_a_holder_are_seen_by_the_next() {
    const ROUNDS: u64 = 100_000;
    let (locks, counts) = (IdLock::new(), [const { AtomicU64::new(0) }; 4]);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (locks, counts) = (&locks, &counts);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let id = (thread + round) % 4;
                    let _guard = locks.lock(id).blocking();
                    let count = &counts[id as usize];
                    // Not one atomic operation: only the lock makes it atomic.
                    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(counts.map(AtomicU64::into_inner), [ROUNDS; 4]);
    assert!(locks.is_empty());
}

#[test]
fn readers_and_writers_exclude_each_other() {
    let locks = IdReadWriteLock::new();
    // Each reader adds 1; a writer adds a number larger than all readers together.
    const WRITER: u64 = 1 << 32;
    let inside = [const { AtomicU64::new(0) }; IDS as usize];
    let (end, together) = (Instant::now() + length(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..OWNERS {
            let (locks, inside, together) = (&locks, &inside, &together);
            scope.spawn(move || {
                while Instant::now() < end {
                    let id = fastrand::u64(..IDS);
                    let section = &inside[id as usize];
                    if fastrand::u8(..4) == 0 {
                        let _guard = locks.write(id).blocking();
                        assert_eq!(section.fetch_add(WRITER, Ordering::Relaxed), 0);
                        stay();
                        assert_eq!(section.fetch_sub(WRITER, Ordering::Relaxed), WRITER);
                    } else {
                        let _guard = locks.read(id).blocking();
                        let others = section.fetch_add(1, Ordering::Relaxed);
                        assert!(others < WRITER);
                        together.fetch_add(usize::from(others > 0), Ordering::Relaxed);
                        stay();
                        assert!(section.fetch_sub(1, Ordering::Relaxed) < WRITER);
                    }
                }
            });
        }
    });
    assert!(together.into_inner() > 0, "readers never shared");
    assert!(locks.is_empty());
}
