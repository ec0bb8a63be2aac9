use futures::future::try_join_all;
use hbase_fake::{FakeHBase, Latency};
use tokio::time::sleep;

use super::*;
use crate::{
    Level,
    coordination::{ReadWriteLock, Semaphore},
    lock::{LockManager, LockManagerOptions},
};

#[tokio::test(start_paused = true)]
async fn pauses_grow_and_the_last_one_ends_when_it_is_time_to_stop() {
    let began = Instant::now();
    let mut waiting = Waiting::new(began + Duration::from_secs(3), MAX_PAUSE);
    let mut number = 0;
    while waiting.goes_on().await {
        number += 1;
    }
    assert!((10..30).contains(&number), "{number}");
    assert_eq!(began.elapsed().as_secs(), 3);
    assert!(!Waiting::new(began, MAX_PAUSE).goes_on().await);
}

const HOLD: Duration = Duration::from_millis(50);
const LASTS: Duration = Duration::from_secs(10);

/// Opens a table of locks as so many processes, with round trips of two milliseconds.
async fn processes(number: usize) -> Result<(FakeHBase, Vec<LockManager>)> {
    let one_way = Duration::from_micros(900)..Duration::from_micros(1_100);
    let latency = Latency {
        request: one_way.clone(),
        answer: one_way,
        ..Latency::NONE
    };
    let hbase = FakeHBase::builder().servers(1).latency(latency).build();
    hbase.create_table("locks", &["D"], &[]);
    let connection = hbase.connect().await?;
    let open = |_| LockManagerOptions::new("client").open(&connection, "locks");
    let managers = try_join_all((0..number).map(open)).await?;
    Ok((hbase, managers))
}

fn calls(hbase: &FakeHBase) -> usize {
    hbase.calls("Multi") + hbase.calls("Get")
}

/// Holds what a request acquires as often as it can, and returns how long each wait took.
async fn again_and_again(
    hold: Duration,
    mut acquire: impl AsyncFnMut() -> Result<LockGuard>,
) -> Result<Vec<Duration>> {
    let (began, mut waits) = (Instant::now(), Vec::new());
    while began.elapsed() < LASTS {
        let asked = Instant::now();
        let guard = acquire().await?;
        waits.push(asked.elapsed());
        sleep(hold).await;
        assert!(guard.release().await?.is_released());
    }
    Ok(waits)
}

#[test]
fn permits_go_to_all_processes_alike() {
    FakeHBase::run(async |_| {
        for (number, permits) in [(2, 1), (8, 1), (8, 3), (32, 4)] {
            let (hbase, managers) = processes(number).await?;
            Semaphore::create(&managers[0], Level::Xdc, "s", permits).await?;
            let before = calls(&hbase);
            let loops = managers.iter().map(async |locks| {
                let semaphore = Semaphore::open(locks, Level::Xdc, "s").await?;
                again_and_again(HOLD, async || semaphore.permit().wait(LASTS).acquire().await).await
            });
            let each = try_join_all(loops).await?;
            let holds: usize = each.iter().map(Vec::len).sum();
            let fair = holds as f64 / number as f64;
            let fewest = each.iter().map(Vec::len).min().unwrap_or_default() as f64 / fair;
            let busy = HOLD.as_secs_f64() * holds as f64 / LASTS.as_secs_f64() / f64::from(permits);
            let calls = (calls(&hbase) - before) as f64 / holds as f64;
            let longest = each.iter().flatten().max().copied().unwrap_or_default();
            let rounds = longest.as_secs_f64() * fair / LASTS.as_secs_f64();
            let what = format!(
                "{number} for {permits}: fewest {fewest:.2}, busy {busy:.2}, {calls:.1} calls, {rounds:.1} rounds"
            );
            assert!(fewest >= 0.5, "{what}");
            assert!(busy >= 0.6, "{what}");
            assert!(rounds <= 3.0, "{what}");
            assert!(calls <= 12.0, "{what}");
        }
        Ok(())
    });
}

#[test]
fn request_for_all_permits_is_not_overtaken_without_limit() {
    FakeHBase::run(async |_| {
        let (_hbase, managers) = processes(6).await?;
        Semaphore::create(&managers[0], Level::Xdc, "s", 4).await?;
        let loops = managers.iter().enumerate().map(async |(number, locks)| {
            let semaphore = Semaphore::open(locks, Level::Xdc, "s").await?;
            let count = if number == 0 { 4 } else { 1 };
            again_and_again(HOLD, async || {
                semaphore.acquire_many(count).wait(LASTS).acquire().await
            })
            .await
        });
        let each = try_join_all(loops).await?;
        let longest: Vec<_> = each.iter().map(|waits| waits.iter().max()).collect();
        assert!(
            longest.iter().all(|wait| *wait < Some(&Duration::from_secs(1))),
            "{longest:?}"
        );
        Ok(())
    });
}

