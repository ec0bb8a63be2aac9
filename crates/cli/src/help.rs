//! The first screen of the help, which groups the commands.

use clap::{Command, builder::StyledStr};

/// The commands by purpose. Each is in one group.
pub(crate) const GROUPS: [(&str, &[&str]); 8] = [
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
        &[
            "lock",
            "latch",
            "barrier",
            "semaphore",
            "elect",
            "rwlock",
            "group",
        ],
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

/// Groups the commands for lines of at most this width.
pub(crate) fn grouped_within(command: Command, max_width: usize) -> Command {
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
