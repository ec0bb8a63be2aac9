//! How fast the cluster answers while cases run, and how late the timers of this process are.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::join_all;
use hbase_txn::client::{Get, Table};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

/// A slower answer is a stall: the shortest attempts of a case do not wait longer.
const STALL: Duration = Duration::from_millis(400);
const PAUSE: Duration = Duration::from_millis(50);

/// Plain reads of a client without corners, of one row in each table, and pauses that are measured.
/// They are repeated until this is dropped.
pub(super) struct Pulse {
    beats: Arc<Mutex<Beats>>,
    _tasks: JoinSet<()>,
}

struct Beats {
    /// The begin of the last reads.
    began: Instant,
    /// The end of the last ones that took too long.
    stalled: Option<Instant>,
    /// When the present pause should end, and by how much all before it were too long.
    due: Instant,
    delays: Duration,
}

impl Pulse {
    pub(super) fn of(tables: Vec<Table>) -> Self {
        let beats = Arc::new(Mutex::new(Beats {
            began: Instant::now(),
            stalled: None,
            due: Instant::now(),
            delays: Duration::ZERO,
        }));
        let (shared, paused) = (Arc::clone(&beats), Arc::clone(&beats));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let began = Instant::now();
                shared.lock().unwrap().began = began;
                join_all(tables.iter().map(|table| table.get(Get::new("pulse")))).await;
                if began.elapsed() > STALL {
                    shared.lock().unwrap().stalled = Some(Instant::now());
                }
                sleep(PAUSE).await;
            }
        });
        tasks.spawn(async move {
            let mut due = Instant::now();
            loop {
                sleep_until(due).await;
                let now = Instant::now();
                due = now + PAUSE;
                let mut beats = paused.lock().unwrap();
                let delay = now - beats.due;
                beats.delays += delay;
                beats.due = due;
            }
        });
        Self { beats, _tasks: tasks }
    }

    /// Returns whether the cluster, or this machine, was too slow at a time since then.
    pub(super) fn stalled_since(&self, then: Instant) -> bool {
        let beats = self.beats.lock().unwrap();
        beats.began.elapsed() > STALL + PAUSE || beats.stalled.is_some_and(|end| end > then)
    }

    /// Returns by how much all pauses until now were too long. In that time no task of this process
    /// went on.
    pub(super) fn delays(&self) -> Duration {
        let beats = self.beats.lock().unwrap();
        beats.delays + beats.due.elapsed()
    }
}
