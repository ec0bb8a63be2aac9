//! The command line.

use std::{io::IsTerminal, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use hbase_txn::ClusterAddress;
use tracing_subscriber::EnvFilter;

use crate::{
    cmd::{
        coordination::{elect, rwlock, semaphore},
        dev, doctor,
        latch::{self, barrier},
        lock, provision, rows, switch, table, txn,
    },
    durations,
    exit::Failure,
    values::Ranged,
};

/// Transactions over rows that share a key prefix on Apache HBase.
#[derive(Debug, Parser)]
#[command(name = "hbase-txn", version, propagate_version = false, max_term_width = 110)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that stand before or after the command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The cluster: hbase+zk://HOST:PORT[,HOST:PORT...]/ZNODE or hbase+rpc://HOST:PORT [env: HBASE_TXN_CONNECT]
    #[arg(long, global = true, value_name = "URI", value_parser = cluster)]
    pub(crate) connect: Option<Cluster>,
    /// An hbase-site.xml to read settings from; options and environment win
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Tables for people, or JSON with one object a line for programs
    #[arg(long, global = true, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// How long a call may take, all its attempts together: 500ms, 30s, 5m, 1h [default: 60s]
    #[arg(long, global = true, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    timeout: Option<Ranged<Duration>>,
    /// What to log to stderr, as `debug` or `hbase_txn::cluster=trace`
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log: Option<EnvFilterText>,
}

/// How answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// A real HBase on this machine, to develop and test with
    Dev(dev::Dev),
    Doctor(doctor::Doctor),
    Switch(switch::Switch),
    /// Tables that transactions are possible on: make, check, describe, drop them
    Table(table::Table),
    /// Tables as files: what would be changed, and the change
    Provision(provision::Provision),
    /// Transactions from a file, and how they ended
    Txn(txn::Txn),
    /// Locks that one process of all holds: take, keep, release, show them, run a command under one
    Lock(lock::Lock),
    /// Counts that others wait for: make, count, show, delete them, wait for them
    Latch(latch::Latch),
    /// Barriers: parties that wait for each other, again and again
    Barrier(barrier::Barrier),
    /// Semaphores: permits, of which there are so many for all processes together
    Semaphore(semaphore::Semaphore),
    /// Elections: one leader at a time, in terms that rise
    Elect(elect::Elect),
    /// Read/write locks: many readers, or one writer
    Rwlock(rwlock::RwLock),
    Get(rows::Get),
    Scan(rows::Scan),
    Put(rows::Put),
    Delete(rows::Delete),
}

impl Global {
    /// How long the command's calls may take, where it was said. A year is as good as any longer time, and clocks can
    /// count it.
    pub(crate) fn timeout(&self) -> Result<Option<Duration>, Failure> {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
        let timeout = self.timeout.as_ref().map(|timeout| timeout.get("--timeout"));
        Ok(timeout.transpose()?.map(|timeout| timeout.min(YEAR)))
    }

    /// Sends events of the library to stderr, when asked to.
    pub(crate) fn start_log(&self) {
        let Some(EnvFilterText(filter)) = &self.log else {
            return;
        };
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::builder().parse_lossy(filter))
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal());
        subscriber.init();
    }
}

/// The cluster that is meant. An empty text means none: a script unsets the variable so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cluster(pub(crate) Option<ClusterAddress>);

pub(crate) fn cluster(text: &str) -> hbase_txn::Result<Cluster> {
    let address = match text {
        "" => None,
        text => Some(text.parse()?),
    };
    Ok(Cluster(address))
}

/// The text of a filter that is known to be one.
#[derive(Clone, Debug)]
pub(crate) struct EnvFilterText(String);

