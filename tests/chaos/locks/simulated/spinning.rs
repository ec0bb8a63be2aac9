//! Owners that acquire again as soon as they have released: the load under which the Java library's
//! locks overlap.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hbase_txn::{ErrorKind, admin::Admin, lock::LockManager};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::locks::{
    Rig, Sort,
    arena::{Arena, Kind, Overlaps, Owner},
    java::JavaOwner,
    request,
};
use crate::{cluster::PATIENCE, holds::History, settings::Settings};

/// The time that an owner spends in a critical section.
const SECTION: Duration = Duration::from_millis(2);
/// Much longer than a cycle, also on a busy machine.
const LEASE: Duration = Duration::from_secs(60);
/// The longest wait of an owner. An owner that starts to wait again polls often at first, and at
/// the end all locks are free.
const WAIT: Duration = Duration::from_secs(60);
/// The pause of a Java-style owner between two attempts. The library waits for a second, and so has
/// fewer conflicts.
const JAVA_RETRY: Duration = Duration::from_millis(4);

/// The spinning owners.
#[derive(Clone, Copy)]
struct Load {
    locks: usize,
    ours: usize,
    java: usize,
    /// The number of acquisitions by native owners, if there are any.
    cycles: usize,
    /// Whether the table protects Java-style owners. Then only a hold that overtook its request can
    /// hide an owner's lock. Such an owner is counted and excluded, or it would release the locks
    /// of other owners, which would then do the same.
    protected: bool,
}

/// The results.
struct Done {
    ours: usize,
    java: usize,
    overlaps: Overlaps,
    /// The number of native releases that found the lock row taken by a Java-style owner.
    robbed: usize,
    overtaken: usize,
    history: History,
}

impl Done {
    /// The history of the native owners must have no violation.
    fn check(&self) {
        assert_eq!(self.history.check(), self.ours);
        assert_eq!(self.overlaps.ours_in_ours, 0);
    }
}

struct Shared {
    load: Load,
    arena: Arena,
    history: History,
    ours: AtomicUsize,
    java: AtomicUsize,
    robbed: AtomicUsize,
    overtaken: AtomicUsize,
}

impl Shared {
    fn is_over(&self) -> bool {
        let counted = if self.load.ours > 0 {
            &self.ours
        } else {
            &self.java
        };
        counted.load(Ordering::Relaxed) >= self.load.cycles
    }
}

fn id(lock: usize) -> String {
    format!("lock-{lock}")
}

/// Runs all owners.
async fn spin(rig: &Rig, load: Load) -> Done {
    let began = Instant::now();
    let shared = Arc::new(Shared {
        load,
        arena: Arena::new(load.locks),
        history: History::new(),
        ours: AtomicUsize::new(0),
        java: AtomicUsize::new(0),
        robbed: AtomicUsize::new(0),
        overtaken: AtomicUsize::new(0),
    });
    let mut owners = JoinSet::new();
    for lock in 0..load.locks {
        for number in 0..load.ours {
            let owner = Owner {
                kind: Kind::Ours,
                number,
            };
            owners.spawn(spin_ours(Arc::clone(&shared), rig.locks().await, lock, owner));
        }
        for number in 0..load.java {
            let owner = Owner {
                kind: Kind::Java,
                number,
            };
            let java = JavaOwner::new(&rig.connection, &rig.name, &id(lock));
            owners.spawn(spin_java(Arc::clone(&shared), java, lock, owner));
        }
    }
    while let Some(ended) = owners.join_next().await {
        ended.unwrap();
    }
    let done = Done {
        ours: shared.ours.load(Ordering::Relaxed),
        java: shared.java.load(Ordering::Relaxed),
        overlaps: shared.arena.overlaps(),
        robbed: shared.robbed.load(Ordering::Relaxed),
        overtaken: shared.overtaken.load(Ordering::Relaxed),
        history: shared.history.clone(),
    };
    println!(
        "{} locks, {} owners of ours and {} Java-style ones on each: {} cycles of ours, {} Java, {:.0?}; overlaps: {}; \
         {} of ours robbed",
        load.locks,
        load.ours,
        load.java,
        done.ours,
        done.java,
        began.elapsed(),
        done.overlaps,
        done.robbed
    );
    if load.protected {
        println!("{} Java-style owners overtaken, and kept out", done.overtaken);
    }
    done
}

/// The protection of Java clients slows down each cycle of a hot lock until the next major
/// compaction.
async fn spin_while_compacted(rig: &Rig, load: Load) -> Done {
    let admin = Admin::new(&rig.connection).with_operation_timeout(PATIENCE);
    let compactions = AtomicUsize::new(0);
    let compacting = async {
        loop {
            admin.flush_table(&rig.name).await.unwrap();
            admin.major_compact_table(&rig.name).await.unwrap();
            compactions.fetch_add(1, Ordering::Relaxed);
        }
    };
    let done = tokio::select! {
        done = spin(rig, load) => done,
        () = compacting => unreachable!("compactions go on"),
    };
    println!("{} major compactions meanwhile", compactions.into_inner());
    done
}

