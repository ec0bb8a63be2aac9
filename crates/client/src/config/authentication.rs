//! How a [`Config`] authenticates, and protects messages afterwards.

use std::path::{Path, PathBuf};

use hbase_security::{
    AuthenticationOptions, DelegationToken, HAS_KERBEROS, HAS_TLS, Kerberos, Protection, protection_names,
};

use super::{Config, TokenFile};
use crate::error::{Error, ErrorKind, Result};

impl Config {
    /// Returns all settings of authentication and protection.
    pub(crate) fn authentication(&self) -> &AuthenticationOptions {
        &self.authentication
    }

    /// Returns how the client authenticates by Kerberos. `None` means SIMPLE authentication.
    #[must_use]
    pub fn kerberos(&self) -> Option<&Kerberos> {
        self.authentication.kerberos.as_ref()
    }

    /// Sets how the client authenticates by Kerberos. The default is `None`, which means SIMPLE
    /// authentication. Connecting fails in a build without the feature `kerberos`.
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
    #[must_use]
    pub fn with_kerberos(mut self, kerberos: Option<Kerberos>) -> Self {
        self.authentication.kerberos = kerberos;
        self
    }

    /// Returns the delegation tokens that the client may authenticate with.
    #[must_use]
    pub fn delegation_tokens(&self) -> &[DelegationToken] {
        &self.authentication.tokens
    }

    /// Sets the delegation tokens that the client may authenticate with. The default is none.
    ///
    /// The token of the cluster is used instead of a Kerberos ticket. If there is none for the
    /// cluster, the client authenticates [by Kerberos](Self::with_kerberos) if that is set. The id of the
    /// cluster is read from ZooKeeper. By `hbase+rpc://` only servers from 2.6 on report it; for older ones
    /// set the one token that they issued.
    ///
    /// Tokens expire. [`with_token_file`](Self::with_token_file) sets tokens that can be replaced while
    /// the client is connected.
    #[must_use]
    pub fn with_delegation_tokens(mut self, tokens: impl IntoIterator<Item = DelegationToken>) -> Self {
        self.authentication.tokens = tokens.into_iter().collect();
        self.authentication.token_file = None;
        self
    }

    /// Returns the file that the client reads its delegation tokens from.
    #[must_use]
    pub fn token_file(&self) -> Option<&Path> {
        self.authentication.token_file.as_deref()
    }

    /// Sets the delegation tokens of a file. The default is none.
    ///
    /// The client reads the file again before it authenticates a connection by a token. If another
    /// token of the cluster is written to the file before the former one expires, no call fails. If the
    /// file cannot be read, or has no token of the cluster any more, the former token stays in use.
    ///
    /// The methods that read files also call this method with the file that `HADOOP_TOKEN_FILE_LOCATION`
    /// names, if `hbase.security.authentication` is `kerberos`.
    ///
    /// # Errors
    ///
    /// Returns an error as [`TokenFile::read`] does.
    pub fn with_token_file(self, path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let file = TokenFile::read(&path)?;
        let mut config = self.with_delegation_tokens(file.tokens().iter().cloned());
        config.authentication.token_file = Some(path);
        Ok(config)
    }

    /// Returns whether the client requests delegation tokens over connections that are not encrypted.
    #[must_use]
    pub fn unencrypted_tokens(&self) -> bool {
        self.unencrypted_tokens
    }

    /// Sets whether [`Connection::delegation_token`](crate::Connection::delegation_token) requests tokens
    /// over connections that are not encrypted, as HBase's own client does. The default is `false`: the
    /// server sends the token with its password, and every process that reads it on the network can act as
    /// the user until the token expires, after 7 days by default.
    ///
    /// Set it where the network itself is protected, for example by a tunnel.
    #[must_use]
    pub fn with_unencrypted_tokens(mut self, unencrypted_tokens: bool) -> Self {
        self.unencrypted_tokens = unencrypted_tokens;
        self
    }

