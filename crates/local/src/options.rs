//! The options of a boot.

use std::time::Duration;

use hbase_client::low_level::{login_name, site_properties};

use super::{HBaseVersion, Shape, config, properties::Properties, state::State, tls::Tls};
use crate::{Error, ErrorKind, Result};

/// Options of a boot. An option that is not set keeps the cluster's value, or has its default for a
/// new cluster.
///
/// # Example
///
/// ```
/// use hbase_local::{BootOptions, HBaseVersion};
///
/// let options = BootOptions::new()
///     .version(HBaseVersion::V2_5)
///     .region_servers(3)
///     .property("hbase.hregion.max.filesize", "1073741824");
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct BootOptions {
    version: Option<HBaseVersion>,
    shape: Option<Shape>,
    properties: Properties,
    site_wide_endpoint: bool,
    authorization: bool,
    kerberos: bool,
    tls: Option<Tls>,
    thrift: bool,
    performance: bool,
    timeout: Duration,
}

const ENDPOINT: &str = "org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint";
const REGION_COPROCESSORS: &str = "hbase.coprocessor.user.region.classes";
const REGION_SYSTEM_COPROCESSORS: &str = "hbase.coprocessor.region.classes";
/// Serves delegation tokens.
const TOKENS: &str = "org.apache.hadoop.hbase.security.token.TokenProvider";
const ACCESS: &str = "org.apache.hadoop.hbase.security.access.AccessController";
const VISIBILITY: &str = "org.apache.hadoop.hbase.security.visibility.VisibilityController";
/// The coprocessors of `authorization`. The access controller precedes the visibility controller,
/// which reads the permissions that it has checked.
const CONTROLLERS: [(&str, &[&str]); 3] = [
    (config::MASTER_COPROCESSORS, &[ACCESS, VISIBILITY]),
    (REGION_SYSTEM_COPROCESSORS, &[ACCESS, VISIBILITY]),
    ("hbase.coprocessor.regionserver.classes", &[ACCESS]),
];

impl BootOptions {
    /// The default limit of a boot.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(180);

    /// The maximum number of region servers on one machine.
    const MAX_REGION_SERVERS: u16 = 32;

    /// Creates options with the defaults: for a new cluster, HBase 2.6.4, standalone.
    #[must_use]
    pub fn new() -> Self {
        Self {
            version: None,
            shape: None,
            properties: Properties::new(),
            site_wide_endpoint: false,
            authorization: false,
            kerberos: false,
            tls: None,
            thrift: false,
            performance: false,
            timeout: Self::DEFAULT_TIMEOUT,
        }
    }

    /// Sets the release of HBase.
    #[must_use]
    pub fn version(mut self, version: HBaseVersion) -> Self {
        self.version = Some(version);
        self
    }

    /// Boots a single Java process with all servers. This is the default.
    #[must_use]
    pub fn standalone(mut self) -> Self {
        self.shape = Some(Shape::Standalone);
        self
    }

    /// Boots separate processes on HDFS, with this number of region servers.
    #[must_use]
    pub fn region_servers(mut self, region_servers: u16) -> Self {
        self.shape = Some(Shape::Distributed { region_servers });
        self
    }

