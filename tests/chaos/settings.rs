//! How much of a test is run, and with which luck.

use std::{env, str::FromStr, time::Instant};

use fastrand::Rng;

/// One test's seed, and how much of it is run.
#[derive(Debug)]
pub(crate) struct Settings {
    test: &'static str,
    began: Instant,
    pub(crate) seed: u64,
    /// How many times the short form.
    pub(crate) rounds: u32,
}

impl Settings {
    /// Reads the environment, and prints what a failed run is repeated with.
    pub(crate) fn of(test: &'static str) -> Self {
        let settings = Self {
            test,
            began: Instant::now(),
            seed: from_env("CHAOS_SEED").unwrap_or_else(|| fastrand::u64(1..1 << 32)),
            rounds: from_env("CHAOS_ROUNDS").unwrap_or_else(default_rounds).max(1),
        };
        println!(
            "{test}: CHAOS_SEED={} CHAOS_ROUNDS={}",
            settings.seed, settings.rounds
        );
        settings
    }

    /// How many of something are done: `CHAOS_COMMITS`, or as many as the form that is run has.
    pub(crate) fn commits(short: usize, long: usize) -> usize {
        from_env("CHAOS_COMMITS").unwrap_or_else(|| if is_long() { long } else { short })
    }

    /// How often locks are acquired: `CHAOS_CYCLES`, or as often as in the form that is run.
    pub(crate) fn cycles(short: usize, long: usize) -> usize {
        from_env("CHAOS_CYCLES").unwrap_or_else(|| if is_long() { long } else { short })
    }

    /// A source of chance that this seed decides; `part` keeps those of one test apart.
    pub(crate) fn rng(&self, part: u64) -> Rng {
        Rng::with_seed(self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(part))
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        println!("{}: {:.1?}", self.test, self.began.elapsed());
    }
}

fn default_rounds() -> u32 {
    if is_long() { 10 } else { 1 }
}

pub(crate) fn is_long() -> bool {
    env::var_os("HBASE_TXN_TEST_LONG").is_some()
}

fn from_env<T: FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok().filter(|text| !text.is_empty())?;
    match text.parse() {
        Ok(value) => Some(value),
        Err(_) => panic!("{name}={text} is not a number"),
    }
}
