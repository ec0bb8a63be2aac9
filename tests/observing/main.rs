//! Metrics and spans, as a program that installs a recorder and a subscriber sees them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cost;
mod dashboard;
mod metrics;
mod page;
mod spans;
mod trace_context;

use std::{
    fs,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Returns the text of a file of the documentation.
fn docs(name: &str) -> String {
    fs::read_to_string(Path::new(env!("REPOSITORY")).join("docs").join(name)).unwrap()
}

/// Returns the turn of a test. `tracing` caches in the whole process whether a subscriber wants a
/// span, so the subscribers of two tests at the same time disturb each other.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
