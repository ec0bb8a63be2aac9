use futures::future::try_join_all;
use hbase_fake::{Call, FakeHBase, Latency};
use tokio::time::sleep;

use super::*;
use crate::{
    Error, Level,
    lock::{LockManagerOptions, LockTableOptions, manager::two_processes},
};

/// Fills the slots of a lock with tickets that have no TTL, as another program may write them.
async fn fill(location: &LockLocation) -> Result<()> {
    let mut put = Put::new(location.rows.rows[0].clone());
    for slot in 0..SLOTS {
        let ticket = [&1_u64.to_be_bytes()[..], &u128::from(slot).to_be_bytes()].concat();
        put = put.cell(location.rows.family.clone(), column(slot), ticket);
    }
    Ok(location.table.put(put).await?)
}

/// One lock is held at first. The other is free, and an answer takes until the tickets have outlived
/// theirs.
#[test]
fn tickets_that_never_end_are_waited_for_once() {
    FakeHBase::run(async |hbase| {
        let [locks, others] = two_processes(hbase).await?;
        for id in ["held", "free"] {
            let request = locks.lock(Level::Dc, id)?;
            fill(&request.location).await?;
            let mut held = None;
            if id == "held" {
                held = Some(others.lock(Level::Dc, id)?.acquire().await?);
            }
            let waiting = tokio::spawn(request.wait(Duration::from_secs(60)).acquire());
            sleep(Duration::from_secs(1)).await;
            match held {
                Some(held) => assert!(held.release().await?.is_released()),
                None => drop(hbase.fault(Call::Multi.delay_answer(TICKET_TTL).times(1))),
            }
            let released = Instant::now();
            drop(waiting.await??);
            assert!(released.elapsed() < TICKET_TTL * 2, "{id}");
        }
        Ok(())
    });
}

/// Slots are chosen at random, so one run may have a wait of three rounds. With too few slots the
/// middle one of three runs has one of four to five.
#[test]
fn processes_that_compete_wait_for_about_a_round() {
    const HOLD: Duration = Duration::from_millis(50);
    FakeHBase::run(async |hbase| {
        drop(two_processes(hbase).await?);
        let mut rounds = Vec::new();
        for id in ["one", "two", "three"] {
            let contest = compete(hbase, id, 32, HOLD, Duration::from_secs(60)).await?;
            rounds.push(contest.longest_wait);
        }
        rounds.sort_by(f64::total_cmp);
        assert!(rounds[1] <= 3.0, "the longest waits took {rounds:.2?} rounds");
        Ok(())
    });
}

/// The figures of a contended lock.
#[derive(Debug)]
struct Contest {
    /// The mean time from the end of the work under one hold to the beginning of the next.
    idle: Duration,
    /// The calls of all processes for each hold.
    calls: f64,
    /// The fewest holds of a process, by its fair share.
    fewest: f64,
    /// The longest wait, in rounds of all processes.
    longest_wait: f64,
}

/// Each process holds the lock as often as it can, as `suite::client_side::lock_fairness` does in real time.
async fn compete(
    hbase: &FakeHBase,
    id: &str,
    processes: u32,
    hold: Duration,
    lasts: Duration,
) -> Result<Contest> {
    let connection = hbase.connect().await?;
    let open = |_| {
        LockManagerOptions::new("client").open_or_create(&connection, LockTableOptions::new("locks").unwrap())
    };
    let managers = try_join_all((0..processes).map(open)).await?;
    let (began, before) = (Instant::now(), hbase.calls("Multi"));
    let loops = managers.iter().map(async |locks| {
        let mut waits = Vec::new();
        while began.elapsed() < lasts {
            let asked = Instant::now();
            let guard = locks.lock(Level::Xdc, id)?.wait(2 * lasts).acquire().await?;
            waits.push(asked.elapsed());
            sleep(hold).await;
            assert!(guard.release().await?.is_released());
        }
        Ok::<_, Error>(waits)
    });
    let each = try_join_all(loops).await?;
    let lasted = began.elapsed();
    let holds = u32::try_from(each.iter().map(Vec::len).sum::<usize>()).unwrap();
    let fair = f64::from(holds) / f64::from(processes);
    let fewest = each.iter().map(Vec::len).min().unwrap_or_default();
    let longest = each.iter().flatten().max().copied().unwrap_or_default();
    Ok(Contest {
        idle: (lasted - hold * holds) / holds,
        calls: (hbase.calls("Multi") - before) as f64 / f64::from(holds),
        fewest: fewest as f64 / fair,
        longest_wait: longest.as_secs_f64() * fair / lasted.as_secs_f64(),
    })
}

