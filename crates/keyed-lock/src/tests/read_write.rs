//! Shared and exclusive holders.

use super::*;

#[test]
fn readers_share_and_a_writer_is_alone() {
    let locks = IdReadWriteLock::new();
    let readers: Vec<_> = (0..3).map(|_| locks.try_read(7).unwrap()).collect();
    assert!(locks.try_write(7).is_none() && locks.is_locked(7));
    let other = locks.try_write(8).unwrap();
    assert!(locks.try_read(8).is_none() && locks.try_write(8).is_none());
    assert_eq!(locks.len(), 2);
    drop(other);
    for reader in readers {
        assert!(locks.try_write(7).is_none());
        drop(reader);
    }
    drop(locks.try_write(7).unwrap());
    assert!(locks.is_empty());
}

#[test]
fn a_writer_who_waits_stops_the_readers_behind_it() {
    let locks = IdReadWriteLock::new();
    let reader = locks.try_read(7).unwrap();
    let mut writer = locks.write(7);
    let (mut late, mut later) = (locks.read(7), locks.read(7));
    assert!(poll(&mut writer).is_none());
    assert!(locks.try_read(7).is_none());
    assert!(poll(&mut late).is_none() && poll(&mut later).is_none());
    assert_eq!(locks.waiters(7), 3);
    drop(reader);
    let writing = poll(&mut writer).unwrap();
    assert!(poll(&mut late).is_none());
    drop(writing);
    let reading = (poll(&mut late).unwrap(), poll(&mut later).unwrap());
    assert_eq!(locks.waiters(7), 0);
    drop(reading);
    assert!(locks.is_empty());
}

#[test]
fn a_writer_that_gives_up_lets_the_readers_behind_it_join() {
    let locks = IdReadWriteLock::new();
    let reader = locks.try_read(7).unwrap();
    let mut writer = locks.write(7);
    let (mut late, mut last) = (locks.read(7), locks.write(7));
    assert!(poll(&mut writer).is_none() && poll(&mut late).is_none() && poll(&mut last).is_none());
    drop(writer);
    let joined = poll(&mut late).expect("nobody let the reader in");
    assert!(poll(&mut last).is_none());
    drop((reader, joined));
    drop(poll(&mut last).unwrap());
    assert!(locks.is_empty());
}

#[test]
fn dropped_waiter_passes_the_turn_on() {
    let locks = IdReadWriteLock::new();
    for dropped_writes in [false, true] {
        let first = locks.try_write(7).unwrap();
        let mut dropped = if dropped_writes {
            locks.write(7)
        } else {
            locks.read(7)
        };
        let mut writer = locks.write(7);
        assert!(poll(&mut dropped).is_none() && poll(&mut writer).is_none());
        drop(first);
        assert!(poll(&mut writer).is_none());
        drop(dropped);
        drop(poll(&mut writer).unwrap());
        assert!(locks.is_empty());
    }
}

#[test]
fn a_reader_behind_a_writer_ends_at_its_deadline() {
    let locks = IdReadWriteLock::new();
    let reader = locks.try_read(7).unwrap();
    let mut writer = locks.write(7);
    assert!(poll(&mut writer).is_none());
    assert!(locks.read(7).blocking_until(soon()).is_err());
    assert_eq!(locks.waiters(7), 1);
    drop((reader, writer));
    assert!(locks.is_empty());
}

#[test]
fn any_order_of_coming_and_going_keeps_the_rules() {
    let locks: KeyedRwLock<&str> = KeyedRwLock::new();
    let mut random = fastrand::Rng::new();
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    for _ in 0..50_000 {
        match random.u8(..4) {
            0 if held.len() + waiting.len() < 12 => {
                let writes = random.bool();
                let acquire = if writes {
                    locks.write("key")
                } else {
                    locks.read("key")
                };
                waiting.push((writes, acquire));
            }
            1 if !held.is_empty() => drop(held.swap_remove(random.usize(..held.len()))),
            2 if !waiting.is_empty() => drop(waiting.remove(random.usize(..waiting.len()))),
            _ => waiting.retain_mut(|(writes, acquire)| match poll(acquire) {
                Some(guard) => {
                    held.push((*writes, guard));
                    false
                }
                None => true,
            }),
        }
        let writers = held.iter().filter(|(writes, _)| *writes).count();
        assert!(
            writers == 0 || held.len() == 1,
            "{writers} of {} write",
            held.len()
        );
        assert!(held.is_empty() || locks.is_locked("key"));
    }
    waiting.clear();
    held.clear();
    assert!(locks.is_empty());
}
