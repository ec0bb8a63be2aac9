//! Operations on locks and latches, as the checker reads them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hbase_txn::{
    ErrorKind, Result,
    latch::{Latch, LatchCount, LatchInfo, LatchState, WaitOutcome},
    lock::ReleaseOutcome,
};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The number of places in one microsecond.
const IN_ONE: i64 = 1_000_000;

/// The operations on all locks and latches.
#[derive(Debug)]
pub(crate) struct ObjectLog {
    began: Instant,
    lines: Mutex<Vec<String>>,
    /// The last number that was given to a call, a return, a handle or a count-down.
    last: AtomicUsize,
}

/// A hold of a lock. Its fencing number names it.
#[derive(Debug)]
pub(crate) struct RecordedHold {
    log: Arc<ObjectLog>,
    lock: String,
    client: usize,
    fencing: i64,
}

/// A latch whose calls are recorded.
#[derive(Clone, Debug)]
pub(crate) struct RecordedLatch {
    log: Arc<ObjectLog>,
    latch: Latch,
    handle: usize,
}

/// A change of a latch that has not returned. If it is dropped, its outcome is unknown.
struct Change<'l> {
    on: &'l RecordedLatch,
    step: Value,
    called: i64,
    is_open: bool,
}

impl ObjectLog {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            lines: Mutex::default(),
            last: AtomicUsize::new(0),
        })
    }

    /// Returns the place of this moment among all calls and returns: the time, and the order of those
    /// of one microsecond.
    pub(crate) fn now(&self) -> i64 {
        let place = self.at(Instant::now());
        place + self.next() as i64 % IN_ONE
    }

    /// Returns the first place at this moment.
    fn at(&self, moment: Instant) -> i64 {
        let micros = moment.saturating_duration_since(self.began).as_micros();
        i64::try_from(micros).unwrap() * IN_ONE
    }

    fn next(&self) -> usize {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Records an operation on an object. Without a return its outcome is unknown.
    fn note(&self, object: (&str, &str), client: usize, called: i64, returned: Option<i64>, step: &Value) {
        let (kind, name) = object;
        let line = json!({
            "history": format!("{kind} {name}"),
            "client": client,
            "call": called,
            "return": returned,
            "what": kind,
            "outcome": if returned.is_some() { "committed" } else { "unknown" },
            kind: step,
        });
        self.lines.lock().unwrap().push(line.to_string());
    }

    /// Records a generation of a barrier, which is a latch of its own for the checker.
    pub(crate) fn generation(&self, name: &str, parties: u32) {
        self.note(
            ("latch", name),
            0,
            0,
            Some(0),
            &json!({"op": "init", "left": parties}),
        );
    }

    /// Records an arrival in a generation that has returned, or whose outcome is unknown.
    pub(crate) fn arrived(&self, generation: &str, participant: usize, called: i64, is_known: bool) {
        let step = json!({"op": "arrive", "name": format!("p{participant}"), "by": 1});
        let returned = is_known.then(|| self.now());
        self.note(("latch", generation), 1 + participant, called, returned, &step);
    }

    /// Records a wait for a generation that has opened.
    pub(crate) fn opened(&self, generation: &str, participant: usize, called: i64) {
        let (client, returned) = (1 + participant, Some(self.now()));
        self.note(
            ("latch", generation),
            client,
            called,
            returned,
            &json!({"op": "reached"}),
        );
    }

    /// Removes all operations, and returns them as the checker reads them.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut *self.lines.lock().unwrap()).join("\n")
    }
}

impl RecordedHold {
    /// Records an acquisition that has returned. `taken` is a moment at which it certainly held the lock.
    pub(crate) fn acquired(
        log: &Arc<ObjectLog>,
        lock: &str,
        client: usize,
        fencing: i64,
        called: i64,
        taken: Instant,
    ) -> Self {
        let hold = Self {
            log: Arc::clone(log),
            lock: lock.to_owned(),
            client,
            fencing,
        };
        let returned = log.now().min(log.at(taken)).max(called);
        hold.note("acquire", called, Some(returned));
        hold
    }

    /// Records a renewal that has succeeded.
    pub(crate) fn renewed(&self, called: i64) {
        self.note("renew", called, Some(self.log.now()));
    }

