//! A stream of mutations with bounded memory.

use std::{
    fmt, mem,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::Notify, task::AbortHandle, time::timeout};

use super::{Bulk, Rules, watermark::Watermark};
use crate::{
    client::Table,
    error::{Effect, Error, ErrorKind, Result},
    model::Mutation,
    rpc::CallError,
    wire::encoded::EncodedMutations,
};

/// The name of the operation in errors.
const NAME: &str = "write";
/// The maximum number of failures that a writer keeps for its caller.
const MOST_FAILURES: usize = 1_000;

/// The settings of a [`Writer`].
#[derive(Clone, Copy, Debug)]
#[must_use = "options do nothing until a writer is created with them"]
pub struct WriterOptions {
    buffer_size: usize,
    at_least_once: bool,
}

/// Writes puts and deletes in the background, in large calls.
///
/// [`write`](Self::write) returns as soon as a mutation is in the buffer, and waits while the buffer
/// is full. The writer sends mutations at once while few calls are in flight, and in larger calls
/// otherwise. Mutations of one row are applied in the order of their `write` calls; a put after a
/// delete of its row waits for a millisecond, so that the delete does not hide it. A mutation that
/// fails does not affect others.
///
/// Each mutation has a number, counted from 0 in the order of the `write` calls. A mutation is done
/// when it is stored, or when its failure was reported. [`watermark`](Self::watermark) is the number
/// of the first mutation that is not done: a source that has recorded it can continue from there
/// after a crash.
///
/// A mutation is retried within the table's operation timeout from its first attempt on. If a region
/// accepts nothing for that long, all mutations that wait for it fail.
///
/// Dropping a writer cancels the mutations that were not sent; those in flight may still be applied.
/// Call [`flush`](Self::flush) before.
///
/// # Example
///
/// ```
/// use hbase_client::{Put, WriterOptions};
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_table("events", &["f"], &[]);
/// # let table = hbase.connect().await?.table("events")?;
/// let writer = table.writer(WriterOptions::new());
/// for number in 0..1_000 {
///     let row = format!("{number:04}");
///     writer.write(Put::new(row).cell("f", "q", "v")).await?;
/// }
/// writer.flush().await?;
/// assert_eq!(writer.watermark(), 1_000);
/// # Ok(()) });
/// ```
pub struct Writer {
    table: Table,
    options: WriterOptions,
    shared: Arc<Shared>,
    task: AbortHandle,
}

/// A mutation of a [`Writer`] that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedWrite {
    /// The number of the mutation.
    pub number: u64,
    /// The error, with the row of the mutation. Its [outcome may be
    /// unknown](crate::Error::is_outcome_unknown).
    pub error: Error,
}

/// The progress of a writer since the last one was taken.
pub(super) struct Progress {
    pub(super) failures: Vec<FailedWrite>,
    pub(super) watermark: u64,
    /// Whether all mutations are done.
    pub(super) is_done: bool,
}

/// What a writer shares with its task.
struct Shared {
    state: Mutex<State>,
    /// Notified when mutations are added.
    added: Notify,
    /// Notified when mutations are done, or the task ends.
    done: Notify,
}

#[derive(Default)]
struct State {
    /// Mutations that the task has not seen yet.
    added: EncodedMutations,
    /// The number of the next mutation.
    next: u64,
    /// The bytes of all mutations that are not done.
    bytes: usize,
    watermark: Watermark,
    failures: Vec<FailedWrite>,
    /// Counts the steps of the task.
    steps: u64,
    /// Why the task does not write any more.
    end: Option<Error>,
}

/// Ends the mutations that are not done when the task ends.
struct End {
    shared: Arc<Shared>,
    table: Table,
}

impl WriterOptions {
    /// Creates options with the defaults.
    pub const fn new() -> Self {
        Self {
            buffer_size: 4 << 20,
            at_least_once: false,
        }
    }

    /// Sets the maximum number of bytes of mutations that are not done (4 MiB by default). A larger
    /// mutation is written alone.
    pub const fn buffer_size(mut self, bytes: usize) -> Self {
        self.buffer_size = bytes;
        self
    }

