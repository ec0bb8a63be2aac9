//! The range of leases, and the margin by which a client counts a lease as expired before the
//! server does.

use std::time::Duration;

use crate::error::{Error, Result};

/// The shortest lease: a call to the server and back must fit into it several times.
pub const MIN_LEASE: Duration = Duration::from_millis(100);
/// The longest lease.
pub const MAX_LEASE: Duration = Duration::from_secs(30 * 24 * 3_600);
/// The lease of a request that names none.
pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// What is taken off a lease for clocks that do not go alike: this part of it, or
/// [`MAX_SKEW_MARGIN`] at most.
const MARGIN: u32 = 10;
/// The longest that is taken off a lease for clocks, unless said.
pub const MAX_SKEW_MARGIN: Duration = Duration::from_secs(1);
/// How much earlier than the server this side counts a lease as over, unless this was said.
pub(crate) fn margin(lease: Duration, said: Option<Duration>) -> Duration {
    said.unwrap_or_else(|| (lease / MARGIN).min(MAX_SKEW_MARGIN))
}

/// Refuses a margin that leaves nothing of the lease.
pub(crate) fn check_margin(lease: Duration, margin: Duration) -> Result<()> {
    if margin < lease {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a margin of {margin:?} leaves nothing of a lease of {lease:?}"
    )))
}