    /// Records the outcome of a release. `until` is the moment until which the guard counted on the
    /// hold.
    pub(crate) fn released(self, called: i64, until: Instant, outcome: &Result<ReleaseOutcome>) {
        let (returned, until) = (Some(self.log.now()), self.log.at(until));
        match outcome {
            Ok(ReleaseOutcome::Released) => self.note("release", called, returned),
            // Its lease is over, or an earlier copy of the release was applied.
            Ok(_) => self.note("end", until.min(called), returned),
            Err(_) => self.note("end", until.min(called), None),
        }
    }

    fn note(&self, op: &str, called: i64, returned: Option<i64>) {
        let step = json!({"op": op, "fencing": self.fencing});
        self.log
            .note(("lock", &self.lock), self.client, called, returned, &step);
    }
}

impl RecordedLatch {
    pub(crate) fn new(log: &Arc<ObjectLog>, latch: Latch) -> Self {
        Self {
            handle: log.next(),
            log: Arc::clone(log),
            latch,
        }
    }

    pub(crate) async fn init(&self, count: u64, ttl: Duration) -> Result<()> {
        let change = self.change(json!({"op": "init", "left": count}));
        let outcome = self.latch.init(count, ttl).await;
        change.end(&outcome);
        outcome
    }

    pub(crate) async fn count_down(&self, by: u64) -> Result<LatchCount> {
        // A name that no other call has.
        let name = format!("#{}", self.log.next());
        let change = self.change(json!({"op": "count", "name": name, "by": by}));
        let outcome = self.latch.count_down(by).await;
        change.end_count(&name, &outcome);
        outcome
    }

    pub(crate) async fn arrive(&self, participant: &str) -> Result<LatchCount> {
        let change = self.change(json!({"op": "count", "name": participant, "by": 1}));
        let outcome = self.latch.arrive(participant).await;
        change.end_count(participant, &outcome);
        outcome
    }

    pub(crate) async fn show(&self) -> Result<LatchInfo> {
        let called = self.log.now();
        let outcome = self.latch.show().await;
        match &outcome {
            Ok(info) if info.state == LatchState::Absent => self.note(called, &json!({"op": "absent"})),
            Ok(LatchInfo {
                count: Some(left), ..
            }) => {
                self.note(called, &json!({"op": "read", "left": left}));
            }
            _ => {}
        }
        outcome
    }

    pub(crate) async fn wait(&self, timeout: Duration) -> Result<WaitOutcome> {
        let called = self.log.now();
        let outcome = self.latch.wait(timeout).await;
        match outcome {
            Ok(WaitOutcome::Reached) => self.note(called, &json!({"op": "reached"})),
            Ok(WaitOutcome::TimedOut) | Err(_) => {}
            Ok(_) => self.note(called, &json!({"op": "ended"})),
        }
        outcome
    }

    pub(crate) async fn delete(&self) -> Result<bool> {
        let mut change = self.change(json!({"op": "delete"}));
        let outcome = self.latch.delete().await;
        if matches!(outcome, Ok(false)) {
            change.step = json!({"op": "absent"});
        }
        change.end(&outcome);
        outcome
    }

    fn change(&self, step: Value) -> Change<'_> {
        Change {
            on: self,
            step,
            called: self.log.now(),
            is_open: true,
        }
    }

    fn note(&self, called: i64, step: &Value) {
        let returned = Some(self.log.now());
        self.log
            .note(("latch", self.latch.key()), self.handle, called, returned, step);
    }
}

impl Change<'_> {
    /// Records the outcome. What failed for certain had no effect.
    fn end<T>(mut self, outcome: &Result<T>) {
        let error = outcome.as_ref().err();
        if error.is_some_and(hbase_txn::Error::is_outcome_unknown) {
            return;
        }
        self.is_open = false;
        match error.map(hbase_txn::Error::kind) {
            None => self.on.note(self.called, &self.step),
            Some(ErrorKind::LatchExists) => self.on.note(self.called, &json!({"op": "exists"})),
            Some(ErrorKind::LatchAbsent) => self.on.note(self.called, &json!({"op": "absent"})),
            Some(_) => {}
        }
    }

    /// Records the outcome of a count-down or an arrival, and what was left after it.
    fn end_count(mut self, name: &str, outcome: &Result<LatchCount>) {
        if let Ok(count) = outcome {
            let read = json!({"op": "read", "name": name, "left": count.left});
            if count.counted {
                self.on.note(self.called, &read);
            } else {
                self.step = read;
            }
        }
        self.end(outcome);
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        if self.is_open {
            let RecordedLatch { log, latch, handle } = self.on;
            log.note(("latch", latch.key()), *handle, self.called, None, &self.step);
        }
    }
}
