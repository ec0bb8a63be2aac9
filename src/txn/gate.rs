//! Checks and establishes the preconditions of a transaction's call to a region.
//!
//! A call goes only to a region that contains the whole partition, only under a partition rule that
//! was read since this opening of the region, and only to a server with proven capabilities for the
//! call. A closed gate records what is missing, then reads the rule or proves the server, and
//! repeats the call.

use std::{
    slice,
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;
use hbase_client::{
    Effect, EndpointCall, Error as ClientError, Get, Partition, Row,
    low_level::{ActionAnswer, MultiCall, RegionGuard, ServingRegion, TableCalls, Verdict},
};
use tokio::time::Instant;

use super::{proof, proven_table::ProvenTable, region_guard::cut, rule_reading, servers::Needs};
use crate::error::{ClientErrorKind, Error, Result};

/// Lets a call pass to the region of its partitions, or records what is missing.
pub(super) struct Gate<'a> {
    table: &'a ProvenTable,
    /// At least one. The servers of the first one's region are proven.
    partitions: &'a [Partition],
    needs: Needs,
    closed: Mutex<Option<MissingPrecondition>>,
    /// The possible effect of attempts that the gate stopped later.
    effect: Effect,
}

/// The reason why a gate is closed, if the gate can open itself.
enum MissingPrecondition {
    /// The rule was not read since this opening of the region.
    RuleUnread(Bytes, i64),
    /// These capabilities of the server are not proven.
    Unproven(Needs),
}

impl<'a> Gate<'a> {
    pub(super) fn new(table: &'a ProvenTable, partition: &'a Partition, needs: Needs) -> Self {
        Self::of_several(table, slice::from_ref(partition), needs)
    }

    /// Creates the gate of a call to several partitions of one region.
    pub(super) fn of_several(table: &'a ProvenTable, partitions: &'a [Partition], needs: Needs) -> Self {
        Self {
            table,
            partitions,
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

    /// Reads a row of the partition's region, once the gate is open.
    pub(super) async fn get(mut self, get: &Get, deadline: Instant) -> Result<Option<Row>> {
        loop {
            let table = self.table.table();
            match table.get_where("transaction", get, &self, deadline).await {
                Ok(row) => return Ok(row),
                Err(error) => self.open(error.into(), deadline).await?,
            }
        }
    }

    /// Opens the gate; the caller then repeats the call.
    ///
    /// # Errors
    ///
    /// Returns the call's own error if the gate did not stop it, else the reason why the gate stays
    /// closed. The error has the effect of all attempts since the gate was created: a call that was
    /// stopped may have been applied by an earlier attempt.
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
            Some(MissingPrecondition::RuleUnread(region, opening)) => {
                let read = rule_reading::read_again(self.table, deadline).await;
                if read.is_ok() {
                    self.table.watch().cover(region, opening);
                }
                read
            }
            Some(MissingPrecondition::Unproven(needs)) => {
                proof::prove(self.table, &self.partitions[0], needs, deadline).await
            }
        };
        opened.map_err(|error| error.with_effect(self.effect))
    }

    fn stop(&self, why: MissingPrecondition) -> Verdict {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        Verdict::Stop(ClientError::new(
            ClientErrorKind::Server,
            "the region must be checked before it is called",
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
        if let Some(partition) = self.partitions.iter().find(|one| !one.is_whole_in(region)) {
            return Verdict::LookAgain(cut(partition, &region.range_text()));
        }
        if !self.table.watch().covers(&region.name, opening) {
            return self.stop(MissingPrecondition::RuleUnread(region.name.clone(), opening));
        }
        match self.table.servers().lacking(server, self.needs) {
            Some(lacking) => self.stop(MissingPrecondition::Unproven(lacking)),
            None => Verdict::Pass,
        }
    }
}
