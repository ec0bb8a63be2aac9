//! What must be true before a call of a transaction goes to a region, and how it is made true.
//!
//! A call goes only where the whole partition is, only under the partition rule that was read for this opening of the
//! region, and only to a server that was proven to do what the call relies on. A gate that is closed says what is
//! missing; [`PartitionedTable::open_gate`] finds that out, and the call is made again.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::{
    TransactionId,
    partitioned_table::PartitionedTable,
    probe, record,
    servers::{self, Needs},
};
use crate::{
    client::{
        ActionAnswer, CallKind, EndpointCall, MultiCall, RegionAction, RegionGuard, ServingRegion, Verdict,
    },
    error::{Error, ErrorKind, Result},
    model::{Durability, Get, Partition, Put, ServerName},
};

pub(super) const SERVICE: &str = "MultiRowMutationService";
pub(super) const METHOD: &str = "MutateRows";

/// How long reading the rule again may hold a transaction up.
const RULE_READ: Duration = Duration::from_secs(5);
/// How often a server's time is asked for when the cell that shows it is not there.
const CLOCK_TRIES: usize = 5;
/// How long the cell that shows a server's time is kept.
const CLOCK_TTL: Duration = Duration::from_secs(60);

/// Lets a call pass to the region of a partition, or notes what is missing.
pub(super) struct Gate<'a> {
    table: &'a PartitionedTable,
    partition: &'a Partition,
    needs: Needs,
    closed: Mutex<Option<Closed>>,
}

/// Why a gate is closed, as long as something can be done about it.
enum Closed {
    /// The rule was not read since this opening of the region.
    RuleUnread(Bytes, i64),
    /// The server was not proven to do this.
    Unproven(Needs),
}

impl<'a> Gate<'a> {
    pub(super) fn new(table: &'a PartitionedTable, partition: &'a Partition, needs: Needs) -> Self {
        Self {
            table,
            partition,
            needs,
            closed: Mutex::default(),
        }
    }