/// There, each change of the fencing cell is stamped one millisecond after the one before.
#[test]
fn server_whose_clock_is_behind_is_not_polled_more() {
    FakeHBase::run(async |_| {
        let hbase = FakeHBase::builder().servers(2).build();
        drop(two_processes(&hbase).await?);
        let hold = Duration::from_millis(50);
        let usual = compete(&hbase, "lock", 8, hold, Duration::from_secs(5)).await?;
        hbase.server(0).set_clock_ahead(-10_000);
        hbase.server(1).set_clock_ahead(-10_000);
        let behind = compete(&hbase, "lock", 8, hold, Duration::from_secs(5)).await?;
        assert!(behind.calls <= 2.0 * usual.calls, "{usual:?} {behind:?}");
        Ok(())
    });
}

/// A renewal is no new hold.
#[test]
fn renewed_hold_is_polled_ever_less() {
    FakeHBase::run(async |hbase| {
        let [locks, others] = two_processes(hbase).await?;
        let lease = Duration::from_millis(300);
        let held = locks
            .lock(Level::Dc, "long")?
            .ttl(lease)
            .auto_renew()
            .acquire()
            .await?;
        let waiting = [(); 2].map(|()| {
            let request = others.lock(Level::Dc, "long").unwrap();
            tokio::spawn(request.wait(Duration::from_secs(600)).acquire())
        });
        sleep(Duration::from_secs(60)).await;
        let before = hbase.calls("Multi");
        sleep(Duration::from_secs(60)).await;
        let calls = (hbase.calls("Multi") - before) as f64 / 60.0;
        // Ten are renewals.
        assert!(calls <= 17.0, "{calls} a second");
        assert!(held.release().await?.is_released());
        for waiting in waiting {
            assert!(waiting.await??.release().await?.is_released());
        }
        Ok(())
    });
}

/// A round trip takes two milliseconds: one of the release, and two of an acquisition that does not come
/// too early.
#[test]
fn lock_that_many_want_is_seldom_free() {
    FakeHBase::run(async |_| {
        let one_way = Duration::from_micros(900)..Duration::from_micros(1_100);
        let latency = Latency {
            request: one_way.clone(),
            answer: one_way,
            ..Latency::NONE
        };
        let hbase = FakeHBase::builder().servers(1).latency(latency).build();
        drop(two_processes(&hbase).await?);
        for (processes, hold) in [
            (1, 5),
            (2, 5),
            (2, 100),
            (4, 5),
            (8, 5),
            (16, 5),
            (8, 100),
            (32, 100),
            (8, 1_000),
        ] {
            let hold = Duration::from_millis(hold);
            let id = format!("{processes} for {hold:?}");
            let lasts = (3 * processes * hold).max(Duration::from_secs(5));
            let contest = compete(&hbase, &id, processes, hold, lasts).await?;
            let what = format!("{id}: {contest:.3?}");
            let idle = Duration::from_millis(11).max(hold / 8);
            assert!(contest.idle <= idle, "{what}");
            let calls = 8.0 + 4.0 * f64::from(processes - 1) * (hold + idle).as_secs_f64();
            assert!(contest.calls <= calls, "{what}");
            assert!(contest.fewest >= 0.5, "{what}");
        }
        Ok(())
    });
}
