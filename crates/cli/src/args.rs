//! The command line.

use clap::{CommandFactory, Parser, Subcommand};

use crate::{
    cmd::{
        coordination::{elect, group, rwlock, semaphore},
        dev, doctor, label,
        latch::{self, barrier},
        lock, manual, namespace, permissions, provision, quota, region_server, replication_peer, rows,
        snapshot, status,
        switch::{Switch, Work},
        table, token, transfer, txn,
    },
    exit::Outcome,
    global::{Global, Options},
    log, table_names,
};

const STATUSES: &str = "Exit status: 0 done; 1 refused or failed; 2 the command line or a setting can't be parsed; \
                        3 a condition is not met, what is needed is not available, or what is to be created exists; \
                        4 the outcome is unknown, or a lock was lost; 130 a signal stopped the command; 141 the reader \
                        of stdout closed it";

/// Run transactions over rows that share a key prefix on Apache HBase
#[derive(Debug, Parser)]
#[command(after_help = STATUSES)]
#[command(name = "hbase-txn", version, propagate_version = false)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Options,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start and stop a real HBase on this machine, for development and tests
    Dev(dev::Dev),
    Status(status::Status),
    Doctor(doctor::Doctor),
    /// Show or set whether the master splits regions, of all tables of the cluster
    #[command(after_help = "Example: hbase-txn split-switch on")]
    SplitSwitch(Switch),
    /// Show or set whether the master merges regions, of all tables of the cluster
    #[command(after_help = "Example: hbase-txn merge-switch on")]
    MergeSwitch(Switch),
    /// Show or set whether the master moves regions to balance the servers
    #[command(after_help = "Example: hbase-txn balancer-switch on")]
    BalancerSwitch(Switch),
    /// Show or set whether the master splits and merges regions by their sizes
    #[command(after_help = "Example: hbase-txn normalizer-switch on")]
    NormalizerSwitch(Switch),
    /// Show or set whether the master deletes snapshots whose time to live is over
    #[command(after_help = "Example: hbase-txn snapshot-cleanup-switch on")]
    SnapshotCleanupSwitch(Switch),
    /// Show or change whether throttles apply
    #[command(after_help = "Example: hbase-txn throttle-switch on")]
    ThrottleSwitch(Switch),
    /// Create, check, alter, repair and drop tables, and move their regions
    Table(table::Table),
    /// List, create and delete namespaces
    Namespace(namespace::Namespace),
    /// Take, list, clone, restore and delete snapshots of tables
    Snapshot(snapshot::Snapshot),
    Grant(permissions::Grant),
    Revoke(permissions::Revoke),
    UserPermission(permissions::UserPermissions),
    Label(label::Label),
    Quota(quota::Quota),
    Token(token::Token),
    ReplicationPeer(replication_peer::Peer),
    RegionServer(region_server::RegionServer),
    /// Plan, apply and export table files
    Provision(provision::Provision),
    /// Apply transactions from a file, and look up their outcomes
    Txn(txn::Txn),
    /// Acquire, renew, release, show, list and watch locks, or run a command under one
    Lock(lock::Lock),
    /// Create, count, show, list and delete countdown latches, or wait for one
    Latch(latch::Latch),
    /// Create, show and delete barriers, and wait at one for the other parties
    Barrier(barrier::Barrier),
    /// Acquire, renew and release permits of a semaphore, or run a command under them
    Semaphore(semaphore::Semaphore),
    /// Run a command on one leader at a time, show, watch or revoke the leadership
    Elect(elect::Elect),
    /// Run a command as one of many readers or as the only writer
    Rwlock(rwlock::RwLock),
    /// Run a command as a member of a group, or show and evict the members
    Group(group::Group),
    Get(rows::Get),
    Scan(rows::Scan),
    Put(rows::Put),
    Delete(rows::Delete),
    Increment(rows::Increment),
    Append(rows::Append),
    Import(transfer::Import),
    Export(transfer::Export),
    Completions(manual::Completions),
    Man(manual::Man),
}

impl Arguments {
    /// Runs the command.
    pub(crate) async fn run(self) -> Outcome {
        let Self { global, command } = self;
        let global = match command {
            // A profile that can't be read must not keep a shell from its completions.
            Command::Completions(_) | Command::Man(_) => Global::default(),
            _ => global.resolve()?,
        };
        if let Some(filter) = &global.log {
            log::start(filter);
        }
        match command.run(&global).await {
            Err(failure) => Err(table_names::with_suggestion(failure, &global).await),
            done => done,
        }
    }
}

