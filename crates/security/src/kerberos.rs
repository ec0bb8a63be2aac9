//! The settings of Kerberos.

use std::path::{Path, PathBuf};

/// How a client authenticates by Kerberos: the principals of the servers, and where its own ticket
/// comes from.
///
/// The Kerberos library of the system is loaded when the first connection opens: MIT's
/// (`libgssapi-krb5-2` on Debian, `krb5-libs` on Fedora and Alpine, `krb5` of Homebrew on macOS) or
/// Heimdal's. It reads `krb5.conf`, and the environment variables `KRB5_CONFIG`, `KRB5CCNAME`,
/// `KRB5_CLIENT_KTNAME` and `KRB5_TRACE`. A ticket is requested for each connection that opens, so a
/// renewed ticket is used. The ticket of the user is never delegated to servers. It also authenticates to
/// ZooKeeper, if the quorum requires it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kerberos {
    master_principal: Option<String>,
    region_server_principal: Option<String>,
    ticket: TicketSource,
    host_as_named: bool,
    zookeeper_service: Option<String>,
}

/// Where the ticket of the client comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TicketSource {
    /// The default cache of the user, which `kinit` fills.
    #[default]
    DefaultCache,
    /// A cache by name, for example `FILE:/run/user/1000/krb5cc`.
    Cache(String),
    /// A key in a file. Tickets are requested with it, and new ones before they expire.
    Keytab {
        /// The file.
        file: PathBuf,
        /// One of its principals.
        principal: String,
    },
}

impl Kerberos {
    /// Creates the settings for servers that all have this principal, for example
    /// `hbase/_HOST@EXAMPLE.COM`, and for the ticket of the default cache.
    ///
    /// `_HOST` stands for the host of the server as the cluster names it. The Kerberos library then
    /// determines the full name of the host, and its realm, as `krb5.conf` says
    /// (`dns_canonicalize_hostname`, `rdns`, `domain_realm`). A principal without `_HOST` is used as
    /// it is.
    #[must_use]
    pub fn new(principal: impl Into<String>) -> Self {
        let principal = Some(principal.into());
        Self {
            master_principal: principal.clone(),
            region_server_principal: principal,
            ..Self::default()
        }
    }

    /// Sets the principal of masters, if it differs from that of region servers.
    #[must_use]
    pub fn with_master_principal(mut self, principal: impl Into<String>) -> Self {
        self.master_principal = Some(principal.into());
        self
    }

    /// Sets the principal of region servers, if it differs from that of masters.
    #[must_use]
    pub fn with_region_server_principal(mut self, principal: impl Into<String>) -> Self {
        self.region_server_principal = Some(principal.into());
        self
    }

    /// Sets a keytab and one of its principals as the source of the ticket. The tickets stay in the
    /// memory of the process.
    #[must_use]
    pub fn with_keytab(mut self, file: impl AsRef<Path>, principal: impl Into<String>) -> Self {
        self.ticket = TicketSource::Keytab {
            file: file.as_ref().to_owned(),
            principal: principal.into(),
        };
        self
    }

    /// Sets a cache as the source of the ticket, for example `FILE:/run/user/1000/krb5cc`.
    #[must_use]
    pub fn with_ticket_cache(mut self, name: impl Into<String>) -> Self {
        self.ticket = TicketSource::Cache(name.into());
        self
    }

    /// Sets whether `_HOST` stands for the host exactly as the cluster names it, without a look-up of
    /// its full name (`hbase.unsafe.client.kerberos.hostname.disable.reversedns`). The default is
    /// `false`.
    #[must_use]
    pub fn with_host_as_named(mut self, host_as_named: bool) -> Self {
        self.host_as_named = host_as_named;
        self
    }

    /// Sets the first part of the principals of ZooKeeper's servers
    /// (`hbase.zookeeper.property.sasl.client.username`). The default is `zookeeper`. It is used if the
    /// quorum requires authentication. The Kerberos library determines the rest.
    #[must_use]
    pub fn with_zookeeper_service(mut self, service: impl Into<String>) -> Self {
        self.zookeeper_service = Some(service.into());
        self
    }

    /// Returns the principal of masters.
    #[must_use]
    pub fn master_principal(&self) -> Option<&str> {
        self.master_principal.as_deref()
    }

    /// Returns the principal of region servers.
    #[must_use]
    pub fn region_server_principal(&self) -> Option<&str> {
        self.region_server_principal.as_deref()
    }

    /// Returns the first part of the principals of ZooKeeper's servers.
    #[must_use]
    pub fn zookeeper_service(&self) -> &str {
        self.zookeeper_service.as_deref().unwrap_or("zookeeper")
    }

    /// Returns where the ticket comes from.
    #[must_use]
    pub fn ticket(&self) -> &TicketSource {
        &self.ticket
    }

    /// Returns whether `_HOST` stands for the host exactly as the cluster names it.
    #[must_use]
    pub fn host_as_named(&self) -> bool {
        self.host_as_named
    }
}
