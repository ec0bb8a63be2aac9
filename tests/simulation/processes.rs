//! Runs of the same seeds in two processes, which must do the same.

use std::{collections::BTreeSet, env, fs, process::Command};

/// One seed of this many of each scenario is run.
const ONE_IN: u64 = 20;

#[test]
fn runs_are_equal_in_another_process() {
    let seeds = env::var("SIM_SEEDS").map_or(300, |text| text.parse().unwrap());
    let (first, count) = (fastrand::u64(..1 << 40), u64::max(seeds / ONE_IN, 1));
    let [one, other] = [0, 1].map(|process| traces(first, count, process));
    assert!(!one.is_empty());
    let differences: Vec<_> = one.symmetric_difference(&other).collect();
    assert!(differences.is_empty(), "two processes differ: {differences:#?}");
    println!(
        "{} schedules from seed {first} are equal in two processes",
        one.len()
    );
}

/// Runs all scenarios in a process. Returns name, seed and trace hash of each run.
fn traces(first: u64, count: u64, process: u64) -> BTreeSet<String> {
    let file = env::temp_dir().join(format!("hbase-txn-traces-{}-{process}", std::process::id()));
    let output = Command::new(env::current_exe().unwrap())
        .args([
            "--skip",
            "runs_are_equal_in_another_process",
            "--test-threads",
            "1",
        ])
        .env("SIM_FIRST_SEED", first.to_string())
        .env("SIM_SEEDS", count.to_string())
        .env("SIM_TRACES", &file)
        .env_remove("SIM_SEED")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let traces = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    traces.lines().map(str::to_owned).collect()
}
