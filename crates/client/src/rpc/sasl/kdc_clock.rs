//! The clock of the key distribution centre.

use std::{sync::Arc, time::Duration};

use hbase_gssapi::{Credentials, KdcTime};
use tokio::time::timeout;

use super::{authentication_error::AuthenticationError, thread::on_thread};
use crate::{environment::Environment, model::KdcClock};

/// Compares the wall clock with that of a key distribution centre of the client's realm. The library
/// may have adopted the latter for its own purposes, but does not set this one.
pub(super) async fn compare(
    credentials: Credentials,
    environment: Arc<dyn Environment>,
    patience: Duration,
) -> Result<KdcClock, AuthenticationError> {
    // The times are read on the thread, whose start may be delayed.
    let compared = on_thread(move || {
        let asked = environment.wall_clock();
        let time = KdcTime::ask(&credentials).map_err(AuthenticationError::NoKdcTime)?;
        let answered = environment.wall_clock();
        Ok(KdcClock::new(asked, time.earliest..=time.latest, answered))
    });
    match timeout(patience, compared).await {
        Ok(compared) => compared,
        Err(_) => Err(AuthenticationError::KdcTimeout(patience)),
    }
}
