//! Increments and appends whose answers are lost: each counts once, or its outcome is unknown.

use std::time::Duration;

use futures::future::join_all;
use hbase_client::Error;
use hbase_txn::client::{Append, Get, Increment, Table};

use super::Rig;
use crate::{
    cluster::FAMILY,
    proxy::{Action, Proxy},
    regions::Shuffler,
    settings::Settings,
};

const TASKS: usize = 16;
const ROW: &str = "iii-counter";

/// What tasks were reported of their calls.
#[derive(Default)]
struct Reported {
    counted: i64,
    unknown: Vec<Error>,
    failed: Vec<Error>,
}

impl Reported {
    fn note(&mut self, added: hbase_client::Result<()>) {
        match added {
            Ok(()) => self.counted += 1,
            Err(error) if error.is_outcome_unknown() => self.unknown.push(error),
            Err(error) => self.failed.push(error),
        }
    }

    fn add(&mut self, other: Self) {
        self.counted += other.counted;
        self.unknown.extend(other.unknown);
        self.failed.extend(other.failed);
    }

    /// Returns the number of those that were counted, which are all.
    fn all_counted(&self) -> i64 {
        let (unknown, failed) = (&self.unknown, &self.failed);
        assert!(
            unknown.is_empty() && failed.is_empty(),
            "unknown: {unknown:#?}, failed: {failed:#?}"
        );
        self.counted
    }

    /// What was counted is stored, and of what is unknown, some may be.
    fn explains(&self, stored: i64) {
        let (counted, unknown, failed) = (self.counted, self.unknown.len(), self.failed.len());
        let story = format!("{counted} counted, {unknown} unknown, {failed} failed, {stored} stored");
        println!("{story}");
        assert!((counted..=counted + unknown as i64).contains(&stored), "{story}");
    }
}

/// Cuts connections at some of the increments and appends, so that most of their answers are lost: at
/// about 60 in all.
fn cut_some(proxy: &Proxy, calls: usize, mut rng: fastrand::Rng) {
    let of = u32::try_from(calls / 10).unwrap().max(100);
    proxy.rule(move |request| match request.method.as_str() {
        "Mutate" | "Multi" => match rng.u32(..of) {
            0 => Action::CutAfterRequest,
            1 => Action::CutBeforeAnswer,
            2 => Action::CutInAnswer,
            3 => Action::DropAnswer,
            4 => Action::Duplicate,
            5 => Action::Again(Duration::from_millis(100)),
            _ => Action::Pass,
        },
        _ => Action::Pass,
    });
}

/// The number of rows that batches increment, each in its call.
const BATCH: usize = 50;

fn row(number: usize) -> String {
    format!("{ROW}-{number:02}")
}

/// Adds one to each of some counters, in batches: so many increments in all.
async fn add_batches(table: Table, steps: usize) -> Reported {
    let mut reported = Reported::default();
    for _ in 0..steps.div_ceil(BATCH) {
        let increments = (0..BATCH).map(|number| Increment::new(row(number)).column(FAMILY, "n", 1).into());
        for added in table.batch(increments).await {
            reported.note(added.map(drop));
        }
    }
    reported
}

/// Adds one to the counter, or a letter to the list, so many times.
async fn add(table: Table, steps: usize, appends: bool) -> Reported {
    let mut reported = Reported::default();
    for _ in 0..steps {
        let added = if appends {
            table.append(Append::new(ROW).cell(FAMILY, "list", "x")).await
        } else {
            table.increment(Increment::new(ROW).column(FAMILY, "n", 1)).await
        };
        reported.note(added.map(drop));
    }
    reported
}

async fn add_all(table: &Table, steps: usize, appends: bool) -> Reported {
    in_tasks(|| add(table.clone(), steps.div_ceil(TASKS), appends)).await
}

async fn in_tasks<F: Future<Output = Reported> + Send + 'static>(work: impl Fn() -> F) -> Reported {
    let tasks = (0..TASKS).map(|_| tokio::spawn(work()));
    let all = join_all(tasks).await.into_iter().map(Result::unwrap);
    all.fold(Reported::default(), |mut sum, reported| {
        sum.add(reported);
        sum
    })
}