    /// Returns the protections of messages that the client accepts. The first one that the server
    /// offers is used.
    #[must_use]
    pub fn protection(&self) -> &[Protection] {
        &self.authentication.protection
    }

    /// Sets the protections of messages that the client accepts, in order of preference. The first
    /// one that the server offers is used. The default, and the meaning of an empty list, is
    /// [`Protection::Authentication`] alone. A list without it cannot be used with SIMPLE
    /// authentication.
    #[must_use]
    pub fn with_protection(mut self, protection: impl IntoIterator<Item = Protection>) -> Self {
        self.authentication.protection = protection.into_iter().collect();
        if self.authentication.protection.is_empty() {
            self.authentication.protection.push(Protection::Authentication);
        }
        self
    }

    /// Returns whether the client accepts a server without security although it is to authenticate.
    #[must_use]
    pub fn fallback_to_simple(&self) -> bool {
        self.authentication.fallback_to_simple
    }

    /// Sets whether the client accepts a server without security although it is to authenticate. The
    /// default is `false`: such a server may not be the one that it claims to be, and messages to it are
    /// sent as they are, whatever the [protection](Self::with_protection). A client with an
    /// [effective user](Self::with_effective_user) never accepts it.
    #[must_use]
    pub fn with_fallback_to_simple(mut self, fallback: bool) -> Self {
        self.authentication.fallback_to_simple = fallback;
        self
    }

    /// Returns whether messages under [`Protection::Privacy`] are encrypted by AES with keys of HBase.
    #[must_use]
    pub fn aes(&self) -> bool {
        self.authentication.aes
    }

    /// Sets whether messages under [`Protection::Privacy`] are encrypted by AES with keys of HBase,
    /// and not by the cipher of the authentication. The default is `false`. The servers must have
    /// `hbase.rpc.crypto.encryption.aes.enabled` too.
    ///
    /// No other protection can be accepted with it: connecting fails if
    /// [`with_protection`](Self::with_protection) lists one. HBase's own client sends messages
    /// unencrypted then.
    ///
    /// With Kerberos it gains nothing, because tickets of today use AES themselves.
    #[must_use]
    pub fn with_aes(mut self, aes: bool) -> Self {
        self.authentication.aes = aes;
        self
    }

    /// Returns the user as whom the client acts.
    #[must_use]
    pub fn effective_user(&self) -> Option<&str> {
        self.authentication.effective_user.as_deref()
    }

    /// Sets a user as whom the client acts, although it authenticates as another one
    /// (impersonation). The default is `None`. Connecting fails with SIMPLE authentication, for which
    /// [`with_user`](Self::with_user) sets the user, and to a server without security.
    ///
    /// The servers allow it to users whose `hadoop.proxyuser.NAME.hosts` and `.users` or `.groups` they
    /// have. **They check these only if `hadoop.security.authorization` is `true`, which it is not by
    /// default: until then every user whom Kerberos knows can act as any other**, also as the
    /// superuser.
    ///
    /// The short name of the authenticated user counts as another user, so leave it out.
    #[must_use]
    pub fn with_effective_user(mut self, user: Option<String>) -> Self {
        self.authentication.effective_user = user;
        self
    }