#[test]
fn neither_readers_nor_writers_starve() {
    FakeHBase::run(async |_| {
        for (number, writers) in [(8, 1), (8, 4), (8, 7)] {
            let (_hbase, managers) = processes(number).await?;
            let loops = managers.iter().enumerate().map(async |(process, locks)| {
                let lock = ReadWriteLock::new(locks, Level::Xdc, "rw")?;
                let request = || {
                    if process < writers {
                        lock.write()
                    } else {
                        lock.read()
                    }
                };
                again_and_again(HOLD, async || request().wait(LASTS).acquire().await).await
            });
            let each = try_join_all(loops).await?;
            let longest: Vec<_> = each.iter().map(|waits| waits.iter().max()).collect();
            assert!(
                longest.iter().all(|wait| *wait < Some(&Duration::from_secs(3))),
                "{longest:?}"
            );
        }
        Ok(())
    });
}

#[test]
fn tasks_of_one_process_and_requests_for_all_permits_leave_no_gaps() {
    FakeHBase::run(async |_| {
        for (number, tasks, permits) in [(1, 20, 1), (3, 1, 4), (2, 10, 1)] {
            let (_hbase, managers) = processes(number).await?;
            Semaphore::create(&managers[0], Level::Xdc, "s", permits).await?;
            let loops = managers.iter().flat_map(|locks| vec![locks; tasks]);
            let loops = loops.map(async |locks| {
                let semaphore = Semaphore::open(locks, Level::Xdc, "s").await?;
                let request = || semaphore.acquire_many(permits).wait(LASTS);
                again_and_again(HOLD, async || request().acquire().await).await
            });
            let each = try_join_all(loops).await?;
            let holds: usize = each.iter().map(Vec::len).sum();
            let busy = HOLD.as_secs_f64() * holds as f64 / LASTS.as_secs_f64();
            let what = format!("{number} processes of {tasks} tasks: {busy:.2}");
            assert!(busy >= 0.6, "{what}");
        }
        Ok(())
    });
}

/// Many readers of one process wait for as long as one of another.
#[test]
fn readers_of_one_process_do_not_wait_for_a_writer_each() {
    FakeHBase::run(async |_| {
        let (_hbase, managers) = processes(4).await?;
        let lock = ReadWriteLock::new(&managers[0], Level::Xdc, "rw")?;
        let writers = managers[1..].iter().map(async |locks| {
            let lock = ReadWriteLock::new(locks, Level::Xdc, "rw")?;
            again_and_again(4 * HOLD, async || lock.write().wait(LASTS).acquire().await).await
        });
        let readers = async {
            sleep(HOLD).await;
            let (began, reading) = (Instant::now(), HOLD / 10);
            let readers = (0..50).map(async |_| {
                let guard = lock.read().wait(LASTS).acquire().await?;
                sleep(reading).await;
                assert!(guard.release().await?.is_released());
                Ok(began.elapsed())
            });
            try_join_all(readers).await
        };
        let (_, waits) = futures::future::try_join(try_join_all(writers), readers).await?;
        let longest = waits.iter().max().copied().unwrap_or_default();
        assert!(longest <= Duration::from_secs(5), "{longest:?}");
        Ok(())
    });
}

#[test]
fn what_a_process_waits_for_is_not_taken_by_later_requests() {
    FakeHBase::run(async |_| {
        let (_hbase, managers) = processes(3).await?;
        Semaphore::create(&managers[0], Level::Xdc, "s", 4).await?;
        let open = |number: usize| Semaphore::open(&managers[number], Level::Xdc, "s");
        let (holder, waiter, later) = (open(0).await?, open(1).await?, open(2).await?);
        let held = holder.permit().acquire().await?;
        let waiting = tokio::spawn(waiter.acquire_many(4).wait(LASTS).acquire());
        sleep(Duration::from_secs(1)).await;
        let error = later.permit().wait(10 * HOLD).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LockUnavailable);
        assert!(error.to_string().contains("waited longer"), "{error}");
        // Calls that do not wait pass by.
        let passed = later.permit().try_acquire().await?;
        assert!(passed.is_some_and(|permit| permit.is_held()));
        assert!(held.release().await?.is_released());
        assert!(waiting.await??.release().await?.is_released());
        Ok(())
    });
}
