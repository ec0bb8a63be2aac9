//! The lease of a scanner on its server.

use std::{borrow::Cow, sync::Arc};

use tokio::time::Instant;

use super::{Answer, ResultScanner, is_over, lost};
use crate::{
    client::{CallKind, RegionCall},
    error::Result,
    wire::pb,
};

impl ResultScanner {
    /// Renews the lease of the open scanner (`hbase.client.scanner.timeout.period`, 60 s by default),
    /// for a reader that works longer than that on the rows of one answer. Returns whether the
    /// server still has the scanner.
    ///
    /// Without an open scanner the scan continues all the same, with a new one after the last
    /// returned row. Only then does it see later changes of the region.
    ///
    /// # Errors
    ///
    /// Returns an error as [`next`](Self::next) does, if the scan cannot continue.
    ///
    /// # Cancel safety
    ///
    /// If a call is dropped, the server may have renewed the lease, or a new scanner continues.
    pub async fn renew_lease(&mut self) -> Result<bool> {
        let Some(open) = &mut self.open else {
            return Ok(false);
        };
        let location = Arc::clone(&open.location);
        if let Some(call) = open.call.as_mut().filter(|call| call.task.is_finished()) {
            // The call stays in its place until its answer is in another one: a drop here loses
            // nothing.
            let called = (&mut call.task).await;
            let (location, answer) = called.unwrap_or_else(|ended| (Arc::clone(&location), Err(lost(ended))));
            (open.answer, open.call, open.location) = (Some(answer), None, location);
        }
        if let Some(call) = &open.call {
            // The server has the scanner while it executes a call.
            let is_in_flight = Instant::now() < call.lost_at();
            if !is_in_flight {
                self.abandon();
            }
            return Ok(is_in_flight);
        }
        let has_ended = match &open.answer {
            Some(Ok((answer, _))) => is_over(answer),
            Some(Err(_)) => true,
            None => false,
        };
        let Some(id) = open.id.filter(|_| !has_ended) else {
            return Ok(false);
        };
        let request = pb::ScanRequest {
            scanner_id: Some(id),
            number_of_rows: Some(0),
            next_call_seq: Some(open.next_call),
            renew: Some(true),
            ..Default::default()
        };
        open.next_call += 1;
        let table = self.table.clone();
        let row = Cow::Borrowed(&location.region.start_key);
        let mut attempts = RegionCall::of_row(
            &table,
            "renewing the lease of a scan",
            row,
            CallKind::Read,
            table.deadline(),
        );
        let attempt = attempts.attempt(&location);
        let renewed: Result<Answer, _> = table.call(&location, "Scan", &request, attempt.limit()).await;
        match attempt.ended(renewed) {
            Ok(_) => Ok(true),
            Err(failure) => {
                self.metrics.failed_calls += 1;
                self.abandon();
                attempts.recover(failure).await?;
                Ok(false)
            }
        }
    }
}
