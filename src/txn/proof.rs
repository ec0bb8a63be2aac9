//! Proves what a call relies on, with separate calls that change no user data: that a server
//! honours conditions, how far its clock is off, and that it applies a `Multi` over several rows as
//! a whole.

use std::time::Duration;

use bytes::Bytes;
use hbase_client::{
    Durability, Effect, Get, Increment, Partition, Put, ServerName,
    low_level::{ActionAnswer, CallKind, MultiCall, RegionAction, TableCalls},
};
use tokio::time::{Instant, sleep_until};

use super::{
    probe,
    proven_table::ProvenTable,
    record::{self, TransactionId},
    region_guard::VisitedServers,
    reserved_rows::{CLOCK, TRIALS, reserved_row},
    servers::{self, Needs, ServerTime},
};
use crate::error::{ClientErrorKind, Error, ErrorKind, Result};

/// How often a server's time is read if the cell that shows it is missing.
const CLOCK_TRIES: usize = 5;
/// How long the cell that shows a server's time is kept.
const CLOCK_TTL: Duration = Duration::from_secs(60);
/// How long the rows of a test are kept.
const TRIAL_TTL: Duration = Duration::from_secs(5);
/// A family that no table has.
const NO_FAMILY: &str = "_txn-no-such-family";

/// Proves the needed capabilities of the server of a partition.
///
/// # Errors
///
/// Returns an error if the server lacks one of them, or the test could not be run.
pub(super) async fn prove(
    table: &ProvenTable,
    partition: &Partition,
    needs: Needs,
    deadline: Instant,
) -> Result<()> {
    if needs.conditions {
        prove_conditions(table, partition, deadline).await?;
    }
    if needs.clock {
        reserved_row(partition, CLOCK, "records")?;
        compare_clocks(table, partition, deadline).await?;
    }
    if needs.atomic_multi {
        prove_atomic_multi(table, partition, deadline).await?;
    }
    Ok(())
}

/// Sends two conditions that exclude each other and no mutations. A server that does not answer
/// `false` ignores conditions and would apply mutations under them.
async fn prove_conditions(table: &ProvenTable, partition: &Partition, deadline: Instant) -> Result<()> {
    let call = probe::contradiction(partition.first_key(), &table.terms().trial_family());
    let visited = VisitedServers::of(partition);
    let answer = table
        .table()
        .call_endpoint_where("proving conditions", &call, &visited, deadline)
        .await?;
    let honoured = probe::is_refused(answer)?;
    let server = visited.into_answering()?;
    match honoured {
        true => {
            table.servers().honours_conditions(server);
            Ok(())
        }
        false => Err(Error::new(
            ClientErrorKind::ConditionsUnsupported,
            "the region server takes conditions that can't hold for true, and would apply the mutations under them",
        )
        .at_server(&server.address())
        .with_hint("conditions and records need HBase 2.4.5 or later on every region server")),
    }
}

/// Returns the time of a partition's server. Compares the clocks first unless that was done recently
/// enough to tell whether the clock has passed this timestamp, the newest that the server has just
/// answered.
///
/// Where clocks can't be compared, they are assumed to differ by up to a second.
pub(super) async fn time_at(
    table: &ProvenTable,
    partition: &Partition,
    server: &ServerName,
    timestamp: u64,
    deadline: Instant,
) -> Result<ServerTime> {
    let servers = table.servers();
    let time = servers.time_at(server);
    if table.compares_clocks(partition) {
        let is_enough = match time.past() < timestamp {
            true => servers.knows_precisely(server),
            false => servers.clock_age(server).is_some(),
        };
        if !is_enough {
            compare_clocks(table, partition, deadline).await?;
        }
    }
    Ok(servers.time_at(server))
}

/// Waits until the clock of a partition's server, which can be compared, has passed a timestamp, or
/// learns that it has. The caller checks again.
///
/// # Errors
///
/// Returns [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) at once if that is later than the
/// deadline.
pub(super) async fn let_clock_pass(
    table: &ProvenTable,
    partition: &Partition,
    server: &ServerName,
    timestamp: u64,
    deadline: Instant,
) -> Result<()> {
    let servers = table.servers();
    if !servers.knows_precisely(server) {
        return compare_clocks(table, partition, deadline).await;
    }
    let behind = (timestamp + 1).saturating_sub(servers.time_at(server).earliest);
    let passed_at = Instant::now() + Duration::from_millis(behind);
    if passed_at >= deadline {
        return Err(Error::new(
            ClientErrorKind::DeadlineExceeded,
            format!(
                "the clock of the region server is up to {behind} ms behind a cell of the region that could hide what is written"
            ),
        )
        .with_retryable(true)
        .with_hint("set the clocks right, with NTP say")
        .at_server(&server.address()));
    }
    sleep_until(passed_at).await;
    Ok(())
}