    /// Checks that connections have the protection and the user that are set.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if messages that are to be protected
    /// would be sent as they are, or if the servers would not learn the effective user, and
    /// [`AuthenticationRequired`](crate::ErrorKind::AuthenticationRequired) if this build lacks the
    /// feature for what is set.
    pub(crate) fn check_security(&self) -> Result<()> {
        let security = &self.authentication;
        if !HAS_KERBEROS && !security.is_simple() {
            return Err(Error::new(
                ErrorKind::AuthenticationRequired,
                "Kerberos or a delegation token is set; this build has SIMPLE authentication only",
            )
            .with_hint("build it with the feature kerberos"));
        }
        if !HAS_TLS && (self.tls.is_some() || self.zookeeper_tls.is_some()) {
            return Err(Error::new(
                ErrorKind::AuthenticationRequired,
                "TLS is set; this build has no TLS",
            )
            .with_hint("build it with the feature tls"));
        }
        if security.is_simple() {
            if let Some(user) = &security.effective_user {
                return Err(Error::invalid_config(format!(
                    "a client with SIMPLE authentication cannot act as {user}: servers see the user {}",
                    self.user
                ))
                .with_hint(
                    "set the user itself (Config::with_user), or authenticate by Kerberos (Config::with_kerberos)",
                ));
            }
            if security.aes || !security.protection.contains(&Protection::Authentication) {
                return Err(Error::invalid_config(
                    "messages of a client with SIMPLE authentication cannot be signed or encrypted",
                )
                .with_hint(
                    "authenticate by Kerberos or a delegation token, or leave out the protection \
                     (Config::with_protection, Config::with_aes) and use TLS",
                ));
            }
        }
        if security.aes && security.protection.iter().any(|one| *one != Protection::Privacy) {
            return Err(Error::invalid_config(format!(
                "hbase.rpc.crypto.encryption.aes.enabled is true, and hbase.rpc.protection is {}: AES encrypts under \
                 privacy only",
                protection_names(&security.protection)
            ))
            .with_hint(
                "set hbase.rpc.protection to privacy alone, or hbase.rpc.crypto.encryption.aes.enabled to false",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hbase_security::TlsOptions;

    use super::*;

    #[test]
    fn settings_without_their_feature_are_refused() {
        let config = || Config::from_uri("hbase+rpc://m").unwrap();
        let kerberos = config().with_kerberos(Some(Kerberos::new("hbase/_HOST@R")));
        let tls = config().with_tls(Some(TlsOptions::new("/t.jks", "")));
        for (config, is_built) in [(kerberos, HAS_KERBEROS), (tls, HAS_TLS)] {
            let refused = config.check_security().map_err(|error| error.kind());
            let expected = if is_built {
                Ok(())
            } else {
                Err(ErrorKind::AuthenticationRequired)
            };
            assert_eq!(refused, expected);
        }
    }

    #[test]
    fn no_protection_means_authentication_alone() {
        let config = Config::from_uri("hbase+rpc://m").unwrap().with_protection([]);
        assert_eq!(config.protection(), [Protection::Authentication]);
    }

    fn refusal(config: &Config) -> String {
        let error = config.check_security().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        error.to_string()
    }

    #[cfg(feature = "kerberos")]
    #[test]
    fn aes_is_refused_unless_privacy_is_required() {
        use Protection::{Authentication, Integrity, Privacy};
        let kerberos = Kerberos::new("hbase/_HOST@R");
        let config = Config::from_uri("hbase+rpc://m").unwrap();
        let config = config.with_kerberos(Some(kerberos)).with_aes(true);
        for others in [
            &[][..],
            &[Authentication],
            &[Integrity],
            &[Privacy, Authentication],
        ] {
            let text = refusal(&config.clone().with_protection(others.iter().copied()));
            assert!(
                text.contains("aes.enabled") && text.contains("hbase.rpc.protection"),
                "{text}"
            );
        }
        config.with_protection([Privacy]).check_security().unwrap();
    }

    #[test]
    fn simple_authentication_has_no_effective_user_and_no_protection() {
        let config = Config::from_uri("hbase+rpc://m").unwrap().with_user("service");
        config.check_security().unwrap();
        let text = refusal(&config.clone().with_effective_user(Some("tenant".into())));
        assert!(
            text.contains("act as tenant") && text.contains("user service"),
            "{text}"
        );
        for protected in [
            config.clone().with_protection([Protection::Privacy]),
            config.clone().with_protection([Protection::Integrity]),
            config.clone().with_aes(true),
        ] {
            let text = refusal(&protected);
            assert!(text.contains("SIMPLE"), "{text}");
        }
        let token = crate::config::token_of("a");
        let by_token = config
            .with_delegation_tokens([token])
            .with_protection([Protection::Privacy]);
        assert_eq!(by_token.check_security().is_ok(), HAS_KERBEROS);
    }
}
