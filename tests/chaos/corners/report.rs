//! The reported result of a call, and its expected effect.

use std::{any::Any, error::Error as _, fmt, iter, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use hbase_txn::{Error, Outcome, Settled, Unsettled, client::RemoteException};
use tokio::time::{Instant, sleep};

use super::seat::Seat;

/// The time in which late requests have arrived and background work is done.
const PATIENCE: Duration = Duration::from_secs(20);

/// A public call.
pub(super) struct Call {
    pub(super) name: &'static str,
    /// Whether the master answers it, instead of region servers.
    pub(super) asks_master: bool,
    pub(super) prepare: Box<dyn Fn(Seat) -> BoxFuture<'static, Prepared> + Send + Sync>,
}

/// A call that is ready to run.
pub(super) struct Prepared {
    pub(super) call: BoxFuture<'static, Reported>,
    /// The time that the call itself waits, in addition to the deadline of its requests.
    pub(super) waits: Duration,
    /// Whether it may fail without a fault.
    pub(super) may_fail: bool,
    pub(super) found: Found,
}

type Count = Box<dyn Fn() -> BoxFuture<'static, u64> + Send + Sync>;

/// The effect that is found after a call.
pub(super) enum Found {
    /// None: the call reads.
    Nothing,
    /// The number of times it was applied, at most one.
    Applied(Count),
    /// The same. If the call is not done, background work undoes or completes it, which leads to
    /// this number.
    Eventually(u64, Count),
}

/// The reported result of a call.
pub(super) enum Reported {
    /// It is done. The returned value is kept until the comparison.
    Done(
        #[expect(dead_code, reason = "a guard is held as long as this is kept")] Option<Box<dyn Any + Send>>,
    ),
    Failed(Error),
    Unsettled(Box<Unsettled>),
    /// It is left to background work.
    Left,
    /// An impossible result.
    Wrong(String),
}

impl Reported {
    /// The report of a call whose value is not checked.
    pub(super) fn of<T: Send + 'static>(result: Result<T, impl Into<Error>>) -> Self {
        match result {
            Ok(value) => Self::Done(Some(Box::new(value))),
            Err(error) => Self::Failed(error.into()),
        }
    }

    /// The report of a call that must return this value.
    pub(super) fn expect<T: PartialEq + fmt::Debug>(
        result: Result<T, impl Into<Error>>,
        expected: &T,
    ) -> Self {
        match result {
            Ok(value) if value == *expected => Self::Done(None),
            Ok(value) => Self::Wrong(format!("{value:?} in place of {expected:?}")),
            Err(error) => Self::Failed(error.into()),
        }
    }

    /// The report of a transaction whose conditions hold.
    pub(super) fn of_commit(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Committed(_) => Self::Done(None),
            Outcome::Unknown(unsettled) => Self::Unsettled(Box::new(unsettled)),
            Outcome::Aborted(error) if !error.is_outcome_unknown() => Self::Failed(error),
            other => Self::Wrong(format!("{other:?}")),
        }
    }

    /// Treats a failure as done, for a change that has the same effect if it is repeated, and need
    /// not be known to be made.
    pub(super) fn or_not(self) -> Self {
        match self {
            Self::Failed(_) => Self::Done(None),
            other => other,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    pub(super) fn is_unknown(&self) -> bool {
        match self {
            Self::Failed(error) => error.is_outcome_unknown(),
            Self::Unsettled(_) => true,
            _ => false,
        }
    }

    /// Returns whether a server answered that the region closed or moved before an action of the call.
    pub(super) fn was_cut_by_a_move(&self) -> bool {
        let error = match self {
            Self::Failed(error) => error,
            Self::Unsettled(unsettled) => unsettled.error(),
            _ => return false,
        };
        let classes = ["NotServingRegionException", "RegionMovedException"];
        // The last attempt may have ended at the deadline.
        iter::successors(error.source(), |&cause| cause.source())
            .filter_map(|cause| cause.downcast_ref::<RemoteException>())
            .any(|remote| classes.contains(&remote.simple_class()))
    }

    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Wrong(_) => "wrong",
            Self::Left => "left to the background",
            _ if self.is_unknown() => "unknown",
            _ => "not applied",
        }
    }
}