    /// Sends a mutation again if its answer was lost, although it may have been applied.
    ///
    /// The writer gives mutations without a timestamp one, later than all that their region server has
    /// stamped before. So a copy that comes late is older than later mutations of its row, and than
    /// all writes after the mutation is done. A mutation is done when the server's clock has passed
    /// its timestamp, a few milliseconds after the answer. Timestamps of the caller stay: a late copy
    /// of such a cell replaces a later one with the same timestamp.
    ///
    /// To compare its clock with that of a server, the writer deletes a row that does not exist every
    /// five seconds, named `ROW\0hbase-client.clock.NUMBER` after a row that it writes, and reads the
    /// marker by a raw scan. If the user may not do that, a mutation without an answer fails with an
    /// unknown outcome.
    ///
    /// By default such a mutation fails with an unknown outcome, unless all its cells have
    /// timestamps and a second time has no effect.
    pub const fn at_least_once(mut self) -> Self {
        self.at_least_once = true;
        self
    }
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Table {
    /// Creates a writer for many puts and deletes, whose task is in the runtime of the connection.
    #[must_use]
    pub fn writer(&self, options: WriterOptions) -> Writer {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            added: Notify::new(),
            done: Notify::new(),
        });
        let rules = Rules {
            name: NAME,
            deadline: None,
            at_least_once: options.at_least_once,
        };
        let end = End {
            shared: Arc::clone(&shared),
            table: self.clone(),
        };
        let task = self.runtime().spawn(write_all(end, rules));
        Writer {
            table: self.clone(),
            options,
            shared,
            task: task.abort_handle(),
        }
    }
}