impl std::str::FromStr for EnvFilterText {
    type Err = tracing_subscriber::filter::ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        EnvFilter::builder().parse(text)?;
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[rstest]
    #[case(&["hbase-txn", "--output", "json", "dev", "status"])]
    #[case(&["hbase-txn", "dev", "--output", "json", "status"])]
    #[case(&["hbase-txn", "dev", "status", "--output", "json"])]
    fn global_options_stand_anywhere(#[case] line: &[&str]) {
        let arguments = Arguments::try_parse_from(line).unwrap();
        assert_eq!(arguments.global.output, Format::Json);
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
    #[case(&["hbase-txn", "scan", "orders", "--prefix", "a", "--start", "b"])]
    #[case(&["hbase-txn", "scan", "orders", "--limit", "few"])]
    #[case(&["hbase-txn", "table"])]
    #[case(&["hbase-txn", "provision", "plan"])]
    #[case(&["hbase-txn", "provision", "apply", "--allow-data-loss"])]
    #[case(&["hbase-txn", "txn", "apply"])]
    #[case(&["hbase-txn", "txn", "apply", "orders", "--guard-timestamps", "--without-endpoint"])]
    #[case(&["hbase-txn", "txn", "outcome", "orders", "xxx"])]
    #[case(&["hbase-txn", "txn", "outcome", "orders", "xxx", r"\n"])]
    #[case(&["hbase-txn", "--connect", "foo", "get", "orders", "r"])]
    #[case(&["hbase-txn", "--connect", "hbase+zk://localhost:notaport/hbase", "get", "orders", "r"])]
    #[case(&["hbase-txn", "lock", "acquire", "locks", "id"])]
    #[case(&["hbase-txn", "lock", "acquire", "locks", "id", "--client", "c", "--level", "rack"])]
    #[case(&["hbase-txn", "lock", "acquire", "locks", "id", "--client", "c", "--ttl", "long"])]
    #[case(&["hbase-txn", "lock", "acquire", "locks", r"\xff", "--client", "c"])]
    #[case(&["hbase-txn", "lock", "acquire", "locks", "id", "--client", "c", "--no-create", "--regions", "1"])]
    #[case(&["hbase-txn", "lock", "release", "locks", "id", "--client", "c"])]
    #[case(&["hbase-txn", "lock", "release", "locks", "id", "--client", "c", "--token", "12"])]
    #[case(&["hbase-txn", "lock", "renew", "locks", "id", "--client", "c"])]
    #[case(&["hbase-txn", "lock", "run", "locks", "id", "--client", "c"])]
    #[case(&["hbase-txn", "lock", "run", "locks", "id", "--client", "c", "true"])]
    #[case(&["hbase-txn", "latch", "init", "latches", "id", "--client", "c"])]
    #[case(&["hbase-txn", "latch", "init", "latches", "id", "few", "--client", "c"])]
    #[case(&["hbase-txn", "latch", "init", "latches", "id", "3", "--client", "c", "--no-create", "--regions", "1"])]
    #[case(&["hbase-txn", "latch", "count-down", "latches", "id", "--client", "c", "--by", "2", "--participant", "p"])]
    #[case(&["hbase-txn", "latch", "count-up", "latches", "id", "--client", "c", "--participant", "p"])]
    #[case(&["hbase-txn", "latch", "show", "latches", "id"])]
    #[case(&["hbase-txn", "barrier", "create", "latches", "id", "--client", "c"])]
    #[case(&["hbase-txn", "barrier", "create", "latches", "id", "few", "--client", "c"])]
    #[case(&["hbase-txn", "barrier", "create", "latches", "id", "3", "--client", "c", "--no-create", "--regions", "1"])]
    #[case(&["hbase-txn", "barrier", "arrive", "latches", "id", "--client", "c"])]
    #[case(&["hbase-txn", "barrier", "show", "latches", "id"])]
    #[case(&["hbase-txn", "semaphore", "create", "locks", "id", "--client", "c"])]
    #[case(&["hbase-txn", "semaphore", "create", "locks", "id", "many", "--client", "c"])]
    #[case(&["hbase-txn", "semaphore", "acquire", "locks", "id", "--client", "c", "--no-create"])]
    #[case(&["hbase-txn", "semaphore", "release", "locks", "id", "--client", "c"])]
    #[case(&["hbase-txn", "semaphore", "run", "locks", "id", "--client", "c"])]
    #[case(&["hbase-txn", "elect", "run", "locks", "id", "--client", "c"])]
    #[case(&["hbase-txn", "elect", "show", "locks", "id"])]
    #[case(&["hbase-txn", "rwlock", "locks", "id", "--client", "c", "--", "true"])]
    #[case(&["hbase-txn"])]
    fn what_does_not_parse_is_refused(#[case] line: &[&str]) {
        assert_eq!(Arguments::try_parse_from(line).unwrap_err().exit_code(), 2);
    }
}
