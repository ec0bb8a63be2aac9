//! The command `hbase-txn`: a real HBase on this machine, tables made for transactions, transactions from a file, locks and
//! what else processes coordinate with.
//!
//! It uses only the public API of the library. `args` is the whole command line and `values` what stands in it;
//! `cluster` says which cluster is meant; `cmd` has a file for each command; `output` is the only way to stdout.

mod args;
mod cluster;
mod cmd;
mod durations;
mod exit;
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
            let done = runtime.block_on(cmd::run(arguments));
            // A read of stdin that nobody waits for any more would hold the command up.
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
