//! The command `hbase-txn`: a real HBase on this machine, tables made for transactions,
//! transactions from a file, locks and what else processes coordinate with.
//!
//! It uses only the public API of the libraries. `args` is the whole command line, `global` the
//! options of all commands, and `values` what an option may have; `cluster` says which cluster is
//! meant; `cmd` has a file for each command; `hints` adds commands to errors; `output` is the only
//! way to stdout.

mod args;
mod cluster;
mod cmd;
mod durations;
mod exit;
mod global;
mod hints;
mod output;
mod progress;
mod values;

use std::process::ExitCode;

use clap::Parser;

use self::{args::Arguments, exit::Exit};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.global.start_log();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => {
            let done = runtime.block_on(arguments.run());
            // A read of stdin without a waiter would delay the exit.
            runtime.shutdown_background();
            done
        }
        Err(error) => Err(exit::Failure::from(error)),
    };
    match done {
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
