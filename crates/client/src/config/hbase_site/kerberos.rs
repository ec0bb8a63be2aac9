//! The properties of Kerberos.

use hbase_security::{HAS_KERBEROS, Kerberos, Protection};
use rustix::system::uname;

use super::{AUTHENTICATION, Site};
use crate::{
    config::{Config, TokenFile, properties::switch},
    error::{Error, Result},
};

const KEYTAB: &str = "hbase.client.keytab.file";
const KEYTAB_PRINCIPAL: &str = "hbase.client.keytab.principal";
const PROTECTION: &str = "hbase.rpc.protection";
const AES: &str = "hbase.rpc.crypto.encryption.aes.enabled";
const CIPHER: &str = "hbase.rpc.crypto.encryption.aes.cipher.transform";
const PROVIDER: &str = "hbase.client.sasl.provider.class";
const PROVIDER_EXTRAS: &str = "hbase.client.sasl.provider.extras";

/// Settings of ZooKeeper's client for the principals of servers.
const ZOOKEEPER_PRINCIPAL: [&str; 2] = [
    "hbase.zookeeper.property.server.principal",
    "hbase.zookeeper.property.server.realm",
];

/// The cipher that HBase uses by default, and the one that is supported.
const AES_CTR: &str = "AES/CTR/NoPadding";

impl Site {
    /// Sets how the client authenticates, and how messages are protected.
    pub(super) fn set_security(&self, config: &mut Config, warnings: &mut Vec<String>) -> Result<()> {
        if !HAS_KERBEROS {
            return Ok(());
        }
        if !self.is_kerberos()? {
            warnings.extend(self.protection_without_effect()?);
            return Ok(());
        }
        let kerberos = self.kerberos(warnings)?;
        let security = &mut config.authentication;
        security.kerberos = Some(kerberos);
        if let Some(file) = TokenFile::from_env()? {
            security.tokens = file.tokens().to_vec();
            security.token_file = TokenFile::location();
        }
        security.fallback_to_simple = self.is_true("hbase.ipc.client.fallback-to-simple-auth-allowed")?;
        if let Some(list) = self.text(PROTECTION)? {
            security.protection =
                protections(&list).map_err(|error| error.at_operation(self.origin(PROTECTION)))?;
        }
        security.aes = self.is_true(AES)?;
        if let Some(cipher) = self.text(CIPHER)?
            && security.aes
            && cipher != AES_CTR
        {
            return Err(self.unsupported(CIPHER, &cipher, &format!("only {AES_CTR} is supported")));
        }
        config
            .check_security()
            .map_err(|error| error.at_operation(self.origin(AES)))?;
        for key in [PROVIDER, PROVIDER_EXTRAS] {
            if let Some(class) = self.text(key)? {
                let why = "only Kerberos and delegation tokens are supported";
                return Err(self.unsupported(key, &class, why));
            }
        }
        for key in ZOOKEEPER_PRINCIPAL {
            if let Some(principal) = self.text(key)? {
                let why = "only hbase.zookeeper.property.sasl.client.username is supported";
                return Err(self.unsupported(key, &principal, why));
            }
        }
        const UNKNOWN: &str = "hbase.client.kerberos.principal";
        if let Some(principal) = self.text(UNKNOWN)? {
            warnings.push(format!(
                "{UNKNOWN} is {principal:?}: no version of HBase reads it; the key is {KEYTAB_PRINCIPAL}"
            ));
        }
        Ok(())
    }

    fn is_kerberos(&self) -> Result<bool> {
        match self.text(AUTHENTICATION)? {
            Some(method) if method.eq_ignore_ascii_case("kerberos") => Ok(true),
            Some(method) if !method.eq_ignore_ascii_case("simple") => {
                Err(self.unsupported(AUTHENTICATION, &method, "only simple and kerberos are supported"))
            }
            _ => Ok(false),
        }
    }