async fn spin_ours(shared: Arc<Shared>, locks: LockManager, lock: usize, owner: Owner) {
    while !shared.is_over() {
        let guard = match request(&locks, &id(lock), LEASE).wait(WAIT).acquire().await {
            Ok(guard) => guard,
            Err(error) if error.kind() == ErrorKind::LockUnavailable => continue,
            Err(error) => panic!("{error}"),
        };
        let begun = shared.history.acquired(lock, guard.fencing());
        shared.arena.enter(lock, owner);
        sleep(SECTION).await;
        assert!(guard.is_held(), "a section took longer than {LEASE:?}");
        shared.arena.leave(lock, owner);
        shared.history.ended(begun);
        shared.ours.fetch_add(1, Ordering::Relaxed);
        let robbed = !guard.release().await.unwrap().is_released();
        shared.robbed.fetch_add(robbed.into(), Ordering::Relaxed);
    }
}

async fn spin_java(shared: Arc<Shared>, java: JavaOwner, lock: usize, owner: Owner) {
    while !shared.is_over() {
        let Some(marker) = java.try_acquire().await else {
            sleep(JAVA_RETRY).await;
            continue;
        };
        if shared.load.protected && java.is_overtaken(marker).await {
            shared.overtaken.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        shared.arena.enter(lock, owner);
        sleep(SECTION).await;
        shared.arena.leave(lock, owner);
        shared.java.fetch_add(1, Ordering::Relaxed);
        java.release().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_owners_of_ours_on_each_of_64_locks_never_overlap() {
    const TEST: &str = "locks_spinning";
    let settings = Settings::of(TEST);
    for sort in [Sort::OursAlone, Sort::WithCompanions] {
        let rig = Rig::new(TEST, &settings, sort).await;
        println!("{TEST}: {sort:?}");
        let load = Load {
            locks: 64,
            ours: 4,
            java: 0,
            cycles: Settings::cycles(16_000, 1_000_000) / 2,
            protected: false,
        };
        let done = spin(&rig, load).await;
        done.check();
        assert_eq!(done.overlaps, Overlaps::default());
        assert_eq!(done.robbed, 0);
        rig.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ours_never_overlap_beside_java_style_owners() {
    const TEST: &str = "locks_with_java";
    let settings = Settings::of(TEST);
    let rig = Rig::new(TEST, &settings, Sort::WithCompanions).await;
    let load = Load {
        locks: 16,
        ours: 2,
        java: 2,
        cycles: Settings::cycles(25_000, 1_000_000) / 50,
        protected: false,
    };
    let done = spin(&rig, load).await;
    done.check();
    assert!(done.java > 0, "no Java-style owner ever got in");
    assert!(done.robbed > 0, "no Java-style owner was in anybody's way");
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_protection_only_overtaken_requests_overlap() {
    const TEST: &str = "locks_protected";
    let settings = Settings::of(TEST);
    let rig = Rig::new(TEST, &settings, Sort::ProtectJava).await;
    let load = Load {
        locks: 16,
        ours: 2,
        java: 2,
        cycles: Settings::cycles(16_000, 1_000_000) / 250,
        protected: true,
    };
    let done = spin_while_compacted(&rig, load).await;
    done.check();
    assert!(done.java > 0, "no Java-style owner ever got in");
    assert_eq!(done.overlaps, Overlaps::default());
    // No two owners are inside together, so no owner deletes another's row.
    assert_eq!(done.robbed, 0);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_style_owners_admit_two_of_ours_without_companions() {
    const TEST: &str = "locks_without_companions";
    let settings = Settings::of(TEST);
    let rig = Rig::new(TEST, &settings, Sort::OursAlone).await;
    let load = Load {
        locks: 16,
        ours: 4,
        java: 2,
        cycles: 1_000,
        protected: false,
    };
    // An overlap occurs in one of a thousand to a few thousand cycles.
    let (mut robbed, mut overlaps) = (0, 0);
    for _ in 0..20 {
        let done = spin(&rig, load).await;
        robbed += done.robbed;
        overlaps += done.overlaps.ours_in_ours;
        if overlaps > 0 {
            break;
        }
    }
    assert!(robbed > 0, "no Java-style owner was in anybody's way");
    assert!(overlaps > 0, "the harness is blind");
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn harness_sees_the_overlaps_of_java_style_owners() {
    const TEST: &str = "locks_java_alone";
    let settings = Settings::of(TEST);
    let rig = Rig::new(TEST, &settings, Sort::WithCompanions).await;
    let load = Load {
        locks: 16,
        ours: 0,
        java: 4,
        cycles: Settings::cycles(50_000, 1_000_000) / 25,
        protected: false,
    };
    let done = spin(&rig, load).await;
    assert!(done.overlaps.java_in_java > 0, "the harness is blind");
    rig.end().await;
}
