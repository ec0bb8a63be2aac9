//! Calls to the region of a partition, and what must hold before an attempt is sent.
//!
//! An attempt goes only to a region that contains the whole partition, only under a partition rule that
//! was read since this opening of the region, and only to a server with proven capabilities for the
//! call, whose clock has passed the timestamps that could hide its writes. What is missing is
//! established between locating the region and sending: the rule is read, the server is probed, or the
//! call waits.

use std::{slice, sync::Arc};

use bytes::Bytes;
use hbase_client::{
    EndpointCall, Error as ClientError, Get, Row,
    low_level::{ActionAnswer, CallKind, FailedAttempt, MultiCall, RegionCall, RegionLocation},
};
use tokio::time::Instant;

use super::proof::{self, proven_table::ProvenTable, rule_reading, servers::Needs};
use crate::{
    error::{Error, ErrorKind, Result},
    partition::Partition,
};

/// The attempts of a call to the region of one or several partitions.
pub(super) struct PartitionCall<'a> {
    pub(super) table: &'a ProvenTable,
    /// At least one. Probes use the reserved rows of the first one.
    partitions: &'a [Partition],
    needs: Needs,
    /// The timestamp that the server's clock must have passed, beside the floor of the region; `None`
    /// for calls that put nothing for which it matters.
    floor: Option<u64>,
    pub(super) attempts: RegionCall<'a>,
}

/// The reason why an attempt can't be sent to a location.
pub(super) enum NotReady {
    /// A probe failed. Another attempt may succeed.
    Failed(FailedAttempt),
    /// Another attempt does not help.
    Final(Error),
}

impl From<FailedAttempt> for NotReady {
    fn from(failed: FailedAttempt) -> Self {
        Self::Failed(failed)
    }
}

impl From<Error> for NotReady {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl From<ClientError> for NotReady {
    fn from(error: ClientError) -> Self {
        Self::Final(error.into())
    }
}

impl<'a> PartitionCall<'a> {
    /// Begins a call to the region of a partition, for a row of it.
    pub(super) fn new(
        table: &'a ProvenTable,
        partition: &'a Partition,
        row: &'a Bytes,
        kind: CallKind,
        deadline: Instant,
    ) -> Self {
        Self::of_several(table, slice::from_ref(partition), row, kind, deadline)
    }

    /// Begins a call to the region that contains several partitions.
    pub(super) fn of_several(
        table: &'a ProvenTable,
        partitions: &'a [Partition],
        row: &'a Bytes,
        kind: CallKind,
        deadline: Instant,
    ) -> Self {
        let attempts = RegionCall::new(table.table(), "transaction", row, kind, deadline);
        Self {
            table,
            partitions,
            needs: Needs::default(),
            floor: None,
            attempts: attempts.only_this_opening(),
        }
    }

    /// Sends attempts only to servers that are proven to have these capabilities.
    pub(super) fn needing(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// Sends attempts only when the server's clock has passed this timestamp, and those of all
    /// cells that the region had when it was opened.
    pub(super) fn set_floor(&mut self, floor: u64) {
        self.floor = Some(floor);
    }

    /// Returns the partition whose reserved rows probes use.
    pub(super) fn partition(&self) -> &'a Partition {
        &self.partitions[0]
    }

    /// Calls the endpoint.
    pub(super) async fn endpoint(mut self, call: &EndpointCall) -> Result<Bytes> {
        loop {
            let location = self.ready().await?;
            match self.attempts.attempt(&location).endpoint(call).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => self.attempts.recover(failed).await?,
            }
        }
    }

    /// Sends several actions in one call.
    pub(super) async fn multi(mut self, call: &MultiCall) -> Result<Vec<ActionAnswer>> {
        loop {
            let location = self.ready().await?;
            match self.attempts.attempt(&location).multi(call).await {
                Ok(answers) => return Ok(answers),
                Err(failed) => self.attempts.recover(failed).await?,
            }
        }
    }

