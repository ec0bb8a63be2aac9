//! What a program can observe of transactions and locks. `docs/observing.md` explains each metric.

use hbase_client::{
    TableName,
    low_level::{Metric, OperationSpan, Timer},
};

use crate::error::{Error, ErrorKind, Result};

static COMMITS: Metric = Metric::counter(
    "hbase_txn_commits_total",
    &["outcome"],
    "Transactions that were committed: committed, rejected, invalid, aborted or unknown.",
);
static COMMIT_DURATION: Metric = Metric::histogram(
    "hbase_txn_commit_duration_seconds",
    &[],
    "Time from the beginning of a commit to its outcome, with waits and retries.",
);
pub(crate) static COALESCED: Metric = Metric::histogram(
    "hbase_txn_coalesced_transactions",
    &[],
    "Transactions in one call, of those that may share calls.",
);
static RECORDS_SETTLED: Metric = Metric::counter(
    "hbase_txn_records_settled_total",
    &["outcome"],
    "Transactions whose outcome was found out by their records: committed, not_applied or failed.",
);
static LOCK_ACQUISITIONS: Metric = Metric::counter(
    "hbase_txn_lock_acquisitions_total",
    &["kind", "outcome"],
    "Requests for locks that have ended: acquired, unavailable or failed.",
);
static LOCK_WAIT: Metric = Metric::histogram(
    "hbase_txn_lock_wait_seconds",
    &["kind"],
    "Time from a request for a lock to its end, with the calls.",
);
static LOCK_RENEWALS: Metric = Metric::counter(
    "hbase_txn_lock_renewals_total",
    &["outcome"],
    "Renewals of leases: renewed, lost or failed.",
);
pub(crate) static LOCK_LOSSES: Metric = Metric::counter(
    "hbase_txn_lock_losses_total",
    &["reason"],
    "Locks that were lost while a guard held them: expired, removed, taken or unknown.",
);

/// Describes all metrics of this crate to the recorder.
pub(crate) fn describe() {
    Metric::describe_all(&[
        &COMMITS,
        &COMMIT_DURATION,
        &COALESCED,
        &RECORDS_SETTLED,
        &LOCK_ACQUISITIONS,
        &LOCK_WAIT,
        &LOCK_RENEWALS,
        &LOCK_LOSSES,
    ]);
}

/// A commit in progress.
pub(crate) struct ObservedCommit {
    span: OperationSpan,
    timer: Timer,
}

impl ObservedCommit {
    pub(crate) fn begin(table: &TableName) -> Self {
        Self {
            span: OperationSpan::begin("commit", table),
            timer: Timer::start(),
        }
    }

    pub(crate) fn within<F: Future>(&self, commit: F) -> impl Future<Output = F::Output> + use<F> {
        self.span.within(commit)
    }

    /// Reports the outcome by its name, and its error.
    pub(crate) fn end(mut self, outcome: &'static str, error: Option<&Error>) {
        if let Some(error) = error {
            self.span.record_error(error);
        }
        self.span.end(outcome);
        COMMITS.count(|| [outcome]);
        COMMIT_DURATION.record_since(self.timer, || []);
    }
}

/// Reports how a record was settled: whether the transaction had been committed.
pub(crate) fn settled<T>(settled: &Result<T>, is_committed: impl FnOnce(&T) -> bool) {
    RECORDS_SETTLED.count(|| match settled {
        Ok(ended) if is_committed(ended) => ["committed"],
        Ok(_) => ["not_applied"],
        Err(_) => ["failed"],
    });
}

/// Awaits the acquisition of a lock, and reports it. The kind is one of a few words.
pub(crate) async fn acquisition<T>(
    kind: &'static str,
    table: &TableName,
    acquire: impl Future<Output = Result<T>>,
) -> Result<T> {
    let (mut span, timer) = (OperationSpan::begin("acquire", table), Timer::start());
    let acquired = span.within(acquire).await;
    let outcome = match &acquired {
        Ok(_) => "acquired",
        Err(error) if error.kind() == ErrorKind::LockUnavailable => "unavailable",
        Err(error) => {
            span.record_error(error);
            "failed"
        }
    };
    span.end(outcome);
    LOCK_ACQUISITIONS.count(|| [kind, outcome]);
    LOCK_WAIT.record_since(timer, || [kind]);
    acquired
}

/// Reports a renewal.
pub(crate) fn renewal(renewed: &Result<()>) {
    LOCK_RENEWALS.count(|| match renewed {
        Ok(()) => ["renewed"],
        Err(error) if error.kind() == ErrorKind::LockLost => ["lost"],
        Err(_) => ["failed"],
    });
}
