//! Simulations: a scenario is run with many seeds, each on a cluster of its own and in virtual time.
//!
//! Everything that happens in a run follows from its seed: the cluster, the times of messages, the
//! faults, and all choices of the scenario that are drawn from [`World::rng`]. A scenario fails by a
//! panic. Then the faults of the run are reduced to those that the failure needs, and printed with
//! the end of the trace.
//!
//! # Example
//!
//! ```
//! use hbase_client::{Get, Put};
//! use hbase_fake::sim::{Simulation, World};
//!
//! async fn acknowledged_put_is_read(world: World) {
//!     world.hbase().create_table("orders", &["f"], &["m"]);
//!     let client = world.connect(world.hbase().config(), 0).await.unwrap();
//!     let orders = client.table("orders").unwrap();
//!     world.begin_faults();
//!     let put = orders.put(Put::new("a").cell("f", "q", "1")).await;
//!     world.end_faults().await;
//!     if put.is_ok() {
//!         assert!(orders.get(Get::new("a")).await.unwrap().is_some());
//!     }
//! }
//!
//! Simulation::new("puts").seeds(0, 20).run(acknowledged_put_is_read);
//! ```

mod event;
mod journal;
mod plan;
mod shrink;
mod watch;
mod world;

use std::{
    cell::RefCell,
    collections::BTreeSet,
    env,
    panic::{self, AssertUnwindSafe},
    sync::{
        Mutex, Once,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

pub use self::world::World;
use self::{
    journal::Journal,
    plan::{FaultId, FaultReport, Plan, PlanOptions},
    watch::Watch,
};

/// The virtual time after which a scenario hangs.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);
/// The lines of the trace that are printed.
const TRACE: usize = 40;
/// One run of this many is repeated, and must be the same.
const REPEATED: u64 = 20;

/// A scenario's seeds.
#[derive(Clone, Debug)]
#[must_use = "a simulation does nothing until it is run"]
pub struct Simulation {
    name: String,
    first: u64,
    count: u64,
    options: PlanOptions,
}

/// The result of one run.
struct Run {
    failure: Option<String>,
    /// A number that differs if anything else happened.
    trace: u64,
    faults: Vec<FaultReport>,
    /// What happened on the network, of a run that fails or is repeated.
    events: String,
}

impl Simulation {
    /// Creates a simulation of 300 random seeds. The name is printed with failures.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            first: fastrand::u64(..1 << 40),
            count: 300,
            options: PlanOptions::default(),
        }
    }

    /// Creates a simulation of `SIM_SEEDS` seeds (300 unless set) from `SIM_FIRST_SEED` on (random
    /// unless set), or of the one seed `SIM_SEED`.
    ///
    /// # Panics
    ///
    /// Panics if one of these variables is not a number.
    pub fn from_env(name: impl Into<String>) -> Self {
        let number = |variable: &str| {
            let text = env::var(variable).ok()?;
            Some(
                text.parse()
                    .unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
            )
        };
        let random = Self::new(name);
        let count = number("SIM_SEEDS").unwrap_or(random.count);
        match number("SIM_SEED") {
            Some(seed) => random.seeds(seed, 1),
            None => {
                let first = number("SIM_FIRST_SEED").unwrap_or(random.first);
                random.seeds(first, count)
            }
        }
    }

    /// Sets the seeds: this many, from the first on.
    pub fn seeds(mut self, first: u64, count: u64) -> Self {
        (self.first, self.count) = (first, count);
        self
    }

    /// Keeps the clocks of servers as they are. Otherwise they jump ahead and back by up to 20
    /// seconds, with which leases end early or late.
    pub fn steady_clocks(mut self) -> Self {
        self.options.steady_clocks = true;
        self
    }

    /// Moves, splits and merges so many regions in each run, beside its other faults.
    pub fn region_changes(mut self, count: usize) -> Self {
        self.options.region_changes = count;
        self
    }

    /// Also lets servers execute requests twice, the second time late. A client that sends a request
    /// again after a lost answer has the same effect, so only requests with an effect that depends on
    /// a condition may be sent again.
    pub fn doubled_requests(mut self) -> Self {
        self.options.doubled_requests = true;
        self
    }

    /// Runs the scenario with each seed, on all cores. Appends the name, the seed and a hash of the
    /// trace of each run to the file `SIM_TRACES`, if it is set.
    ///
    /// # Panics
    ///
    /// Panics if a run fails, if a run does not end within a virtual day, or if two runs of one
    /// seed differ. The message has the seed, the faults that the failure needs, and the end of the
    /// trace.
    ///
    /// # Aborts
    ///
    /// Aborts the process if a seed takes five minutes of real time: a task that never waits cannot
    /// be ended otherwise.
    pub fn run<F: Future<Output = ()>>(self, scenario: impl Fn(World) -> F + Sync) {
        let began = Instant::now();
        let (next, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let failed = Mutex::new(None);
        let journal = Journal::from_env();
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= self.count {
                            return;
                        }
                        let watch = Watch::begin(&self.name, self.first.wrapping_add(number));
                        if let Err(failure) = self.check(number, &journal, &scenario) {
                            over.store(true, Ordering::Relaxed);
                            let mut failed = failed.lock().unwrap_or_else(|broken| broken.into_inner());
                            failed.get_or_insert(failure);
                        }
                        drop(watch);
                    }
                });
            }
        });
        let took = began.elapsed();
        if let Some(failure) = failed.into_inner().unwrap_or_else(|broken| broken.into_inner()) {
            panic!("{failure}");
        }
        println!(
            "{}: {} schedules from seed {} in {:.1} s, {:.0} a minute",
            self.name,
            self.count,
            self.first,
            took.as_secs_f64(),
            60.0 * self.count as f64 / took.as_secs_f64(),
        );
        println!("{}: {journal}", self.name);
    }

    /// Runs one seed, and returns a report of its failure.
    fn check<F: Future<Output = ()>>(
        &self,
        number: u64,
        journal: &Journal,
        scenario: &(impl Fn(World) -> F + Sync),
    ) -> Result<(), String> {
        let seed = self.first.wrapping_add(number);
        let is_repeated = number.is_multiple_of(REPEATED);
        let run = self.run_once(seed, None, is_repeated, scenario);
        journal.add(&self.name, seed, run.trace, &run.faults);
        if let Some(failure) = &run.failure {
            // The reduction may take minutes.
            eprintln!("{}: SIM_SEED={seed} fails: {failure}", self.name);
            let faults = run.faults.iter().map(|fault| fault.id).collect();
            let (_, fewest) =
                shrink::shrink(faults, &|only| self.run_once(seed, Some(only), false, scenario));
            return Err(self.report(seed, failure, &fewest));
        }
        if is_repeated {
            let again = self.run_once(seed, None, true, scenario);
            if again.failure.is_some() || again.trace != run.trace {
                return Err(format!(
                    "{}: two runs of SIM_SEED={seed} differ: {:?}\n{}",
                    self.name,
                    again.failure,
                    first_difference(&run.events, &again.events)
                ));
            }
        }
        Ok(())
    }

    /// Runs a scenario once, with all faults or with some of them. The events of a run that does not
    /// fail are returned only on request: their text is long.
    fn run_once<F: Future<Output = ()>>(
        &self,
        seed: u64,
        only: Option<BTreeSet<FaultId>>,
        with_events: bool,
        scenario: &(impl Fn(World) -> F + Sync),
    ) -> Run {
        fastrand::seed(seed);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap_or_else(|error| panic!("no runtime: {error}"));
        let plan = Plan::draw(seed, self.options);
        let world = runtime.block_on(async { World::new(seed, plan, only) });
        let (hbase, journal) = world.shared();
        let ended = quietly(|| {
            runtime.block_on(async {
                tokio::time::timeout(LONGEST, scenario(world))
                    .await
                    .unwrap_or_else(|_| panic!("it does not end within a virtual day"));
            });
        });
        // Tasks that the scenario has left end before the next run.
        drop(runtime);
        world::note_draws(&hbase, &journal);
        let complaints = hbase.complaints();
        let failure = ended
            .err()
            .or_else(|| (!complaints.is_empty()).then(|| complaints.join("\n")));
        let run = Run {
            trace: hbase.network().trace_hash(),
            faults: std::mem::take(&mut journal.happened()),
            events: if with_events || failure.is_some() {
                hbase.trace()
            } else {
                String::new()
            },
            failure,
        };
        // Its complaints have failed the run.
        drop(quietly(|| drop(hbase)));
        run
    }

    fn report(&self, seed: u64, failure: &str, fewest: &Run) -> String {
        let mut report = format!("{}: SIM_SEED={seed} fails: {failure}", self.name);
        match &fewest.failure {
            Some(failure) => {
                report += "\nthese faults are enough for it:";
                for fault in &fewest.faults {
                    report += "\n  ";
                    report += &fault.text;
                }
                report += &format!(
                    "\nthen it fails: {failure}\nthe last calls:\n{}",
                    last_lines(&fewest.events)
                );
            }
            None => report += "\nit does not fail again with the same faults",
        }
        report
    }
}