    /// Returns warnings about messages that are to be signed or encrypted, and are sent as they are,
    /// because connections have SIMPLE authentication.
    fn protection_without_effect(&self) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        for key in [PROTECTION, AES] {
            let Some(value) = self.text(key)? else { continue };
            let protects = match protections(&value) {
                Ok(list) => !list.contains(&Protection::Authentication),
                Err(_) => value.eq_ignore_ascii_case("true"),
            };
            if protects {
                warnings.push(format!(
                    "{key} is {value:?}, and {AUTHENTICATION} is simple: messages are neither signed nor encrypted"
                ));
            }
        }
        Ok(warnings)
    }

    fn kerberos(&self, warnings: &mut Vec<String>) -> Result<Kerberos> {
        let as_named = self.is_true("hbase.unsafe.client.kerberos.hostname.disable.reversedns")?;
        let mut kerberos = Kerberos::default().with_host_as_named(as_named);
        if let Some(principal) = self.text("hbase.master.kerberos.principal")? {
            kerberos = kerberos.with_master_principal(principal);
        }
        if let Some(principal) = self.text("hbase.regionserver.kerberos.principal")? {
            kerberos = kerberos.with_region_server_principal(principal);
        }
        if let Some(service) = self.text("hbase.zookeeper.property.sasl.client.username")? {
            kerberos = kerberos.with_zookeeper_service(service);
        }
        match (self.text(KEYTAB)?, self.text(KEYTAB_PRINCIPAL)?) {
            (Some(file), Some(principal)) => Ok(kerberos.with_keytab(file, on_this_host(&principal))),
            (Some(file), None) => Err(Error::invalid_config(format!(
                "{} is {file:?}, and {KEYTAB_PRINCIPAL} is missing",
                self.origin(KEYTAB)
            ))),
            (None, Some(principal)) => {
                warnings.push(format!(
                    "{KEYTAB_PRINCIPAL} is {principal:?}, and {KEYTAB} is missing: the ticket comes from the cache \
                     of the user"
                ));
                Ok(kerberos)
            }
            (None, None) => Ok(kerberos),
        }
    }

    fn unsupported(&self, key: &str, value: &str, why: &str) -> Error {
        Error::invalid_config(format!("{} is {value:?}: {why}", self.origin(key)))
    }

    fn is_true(&self, key: &str) -> Result<bool> {
        Ok(switch(key, self.text(key)?)?.unwrap_or(false))
    }
}

/// Replaces `_HOST` in the principal of this client.
fn on_this_host(principal: &str) -> String {
    if principal.contains("/_HOST@") {
        let host = uname().nodename().to_string_lossy().to_lowercase();
        principal.replace("/_HOST@", &format!("/{host}@"))
    } else {
        principal.to_owned()
    }
}

/// Parses a list as in `hbase.rpc.protection`: names of HBase or of SASL, separated by commas.
fn protections(text: &str) -> Result<Vec<Protection>> {
    text.split(',')
        .map(|name| match &*name.trim().to_ascii_lowercase() {
            "authentication" | "auth" => Ok(Protection::Authentication),
            "integrity" | "auth-int" => Ok(Protection::Integrity),
            "privacy" | "auth-conf" => Ok(Protection::Privacy),
            other => Err(Error::invalid_config(format!(
                "{other:?} is no protection: authentication, integrity or privacy"
            ))),
        })
        .collect()
}

#[cfg(all(test, feature = "kerberos"))]
mod tests {
    use hbase_security::TicketSource;

    use super::*;

    const SECURE: [(&str, &str); 2] = [("hbase.masters", "m"), (AUTHENTICATION, "Kerberos")];

    fn read(properties: &[(&str, &str)]) -> Result<Config> {
        let properties = SECURE.iter().chain(properties);
        let body: String = properties
            .map(|(name, value)| format!("<property><name>{name}</name><value>{value}</value></property>"))
            .collect();
        Config::from_hbase_site(&format!("<configuration>{body}</configuration>"))
    }

