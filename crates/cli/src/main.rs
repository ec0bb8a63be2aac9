//! The command `hbase-txn`: a local HBase, tables for transactions, transactions from a file, locks
//! and other coordination between processes.
//!
//! It uses only the public API of the libraries. `args` has the whole command line, `global` the
//! options of all commands, `profile` their values in the environment and in the user's file, and
//! `values` the values of options. `cluster` chooses the cluster, and `change_log` logs its changes.
//! `cmd` has a file for each command. `hints` adds commands to errors. `output` is the only way to
//! stdout, and `style` colours text for people.

mod args;
mod change_log;
mod cluster;
mod cmd;
mod durations;
mod exit;
mod global;
mod hints;
mod output;
mod profile;
mod progress;
mod style;
mod values;

use std::{process::ExitCode, time::Duration};

use clap::Parser;

use self::{args::Arguments, exit::Exit};

/// How long the exit waits for the threads, which end within milliseconds unless they read stdin. The exit
/// of the process ends the Kerberos library too, which aborts the process if a thread still uses it.
const LAST_MOMENT: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    style::choose(arguments.global.color);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => {
            let done = runtime.block_on(arguments.run());
            runtime.shutdown_timeout(LAST_MOMENT);
            done
        }
        Err(error) => Err(exit::Failure::from(error)),
    };
    match done {
        Ok(Exit::Done) if output::is_closed() => Exit::Cut,
        Ok(exit) => exit,
        Err(failure) => failure.report(),
    }
    .into()
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.status())
    }
}
