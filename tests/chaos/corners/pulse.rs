//! How fast the cluster answers while cases run.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::join_all;
use hbase_txn::{Get, Table};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

/// A slower answer is a stall: the shortest attempts of a case do not wait longer.
const STALL: Duration = Duration::from_millis(400);
const PAUSE: Duration = Duration::from_millis(50);

/// Plain reads of a client without corners, of one row in each table, repeated until this is dropped.
pub(super) struct Pulse {
    beats: Arc<Mutex<Beats>>,
    task: JoinHandle<()>,
}

struct Beats {
    /// The begin of the last reads.
    began: Instant,
    /// The end of the last ones that took too long.
    stalled: Option<Instant>,
}

impl Pulse {
    pub(super) fn of(tables: Vec<Table>) -> Self {
        let beats = Arc::new(Mutex::new(Beats {
            began: Instant::now(),
            stalled: None,
        }));
        let shared = Arc::clone(&beats);
        let task = tokio::spawn(async move {
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
        Self { beats, task }
    }

    /// Returns whether the cluster, or this machine, was too slow at a time since then.
    pub(super) fn stalled_since(&self, then: Instant) -> bool {
        let beats = self.beats.lock().unwrap();
        beats.began.elapsed() > STALL + PAUSE || beats.stalled.is_some_and(|end| end > then)
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.task.abort();
    }
}
