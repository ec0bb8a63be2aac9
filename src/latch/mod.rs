//! Latches and barriers: wait until other processes have done their parts.
//!
//! A [`Latch`] is a countdown in HBase: created with a count, counted down by workers, and awaited
//! by any number of processes. A [`Barrier`] lets a fixed number of parties wait for each other, in
//! repeated generations; a [`DoubleBarrier`] lets them begin together and end together.
//!
//! ```
//! use std::time::Duration;
//! use hbase_txn::{Level, latch::{LatchManagerOptions, WaitOutcome}};
//!
//! # hbase_fake::FakeHBase::run(async |hbase| {
//! # hbase.create_table("D_LTCH_jobs", &["C", "S"], &[]);
//! # let connection = hbase.connect().await?;
//! let latches = LatchManagerOptions::new("billing", "fra")
//!     .open(&connection, "D_LTCH_jobs")
//!     .await?;
//! let parts = latches.latch(Level::Dc, "invoices-2026-11")?;
//! parts.init(3, Duration::from_secs(3_600)).await?;
//!
//! // Each worker, when its part is done; it counts once, however often it is repeated:
//! parts.arrive("worker-1").await?;
//! # parts.arrive("worker-2").await?;
//! # parts.arrive("worker-3").await?;
//!
//! // Every process that needs all parts:
//! # let outcome = parts.wait(Duration::from_secs(600)).await?;
//! # assert_eq!(outcome, WaitOutcome::Reached);
//! match parts.wait(Duration::from_secs(600)).await? {
//!     WaitOutcome::Reached => println!("all parts are done"),
//!     other => println!("not all parts are done: {other:?}"),
//! }
//! # Ok(()) });
//! ```
//!
//! | to | use |
//! |---|---|
//! | count down once for each worker, repeatable | [`Latch::arrive`] |
//! | count down by a number | [`Latch::count_down`] |
//! | count down in the transaction that does the work | [`PartitionLatches`] |
//! | let parties wait for each other in rounds | [`LatchManager::barrier`] |
//! | let parties begin together and end together | [`LatchManager::double_barrier`] |
//!
//! # Guarantees
//!
//! - **A change is applied once.** If an answer is lost, the client finds out whether the change
//!   was applied, and applies it if it was not.
//! - **A latch ends.** It lives for the time to live with which it was created, by the clock of its
//!   region server. Counting does not prolong it. Waiters are notified when it has expired or was
//!   deleted.
//! - **Waiting is cheap.** One task of a process polls for all of its waiters, with one call to
//!   each region server at a time.
//! - **Compatibility.** The cells are those of a widely used Java library. Its clients and this
//!   library count down the same latches.
//!
//! The guide, `docs/latches.md`, has the limits and the costs.

// Inside:
//
// | file | contents |
// |---|---|
// | `name` | `LatchName`: client, id, and the row derived from them |
// | `table` | `LatchTableOptions`: tables for latches |
// | `manager` | `LatchManager`: the latches of one client in one table |
// | `shared` | what they share within a process: turns and watches |
// | `handle` | `Latch`: the operations on one latch |
// | `in_partition` | `PartitionLatches`: latches in the partition of the data |
// | `in_transaction` | a count-down as part of a transaction |
// | `barrier` | `Barrier`: parties that wait for each other in generations |
// | `watch` | waiting for latches and barriers: one task polls for all waiters |
// | `optimistic` | the loop of all changes: read, plan, write if the row is unchanged, judge, pause |
// | `change` | changes of a latch |
// | `plan` | what to write, given what was read. No I/O |
// | `intent` | the same for a client whose conditions cover one cell |
// | `location` | the row of one latch, and the calls that read and change it |
// | `observation` `note` `pending` `layout` | the cells of the row |
// | `state` | the state of a latch, for callers |
// | `list` | the latches and barriers of a table |
//
// Invariants: every write has the condition that the row is as it was read when the write was
// planned; all cells of a latch expire with it, to the millisecond, and no cell under them expires
// later; a change has one id, under which it is applied once, however often it is planned and sent.

mod barrier;
mod change;
mod handle;
mod in_partition;
mod in_transaction;
#[cfg(test)]
mod in_virtual_time;
#[cfg(feature = "thrift")]
mod intent;
mod layout;
mod list;
mod location;
mod manager;
mod name;
mod note;
mod observation;
mod optimistic;
mod pending;
mod plan;
mod shared;
mod state;
mod table;
mod watch;

#[cfg(feature = "thrift")]
pub(crate) use {
    change::contended,
    handle::{LastChanged, check_life, whole},
    intent::{Intent, begun, check_leftover, intend, intend_to_delete},
    layout::Cells,
    name::check_farm,
    note::NewChange,
    observation::{LatchObservation, Participants},
    optimistic::{Change, Planned, Verdict, apply},
    plan::{LatchOperation, encode, gone},
    shared::turn,
    watch::{Extent, LatchProgress, LatchSource, PollResult, Source, Watch},
};

pub use barrier::{
    Arrival, Barrier, BarrierInfo, BarrierOutcome, BarrierPhase, DoubleBarrier, Entry, MAX_PARTIES,
};
pub use handle::Latch;
pub use in_partition::PartitionLatches;
pub use layout::{MAX_LATCH_TTL, MIN_LATCH_TTL};
pub use list::{ListedBarrier, ListedLatch};
pub use manager::{LatchManager, LatchManagerOptions};
pub use name::LatchName;
pub use state::{LatchCount, LatchInfo, LatchState};
pub use table::LatchTableOptions;
pub use watch::WaitOutcome;