    /// Reads a row.
    pub(super) async fn get(mut self, get: &Get) -> Result<Option<Row>> {
        loop {
            let location = self.ready().await?;
            match self.attempts.attempt(&location).get(get).await {
                Ok(row) => return Ok(row),
                Err(failed) => self.attempts.recover(failed).await?,
            }
        }
    }

    /// Returns the location for the next attempt, once all that the call relies on holds there.
    ///
    /// # Errors
    ///
    /// Returns an error if the region does not contain the partitions, the rule has changed, the server
    /// lacks a capability, or the deadline passes. It has the effect of earlier attempts.
    pub(super) async fn ready(&mut self) -> Result<Arc<RegionLocation>> {
        loop {
            let location = locate_whole(&mut self.attempts, self.partitions).await?;
            match self.prepare(&location).await {
                // The region may have moved, or have been opened again, while the call waited.
                Ok(has_waited) if has_waited && !self.attempts.is_current(&location) => {}
                Ok(_) => return Ok(location),
                Err(reason) => self.recover(&location, reason).await?,
            }
        }
    }

    /// Prepares the next attempt after something that it relies on could not be established.
    pub(super) async fn recover(&mut self, location: &RegionLocation, reason: NotReady) -> Result<()> {
        match reason {
            NotReady::Failed(failed) => Ok(self.attempts.recover(failed).await?),
            NotReady::Final(error) => Err(self.attempts.fail(location, error)),
        }
    }

    /// Establishes what the call relies on, and returns whether it had to wait for that. The slow steps are
    /// rare, and boxed to keep the futures of commits small.
    async fn prepare(&mut self, location: &Arc<RegionLocation>) -> Result<bool, NotReady> {
        let mut has_waited = false;
        let (table, deadline) = (self.table, self.attempts.deadline());
        let (region, opening) = (&location.region().name, location.opening());
        if !table.watch().covers(region, opening) {
            if Box::pin(rule_reading::read_since_opening(table, deadline)).await? {
                table.watch().cover(region.clone(), opening);
            }
            has_waited = true;
        }
        if let Some(lacking) = table.servers().lacking(location.server(), self.needs) {
            Box::pin(proof::prove(self, location, lacking)).await?;
            has_waited = true;
        }
        if let Some(floor) = self.floor
            && proof::may_be_early(table, self.partition(), location, floor)
        {
            Box::pin(proof::let_clock_pass(self, location, floor)).await?;
            has_waited = true;
        }
        Ok(has_waited)
    }
}

/// Returns the location of a region that contains all of these partitions.
///
/// # Errors
///
/// Returns [`PartitionCut`](ErrorKind::PartitionCut) if there is none.
pub(super) async fn locate_whole(
    attempts: &mut RegionCall<'_>,
    partitions: &[Partition],
) -> Result<Arc<RegionLocation>> {
    loop {
        let location = attempts.locate().await?;
        let region = location.region();
        let Some(partition) = partitions.iter().find(|one| !one.is_whole_in(region)) else {
            return Ok(location);
        };
        attempts.look_again(&location, cut(partition, &region.range_text()))?;
    }
}

/// Returns the error of a partition whose rows lie in two regions.
pub(super) fn cut(partition: &Partition, range: &str) -> Error {
    Error::new(
        ErrorKind::PartitionCut,
        format!("partition {partition} is cut in two: the region of its first row, {range}, does not have all of it"),
    )
    .with_hint("merge its regions")
}

#[cfg(test)]
mod tests {
    use std::{error::Error as StdError, time::Duration};

    use futures::future::join_all;
    use hbase_client::{Durability, Effect, Put, Table, low_level::RegionAction};
    use hbase_fake::{Call, FakeHBase, Latency};

    use super::*;
    use crate::{PartitionedTable, error::ClientErrorKind, txn::Outcome};

