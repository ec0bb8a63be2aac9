//! The command `hbase-txn`: a local HBase, tables for transactions, transactions from a file, locks
//! and other coordination between processes.
//!
//! It uses only the public API of the libraries. `args` has the whole command line, `help` its first screen, `global` the
//! options of all commands, `profile` their values in the environment and in the user's file, `values`
//! the values of options, and `value_type` and `cell_types` the types of cells' values. `cluster` chooses the cluster, and `change_log` logs its changes.
//! `cmd` has a file for each command. `hints` adds commands to errors, and
//! `table_names` names of tables to them and to the completions of shells. `output` is the only way to
//! stdout, and `style` colours text for people.

mod args;
mod cell_types;
mod change_log;
mod cluster;
mod cmd;
mod durations;
mod exit;
mod global;
mod help;
mod hints;
mod log;
mod output;
mod profile;
mod progress;
mod style;
mod table_names;
mod value_type;
mod values;

use std::{process::ExitCode, time::Duration};

use clap::{CommandFactory, FromArgMatches};
use clap_complete::CompleteEnv;

use self::{args::Arguments, exit::Exit};

/// How long the exit waits for the threads, which end within milliseconds unless they read stdin. The exit
/// of the process ends the Kerberos library too, which aborts the process if a thread still uses it.
const LAST_MOMENT: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    CompleteEnv::with_factory(|| table_names::completed(Arguments::command()))
        .var(table_names::COMPLETE)
        .complete();
    let arguments = parse();
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

/// Parses the command line, or exits with its error or its help.
fn parse() -> Arguments {
    let matches = help::grouped(Arguments::command()).get_matches();
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.status())
    }
}