/// Returns the counter and the length of the list.
async fn stored(table: &Table) -> (i64, i64) {
    let row = table.get(Get::new(ROW)).await.unwrap();
    row.map_or((0, 0), |row| {
        let list = row.value(FAMILY, "list").map_or(0, |list| list.len() as i64);
        (row.get(FAMILY, "n").unwrap().unwrap_or(0), list)
    })
}

/// Returns the sum of the counters of batches.
async fn stored_by_batches(table: &Table) -> i64 {
    let rows = table
        .get_many((0..BATCH).map(|number| Get::new(row(number))))
        .await;
    let numbers = rows.unwrap().into_iter().flatten();
    numbers
        .map(|row| row.get::<i64>(FAMILY, "n").unwrap().unwrap_or(0))
        .sum()
}

/// The time of an operation in a region that moves, and in one that stays, where each must succeed.
const MOVES: Duration = Duration::from_secs(20);
const STAYS: Duration = Duration::from_secs(60);

async fn rig(test: &'static str, settings: &Settings, limit: Duration) -> Rig {
    Rig::new(test, settings, |config| {
        config
            .with_read_timeout(Duration::from_millis(500))
            .with_write_timeout(Duration::from_millis(500))
            .with_operation_timeout(limit)
    })
    .await
}

/// Moves the region of the counters until the additions end.
async fn while_the_region_moves(
    test: &str,
    settings: &Settings,
    rig: &Rig,
    adding: impl Future<Output = Reported> + Send + 'static,
) -> Reported {
    let mut shuffler = Shuffler::new(&rig.connection, rig.table.name(), settings.rng(77));
    let adding = tokio::spawn(adding);
    while !adding.is_finished() {
        shuffler.move_region_of(ROW.as_bytes()).await;
    }
    rig.proxy.pass_all();
    println!("{test}: {} moves", shuffler.done.moved);
    adding.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_are_exact_where_the_region_stays() {
    const TEST: &str = "cut_increments";
    let settings = Settings::of(TEST);
    let rig = rig(TEST, &settings, STAYS).await;
    let steps = Settings::commits(480, 100_000);
    cut_some(&rig.proxy, steps, settings.rng(0));
    let table = rig.table.table();
    let counted = add_all(table, steps, false).await;
    // Values grow with each, so fewer of them.
    let appended = add_all(table, steps / 4, true).await;
    rig.proxy.pass_all();
    let reported = (counted.all_counted(), appended.all_counted());
    println!("{TEST}: {reported:?}");
    assert_eq!(stored(table).await, reported);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_are_exact_or_unknown_where_the_region_moves() {
    const TEST: &str = "cut_moving_increments";
    let settings = Settings::of(TEST);
    let rig = rig(TEST, &settings, MOVES).await;
    let steps = Settings::commits(960, 100_000);
    cut_some(&rig.proxy, steps, settings.rng(0));
    let table = rig.table.table().clone();
    let reported = while_the_region_moves(TEST, &settings, &rig, async move {
        add_all(&table, steps, false).await
    })
    .await;
    let (counter, _) = stored(rig.table.table()).await;
    reported.explains(counter);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_of_batches_are_exact_where_the_region_stays() {
    const TEST: &str = "cut_batches";
    let settings = Settings::of(TEST);
    let rig = rig(TEST, &settings, STAYS).await;
    let steps = Settings::commits(16_000, 400_000);
    cut_some(&rig.proxy, steps / BATCH, settings.rng(0));
    let table = rig.table.table();
    let reported = in_tasks(|| add_batches(table.clone(), steps.div_ceil(TASKS))).await;
    rig.proxy.pass_all();
    let counted = reported.all_counted();
    println!("{TEST}: {counted}");
    assert_eq!(stored_by_batches(table).await, counted);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_of_batches_are_exact_or_unknown_where_the_region_moves() {
    const TEST: &str = "cut_moving_batches";
    let settings = Settings::of(TEST);
    let rig = rig(TEST, &settings, MOVES).await;
    let steps = Settings::commits(16_000, 400_000);
    cut_some(&rig.proxy, steps / BATCH, settings.rng(0));
    let table = rig.table.table().clone();
    let reported = while_the_region_moves(TEST, &settings, &rig, async move {
        in_tasks(|| add_batches(table.clone(), steps.div_ceil(TASKS))).await
    })
    .await;
    reported.explains(stored_by_batches(rig.table.table()).await);
    rig.end().await;
}
