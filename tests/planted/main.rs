//! Bugs that are planted, one at a time, and that tests must find.
//!
//! `tests/planted.toml` lists bugs of the library, which the simulation or the short forms of the tests
//! under faults must find, and `tests/planted_store.toml` bugs of the fake's store, which the
//! conformance must find. `scripts/planted` runs the ignored tests on a copy of the sources.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use serde_json::Value;
use toml::de::DeTable;

/// The seconds of processor time within which one core must find a bug.
const LIMIT: &str = "60";
/// Runs a command with this limit, and prints its processor time at the end.
const LIMITED: &str = r#"ulimit -S -t "$0"; "$@"; status=$?; times >&2; exit $status"#;
/// The status of a shell whose command was killed because it had reached its limit (SIGXCPU).
const OVER: i32 = 128 + 24;
/// The seconds after which a scenario hangs, however busy the machine is.
const LIMIT_OF_WAITING: &str = "1200";
/// The status of `timeout` if the time is over.
const TIMED_OUT: i32 = 124;
/// The level of optimisation of what is run within the limit.
const OPTIMISED: (&str, &str) = ("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
/// More seeds than fit into the limit.
const SEEDS: &str = "1000000";
/// The operations within which the conformance must find a bug.
const OPERATIONS: &str = "50000";
/// The test that compares the fake with a cluster.
const COMPARISON: &str = "fake_answers_as_every_release_does";

const LIBRARY: &str = "tests/planted.toml";
const STORE: &str = "tests/planted_store.toml";

/// A mistake in the sources.
struct Bug {
    name: String,
    /// What goes wrong for the user.
    what: String,
    file: PathBuf,
    /// The source that is replaced. It occurs once in the file.
    find: String,
    replace: String,
    /// The test of the simulation that must fail.
    scenario: Option<String>,
    /// The test of `tests/chaos` that must fail in its short form.
    chaos: Option<String>,
}

impl Bug {
    fn all(list: &str) -> Vec<Self> {
        let text = read(&root().join(list));
        let file = DeTable::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        let bugs = file.get_ref()["bug"].get_ref().as_array().unwrap().iter();
        bugs.map(|bug| {
            let text = |key: &str| Some(bug.get_ref().get(key)?.get_ref().as_str().unwrap().to_owned());
            let of = |key: &str| text(key).unwrap_or_else(|| panic!("a bug has no {key}"));
            Self {
                name: of("name"),
                what: of("what"),
                file: of("file").into(),
                find: of("find"),
                replace: of("replace"),
                scenario: text("scenario"),
                chaos: text("chaos"),
            }
        })
        .collect()
    }

    /// Returns the file's text without the bug and with it.
    fn texts(&self, root: &Path) -> (String, String) {
        let right = read(&root.join(&self.file));
        let count = right.matches(&self.find).count();
        let (name, file) = (&self.name, self.file.display());
        assert_eq!(count, 1, "{name}: occurrences of its source in {file}");
        let wrong = right.replace(&self.find, &self.replace);
        (right, wrong)
    }
}

fn root() -> &'static Path {
    Path::new(env!("REPOSITORY"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn planted_bugs_fit_the_sources() {
    let simulation = read(&root().join("tests/simulation/main.rs"));
    let mut names = BTreeSet::new();
    for bug in [LIBRARY, STORE].into_iter().flat_map(Bug::all) {
        let (right, wrong) = bug.texts(root());
        assert_ne!(right, wrong, "{}", bug.name);
        assert!(bug.what.ends_with('.'), "{}", bug.name);
        if let Some(scenario) = &bug.scenario {
            let function = format!("#[test]\nfn {scenario}() {{");
            assert!(simulation.contains(&function), "{}: no {scenario}", bug.name);
        }
        if let Some(test) = &bug.chaos {
            assert!(is_a_test_under_faults(test), "{}: no {test}", bug.name);
        }
        assert!(names.insert(bug.name.clone()), "two bugs are called {}", bug.name);
    }
}

/// Returns whether a file of `tests/chaos` has the function of this path.
fn is_a_test_under_faults(path: &str) -> bool {
    let (module, function) = path.rsplit_once("::").unwrap();
    // A module of this name at the end of a path is inside the file.
    let module = module.strip_suffix("::simulated").unwrap_or(module);
    let folder = root().join("tests/chaos").join(module.replace("::", "/"));
    let files = [folder.with_extension("rs"), folder.join("mod.rs")];
    let found = files.iter().find(|file| file.exists());
    found.is_some_and(|file| read(file).contains(&format!("fn {function}()")))
}

#[test]
#[ignore = "builds the library for each bug: make planted"]
fn simulation_finds_planted_bugs() {
    plant(LIBRARY, |tree, bug| {
        let scenario = bug.scenario.as_ref()?;
        Some(build(tree, "simulation", Some(OPTIMISED)).and_then(|binary| simulate(&binary, tree, scenario)))
    });
}

#[test]
#[ignore = "builds the library for each bug, and needs a cluster: make planted-chaos"]
fn short_forms_under_faults_find_planted_bugs() {
    plant(LIBRARY, |tree, bug| {
        let test = bug.chaos.as_ref()?;
        Some(build(tree, "chaos", None).and_then(|binary| run_under_faults(&binary, tree, test)))
    });
}

#[test]
#[ignore = "builds the fake for each bug, and needs a cluster: make planted-store"]
fn conformance_finds_planted_bugs() {
    plant(STORE, |tree, _| {
        Some(build(tree, "conformance", None).and_then(|binary| compare(&binary, tree)))
    });
}

/// Plants the bugs of a list that `PLANTED` names (all if it is empty) in the copy of the sources
/// `PLANTED_TREE`, and prints by what each is found. Leaves out those for which `find` returns
/// `None`.
fn plant(list: &str, find: impl Fn(&Path, &Bug) -> Option<Result<String, String>>) {
    let tree = PathBuf::from(env::var("PLANTED_TREE").expect("run by scripts/planted"));
    let names = env::var("PLANTED").unwrap_or_default();
    let mut wanted: BTreeSet<&str> = names.split_whitespace().collect();
    let all = wanted.is_empty();
    let mut missed = Vec::new();
    for bug in Bug::all(list) {
        if !wanted.remove(bug.name.as_str()) && !all {
            continue;
        }
        let (right, wrong) = bug.texts(&tree);
        let file = tree.join(&bug.file);
        fs::write(&file, wrong).unwrap();
        let result = find(&tree, &bug);
        fs::write(&file, right).unwrap();
        let Some(result) = result else { continue };
        let (Ok(text) | Err(text)) = &result;
        println!("| {} | {text} |", bug.name);
        if result.is_err() {
            missed.push(bug.name);
        }
    }
    assert!(wanted.is_empty(), "no bugs are called {wanted:?}");
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// Builds tests in this environment, and returns their binary.
fn build(tree: &Path, tests: &str, profile: Option<(&str, &str)>) -> Result<PathBuf, String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(tree)
        // That of this test is another tree's.
        .env_remove("REPOSITORY")
        .env("CARGO_TARGET_DIR", env::var_os("PLANTED_TARGET").unwrap())
        .envs(profile)
        .args(["test", "--quiet", "--all-features", "--test", tests])
        .args(["--no-run", "--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    if !output.status.success() {
        return Err("- | - | it does not build".to_owned());
    }
    let messages = String::from_utf8(output.stdout).unwrap();
    let binary = messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_wanted = message["target"]["name"] == tests;
        Some(message["executable"].as_str().filter(|_| is_wanted)?.into())
    });
    Ok(binary.unwrap())
}

/// Runs a scenario on one core until it fails. Returns the seconds of processor time, which do not
/// depend on other processes, and the first line of its report. A reduction of the faults may be
/// cut off by the limit.
fn simulate(binary: &Path, tree: &Path, scenario: &str) -> Result<String, String> {
    let mut command = Command::new("timeout");
    command.args([LIMIT_OF_WAITING, "sh", "-c", LIMITED, LIMIT]);
    if Command::new("taskset").arg("--version").output().is_ok() {
        command.args(["taskset", "--cpu-list", "0"]);
    }
    let output = command
        .arg(binary)
        .args([scenario, "--exact", "--nocapture"])
        .current_dir(tree)
        .env_remove("SIM_SEED")
        .env("SIM_SEEDS", SEEDS)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let seconds = seconds(&text).unwrap_or(f64::INFINITY);
    match (output.status.code(), report(&text, " fails: panicked at ")) {
        (_, Some(report)) => Ok(format!("{scenario} | {seconds:.1} | {report}")),
        (Some(OVER | TIMED_OUT), None) => Err(format!("{scenario} | - | not found in {LIMIT} s")),
        (status, None) => Err(format!("{scenario} | - | no report, status {status:?}")),
    }
}

/// Runs the short form of a test under faults. Returns its seconds, and the first line of its report.
fn run_under_faults(binary: &Path, tree: &Path, test: &str) -> Result<String, String> {
    let began = Instant::now();
    let output = Command::new("timeout")
        .arg(LIMIT_OF_WAITING)
        .arg(binary)
        .args([test, "--exact", "--nocapture"])
        .current_dir(tree.join("crates/cli"))
        .output()
        .unwrap();
    let seconds = began.elapsed().as_secs();
    let text = String::from_utf8_lossy(&output.stderr);
    match (output.status.code(), report(&text, " panicked at ")) {
        (Some(0), _) => Err(format!("{test} | {seconds} | not found")),
        (_, Some(report)) => Ok(format!("{test} | {seconds} | {report}")),
        (status, None) => Err(format!("{test} | {seconds} | no report, status {status:?}")),
    }
}

/// Compares the fake with a cluster until an answer differs. Returns the seconds, and the first
/// answers that differ.
fn compare(binary: &Path, tree: &Path) -> Result<String, String> {
    let began = Instant::now();
    let output = Command::new("timeout")
        .arg(LIMIT_OF_WAITING)
        .arg(binary)
        .args([COMPARISON, "--exact", "--nocapture"])
        .current_dir(tree)
        .env_remove("CONFORMANCE_SEED")
        .env("CONFORMANCE_OPERATIONS", OPERATIONS)
        .env("CONFORMANCE_DIFFERENCES", "1")
        .output()
        .unwrap();
    let seconds = began.elapsed().as_secs();
    let text = String::from_utf8_lossy(&output.stdout);
    let answer = |of: &str| {
        let line = text.lines().map(str::trim).find(|line| line.starts_with(of))?;
        Some(line.replace('|', "/").chars().take(120).collect::<String>())
    };
    match (answer("HBase: "), answer("fake: ")) {
        (Some(real), Some(fake)) => Ok(format!("{COMPARISON} | {seconds} | {real} {fake}")),
        _ if output.status.success() => {
            Err(format!("{COMPARISON} | - | not found in {OPERATIONS} operations"))
        }
        _ => Err(format!(
            "{COMPARISON} | - | no difference, status {:?}",
            output.status.code()
        )),
    }
}

/// Returns the processor time of the shell's children, from the last line: `1m2.3s 0m0.4s`.
fn seconds(text: &str) -> Option<f64> {
    let times = text.lines().last()?.split_whitespace();
    let seconds = times.map(|time| {
        let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
        Some(60.0 * minutes.parse::<f64>().ok()? + seconds.parse::<f64>().ok()?)
    });
    seconds.sum()
}

/// Returns the place and the first line of a failure that follows these words.
fn report(text: &str, words: &str) -> Option<String> {
    let (_, failure) = text.split_once(words)?;
    let lines: Vec<&str> = failure.lines().take(2).map(str::trim).collect();
    Some(lines.join(" ").chars().take(200).collect())
}