    /// Sets a property of `hbase-site.xml`.
    #[must_use]
    pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(key.into(), value.into());
        self
    }

    /// Sets all properties of an `hbase-site.xml`, given as text. The last value of a property
    /// takes effect.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not an `hbase-site.xml` or has no properties.
    /// [`LocalCluster::up`](super::LocalCluster::up) refuses properties that a local cluster sets
    /// itself.
    pub fn hbase_site(mut self, xml: &str) -> Result<Self> {
        let properties = site_properties(xml)?;
        if properties.is_empty() {
            return Err(Error::invalid("hbase-site.xml has no <property>"));
        }
        self.properties.extend(properties);
        Ok(self)
    }

    /// Loads `MultiRowMutationEndpoint` on every table. By default, only tables that have it
    /// attached use it.
    #[must_use]
    pub fn site_wide_endpoint(mut self) -> Self {
        self.site_wide_endpoint = true;
        self
    }

    /// Checks permissions and visibility labels: loads `AccessController` and
    /// `VisibilityController`. Servers still trust the user name that a client sends
    /// ([`Config::with_user`](hbase_client::Config::with_user)). The current user becomes the
    /// superuser, unless the property `hbase.superuser` names others; endpoints need the permission
    /// to execute.
    #[must_use]
    pub fn authorization(mut self) -> Self {
        self.authorization = true;
        self
    }

    /// Servers and clients authenticate each other with Kerberos: starts a KDC with principals for
    /// the servers, the current user, `alice` and `bob`, and a keytab with the keys of all. `alice` may act as `bob`. Clients
    /// need the [environment](super::ClusterStatus::environment) of the cluster. The property
    /// `hbase.rpc.protection` sets what is signed and encrypted; the default is `authentication`.
    /// HDFS and ZooKeeper stay without Kerberos. A cluster has it from its first boot on.
    #[must_use]
    pub fn kerberos(mut self) -> Self {
        self.kerberos = true;
        self
    }

    /// Servers speak TLS, and refuse plain connections. They prove their identity with certificates
    /// of an authority of the cluster. Clients need the
    /// [environment](super::ClusterStatus::environment) of the cluster. ZooKeeper and HDFS stay
    /// without TLS. HBase 2.6 and 3.0 have it.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls.get_or_insert(Tls::Servers);
        self
    }

    /// Servers speak [TLS](Self::tls), and require a certificate of clients too.
    #[must_use]
    pub fn mutual_tls(mut self) -> Self {
        self.tls = Some(Tls::Mutual);
        self
    }

    /// Also starts a Thrift gateway: HBase's `ThriftServer` of the first API, binary protocol, no
    /// frames. A running cluster without a gateway gets one; an existing gateway stays.
    #[must_use]
    pub fn thrift(mut self) -> Self {
        self.thrift = true;
        self
    }

    /// Runs the Java processes for measurements: with all of Java's compilers, the parallel garbage
    /// collector, and 3 GB of heap for each region server. By default, they start quickly and take
    /// little memory.
    #[must_use]
    pub fn performance(mut self) -> Self {
        self.performance = true;
        self
    }

    /// Sets the limit of the boot. A download has a separate limit of ten minutes.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(super) fn deadline_after(&self) -> Duration {
        self.timeout
    }

    /// Returns the state of a cluster that was never booted.
    pub(super) fn fresh(&self) -> Result<State> {
        let state = State::new(self.version.unwrap_or_default(), self.shape.unwrap_or_default());
        self.added_to(state)
    }

    /// Returns `stored` changed by these options. Refuses another release or shape, because data
    /// can't be moved there.
    pub(super) fn applied_to(&self, name: &str, stored: &State) -> Result<State> {
        let mut asked = Vec::new();
        asked.extend(
            self.version
                .filter(|version| *version != stored.version)
                .map(|version| version.to_string()),
        );
        asked.extend(
            self.shape
                .filter(|shape| *shape != stored.shape)
                .map(|shape| shape.to_string()),
        );
        if !asked.is_empty() {
            return Err(Error::new(
                ErrorKind::Mismatch,
                format!(
                    "cluster {name} is HBase {} {}, not {}",
                    stored.version,
                    stored.shape,
                    asked.join(" ")
                ),
            )
            .with_hint("give the other cluster another name, or delete this one and its data"));
        }
        self.added_to(stored.clone())
    }

    /// Refuses settings that a running cluster does not have.
    pub(super) fn check_running(&self, name: &str, stored: &State) -> Result<()> {
        let wanted = self.applied_to(name, stored)?;
        let of_boot = |state: &State| (state.performance, state.kerberos, state.tls);
        if wanted.properties == stored.properties && of_boot(&wanted) == of_boot(stored) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::OtherSettings,
            format!("cluster {name} runs with other settings"),
        )
        .with_hint("stop it; the next start applies these settings and keeps its data"))
    }

    fn added_to(&self, mut state: State) -> Result<State> {
        if let Shape::Distributed { region_servers } = state.shape
            && !(1..=Self::MAX_REGION_SERVERS).contains(&region_servers)
        {
            return Err(Error::invalid(format!("{region_servers} region servers"))
                .with_hint(format!("take 1 to {}", Self::MAX_REGION_SERVERS)));
        }
        state.properties.extend(self.properties.clone());
        state.thrift |= self.thrift;
        state.performance |= self.performance;
        state.kerberos |= self.kerberos;
        if state.kerberos {
            if state.thrift {
                return Err(Error::invalid("a Thrift gateway of a cluster with Kerberos")
                    .with_hint("take a cluster without Kerberos, which a gateway of this crate can use"));
            }
            add_class(&mut state.properties, REGION_SYSTEM_COPROCESSORS, TOKENS);
        }
        state.tls = self.tls.or(state.tls);
        if state.tls.is_some() && matches!(state.version, HBaseVersion::V2_4 | HBaseVersion::V2_5) {
            return Err(
                Error::invalid(format!("HBase {} has no TLS", state.version)).with_hint(format!(
                    "take {} or {}",
                    HBaseVersion::V2_6,
                    HBaseVersion::V3_0
                )),
            );
        }
        if self.site_wide_endpoint {
            add_class(&mut state.properties, REGION_COPROCESSORS, ENDPOINT);
        }
        if self.authorization {
            for (key, classes) in CONTROLLERS {
                for class in classes {
                    add_class(&mut state.properties, key, class);
                }
            }
            for (key, value) in [
                ("hbase.security.authorization", "true".to_owned()),
                ("hbase.security.exec.permission.checks", "true".to_owned()),
                ("hbase.superuser", login_name()),
            ] {
                state.properties.entry(key.to_owned()).or_insert(value);
            }
        }
        config::check(&state.properties, state.shape)?;
        Ok(state)
    }
}