    fn stop(&self, why: Closed) -> Verdict {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        Verdict::Stop(Error::new(
            ErrorKind::Server,
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

/// The error of a partition whose rows lie in two regions.
pub(super) fn cut(partition: &Partition, range: &str) -> Error {
    Error::new(
        ErrorKind::PartitionCut,
        format!("partition {partition} is cut in two: the region of its first row, {range}, does not have all of it"),
    )
    .with_hint("rejoin it: hbase-txn table repair TABLE; hbase-txn table check lists all that are cut")
}

impl PartitionedTable {
    /// Does what a closed gate asks for; then the call is to be made again.
    ///
    /// # Errors
    ///
    /// The call's own error where the gate was not what stopped it; else why the gate stays closed. What earlier
    /// attempts of the call may have done stays with the error.
    pub(super) async fn open_gate(&self, gate: Gate<'_>, error: Error, deadline: Instant) -> Result<()> {
        let partition = gate.partition;
        let closed = gate.closed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let opened = match closed {
            None => return Err(error),
            Some(Closed::RuleUnread(region, opening)) => {
                let read = self.read_rule_again(deadline).await;
                if read.is_ok() {
                    self.watch().cover(region, opening);
                }
                read
            }
            Some(Closed::Unproven(needs)) => self.prove(partition, needs, deadline).await,
        };
        // A proof changes nothing that anybody asked for: its own effect says nothing of the call's.
        opened.map_err(|why| why.with_effect(error.effect()))
    }

    /// Calls the endpoint in the partition's region, once the gate is open.
    pub(super) async fn call_gated(
        &self,
        partition: &Partition,
        call: &EndpointCall,
        needs: Needs,
        deadline: Instant,
    ) -> Result<Bytes> {
        loop {
            let gate = Gate::new(self, partition, needs);
            let answer = self
                .table()
                .call_endpoint_where("transaction", call, &gate, deadline)
                .await;
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => self.open_gate(gate, error, deadline).await?,
            }
        }
    }

    /// Sends several actions to the partition's region, once the gate is open.
    pub(super) async fn multi_gated(
        &self,
        partition: &Partition,
        call: &MultiCall,
        needs: Needs,
        deadline: Instant,
    ) -> Result<Vec<ActionAnswer>> {
        loop {
            let gate = Gate::new(self, partition, needs);
            let answer = self
                .table()
                .multi_where("transaction", call, &gate, deadline)
                .await;
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => self.open_gate(gate, error, deadline).await?,
            }
        }
    }

    /// Reads the table's rule again, and fails when it is another one. A master that does not answer holds
    /// nothing up: the rule is read again later.
    pub(super) async fn read_rule_again(&self, deadline: Instant) -> Result<()> {
        let deadline = deadline.min(Instant::now() + RULE_READ);
        let failure = match timeout_at(deadline, self.check_rule()).await {
            Ok(Ok(())) => {
                self.watch().read_now();
                return Ok(());
            }
            Ok(Err(changed)) if changed.kind() == ErrorKind::PartitionRuleChanged => {
                self.watch().changed();
                return Err(changed);
            }
            Ok(Err(error)) => error,
            Err(_) => Error::new(ErrorKind::DeadlineExceeded, "the master did not answer in time"),
        };
        tracing::warn!(table = %self.name(), error = %failure, "could not read the partition rule again");
        match self.watch().is_changed() {
            true => Err(Error::new(
                ErrorKind::PartitionRuleChanged,
                "the table had another rule when it was last read, and it can't be read now",
            )
            .with_source(failure)),
            false => Ok(()),
        }
    }

    async fn prove(&self, partition: &Partition, needs: Needs, deadline: Instant) -> Result<()> {
        if needs.conditions {
            self.prove_conditions(partition, deadline).await?;
        }
        if needs.clock {
            self.compare_clocks(partition, deadline).await?;
        }
        if needs.atomic_multi {
            self.prove_atomic_multi(partition, deadline).await?;
        }
        Ok(())
    }

    /// Sends two conditions that exclude each other, and nothing else: a server that does not answer false does not
    /// honour conditions, and would apply what stands under them.
    async fn prove_conditions(&self, partition: &Partition, deadline: Instant) -> Result<()> {
        let call = probe::contradiction(partition.first_key(), &self.trial_family());
        let place = Place::of(partition);
        let answer = self
            .table()
            .call_endpoint_where("proving conditions", &call, &place, deadline)
            .await?;
        let honoured = probe::is_refused(answer)?;
        let server = place.into_server()?;
        match honoured {
            true => {
                self.servers().honours_conditions(server);
                Ok(())
            }
            false => Err(Error::new(
                ErrorKind::ConditionsUnsupported,
                "the region server takes conditions that can't hold for true, and would apply what stands under them",
            )
            .at_server(&server.address())
            .with_hint("conditions and records need HBase 2.4.5 or later on every region server")),
        }
    }

    /// Compares clocks with a server, if that was not done lately and the table has a family for it.
    pub(super) async fn know_the_time(&self, partition: &Partition, deadline: Instant) -> Result<()> {
        match self.terms().replay_window.is_some() && !self.servers().has_compared_clocks() {
            true => self.compare_clocks(partition, deadline).await,
            false => Ok(()),
        }
    }

    /// Lets the server stamp a cell, in the family of the records, and reads what time it has.
    async fn compare_clocks(&self, partition: &Partition, deadline: Instant) -> Result<()> {
        let Some(row) = partition.reserved_row(b"clock") else {
            return Ok(());
        };
        let mut hidden = None;
        for _ in 0..CLOCK_TRIES {
            let place = Place::of(partition);
            let before = servers::local_now();
            let shown = self.stamp_and_read(row.clone(), &place, deadline).await?;
            let after = servers::local_now();
            let server = place.into_server()?;
            match shown {
                Some(shown) => return self.servers().compare_clock(server, before, shown, after),
                None => hidden = Some(server),
            }
        }
        let error = Error::new(
            ErrorKind::Server,
            "cells that are written to compare clocks are not there afterwards: somebody deletes them, or deletes what is ahead",
        );
        Err(match hidden {
            Some(server) => error.at_server(&server.address()),
            None => error,
        })
    }

    /// Writes a cell without a timestamp, and reads the one that it got. None when it is not there, because another
    /// client's delete of the same millisecond hides it, say.
    async fn stamp_and_read(&self, row: Bytes, place: &Place<'_>, deadline: Instant) -> Result<Option<u64>> {
        // One of its own: an older cell may be stamped later.
        let qualifier = Bytes::copy_from_slice(TransactionId::unique().as_bytes());
        let put = Put::new(row.clone())
            .cell(record::FAMILY, qualifier.clone(), "")
            .ttl(CLOCK_TTL);
        let get = Get::new(row.clone()).column(record::FAMILY, qualifier);
        let call = MultiCall {
            row,
            actions: vec![RegionAction::Atomic(vec![put.into()]), RegionAction::Get(get)],
            durability: Durability::AsyncWal,
            kind: CallKind::IdempotentWrite,
        };
        let answers = self
            .table()
            .multi_where("comparing clocks", &call, place, deadline)
            .await?;
        Ok(match answers.as_slice() {
            [_, ActionAnswer::Row(Some(row))] => row.cells().first().map(|cell| cell.timestamp),
            _ => None,
        })
    }
}

/// Lets a proof pass where the partition is whole, and notes which servers it goes to.
pub(super) struct Place<'a> {
    partition: &'a Partition,
    servers: Mutex<Vec<ServerName>>,
}

impl<'a> Place<'a> {
    pub(super) fn of(partition: &'a Partition) -> Self {
        Self {
            partition,
            servers: Mutex::default(),
        }
    }

