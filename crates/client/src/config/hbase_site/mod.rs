//! The properties of `hbase-site.xml` that this client reads.

mod kerberos;
mod tls;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    env,
    path::Path,
    str::FromStr,
    time::Duration,
};

use hbase_security::HAS_KERBEROS;

use super::{
    ClusterAddress, Config, ConnectionUri, MetaReplicaMode,
    address::ZNODE,
    expand::expand,
    properties::Properties,
    times::{LONGEST, bounded},
};
use crate::{
    error::{Error, ErrorKind, Result},
    wire::compression::Compression,
};

/// The files of a configuration folder. A later file overrides a property of an earlier one.
const FILES: [&str; 2] = ["core-site.xml", "hbase-site.xml"];

const AUTHENTICATION: &str = "hbase.security.authentication";
/// The environment variable by which Hadoop's clients act as another user.
const PROXY_USER: &str = "HADOOP_PROXY_USER";
const COMPRESSOR: &str = "hbase.client.rpc.compressor";

pub(super) fn of_text(xml: &str) -> Result<Config> {
    let mut properties = Properties::default();
    properties.add_text(xml)?;
    config(properties, None)
}

pub(super) fn of_file(file: &Path, uri: Option<&ConnectionUri>) -> Result<Config> {
    let mut properties = Properties::default();
    properties.add_file(file)?;
    config(properties, uri)
}

pub(super) fn of_folder(folder: &Path, uri: Option<&ConnectionUri>) -> Result<Config> {
    let mut properties = Properties::default();
    let files = FILES.map(|file| folder.join(file));
    let mut there = files.iter().filter(|file| file.exists()).peekable();
    if there.peek().is_none() {
        return Err(Error::invalid_config(format!(
            "{} has neither core-site.xml nor hbase-site.xml",
            folder.display()
        )));
    }
    for file in there {
        properties.add_file(file)?;
    }
    config(properties, uri)
}

impl ConnectionUri {
    /// Creates the configuration of the URI.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Config::from_hbase_site`] does.
    pub fn config(&self) -> Result<Config> {
        config(Properties::default(), Some(self))
    }

    /// Creates the configuration of an `hbase-site.xml`, with the address of the URI. A parameter
    /// overrides the property of the file.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Config::from_hbase_site_file`] does.
    pub fn over_hbase_site_file(&self, file: impl AsRef<Path>) -> Result<Config> {
        of_file(file.as_ref(), Some(self))
    }

    /// Creates the configuration of a folder with `hbase-site.xml`, with the address of the URI. A
    /// parameter overrides the property of the files.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Config::from_conf_dir`] does.
    pub fn over_conf_dir(&self, folder: impl AsRef<Path>) -> Result<Config> {
        of_folder(folder.as_ref(), Some(self))
    }
}

