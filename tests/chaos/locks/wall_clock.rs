//! A process whose wall clock is a minute off, and one whose clock is right. The other process is
//! this test binary with a clock that `clock_shift.c` shifts; it follows instructions on stdin.

use std::{
    env,
    path::Path,
    process::Stdio,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use hbase_provision::audit_cluster;
use hbase_txn::{
    ErrorKind,
    client::{Config, Connection},
    lock::{LockGuard, LockManager},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, stdin},
    process::{Child, ChildStderr, ChildStdin, Command},
    time::timeout,
};

use super::{Rig, Sort, locks_of, request};
use crate::{
    clock_shift::{PRELOAD, SHIFT, compile},
    cluster::PATIENCE,
    settings::Settings,
};

const OTHER: &str = "locks::wall_clock::other_process";
const TABLE: &str = "CLOCK_SHIFT_TABLE";
const URI: &str = "CLOCK_SHIFT_URI";
const LEASE: Duration = Duration::from_secs(3);
const ID: &str = "clock";

/// The other process. It answers on stderr, because the harness writes to stdout.
#[tokio::test]
#[ignore = "is run by another test, as another process"]
async fn other_process() {
    let config = Config::from_uri(&env::var(URI).unwrap()).unwrap();
    let connection = Connection::builder(config).connect().await.unwrap();
    let locks = locks_of(&connection, &env::var(TABLE).unwrap().parse().unwrap()).await;
    let mut orders = BufReader::new(stdin()).lines();
    let mut guard = None;
    while let Some(order) = orders.next_line().await.unwrap() {
        let answer = match &*order {
            "clocks" => clocks(&connection).await,
            order => obey(order, &locks, &mut guard).await,
        };
        eprintln!("{answer}");
    }
}

/// Returns the audit's findings on the servers' clocks.
async fn clocks(connection: &Connection) -> String {
    let audit = audit_cluster(connection, &[]).await.unwrap();
    let distant = audit
        .findings
        .into_iter()
        .filter(|finding| finding.finding == "clock-distant");
    distant.map(|finding| finding.what).collect::<Vec<_>>().join("; ")
}

async fn obey(order: &str, locks: &LockManager, held: &mut Option<LockGuard>) -> String {
    match order {
        "time" => now().as_secs().to_string(),
        "acquire" => match request(locks, ID, LEASE).acquire().await {
            Ok(guard) => {
                let fencing = guard.fencing();
                *held = Some(guard);
                format!("held {fencing}")
            }
            Err(error) if error.kind() == ErrorKind::LockUnavailable => "refused".to_owned(),
            Err(error) => error.to_string(),
        },
        "remaining" => held.as_ref().unwrap().remaining().as_millis().to_string(),
        "renew" => match held.as_ref().unwrap().renew().await {
            Ok(()) => "renewed".to_owned(),
            Err(error) => error.to_string(),
        },
        "lost" => held.as_ref().unwrap().lost().await.to_string(),
        "release" => held.take().unwrap().release().await.unwrap().to_string(),
        other => panic!("no such order: {other}"),
    }
}

struct Other {
    process: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStderr>>,
}

impl Other {
    fn start(rig: &Rig, shim: &Path, shift: i64) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", OTHER, "--ignored", "--nocapture"])
            .env(PRELOAD, shim)
            .env(SHIFT, shift.to_string())
            .env(TABLE, rig.name.to_string())
            .env(URI, rig.cluster.uri())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            orders: process.stdin.take().unwrap(),
            answers: BufReader::new(process.stderr.take().unwrap()).lines(),
            process,
        }
    }

    async fn told(&mut self, order: &str) -> String {
        self.orders
            .write_all(format!("{order}\n").as_bytes())
            .await
            .unwrap();
        let answer = timeout(PATIENCE, self.answers.next_line()).await;
        answer.expect("an answer in time").unwrap().expect("an answer")
    }

    async fn acquires(&mut self) -> i64 {
        let answer = self.told("acquire").await;
        let fencing = answer.strip_prefix("held ");
        fencing.unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
    }

    async fn remaining(&mut self) -> Duration {
        Duration::from_millis(self.told("remaining").await.parse().unwrap())
    }

    async fn end(mut self) {
        drop(self.orders);
        assert!(self.process.wait().await.unwrap().success());
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_wall_clock_does_not_break_exclusion() {
    const TEST: &str = "lock_wall_clock";
    let settings = Settings::of(TEST);
    let folder = tempfile::tempdir().unwrap();
    let shim = compile(folder.path());
    for sort in settings.variants([Sort::OursAlone, Sort::WithCompanions]) {
        let rig = Rig::new(TEST, &settings, sort).await;
        let locks = rig.locks().await;
        let mut last = 0;
        for shift in [60_i64, -60] {
            let mut other = Other::start(&rig, &shim, shift);
            let seen: i64 = other.told("time").await.parse().unwrap();
            let off = seen - i64::try_from(now().as_secs()).unwrap();
            assert!((off - shift).abs() < 20, "its clock is {off} s off, not {shift}");

            // The audit of the other process reports the clocks; the audit of this process does
            // not.
            let distant = other.told("clocks").await;
            let direction = if shift > 0 { "behind" } else { "ahead" };
            assert!(
                distant.contains("the clock of region server") && distant.contains(direction),
                "{distant}"
            );
            assert_eq!(clocks(&rig.cluster.connect().await).await, "");

            // It holds the lock, and this process is refused; it renews, and its clock has no
            // effect.
            let fencing = other.acquires().await;
            assert!(fencing > last, "{fencing} behind {last}");
            assert!(other.remaining().await <= LEASE);
            assert!(request(&locks, ID, LEASE).try_acquire().await.unwrap().is_none());
            assert_eq!(other.told("renew").await, "renewed");
            assert!(other.remaining().await > LEASE / 3);
            assert_eq!(other.told("release").await, "released");

            // This process holds the lock, and the other one is refused.
            let guard = request(&locks, ID, LEASE).acquire().await.unwrap();
            assert!(guard.fencing() > fencing);
            assert_eq!(other.told("acquire").await, "refused");
            last = guard.fencing();
            assert!(guard.release().await.unwrap().is_released());

            // It reports the end of its lease, and this process acquires the lock.
            let fencing = other.acquires().await;
            assert!(fencing > last, "{fencing} behind {last}");
            let next = request(&locks, ID, LEASE).wait(PATIENCE).acquire();
            let (lost, next) = tokio::join!(other.told("lost"), next);
            let next = next.unwrap();
            assert_eq!(lost, "its lease expired");
            assert!(next.fencing() > fencing);
            last = next.fencing();
            let stale = other.told("release").await;
            assert!(stale.starts_with("no longer held"), "{stale}");
            assert!(next.release().await.unwrap().is_released());
            other.end().await;
        }
        rig.end().await;
    }
}
