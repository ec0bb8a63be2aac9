//! Proves what a call relies on, with probes that change no user data: that a server honours
//! conditions, how far its clock is off, and that it applies a `Multi` over several rows as a whole.
//!
//! Each probe is one attempt on the location to which the call is about to go, so it proves that server.
//! Of the calls that wait for one proof, one sends the probe.
//!
//! | file | what |
//! |---|---|
//! | `probe` | the requests that show whether a server honours conditions, and their answers |
//! | `servers` | the proven capabilities of servers |
//! | `region_floor` | the timestamps that a server's clock must have passed before a call |
//! | `opening` | opens a table after proving that transactions are possible on it |
//! | `proven_table` `terms` | a table, and its properties |
//! | `rule_reading` `rule_watch` | rereads the partition rule as it ages |

pub(super) mod opening;
pub(super) mod probe;
pub(super) mod proven_table;
mod region_floor;
pub(super) mod rule_reading;
pub(super) mod rule_watch;
pub(super) mod servers;
pub(super) mod terms;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hbase_client::{
    Durability, Get, Increment, Put, ReadFilter, Scan, TimeRange,
    low_level::{ActionAnswer, FailedAttempt, MultiCall, RegionAction, RegionLocation},
};
use tokio::time::{Instant, sleep_until};

use self::{
    proven_table::ProvenTable,
    servers::{Capability, MAX_SKEW, Needs, ServerTime},
};
use super::{
    partition_call::{NotReady, PartitionCall},
    record::{self, TransactionId},
    reserved_rows::{CLOCK, TRIALS, reserved_row},
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind},
    partition::Partition,
};

/// How often a server's time is read if the cell that shows it is missing.
const CLOCK_TRIES: usize = 5;
/// How long the cell that shows a server's time, or is no counter, is kept.
const CLOCK_TTL: Duration = Duration::from_secs(60);
/// How long the rows of a test are kept.
const TRIAL_TTL: Duration = Duration::from_secs(5);
/// A family that no table has.
const NO_FAMILY: &str = "_txn-no-such-family";
/// The maximum number of bytes of the keys of cells that are ahead. If there are more, their
/// timestamps count as being as far ahead as they can be.
const MAX_FLOOR_BYTES: usize = 64 << 20;
/// The bytes of one answer of the scan, whatever the caller's scans have.
const FLOOR_ANSWER_BYTES: u64 = 1 << 20;

/// Proves the needed capabilities of the server of a location.
///
/// # Errors
///
/// Returns an error if the server lacks one of them, or a probe failed.
pub(super) async fn prove(
    call: &mut PartitionCall<'_>,
    location: &Arc<RegionLocation>,
    needs: Needs,
) -> Result<(), NotReady> {
    if needs.conditions {
        prove_conditions(call, location).await?;
    }
    if needs.clock {
        reserved_row(call.partition(), CLOCK, "records")?;
        compare_clocks(call, location).await?;
    }
    if needs.atomic_multi {
        prove_atomic_multi(call, location).await?;
    }
    if needs.refuses_increment {
        prove_refusal_of_increments(call, location).await?;
    }
    Ok(())
}

/// Sends two conditions that exclude each other and no mutations. A server that does not answer
/// `false` ignores conditions and would apply mutations under them.
async fn prove_conditions(
    call: &mut PartitionCall<'_>,
    location: &Arc<RegionLocation>,
) -> Result<(), NotReady> {
    let (servers, server) = (call.table.servers(), location.server());
    let capability = Capability::Conditions;
    let _turn = servers.turn(server, capability, call.attempts.deadline()).await?;
    if servers.has(server, capability) {
        return Ok(());
    }
    let family = call.table.terms().trial_family();
    let probe = probe::contradiction(call.partition().first_key(), &family);
    let answer = call
        .attempts
        .probe(location, capability.purpose())
        .endpoint(&probe)
        .await?;
    if probe::is_refused(answer)? {
        servers.add(server.clone(), capability);
        return Ok(());
    }
    let what = "the region server takes conditions that can't hold for true, and would apply the mutations under them";
    Err(Error::new(ClientErrorKind::ConditionsUnsupported, what)
        .with_hint("conditions and records need HBase 2.4.5 or later on every region server")
        .into())
}

