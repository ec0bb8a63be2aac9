//! The common parts of the two Java libraries' table layouts.
//!
//! | file | what |
//! |---|---|
//! | `level` | [`Level`]: the scope of a lock or a latch |
//! | `hash_prefix` | the prefix byte that spreads keys over 256 buckets |

mod hash_prefix;
mod level;

pub use hash_prefix::{DEFAULT_REGIONS, JAVA_REGIONS};
pub(crate) use hash_prefix::{bucket_split_keys, distributed_row};
pub use level::Level;