/// Returns the configuration. The parameters of the URI override properties.
fn config(properties: Properties, uri: Option<&ConnectionUri>) -> Result<Config> {
    let site = Site {
        properties,
        parameters: uri.map(|uri| uri.parameters().clone()).unwrap_or_default(),
        read: RefCell::default(),
    };
    site.refuse_security()?;
    let mut warnings = Vec::new();
    let mut config = Config::new(match uri {
        Some(uri) => uri.address().clone(),
        None => site.address(&mut warnings)?,
    });
    site.set_tls(&mut config, &mut warnings)?;
    let set = |slot: &mut Duration, keys: &[&str]| -> Result<()> {
        if let Some(limit) = site.limit(keys)? {
            *slot = limit;
        }
        Ok(())
    };
    set(&mut config.operation_timeout, &["hbase.client.operation.timeout"])?;
    set(
        &mut config.read_timeout,
        &["hbase.rpc.read.timeout", "hbase.rpc.timeout"],
    )?;
    set(
        &mut config.write_timeout,
        &["hbase.rpc.write.timeout", "hbase.rpc.timeout"],
    )?;
    set(
        &mut config.connect_timeout,
        &["hbase.ipc.client.socket.timeout.connect"],
    )?;
    set(
        &mut config.registry_timeout,
        &["zookeeper.registry.async.get.timeout"],
    )?;
    if let Some(millis) = site.number("hbase.client.pause")? {
        config = config.with_pause(Duration::from_millis(millis));
    }
    let overloaded = ["hbase.client.pause.server.overloaded", "hbase.client.pause.cqtbe"];
    if let Some(millis) = site.first_number(&overloaded)? {
        config = config.with_overloaded_pause(Duration::from_millis(millis));
    }
    if let Some(backpressure) = site.text("hbase.client.backpressure.enabled")? {
        config = config.with_backpressure(backpressure.eq_ignore_ascii_case("true"));
    }
    if let Some(bytes) = site.number::<i64>("hbase.client.scanner.max.result.size")? {
        // Without a limit of the client, that of the server applies.
        let bytes = u64::try_from(bytes).ok().filter(|bytes| *bytes > 0);
        config = config.with_scan_batch_bytes(bytes.unwrap_or(u64::MAX));
    }
    if let Some(rows) = site.number::<i64>("hbase.client.scanner.caching")? {
        // In HBase, zero or less means the default.
        let rows = u32::try_from(rows).ok().filter(|rows| *rows > 0);
        config = config.with_scan_caching(rows);
    }
    // In microseconds.
    let get = site.number("hbase.client.primaryCallTimeout.get")?;
    let scan = site.number("hbase.client.replicaCallTimeout.scan")?;
    let get = get.map_or_else(|| config.primary_get_timeout(), Duration::from_micros);
    let scan = scan.map_or_else(|| config.primary_scan_timeout(), Duration::from_micros);
    config = config.with_primary_call_timeouts(get, scan);
    config = config.with_meta_replicas(site.meta_replicas()?);
    if let Some(micros) = site.number("hbase.client.meta.replica.scan.timeout")? {
        config = config.with_meta_replica_timeout(Duration::from_micros(micros));
    }
    if let Some(bytes) = site.number::<i64>("hbase.client.keyvalue.maxsize")? {
        // In HBase, zero or less means no limit.
        config.max_cell_size = usize::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes > 0)
            .unwrap_or(usize::MAX);
    }
    // Hadoop takes everything else for the default.
    if let Some(nonces) = site.text("hbase.client.nonces.enabled")? {
        config = config.with_nonces(!nonces.eq_ignore_ascii_case("false"));
    }
    if let Some(class) = site.text(COMPRESSOR)? {
        match Compression::from_class(&class) {
            Ok(compression) => config.compression = Some(compression),
            Err(error) => warnings.push(format!(
                "{COMPRESSOR} is {class:?}: cells travel uncompressed here, because {}",
                error.what(),
            )),
        }
    }
    if let Some(size) = site.number::<i32>("hbase.client.ipc.pool.size")? {
        // In HBase, zero or less means 1.
        let size = u8::try_from(size.max(1)).unwrap_or(u8::MAX);
        config = config.with_connections_per_server(size);
    }
    if let Some(millis) = site.number("hbase.ipc.client.connection.minIdleTimeBeforeClose")? {
        config = config.with_idle_timeout(Duration::from_millis(millis));
    }
    site.set_security(&mut config, &mut warnings)?;
    if let Some(user) = env::var_os(PROXY_USER).filter(|user| !user.is_empty()) {
        warnings.push(format!(
            "{PROXY_USER} is {user:?}: it is not read here, and servers see the client's own user \
             (Config::with_effective_user)"
        ));
    }
    warnings.extend(site.ignored_formats()?);
    warnings.extend(site.without_counterpart()?);
    warnings.extend(site.unread_parameters());
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    config.warnings = warnings;
    Ok(config)
}

struct Site {
    properties: Properties,
    /// Those of a connection URI.
    parameters: BTreeMap<String, String>,
    /// The keys that were queried.
    read: RefCell<BTreeSet<String>>,
}

impl Site {
    /// Returns a non-empty property, with its variables replaced.
    fn text(&self, key: &str) -> Result<Option<String>> {
        let raw = |name: &str| {
            let parameter = self.parameters.get(name).map(String::as_str);
            parameter.or_else(|| self.properties.value(name))
        };
        if !self.parameters.is_empty() {
            self.read.borrow_mut().insert(key.to_owned());
        }
        let Some(value) = raw(key) else {
            return Ok(None);
        };
        let property = |name: &str| raw(name).or_else(|| default_of(name)).map(str::to_owned);
        let value = expand(value, property, |name| env::var(name).ok())
            .map_err(|error| error.at_operation(self.origin(key)))?;
        Ok(Some(value.trim().to_owned()).filter(|value| !value.is_empty()))
    }