/// Returns where two traces part.
fn first_difference(one: &str, other: &str) -> String {
    let lines = one.lines().zip(other.lines());
    let equal = lines.take_while(|(one, other)| one == other).count();
    let part = |trace: &str| {
        let lines = trace.lines().skip(equal.saturating_sub(3)).take(6);
        lines.collect::<Vec<_>>().join("\n")
    };
    format!("{}\nand\n{}", part(one), part(other))
}

/// Returns the end of a trace.
fn last_lines(trace: &str) -> String {
    let lines: Vec<&str> = trace.lines().collect();
    lines[lines.len().saturating_sub(TRACE)..].join("\n")
}

thread_local! {
    /// The message of the last panic of a run on this thread, or `None` outside of runs.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a closure, and returns the message and the place of its first panic without printing them. A
/// runtime catches the panics of tasks, and these count too.
fn quietly(work: impl FnOnce()) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let caught = CAUGHT.with_borrow_mut(|caught| match caught {
                // The first panic is the cause of later ones.
                Some(message) if message.is_empty() => {
                    *message = panic.to_string();
                    true
                }
                caught => caught.is_some(),
            });
            if !caught {
                usual(panic);
            }
        }));
    });
    CAUGHT.set(Some(String::new()));
    let ended = panic::catch_unwind(AssertUnwindSafe(work));
    let message = CAUGHT.take().unwrap_or_default();
    if ended.is_ok() && message.is_empty() {
        Ok(())
    } else {
        Err(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "of a task")]
    fn panic_of_a_task_fails_the_run() {
        let scenario = async |_world: World| {
            let task = tokio::spawn(async { panic!("of a task") });
            // As a scenario may that does not look at the results of its tasks.
            let _: Result<(), _> = task.await;
        };
        Simulation::new("panic").seeds(0, 1).run(scenario);
    }
}
