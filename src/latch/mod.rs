//! Latches: counts that others wait for to be counted down, in the layout of a Java library.
//!
//! | file | what |
//! |---|---|
//! | `name` | [`LatchName`]: client, id, and the row that follows |
//! | `table` | [`LatchTableOptions`]: tables that latches live in |
//! | `manager` | [`LatchManager`]: the latches of one client in one table |
//! | `handle` | [`Latch`]: what can be done with one |
//! | `in_partition` | [`PartitionLatches`]: latches beside the data of a partition |
//! | `in_transaction` | counting one down as a part of a transaction |
//! | `barrier` | [`Barrier`]: parties that wait for each other, again and again |
//! | `watch` | waiting for latches |
//! | `change` | plan, write if nothing has changed, judge by what is seen then |
//! | `plan` | what to write, given what was seen |
//! | `intent` | the same for who can write one cell on one condition |
//! | `place` | a latch's row in its table, and the calls that read and change it |
//! | `sight` `note` `pending` `layout` | what the cells of the row say |
//! | `state` | what is told of a latch |
//!
//! What must stay true: nothing is written but under the condition that all is as it was when that was planned; all that is
//! written ends with the latch, to the millisecond, and what lies under it not later; a change has one id, under which it is
//! made once, however often it is planned and sent.

mod barrier;
mod change;
mod handle;
mod in_partition;
mod in_transaction;
#[cfg(feature = "thrift")]
mod intent;
mod layout;
mod manager;
mod name;
mod note;
mod pending;
mod place;
mod plan;
mod sight;
mod state;
mod table;
mod watch;

#[cfg(feature = "thrift")]
pub(crate) use {
    handle::{check_life, whole},
    intent::{Intent, Verdict, begun, check_leftover, intend, intend_to_delete},
    layout::Cells,
    name::check_farm,
    note::ChangeId,
    plan::{Wish, encode, gone},
    sight::{Participants, Sight},
    watch::{Extent, Sights, Source, Watch},
};

pub use barrier::{Arrival, Barrier, BarrierInfo, BarrierOutcome, MOST_PARTIES};
pub use handle::{LONGEST_LATCH, Latch, SHORTEST_LATCH};
pub use in_partition::PartitionLatches;
pub use manager::{LatchManager, LatchManagerOptions};
pub use name::LatchName;
pub use state::{Counted, LatchInfo, LatchState};
pub use table::LatchTableOptions;
pub use watch::WaitOutcome;