    /// Returns the source of a property, and its key.
    fn origin(&self, key: &str) -> String {
        let source = if self.parameters.contains_key(key) {
            "connection URI"
        } else {
            self.properties.place(key).unwrap_or("hbase-site.xml")
        };
        format!("{source}: {key}")
    }

    /// Returns the first non-empty property of these, with its value.
    fn first<'k>(&self, keys: &[&'k str]) -> Result<Option<(&'k str, String)>> {
        for key in keys {
            if let Some(text) = self.text(key)? {
                return Ok(Some((key, text)));
            }
        }
        Ok(None)
    }

    fn number<N: FromStr>(&self, key: &str) -> Result<Option<N>> {
        self.first_number(&[key])
    }

    fn first_number<N: FromStr>(&self, keys: &[&str]) -> Result<Option<N>> {
        let Some((key, text)) = self.first(keys)? else {
            return Ok(None);
        };
        // As in Hadoop's `Configuration.getInt`.
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", &*text),
        };
        let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
        let number = match hex {
            Some(digits) => i64::from_str_radix(&format!("{sign}{digits}"), 16)
                .ok()
                .and_then(|number| number.to_string().parse().ok()),
            None => text.parse().ok(),
        };
        let refuse = || {
            let origin = self.origin(key);
            Error::invalid_config(format!(
                "{origin} is {text:?}, which is no whole number of its range"
            ))
        };
        number.map(Some).ok_or_else(refuse)
    }

    /// Returns a time limit. In HBase, zero or less means no limit.
    fn limit(&self, keys: &[&str]) -> Result<Option<Duration>> {
        let millis = self.first_number::<i64>(keys)?;
        Ok(millis.map(|millis| match u64::try_from(millis) {
            Ok(0) | Err(_) => LONGEST,
            Ok(millis) => bounded(Duration::from_millis(millis)),
        }))
    }

    /// Returns which replicas of `hbase:meta` are read. The older switch counts where the mode is none.
    fn meta_replicas(&self) -> Result<MetaReplicaMode> {
        const MODE: &str = "hbase.locator.meta.replicas.mode";
        let mode = self.text(MODE)?.map_or(Ok(MetaReplicaMode::None), |mode| {
            mode.parse()
                .map_err(|error: Error| error.at_operation(self.origin(MODE)))
        })?;
        let hedged = self.text("hbase.meta.replicas.use")?;
        let is_hedged = hedged.is_some_and(|hedged| hedged.eq_ignore_ascii_case("true"));
        Ok(if is_hedged && mode == MetaReplicaMode::None {
            MetaReplicaMode::HedgedRead
        } else {
            mode
        })
    }

    /// Rejects clusters with security settings that this client does not support.
    fn refuse_security(&self) -> Result<()> {
        match self.text(AUTHENTICATION)? {
            Some(other) if !other.eq_ignore_ascii_case("simple") && !HAS_KERBEROS => {
                return Err(Error::new(
                    ErrorKind::AuthenticationRequired,
                    format!("{AUTHENTICATION} is {other:?}; this build speaks SIMPLE only"),
                )
                .with_hint("build it with the feature kerberos"));
            }
            _ => {}
        }
        Ok(())
    }

    fn address(&self, warnings: &mut Vec<String>) -> Result<ClusterAddress> {
        const REGISTRY: &str = "hbase.client.registry.impl";
        let servers = self.first(&["hbase.client.bootstrap.servers", "hbase.masters"])?;
        const CLIENT_QUORUM: &str = "hbase.client.zookeeper.quorum";
        let quorum = self.first(&[CLIENT_QUORUM, "hbase.zookeeper.quorum"])?;
        let registry = self.text(REGISTRY)?;
        let by_rpc = match (&registry, &servers) {
            (Some(class), _)
                if class.ends_with("RpcConnectionRegistry") || class.ends_with("MasterRegistry") =>
            {
                true
            }
            (Some(class), _) => {
                // ZKConnectionRegistry, ZKAsyncRegistry
                if !class
                    .rsplit('.')
                    .next()
                    .is_some_and(|name| name.starts_with("ZK"))
                {
                    warnings.push(format!(
                        "{REGISTRY} is {class:?}, which is not known here: ZooKeeper is asked"
                    ));
                }
                false
            }
            // In 3.0 the RPC registry is the default, in 2.x ZooKeeper.
            (None, Some((key, _))) if quorum.is_some() => {
                warnings.push(format!(
                    "{key} is not used, because a ZooKeeper quorum is named too: say in {REGISTRY} which of them counts"
                ));
                false
            }
            (None, servers) => servers.is_some(),
        };
        if by_rpc {
            let servers = match (servers, self.text("hbase.master.hostname")?) {
                (Some((_, servers)), _) => servers,
                (None, host) => {
                    let port = self
                        .number::<u16>("hbase.master.port")?
                        .unwrap_or(super::MASTER_PORT);
                    format!("{}:{port}", host.as_deref().unwrap_or("localhost"))
                }
            };
            return ClusterAddress::rpc(&servers);
        }
        const CLIENT_PORT: &str = "hbase.client.zookeeper.property.clientPort";
        let (key, quorum) = quorum.unwrap_or_else(|| ("hbase.zookeeper.quorum", "localhost".to_owned()));
        let own_port = self.number(CLIENT_PORT)?;
        let port = self.number("hbase.zookeeper.property.clientPort")?;
        let port = match own_port {
            Some(_) if key == CLIENT_QUORUM => own_port,
            Some(own) => {
                warnings.push(format!(
                    "{CLIENT_PORT} is {own}, and {CLIENT_QUORUM} is missing: the port does not count, as in HBase's own client"
                ));
                port
            }
            None => port,
        };
        let znode = self.text("zookeeper.znode.parent")?;
        let in_context = |error: Error| error.at_operation(self.origin(key));
        let (hosts, chroot) = with_chroot(&quorum).map_err(in_context)?;
        let znode = match (chroot, znode) {
            ("", znode) => znode,
            (chroot, Some(znode)) if znode == "/" => Some(chroot.to_owned()),
            (chroot, znode) => Some(format!("{chroot}{}", znode.as_deref().unwrap_or(ZNODE))),
        };
        ClusterAddress::zookeeper(&hosts, port, znode.as_deref()).map_err(in_context)
    }

    /// Returns the settings of cell encodings that this client ignores.
    fn ignored_formats(&self) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        let codec = self.first(&["hbase.client.rpc.codec", "hbase.client.default.rpc.codec"])?;
        if let Some((key, class)) = codec.filter(|(_, class)| !class.ends_with(".KeyValueCodec")) {
            warnings.push(format!("{key} is {class:?}: cells travel by KeyValueCodec here"));
        }
        Ok(warnings)
    }

    /// Returns the parameters that are unknown, or mean nothing without another setting. Unlike a
    /// file, a URI has only what is for this client.
    fn unread_parameters(&self) -> Vec<String> {
        let read = self.read.borrow();
        let unread = self.parameters.keys().filter(|key| !read.contains(*key));
        unread
            .map(|key| format!("connection URI: {key} is not read with these settings, or not by this build"))
            .collect()
    }

    /// Returns the settings of HBase's own client that have no counterpart here.
    fn without_counterpart(&self) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        for (key, instead) in ALWAYS_ON {
            if let Some(value) = self.text(key)?
                && value.eq_ignore_ascii_case("false")
            {
                warnings.push(format!("{key} is {value:?}: {instead}"));
            }
        }
        for (key, instead) in WITHOUT_COUNTERPART {
            if let Some(value) = self.text(key)? {
                warnings.push(format!("{key} is {value:?}: {instead}"));
            }
        }
        Ok(warnings)
    }
}

