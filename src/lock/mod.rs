//! Distributed locks, in the layout of a Java library, so that its clients and ours exclude each other.
//!
//! | file | what |
//! |---|---|
//! | `name` | [`LockName`]: farm, client, id, and the row that follows |
//! | `table` | [`LockTableOptions`]: tables that locks live in |
//! | `manager` | [`LockManager`]: the locks of one client in one table |
//! | `request` | [`LockRequest`]: how a lock is waited for |
//! | `several` | [`LockSet`]: several locks, all or none |
//! | `guard` | [`LockGuard`]: a lock that is held, until it is released or lost |
//! | `keeper` | watches over one lock, and renews it |
//! | `abandoned` | gives back what nobody wants any more |
//! | `lasting` | what comes to its end, whoever still waits for it |
//! | `party` | what the locks of one client in one table have in common |
//! | `acquire` `renew` `release` | the protocol |
//! | `in_partition` | [`PartitionLocks`]: locks beside the data of a partition |
//! | `in_transaction` `pending` | what a transaction does with them |
//! | `slots` | holds that stand side by side in one row, for layers above |
//! | `hold` | what one token has of a lock |
//! | `place` | a lock's rows in their table, and the calls that read and change them |
//! | `sight` `owner` `layout` | what the cells of a row say |
//! | `state` | what is told of a lock |
//! | `list` | the locks that are held in a table |
//! | `clock` | the clock that leases are judged by |
//!
//! What must stay true: a lock is held by who sees his own token in it, behind his own write in the same call; every change
//! of a hold is made under the condition that its owner cell is, to the byte, as it was last seen; nothing on a lock row
//! expires before what lies under it; no lease is counted from later than when it was sent.

mod abandoned;
mod acquire;
mod clock;
mod guard;
mod hold;
mod in_partition;
mod in_transaction;
mod keeper;
mod lasting;
mod layout;
mod list;
mod manager;
mod name;
mod owner;
mod party;
mod pending;
mod place;
mod release;
mod renew;
mod request;
mod several;
mod sight;
mod slots;
mod state;
mod table;
mod term;

#[cfg(feature = "thrift")]
pub(crate) use {
    abandoned::WATCH,
    clock::Moment,
    hold::{TRIES, changed_meanwhile, loss},
    keeper::{Kept, keep},
    lasting::Lasting,
    layout::{ALONE, FAMILY, FENCING, LockRows, MARKER, OWNER},
    owner::{HeldBy, Millis, Owner},
    party::{Front, Party, Tenure, default_holder},
    place::FENCING_TTL,
    release::LONG_REST,
    request::{DEFAULT_LEASE, check_margin, margin},
    sight::{Grip, Remains, Sight},
    state::refusal,
    term::Term,
};

pub use guard::{LockGuard, ReleaseOutcome};
pub use in_partition::PartitionLocks;
pub use manager::{LockManager, LockManagerOptions};
pub use name::LockName;
pub use owner::LockToken;
pub use pending::PendingLock;
pub use request::{LONGEST_LEASE, LockRequest, SHORTEST_LEASE};
pub use several::LockSet;
pub(crate) use slots::{SlotRow, SlotsSeen};
pub use state::{LockHolder, LockInfo, LockLoss};
pub use table::LockTableOptions;
