//! `hbase-txn completions` and `man`: help for the shell, made from the command line itself.

use std::{fs, path::PathBuf};

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::{
    exit::{Exit, Failure, Outcome},
    output::{self, Lines},
};

const NAME: &str = "hbase-txn";

/// Print the completions of a shell
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
    pub(crate) fn run(&self, command: &mut Command) -> Outcome {
        let mut text = Vec::new();
        generate(self.shell, command, NAME, &mut text);
        let mut text = String::from_utf8_lossy(&text).into_owned();
        if self.shell == Shell::Bash {
            // clap_complete 4.6 writes the hyphen of a command's name in two ways, so that no
            // subcommand would be found.
            text = text.replace("hbase__subcmd__txn", "hbase__txn");
        }
        let mut lines = Lines::new();
        lines.line(format_args!("{}", text.trim_end()))?;
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
