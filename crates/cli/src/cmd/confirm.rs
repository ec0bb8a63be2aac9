//! A question before data is deleted.

use std::io::{self, IsTerminal};

use crate::{exit::Failure, global::Global, output};

/// Names the cluster on a terminal, and asks there for the name of what is about to be changed, unless the user said yes on the
/// command line. `consequence` says what happens to it, by its name.
///
/// # Errors
///
/// Returns a refusal if the answer is another one, or if there is no terminal.
pub(super) fn confirm(global: &Global, yes: bool, name: &str, consequence: &str) -> Result<(), Failure> {
    global.name_cluster()?;
    if yes {
        return Ok(());
    }
    let stdin = io::stdin();
    if !(stdin.is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::Refused(format!(
            "{name} is unchanged: there is no terminal to ask on; add --yes"
        )));
    }
    output::ask(&format!("{consequence} Type its name to go on: "));
    let mut answer = String::new();
    stdin.read_line(&mut answer)?;
    if answer.trim() == name {
        Ok(())
    } else {
        Err(Failure::Refused(format!("names differ; {name} is unchanged")))
    }
}
