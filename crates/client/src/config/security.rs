//! The settings of authentication, and of the protection of messages afterwards.

use std::path::{Path, PathBuf};

use crate::{
    error::{Error, Result},
    model::DelegationToken,
};

/// The protection of the messages of an authenticated connection (`hbase.rpc.protection`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protection {
    /// Both sides are authenticated when the connection opens, and messages are sent as they are.
    Authentication,
    /// Messages that were altered, repeated or left out are detected.
    Integrity,
    /// Messages are encrypted too.
    Privacy,
}

impl Protection {
    /// Returns the name of the protection in `hbase.rpc.protection`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::Integrity => "integrity",
            Self::Privacy => "privacy",
        }
    }

    /// Returns the names of protections, as in `hbase.rpc.protection`.
    pub(crate) fn names(protections: &[Self]) -> String {
        let names: Vec<_> = protections.iter().map(|protection| protection.name()).collect();
        names.join(", ")
    }

    /// Parses a list as in `hbase.rpc.protection`: names of HBase or of SASL, separated by commas.
    pub(super) fn parse_list(text: &str) -> Result<Vec<Self>> {
        text.split(',')
            .map(|name| match &*name.trim().to_ascii_lowercase() {
                "authentication" | "auth" => Ok(Self::Authentication),
                "integrity" | "auth-int" => Ok(Self::Integrity),
                "privacy" | "auth-conf" => Ok(Self::Privacy),
                other => Err(Error::invalid_config(format!(
                    "{other:?} is no protection: authentication, integrity or privacy"
                ))),
            })
            .collect()
    }
}

/// How a client authenticates by Kerberos: the principals of the servers, and where its own ticket
/// comes from.
///
/// The Kerberos library of the system is loaded when the first connection opens: MIT's
/// (`libgssapi-krb5-2` on Debian, `krb5-libs` on Fedora and Alpine, `krb5` of Homebrew on macOS) or
/// Heimdal's. It reads `krb5.conf`, and the environment variables `KRB5_CONFIG`, `KRB5CCNAME`,
/// `KRB5_CLIENT_KTNAME` and `KRB5_TRACE`. A ticket is requested for each connection that opens, so a
/// renewed ticket is used. The ticket of the user is never delegated to servers. It also authenticates to
/// ZooKeeper, if the quorum requires it.
///
/// # Example
///
/// ```
/// use hbase_client::{Config, Kerberos, Protection};
///
/// let kerberos = Kerberos::new("hbase/_HOST@EXAMPLE.COM")
///     .with_keytab("/etc/security/app.keytab", "app@EXAMPLE.COM");
/// let config = Config::from_uri("hbase+rpc://m1.example.com:16000").unwrap()
///     .with_kerberos(Some(kerberos))
///     .with_protection([Protection::Privacy]);
/// assert!(config.kerberos().is_some());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kerberos {
    pub(super) master_principal: Option<String>,
    pub(super) region_server_principal: Option<String>,
    pub(super) ticket: TicketSource,
    pub(super) host_as_named: bool,
    pub(super) zookeeper_service: Option<String>,
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

/// The settings of authentication and protection in a [`Config`](super::Config).
#[derive(Clone, Debug)]
pub(super) struct Security {
    pub(super) kerberos: Option<Kerberos>,
    pub(super) protection: Vec<Protection>,
    pub(super) fallback_to_simple: bool,
    pub(super) aes: bool,
    pub(super) effective_user: Option<String>,
    pub(super) unencrypted_tokens: bool,
    pub(super) tokens: Vec<DelegationToken>,
    /// The file that the tokens are from.
    pub(super) token_file: Option<PathBuf>,
}

impl Default for Security {
    fn default() -> Self {
        Self {
            kerberos: None,
            protection: vec![Protection::Authentication],
            fallback_to_simple: false,
            aes: false,
            effective_user: None,
            unencrypted_tokens: false,
            tokens: Vec::new(),
            token_file: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protections_are_a_list_in_order_of_preference() {
        use Protection::{Authentication, Integrity, Privacy};
        for (text, expected) in [
            ("privacy", &[Privacy][..]),
            (
                " Privacy , integrity,authentication",
                &[Privacy, Integrity, Authentication],
            ),
            ("auth-conf,auth-int,auth", &[Privacy, Integrity, Authentication]),
        ] {
            assert_eq!(Protection::parse_list(text).unwrap(), expected);
        }
        for text in ["", "none", "privacy,"] {
            let error = Protection::parse_list(text).unwrap_err();
            assert!(error.to_string().contains("is no protection"), "{error}");
        }
    }
}
