//! The extent and the seed of a test.

use std::{env, str::FromStr, time::Instant};

use fastrand::Rng;

/// The seed and the extent of one test.
#[derive(Debug)]
pub(crate) struct Settings {
    test: &'static str,
    began: Instant,
    pub(crate) seed: u64,
    /// The number of runs of the short form.
    pub(crate) rounds: u32,
}

impl Settings {
    /// Reads the environment, and prints the settings that repeat the run.
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

    /// Returns `CHAOS_COMMITS`, or the number for the present form.
    pub(crate) fn commits(short: usize, long: usize) -> usize {
        from_env("CHAOS_COMMITS").unwrap_or_else(|| if is_long() { long } else { short })
    }

    /// Returns `CHAOS_CYCLES`, or the number for the present form.
    pub(crate) fn cycles(short: usize, long: usize) -> usize {
        from_env("CHAOS_CYCLES").unwrap_or_else(|| if is_long() { long } else { short })
    }

    /// Returns `CHAOS_OPERATIONS`, or the number for the present form.
    pub(crate) fn operations(short: usize, long: usize) -> usize {
        from_env("CHAOS_OPERATIONS").unwrap_or_else(|| if is_long() { long } else { short })
    }

    /// Returns all of these in the long form, and one of them, by the seed, in the short form.
    pub(crate) fn variants<T: Copy, const N: usize>(&self, all: [T; N]) -> Vec<T> {
        if is_long() {
            all.to_vec()
        } else {
            self.rng(60).choice(all).into_iter().collect()
        }
    }

    /// Returns a random generator for this seed; `part` distinguishes those of one test.
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