    fn run(test: impl AsyncFnOnce(&FakeHBase) -> Result<(), Box<dyn StdError>>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let millisecond = Duration::from_millis(1)..Duration::from_millis(2);
            let latency = Latency {
                request: millisecond.clone(),
                answer: millisecond,
                ..Latency::NONE
            };
            let hbase = FakeHBase::builder().servers(2).latency(latency).build();
            test(&hbase).await.unwrap();
        });
    }

    #[test]
    fn commits_after_a_move_share_the_read_of_the_rule_and_the_probes() {
        run(async |hbase| {
            hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
            let orders = PartitionedTable::open(&hbase.connect().await?, "orders").await?;
            let commit_all = async || {
                let commits = (0..500).map(|prefix| {
                    let prefix = format!("{prefix:03}");
                    let put = Put::new(format!("{prefix}a")).cell("f", "q", "v");
                    let transaction = orders.transaction(prefix).put(put).recorded();
                    async move { transaction.commit().await }
                });
                let outcomes = join_all(commits).await;
                assert!(outcomes.iter().all(Outcome::is_committed), "{outcomes:?}");
            };
            commit_all().await;
            let calls = || ["GetTableDescriptors", "Multi"].map(|method| hbase.calls(method));
            let before = calls();
            hbase.move_region("orders", "000", 1);
            commit_all().await;
            let [descriptors, multis] = calls();
            assert!(descriptors - before[0] <= 2, "{} reads", descriptors - before[0]);
            // The clocks are compared, once.
            assert!(multis - before[1] <= 2, "{} calls", multis - before[1]);
            Ok(())
        });
    }

    /// Begins a call whose first attempt, of this kind, has its answer lost.
    async fn after_a_lost_answer<'a>(
        hbase: &FakeHBase,
        table: &'a Table,
        row: &'a Bytes,
        probe: bool,
    ) -> Result<RegionCall<'a>, Box<dyn StdError>> {
        let lost = hbase.fault(Call::Multi.on("orders").lose_answer().times(1));
        let put = Put::new(row.clone()).cell("f", "q", "v");
        let multi = MultiCall {
            row: row.clone(),
            actions: vec![RegionAction::Atomic(vec![put.into()])],
            durability: Durability::SyncWal,
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut call = RegionCall::new(table, "test", row, CallKind::IdempotentWrite, deadline);
        let location = call.locate().await?;
        let attempt = if probe {
            call.probe(&location, "probing")
        } else {
            call.attempt(&location)
        };
        let failed = attempt.multi(&multi).await.unwrap_err();
        assert_eq!(lost.happened(), 1);
        call.recover(failed).await?;
        Ok(call)
    }

    #[test]
    fn error_between_attempts_has_the_effect_of_those_before_and_not_of_probes() {
        run(async |hbase| {
            hbase.create_table("orders", &["f"], &[]);
            let table = hbase.connect().await?.table("orders")?;
            let row = Bytes::from_static(b"a");
            for (probe, effect) in [(false, Effect::Unknown), (true, Effect::None)] {
                let mut call = after_a_lost_answer(hbase, &table, &row, probe).await?;
                let location = call.locate().await?;
                let error = Error::new(ClientErrorKind::Server, "the region must not be called");
                assert_eq!(call.fail(&location, error).effect(), effect, "{probe}");
            }
            Ok(())
        });
    }

    #[test]
    fn location_is_refused_once_before_its_error_is_final() {
        run(async |hbase| {
            hbase.create_table("orders", &["f"], &[]);
            let table = hbase.connect().await?.table("orders")?;
            let row = Bytes::from_static(b"a");
            let mut call = after_a_lost_answer(hbase, &table, &row, false).await?;
            let refusal = || Error::new(ErrorKind::PartitionCut, "cut");
            let location = call.locate().await?;
            call.look_again(&location, refusal())?;
            let location = call.locate().await?;
            let error = call.look_again(&location, refusal()).unwrap_err();
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::PartitionCut, Effect::Unknown)
            );
            Ok(())
        });
    }
}
