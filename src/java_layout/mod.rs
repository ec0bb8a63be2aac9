//! What the two Java libraries' tables have in common.
//!
//! | file | what |
//! |---|---|
//! | `level` | [`Level`]: how far a lock or a latch reaches |
//! | `hash_prefix` | the byte that spreads keys over 256 buckets |

mod hash_prefix;
mod level;

pub use hash_prefix::{DEFAULT_REGIONS, JAVA_REGIONS};
pub(crate) use hash_prefix::{bucket_split_keys, distributed_row};
pub use level::Level;