impl Command {
    async fn run(self, global: &Global) -> Outcome {
        match self {
            Self::Dev(dev) => dev.run(global).await,
            Self::Status(status) => status.run(global).await,
            Self::Doctor(doctor) => doctor.run(global).await,
            Self::SplitSwitch(switch) => switch.run(Work::Split, global).await,
            Self::MergeSwitch(switch) => switch.run(Work::Merge, global).await,
            Self::BalancerSwitch(switch) => switch.run(Work::Balancer, global).await,
            Self::NormalizerSwitch(switch) => switch.run(Work::Normalizer, global).await,
            Self::SnapshotCleanupSwitch(switch) => switch.run(Work::SnapshotCleanup, global).await,
            Self::ThrottleSwitch(switch) => switch.run(Work::Throttle, global).await,
            Self::Table(table) => table.run(global).await,
            Self::Namespace(namespace) => namespace.run(global).await,
            Self::Snapshot(snapshot) => snapshot.run(global).await,
            Self::Grant(grant) => grant.run(global).await,
            Self::Revoke(revoke) => revoke.run(global).await,
            Self::UserPermission(list) => list.run(global).await,
            Self::Label(label) => label.run(global).await,
            Self::Quota(quota) => quota.run(global).await,
            Self::Token(token) => token.run(global).await,
            Self::ReplicationPeer(peer) => peer.run(global).await,
            Self::RegionServer(server) => server.run(global).await,
            Self::Provision(provision) => provision.run(global).await,
            Self::Txn(txn) => txn.run(global).await,
            Self::Lock(lock) => lock.run(global).await,
            Self::Latch(latch) => latch.run(global).await,
            Self::Barrier(barrier) => barrier.run(global).await,
            Self::Semaphore(semaphore) => semaphore.run(global).await,
            Self::Elect(elect) => elect.run(global).await,
            Self::Rwlock(lock) => lock.run(global).await,
            Self::Group(group) => group.run(global).await,
            Self::Get(get) => get.run(global).await,
            Self::Scan(scan) => scan.run(global).await,
            Self::Put(put) => put.run(global).await,
            Self::Delete(delete) => delete.run(global).await,
            Self::Increment(increment) => increment.run(global).await,
            Self::Append(append) => append.run(global).await,
            Self::Import(import) => import.run(global).await,
            Self::Export(export) => export.run(global).await,
            Self::Completions(completions) => completions.run(),
            Self::Man(man) => man.run(Arguments::command()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::{global::Format, help};

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn completions_change_nothing_of_the_command_line() {
        table_names::completed(Arguments::command()).debug_assert();
    }

    #[test]
    fn each_command_is_in_one_group() {
        let mut grouped: Vec<&str> = help::GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        let command = Arguments::command();
        let mut all: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }

    /// Returns the lines of the help of a command, and of those below it, that could be shorter. The usage is one
    /// line, which clap leaves to the terminal.
    fn too_long(command: &mut clap::Command, width: usize) -> Vec<String> {
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
            let mut command = help::grouped_within(Arguments::command(), width);
            command.build();
            assert_eq!(
                too_long(&mut command, width),
                Vec::<String>::new(),
                "{width} columns"
            );
        }
    }

    /// Returns the names of subcommands whose help does not begin with an imperative such as
    /// `Create a table`.
    fn with_unclear_about(command: &clap::Command) -> Vec<String> {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let is_clear = about.starts_with(|first: char| first.is_ascii_uppercase())
            && !about.contains([':', ';', '\n'])
            && !about.ends_with('.')
            && (1..=80).contains(&about.chars().count());
        let verb = about.split(' ').next().unwrap_or_default();
        let is_verb = !["A", "An", "The"].contains(&verb) && !verb.ends_with('s');
        let own = (!is_clear || !is_verb).then(|| format!("{}: {about}", command.get_name()));
        let below = command.get_subcommands().flat_map(with_unclear_about);
        own.into_iter().chain(below).collect()
    }

    #[test]
    fn each_help_begins_with_an_imperative_line() {
        assert_eq!(with_unclear_about(&Arguments::command()), Vec::<String>::new());
    }

    #[rstest]
    #[case(&["hbase-txn", "--output", "json", "dev", "status"])]
    #[case(&["hbase-txn", "dev", "--output", "json", "status"])]
    #[case(&["hbase-txn", "dev", "status", "--output", "json"])]
    fn global_options_stand_anywhere(#[case] line: &[&str]) {
        let arguments = Arguments::try_parse_from(line).unwrap();
        assert_eq!(arguments.global.output, Some(Format::Json));
    }

    #[rstest]
    #[case(&["hbase-txn", "dev", "status", "--timeout", "soon"])]
    #[case(&["hbase-txn", "dev", "status", "--log", "a=b=c"])]
    #[case(&["hbase-txn", "dev", "up", "--set", "novalue"])]
    #[case(&["hbase-txn", "dev", "up", "--region-servers", "many"])]
    #[case(&["hbase-txn", "get", "orders"])]
    #[case(&["hbase-txn", "get", "orders", r"a\n"])]
    #[case(&["hbase-txn", "get", "no such", "r"])]
    #[case(&["hbase-txn", "get", "orders", "r", "--column", "f"])]
    #[case(&["hbase-txn", "put", "orders", "r"])]
    #[case(&["hbase-txn", "put", "orders", "r", "f:q"])]
    #[case(&["hbase-txn", "scan", "orders", "--prefix", "a", "--start-row", "b"])]
    #[case(&["hbase-txn", "scan", "orders", "--limit", "few"])]
    #[case(&["hbase-txn", "import", "orders"])]
    #[case(&["hbase-txn", "import", "orders", "-", "--raw"])]
    #[case(&["hbase-txn", "import", "orders", "-", "--columns", "f:q"])]
    #[case(&["hbase-txn", "import", "orders", "-", "--max-rejects", "few"])]
    #[case(&["hbase-txn", "export", "orders", "-", "--prefix", "a", "--start-row", "b"])]
    #[case(&["hbase-txn", "export", "orders", "-", "--without-timestamps", "--versions", "2"])]
    #[case(&["hbase-txn", "grant", "eve", "RW"])]
    #[case(&["hbase-txn", "grant", "eve", "RZ", "--global"])]
    #[case(&["hbase-txn", "grant", "eve", "R", "--global", "--table", "orders"])]
    #[case(&["hbase-txn", "revoke", "eve", "--table", "orders", "--qualifier", "q"])]
    #[case(&["hbase-txn", "quota", "set", "write-number", "5", "--per", "second"])]
    #[case(&["hbase-txn", "quota", "set", "writes", "5", "--per", "second", "--table", "orders"])]
    #[case(&["hbase-txn", "quota", "set-space", "5", "--table", "orders"])]
    #[case(&["hbase-txn", "quota", "set-space", "5", "--policy", "no-inserts"])]
    #[case(&["hbase-txn", "quota", "set-space", "5", "--policy", "no-inserts", "--table", "t", "--namespace", "n"])]
    #[case(&["hbase-txn", "quota", "remove-space"])]
    #[case(&["hbase-txn", "replication-peer", "add", "backup"])]
    #[case(&["hbase-txn", "replication-peer", "update", "backup"])]
    #[case(&["hbase-txn", "replication-peer", "update", "backup", "--all", "--table", "orders"])]
    #[case(&["hbase-txn", "replication-peer", "update", "backup", "--table", "orders", "--exclude-table", "t"])]
    #[case(&["hbase-txn", "table", "clone-schema", "orders"])]
    #[case(&["hbase-txn", "region-server", "decommission"])]
    #[case(&["hbase-txn", "table"])]
    #[case(&["hbase-txn", "provision", "plan"])]
    #[case(&["hbase-txn", "provision", "export"])]
    #[case(&["hbase-txn", "provision", "apply", "--allow-data-loss", "orders:f"])]
    #[case(&["hbase-txn", "txn", "apply"])]
    #[case(&["hbase-txn", "txn", "apply", "orders", "--guard-timestamps", "--without-endpoint"])]
    #[case(&["hbase-txn", "txn", "outcome", "orders", "xxx"])]
    #[case(&["hbase-txn", "txn", "outcome", "orders", "xxx", r"\n"])]
    #[case(&["hbase-txn", "lock", "acquire", "locks", "id", "--farm", "f"])]
    #[case(&["hbase-txn", "lock", "acquire", "locks", "id", "--level", "xdc"])]
    #[case(&["hbase-txn", "lock", "run", "locks", "id", "--client", "c", "--conflict-exit-code", "256", "--", "true"])]
    #[case(&["hbase-txn", "lock", "list"])]
    #[case(&["hbase-txn", "latch", "list"])]
    #[case(&["hbase-txn", "lock", "acquire", "locks", "id", "--client", "c", "--level", "rack"])]
    #[case(&["hbase-txn", "lock", "acquire", "locks", "id", "--client", "c", "--ttl", "long"])]
    #[case(&["hbase-txn", "lock", "acquire", "locks", r"\xff", "--client", "c"])]
    #[case(&["hbase-txn", "lock", "acquire", "locks", "id", "--client", "c", "--regions", "1"])]
    #[case(&["hbase-txn", "lock", "acquire", "locks", "id", "--client", "c", "--create", "--java-layout", "--regions", "1"])]
    #[case(&["hbase-txn", "lock", "release", "locks", "id", "--client", "c"])]
    #[case(&["hbase-txn", "lock", "release", "locks", "id", "--client", "c", "--token", "12"])]
    #[case(&["hbase-txn", "lock", "renew", "locks", "id", "--client", "c"])]
    #[case(&["hbase-txn", "lock", "run", "locks", "id", "--client", "c"])]
    #[case(&["hbase-txn", "lock", "run", "locks", "id", "--client", "c", "true"])]
    #[case(&["hbase-txn", "latch", "init", "latches", "id", "--client", "c"])]
    #[case(&["hbase-txn", "latch", "init", "latches", "id", "few", "--client", "c"])]
    #[case(&["hbase-txn", "latch", "init", "latches", "id", "3", "--client", "c", "--regions", "1"])]
    #[case(&["hbase-txn", "latch", "count-down", "latches", "id", "--client", "c", "--by", "2", "--participant", "p"])]
    #[case(&["hbase-txn", "latch", "count-up", "latches", "id", "--client", "c", "--participant", "p"])]
    #[case(&["hbase-txn", "latch", "show", "latches", "id", "--level", "xdc"])]
    #[case(&["hbase-txn", "latch", "wait", "latches", "id", "--client", "c", "--wait", "long"])]
    #[case(&["hbase-txn", "barrier", "create", "latches", "id", "--client", "c"])]
    #[case(&["hbase-txn", "barrier", "create", "latches", "id", "few", "--client", "c"])]
    #[case(&["hbase-txn", "barrier", "create", "latches", "id", "3", "--client", "c", "--regions", "1"])]
    #[case(&["hbase-txn", "barrier", "arrive", "latches", "id", "--client", "c"])]
    #[case(&["hbase-txn", "barrier", "enter", "latches", "id", "--client", "c"])]
    #[case(&["hbase-txn", "barrier", "leave", "latches", "id", "--client", "c", "--participant", "p"])]
    #[case(&["hbase-txn", "semaphore", "create", "locks", "id", "--client", "c"])]
    #[case(&["hbase-txn", "semaphore", "create", "locks", "id", "many", "--client", "c"])]
    #[case(&["hbase-txn", "semaphore", "acquire", "locks", "id", "--client", "c", "--create"])]
    #[case(&["hbase-txn", "semaphore", "release", "locks", "id", "--client", "c"])]
    #[case(&["hbase-txn", "semaphore", "run", "locks", "id", "--client", "c"])]
    #[case(&["hbase-txn", "elect", "run", "locks", "id", "--client", "c"])]
    #[case(&["hbase-txn", "elect", "watch", "locks", "--client", "c"])]
    #[case(&["hbase-txn", "lock", "watch", "locks", "--client", "c"])]
    #[case(&["hbase-txn", "lock", "watch", "locks", "id", "--client", "c", "--wait", "long"])]
    #[case(&["hbase-txn", "lock", "watch", "locks", "id", "--client", "c", "--count", "few"])]
    #[case(&["hbase-txn", "rwlock", "locks", "id", "--client", "c", "--", "true"])]
    #[case(&["hbase-txn"])]
    fn invalid_arguments_are_refused(#[case] line: &[&str]) {
        assert_eq!(Arguments::try_parse_from(line).unwrap_err().exit_code(), 2);
    }
}