/// Returns the time of the server of a location. Compares the clocks first unless that was done recently
/// enough to tell whether the clock has passed this timestamp, the newest that the server has just
/// answered.
///
/// Where clocks can't be compared, they are assumed to differ by up to a second.
pub(super) async fn time_at(
    call: &mut PartitionCall<'_>,
    location: &Arc<RegionLocation>,
    timestamp: u64,
) -> Result<ServerTime, NotReady> {
    let (servers, server) = (call.table.servers(), location.server());
    let is_enough = if servers.time_at(server).past() < timestamp {
        servers.knows_precisely(server)
    } else {
        servers.clock_age(server).is_some()
    };
    if !is_enough && call.table.compares_clocks(call.partition()) {
        compare_clocks(call, location).await?;
    }
    Ok(servers.time_at(server))
}

/// Returns whether the clock of a location's server has perhaps not passed a timestamp, or those of the
/// cells that the region had when it was opened.
pub(super) fn may_be_early(
    table: &ProvenTable,
    partition: &Partition,
    location: &RegionLocation,
    floor: u64,
) -> bool {
    let (servers, server) = (table.servers(), location.server());
    let now = servers.local_now();
    let floor = floor.max(table.floors().of(location, now).unwrap_or(u64::MAX));
    let has_passed = region_floor::was_long_ago(floor, now)
        || (servers.clock_age(server).is_some() && servers.time_at(server).earliest > floor);
    !has_passed && table.compares_clocks(partition)
}

/// Waits until the clock of a location's server has passed a timestamp, and those of the cells that the
/// region had when it was opened.
///
/// # Errors
///
/// Returns [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) at once if that is later than the
/// deadline.
pub(super) async fn let_clock_pass(
    call: &mut PartitionCall<'_>,
    location: &Arc<RegionLocation>,
    floor: u64,
) -> Result<(), NotReady> {
    let (table, deadline) = (call.table, call.attempts.deadline());
    let (servers, server) = (table.servers(), location.server());
    if servers.clock_age(server).is_none() {
        compare_clocks(call, location).await?;
    }
    let of_region = match table.floors().of(location, servers.local_now()) {
        Some(known) => known,
        None => find_floor(call, location).await?,
    };
    let floor = floor.max(of_region);
    while servers.time_at(server).earliest <= floor {
        if !servers.knows_precisely(server) {
            compare_clocks(call, location).await?;
        }
        let behind = (floor + 1).saturating_sub(servers.time_at(server).earliest);
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
            .into());
        }
        sleep_until(passed_at).await;
    }
    Ok(())
}

/// Looks for cells and delete markers ahead of the clock of the region's server, which was compared,
/// and returns and records the floor. Of the calls that wait for it, one looks.
async fn find_floor(call: &mut PartitionCall<'_>, location: &Arc<RegionLocation>) -> Result<u64, NotReady> {
    let (table, region, server) = (call.table, location.region(), location.server());
    let (servers, capability) = (table.servers(), Capability::Floor);
    let _turn = servers.turn(server, capability, call.attempts.deadline()).await?;
    if let Some(known) = table.floors().of(location, servers.local_now()) {
        return Ok(known);
    }
    let from = servers.time_at(server).earliest;
    let furthest = from.saturating_add(u64::try_from(MAX_SKEW.as_millis()).unwrap_or(u64::MAX));
    let scan = Scan::new()
        .raw()
        .start_row(region.start_key.clone())
        .stop_row(region.end_key.clone())
        .time_range(TimeRange { from, to: furthest })
        .filter(ReadFilter::key_only())
        .caching(u32::MAX)
        .max_result_size(FLOOR_ANSWER_BYTES)
        .cache_blocks(false);
    let scan = table.terms().user_families().cloned().fold(scan, Scan::family);
    let probe = call.attempts.probe(location, capability.purpose());
    let floor = match probe.scan(&scan, MAX_FLOOR_BYTES).await? {
        Some(rows) => {
            let cells = rows.iter().flat_map(|row| row.cells());
            cells.map(|cell| cell.timestamp).max().unwrap_or(0)
        }
        None => furthest,
    };
    table.floors().set(region.name.clone(), location.opening(), floor);
    Ok(floor)
}

