//! `hbase-txn completions` and `man`: help for the shell, made from the command line itself.

use std::{fs, path::PathBuf};

use clap::{Args, Command};
use clap_complete::{Shell, env::Shells};

use crate::{
    exit::{Exit, Failure, Outcome},
    output::{self, Lines},
    table_names::COMPLETE,
};

const NAME: &str = "hbase-txn";

/// Print the completions of a shell
///
/// The shell then asks the command itself, which completes also the names of the cluster's tables. Print them
/// again after an upgrade.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: hbase-txn completions bash > ~/.local/share/bash-completion/completions/hbase-txn"
)]
pub(crate) struct Completions {
    shell: Shell,
}

/// Write manual pages, one for each command
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn man ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Folder; created if it does not exist
    folder: PathBuf,
}

impl Completions {
    pub(crate) fn run(&self) -> Outcome {
        let shells = Shells::builtins();
        let completer = shells
            .completer(&self.shell.to_string())
            .ok_or_else(|| Failure::Unparsable(format!("there are no completions for {}", self.shell)))?;
        let mut text = Vec::new();
        completer.write_registration(COMPLETE, NAME, NAME, NAME, &mut text)?;
        let mut lines = Lines::new();
        lines.line(format_args!("{}", String::from_utf8_lossy(&text).trim_end()))?;
        lines.flush()?;
        Ok(Exit::Done)
    }
}

impl Man {
    pub(crate) fn run(&self, command: Command) -> Outcome {
        fs::create_dir_all(&self.folder)
            .and_then(|()| clap_mangen::generate_to(command, &self.folder))
            .map_err(|error| {
                let folder = self.folder.display();
                Failure::Refused(format!("{folder}: {}", output::plain(&error)))
            })?;
        Ok(Exit::Done)
    }
}