/// Lets the server stamp a cell in the record family, and reads the timestamp. An error has no effect:
/// it may have written its own cell, and nothing of the caller.
async fn compare_clocks(table: &ProvenTable, partition: &Partition, deadline: Instant) -> Result<()> {
    let compared = compare_clocks_once(table, partition, deadline).await;
    compared.map_err(|error| error.with_effect(Effect::None))
}

async fn compare_clocks_once(table: &ProvenTable, partition: &Partition, deadline: Instant) -> Result<()> {
    let Some(row) = partition.reserved_row(CLOCK) else {
        return Ok(());
    };
    let environment = table.environment();
    let mut visited_last = None;
    for _ in 0..CLOCK_TRIES {
        let visited = VisitedServers::of(partition);
        let asked = Instant::now();
        let before = servers::millis(environment.wall_clock());
        let shown = stamp_and_read(table, row.clone(), &visited, deadline).await?;
        let after = servers::millis(environment.wall_clock());
        // If attempts went to several servers, any of them may have stamped the newest cell.
        match (shown, visited.into_only()) {
            (Some(shown), Some(server)) => {
                return table.servers().compare_clock(server, asked, before, shown, after);
            }
            (_, server) => visited_last = server,
        }
    }
    let error = Error::new(
        ClientErrorKind::Server,
        "cells that are written to compare clocks are not there afterwards: another client deletes them, or all cells ahead of the clock, or the region moves each time",
    );
    Err(match visited_last {
        Some(server) => error.at_server(&server.address()),
        None => error,
    })
}

/// Writes a cell without a timestamp and returns the timestamp that the server gave it. Returns
/// `None` if the cell is missing, for example because another client's delete of the same
/// millisecond hides it.
async fn stamp_and_read(
    table: &ProvenTable,
    row: Bytes,
    visited: &VisitedServers<'_>,
    deadline: Instant,
) -> Result<Option<u64>> {
    // A new qualifier, because an older cell may have a later timestamp.
    let qualifier = Bytes::copy_from_slice(TransactionId::unique_in(table.environment()).as_bytes());
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
    let answers = table
        .table()
        .multi_where("comparing clocks", &call, visited, deadline)
        .await?;
    Ok(match answers.as_slice() {
        [_, ActionAnswer::Row(Some(row))] => row.cells().first().map(|cell| cell.timestamp),
        _ => None,
    })
}

/// Tests both sides of atomicity in reserved rows: a change of two rows, and a change that must not
/// be applied because another change in the same call can't be.
async fn prove_atomic_multi(table: &ProvenTable, partition: &Partition, deadline: Instant) -> Result<()> {
    let row = |name| reserved_row(partition, name, "transactions without the endpoint");
    let [one, other] = [row(TRIALS[0])?, row(TRIALS[1])?];
    let family = table.terms().trial_family();
    let qualifier = Bytes::copy_from_slice(TransactionId::unique_in(table.environment()).as_bytes());
    let increment = |row: &Bytes| {
        Increment::new(row.clone())
            .column(family.clone(), qualifier.clone(), 1)
            .ttl(TRIAL_TTL)
    };
    let visited = VisitedServers::of(partition);
    let send = async |actions| {
        let call = MultiCall {
            row: one.clone(),
            actions,
            durability: Durability::AsyncWal,
            // The values of the counters are not checked.
            kind: CallKind::IdempotentWrite,
        };
        table
            .table()
            .multi_where("trying an atomic Multi", &call, &visited, deadline)
            .await
    };
    let both = vec![increment(&one).into(), increment(&other).into()];
    let answers = send(vec![RegionAction::Atomic(both)]).await?;
    let counted = matches!(answers.as_slice(), [ActionAnswer::Applied(cells)] if cells.len() == 2);
    let hidden = Bytes::from_static(b"half");
    let half = vec![
        Put::new(one.clone())
            .cell(family.clone(), hidden.clone(), "x")
            .ttl(TRIAL_TTL)
            .into(),
        Put::new(other.clone()).cell(NO_FAMILY, "", "x").into(),
    ];
    let refused = match send(vec![RegionAction::Atomic(half)]).await {
        Err(error) if error.kind() == ClientErrorKind::FamilyNotFound => true,
        Err(error) => return Err(error.into()),
        Ok(_) => false,
    };
    let get = Get::new(one.clone()).column(family.clone(), hidden);
    let found = send(vec![RegionAction::Get(get)]).await?;
    let absent = matches!(found.as_slice(), [ActionAnswer::Row(None)]);
    let Some(server) = visited.into_only() else {
        // The region moved, so no server has seen the whole test: the gate repeats the test.
        return Ok(());
    };
    if counted && refused && absent {
        table.servers().applies_multi_atomically(server);
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::AtomicityUnsupported,
        "the region server does not apply a Multi over several rows whole or not at all",
    )
    .at_server(&server.address())
    .with_hint("attach MultiRowMutationEndpoint to the table and open it with that"))
}

#[cfg(test)]
mod tests;