/// Lets the server stamp a cell in the record family, and reads the timestamp.
async fn compare_clocks(
    call: &mut PartitionCall<'_>,
    location: &Arc<RegionLocation>,
) -> Result<(), NotReady> {
    let Some(row) = call.partition().reserved_row(CLOCK) else {
        return Ok(());
    };
    let (servers, server) = (call.table.servers(), location.server());
    let (environment, waiting_since) = (call.table.environment(), Instant::now());
    let deadline = call.attempts.deadline();
    let _turn = servers.turn(server, Capability::Clock, deadline).await?;
    if servers
        .clock_age(server)
        .is_some_and(|age| age <= waiting_since.elapsed())
    {
        return Ok(());
    }
    for _ in 0..CLOCK_TRIES {
        let asked = Instant::now();
        let before = servers::millis(environment.wall_clock());
        let shown = stamp_and_read(call, location, row.clone()).await?;
        let after = servers::millis(environment.wall_clock());
        if let Some(shown) = shown {
            return Ok(servers.compare_clock(server.clone(), asked, before, shown, after)?);
        }
    }
    let what = "cells that are written to compare clocks are not there afterwards: another client deletes them, or all cells ahead of the clock";
    Err(Error::new(ClientErrorKind::Server, what).into())
}

/// Writes a cell without a timestamp and returns the timestamp that the server gave it. Returns
/// `None` if the cell is missing, for example because another client's delete of the same
/// millisecond hides it.
async fn stamp_and_read(
    call: &mut PartitionCall<'_>,
    location: &Arc<RegionLocation>,
    row: Bytes,
) -> Result<Option<u64>, FailedAttempt> {
    // A new qualifier, because an older cell may have a later timestamp.
    let id = TransactionId::unique_in(call.table.environment());
    let qualifier = Bytes::copy_from_slice(id.as_bytes());
    let put = Put::new(row.clone())
        .cell(record::FAMILY, qualifier.clone(), "")
        .ttl(CLOCK_TTL);
    let get = Get::new(row.clone()).column(record::FAMILY, qualifier);
    let probe = MultiCall {
        row,
        actions: vec![RegionAction::Atomic(vec![put.into()]), RegionAction::Get(get)],
        durability: Durability::AsyncWal,
    };
    let purpose = Capability::Clock.purpose();
    let answers = call.attempts.probe(location, purpose).multi(&probe).await?;
    Ok(match answers.as_slice() {
        [_, ActionAnswer::Row(Some(row))] => row.cells().first().map(|cell| cell.timestamp),
        _ => None,
    })
}

