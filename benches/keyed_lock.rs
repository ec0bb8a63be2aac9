//! How often a second can an id be locked and unlocked?
//!
//! 16 ids, empty critical sections, by 1, 2 and 8 threads: this library's `IdLock`, HBase's own
//! `IdLock` in a Java program (`benches/java/keyed_lock`; Maven fetches its jar), and the crate
//! `lockable`; the two Rust locks also by eight tasks on each of as many threads. All take turns in
//! five rounds.
//!
//!     make bench
//!
//! or, without a cluster: `cargo bench --all-features --bench keyed_lock`.
//!
//! The exit status is 1 unless the median of the rounds' ratios is at least 2 to HBase, and at least
//! 1 to `lockable`, with threads and with tasks. With `-- --short`, one short round without that check.

mod setup;

use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use hbase_keyed_lock::IdLock;
use lockable::LockPool;

use self::setup::{Failure, is_short, median};

const IDS: u64 = 16;
const THREADS: [usize; 3] = [1, 2, 8];
const TASKS_PER_THREAD: usize = 8;
/// The number of locks between two reads of the clock, and for a task between two yields.
const BATCH: u64 = 64;

/// The required ratios.
const OF_HBASE: f64 = 2.0;
const OF_LOCKABLE: f64 = 1.0;

fn main() -> Result<ExitCode, Failure> {
    let (rounds, length) = if is_short() {
        (1, Duration::from_millis(50))
    } else {
        (5, Duration::from_millis(500))
    };
    let mut hbase = HBase::start()?;
    // Warms up, so that the virtual machine has compiled the code.
    for threads in THREADS {
        hbase.measure(threads, length * 4)?;
    }
    println!(
        "{IDS} ids, lock and unlock, millions a second; medians of {rounds} rounds of {length:?}, and of their ratios"
    );
    println!("threads  HBase  ours  lockable  ours, tasks  lockable, tasks");
    let mut fails = false;
    for threads in THREADS {
        let mut seen: [Vec<f64>; 5] = Default::default();
        for _ in 0..rounds {
            let figures = [
                hbase.measure(threads, length)?,
                ours(threads, length),
                lockables(threads, length),
                ours_with_tasks(threads, length)?,
                lockables_with_tasks(threads, length)?,
            ];
            for (seen, figure) in seen.iter_mut().zip(figures) {
                seen.push(figure);
            }
        }
        let [hbase, ours, lockable, our_tasks, lockable_tasks] = &seen;
        print!("{threads:>7}");
        for (figures, width) in seen.iter().zip([5, 4, 8, 11, 15]) {
            print!("  {:>width$.2}", median(figures.iter().copied()));
        }
        println!();
        for (what, ours, lockable) in [("threads", ours, lockable), ("tasks", our_tasks, lockable_tasks)] {
            let to = |theirs: &Vec<f64>| median(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs));
            let (to_hbase, to_lockable) = (to(hbase), to(lockable));
            println!("{threads:>7}  {what}: {to_hbase:.2} times HBase's, {to_lockable:.2} times lockable's");
            fails |= to_hbase < OF_HBASE || to_lockable < OF_LOCKABLE;
        }
    }
    println!("at least {OF_HBASE} times HBase's and {OF_LOCKABLE} times lockable's is asked for");
    Ok(if fails && !is_short() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Returns the millions of locks a second of these threads; each counts its own.
fn with_threads(threads: usize, length: Duration, run: impl Fn(&mut Rng) + Sync) -> f64 {
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let count: u64 = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let (mut random, mut count) = (Rng::new(), 0);
                    while !stop.load(Ordering::Relaxed) {
                        for _ in 0..BATCH {
                            run(&mut random);
                        }
                        count += BATCH;
                    }
                    count
                })
            })
            .collect();
        while let Some(left) = length.checked_sub(began.elapsed()) {
            thread::park_timeout(left);
        }
        stop.store(true, Ordering::Relaxed);
        running.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    millions(count, began.elapsed())
}

fn ours(threads: usize, length: Duration) -> f64 {
    let locks = IdLock::new();
    with_threads(threads, length, |random| {
        drop(locks.lock(random.u64(..IDS)).blocking());
    })
}