impl fmt::Debug for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "{}: {error}", self.word()),
            Self::Unsettled(unsettled) => write!(f, "{}: {}", self.word(), unsettled.error()),
            Self::Wrong(why) => write!(f, "wrong: {why}"),
            Self::Done(_) | Self::Left => f.write_str(self.word()),
        }
    }
}

/// Compares the report with the effect, at once and after all late requests have arrived.
pub(super) async fn compare(reported: Reported, found: Found, seat: &Seat) -> Result<(), String> {
    if let Reported::Wrong(why) = &reported {
        return Err(why.clone());
    }
    let (Found::Applied(count) | Found::Eventually(_, count)) = &found else {
        // A call that changes nothing has no effect to find.
        return if reported.is_unknown() {
            Err(format!("it changes nothing: {reported:?}"))
        } else {
            Ok(())
        };
    };
    if reported.is_done() {
        let now = count().await;
        if now != 1 {
            return Err(format!("done, and applied {now} times"));
        }
    }
    let settled = match &reported {
        Reported::Unsettled(unsettled) if unsettled.id().is_some() => Some(settle(unsettled).await?),
        _ => None,
    };
    let until = Instant::now() + PATIENCE;
    while seat.proxy.under_way() > 0 {
        if Instant::now() > until {
            return Err("a late request is still on its way".to_owned());
        }
        sleep(Duration::from_millis(50)).await;
    }
    let mut at_last = count().await;
    if let (Found::Eventually(expected, _), false) = (&found, reported.is_done()) {
        while at_last != *expected {
            if Instant::now() > until {
                return Err(format!("still {at_last} after {PATIENCE:?}: {reported:?}"));
            }
            sleep(Duration::from_millis(100)).await;
            at_last = count().await;
        }
        return Ok(());
    }
    let right = match (settled, reported.word()) {
        (Some(settled), _) => at_last == u64::from(settled),
        (None, "done") => at_last == 1,
        (None, "unknown") => at_last <= 1,
        (None, _) => at_last == 0,
    };
    if right {
        Ok(())
    } else {
        Err(format!(
            "{reported:?}, settled as applied: {settled:?}, and applied {at_last} times at last"
        ))
    }
}

/// Returns whether it was applied. Without faults this must become known.
async fn settle(unsettled: &Unsettled) -> Result<bool, String> {
    let until = Instant::now() + PATIENCE;
    loop {
        match unsettled.settle().await {
            Ok(settled) => return Ok(matches!(settled, Settled::Committed)),
            Err(error) if Instant::now() > until => return Err(format!("not settled: {error}")),
            Err(_) => {}
        }
    }
}

impl Call {
    pub(super) fn new<F>(name: &'static str, prepare: impl Fn(Seat) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Prepared> + Send + 'static,
    {
        Self {
            name,
            asks_master: false,
            prepare: Box::new(move |seat| prepare(seat).boxed()),
        }
    }

    pub(super) fn of_master(mut self) -> Self {
        self.asks_master = true;
        self
    }
}

impl Prepared {
    /// A call that changes nothing.
    pub(super) fn read(call: impl Future<Output = Reported> + Send + 'static) -> Self {
        Self {
            call: call.boxed(),
            waits: Duration::ZERO,
            may_fail: false,
            found: Found::Nothing,
        }
    }

    /// A call, with a count of its applications.
    pub(super) fn write<F>(
        call: impl Future<Output = Reported> + Send + 'static,
        count: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = u64> + Send + 'static,
    {
        Self {
            found: Found::Applied(Box::new(move || count().boxed())),
            ..Self::read(call)
        }
    }

    /// Sets the count that is expected at last unless the call is done, because of background work.
    pub(super) fn at_last(mut self, number: u64) -> Self {
        if let Found::Applied(count) = self.found {
            self.found = Found::Eventually(number, count);
        }
        self
    }

    pub(super) fn may_be_refused(mut self) -> Self {
        self.may_fail = true;
        self
    }

    pub(super) fn waiting(mut self, waits: Duration) -> Self {
        self.waits = waits;
        self
    }
}
