//! Checks and establishes the preconditions of a transaction's call to a region.
//!
//! A call goes only to a region that contains the whole partition, only under a partition rule that
//! was read since this opening of the region, and only to a server with proven capabilities for the
//! call, whose clock has passed the timestamps that could hide its writes. A closed gate records what
//! is missing, then reads the rule, proves the server or waits, and repeats the call.

use std::{
    slice,
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;
use hbase_client::{
    Effect, EndpointCall, Error as ClientError, Get, Partition, Row, ServerName,
    low_level::{ActionAnswer, MultiCall, Pauses, RegionGuard, ServingRegion, TableCalls, Verdict},
};
use tokio::time::Instant;

use super::{
    proof,
    proven_table::ProvenTable,
    region_floor::{self, Opening},
    region_guard::cut,
    rule_reading,
    servers::Needs,
};
use crate::error::{ClientErrorKind, Error, Result};

/// Lets a call pass to the region of its partitions, or records what is missing.
pub(super) struct Gate<'a> {
    table: &'a ProvenTable,
    /// At least one. The servers of the first one's region are proven.
    partitions: &'a [Partition],
    needs: Needs,
    /// The timestamp that the server's clock must have passed, beside the floor of the region; `None`
    /// for calls that put nothing for which it matters.
    floor: Option<u64>,
    closed: Mutex<Option<MissingPrecondition>>,
    /// The possible effect of attempts that the gate stopped later.
    effect: Effect,
    /// The number of times that the gate opened itself.
    openings: u32,
    pauses: Pauses,
    #[cfg(test)]
    is_stuck: bool,
}

/// The number of times that a gate opens itself before the call is repeated after a pause. Further ones
/// are due to a region that keeps moving, or to a proof that has proven nothing.
const OPENINGS_AT_ONCE: u32 = 4;

/// The reason why a gate is closed, if the gate can open itself.
enum MissingPrecondition {
    /// The rule was not read since this opening of the region.
    RuleUnread(Bytes, i64),
    /// These capabilities of the server are not proven.
    Unproven(Needs),
    /// No cells ahead of the server's clock were looked for since this opening of the region.
    FloorUnknown(Opening),
    /// The server's clock has perhaps not passed this timestamp yet.
    Early(ServerName, u64),
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
            floor: None,
            closed: Mutex::default(),
            effect: Effect::None,
            openings: 0,
            pauses: Pauses::after_conflicts(),
            #[cfg(test)]
            is_stuck: false,
        }
    }

    /// Lets the call pass only when the server's clock has passed this timestamp, and those of all
    /// cells that the region had when it was opened.
    pub(super) fn with_floor(mut self, floor: u64) -> Self {
        self.floor = Some(floor);
        self
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
    pub(super) async fn open(&mut self, error: Error, deadline: Instant) -> Result<()> {
        if error.is_outcome_unknown() {
            self.effect = Effect::Unknown;
        }
        let closed = self
            .closed
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let was_closed = closed.is_some();
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
            Some(MissingPrecondition::FloorUnknown(opening)) => {
                region_floor::find(self.table, opening, deadline).await
            }
            Some(MissingPrecondition::Early(server, floor)) => {
                proof::let_clock_pass(self.table, &self.partitions[0], &server, floor, deadline).await
            }
        };
        let opened = match opened {
            Ok(()) if was_closed => self.pause(deadline).await,
            opened => opened,
        };
        opened.map_err(|error| error.with_effect(self.effect))
    }

    /// Returns why a call that is stamped by the server must not be sent yet.
    fn too_early(&self, serving: ServingRegion<'_>, floor: u64) -> Option<MissingPrecondition> {
        let (table, server) = (self.table, serving.server);
        let now = table.servers().local_now();
        let of_region = table.floors().of(serving, now);
        let floor = floor.max(of_region.unwrap_or(u64::MAX));
        if region_floor::was_long_ago(floor, now) || !table.compares_clocks(&self.partitions[0]) {
            return None;
        }
        let clock = Needs {
            clock: true,
            ..Needs::default()
        };
        if let Some(lacking) = table.servers().lacking(server, clock) {
            return Some(MissingPrecondition::Unproven(lacking));
        }
        if of_region.is_none() {
            return Some(MissingPrecondition::FloorUnknown(Opening {
                region: serving.region.clone(),
                server: server.clone(),
                sequence: serving.opening,
            }));
        }
        let has_passed = table.servers().time_at(server).earliest > floor;
        (!has_passed).then(|| MissingPrecondition::Early(server.clone(), floor))
    }

    /// Lets the call be repeated at once a few times, and then after pauses until the deadline.
    async fn pause(&mut self, deadline: Instant) -> Result<()> {
        self.openings += 1;
        if self.openings <= OPENINGS_AT_ONCE || self.pauses.wait_before(deadline).await {
            return Ok(());
        }
        Err(Error::new(
            ClientErrorKind::DeadlineExceeded,
            "gave up: the region was checked, and each time had to be checked again before the call",
        )
        .with_retryable(true))
    }

    /// Makes the gate miss a precondition whose proof succeeds and proves nothing.
    #[cfg(test)]
    fn unable_to_open(mut self) -> Self {
        self.is_stuck = true;
        self
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
            ..
        } = serving;
        if let Some(partition) = self.partitions.iter().find(|one| !one.is_whole_in(region)) {
            return Verdict::LookAgain(cut(partition, &region.range_text()));
        }
        if !self.table.watch().covers(&region.name, opening) {
            return self.stop(MissingPrecondition::RuleUnread(region.name.clone(), opening));
        }
        #[cfg(test)]
        if self.is_stuck {
            return self.stop(MissingPrecondition::Unproven(Needs::default()));
        }
        if let Some(lacking) = self.table.servers().lacking(server, self.needs) {
            return self.stop(MissingPrecondition::Unproven(lacking));
        }
        let too_early = self.floor.and_then(|floor| self.too_early(serving, floor));
        too_early.map_or(Verdict::Pass, |why| self.stop(why))
    }

    fn is_for_one_opening(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hbase_fake::FakeHBase;

    use super::*;
    use crate::txn::{PartitionedTable, probe};

    #[test]
    fn gate_whose_proofs_prove_nothing_ends_by_its_deadline() {
        FakeHBase::run(async |hbase| {
            hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
            let orders = PartitionedTable::open(&hbase.connect().await?, "orders").await?;
            let table = orders.committer().table();
            let partition = table.terms().rule.partition("xxx")?;
            let deadline = Instant::now() + Duration::from_secs(5);
            let call = probe::contradiction(partition.first_key(), &"f".into());
            let gate = Gate::new(table, &partition, Needs::default()).unable_to_open();
            let error = gate.call(&call, deadline).await.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error}");
            assert!(Instant::now() <= deadline);
            Ok(())
        });
    }
}
