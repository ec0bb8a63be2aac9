//! The cluster to connect to, and the limits of calls.

use std::{
    fmt,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{ClusterAddress, Config, Connection, ConnectionUri, TableName},
};

use crate::{
    change_log::ChangeFile,
    exit::Failure,
    global::{self, Cluster, Global, Profile},
    output,
    profile::variable,
};

const VARIABLE: &str = "HBASE_TXN_CONNECT";

const CONF_DIR: &str = "HBASE_CONF_DIR";

const NO_ADDRESS: &str = "no cluster is named; name it by --connect URI, by the environment variable HBASE_TXN_CONNECT, \
                          by --profile NAME, by --config hbase-site.xml, or by HBASE_CONF_DIR, the folder of that file; \
                          `hbase-txn dev up` \
                          boots one on this machine and prints its URI";

/// The settings of the cluster that a command uses, and what chose it.
#[derive(Debug)]
pub(crate) struct ChosenCluster {
    pub(crate) config: Config,
    /// The option, variable, profile or file with the address.
    pub(crate) source: String,
    /// The address in HBASE_CONF_DIR, if it is another one and does not count.
    other: Option<ClusterAddress>,
}

impl fmt::Display for ChosenCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.config.address(), self.source)
    }
}

impl Global {
    /// Returns the settings, and prints what is odd about them.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let chosen = self.chosen()?;
        for warning in chosen.config.warnings() {
            output::complain(warning);
        }
        if let Some(other) = &chosen.other {
            output::complain(&format!(
                "the cluster is {chosen}; {CONF_DIR}, which names {other}, is not used"
            ));
        }
        Ok(chosen.config)
    }

    /// Names the cluster on a terminal, before it is changed.
    pub(crate) fn name_cluster(&self) -> Result<(), Failure> {
        if io::stderr().is_terminal() {
            output::complain(&format!("cluster {}", self.chosen()?));
        }
        Ok(())
    }

    /// Returns the settings, and what chose the cluster. An option takes precedence over the environment, the
    /// environment over the profile, and an address over the file of the same source. HBASE_CONF_DIR is used
    /// only if no other source names a cluster.
    pub(crate) fn chosen(&self) -> Result<ChosenCluster, Failure> {
        let folder = variable(CONF_DIR).map(PathBuf::from);
        self.chosen_or(folder.as_deref())
    }

    fn chosen_or(&self, folder: Option<&Path>) -> Result<ChosenCluster, Failure> {
        let Profile {
            connect,
            config,
            conf_dir,
            ..
        } = &self.profile;
        let variable_source = format!("environment variable {VARIABLE}");
        let (uri, uri_source) = match &self.connect {
            Some(Cluster(uri)) => (uri.clone(), "--connect".to_owned()),
            None => match of_environment()? {
                Some(uri) => (Some(uri), variable_source.clone()),
                None => {
                    let uri = connect.clone().filter(|_| self.config.is_none());
                    (uri, self.profile.source())
                }
            },
        };
        let is_named = uri.is_some();
        let (config, source) = match (&self.config, config, conf_dir, &uri) {
            (Some(file), ..) | (None, Some(file), ..) => (
                uri.map_or_else(
                    || Config::from_hbase_site_file(file),
                    |uri| uri.over_hbase_site_file(file),
                ),
                file.display().to_string(),
            ),
            (None, None, Some(folder), _) => (
                uri.map_or_else(|| Config::from_conf_dir(folder), |uri| uri.over_conf_dir(folder)),
                format!("conf_dir of {}", self.profile.source()),
            ),
            (None, None, None, Some(uri)) => (uri.config(), format!("reading {uri}")),
            (None, None, None, None) => {
                let folder = folder.ok_or_else(|| Failure::Refused(NO_ADDRESS.to_owned()))?;
                (
                    Config::from_conf_dir(folder),
                    format!("environment variable {CONF_DIR}"),
                )
            }
        };
        let config = config.map_err(|error| {
            let error = error.to_string();
            // Of a file, most name it themselves, with the line.
            Failure::Refused(if error.contains(&source) {
                error
            } else {
                format!("{source}: {error}")
            })
        })?;
        let source = if is_named { uri_source } else { source };
        // Both are set in a shell, and each of them may have been forgotten.
        let other = folder
            .filter(|_| source == variable_source)
            .and_then(|folder| Config::from_conf_dir(folder).ok())
            .map(|other| other.address().clone())
            .filter(|other| other != config.address());
        Ok(ChosenCluster {
            config: self.limited(config.with_address_map(self.resolve.iter().cloned())),
            source,
            other,
        })
    }

    /// Sets the timeouts of the profile, and then that of a call as the limit of its parts. A write
    /// may take all of it, because it is sent only once.
    fn limited(&self, mut config: Config) -> Config {
        if let Some(timeout) = self.timeout {
            config = config.with_operation_timeout(timeout).with_write_timeout(timeout);
        }
        let limit = |of_profile: Option<Duration>, present: Duration| {
            let timeout = of_profile.unwrap_or(present);
            self.timeout.map_or(timeout, |limit| timeout.min(limit))
        };
        let Profile {
            read_timeout,
            write_timeout,
            connect_timeout,
            registry_timeout,
            ..
        } = self.profile;
        let read = limit(read_timeout, config.read_timeout());
        let write = limit(write_timeout, config.write_timeout());
        let connect = limit(connect_timeout, config.connect_timeout());
        let registry = limit(registry_timeout, config.registry_timeout());
        config
            .with_read_timeout(read)
            .with_write_timeout(write)
            .with_connect_timeout(connect)
            .with_registry_timeout(registry)
    }

    /// Connects to the cluster.
    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        let config = self.config()?;
        let Some(path) = &self.change_log else {
            return Ok(Connection::builder(config).connect().await?);
        };
        let log = ChangeFile::new(path, &config);
        let builder = Connection::builder(config).change_log(Arc::clone(&log));
        let connection = builder.connect().await?;
        log.identify(&connection).await?;
        Ok(connection)
    }

    /// Connects to the cluster for a change that opens or closes all regions of a table, and allows more time
    /// for many of them.
    pub(crate) async fn connect_for(&self, table: &TableName) -> Result<Admin, Failure> {
        let admin = Admin::new(&self.connect().await?);
        match admin.regions(table).await {
            Ok(regions) => Ok(admin.with_time_for_regions(regions.len())),
            // The change reports it with its own context.
            Err(error) if error.kind() == ClientErrorKind::TableNotFound => Ok(admin),
            Err(error) => Err(error.into()),
        }
    }
}

