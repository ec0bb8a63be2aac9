//! The calls of waiters, and how late they are, in virtual time.

use std::time::Duration;

use futures::future::{try_join, try_join_all};
use hbase_fake::FakeHBase;
use tokio::time::{Instant, sleep};

use crate::{
    Error, Level,
    latch::{
        BarrierOutcome, Latch, WaitOutcome,
        in_virtual_time::{cluster, processes},
    },
};

const PROCESSES: usize = 100;
const TIMEOUT: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

fn calls(hbase: &FakeHBase) -> usize {
    hbase.calls("Get") + hbase.calls("Multi")
}

/// Returns the calls of each second, for so many seconds.
async fn calls_a_second(hbase: &FakeHBase, seconds: u32) -> f64 {
    let before = calls(hbase);
    sleep(Duration::from_secs(1) * seconds).await;
    (calls(hbase) - before) as f64 / f64::from(seconds)
}

#[tokio::test(start_paused = true)]
async fn processes_that_wait_for_long_cost_little_and_are_woken_soon() {
    let hbase = cluster();
    let processes = processes(&hbase, PROCESSES, TIMEOUT).await.unwrap();
    let latches: Vec<Latch> = processes
        .iter()
        .map(|latches| latches.latch(Level::Dc, "all").unwrap())
        .collect();
    latches[0].init(1, HOUR).await.unwrap();
    let waiters = try_join_all(latches[1..].iter().map(async |latch| {
        let outcome = latch.wait(HOUR).await?;
        assert_eq!(outcome, WaitOutcome::Reached);
        Ok::<_, Error>(Instant::now())
    }));
    let starter = async {
        let start = calls_a_second(&hbase, 10).await;
        let later = calls_a_second(&hbase, 60).await;
        assert!(
            start <= 2.5 * PROCESSES as f64 && later <= 2.0 * PROCESSES as f64,
            "{start} {later}"
        );
        latches[0].count_down(1).await?;
        Ok::<_, Error>(Instant::now())
    };
    let (woken, started) = try_join(waiters, starter).await.unwrap();
    let late = woken.into_iter().max().unwrap() - started;
    assert!(late <= Duration::from_millis(600), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_process_cost_at_a_barrier_what_one_does() {
    const TASKS: u32 = 100;
    let hbase = cluster();
    let processes = processes(&hbase, 1, TIMEOUT).await.unwrap();
    let mut costs = Vec::new();
    for tasks in [1, TASKS] {
        let barrier = processes[0].barrier(&format!("of {tasks}")).unwrap();
        barrier.create(tasks + 1, HOUR).await.unwrap();
        let barrier = &barrier;
        let arrivals = (0..tasks).map(|task| async move { barrier.arrive(&task.to_string()).await });
        let arrivals = try_join_all(arrivals).await.unwrap();
        let before = calls(&hbase);
        let waiters = try_join_all(arrivals.iter().map(|arrival| barrier.wait(arrival, HOUR)));
        let last = async {
            sleep(Duration::from_secs(600)).await;
            costs.push(calls(&hbase) - before);
            barrier.arrive("last").await
        };
        let (outcomes, _) = try_join(waiters, last).await.unwrap();
        assert!(outcomes.iter().all(|outcome| *outcome == BarrierOutcome::Opened));
    }
    let [one, all] = costs[..] else { unreachable!() };
    // The pauses are drawn: two sums of 1,200 of them differ by 3 calls as a rule.
    assert!(all <= one + 30 && one < 1_500, "{one} calls of one, {all} of all");
}

/// Each party waits for those that come after it, and must not poll after each of them.
#[tokio::test(start_paused = true)]
async fn parties_that_come_one_by_one_are_polled_by_their_pace() {
    const PARTIES: u32 = 100;
    let hbase = cluster();
    let processes = processes(&hbase, PARTIES as usize, TIMEOUT).await.unwrap();
    let barriers: Vec<_> = processes
        .iter()
        .map(|latches| latches.barrier("all").unwrap())
        .collect();
    barriers[0].create(PARTIES, HOUR).await.unwrap();
    let before = calls(&hbase);
    let parties = barriers.iter().zip(0_u32..).map(|(barrier, party)| async move {
        sleep(Duration::from_millis(100) * party).await;
        let arrival = barrier.arrive(&party.to_string()).await?;
        let arrived = Instant::now();
        let outcome = barrier.wait(&arrival, HOUR).await?;
        assert_eq!(outcome, BarrierOutcome::Opened);
        Ok::<_, Error>((arrived, Instant::now()))
    });
    let times = try_join_all(parties).await.unwrap();
    let last = times.iter().map(|(arrived, _)| *arrived).max().unwrap();
    let woken = times.iter().map(|(_, woken)| *woken).max().unwrap();
    let calls = calls(&hbase) - before;
    let waited: Duration = times.iter().map(|(arrived, woken)| *woken - *arrived).sum();
    assert!(woken - last <= Duration::from_millis(250), "{:?}", woken - last);
    assert!(
        calls as f64 <= 5.0 * waited.as_secs_f64(),
        "{calls} calls for {waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn end_of_a_latch_or_a_generation_is_seen_soon() {
    const LASTS: Duration = Duration::from_secs(60);
    let hbase = cluster();
    let processes = processes(&hbase, 20, TIMEOUT).await.unwrap();
    let latch = processes[0].latch(Level::Dc, "l").unwrap();
    let barrier = processes[0].barrier("b").unwrap();
    barrier.create(2, LASTS).await.unwrap();
    let before = calls(&hbase);
    latch.init(1, LASTS).await.unwrap();
    let arrival = barrier.arrive("one").await.unwrap();
    let began = Instant::now();
    let waiters = processes.iter().map(async |latches| {
        let expired = async {
            let outcome = latches.latch(Level::Dc, "l")?.wait(HOUR).await?;
            assert_eq!(outcome, WaitOutcome::Expired);
            Ok::<_, Error>(began.elapsed())
        };
        let broken = async {
            let outcome = latches.barrier("b")?.wait(&arrival, HOUR).await?;
            assert_eq!(outcome, BarrierOutcome::Broken);
            Ok::<_, Error>(began.elapsed())
        };
        let (expired, broken) = try_join(expired, broken).await?;
        Ok::<_, Error>(expired.max(broken))
    });
    let woken = try_join_all(waiters).await.unwrap();
    let late = woken.iter().max().unwrap().saturating_sub(LASTS);
    assert!(late <= Duration::from_millis(100), "{late:?}");
    // Two names.
    let calls = (calls(&hbase) - before) as f64 / 40.0 / LASTS.as_secs_f64();
    assert!(calls <= 2.5, "{calls} calls a second and process");
}
