//! The assignment of answers to waiters.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasherDefault, Hasher},
};

use super::frame::CONNECTION_CALL_ID;

/// The unanswered calls of one connection, by their ids.
///
/// It uses no sockets or tasks: `W` is the recipient of the outcome. Answers come in any order,
/// also for calls that were given up, so an unknown id is no error.
#[derive(Debug)]
pub(crate) struct CallTable<W> {
    calls: HashMap<u32, Call<W>, BuildHasherDefault<HashOfId>>,
    next: u32,
    capacity: usize,
}

#[derive(Debug)]
struct Call<W> {
    waiter: W,
    sent: bool,
}

/// Hashes an id. Ids are consecutive, and no peer chooses them, so spreading their bits is enough.
#[derive(Debug, Default)]
struct HashOfId(u64);

impl Hasher for HashOfId {
    fn write_u32(&mut self, id: u32) {
        // 2^64 divided by the golden ratio, as in Fibonacci hashing.
        self.0 = u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("an id is one number");
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl<W> CallTable<W> {
    /// Creates a table for at most `capacity` concurrent calls.
    pub(crate) fn new(capacity: usize) -> Self {
        Self::starting_at(0, capacity)
    }

    fn starting_at(next: u32, capacity: usize) -> Self {
        Self {
            calls: HashMap::default(),
            next,
            capacity,
        }
    }

    /// Adds a waiter and gives its call an id. Returns the waiter if the table is full.
    ///
    /// Ids wrap around. Skips ids in use, and the one that means "the connection". A call that was
    /// sent and then given up frees its id at once; it is used again after four thousand million
    /// other calls.
    pub(crate) fn insert(&mut self, waiter: W) -> Result<u32, W> {
        // All ids but one: with more calls the search below would not end.
        if self.calls.len() >= self.capacity.min(CONNECTION_CALL_ID as usize) {
            return Err(waiter);
        }
        loop {
            let id = self.next;
            self.next = self.next.wrapping_add(1);
            if id == CONNECTION_CALL_ID {
                continue;
            }
            if let Entry::Vacant(free) = self.calls.entry(id) {
                free.insert(Call { waiter, sent: false });
                return Ok(id);
            }
        }
    }

    /// Marks a call as sent, before its first byte is written, because the server may see it from
    /// then on. Returns `false` if the call was given up and must not be written.
    #[must_use]
    pub(crate) fn mark_sent(&mut self, id: u32) -> bool {
        match self.calls.get_mut(&id) {
            Some(call) => {
                call.sent = true;
                true
            }
            None => false,
        }
    }

    /// Marks a call as not sent: its request was not written completely and never will be, so the
    /// server cannot have executed it.
    pub(crate) fn mark_unsent(&mut self, id: u32) {
        if let Some(call) = self.calls.get_mut(&id) {
            call.sent = false;
        }
    }

    /// Removes the waiter of an answer. Returns `None` if the call was given up before.
    pub(crate) fn complete(&mut self, id: u32) -> Option<W> {
        self.calls.remove(&id).map(|call| call.waiter)
    }

    /// Gives a call up, and returns whether it was sent. A late answer is skipped.
    pub(crate) fn cancel(&mut self, id: u32) -> Option<(bool, W)> {
        self.calls.remove(&id).map(|call| (call.sent, call.waiter))
    }

    /// Removes all waiters, because the connection is lost, and returns them by call id. A call
    /// that was not sent was not executed. The outcome of the others is unknown.
    pub(crate) fn drain(&mut self) -> Vec<(u32, bool, W)> {
        let calls = std::mem::take(&mut self.calls).into_iter();
        let mut drained: Vec<_> = calls.map(|(id, call)| (id, call.sent, call.waiter)).collect();
        drained.sort_unstable_by_key(|(id, ..)| *id);
        drained
    }

    /// Returns the number of calls that wait for an answer.
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns whether no call waits for an answer.
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn an_answer_finds_its_waiter_once() {
        let mut table = CallTable::new(10);
        let (a, b) = (table.insert("a").unwrap(), table.insert("b").unwrap());
        assert_ne!(a, b);
        assert_eq!(table.complete(b), Some("b"));
        assert_eq!(table.complete(b), None);
        assert_eq!(table.complete(a), Some("a"));
        assert!(table.is_empty());
    }

    #[test]
    fn an_unknown_id_is_nobodys() {
        let mut table = CallTable::new(10);
        table.insert(()).unwrap();
        for id in [1, 77, u32::MAX] {
            assert_eq!(table.complete(id), None);
            assert_eq!(table.cancel(id), None);
            assert!(!table.mark_sent(id));
        }
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn a_call_given_up_is_neither_written_nor_answered() {
        let mut table = CallTable::new(10);
        let id = table.insert("w").unwrap();
        assert_eq!(table.cancel(id), Some((false, "w")));
        assert!(!table.mark_sent(id));
        assert_eq!(table.complete(id), None);

        let id = table.insert("w").unwrap();
        assert!(table.mark_sent(id));
        assert_eq!(table.cancel(id), Some((true, "w")));
    }

    #[test]
    fn a_full_table_hands_the_waiter_back() {
        let mut table = CallTable::new(2);
        let id = table.insert(1).unwrap();
        table.insert(2).unwrap();
        assert_eq!(table.insert(3), Err(3));
        table.complete(id);
        assert!(table.insert(3).is_ok());
        assert_eq!(CallTable::new(0).insert(1), Err(1));
    }

    #[test]
    fn ids_go_round_past_minus_one_and_those_in_use() {
        let mut table = CallTable::starting_at(u32::MAX - 2, 10);
        let ids: Vec<u32> = (0..4).map(|n| table.insert(n).unwrap()).collect();
        assert_eq!(ids, [u32::MAX - 2, u32::MAX - 1, 0, 1]);

        table.complete(0);
        table.next = u32::MAX - 2;
        assert_eq!(table.insert(4), Ok(0));
        assert_eq!(table.insert(5), Ok(2));
    }

    #[test]
    fn a_lost_connection_tells_who_was_sent() {
        let mut table = CallTable::new(10);
        let sent = table.insert("sent").unwrap();
        let waiting = table.insert("waiting").unwrap();
        assert!(table.mark_sent(sent));
        let half_written = table.insert("half written").unwrap();
        assert!(table.mark_sent(half_written));
        table.mark_unsent(half_written);
        assert_eq!(
            table.drain(),
            [
                (sent, true, "sent"),
                (waiting, false, "waiting"),
                (half_written, false, "half written")
            ]
        );
        assert!(table.is_empty());
    }

    #[test]
    fn waiters_of_a_lost_connection_are_in_order_of_call_ids() {
        let mut table = CallTable::new(100);
        for waiter in 0..100 {
            table.insert(waiter).unwrap();
        }
        assert!(table.drain().is_sorted());
    }

    proptest! {
        #[test]
        fn no_id_is_given_twice(start in u32::MAX - 20.., steps in vec(any::<Option<u8>>(), 0..200)) {
            let mut table = CallTable::starting_at(start, 64);
            let mut open = Vec::new();
            for step in steps {
                match step {
                    None => {
                        if let Ok(id) = table.insert(open.len()) {
                            prop_assert!(!open.contains(&id) && id != u32::MAX);
                            open.push(id);
                        }
                    }
                    Some(which) if !open.is_empty() => {
                        let id = open.swap_remove(usize::from(which) % open.len());
                        prop_assert!(table.complete(id).is_some());
                    }
                    Some(_) => {}
                }
                prop_assert_eq!(table.len(), open.len());
            }
        }
    }
}