/// Not an `env` of clap: clap would show the option as required in every usage line, and a command
/// that needs no cluster would fail on an invalid value.
fn of_environment() -> Result<Option<ConnectionUri>, Failure> {
    let Some(text) = variable(VARIABLE) else {
        return Ok(None);
    };
    let Cluster(uri) = global::cluster(&text)
        .map_err(|error| Failure::Unparsable(format!("environment variable {VARIABLE}: {error}")))?;
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;
    use rstest::rstest;

    use super::*;
    use crate::{durations, global::Options};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn config(line: &[&str]) -> Result<Config, Failure> {
        config_or(line, None)
    }

    fn config_or(line: &[&str], folder: Option<&Path>) -> Result<Config, Failure> {
        let line = [&["hbase-txn"], line].concat();
        let options = Line::try_parse_from(line).unwrap().options;
        Ok(options.resolve()?.chosen_or(folder)?.config)
    }

    #[test]
    fn environments_folder_is_used_if_nothing_else_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, name: &str, value: &str| {
            let property = format!("<property><name>{name}</name><value>{value}</value></property>");
            fs::write(
                folder.path().join(file),
                format!("<configuration>{property}</configuration>"),
            )
            .unwrap();
        };
        let address = |line: &[&str]| {
            let config = config_or(line, Some(folder.path()))?;
            Ok(config.address().to_string())
        };
        let refusal = |refused: Result<String, Failure>| refused.unwrap_err().to_string();
        let missing = refusal(address(&["--connect", ""]));
        assert!(
            missing.contains("HBASE_CONF_DIR") && missing.contains("hbase-site.xml"),
            "{missing}"
        );
        write("core-site.xml", "hbase.masters", "core");
        assert_eq!(address(&["--connect", ""]).unwrap(), "hbase+rpc://core:16000");
        write("hbase-site.xml", "hbase.masters", "site");
        assert_eq!(address(&["--connect", ""]).unwrap(), "hbase+rpc://site:16000");
        assert_eq!(
            address(&["--connect", "hbase+rpc://uri"]).unwrap(),
            "hbase+rpc://uri:16000"
        );
        write("other.xml", "hbase.masters", "other");
        let other = folder.path().join("other.xml");
        let other = address(&["--connect", "", "--config", other.to_str().unwrap()]);
        assert_eq!(other.unwrap(), "hbase+rpc://other:16000");
        write("hbase-site.xml", "hbase.masters", "${no.such}");
        let broken = refusal(address(&["--connect", ""]));
        assert!(
            broken.contains("HBASE_CONF_DIR") && broken.contains("${no.such}"),
            "{broken}"
        );
    }

    #[test]
    fn an_option_beats_the_file_and_keeps_its_other_settings() {
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path().join("hbase-site.xml");
        let property =
            |name, value| format!("<property><name>{name}</name><value>{value}</value></property>");
        let xml = format!(
            "<configuration>{}{}</configuration>",
            property("hbase.zookeeper.quorum", "zk1"),
            property("hbase.client.pause", "7")
        );
        fs::write(&site, xml).unwrap();
        let site = site.to_str().unwrap();
        let of_file = config(&["--connect", "", "--config", site]).unwrap();
        assert_eq!(of_file.address().to_string(), "hbase+zk://zk1:2181/hbase");
        let of_option = config(&["--config", site, "--connect", "hbase+rpc://m"]).unwrap();
        assert_eq!(of_option.address().to_string(), "hbase+rpc://m:16000");
        assert_eq!(of_option.pause(), Duration::from_millis(7));
        let uri = "hbase+rpc://m?hbase.client.pause=8";
        for line in [&["--config", site, "--connect", uri][..], &["--connect", uri]] {
            assert_eq!(config(line).unwrap().pause(), Duration::from_millis(8));
        }
    }

    #[rstest]
    #[case("foo", "not a scheme")]
    #[case("hbase+rpc://localhost:notaport", "notaport")]
    #[case(
        "hbase+rpc://m?hbase.rpc.tls.keystore.password=hunter2",
        "keystore.password is a secret"
    )]
    #[case("hbase+rpc://u:hunter2@m", "no user")]
    fn invalid_uris_are_refused_without_secrets(#[case] uri: &str, #[case] why: &str) {
        let error = config(&["--connect", uri]).unwrap_err();
        assert!(matches!(error, Failure::Unparsable(_)));
        let error = error.to_string();
        assert!(error.contains("--connect") && error.contains(why), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_timeout_bounds_each_part_of_a_call() {
        let config = config(&["--connect", "hbase+rpc://m", "--timeout", "3s"]).unwrap();
        let parts = [
            config.operation_timeout(),
            config.write_timeout(),
            config.read_timeout(),
            config.registry_timeout(),
            config.connect_timeout(),
        ];
        assert_eq!(parts, [Duration::from_secs(3); 5]);
    }

    #[test]
    fn the_longest_timeout_that_can_be_written_can_be_waited_for() {
        let longest = "7304484d";
        durations::parse("7304485d").unwrap_err();
        let config = config(&["--connect", "hbase+rpc://m", "--timeout", longest]).unwrap();
        assert!(
            std::time::Instant::now()
                .checked_add(config.operation_timeout())
                .is_some()
        );
    }

    #[test]
    fn without_an_address_the_ways_to_give_one_are_named() {
        let refusal = config(&["--connect", ""]).unwrap_err().to_string();
        for way in [
            "--connect",
            "HBASE_TXN_CONNECT",
            "--config",
            "HBASE_CONF_DIR",
            "hbase-txn dev up",
        ] {
            assert!(refusal.contains(way), "{refusal}");
        }
    }
}
