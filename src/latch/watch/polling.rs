//! The task that polls all awaited names.
//!
//! A name whose server does not answer does not delay the others, which are polled meanwhile.

use std::{sync::Arc, time::Duration};

use futures::{
    StreamExt,
    stream::{BoxStream, SelectAll},
};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep_until},
};

use super::{PollEnd, Progress, Shared};
use crate::error::{Error, Result};

/// The minimum pause per polled name.
const EACH: Duration = Duration::from_micros(50);
/// The deadline of a poll, after which its waiters are notified of the failure.
pub(super) const POLL_TIMEOUT: Duration = Duration::from_secs(10);

/// Names that are polled together.
pub(super) struct PollBatch<K> {
    pub(super) number: u64,
    pub(super) names: Vec<(Arc<K>, Extent)>,
}

/// The cells that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Sufficient for a latch that was read live, and is still live. Half the work for the server.
    Counts,
    All,
}

pub(crate) type Key<S> = <<S as Source>::Progress as Progress>::Key;
pub(crate) type Seen<S> = <<S as Source>::Progress as Progress>::Seen;

/// The source of reads: the latches of a table or of a gateway, or the barriers of a table.
pub(crate) trait Source: Clone + Send + Sync + 'static {
    type Progress: Progress;

    /// Returns the runtime of the connection.
    fn runtime(&self) -> &Handle;

    /// Returns the deadline of a call that begins now.
    fn deadline(&self) -> Instant;

    /// Returns how far a time of a server's clock, in milliseconds, is from now by this machine's clock.
    fn distance(&self, time: u64) -> Duration;

    /// Reads many names. Each is yielded once, by its index, as soon as it was read; more than
    /// the extent may be read.
    fn read_each(
        &self,
        names: &[(Arc<Key<Self>>, Extent)],
        deadline: Instant,
    ) -> BoxStream<'_, PollResult<Seen<Self>>>;
}

/// What was read of some names, by index.
pub(crate) enum PollResult<T> {
    Found(Vec<(usize, Result<T>)>),
    Failed(Vec<usize>, Error),
}

type PollStream<'a, S> = SelectAll<BoxStream<'a, (Arc<PollBatch<Key<S>>>, PollResult<Seen<S>>)>>;

/// Polls until another task replaces this one or no task waits.
pub(super) async fn poll_until_replaced<S: Source>(end: PollEnd<S>) {
    let PollEnd { shared, task } = &end;
    let source = shared.source.clone();
    let mut polls = PollStream::<S>::new();
    let mut earliest = Instant::now();
    loop {
        let due = shared.next_due();
        let pausing = sleep_until(due.unwrap_or(earliest).max(earliest));
        tokio::select! {
            biased;
            Some((poll, answer)) = polls.next() => {
                let unclear = shared.record(&poll, answer);
                begin(&source, &mut polls, unclear);
            }
            () = pausing, if due.is_some() => {
                let Some(poll) = shared.begin_poll(*task) else {
                    return;
                };
                let least = EACH.saturating_mul(u32::try_from(poll.names.len()).unwrap_or(u32::MAX));
                earliest = Instant::now() + least;
                begin(&source, &mut polls, poll);
            }
            () = shared.now.notified() => {}
        }
    }
}

fn begin<'a, S: Source>(source: &'a S, polls: &mut PollStream<'a, S>, poll: PollBatch<Key<S>>) {
    if poll.names.is_empty() {
        return;
    }
    let deadline = source.deadline().min(Instant::now() + POLL_TIMEOUT);
    let answers = source.read_each(&poll.names, deadline);
    let poll = Arc::new(poll);
    polls.push(answers.map(move |answer| (Arc::clone(&poll), answer)).boxed());
}

impl<S: Source> Shared<S> {
    /// Notifies the waiters of an answer. Returns the names of which all must be read.
    fn record(&self, poll: &PollBatch<Key<S>>, answer: PollResult<Seen<S>>) -> PollBatch<Key<S>> {
        let mut unclear = Vec::new();
        match answer {
            PollResult::Found(found) => {
                for (place, seen) in found {
                    let (key, extent) = &poll.names[place];
                    if self.notify(poll.number, key, *extent, seen) {
                        unclear.push((Arc::clone(key), Extent::All));
                    }
                }
            }
            PollResult::Failed(places, error) => {
                tracing::debug!(%error, "could not read awaited latches or barriers");
                let why: Arc<str> = error.to_string().into();
                for place in places {
                    self.notify_failure(poll.number, &poll.names[place].0, &error, &why);
                }
            }
        }
        PollBatch {
            number: poll.number,
            names: unclear,
        }
    }
}
