//! Double barriers: generations that are entered and left.

use std::time::Duration;

use tokio::time::Instant;

use super::{Arrival, Barrier, BarrierInfo, BarrierOutcome, BarrierPhase, MAX_LATCH_TTL, plan::Step, rest};
use crate::error::Result;

/// A double barrier: a fixed number of parties begin together and end together, in repeated
/// generations. Returned by [`LatchManager::double_barrier`](crate::latch::LatchManager::double_barrier);
/// cheap to clone.
///
/// Each generation is entered and then left:
///
/// - No party passes [`enter`](Self::enter) with [`Opened`](BarrierOutcome::Opened) before all parties
///   have entered.
/// - No party passes [`leave`](Self::leave) with `Opened` before all of them have called it.
/// - No party enters a generation before the one before has ended.
///
/// Entering and leaving each have the time limit of the barrier, from the first call of a party on, by the
/// region server's clock. A generation that is not entered by all in time is
/// [`Broken`](BarrierOutcome::Broken) for all, and leaving it too. If a party dies inside, leaving breaks: the
/// others are notified, and the next generation can be entered. Between the two there is no limit:
/// parties may stay inside as long as they like.
///
/// It does not detect that a party died inside. If all of them did, no call begins the time limit of
/// leaving: call [`leave_in`](Self::leave_in) for one of them. A party that has entered counts, even if its
/// call returned [`TimedOut`](BarrierOutcome::TimedOut); it can't withdraw.
///
/// Every call ends within its timeout and the operation timeout of its table, and may be dropped at
/// any point; it may have its effect nevertheless. `enter_in` and `leave` may be repeated after any
/// error, and so may `enter` until the participant calls `leave`.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use hbase_txn::latch::{BarrierOutcome, LatchManagerOptions};
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_table("D_LTCH_jobs", &["C", "S"], &[]);
/// # let connection = hbase.connect().await?;
/// let latches = LatchManagerOptions::new("billing", "fra")
///     .open(&connection, "D_LTCH_jobs")
///     .await?;
/// let barrier = latches.double_barrier("migration")?;
/// barrier.create(2, Duration::from_secs(600)).await?;
///
/// // In each of the two parties:
/// let party = async |name| {
///     let (entry, outcome) = barrier.enter(name, Duration::from_secs(60)).await?;
///     assert_eq!(outcome, BarrierOutcome::Opened);
///     // Both are here.
///     let outcome = barrier.leave(&entry, Duration::from_secs(60)).await?;
///     assert_eq!(outcome, BarrierOutcome::Opened);
///     // Both have left.
///     Ok::<_, hbase_txn::Error>(())
/// };
/// tokio::try_join!(party("worker-1"), party("worker-2"))?;
/// assert_eq!(barrier.show().await?.unwrap().generation, 2);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    barrier: Barrier,
}

/// A participant and the generation of a double barrier that it enters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// In the phase of entering.
    arrival: Arrival,
    participant: String,
}

impl Entry {
    /// Returns the number of the generation, from 1.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.arrival.generation.div_ceil(2)
    }

    /// Returns the name of the participant.
    #[must_use]
    pub fn participant(&self) -> &str {
        &self.participant
    }
}

impl DoubleBarrier {
    pub(in crate::latch) fn new(barrier: Barrier) -> Self {
        Self { barrier }
    }

    /// Returns its key: client and id, with a `_` between them.
    #[must_use]
    pub fn key(&self) -> &str {
        self.barrier.key()
    }

    /// Creates the double barrier for a number of parties, with a time limit for entering and for leaving a
    /// generation, each from its first call on. It exists until it is deleted.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Barrier::create`].
    pub async fn create(&self, parties: u32, time: Duration) -> Result<()> {
        self.barrier.create_as(parties, time, true).await
    }

