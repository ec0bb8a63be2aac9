//! Workers that count down and arrive.

use std::{
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

use hbase_txn::{
    ClientErrorKind, Level,
    client::{Connection, Scan},
    latch::LatchManager,
};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep},
};

use super::{
    FARMS, Rig,
    ledger::{Arriving, Counting, SPARE, Tally},
};
use crate::{
    cluster::{PATIENCE, until},
    histories::check_objects,
    linearizable::objects::{ObjectLog, RecordedLatch},
};

/// Much longer than any test.
const LIFE: Duration = Duration::from_secs(24 * 3_600);
/// The number of count-downs, or arrivals, of one latch.
const EACH: usize = 250;

/// All calls to the latches of a table.
pub(super) struct Load {
    shared: Arc<Shared>,
    workers: JoinSet<()>,
    watcher: JoinHandle<usize>,
}

struct Shared {
    counting: Vec<Counting>,
    arriving: Vec<Arriving>,
    log: Arc<ObjectLog>,
    /// The number of calls that workers have begun, and the number of all.
    next: AtomicUsize,
    all: usize,
    tally: Tally,
    /// The pause of a worker between two calls.
    rest: Duration,
    over: AtomicBool,
}

impl Shared {
    fn latch(&self, latches: &LatchManager, level: Level, id: &str) -> RecordedLatch {
        RecordedLatch::new(&self.log, latches.latch(level, id).unwrap())
    }
}

fn level(number: usize) -> Level {
    [Level::Dc, Level::Xdc][number % 2]
}

impl Load {
    /// Creates the latches, and starts workers, one behind each connection. Participants arrive
    /// only if the table has the family for them.
    pub(super) async fn start(rig: &Rig, connections: &[Connection], calls: usize, rest: Duration) -> Self {
        let latches = calls.div_ceil(EACH);
        let (arriving, counting): (Vec<_>, Vec<_>) =
            (0..latches).partition(|number| rig.has_state && number / 2 % 2 == 0);
        let arriving: Vec<_> = arriving
            .into_iter()
            .map(|number| Arriving {
                id: format!("a{number}"),
                level: level(number),
                participants: EACH,
            })
            .collect();
        let counting: Vec<_> = counting
            .into_iter()
            .map(|number| Counting::new(format!("c{number}"), level(number), EACH))
            .collect();
        let shared = Arc::new(Shared {
            all: (arriving.len() + counting.len()) * EACH,
            counting,
            arriving,
            log: ObjectLog::new(),
            next: AtomicUsize::new(0),
            tally: Tally::default(),
            rest,
            over: AtomicBool::new(false),
        });
        let here = rig.latches(&rig.connection, FARMS[0]).await;
        for one in &shared.arriving {
            let count = SPARE + one.participants as u64;
            let latch = shared.latch(&here, one.level, &one.id);
            latch.init(count, LIFE).await.unwrap();
        }
        for one in &shared.counting {
            let latch = shared.latch(&here, one.level, &one.id);
            latch.init(one.count.unsigned_abs(), LIFE).await.unwrap();
        }
        let mut workers = JoinSet::new();
        for (number, connection) in connections.iter().enumerate() {
            let farm = rig.latches(connection, FARMS[number % 2]).await;
            let own = rig.latches(connection, FARMS[0]).await;
            workers.spawn(work(Arc::clone(&shared), own, farm));
        }
        let watcher = tokio::spawn(never_negative(Arc::clone(&shared), rig.connection.clone(), here));
        Self {
            shared,
            workers,
            watcher,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.workers.is_empty() || self.shared.next.load(Relaxed) >= self.shared.all
    }

    /// Waits until this percentage of the calls has begun.
    pub(super) async fn goes_on(&self, percent: usize, patience: Duration) {
        let goal = self.shared.all * percent / 100;
        until("further counts", patience, async || {
            (self.shared.next.load(Relaxed) >= goal).then_some(())
        })
        .await;
    }

    /// Waits for all workers, and checks the latches.
    pub(super) async fn end(mut self, rig: &Rig, test: &str) {
        while let Some(ended) = self.workers.join_next().await {
            ended.unwrap();
        }
        self.shared.over.store(true, Release);
        let looks = self.watcher.await.unwrap();
        let here = rig.latches(&rig.connection, FARMS[0]).await;
        for one in &self.shared.arriving {
            one.check(&self.shared.latch(&here, one.level, &one.id)).await;
        }
        for one in &self.shared.counting {
            one.check(&self.shared.latch(&here, one.level, &one.id)).await;
        }
        check_objects(test, &self.shared.log);
        rig.all_ends().await;
        println!(
            "{test}: {} arrivals, {:?} of {} count-downs, {looks} looks at all sums",
            self.shared.arriving.len() * EACH,
            self.shared.tally,
            self.shared.counting.len() * EACH,
        );
        assert!(looks > 0, "nobody looked at the sums");
        self.shared.tally.check(rig.has_state);
    }
}

/// Makes the next call until all are done. DC latches are those of the first farm.
async fn work(shared: Arc<Shared>, own: LatchManager, farm: LatchManager) {
    let of = |level| match level {
        Level::Xdc => &farm,
        _ => &own,
    };
    loop {
        let number = shared.next.fetch_add(1, Relaxed);
        if number >= shared.all {
            return;
        }
        let (latches, who) = (shared.arriving.len() + shared.counting.len(), number);
        // Several workers use one latch at a time.
        let (block, within) = (who / (4 * EACH), who % (4 * EACH));
        let in_block = (latches - 4 * block).min(4);
        let (latch, participant) = (4 * block + within % in_block, within / in_block);
        match latch.checked_sub(shared.arriving.len()) {
            None => {
                let one = &shared.arriving[latch];
                arrive(shared.latch(of(one.level), one.level, &one.id), participant).await;
            }
            Some(latch) => {
                let one = &shared.counting[latch];
                let told = shared
                    .latch(of(one.level), one.level, &one.id)
                    .count_down(1)
                    .await;
                if let Err(error) = &told {
                    assert!(
                        error.is_outcome_unknown()
                            || error.is_retryable()
                            || error.kind() == ClientErrorKind::DeadlineExceeded,
                        "{error}"
                    );
                }
                one.note(&told, &shared.tally);
            }
        }
        sleep(shared.rest).await;
    }
}

async fn arrive(latch: RecordedLatch, participant: usize) {
    let (name, deadline) = (format!("p{participant}"), Instant::now() + PATIENCE);
    loop {
        match latch.arrive(&name).await {
            Ok(_) => return,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Reads the latches repeatedly, and asserts that no count is negative. Returns the number of
/// reads.
async fn never_negative(shared: Arc<Shared>, connection: Connection, here: LatchManager) -> usize {
    let table = connection.table(here.table().clone()).unwrap();
    let mut looks = 0;
    while !shared.over.load(Acquire) {
        let mut scanner = table.scan(Scan::new().family("C")).unwrap();
        // A region may be in transition for longer than a scan waits.
        while let Ok(Some(row)) = scanner.next().await {
            let values = row.cells().iter().map(|cell| cell.value[..].try_into().unwrap());
            let sum: i64 = values.map(i64::from_be_bytes).sum();
            assert!(sum >= 0, "{row:?}");
        }
        looks += 1;
        sleep(Duration::from_millis(100)).await;
    }
    looks
}
