//! Many parties that change one row at once, in virtual time.

use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use futures::future::try_join_all;
use hbase_client::Effect;
use hbase_fake::FakeHBase;
use tokio::time::Instant;

use crate::{
    Error, ErrorKind, Level, Result,
    latch::{
        LatchState,
        in_virtual_time::{cluster, processes},
        optimistic::*,
    },
};

/// Returns how long it takes until all parties have arrived at a latch.
async fn at_a_latch(hbase: &FakeHBase, parties: usize) -> Result<Duration> {
    let processes = processes(hbase, parties, Duration::from_secs(60)).await?;
    let latches = processes
        .iter()
        .map(|latches| latches.latch(Level::Dc, "all"))
        .collect::<Result<Vec<_>>>()?;
    latches[0].init(parties as u64, Duration::from_secs(600)).await?;
    let began = Instant::now();
    try_join_all(latches.iter().enumerate().map(|(party, latch)| async move {
        let name = party.to_string();
        latch.arrive(&name).await
    }))
    .await?;
    let took = began.elapsed();
    assert_eq!(latches[0].show().await?.state, LatchState::Reached);
    Ok(took)
}

/// Returns how long it takes until all parties have arrived at a barrier.
async fn at_a_barrier(hbase: &FakeHBase, parties: usize) -> Result<Duration> {
    let processes = processes(hbase, parties, Duration::from_secs(60)).await?;
    let barriers = processes
        .iter()
        .map(|latches| latches.barrier("all"))
        .collect::<Result<Vec<_>>>()?;
    let count = u32::try_from(parties).unwrap_or(u32::MAX);
    barriers[0].create(count, Duration::from_secs(600)).await?;
    let began = Instant::now();
    let arrivals = try_join_all(barriers.iter().enumerate().map(|(party, barrier)| async move {
        let name = party.to_string();
        barrier.arrive(&name).await
    }))
    .await?;
    assert!(arrivals.iter().all(|arrival| arrival.generation() == 1));
    Ok(began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn parties_that_arrive_at_once_all_arrive_within_seconds() {
    for (parties, limit) in [(20, 1), (100, 3), (300, 3)] {
        let limit = Duration::from_secs(limit);
        let hbase = cluster();
        let latch = at_a_latch(&hbase, parties).await.unwrap();
        let barrier = at_a_barrier(&hbase, parties).await.unwrap();
        assert!(
            latch < limit && barrier < limit,
            "{parties} parties: {latch:?} at a latch, {barrier:?} at a barrier"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn change_that_conflicts_until_its_deadline_is_a_conflict() {
    let hbase = cluster();
    let processes = processes(&hbase, 100, Duration::from_millis(200)).await.unwrap();
    let barrier = processes[0].barrier("all").unwrap();
    barrier.create(100, Duration::from_secs(600)).await.unwrap();
    let latch = processes[0].latch(Level::Dc, "all").unwrap();
    latch.init(100, Duration::from_secs(600)).await.unwrap();
    let arrivals = processes.iter().enumerate().map(|(party, latches)| async move {
        let name = party.to_string();
        let latch = latches.latch(Level::Dc, "all")?.arrive(&name).await;
        let barrier = latches.barrier("all")?.arrive(&name).await;
        Ok::<_, Error>([latch.err(), barrier.err()])
    });
    let failed: Vec<Error> = try_join_all(arrivals)
        .await
        .unwrap()
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    // The deadline may cut off an answer.
    let (unknown, conflicts): (Vec<_>, Vec<_>) = failed.iter().partition(|error| error.is_outcome_unknown());
    assert!(conflicts.len() > 50 && unknown.len() < 10, "{failed:?}");
    for error in conflicts {
        assert!(
            error.kind() == ErrorKind::Conflict && error.is_retryable(),
            "{error}"
        );
    }
}

/// A row with a note and another cell, both of which are conditions of a change. The first answer is
/// lost with its request, and another program changes the other cell meanwhile.
#[derive(Default)]
struct LostOnce(Mutex<Row>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Row {
    note: u64,
    other: u64,
    writes: u64,
}

impl LostOnce {
    fn row(&self) -> MutexGuard<'_, Row> {
        self.0.lock().unwrap()
    }
}

impl Change for LostOnce {
    type Row = Row;
    type Plan = ();
    type Answer = u64;

    async fn read(&self) -> Result<Row> {
        Ok(*self.row())
    }

    async fn plan(&self, _: &mut Row) -> Result<Planned<(), u64>> {
        Ok(Planned::Write(()))
    }

    async fn write(&self, (): &(), base: &Row) -> Result<(Verdict, Row)> {
        let mut row = self.row();
        row.writes += 1;
        if row.writes == 1 {
            row.other += 1;
            let lost = Error::new(ClientErrorKind::ConnectionLost, "lost");
            return Err(lost.with_effect(Effect::Unknown));
        }
        if (row.note, row.other) == (base.note, base.other) {
            row.note += 1;
        }
        Ok((self.judge(&(), base, &row), *row))
    }

    fn judge(&self, (): &(), base: &Row, row: &Row) -> Verdict {
        if row.note == base.note {
            Verdict::Open
        } else {
            Verdict::Applied
        }
    }

    async fn complete(&mut self, (): (), row: Row) -> Result<Option<u64>> {
        Ok(Some(row.writes))
    }

    fn contended() -> Error {
        Error::new(ErrorKind::Conflict, "contended")
    }
}

#[tokio::test(start_paused = true)]
async fn lost_change_whose_copy_is_refused_is_planned_again() {
    let deadline = Instant::now() + Duration::from_secs(60);
    let writes = apply(&mut LostOnce::default(), deadline).await.unwrap();
    assert_eq!(
        writes, 3,
        "the lost one, its copy, and the one that was planned again"
    );
}