/// Tests both sides of atomicity in reserved rows: a change of two rows, and a change that must not
/// be applied because another change in the same call can't be.
async fn prove_atomic_multi(
    call: &mut PartitionCall<'_>,
    location: &Arc<RegionLocation>,
) -> Result<(), NotReady> {
    let (servers, server) = (call.table.servers(), location.server());
    let capability = Capability::AtomicMulti;
    let _turn = servers.turn(server, capability, call.attempts.deadline()).await?;
    if servers.has(server, capability) {
        return Ok(());
    }
    let partition = call.partition();
    let row = |name| reserved_row(partition, name, "transactions without the endpoint");
    let [one, other] = [row(TRIALS[0])?, row(TRIALS[1])?];
    let family = call.table.terms().trial_family();
    let id = TransactionId::unique_in(call.table.environment());
    let qualifier = Bytes::copy_from_slice(id.as_bytes());
    let increment = |row: &Bytes| {
        Increment::new(row.clone())
            .column(family.clone(), qualifier.clone(), 1)
            .ttl(TRIAL_TTL)
    };
    let mut send = async |actions| {
        let probe = MultiCall {
            row: one.clone(),
            actions,
            durability: Durability::AsyncWal,
        };
        let attempt = call.attempts.probe(location, capability.purpose());
        attempt.multi(&probe).await
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
        Err(failed) if failed.kind() == ClientErrorKind::FamilyNotFound => true,
        Err(failed) => return Err(failed.into()),
        Ok(_) => false,
    };
    let get = Get::new(one.clone()).column(family.clone(), hidden);
    let found = send(vec![RegionAction::Get(get)]).await?;
    let absent = matches!(found.as_slice(), [ActionAnswer::Row(None)]);
    if counted && refused && absent {
        servers.add(server.clone(), capability);
        return Ok(());
    }
    let what = "the region server does not apply a Multi over several rows whole or not at all";
    Err(Error::new(ErrorKind::AtomicityUnsupported, what)
        .with_hint("attach MultiRowMutationEndpoint to the table and open it with that")
        .into())
}

/// Puts a cell that is no counter into a reserved row, and sends a call that increments it and puts a cell
/// into another row: the server must refuse it, and put nothing.
async fn prove_refusal_of_increments(
    call: &mut PartitionCall<'_>,
    location: &Arc<RegionLocation>,
) -> Result<(), NotReady> {
    let (servers, server) = (call.table.servers(), location.server());
    let capability = Capability::RefusesIncrement;
    let _turn = servers.turn(server, capability, call.attempts.deadline()).await?;
    if servers.has(server, capability) {
        return Ok(());
    }
    let partition = call.partition();
    let row = |name| reserved_row(partition, name, "transactions across partitions");
    let [one, other] = [row(TRIALS[0])?, row(TRIALS[1])?];
    let family = call.table.terms().trial_family();
    let id = TransactionId::unique_in(call.table.environment());
    let qualifier = Bytes::copy_from_slice(id.as_bytes());
    let put = |row: &Bytes| {
        let put = Put::new(row.clone()).cell(family.clone(), qualifier.clone(), "x");
        put.ttl(CLOCK_TTL)
    };
    let multi = |action| MultiCall {
        row: one.clone(),
        actions: vec![action],
        durability: Durability::AsyncWal,
    };
    let first = multi(RegionAction::Atomic(vec![put(&one).into()]));
    let purpose = capability.purpose();
    call.attempts.probe(location, purpose).multi(&first).await?;
    let increment = Increment::new(one.clone()).column(family.clone(), qualifier.clone(), 1);
    let half = [put(&other).into(), increment.ttl(CLOCK_TTL).into()];
    let half = probe::transaction(one.clone(), &half);
    let refused = match call.attempts.probe(location, purpose).endpoint(&half).await {
        Err(failed) if failed.is_no_counter() => true,
        Err(failed) => return Err(failed.into()),
        Ok(_) => false,
    };
    let get = Get::new(other.clone()).column(family.clone(), qualifier.clone());
    let get = multi(RegionAction::Get(get));
    let found = call.attempts.probe(location, purpose).multi(&get).await?;
    if refused && matches!(found.as_slice(), [ActionAnswer::Row(None)]) {
        servers.add(server.clone(), capability);
        return Ok(());
    }
    let what = "the region server applies a call, or half of it, that increments a cell that is no counter: transactions would pass through the intents of others";
    Err(Error::new(ErrorKind::CrossPartitionUnsupported, what)
        .with_hint("transactions across partitions need HBase 2.4.5 or later on every region server")
        .into())
}

#[cfg(test)]
mod tests;