/// Returns the hosts of a quorum without empty names, which Java skips, and the path in ZooKeeper below which
/// everything is (`zk1:2181,zk2:2181/path`), or an empty one.
fn with_chroot(quorum: &str) -> Result<(String, &str)> {
    let (hosts, chroot) = match quorum.find('/') {
        Some(at) => quorum.split_at(at),
        None => (quorum, ""),
    };
    let hosts: Vec<_> = hosts
        .split(',')
        .map(str::trim)
        .filter(|host| !host.is_empty())
        .collect();
    let has_port = hosts.last().is_some_and(|host| host.contains(':'));
    if !chroot.is_empty() && !has_port {
        let why = format!(
            "{quorum:?} has a path behind a host without a port; Java would add the port to the path"
        );
        return Err(Error::invalid_config(why).with_hint("write the port of the last host"));
    }
    if chroot.contains(',') {
        let why = format!(
            "{quorum:?} has a host behind a path; the path is that of all hosts, behind the last one"
        );
        return Err(Error::invalid_config(why));
    }
    Ok((hosts.join(","), chroot.trim_end_matches('/')))
}

/// Returns the default of a property that values of others refer to (`${hbase.rpc.timeout}`), as in
/// `hbase-default.xml` of 2.6.
fn default_of(key: &str) -> Option<&'static str> {
    let found = DEFAULTS.iter().find(|(name, _)| *name == key);
    found.map(|(_, value)| *value)
}

