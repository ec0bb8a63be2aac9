//! Every order of the events, with many concurrent locks: those that are flushed and compacted at
//! the same points of their sequences share a region.

use std::{ops::RangeInclusive, time::Duration};

use fastrand::Rng;
use futures::future::join_all;
use hbase_txn::{admin::Admin, client::RegionInfo};
use tokio::sync::Semaphore;

use super::sequence::{Event, Plan, Players, Sequence};
use crate::support::{
    connect,
    lock_rows::{lock_manager, lock_row, lock_table},
};

/// The number of sequences on each kind of table, and the seed that repeats a run.
const COUNT: &str = "HBASE_TXN_TEST_RESURRECTIONS";
const SEED: &str = "HBASE_TXN_TEST_SEED";
const SHORT: usize = 480;
/// The most sequences on one table: more would not finish before the longer leases expire.
const MOST: usize = 800;
/// The places of the flush and the compaction among the five events.
const SCHEDULES: usize = 20;
const CLIENT: &str = "generated";
const LEASES: [Duration; 5] = [
    Duration::from_millis(300),
    Duration::from_millis(1_200),
    Duration::from_secs(5),
    // The release of the first overwrites the lease; that of the second deletes it.
    Duration::from_secs(60),
    Duration::from_secs(3_600),
];

/// When the whole region is flushed and compacted: the events at which that happens, the gaps of
/// all five events, and the gaps with another flush, because a single flush seldom affects cells
/// that could return.
#[derive(Clone, Copy)]
struct Schedule {
    flush: usize,
    compaction: usize,
    gaps: [usize; 5],
    flushed: [bool; 6],
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap())
}

fn schedules(random: &mut Rng) -> Vec<Schedule> {
    let pairs = (0..5).flat_map(|flush| (0..5).map(move |compaction| (flush, compaction)));
    pairs
        .filter(|(flush, compaction)| flush != compaction)
        .map(|(flush, compaction)| {
            let mut gaps: [usize; 5] = std::array::from_fn(|_| random.usize(..6));
            gaps.sort_unstable();
            Schedule {
                flush,
                compaction,
                gaps,
                flushed: std::array::from_fn(|_| random.bool()),
            }
        })
        .collect()
}

impl Schedule {
    /// Plans one of the six orders of the other events, with random leases and endings.
    fn plan(&self, random: &mut Rng, number: usize) -> Plan {
        let mut others = vec![Event::Expiry, Event::Renewal, Event::JavaRelease];
        let mut others = [
            others.remove(number % 3),
            others.remove(number / 3 % 2),
            others[0],
        ]
        .into_iter();
        let events = std::array::from_fn(|at| match at {
            _ if at == self.flush => Event::Flush,
            _ if at == self.compaction => Event::Compaction,
            _ => others.next().unwrap(),
        });
        Plan {
            leases: std::array::from_fn(|_| LEASES[random.usize(..LEASES.len())]),
            released: std::array::from_fn(|_| random.bool()),
            events,
            gaps: self.gaps,
        }
    }

    /// Advances all sequences through the gaps.
    async fn go_to(
        &self,
        players: &Players,
        region: &RegionInfo,
        sequences: &mut [Sequence],
        gaps: RangeInclusive<usize>,
    ) {
        for gap in gaps {
            join_all(sequences.iter_mut().map(|one| one.go_to(players, gap))).await;
            if self.flushed[gap] {
                let admin = Admin::new(players.table.connection());
                admin.flush_region(region).await.unwrap();
            }
        }
    }

    /// Runs all sequences of one region concurrently.
    async fn run(&self, players: &Players, region: &RegionInfo, sequences: &mut [Sequence]) {
        let admin = Admin::new(players.table.connection());
        let mut gap = 0;
        for event in 0..5 {
            self.go_to(players, region, sequences, gap..=self.gaps[event])
                .await;
            gap = self.gaps[event] + 1;
            match event {
                _ if event == self.flush => admin.flush_region(region).await.unwrap(),
                _ if event == self.compaction => admin.major_compact_region(region).await.unwrap(),
                _ => {}
            }
            join_all(sequences.iter_mut().map(|one| one.take_part(players, event))).await;
        }
        self.go_to(players, region, sequences, gap..=5).await;
        admin.flush_region(region).await.unwrap();
        join_all(sequences.iter_mut().map(|one| one.stays_free(players))).await;
    }
}

pub(super) async fn run(ours_alone: bool) {
    let seed = setting(SEED).unwrap_or_else(|| fastrand::u64(..));
    println!("{SEED}={seed}");
    let mut random = Rng::with_seed(seed);
    let mut left = setting(COUNT).map_or(SHORT, |count| usize::try_from(count).unwrap());
    let (mut done, mut complaints) = (0, Vec::new());
    while left > 0 {
        let count = left.min(MOST).next_multiple_of(SCHEDULES);
        complaints.extend(round(&mut random, ours_alone, count).await);
        done += count;
        left -= left.min(count);
    }
    println!("{done} sequences, {} complaints", complaints.len());
    assert!(
        complaints.is_empty(),
        "{} complaints of {done} sequences, the first: {:#?}",
        complaints.len(),
        &complaints[..complaints.len().min(5)]
    );
}

/// Runs this many sequences on a new table and returns their complaints.
async fn round(random: &mut Rng, ours_alone: bool, count: usize) -> Vec<String> {
    let connection = connect().await;
    let table = lock_table(&connection, "resurrection", SCHEDULES, ours_alone).await;
    let manager = || lock_manager(&connection, &table.name, CLIENT);
    let players = Players {
        owners: [manager().await, manager().await, manager().await],
        intruder: manager().await,
        table: table.of(&connection),
        companions: !ours_alone,
        calls: Semaphore::new(16),
    };
    let regions = table.regions(&connection).await;
    let schedules = schedules(random);
    let mut sequences: Vec<Vec<Sequence>> = (0..SCHEDULES).map(|_| Vec::new()).collect();
    let mut id = 0;
    while sequences.iter().map(Vec::len).sum::<usize>() < count {
        id += 1;
        let row = lock_row(CLIENT, &id.to_string());
        let region = regions.iter().position(|region| region.contains(&row)).unwrap();
        let number = sequences[region].len();
        if number < count / SCHEDULES {
            let plan = schedules[region].plan(random, number);
            sequences[region].push(Sequence::new(plan, id.to_string(), row));
        }
    }
    let runs = schedules
        .iter()
        .zip(&regions)
        .zip(&mut sequences)
        .map(|((schedule, region), sequences)| schedule.run(&players, region, sequences));
    join_all(runs).await;
    let complaints = sequences.iter_mut().flatten();
    complaints
        .flat_map(|one| std::mem::take(&mut one.complaints))
        .collect()
}
