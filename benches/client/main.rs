//! How fast is this client, beside HBase's own Java client and the floor of the machine?
//!
//! Three programs run the same workloads in turn, on one cluster: this client, HBase's asynchronous
//! Java client (`benches/java/client`), and the floor, which sends frames that were encoded
//! beforehand on a raw socket. Each is a separate process, so that its processor time and memory
//! can be measured. `docs/benchmarks.md` has the method and the figures.
//!
//!     make bench
//!     make bench-quick    few workloads and short rounds
//!     make bench-page     write docs/benchmarks.md from the reports of full runs
//!
//! or, on a running local cluster that was started with `--performance`:
//! `HBASE_TXN_BENCH_CLUSTER=mine cargo bench --all-features --bench client`, with these options:
//!
//! | option | effect |
//! |---|---|
//! | `--quick` | five workloads, three short rounds |
//! | `--short` | one round of a fifth of a second; only checks that the workloads run |
//! | `--workload ID` | only this workload; may be repeated |
//! | `--rounds N`, `--seconds S` | number and length of the rounds |
//! | `--regions N` | regions of the tables, 4 by default |
//! | `--pinned` | clients on the first processor, servers on the others |
//! | `--guard NAME` | what guards the cluster, for the report: fewer workloads, and no floor; with Kerberos, `KRB5_CONFIG` must be set as `dev status` prints it |
//! | `--report FILE` | the report to write; by default in `target/bench`, with the form in its name: `client.json`, `client-quick.json`, `client-distributed.json`, `client-pinned.json` |
//! | `--page [FILE…]` | measures nothing: writes the page from these reports, by default from those of the full form in `target/bench` |

#[path = "../setup/mod.rs"]
mod setup;

mod chart;
mod floor;
mod frames;
mod ours;
mod page;
mod process;
mod report;
mod rounds;
mod workload;

use std::{
    fs,
    path::{Path, PathBuf},
};

use tokio::runtime::Runtime;

use self::{floor::Floor, ours::Ours, setup::Failure};

/// The workloads on a cluster with Kerberos or TLS.
const GUARDED: [&str; 7] = [
    "connect",
    "lone-get",
    "get-64",
    "put-64",
    "scan",
    "bulk",
    "commit-10",
];
/// The workloads of the quick form.
const QUICK: [&str; 5] = ["lone-get", "lone-put", "put-64", "bulk", "commit-10"];

struct Options {
    workloads: Vec<String>,
    rounds: usize,
    seconds: f64,
    regions: usize,
    pinned: bool,
    guard: Option<String>,
    /// A part of the default report's name.
    form: &'static str,
    report: Option<PathBuf>,
}

fn main() -> Result<(), Failure> {
    // Cargo adds `--bench`.
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let mut options = Options {
        workloads: Vec::new(),
        rounds: 7,
        seconds: 3.0,
        regions: 4,
        pinned: false,
        guard: None,
        form: "",
        report: None,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match &*word {
            "--quick" => {
                (options.rounds, options.seconds, options.form) = (3, 0.8, "-quick");
                options.workloads.extend(QUICK.map(str::to_owned));
            }
            "--short" => (options.rounds, options.seconds, options.form) = (1, 0.2, "-short"),
            "--workload" => options.workloads.push(value()?),
            "--rounds" => options.rounds = value()?.parse::<usize>()?.max(1),
            "--seconds" => options.seconds = value()?.parse()?,
            "--regions" => options.regions = value()?.parse()?,
            "--pinned" => options.pinned = true,
            "--guard" => options.guard = Some(value()?),
            "--report" => options.report = Some(value()?.into()),
            "--page" => return page::write(words.map(PathBuf::from).collect()),
            "--contestant" => {
                let contestant = value()?;
                let [uri, reads, writes] = [value()?, value()?, value()?];
                return contest(&contestant, &uri, &reads, &writes);
            }
            _ => return Err(format!("there is no option {word}").into()),
        }
    }
    if options.guard.is_some() && options.workloads.is_empty() {
        options.workloads.extend(GUARDED.map(str::to_owned));
    }
    let report = rounds::measure(&options)?;
    let path = options.report.unwrap_or_else(|| {
        let distributed = match &*report.cluster.shape {
            "standalone" => "",
            _ => "-distributed",
        };
        let pinned = if options.pinned { "-pinned" } else { "" };
        let guard = options.guard.as_ref().map_or_else(String::new, |guard| {
            format!("-{}", guard.to_lowercase().replace(' ', "-"))
        });
        let form = options.form;
        reports().join(format!("client{form}{distributed}{pinned}{guard}.json"))
    });
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, serde_json::to_string_pretty(&report)?)?;
    println!("\nThe report is {}", path.display());
    Ok(())
}

/// Returns the folder of reports.
fn reports() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench")
}

/// Runs a contestant of Rust until stdin ends.
fn contest(contestant: &str, uri: &str, reads: &str, writes: &str) -> Result<(), Failure> {
    let runtime = Runtime::new()?;
    if contestant == "floor" {
        let mut floor = runtime.block_on(Floor::new(uri, reads, writes))?;
        drop(runtime);
        return process::serve("frames encoded beforehand", |request| floor.perform(request));
    }
    let ours = runtime.block_on(Ours::new(uri, reads, writes))?;
    let description = concat!("hbase-txn ", env!("CARGO_PKG_VERSION"));
    process::serve(description, |request| runtime.block_on(ours.perform(request)))
}
