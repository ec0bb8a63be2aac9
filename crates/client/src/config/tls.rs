//! The settings of TLS in a configuration.

use hbase_security::TlsOptions;

use super::Config;

impl Config {
    /// Returns the settings of TLS to the servers, or `None` without TLS.
    #[must_use]
    pub fn tls(&self) -> Option<&TlsOptions> {
        self.tls.as_ref()
    }

    /// Sets TLS to masters and region servers. The default is `None`, without TLS. Connections to
    /// ZooKeeper have settings of their own (`with_zookeeper_tls`).
    ///
    /// Calls fail with [`AuthenticationFailed`](crate::ErrorKind::AuthenticationFailed) if a server
    /// does not prove its identity or refuses that of this client, and with
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if the stores can't be used. Connecting fails
    /// in a build without the feature `tls`.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::{Config, TlsOptions};
    ///
    /// let tls = TlsOptions::new("/etc/hbase/trust.jks", "changeit")
    ///     .key_store("/etc/hbase/client.p12", "secret");
    /// let config = Config::from_uri("hbase+rpc://m1").unwrap().with_tls(Some(tls));
    /// assert!(!format!("{config:?}").contains("secret"));
    /// ```
    #[must_use]
    pub fn with_tls(mut self, tls: Option<TlsOptions>) -> Self {
        self.tls = tls;
        self
    }

    /// Returns the settings of TLS to the ZooKeeper quorum, or `None` without TLS.
    #[must_use]
    pub fn zookeeper_tls(&self) -> Option<&TlsOptions> {
        self.zookeeper_tls.as_ref()
    }

    /// Sets TLS to the servers of the ZooKeeper quorum, whose ports in the address must be those for
    /// TLS (`secureClientPort`). The default is `None`, without TLS.
    ///
    /// Calls fail as with [`with_tls`](Self::with_tls).
    #[must_use]
    pub fn with_zookeeper_tls(mut self, tls: Option<TlsOptions>) -> Self {
        self.zookeeper_tls = tls;
        self
    }
}
