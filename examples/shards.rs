//! Shards: the members of a group share out work, and each part has one owner.
//!
//! A worker joins a group and computes from the list of members which shards are its own. All
//! members compute the same, without a call: each shard belongs to the member with the highest hash
//! of member and shard (rendezvous hashing). When a member joins or leaves, only the shards that it
//! gains or had change hands.
//!
//! | row | |
//! |---|---|
//! | group `workers` | the members, each until its session ends |
//! | lock `shard-N` | the owner of a shard |
//!
//! **Invariant.** A shard is worked on by one worker at a time: its lock decides. The list of members
//! only says who should try to get it. After a change two workers may have read different lists for
//! a moment, and a shard may have no owner, never two.
//!
//! **Failures.** The membership and the locks are holds of one session: a worker that loses one of
//! them stops with all. The shards of a worker that died go to the others when its leases have
//! expired; those of one that was suspended too, and its writes need the fence of each shard.
//!
//! Run: `HBASE_TXN_CONNECT=… cargo run --example shards`

use std::{collections::BTreeMap, time::Duration};

use futures::future::try_join_all;
use hbase_txn::{
    Level, Result,
    client::Connection,
    coordination::{Group, Member},
    lock::{LockGuard, LockManager, LockManagerOptions, LockTableOptions, Session},
};

mod support;

/// The number of shards: a few for each of the most workers, so that shares are equal.
pub const SHARDS: u32 = 12;
/// The longest time for which the shards of a worker that died have no owner.
const LEASE: Duration = Duration::from_secs(3);

/// A worker, and the shards that it owns.
#[derive(Debug)]
pub struct Worker {
    locks: LockManager,
    /// Ends with the first of its holds that is lost.
    pub session: Session,
    member: LockGuard,
    /// The lock of each shard that it owns.
    pub shards: BTreeMap<u32, LockGuard>,
}

impl Worker {
    /// Joins the group.
    pub async fn start(locks: &LockManager, name: &str) -> Result<Self> {
        let session = locks.session(name)?.ttl(LEASE);
        let member = workers(locks)?.join(&session, "").await?;
        Ok(Self {
            locks: locks.clone(),
            session,
            member,
            shards: BTreeMap::new(),
        })
    }

    /// Gives up the shards that belong to others by now, and takes its own as far as they are free.
    /// Returns whether it owns all of them.
    pub async fn share_out(&mut self, members: &[Member]) -> Result<bool> {
        let is_own = |shard: &u32| {
            let owner = owner(members, *shard);
            owner.and_then(|owner| owner.holder.token) == Some(self.member.token())
        };
        let (own, others): (Vec<u32>, Vec<u32>) = (0..SHARDS).partition(is_own);
        let given_up = others.iter().filter_map(|shard| self.shards.remove(shard));
        // Work on these shards has ended here.
        try_join_all(given_up.map(LockGuard::release)).await?;
        let wanted: Vec<u32> = own
            .into_iter()
            .filter(|shard| !self.shards.contains_key(shard))
            .collect();
        let attempts = wanted.iter().map(|shard| async {
            let request = self.locks.lock(Level::Xdc, &name(*shard))?;
            request.session(&self.session).try_acquire().await
        });
        for (shard, lock) in wanted.iter().zip(try_join_all(attempts).await?) {
            if let Some(lock) = lock {
                self.shards.insert(*shard, lock);
            }
        }
        Ok(wanted.iter().all(|shard| self.shards.contains_key(shard)))
    }

    /// Leaves the holds to their leases, as a process does that dies.
    pub fn die(self) {
        let locks = self.shards.into_values().chain([self.member]);
        for lock in locks {
            let _token = lock.detach();
        }
    }
}

/// Names the group of the workers.
pub fn workers(locks: &LockManager) -> Result<Group> {
    Group::new(locks, Level::Xdc, "workers")
}

/// Names the lock of a shard.
pub fn name(shard: u32) -> String {
    format!("shard-{shard}")
}

/// Returns the member to which a shard belongs: the one with the highest hash of both.
pub fn owner(members: &[Member], shard: u32) -> Option<&Member> {
    members.iter().max_by_key(|member| {
        let token = member.holder.token.map(|token| token.to_string());
        let text = format!("{}/{shard}", token.unwrap_or_default());
        (hash(text.as_bytes()), text)
    })
}

/// FNV-1a, with the bits mixed at the end: the same in every process and in every release.
fn hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Opens the lock table, and creates it if it does not exist.
pub async fn open(connection: &Connection, table: &str) -> Result<LockManager> {
    let table = LockTableOptions::new(table)?.regions(2).without_java_clients();
    LockManagerOptions::new("shards")
        .open_or_create(connection, table)
        .await
}

/// Shares out until each worker owns all of its shards.
pub async fn share_out_all(group: &Group, team: &mut [Worker]) -> Result<()> {
    loop {
        let members = group.members().await?;
        let shared = team.iter_mut().map(|worker| worker.share_out(&members));
        if try_join_all(shared).await?.into_iter().all(|is_done| is_done) {
            return Ok(());
        }
    }
}

/// Prints the shards of each worker, and checks that together they have all.
fn show(team: &[Worker]) {
    for worker in team {
        println!("{}: {:?}", worker.session.name(), worker.shards.keys());
    }
    let shards: usize = team.iter().map(|worker| worker.shards.len()).sum();
    assert_eq!(shards, SHARDS as usize);
}

/// Shares out the shards among three workers, and among two when one has left.
pub async fn run(connection: &Connection, table: &str) -> Result<()> {
    let locks = open(connection, table).await?;
    let group = workers(&locks)?;
    let mut team = Vec::new();
    for name in ["first", "second", "third"] {
        team.push(Worker::start(&locks, name).await?);
    }
    share_out_all(&group, &mut team).await?;
    show(&team);

    // Closing its session releases the membership and the shards.
    let left = team.remove(0);
    assert!(left.session.clone().close().await?.is_closed());
    share_out_all(&group, &mut team).await?;
    show(&team);
    for worker in team {
        assert!(worker.session.close().await?.is_closed());
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let connection = support::connect().await?;
    run(&connection, "pattern_shards").await?;
    connection.close().await;
    Ok(())
}
