//! Hashes of keys.

use crate::{
    name::{Name, Namer},
    shard::Shard,
    sync::SHARDS,
    waiter::Mode,
};

/// The number of ids in the fullest of the piles, for a thousand ids with this shift.
fn greatest_pile(namer: &Namer, shift: u32, place: impl Fn(u64) -> u64) -> usize {
    let mut piles = [0; SHARDS];
    for id in 0..1_000_u64 {
        piles[place(namer.name(id << shift).hash) as usize % SHARDS] += 1;
    }
    piles.into_iter().max().unwrap()
}

#[test]
fn ids_that_are_alike_are_spread() {
    // With a random distribution, the fullest of 64 piles has about thirty of a thousand ids.
    for _ in 0..1_000 {
        let namer = Namer::default();
        for shift in [0, 8, 16, 32, 48, 54] {
            let shard = greatest_pile(&namer, shift, |hash| hash >> 40);
            let bucket = greatest_pile(&namer, shift, |hash| hash);
            assert!(shard.max(bucket) < 100, "ids << {shift}: {shard}, {bucket}");
        }
    }
}

#[test]
fn no_two_ids_have_one_hash() {
    let namer = Namer::default();
    for shift in 0..54 {
        let mut hashes: Vec<u64> = (0..1_000_u64).map(|id| namer.name(id << shift).hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 1_000);
    }
}

#[test]
fn the_same_key_has_another_name_in_another_map() {
    let (one, other) = (Namer::default(), Namer::default());
    assert_ne!(one.name(7_u64).hash, other.name(7_u64).hash);
    assert_ne!(one.name("seven").hash, other.name("seven").hash);
    assert!(one.name(7_u64) == one.name(7_u64) && one.name("seven") == one.name("seven"));
    assert!(one.name(7_u64).key.is_none() && one.name("seven").key == Some("seven"));
}

#[test]
fn id_with_the_hash_of_a_shard_mark_is_locked_like_others() {
    for mark in [0, 1] {
        let shard = Shard::default();
        let [marked, other] = [mark, 99].map(|hash| Name::<u64> { hash, key: None });
        let take = |name| shard.try_take(name, Mode::Exclusive);
        assert!(take(&marked) && take(&other) && !take(&marked));
        shard.release(&marked);
        assert!(shard.is_held(&other) && !take(&other), "{mark}");
        assert!(
            take(&marked) && shard.is_held(&marked) && !take(&marked),
            "{mark}"
        );
        shard.release(&other);
        shard.release(&marked);
        assert_eq!(shard.len(), 0);
    }
}
