//! What must be true before a call of a transaction goes to a region, and how it is made true.
//!
//! A call goes only where the whole partition is, only under the partition rule that was read for
//! this opening of the region, and only to a server that was proven to do what the call relies on.
//! A closed gate notes what is missing; the gate then reads the rule or proves the server, and
//! makes the call again.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use hbase_client::{
    Effect, EndpointCall, Error as ClientError, Partition,
    low_level::{ActionAnswer, MultiCall, RegionGuard, ServingRegion, TableCalls, Verdict},
};
use tokio::time::Instant;

use super::{proof, proven_table::ProvenTable, region_guard::cut, rule_reading, servers::Needs};
use crate::error::{ClientErrorKind, Error, Result};

/// Lets a call pass to the region of a partition, or notes what is missing.
pub(super) struct Gate<'a> {
    table: &'a ProvenTable,
    partition: &'a Partition,
    needs: Needs,
    closed: Mutex<Option<Closed>>,
    /// What the calls that it stopped may have done before.
    effect: Effect,
}

/// Why a gate is closed, as long as something can be done about it.
enum Closed {
    /// The rule was not read since this opening of the region.
    RuleUnread(Bytes, i64),
    /// The server was not proven to do this.
    Unproven(Needs),
}

impl<'a> Gate<'a> {
    pub(super) fn new(table: &'a ProvenTable, partition: &'a Partition, needs: Needs) -> Self {
        Self {
            table,
            partition,
            needs,
            closed: Mutex::default(),
            effect: Effect::None,
        }
    }

    /// Calls the endpoint in the partition's region, once the gate is open.
    pub(super) async fn call(mut self, call: &EndpointCall, deadline: Instant) -> Result<Bytes> {
        loop {
            let table = self.table.table();
            let answer = table
                .call_endpoint_where("transaction", call, &self, deadline)
                .await;
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => self.open(error.into(), deadline).await?,
            }
        }
    }

    /// Sends several actions to the partition's region, once the gate is open.
    pub(super) async fn multi(mut self, call: &MultiCall, deadline: Instant) -> Result<Vec<ActionAnswer>> {
        loop {
            let table = self.table.table();
            let answer = table.multi_where("transaction", call, &self, deadline).await;
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => self.open(error.into(), deadline).await?,
            }
        }
    }

    /// Does what opens the gate; then the call is to be made again.
    ///
    /// # Errors
    ///
    /// Returns the call's own error if the gate did not stop it, else the reason why the gate stays
    /// closed. Each has the effect of all attempts since the gate was made: an attempt that was
    /// stopped may have been applied before.
    async fn open(&mut self, error: Error, deadline: Instant) -> Result<()> {
        if error.is_outcome_unknown() {
            self.effect = Effect::Unknown;
        }
        let closed = self
            .closed
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let opened = match closed {
            None => Err(error),
            Some(Closed::RuleUnread(region, opening)) => {
                let read = rule_reading::read_again(self.table, deadline).await;
                if read.is_ok() {
                    self.table.watch().cover(region, opening);
                }
                read
            }
            Some(Closed::Unproven(needs)) => proof::prove(self.table, self.partition, needs, deadline).await,
        };
        opened.map_err(|error| error.with_effect(self.effect))
    }

    fn stop(&self, why: Closed) -> Verdict {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        Verdict::Stop(ClientError::new(
            ClientErrorKind::Server,
            "the region must be looked at before it is called",
        ))
    }
}

impl RegionGuard for Gate<'_> {
    fn check(&self, serving: ServingRegion<'_>) -> Verdict {
        let ServingRegion {
            region,
            server,
            opening,
        } = serving;
        if !self.partition.is_whole_in(region) {
            return Verdict::LookAgain(cut(self.partition, &region.range_text()));
        }
        if !self.table.watch().covers(&region.name, opening) {
            return self.stop(Closed::RuleUnread(region.name.clone(), opening));
        }
        match self.table.servers().lacking(server, self.needs) {
            Some(lacking) => self.stop(Closed::Unproven(lacking)),
            None => Verdict::Pass,
        }
    }
}