/// Adds a class to a list of coprocessors, unless the list has it.
pub(super) fn add_class(properties: &mut Properties, key: &str, class: &str) {
    let classes = properties.entry(key.to_owned()).or_default();
    if !classes.split(',').any(|existing| existing.trim() == class) {
        let separator = if classes.is_empty() { "" } else { "," };
        classes.push_str(&format!("{separator}{class}"));
    }
}

impl Default for BootOptions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::Role;

    #[test]
    fn unset_options_keep_the_clusters_settings() {
        let stored = BootOptions::new()
            .version(HBaseVersion::V2_4)
            .region_servers(2)
            .fresh()
            .unwrap();
        assert_eq!(BootOptions::new().applied_to("x", &stored).unwrap(), stored);
        BootOptions::new().check_running("x", &stored).unwrap();
    }

    #[test]
    fn another_release_or_shape_is_refused_with_both() {
        let stored = BootOptions::new().fresh().unwrap();
        let asked = BootOptions::new().version(HBaseVersion::V2_4).region_servers(3);
        let error = asked.applied_to("x", &stored).unwrap_err().to_string();
        for word in [
            "2.6.4-hadoop3 standalone",
            "2.4.18 with 3 region servers",
            "delete this one",
        ] {
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_gateway_needs_no_boot_and_is_kept() {
        let stored = BootOptions::new().fresh().unwrap();
        assert!(!stored.roles().contains(&Role::Thrift));
        let asked = BootOptions::new().thrift();
        asked.check_running("x", &stored).unwrap();
        let with = asked.applied_to("x", &stored).unwrap();
        assert!(with.roles().contains(&Role::Thrift));
        assert_eq!(BootOptions::new().applied_to("x", &with).unwrap(), with);
    }

    #[test]
    fn settings_need_a_boot() {
        let stored = BootOptions::new().property("a", "1").fresh().unwrap();
        BootOptions::new()
            .property("a", "1")
            .check_running("x", &stored)
            .unwrap();
        assert!(
            BootOptions::new()
                .property("a", "2")
                .check_running("x", &stored)
                .is_err()
        );
        assert!(
            BootOptions::new()
                .site_wide_endpoint()
                .check_running("x", &stored)
                .is_err()
        );
    }

    #[test]
    fn performance_needs_a_boot_and_is_kept() {
        let stored = BootOptions::new().fresh().unwrap();
        assert!(!stored.performance);
        let fast = BootOptions::new().performance();
        assert!(fast.check_running("x", &stored).is_err());
        let stored = fast.applied_to("x", &stored).unwrap();
        assert_eq!(BootOptions::new().applied_to("x", &stored).unwrap(), stored);
        BootOptions::new().check_running("x", &stored).unwrap();
    }

    #[test]
    fn tls_needs_a_boot_and_a_release_that_has_it() {
        let stored = BootOptions::new().fresh().unwrap();
        let with = BootOptions::new().tls();
        assert!(with.check_running("x", &stored).is_err());
        let stored = with.applied_to("x", &stored).unwrap();
        BootOptions::new().check_running("x", &stored).unwrap();
        assert!(
            BootOptions::new()
                .mutual_tls()
                .check_running("x", &stored)
                .is_err()
        );
        let old = BootOptions::new().version(HBaseVersion::V2_5).mutual_tls().tls();
        let error = old.fresh().unwrap_err().to_string();
        assert!(
            error.contains("2.5.13-hadoop3 has no TLS") && error.contains("3.0.0"),
            "{error}"
        );
    }

    #[test]
    fn a_site_file_is_taken_setting_by_setting() {
        let site = |body: &str| format!("<configuration>{body}</configuration>");
        let property = |key, value| format!("<property><name>{key}</name><value>{value}</value></property>");
        let options = BootOptions::new()
            .hbase_site(&site(&(property("a", "1") + &property("b", "2"))))
            .unwrap()
            .property("b", "3");
        let properties = options.fresh().unwrap().properties;
        assert_eq!((properties["a"].as_str(), properties["b"].as_str()), ("1", "3"));

        assert!(BootOptions::new().hbase_site(&site("")).is_err());
        assert!(BootOptions::new().hbase_site("<configuration>").is_err());
        let own = BootOptions::new().hbase_site(&site(&property("hbase.rootdir", "/")));
        let error = own.unwrap().fresh().unwrap_err().to_string();
        assert!(error.contains("hbase.rootdir can't be set"), "{error}");
    }

    #[test]
    fn the_endpoint_is_added_once_beside_other_coprocessors() {
        let options = BootOptions::new()
            .property(REGION_COPROCESSORS, "a.B")
            .site_wide_endpoint();
        let state = options.fresh().unwrap();
        let again = BootOptions::new()
            .site_wide_endpoint()
            .applied_to("x", &state)
            .unwrap();
        assert_eq!(again.properties[REGION_COPROCESSORS], format!("a.B,{ENDPOINT}"));
        let without = BootOptions::new().fresh().unwrap();
        assert!(!without.properties.contains_key(REGION_COPROCESSORS));
    }

    #[test]
    fn authorization_adds_both_controllers_and_a_superuser() {
        let state = BootOptions::new()
            .property("hbase.superuser", "chief")
            .authorization()
            .fresh()
            .unwrap();
        let properties = &state.properties;
        assert_eq!(properties["hbase.security.authorization"], "true");
        assert_eq!(properties["hbase.superuser"], "chief");
        assert_eq!(
            properties["hbase.coprocessor.region.classes"],
            format!("{ACCESS},{VISIBILITY}")
        );
        let again = BootOptions::new().authorization();
        again.check_running("x", &state).unwrap();
        let plain = BootOptions::new().fresh().unwrap();
        assert!(again.check_running("x", &plain).is_err());
    }

    #[test]
    fn no_and_too_many_region_servers_are_refused() {
        assert!(BootOptions::new().region_servers(0).fresh().is_err());
        assert!(BootOptions::new().region_servers(33).fresh().is_err());
    }
}
