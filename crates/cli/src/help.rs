//! The first screen of the help, which groups the commands.

use clap::{Command, builder::StyledStr};

/// The commands by purpose. Each is in one group.
const GROUPS: [(&str, &[&str]); 8] = [
    ("Where am I", &["status", "doctor"]),
    ("Tables", &["table", "namespace", "snapshot", "provision"]),
    (
        "Rows",
        &[
            "get",
            "scan",
            "put",
            "delete",
            "increment",
            "append",
            "import",
            "export",
        ],
    ),
    ("Transactions", &["txn"]),
    (
        "Locks and latches",
        &["lock", "latch", "barrier", "semaphore", "elect", "rwlock"],
    ),
    (
        "Users",
        &["grant", "revoke", "user-permission", "label", "quota", "token"],
    ),
    (
        "Servers",
        &[
            "region-server",
            "replication-peer",
            "split-switch",
            "merge-switch",
            "balancer-switch",
            "normalizer-switch",
            "snapshot-cleanup-switch",
            "throttle-switch",
        ],
    ),
    ("This machine", &["dev", "completions", "man"]),
];

/// The maximum width of a line.
const MAX_WIDTH: usize = 110;

/// Groups the commands in the help of the whole command line.
pub(crate) fn grouped(command: Command) -> Command {
    grouped_within(command, MAX_WIDTH)
}

fn grouped_within(command: Command, max_width: usize) -> Command {
    let mut template = "{about}\n\n{usage-heading} {usage}\n\n".to_owned();
    for (heading, names) in GROUPS {
        let heading = format!("{}{heading}:{0:#}", command.get_styles().get_header());
        template += &format!("{heading}\n{}\n", list(&command, names, max_width).ansi());
    }
    template += &format!(
        "{0}Options:{0:#}\n{{options}}{{after-help}}",
        command.get_styles().get_header()
    );
    command
        .help_template(StyledStr::from(template))
        .max_term_width(max_width)
}

/// Returns the lines of these commands, which clap wraps.
fn list(command: &Command, names: &[&str], max_width: usize) -> StyledStr {
    let of_group = names.iter().filter_map(|name| command.find_subcommand(name));
    Command::new("group")
        .disable_help_subcommand(true)
        .max_term_width(max_width)
        .subcommands(of_group.cloned())
        .help_template("{subcommands}\n")
        .render_help()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Arguments;

    #[test]
    fn each_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let command = Arguments::command();
        let mut all: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }

    /// Returns the lines of the help of a command, and of those below it, that could be shorter. The usage is one
    /// line, which clap leaves to the terminal.
    fn too_long(command: &mut Command, width: usize) -> Vec<String> {
        let is_breakable = |line: &str| {
            let is_long = line.trim_start().contains(' ') && line.chars().count() > width;
            is_long && !line.starts_with("Usage: ")
        };
        let help = command.render_long_help().to_string();
        let mut found: Vec<String> = help
            .lines()
            .filter(|line| is_breakable(line))
            .map(|line| format!("{}: {line}", command.get_name()))
            .collect();
        for below in command.get_subcommands_mut() {
            let below_with_width = &mut below.clone().max_term_width(width);
            found.extend(too_long(below_with_width, width));
        }
        found
    }

    #[test]
    fn help_fits_narrow_and_wide_terminals() {
        for width in [60, 100] {
            let mut command = grouped_within(Arguments::command(), width);
            command.build();
            assert_eq!(
                too_long(&mut command, width),
                Vec::<String>::new(),
                "{width} columns"
            );
        }
    }
}