async fn write_all(end: End, rules: Rules) {
    let End { shared, table } = &end;
    let mut bulk = Bulk::new(table, rules);
    loop {
        let added = {
            let mut state = shared.state();
            state.steps += 1;
            state.added.take()
        };
        if !added.mutations().is_empty() {
            bulk.add(&added);
        }
        tokio::select! {
            biased;
            () = shared.added.notified() => {}
            completed = bulk.next(), if !bulk.is_done() => {
                let mut state = shared.state();
                if state.end.is_some() {
                    return;
                }
                for completed in completed {
                    for (mutation, (number, failure)) in
                        completed.mutations.mutations().iter().zip(completed.results())
                    {
                        state.bytes -= mutation.len();
                        match failure {
                            None => state.watermark.complete(number),
                            Some(error) => state.fail(number, error),
                        }
                    }
                }
                drop(state);
                shared.done.notify_waiters();
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails the mutations that are not done, and all later ones.
    fn end(&self, error: &Error) {
        let mut state = self.state();
        if state.end.is_some() {
            return;
        }
        state.end = Some(error.clone());
        // The task has not seen these, which have the highest numbers.
        let added = state.added.take();
        let unsent = added.mutations().first().map(|mutation| mutation.number);
        while state.watermark.first_open() < state.next {
            let number = state.watermark.first_open();
            let is_unsent = unsent.is_some_and(|unsent| number >= unsent);
            let effect = if is_unsent { Effect::None } else { Effect::Unknown };
            state.fail(number, error.clone().with_effect(effect));
        }
        drop(state);
        self.done.notify_waiters();
    }
}

impl State {
    fn fail(&mut self, number: u64, error: Error) {
        self.watermark.complete(number);
        self.failures.push(FailedWrite { number, error });
    }

    fn fail_next(&mut self, error: Error) {
        self.fail(self.next, error);
        self.next += 1;
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let error = CallError::RuntimeEnded { sent: true }.into_error();
        self.shared.end(&in_context(error, &self.table));
    }
}

impl Writer {
    /// Adds a put or a delete to the buffer, and returns its number. Waits while the buffer is full,
    /// for as long as the writes before it are retried.
    ///
    /// # Errors
    ///
    /// The mutation was not added if this returns an error:
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) for an invalid mutation, an increment or an
    ///   append;
    /// - [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if 1,000 failures were not
    ///   [taken](Self::take_failures);
    /// - [`Closed`](crate::ErrorKind::Closed) if the runtime of the connection has ended;
    /// - [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded) if nothing was done for twice the
    ///   operation timeout because that runtime is not driven. The writer then accepts no more mutations.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it returns leaves the mutation out.
    pub async fn write(&self, mutation: impl Into<Mutation>) -> Result<u64> {
        let mutation = mutation.into();
        let add = |state: &mut State| {
            if state.failures.len() < MOST_FAILURES {
                self.add(state, &mutation)
            } else {
                Some(Err(self.failures_not_taken(&mutation)))
            }
        };
        self.append(add).await
    }

    /// Adds a mutation as [`write`](Self::write) does, for a caller that takes all failures before
    /// each call.
    pub(super) async fn write_despite_failures(&self, mutation: &Mutation) -> Result<u64> {
        self.append(|state| self.add(state, mutation)).await
    }

    async fn append(&self, add: impl FnMut(&mut State) -> Option<Result<u64>>) -> Result<u64> {
        let added = self.when_done(add).await;
        if added.is_ok() {
            self.shared.added.notify_one();
        }
        added
    }

    fn failures_not_taken(&self, mutation: &Mutation) -> Error {
        let what = format!("{MOST_FAILURES} writes have failed, and their failures were not taken");
        let error = Error::new(ErrorKind::LimitExceeded, what)
            .with_hint("call Writer::take_failures")
            .at_operation(NAME)
            .at_table(self.table.name());
        mutation.in_context(error)
    }

    /// Adds a mutation, unless the buffer is full.
    fn add(&self, state: &mut State, mutation: &Mutation) -> Option<Result<u64>> {
        if let Some(end) = &state.end {
            return Some(Err(mutation.in_context(end.clone())));
        }
        if state.bytes > 0 && state.bytes + mutation.size() > self.options.buffer_size {
            return None;
        }
        let (number, before) = (state.next, state.added.bytes());
        let encoded = self.table.encode(mutation, number, &mut state.added);
        Some(encoded.map(|()| {
            state.bytes += state.added.bytes() - before;
            state.next += 1;
            number
        }))
    }

    /// Returns the first value that `check` returns. Checks now and whenever mutations are done. Ends the
    /// writer if its task takes no step although it is woken.
    async fn when_done<T>(&self, mut check: impl FnMut(&mut State) -> Option<T>) -> T {
        // Most writes find room at once.
        let first = check(&mut self.shared.state());
        if let Some(value) = first {
            return value;
        }
        let patience = self.table.operation_timeout;
        let mut woken_at = None;
        loop {
            let mut done = pin!(self.shared.done.notified());
            done.as_mut().enable();
            if let Some(value) = check(&mut self.shared.state()) {
                return value;
            }
            if timeout(patience, done).await.is_err() && !self.is_idle() {
                let steps = self.shared.state().steps;
                if woken_at.replace(steps) == Some(steps) {
                    self.task.abort();
                    let waited = 2 * patience;
                    let error = CallError::NotDriven { waited, sent: true }.into_error();
                    self.shared.end(&in_context(error, &self.table));
                }
                self.shared.added.notify_one();
            }
        }
    }

    /// Returns whether all mutations are done.
    fn is_idle(&self) -> bool {
        let state = self.shared.state();
        state.watermark.first_open() == state.next
    }

    /// Waits until all mutations are done that were added before the call.
    ///
    /// # Errors
    ///
    /// Returns the first failure that was not [taken](Self::take_failures), and how many there are.
    /// The failures stay until they are taken.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the mutations.
    pub async fn flush(&self) -> Result<()> {
        let all = self.shared.state().next;
        let flushed = self.when_done(|state| {
            if state.watermark.first_open() < all {
                return None;
            }
            Some(match state.failures.first() {
                None => Ok(()),
                Some(first) => {
                    let number = state.failures.len();
                    let (error, effect) = (first.error.clone(), first.error.effect());
                    let what = format!("{number} writes have failed, and this is the first failure");
                    Err(Error::new(error.kind(), what)
                        .with_effect(effect)
                        .at_operation("flush")
                        .at_table(self.table.name())
                        .with_source(error))
                }
            })
        });
        flushed.await
    }

    /// Returns the number of the first mutation that is not done. All before it are stored, or are
    /// among the [failures](Self::take_failures).
    #[must_use]
    pub fn watermark(&self) -> u64 {
        self.shared.state().watermark.first_open()
    }

    /// Returns the mutations that have failed since the last call.
    #[must_use]
    pub fn take_failures(&self) -> Vec<FailedWrite> {
        mem::take(&mut self.shared.state().failures)
    }

    /// Adds a mutation that is invalid: it has a number and has failed.
    pub(super) fn reject(&self, error: Error) {
        self.shared.state().fail_next(error);
    }

    /// Takes the failures, and the watermark behind all of them.
    pub(super) fn progress(&self) -> Progress {
        let state = &mut *self.shared.state();
        let watermark = state.watermark.first_open();
        Progress {
            failures: mem::take(&mut state.failures),
            watermark,
            is_done: watermark == state.next,
        }
    }

    /// Waits until there are failures, or the watermark is above this one.
    pub(super) async fn progressed(&self, watermark: u64) {
        let has_progressed =
            |state: &mut State| !state.failures.is_empty() || state.watermark.first_open() > watermark;
        self.when_done(|state| has_progressed(state).then_some(())).await;
    }
}

fn in_context(error: Error, table: &Table) -> Error {
    error.at_operation(NAME).at_table(table.name())
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Writer");
        debug.field("table", &self.table).field("options", &self.options);
        debug.finish_non_exhaustive()
    }
}
