//! Orders the transactions of each partition: one after the other, first come, first served.

use std::collections::HashMap;

use hbase_txn::Partition;
use tokio::sync::oneshot::{self, error::TryRecvError};

/// The last transaction in the queue of each partition.
#[derive(Debug, Default)]
pub(super) struct Turns {
    last: HashMap<Partition, oneshot::Receiver<()>>,
    /// The number of queues at which emptied queues are dropped.
    crowd: usize,
}

/// A place in the queue of a partition. Dropping it gives the turn to the next place.
#[derive(Debug)]
pub(super) struct Turn {
    before: Option<oneshot::Receiver<()>>,
    _over: oneshot::Sender<()>,
}

/// Fewer queues are not worth a cleanup.
const SMALL: usize = 256;

impl Turns {
    /// Takes the last place in the queue of a partition.
    pub(super) fn take(&mut self, partition: &Partition) -> Turn {
        if self.last.len() >= self.crowd.max(SMALL) {
            self.last
                .retain(|_, over| over.try_recv() == Err(TryRecvError::Empty));
            self.crowd = self.last.len() * 2;
        }
        let (over, last) = oneshot::channel();
        Turn {
            before: self.last.insert(partition.clone(), last),
            _over: over,
        }
    }
}

impl Turn {
    /// Waits until all earlier requests are done.
    pub(super) async fn comes(&mut self) {
        if let Some(before) = self.before.take() {
            // The sender is dropped without sending, which ends the wait.
            let _ = before.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, poll};
    use hbase_txn::PartitionRule;

    use super::*;

    fn partition(row: &str) -> Partition {
        let row = bytes::Bytes::copy_from_slice(row.as_bytes());
        PartitionRule::prefix_length(3).unwrap().partition_of(&row)
    }

    #[tokio::test]
    async fn a_later_one_of_a_partition_waits_and_one_of_another_does_not() {
        let mut turns = Turns::default();
        let mut first = turns.take(&partition("xxx1"));
        let mut second = turns.take(&partition("xxx2"));
        let mut other = turns.take(&partition("yyy1"));
        first.comes().await;
        other.comes().await;
        {
            let mut waits = Box::pin(second.comes());
            assert!(poll!(waits.as_mut()).is_pending());
            drop(first);
            assert!(poll!(waits.as_mut()).is_ready());
        }
        let mut third = turns.take(&partition("xxx3"));
        assert!(third.comes().now_or_never().is_none(), "the second still goes");
    }

    #[test]
    fn queues_that_have_emptied_do_not_pile_up() {
        let mut turns = Turns::default();
        let _goes = turns.take(&partition("goes on"));
        for number in 0..100_000 {
            drop(turns.take(&partition(&format!("{number:03x}"))));
        }
        assert!(turns.last.len() <= SMALL, "{}", turns.last.len());
    }
}
