//! Timestamps of mutations that may be sent again, by the clock of their region server.
//!
//! A server reports its time only by stamping a cell. A delete of a row that does not exist leaves a
//! marker that readers don't see, and a raw scan reads its timestamp.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::{call::Placed, queues::Stamping};
use crate::{
    client::{Table, dispatch::lanes::Operation, server_clocks::Comparison},
    cluster::RegionLocation,
    model::{Delete, Mutation, Scan},
    rpc::{AttemptLimit, CallError, Recovery},
};

/// How long a comparison may take. The uncertainty of the clock is as large.
const MAX_DURATION: Duration = Duration::from_secs(2);
/// The longest pause before a call because stamps are ahead of the clock.
const MAX_PAUSE: Duration = Duration::from_millis(5);
/// Follows a row of the caller in the name of the deleted row. A random number follows.
const CLOCK_ROW: &[u8] = b"\0hbase-client.clock.";

impl Table {
    /// Sets the timestamps of the client. A repeated attempt on the same server has that of the first
    /// one, and has the same effect if both are applied.
    pub(super) async fn stamp(&self, parts: &mut [Placed<'_>]) -> Result<(), CallError> {
        let mut stamped: Option<Option<u64>> = None;
        for Placed { part, location, .. } in parts {
            let Stamping::Client(last) = &part.stamping else {
                continue;
            };
            let above = match last {
                Some((server, _)) if *server == location.server => continue,
                last => last.as_ref().map_or(0, |(_, stamp)| *stamp),
            };
            let stamp = match (stamped, part.mutations.mutations().first()) {
                (Some(stamp), _) if stamp.is_none_or(|stamp| stamp > above) => stamp,
                (_, Some(first)) => {
                    self.stamp_for(location, &part.mutations.row(first), above)
                        .await?
                }
                (_, None) => None,
            };
            stamped = Some(stamp);
            part.stamping = match stamp {
                Some(stamp) => Stamping::Client(Some((location.server.clone(), stamp))),
                None => {
                    part.attempts.repeat_only_if_unapplied();
                    Stamping::Server
                }
            };
        }
        Ok(())
    }

    /// Returns a timestamp for writes of a region: later than all that its server has given and may
    /// give before this call, and than `above`. Returns `None` if the clock of the server can't be
    /// compared, because the user lacks a permission, for example.
    ///
    /// # Errors
    ///
    /// Returns the failure of a call that compares the clock. The writes were not sent.
    async fn stamp_for(
        &self,
        location: &RegionLocation,
        row: &Bytes,
        above: u64,
    ) -> Result<Option<u64>, CallError> {
        let clocks = &self.connection.shared.server_clocks;
        loop {
            if let Some((stamp, ahead)) = clocks.next(&location.server, above) {
                if !ahead.is_zero() {
                    sleep(ahead.min(MAX_PAUSE)).await;
                }
                return Ok(Some(stamp));
            }
            match self.compare_clock(location, row).await {
                Ok(Some(compared)) => clocks.add(&location.server, compared),
                Ok(None) => return Ok(None),
                Err(failure) if failure.classify().recovery == Recovery::Fail => return Ok(None),
                // Nothing of the writes was sent.
                Err(CallError::Lost { cause, .. }) => return Err(CallError::Lost { sent: false, cause }),
                Err(CallError::Timeout { waited, .. }) => {
                    return Err(CallError::Timeout { waited, sent: false });
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    async fn compare_clock(
        &self,
        location: &RegionLocation,
        row: &Bytes,
    ) -> Result<Option<Comparison>, CallError> {
        let number = format!("{:016x}", self.connection.nonce());
        let clock_row = Bytes::from([row, CLOCK_ROW, number.as_bytes()].concat());
        let delete = Mutation::from(Delete::new(clock_row.clone()));
        if delete.check(&self.limits()).is_err() || !location.region.contains(&clock_row) {
            return Ok(None);
        }
        let shared = &self.connection.shared;
        let sent = Instant::now();
        let limit = AttemptLimit::new(sent + MAX_DURATION, true);
        let (options, operation) = (&self.options.call, Operation::mutation(&delete));
        shared.execute_alone(location, options, &operation, limit).await?;
        let answered = Instant::now();
        let behind = [&clock_row[..], &[0]].concat();
        let scan = Scan::new().start_row(clock_row).stop_row(behind).raw();
        let table = self.clone().with_operation_timeout(MAX_DURATION);
        let read = async { table.scan(scan)?.next().await };
        let markers = read.await.map_err(|error| {
            if error.is_retryable() {
                CallError::Timeout {
                    waited: sent.elapsed(),
                    sent: false,
                }
            } else {
                CallError::BadAnswer(error.to_string().into())
            }
        })?;
        let stamps = markers
            .iter()
            .flat_map(|row| row.cells())
            .map(|cell| cell.timestamp);
        Ok(stamps.max().map(|stamp| Comparison {
            sent,
            answered,
            stamp,
        }))
    }
}