    fn into_servers(self) -> Vec<ServerName> {
        self.servers.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server that the last attempt went to, and so the one that answered.
    pub(super) fn into_server(self) -> Result<ServerName> {
        self.into_servers()
            .pop()
            .ok_or_else(|| Error::new(ErrorKind::Server, "a call was answered without having been made"))
    }

    /// The server that all attempts of all calls went to; none if there were several.
    pub(super) fn into_only_server(self) -> Option<ServerName> {
        let mut servers = self.into_servers();
        servers.dedup();
        match servers.as_slice() {
            [_] => servers.pop(),
            _ => None,
        }
    }
}

impl RegionGuard for Place<'_> {
    fn check(&self, serving: ServingRegion<'_>) -> Verdict {
        if !self.partition.is_whole_in(serving.region) {
            return Verdict::LookAgain(cut(self.partition, &serving.region.range_text()));
        }
        self.servers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(serving.server.clone());
        Verdict::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PartitionRule, RegionInfo};

    #[test]
    fn a_server_that_saw_only_a_part_of_a_trial_is_not_the_one_that_was_tried() {
        let rule = PartitionRule::prefix_length(3).unwrap();
        let partition = rule.partition("xxx").unwrap();
        // It has all rows.
        let region = RegionInfo::meta();
        let server = |start_code| ServerName {
            host: "rs1".into(),
            port: 16_020,
            start_code,
        };
        for (start_codes, only) in [
            (&[1, 1][..], Some(1)),
            (&[1, 2], None),
            (&[1, 2, 1], None),
            (&[], None),
        ] {
            let place = Place::of(&partition);
            for start_code in start_codes {
                let _ = place.check(ServingRegion {
                    region: &region,
                    server: &server(*start_code),
                    opening: 1,
                });
            }
            assert_eq!(place.into_only_server(), only.map(server), "{start_codes:?}");
        }
    }
}
