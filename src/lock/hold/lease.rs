//! The range of leases, and the margin by which a client counts a lease as expired before the
//! server does.

use std::time::Duration;

use crate::error::{Error, Result};

/// The shortest lease: several round trips to the server must fit into it.
pub const MIN_LEASE: Duration = Duration::from_millis(100);
/// The longest lease.
pub const MAX_LEASE: Duration = Duration::from_secs(30 * 24 * 3_600);
/// The lease of a request that specifies none.
pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// The default margin is this fraction of the lease, and at most [`MAX_SKEW_MARGIN`].
const MARGIN: u32 = 10;
/// The longest default margin for clock skew.
pub const MAX_SKEW_MARGIN: Duration = Duration::from_secs(1);
/// Returns how much earlier than the server this process counts a lease as expired: the specified
/// margin, or the default.
pub(crate) fn margin(lease: Duration, said: Option<Duration>) -> Duration {
    said.unwrap_or_else(|| (lease / MARGIN).min(MAX_SKEW_MARGIN))
}

/// Refuses a margin that is not shorter than the lease.
pub(crate) fn check_margin(lease: Duration, margin: Duration) -> Result<()> {
    if margin < lease {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a margin of {margin:?} is not shorter than the lease of {lease:?}"
    )))
}
