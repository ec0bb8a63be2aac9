//! The options that every command has.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use hbase_txn::client::{ConnectionUri, MappedAddress};
use tracing_subscriber::EnvFilter;

use crate::{durations, style::ColorChoice, values::Ranged};

/// Options of all commands, as they are on the command line.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Options {
    /// Cluster: hbase+zk://HOST:PORT[,HOST:PORT...]/ZNODE or hbase+rpc://HOST:PORT; settings of
    /// hbase-site.xml may follow as ?KEY=VALUE&KEY=VALUE [env: HBASE_TXN_CONNECT]
    // Not parsed by clap, whose errors show the value: it may have a password.
    #[arg(long, global = true, value_name = "URI")]
    pub(crate) connect: Option<String>,
    /// An hbase-site.xml with settings; options and environment take precedence [env:
    /// HBASE_TXN_CONFIG] [default: those in HBASE_CONF_DIR]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Profile: a section [profile.NAME] of ~/.config/hbase-txn/config.toml with defaults for
    /// these options [env: HBASE_TXN_PROFILE]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Dial ADDRESS where the cluster names a server HOST:PORT that this machine can't reach, in a
    /// container or behind a port forward; ADDRESS may have a port, HOST may be without. Repeatable [env:
    /// HBASE_TXN_RESOLVE, several with commas]
    #[arg(long, global = true, value_name = "HOST:PORT=ADDRESS")]
    pub(crate) resolve: Vec<MappedAddress>,
    /// Tables for people, or JSON with one object per line for programs [env: HBASE_TXN_OUTPUT]
    /// [default: table]
    #[arg(long, global = true, value_enum)]
    pub(crate) output: Option<Format>,
    /// Colours in text for people; auto: on a terminal, unless NO_COLOR or CLICOLOR=0 is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub(crate) color: ColorChoice,
    /// Limit of a call with all its attempts: 500ms, 1.5s, 5m, 1h, 1d [env: HBASE_TXN_TIMEOUT]
    /// [default: 60s]
    #[arg(long, global = true, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    pub(crate) timeout: Option<Ranged<Duration>>,
    /// Append each change of tables, regions, namespaces, snapshots, permissions, quotas, peers and switches
    /// to this file, as lines of JSON with user and command; a change that can't be logged is not made
    /// [env: HBASE_TXN_CHANGE_LOG]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) change_log: Option<PathBuf>,
    /// Filter of the log on stderr, such as `debug` or `hbase_client::cluster=trace` [env:
    /// HBASE_TXN_LOG]
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log: Option<LogFilter>,
}

/// The options of a command: those of the command line, of the environment, or of a profile.
#[derive(Clone, Debug, Default)]
pub(crate) struct Global {
    pub(crate) connect: Option<Cluster>,
    /// The file of an option or of the environment.
    pub(crate) config: Option<PathBuf>,
    /// Those of the options, the environment and the profile, in this order.
    pub(crate) resolve: Vec<MappedAddress>,
    pub(crate) output: Format,
    /// The limit of the command's calls, if specified.
    pub(crate) timeout: Option<Duration>,
    /// The file for the log of changes.
    pub(crate) change_log: Option<PathBuf>,
    pub(crate) log: Option<LogFilter>,
    /// The other settings of the cluster. Empty without a profile.
    pub(crate) profile: Profile,
}

/// Options that apply unless the command line or the environment has others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    /// The name. Empty without a profile.
    pub(crate) name: String,
    pub(crate) connect: Option<ConnectionUri>,
    /// An hbase-site.xml.
    pub(crate) config: Option<PathBuf>,
    /// A folder with an hbase-site.xml.
    pub(crate) conf_dir: Option<PathBuf>,
    pub(crate) resolve: Vec<MappedAddress>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) read_timeout: Option<Duration>,
    pub(crate) write_timeout: Option<Duration>,
    pub(crate) registry_timeout: Option<Duration>,
    pub(crate) output: Option<Format>,
    pub(crate) change_log: Option<PathBuf>,
    pub(crate) log: Option<LogFilter>,
}

impl Profile {
    /// Returns the profile as a source of settings.
    pub(crate) fn source(&self) -> String {
        format!("profile {}", self.name)
    }
}

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

impl LogFilter {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// The cluster to connect to. An empty text means none, so that a script can unset the variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cluster(pub(crate) Option<ConnectionUri>);

pub(crate) fn cluster(text: &str) -> hbase_txn::Result<Cluster> {
    let uri = match text {
        "" => None,
        text => Some(text.parse()?),
    };
    Ok(Cluster(uri))
}

/// The text of a valid filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogFilter(String);

impl std::str::FromStr for LogFilter {
    type Err = tracing_subscriber::filter::ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        EnvFilter::builder().parse(text)?;
        Ok(Self(text.to_owned()))
    }
}
