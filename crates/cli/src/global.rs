//! The options that every command has.

use std::{io::IsTerminal, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use hbase_txn::ClusterAddress;
use tracing_subscriber::{EnvFilter, fmt::format::FmtSpan};

use crate::{durations, exit::Failure, values::Ranged};

/// Options of all commands.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Cluster: hbase+zk://HOST:PORT[,HOST:PORT...]/ZNODE or hbase+rpc://HOST:PORT [env:
    /// HBASE_TXN_CONNECT]
    #[arg(long, global = true, value_name = "URI", value_parser = cluster)]
    pub(crate) connect: Option<Cluster>,
    /// An hbase-site.xml with settings; options and environment take precedence [default: those in
    /// HBASE_CONF_DIR]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Tables for people, or JSON with one object per line for programs
    #[arg(long, global = true, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// Limit of a call with all its attempts: 500ms, 1.5s, 5m, 1h, 1d [default: 60s]
    #[arg(long, global = true, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    timeout: Option<Ranged<Duration>>,
    /// Filter of the log on stderr, such as `debug` or `hbase_client::cluster=trace`
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log: Option<EnvFilterText>,
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

impl Global {
    /// Returns the limit of the command's calls, if specified: at most one year, which all clocks
    /// can represent.
    pub(crate) fn timeout(&self) -> Result<Option<Duration>, Failure> {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
        let timeout = self.timeout.as_ref().map(|timeout| timeout.get("--timeout"));
        Ok(timeout.transpose()?.map(|timeout| timeout.min(YEAR)))
    }

    /// Writes the library's log to stderr, if `--log` is specified.
    pub(crate) fn start_log(&self) {
        let Some(EnvFilterText(filter)) = &self.log else {
            return;
        };
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::builder().parse_lossy(filter))
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal());
        subscriber.init();
    }
}

/// The cluster to connect to. An empty text means none, so that a script can unset the variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cluster(pub(crate) Option<ClusterAddress>);

pub(crate) fn cluster(text: &str) -> hbase_txn::Result<Cluster> {
    let address = match text {
        "" => None,
        text => Some(text.parse()?),
    };
    Ok(Cluster(address))
}

/// The text of a valid filter.
#[derive(Clone, Debug)]
pub(crate) struct EnvFilterText(String);

impl std::str::FromStr for EnvFilterText {
    type Err = tracing_subscriber::filter::ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        EnvFilter::builder().parse(text)?;
        Ok(Self(text.to_owned()))
    }
}