    /// Enters the next generation, and waits until all parties have entered it, or until the timeout.
    ///
    /// While parties leave the generation before, it waits until that has ended; if the timeout is over
    /// first, it returns [`NotEntered`](BarrierOutcome::NotEntered), with the generation that it would have
    /// entered. After [`TimedOut`](BarrierOutcome::TimedOut) the participant has entered: wait again with
    /// [`enter_in`](Self::enter_in).
    ///
    /// A participant counts once in a generation. Until it calls [`leave`](Self::leave), the call may be
    /// repeated, also by another process: it returns the same generation, unless that has broken
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// - [`LatchAbsent`](crate::ErrorKind::LatchAbsent) if the barrier does not exist, or was deleted;
    /// - [`DefinitionMismatch`](crate::ErrorKind::DefinitionMismatch) if it is a [`Barrier`];
    /// - the other errors of [`Barrier::arrive`] and [`Barrier::wait`]; the ends of 32 generations are
    ///   known.
    pub async fn enter(&self, participant: &str, timeout: Duration) -> Result<(Entry, BarrierOutcome)> {
        self.enter_at(participant, None, timeout).await
    }

    /// Enters the generation of this number and no other one, and waits as [`enter`](Self::enter) does. The
    /// call may be repeated after any error or timeout. If the generation has been entered or has
    /// broken, nothing is changed, and the call returns which, whether or not this participant had entered
    /// it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`enter`](Self::enter), and
    /// [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the generation cannot have begun, or
    /// if the participant has not left the one before.
    pub async fn enter_in(
        &self,
        participant: &str,
        generation: u64,
        timeout: Duration,
    ) -> Result<(Entry, BarrierOutcome)> {
        self.barrier.check_generation(generation)?;
        self.enter_at(participant, Some(generation), timeout).await
    }

    async fn enter_at(
        &self,
        participant: &str,
        generation: Option<u64>,
        timeout: Duration,
    ) -> Result<(Entry, BarrierOutcome)> {
        let until = Instant::now() + timeout.min(MAX_LATCH_TTL);
        let entry = |arrival| Entry {
            arrival,
            participant: participant.to_owned(),
        };
        loop {
            let step = Step::Enter(generation);
            let mut arrival = self.barrier.arrive_at(participant, step).await?;
            let outcome = self.barrier.wait(&arrival, rest(until)).await?;
            if arrival.phase() == BarrierPhase::Entering {
                return Ok((entry(arrival), outcome));
            }
            // The generation before is left.
            if outcome == BarrierOutcome::TimedOut || Instant::now() >= until {
                arrival.generation = arrival.generation.saturating_add(1);
                return Ok((entry(arrival), BarrierOutcome::NotEntered));
            }
        }
    }

    /// Leaves the generation of an entry, and waits until all parties have left it, or until the timeout.
    ///
    /// The call may be repeated after any error or timeout: a participant leaves once. If the generation
    /// has ended, nothing is changed, and the call returns how. It is
    /// [`Broken`](BarrierOutcome::Broken) if not all parties had entered in time, or left in time.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if not all parties have entered yet, or
    ///   this participant had not entered. Nothing is changed;
    /// - [`LatchAbsent`](crate::ErrorKind::LatchAbsent) if the barrier of the entry does not exist any more;
    /// - the other errors of [`enter`](Self::enter).
    pub async fn leave(&self, entry: &Entry, timeout: Duration) -> Result<BarrierOutcome> {
        let step = Step::Leave {
            generation: entry.generation(),
            barrier: Some(entry.arrival.barrier),
        };
        self.leave_at(&entry.participant, step, timeout).await
    }

    /// Leaves the generation of this number as [`leave`](Self::leave) does, for a participant that another
    /// process entered. The number is that of the barrier that exists now.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`leave`](Self::leave).
    pub async fn leave_in(
        &self,
        participant: &str,
        generation: u64,
        timeout: Duration,
    ) -> Result<BarrierOutcome> {
        self.barrier.check_generation(generation)?;
        let barrier = None;
        self.leave_at(participant, Step::Leave { generation, barrier }, timeout)
            .await
    }

    async fn leave_at(&self, participant: &str, step: Step, timeout: Duration) -> Result<BarrierOutcome> {
        let until = Instant::now() + timeout.min(MAX_LATCH_TTL);
        let arrival = self.barrier.arrive_at(participant, step).await?;
        self.barrier.wait(&arrival, rest(until)).await
    }

    /// Reads the double barrier. Returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Barrier::show`].
    pub async fn show(&self) -> Result<Option<BarrierInfo>> {
        self.barrier.show().await
    }

    /// Deletes the double barrier, and returns whether it existed. Its waiters are notified that it is
    /// absent.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Barrier::delete`].
    pub async fn delete(&self) -> Result<bool> {
        self.barrier.delete().await
    }
}