const DEFAULTS: [(&str, &str); 6] = [
    ("hbase.client.operation.timeout", "1200000"),
    ("hbase.client.pause", "100"),
    ("hbase.rpc.timeout", "60000"),
    ("hbase.zookeeper.property.clientPort", "2181"),
    ("zookeeper.session.timeout", "90000"),
    ("zookeeper.znode.parent", ZNODE),
];

/// Switches of HBase's own client that are always on here, and what they do.
const ALWAYS_ON: [(&str, &str); 2] = [
    (
        "hbase.ipc.client.tcpnodelay",
        "queued requests are written together, and a single one does not wait here",
    ),
    (
        "hbase.ipc.client.tcpkeepalive",
        "the system ends connections to machines that are gone here",
    ),
];

/// Settings of HBase's own client without a counterpart, and what applies instead. Those that a
/// server reads too are not among them: they are in the files of every cluster.
const WITHOUT_COUNTERPART: [(&str, &str); 17] = [
    (
        "hbase.client.retries.number",
        "the operation timeout bounds attempts here, not their number",
    ),
    ("hbase.client.start.log.errors.counter", RETRIES_ARE_EVENTS),
    ("hbase.client.meta.operation.timeout", LIKE_OTHERS),
    ("hbase.client.meta.read.rpc.timeout", LIKE_OTHERS),
    ("hbase.client.meta.scanner.timeout.period", LIKE_OTHERS),
    ("hbase.client.write.buffer", WRITER_OPTIONS),
    ("hbase.client.max.total.tasks", CALLS_IN_FLIGHT),
    ("hbase.client.max.perserver.tasks", CALLS_IN_FLIGHT),
    ("hbase.client.max.perregion.tasks", CALLS_IN_FLIGHT),
    (
        "hbase.client.ipc.pool.type",
        "a call takes the connection with the fewest calls in flight here",
    ),
    ("hbase.ipc.client.socket.timeout.read", SILENT_PEERS),
    ("hbase.ipc.client.socket.timeout.write", SILENT_PEERS),
    (
        "hbase.ipc.client.failed.servers.expiry",
        "an address that failed is tried again after the pause of the attempt here",
    ),
    ("hbase.client.prefetch.limit", NEIGHBOURS),
    ("hbase.client.locate.prefetch.limit", NEIGHBOURS),
    (
        "hbase.client.connection.impl",
        "connections are those of this client here, whatever the class would do",
    ),
    (
        "hbase.client.zookeeper.observer.mode",
        "every server of the quorum is asked here, observers too",
    ),
];
const NEIGHBOURS: &str = "a look-up reads the neighbours of a region here";
const RETRIES_ARE_EVENTS: &str = "each retry is an event of the log here";
const LIKE_OTHERS: &str = "calls of hbase:meta have the timeouts of other calls here";
const WRITER_OPTIONS: &str = "WriterOptions sets the memory of a bulk write here";
const CALLS_IN_FLIGHT: &str = "calls in flight follow the answers of the servers here";
const SILENT_PEERS: &str = "a silent connection is found by pings here";

#[cfg(test)]
mod tests;
