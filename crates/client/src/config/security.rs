//! How the client authenticates, and how messages are protected afterwards.

use std::path::{Path, PathBuf};

use super::Config;
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
/// (`libgssapi-krb5-2` on Debian, `krb5-libs` on Fedora and Alpine) or Heimdal's. It reads `krb5.conf`,
/// and the environment variables `KRB5_CONFIG`, `KRB5CCNAME`, `KRB5_CLIENT_KTNAME` and `KRB5_TRACE`. A ticket
/// is requested for each connection that opens, so a renewed ticket is used. The ticket of the user
/// is never delegated to servers.
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

/// The settings of authentication and protection in a [`Config`].
#[derive(Clone, Debug)]
pub(super) struct Security {
    pub(super) kerberos: Option<Kerberos>,
    pub(super) protection: Vec<Protection>,
    pub(super) fallback_to_simple: bool,
    pub(super) aes: bool,
    effective_user: Option<String>,
    pub(super) tokens: Vec<DelegationToken>,
}

impl Default for Security {
    fn default() -> Self {
        Self {
            kerberos: None,
            protection: vec![Protection::Authentication],
            fallback_to_simple: false,
            aes: false,
            effective_user: None,
            tokens: Vec::new(),
        }
    }
}

impl Config {
    /// Returns how the client authenticates by Kerberos. `None` means SIMPLE authentication.
    #[must_use]
    pub fn kerberos(&self) -> Option<&Kerberos> {
        self.security.kerberos.as_ref()
    }

    /// Sets how the client authenticates by Kerberos. The default is `None`, which means SIMPLE
    /// authentication.
    #[must_use]
    pub fn with_kerberos(mut self, kerberos: Option<Kerberos>) -> Self {
        self.security.kerberos = kerberos;
        self
    }

    /// Returns the delegation tokens that the client may authenticate with.
    #[must_use]
    pub fn delegation_tokens(&self) -> &[DelegationToken] {
        &self.security.tokens
    }

    /// Sets the delegation tokens that the client may authenticate with. The default is none.
    ///
    /// The token of the cluster is used instead of a Kerberos ticket. If there is none for the
    /// cluster, the client authenticates [by Kerberos](Self::with_kerberos) if that is set. The id of the
    /// cluster is read from ZooKeeper. By `hbase+rpc://` only servers from 2.6 on report it; for older ones
    /// set the one token that they issued.
    ///
    /// The methods that read files also read the tokens in the file that `HADOOP_TOKEN_FILE_LOCATION`
    /// names, if `hbase.security.authentication` is `kerberos`.
    #[must_use]
    pub fn with_delegation_tokens(mut self, tokens: impl IntoIterator<Item = DelegationToken>) -> Self {
        self.security.tokens = tokens.into_iter().collect();
        self
    }

    /// Returns the protections of messages that the client accepts. The first one that the server
    /// offers is used.
    #[must_use]
    pub fn protection(&self) -> &[Protection] {
        &self.security.protection
    }

    /// Sets the protections of messages that the client accepts, in order of preference. The first
    /// one that the server offers is used. The default, and the meaning of an empty list, is
    /// [`Protection::Authentication`] alone.
    #[must_use]
    pub fn with_protection(mut self, protection: impl IntoIterator<Item = Protection>) -> Self {
        self.security.protection = protection.into_iter().collect();
        if self.security.protection.is_empty() {
            self.security.protection.push(Protection::Authentication);
        }
        self
    }

    /// Returns whether the client accepts a server without security although it is to authenticate.
    #[must_use]
    pub fn fallback_to_simple(&self) -> bool {
        self.security.fallback_to_simple
    }

    /// Sets whether the client accepts a server without security although it is to authenticate. The
    /// default is `false`: such a server may not be the one that it claims to be.
    #[must_use]
    pub fn with_fallback_to_simple(mut self, fallback: bool) -> Self {
        self.security.fallback_to_simple = fallback;
        self
    }

    /// Returns whether messages under [`Protection::Privacy`] are encrypted by AES with keys of HBase.
    #[must_use]
    pub fn aes(&self) -> bool {
        self.security.aes
    }

    /// Sets whether messages under [`Protection::Privacy`] are encrypted by AES with keys of HBase,
    /// and not by the cipher of the authentication. The default is `false`. The servers must have
    /// `hbase.rpc.crypto.encryption.aes.enabled` too. Other protections do not change.
    ///
    /// With Kerberos it gains nothing, because tickets of today use AES themselves.
    #[must_use]
    pub fn with_aes(mut self, aes: bool) -> Self {
        self.security.aes = aes;
        self
    }

    /// Returns the user as whom the client acts.
    #[must_use]
    pub fn effective_user(&self) -> Option<&str> {
        self.security.effective_user.as_deref()
    }

    /// Sets a user as whom the client acts, although it authenticates as another one
    /// (impersonation). The default is `None`. With SIMPLE authentication, use
    /// [`with_user`](Self::with_user).
    ///
    /// The servers allow it to users whose `hadoop.proxyuser.NAME.hosts` and `.users` or `.groups` they
    /// have. **They check these only if `hadoop.security.authorization` is `true`, which it is not by
    /// default: until then every user whom Kerberos knows can act as any other**, also as the
    /// superuser.
    ///
    /// The short name of the authenticated user counts as another user, so leave it out.
    #[must_use]
    pub fn with_effective_user(mut self, user: Option<String>) -> Self {
        self.security.effective_user = user;
        self
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
        let config = Config::from_uri("hbase+rpc://m").unwrap().with_protection([]);
        assert_eq!(config.protection(), [Authentication]);
    }
}
