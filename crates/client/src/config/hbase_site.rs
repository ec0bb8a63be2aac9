//! The properties of `hbase-site.xml` that this client reads.

#[cfg(feature = "kerberos")]
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

use super::{
    ClusterAddress, Config, ConnectionUri, MetaReplicaMode,
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

pub(super) fn of_uri(uri: &ConnectionUri) -> Result<Config> {
    config(Properties::default(), Some(uri))
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
    let scan = site.number("hbase.client.primaryCallTimeout.scan")?;
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
    #[cfg(feature = "kerberos")]
    site.set_security(&mut config, &mut warnings)?;
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
            let parameter = self.parameters.get(name);
            parameter.or_else(|| self.properties.values.get(name)).cloned()
        };
        if !self.parameters.is_empty() {
            self.read.borrow_mut().insert(key.to_owned());
        }
        let Some(value) = raw(key) else {
            return Ok(None);
        };
        let value = expand(&value, raw, |name| env::var(name).ok())
            .map_err(|error| error.at_operation(self.origin(key)))?;
        Ok(Some(value.trim().to_owned()).filter(|value| !value.is_empty()))
    }

    /// Returns the source of a property, and its key.
    fn origin(&self, key: &str) -> String {
        let source = match self.parameters.contains_key(key) {
            true => "connection URI",
            false => "hbase-site.xml",
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
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(Error::invalid_config(format!(
                "{} is {text:?}, which is no whole number",
                self.origin(key)
            ))),
        }
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
        match hedged.is_some_and(|hedged| hedged.eq_ignore_ascii_case("true")) {
            true if mode == MetaReplicaMode::None => Ok(MetaReplicaMode::HedgedRead),
            _ => Ok(mode),
        }
    }

    /// Rejects clusters with security settings that this client does not support.
    fn refuse_security(&self) -> Result<()> {
        match self.text(AUTHENTICATION)? {
            Some(other) if !other.eq_ignore_ascii_case("simple") && !cfg!(feature = "kerberos") => {
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
        let quorum = self.first(&["hbase.client.zookeeper.quorum", "hbase.zookeeper.quorum"])?;
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
        let quorum = quorum.map_or_else(|| "localhost".to_owned(), |(_, quorum)| quorum);
        let port = match self.first(&[
            "hbase.client.zookeeper.property.clientPort",
            "hbase.zookeeper.property.clientPort",
        ])? {
            None => None,
            Some((key, text)) => Some(text.parse().map_err(|_| {
                Error::invalid_config(format!("hbase-site.xml: {key} is {text:?}, which is no port"))
            })?),
        };
        ClusterAddress::zookeeper(&quorum, port, self.text("zookeeper.znode.parent")?.as_deref())
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
const WITHOUT_COUNTERPART: [(&str, &str); 16] = [
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
        "hbase.ipc.client.connection.minIdleTimeBeforeClose",
        "connections stay open here until they fail or the client is closed",
    ),
    (
        "hbase.ipc.client.failed.servers.expiry",
        "an address that failed is tried again after the pause of the attempt here",
    ),
    (
        "hbase.client.prefetch.limit",
        "a look-up reads the neighbours of a region here",
    ),
    (
        "hbase.client.zookeeper.observer.mode",
        "every server of the quorum is asked here, observers too",
    ),
];
const RETRIES_ARE_EVENTS: &str = "each retry is an event of the log here";
const LIKE_OTHERS: &str = "calls of hbase:meta have the timeouts of other calls here";
const WRITER_OPTIONS: &str = "WriterOptions sets the memory of a bulk write here";
const CALLS_IN_FLIGHT: &str = "calls in flight follow the answers of the servers here";
const SILENT_PEERS: &str = "a silent connection is found by pings here";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn site(properties: &[(&str, &str)]) -> String {
        let body: String = properties
            .iter()
            .map(|(name, value)| format!("<property><name>{name}</name><value>{value}</value></property>"))
            .collect();
        format!("<?xml version=\"1.0\"?><!-- by hand --><configuration>{body}</configuration>")
    }

    #[test]
    fn reads_the_cluster_and_the_times() {
        let config = Config::from_hbase_site(&site(&[
            (
                "hbase.client.registry.impl",
                "org.apache.hadoop.hbase.client.RpcConnectionRegistry",
            ),
            ("hbase.masters", " m1:16000 , m2 "),
            ("hbase.rpc.timeout", "7000"),
            ("hbase.rpc.read.timeout", "3000"),
            ("hbase.client.pause.cqtbe", "500"),
            ("a.key.of.someone.else", "a &amp; b &#65;"),
        ]))
        .unwrap();
        assert_eq!(config.address().to_string(), "hbase+rpc://m1:16000,m2:16000");
        assert_eq!(config.read_timeout(), Duration::from_secs(3));
        assert_eq!(config.write_timeout(), Duration::from_secs(7));
        assert_eq!(config.overloaded_pause(), Duration::from_millis(500));
        assert_eq!(config.operation_timeout(), Duration::from_secs(60));
    }

    #[rstest]
    #[case(&[], MetaReplicaMode::None)]
    #[case(&[("hbase.meta.replicas.use", "true")], MetaReplicaMode::HedgedRead)]
    #[case(&[("hbase.meta.replicas.use", "true"), ("hbase.locator.meta.replicas.mode", "None")], MetaReplicaMode::HedgedRead)]
    #[case(&[("hbase.meta.replicas.use", "true"), ("hbase.locator.meta.replicas.mode", "loadbalance")], MetaReplicaMode::LoadBalance)]
    #[case(&[("hbase.locator.meta.replicas.mode", "HedgedRead")], MetaReplicaMode::HedgedRead)]
    fn reads_the_replicas_of_meta(#[case] properties: &[(&str, &str)], #[case] mode: MetaReplicaMode) {
        let mut all = vec![
            ("hbase.masters", "m1"),
            ("hbase.client.meta.replica.scan.timeout", "2500"),
        ];
        all.extend(properties);
        let config = Config::from_hbase_site(&site(&all)).unwrap();
        assert_eq!(config.meta_replicas(), mode);
        assert_eq!(config.meta_replica_timeout(), Duration::from_micros(2500));
        assert_eq!(config.warnings(), [""; 0]);
    }

    #[cfg(feature = "zookeeper")]
    #[test]
    fn finds_the_quorum_by_default_and_prefers_the_clients_own() {
        let address = |properties: &[(&str, &str)]| {
            Config::from_hbase_site(&site(properties))
                .unwrap()
                .address()
                .to_string()
        };
        assert_eq!(address(&[]), "hbase+zk://localhost:2181/hbase");
        assert_eq!(
            address(&[
                ("hbase.zookeeper.quorum", "a,b"),
                ("hbase.client.zookeeper.quorum", "c,d:7"),
                ("hbase.zookeeper.property.clientPort", "5"),
                ("zookeeper.znode.parent", "/hbase-secure"),
            ]),
            "hbase+zk://c:5,d:7/hbase-secure"
        );
    }

    #[rstest]
    #[case("<configuration><property>", "never closed")]
    #[case("<configuration></wrong>", "byte")]
    #[case(
        "<configuration><property><name>a</name><value>&who;</value></property></configuration>",
        "&who;"
    )]
    #[case(&site(&[("hbase.rpc.timeout", "soon")]), "\"soon\"")]
    #[case(&site(&[("hbase.locator.meta.replicas.mode", "Some")]), "\"Some\"")]
    #[case(&site(&[("hbase.zookeeper.property.clientPort", "99999")]), "\"99999\"")]
    #[cfg_attr(
        not(feature = "kerberos"),
        case(&site(&[("hbase.security.authentication", "kerberos")]), "the feature kerberos")
    )]
    #[cfg_attr(
        not(feature = "tls"),
        case(&site(&[("hbase.client.netty.tls.enabled", "true")]), "the feature tls")
    )]
    #[cfg_attr(
        all(feature = "zookeeper", not(feature = "tls")),
        case(&site(&[("hbase.zookeeper.property.client.secure", "true")]), "the feature tls")
    )]
    #[case(&site(&[("hbase.rpc.timeout", "${a}"), ("a", "${b}"), ("b", "${a}")]), "hbase.rpc.timeout")]
    #[case(&site(&[("hbase.rpc.timeout", "${not.there}")]), "\"${not.there}\"")]
    #[case(
        "<configuration><xi:include href='a.xml'/></configuration>",
        "from_hbase_site_file"
    )]
    fn says_what_it_cannot_read(#[case] xml: &str, #[case] why: &str) {
        let error = Config::from_hbase_site(xml).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }

    #[test]
    fn a_largest_cell_of_zero_or_less_is_no_limit() {
        for (value, limit) in [("0", usize::MAX), ("-1", usize::MAX), ("77", 77)] {
            let config = Config::from_hbase_site(&site(&[
                ("hbase.client.keyvalue.maxsize", value),
                ("hbase.security.authentication", "SIMPLE"),
            ]));
            assert_eq!(config.unwrap().max_cell_size(), limit);
        }
    }

    #[test]
    fn a_time_that_means_for_ever_to_java_is_a_year() {
        let config = Config::from_hbase_site(&site(&[
            ("hbase.client.operation.timeout", "9223372036854775807"),
            ("hbase.rpc.timeout", "0"),
        ]))
        .unwrap();
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        assert_eq!(config.operation_timeout(), YEAR);
        assert_eq!(config.read_timeout(), YEAR);
        assert_eq!(config.write_timeout(), YEAR);
        for none in ["0", "-1"] {
            let config = Config::from_hbase_site(&site(&[
                ("hbase.client.operation.timeout", none),
                ("hbase.rpc.write.timeout", none),
                ("hbase.ipc.client.socket.timeout.connect", none),
                ("zookeeper.registry.async.get.timeout", none),
                ("hbase.client.scanner.max.result.size", none),
            ]));
            let config = config.unwrap();
            assert_eq!(config.operation_timeout(), YEAR);
            assert_eq!(config.read_timeout(), Duration::from_secs(20));
            assert_eq!(config.write_timeout(), YEAR);
            assert_eq!(config.connect_timeout(), YEAR);
            assert_eq!(config.registry_timeout(), YEAR);
            assert_eq!(config.scan_batch_bytes(), u64::MAX);
        }
    }

    #[test]
    fn settings_without_a_counterpart_are_named_with_what_applies_instead() {
        let read = |properties: &[(&str, &str)]| Config::from_hbase_site(&site(properties)).unwrap();
        for (key, instead) in WITHOUT_COUNTERPART {
            let config = read(&[(key, "7")]);
            assert_eq!(config.warnings(), [format!("{key} is \"7\": {instead}")]);
            assert!(read(&[(key, " ")]).warnings().is_empty());
        }
        assert!(read(&[("hbase.regionserver.port", "7")]).warnings().is_empty());
    }

    #[rstest]
    #[case("100", Some(100))]
    #[case("2147483648", Some(i32::MAX as u32))]
    #[case("0", None)]
    #[case("-1", None)]
    fn rows_of_a_call_are_limited_as_in_hbase(#[case] value: &str, #[case] expected: Option<u32>) {
        let config = Config::from_hbase_site(&site(&[("hbase.client.scanner.caching", value)]));
        assert_eq!(config.unwrap().scan_caching(), expected);
    }

    #[test]
    fn servers_of_the_rpc_registry_count_where_no_quorum_is_named() {
        let address = |properties: &[(&str, &str)]| {
            let config = Config::from_hbase_site(&site(properties)).unwrap();
            config.address().to_string()
        };
        assert_eq!(
            address(&[("hbase.masters", "m1,m2:7")]),
            "hbase+rpc://m1:16000,m2:7"
        );
        assert_eq!(
            address(&[
                ("hbase.client.bootstrap.servers", "rs:16020"),
                ("hbase.masters", "m")
            ]),
            "hbase+rpc://rs:16020"
        );
        let registry = (
            "hbase.client.registry.impl",
            "org.apache.hadoop.hbase.client.RpcConnectionRegistry",
        );
        assert_eq!(
            address(&[
                registry,
                ("hbase.master.hostname", "m"),
                ("hbase.master.port", "7")
            ]),
            "hbase+rpc://m:7"
        );
    }

    #[test]
    fn unsupported_settings_are_named() {
        let warnings = |properties: &[(&str, &str)]| {
            let config = Config::from_hbase_site(&site(properties)).unwrap();
            config.warnings().join("; ")
        };
        assert_eq!(
            warnings(&[(
                "hbase.client.rpc.codec",
                "org.apache.hadoop.hbase.codec.KeyValueCodec"
            )]),
            ""
        );
        for (key, value) in [
            ("hbase.client.rpc.compressor", "a.Compressor"),
            (
                "hbase.client.rpc.codec",
                "org.apache.hadoop.hbase.codec.KeyValueCodecWithTags",
            ),
            ("hbase.client.default.rpc.codec", "a.Codec"),
            #[cfg(feature = "zookeeper")]
            ("hbase.client.registry.impl", "a.Registry"),
        ] {
            let said = warnings(&[("hbase.masters", "m"), (key, value)]);
            assert!(said.contains(key) && said.contains(value), "{said}");
        }
    }

    #[test]
    fn tcp_options_that_are_switched_off_are_named() {
        for (key, _) in ALWAYS_ON {
            for (value, warnings) in [("true", 0), ("false", 1)] {
                let config = Config::from_hbase_site(&site(&[("hbase.masters", "m"), (key, value)]));
                assert_eq!(config.unwrap().warnings().len(), warnings, "{key} {value}");
            }
        }
    }

    #[test]
    fn pool_of_zero_or_less_is_one_connection() {
        for (value, connections) in [("-1", 1), ("0", 1), ("4", 4), ("1000", 255)] {
            let properties = [("hbase.masters", "m"), ("hbase.client.ipc.pool.size", value)];
            let config = Config::from_hbase_site(&site(&properties)).unwrap();
            assert_eq!(config.connections_per_server(), connections, "{value}");
        }
    }

    #[test]
    fn compressor_is_used_if_it_is_compiled_in() {
        const GZIP: &str = "org.apache.hadoop.io.compress.GzipCodec";
        let properties = [("hbase.masters", "m"), ("hbase.client.rpc.compressor", GZIP)];
        let config = Config::from_hbase_site(&site(&properties)).unwrap();
        let class = config.compression().map(|compression| compression.class());
        let is_compiled_in = cfg!(feature = "compression");
        assert_eq!(class, is_compiled_in.then_some(GZIP));
        assert_eq!(
            config.warnings().is_empty(),
            is_compiled_in,
            "{:?}",
            config.warnings()
        );
    }

    #[cfg(feature = "zookeeper")]
    #[test]
    fn quorum_wins_over_masters_unless_the_registry_is_named() {
        let both = [("hbase.zookeeper.quorum", "zk"), ("hbase.masters", "m")];
        let config = Config::from_hbase_site(&site(&both)).unwrap();
        assert_eq!(config.address().to_string(), "hbase+zk://zk:2181/hbase");
        let [warning] = config.warnings() else {
            panic!("one warning, and not {:?}", config.warnings());
        };
        assert!(warning.contains("hbase.masters is not used"), "{warning}");
        for (class, address) in [
            (
                "org.apache.hadoop.hbase.client.ZKConnectionRegistry",
                "hbase+zk://zk:2181/hbase",
            ),
            (
                "org.apache.hadoop.hbase.client.RpcConnectionRegistry",
                "hbase+rpc://m:16000",
            ),
        ] {
            let named = [&both[..], &[("hbase.client.registry.impl", class)]].concat();
            let config = Config::from_hbase_site(&site(&named)).unwrap();
            assert_eq!(config.address().to_string(), address);
            assert!(config.warnings().is_empty(), "{:?}", config.warnings());
        }
    }

    #[test]
    fn values_refer_to_each_other() {
        let config = Config::from_hbase_site(&site(&[
            ("hbase.masters", "${m.one}:1,${m.two}:1"),
            ("m.one", "a.${domain}"),
            ("m.two", "b.${domain}"),
            ("domain", "example"),
        ]));
        let config = config.unwrap();
        assert_eq!(
            config.address().to_string(),
            "hbase+rpc://a.example:1,b.example:1"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(xml in "[<>/a-z&;#!\\[\\] \"=?-]{0,80}") {
            let _ = Config::from_hbase_site(&xml);
        }
    }
}
