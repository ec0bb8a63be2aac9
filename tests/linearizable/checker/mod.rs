//! Builds and runs the program of the folder `checker`.

use std::{
    env,
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
    thread,
};

use serde_json::Value;

/// The path of a checker that is built already.
const BUILT: &str = "LINEARIZABLE_CHECKER";
/// The sources of the checker.
const SOURCES: [&str; 8] = [
    "go.mod",
    "go.sum",
    "main.go",
    "history.go",
    "model.go",
    "lock.go",
    "latch.go",
    "reduce.go",
];

static PROGRAM: LazyLock<PathBuf> =
    LazyLock::new(|| env::var_os(BUILT).map_or_else(build, |path| PathBuf::from(&path)));

/// The verdict on the history of one partition, lock or latch.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) history: String,
    pub(crate) operations: usize,
    /// `None` if the time was not enough to decide.
    pub(crate) is_legal: Option<bool>,
    pub(crate) seconds: f64,
    /// The operations that contradict each other.
    pub(crate) violation: Vec<String>,
}

/// Builds the checker if its sources have changed. Concurrent test binaries wait for each other.
fn build() -> PathBuf {
    let sources = Path::new(env!("REPOSITORY")).join("tests/linearizable/checker");
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../linearizable");
    fs::create_dir_all(&kept).unwrap();
    let kept = kept.canonicalize().unwrap();
    let lock = File::create(kept.join("lock")).unwrap();
    lock.lock().unwrap();
    let mut digest = DefaultHasher::new();
    for source in SOURCES {
        fs::read(sources.join(source)).unwrap().hash(&mut digest);
    }
    let program = kept.join(format!("checker-{:016x}", digest.finish()));
    if program.is_file() {
        return program;
    }
    let unfinished = kept.join("unfinished");
    let status = Command::new("go")
        .args(["build", "-o"])
        .arg(&unfinished)
        .arg(".")
        .current_dir(&sources)
        .status()
        .unwrap_or_else(|error| {
            panic!(
                "cannot run go, which builds the checker of histories: {error}; run scripts/setup, or name a \
                 built checker in {BUILT}"
            )
        });
    assert!(status.success(), "cannot build {}: {status}", sources.display());
    fs::rename(&unfinished, &program).unwrap();
    program
}

/// Checks histories, one line for each operation. The check of one history is given up after so
/// many seconds.
pub(crate) fn check(histories: &str, seconds: u32) -> Vec<Verdict> {
    let mut checker = Command::new(&*PROGRAM)
        .args(["-timeout", &format!("{seconds}s")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run {}: {error}", PROGRAM.display()));
    let mut input = checker.stdin.take().unwrap();
    let output = thread::scope(|scope| {
        scope.spawn(move || input.write_all(histories.as_bytes()).unwrap());
        checker.wait_with_output().unwrap()
    });
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "the checker failed: {}",
        output.status
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| verdict(&serde_json::from_str(line).unwrap()))
        .collect()
}

fn verdict(line: &Value) -> Verdict {
    let violation = line["violation"].as_array().into_iter().flatten();
    Verdict {
        history: line["history"].as_str().unwrap().to_owned(),
        operations: line["operations"].as_u64().unwrap().try_into().unwrap(),
        is_legal: match line["verdict"].as_str().unwrap() {
            "legal" => Some(true),
            "illegal" => Some(false),
            _ => None,
        },
        seconds: line["seconds"].as_f64().unwrap(),
        violation: violation.map(|line| line.as_str().unwrap().to_owned()).collect(),
    }
}