fn lockables(threads: usize, length: Duration) -> f64 {
    let locks = LockPool::new();
    with_threads(threads, length, |random| {
        drop(locks.blocking_lock(random.u64(..IDS)));
    })
}

/// Returns the millions of locks a second of the tasks of these threads. A task does a batch,
/// yields, and starts again.
fn with_tasks<B: Future<Output = ()> + Send>(
    threads: usize,
    length: Duration,
    batch: impl Fn(Rng) -> B + Clone + Send + 'static,
) -> Result<f64, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_time()
        .build()?;
    let stop = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    let tasks: Vec<_> = (0..threads * TASKS_PER_THREAD)
        .map(|_| {
            let (batch, stop) = (batch.clone(), Arc::clone(&stop));
            runtime.spawn(async move {
                let (mut random, mut count) = (Rng::new(), 0);
                while !stop.load(Ordering::Relaxed) {
                    batch(random.fork()).await;
                    count += BATCH;
                    tokio::task::yield_now().await;
                }
                count
            })
        })
        .collect();
    let count = runtime.block_on(async {
        tokio::time::sleep(length).await;
        stop.store(true, Ordering::Relaxed);
        let mut count = 0;
        for task in tasks {
            count += task.await?;
        }
        Ok::<_, Failure>(count)
    })?;
    Ok(millions(count, began.elapsed()))
}

fn ours_with_tasks(threads: usize, length: Duration) -> Result<f64, Failure> {
    let locks = IdLock::new();
    with_tasks(threads, length, move |mut random| {
        let locks = locks.clone();
        async move {
            for _ in 0..BATCH {
                drop(locks.lock(random.u64(..IDS)).await);
            }
        }
    })
}

fn lockables_with_tasks(threads: usize, length: Duration) -> Result<f64, Failure> {
    let locks = Arc::new(LockPool::new());
    with_tasks(threads, length, move |mut random| {
        let locks = Arc::clone(&locks);
        async move {
            for _ in 0..BATCH {
                drop(locks.async_lock(random.u64(..IDS)).await);
            }
        }
    })
}

fn millions(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64() / 1e6
}

/// A Java virtual machine that measures on request, and exits with this process.
struct HBase {
    machine: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl HBase {
    fn start() -> Result<Self, Failure> {
        let program = Path::new(env!("REPOSITORY")).join("benches/java/keyed_lock");
        let jars = Path::new(env!("CARGO_TARGET_TMPDIR")).join("keyed_lock");
        let fetched = Command::new("mvn")
            .args(["-q", "-B", "-Dstyle.color=never", "-f"])
            .arg(program.join("pom.xml"))
            .arg("dependency:copy-dependencies")
            .arg(format!("-DoutputDirectory={}", jars.display()))
            .output()?;
        if !fetched.status.success() {
            let said = String::from_utf8_lossy(&fetched.stdout);
            return Err(format!("Maven can't fetch the jar of HBase's IdLock: {said}").into());
        }
        let java = match env::var_os("JAVA_HOME") {
            Some(home) => Path::new(&home).join("bin/java"),
            None => "java".into(),
        };
        let mut machine = Command::new(java)
            .arg("-cp")
            .arg(jars.join("*"))
            .arg(program.join("HBaseIdLock.java"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // It warns that no logger is configured.
            .stderr(Stdio::null())
            .spawn()?;
        let (requests, answers) = (machine.stdin.take(), machine.stdout.take());
        Ok(Self {
            machine,
            requests,
            answers: BufReader::new(answers.ok_or("no pipe from Java")?),
        })
    }

    /// Returns the millions of locks a second.
    fn measure(&mut self, threads: usize, length: Duration) -> Result<f64, Failure> {
        let requests = self.requests.as_mut().ok_or("no pipe to Java")?;
        writeln!(requests, "{threads} {} {IDS}", length.as_millis())?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        let (count, nanos) = answer
            .trim()
            .split_once(' ')
            .ok_or("Java ended without an answer; run HBaseIdLock.java by hand")?;
        Ok(millions(count.parse()?, Duration::from_nanos(nanos.parse()?)))
    }
}

impl Drop for HBase {
    fn drop(&mut self) {
        // It exits when its stdin ends.
        self.requests = None;
        drop(self.machine.wait());
    }
}