    #[test]
    fn all_settings_are_read() {
        let config = read(&[
            ("hbase.master.kerberos.principal", "m/_HOST@R"),
            ("hbase.regionserver.kerberos.principal", "rs/_HOST@R"),
            (KEYTAB, "/etc/app.keytab"),
            (KEYTAB_PRINCIPAL, "app@R"),
            (PROTECTION, "privacy"),
            ("hbase.ipc.client.fallback-to-simple-auth-allowed", "true"),
            ("hbase.unsafe.client.kerberos.hostname.disable.reversedns", "TRUE"),
            (AES, "true"),
            (CIPHER, AES_CTR),
            ("hbase.zookeeper.property.sasl.client.username", "zk"),
        ]);
        let config = config.unwrap();
        let expected = Kerberos::new("m/_HOST@R")
            .with_region_server_principal("rs/_HOST@R")
            .with_keytab("/etc/app.keytab", "app@R")
            .with_host_as_named(true)
            .with_zookeeper_service("zk");
        assert_eq!(config.kerberos(), Some(&expected));
        assert_eq!(config.protection(), [Protection::Privacy]);
        assert!(config.fallback_to_simple() && config.aes());
        assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    }

    #[test]
    fn defaults_are_the_cache_of_the_user_and_no_fallback() {
        let config = read(&[]).unwrap();
        assert_eq!(config.kerberos(), Some(&Kerberos::default()));
        assert_eq!(config.protection(), [Protection::Authentication]);
        assert!(!config.fallback_to_simple() && !config.aes());
        let simple = read(&[(AUTHENTICATION, "simple"), (PROTECTION, "nonsense")]).unwrap();
        assert_eq!(simple.kerberos(), None);
        assert!(simple.warnings().is_empty(), "{:?}", simple.warnings());
    }

    #[test]
    fn protection_without_authentication_is_a_warning() {
        for (key, value) in [(PROTECTION, "privacy"), (PROTECTION, "integrity"), (AES, "true")] {
            let config = read(&[(AUTHENTICATION, "simple"), (key, value)]).unwrap();
            let [warning] = config.warnings() else {
                panic!("one warning, and not {:?}", config.warnings());
            };
            assert!(warning.contains(key) && warning.contains(value), "{warning}");
        }
        let config = read(&[(AUTHENTICATION, "simple"), (PROTECTION, "privacy,authentication")]).unwrap();
        assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    }

    #[test]
    fn unsupported_settings_are_refused_by_name() {
        for (properties, name) in [
            (&[(AUTHENTICATION, "ldap")][..], AUTHENTICATION),
            (&[(PROTECTION, "secrecy")], PROTECTION),
            (&[(AES, "yes")], AES),
            (&[(AES, "true")], AES),
            (&[(AES, "true"), (PROTECTION, "privacy,integrity")], PROTECTION),
            (&[(KEYTAB, "/a")], KEYTAB_PRINCIPAL),
            (&[(PROVIDER, "a.B")], PROVIDER),
            (&[(PROVIDER_EXTRAS, "a.B")], PROVIDER_EXTRAS),
            (&[(ZOOKEEPER_PRINCIPAL[0], "zk/h")], ZOOKEEPER_PRINCIPAL[0]),
            (&[(ZOOKEEPER_PRINCIPAL[1], "R")], ZOOKEEPER_PRINCIPAL[1]),
            (&[(AES, "true"), (CIPHER, "AES/CBC/NoPadding")], CIPHER),
        ] {
            let error = read(properties).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        for (key, value) in [
            (KEYTAB_PRINCIPAL, "a@R"),
            ("hbase.client.kerberos.principal", "b@R"),
        ] {
            let config = read(&[(key, value)]).unwrap();
            let [warning] = config.warnings() else {
                panic!("one warning, and not {:?}", config.warnings());
            };
            assert!(warning.contains(key) && warning.contains(value), "{warning}");
        }
    }

    #[test]
    fn host_of_the_client_replaces_its_placeholder() {
        let config = read(&[(KEYTAB, "/a"), (KEYTAB_PRINCIPAL, "app/_HOST@R")]).unwrap();
        let Some(TicketSource::Keytab { principal, .. }) = config.kerberos().map(Kerberos::ticket) else {
            panic!("{config:?}");
        };
        assert!(
            principal.starts_with("app/") && !principal.contains("_HOST"),
            "{principal}"
        );
    }

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
            assert_eq!(protections(text).unwrap(), expected);
        }
        for text in ["", "none", "privacy,"] {
            let error = protections(text).unwrap_err();
            assert!(error.to_string().contains("is no protection"), "{error}");
        }
    }
}
