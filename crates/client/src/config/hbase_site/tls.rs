//! The properties of TLS.

use std::{fs::File, io::Read as _, time::Duration};

use hbase_security::{CIPHER_SUITES, HAS_TLS, TlsKeys, TlsOptions, TlsVersion};

use super::Site;
use crate::{
    config::{ClusterAddress, Config, properties::switch, times::LONGEST},
    error::{Error, ErrorKind, Result},
};

const CREDENTIALS: &str = "hadoop.security.credential.provider.path";

impl Site {
    /// Sets TLS to the servers and to ZooKeeper.
    pub(super) fn set_tls(&self, config: &mut Config, warnings: &mut Vec<String>) -> Result<()> {
        if !HAS_TLS {
            return self.refuse_tls(config);
        }
        config.tls = read(&TlsKeys::HBASE, |key| self.text(key), warnings)?;
        if cfg!(feature = "zookeeper") {
            config.zookeeper_tls = read(&TlsKeys::ZOOKEEPER, |key| self.text(key), warnings)?;
        }
        Ok(())
    }

    /// Refuses TLS by the name of the feature.
    fn refuse_tls(&self, config: &Config) -> Result<()> {
        let by_zookeeper = matches!(config.address(), ClusterAddress::ZooKeeper { .. });
        for (TlsKeys { enabled, .. }, counts) in [(TlsKeys::HBASE, true), (TlsKeys::ZOOKEEPER, by_zookeeper)]
        {
            if counts && switch(enabled, self.text(enabled)?)? == Some(true) {
                return Err(Error::new(
                    ErrorKind::AuthenticationRequired,
                    format!("{enabled} is true; this build has no TLS"),
                )
                .with_hint("build it with the feature tls"));
            }
        }
        Ok(())
    }
}

/// A key store or trust store, and its password.
type Store = (String, String);

/// Returns the settings of TLS if it is enabled, and adds warnings. `text` returns a property
/// that is not empty.
fn read(
    keys: &TlsKeys,
    text: impl Fn(&str) -> Result<Option<String>>,
    warnings: &mut Vec<String>,
) -> Result<Option<TlsOptions>> {
    let is = |key: &str, default: bool| Ok::<_, Error>(switch(key, text(key)?)?.unwrap_or(default));
    if !is(keys.enabled, false)? {
        return Ok(None);
    }
    for (key, why) in keys.unsupported {
        if let Some(value) = text(key)?
            && !value.eq_ignore_ascii_case("false")
        {
            return refuse(format!("{key} is {value}: {why}"));
        }
    }
    let Some((trust_store, password)) = store(keys, &text, keys.trust_store)? else {
        return Err(Error::new(
            ErrorKind::InvalidConfig,
            format!(
                "{} is true, and {}.location is not set: the trust store of the system is not used",
                keys.enabled, keys.trust_store
            ),
        ));
    };
    let mut tls = TlsOptions::new(trust_store, password);
    if let Some((key_store, password)) = store(keys, &text, keys.key_store)? {
        tls = tls.key_store(key_store, password);
    }
    tls = tls
        .verify_hostname(is(keys.verify_hostname, true)?)
        .reload(is(keys.reload, true)?);
    if let Some(key) = keys.handshake_timeout
        && let Some(millis) = text(key)?
    {
        // In Netty, zero or less means no limit.
        let millis: i64 = millis
            .parse()
            .map_err(|_| Error::invalid_config(format!("{key} is {millis:?}, which is no whole number")))?;
        tls = tls.handshake_timeout(match u64::try_from(millis) {
            Ok(0) | Err(_) => LONGEST,
            Ok(millis) => Duration::from_millis(millis),
        });
    }
    let protocols = match text(keys.enabled_protocols)? {
        Some(names) => Some((keys.enabled_protocols, names)),
        None => text(keys.protocol)?.map(|name| (keys.protocol, name)),
    };
    if let Some((key, names)) = protocols {
        tls = tls.versions(versions(key, &names, warnings)?);
    }
    if let Some(names) = text(keys.cipher_suites)? {
        let names = chosen(keys.cipher_suites, &names, warnings, |name| {
            CIPHER_SUITES.contains(&name).then(|| vec![name.to_owned()])
        })?;
        tls = tls.cipher_suites(names);
    }
    Ok(Some(tls))
}

fn store(
    keys: &TlsKeys,
    text: impl Fn(&str) -> Result<Option<String>>,
    prefix: &str,
) -> Result<Option<Store>> {
    let Some(location) = text(&format!("{prefix}.location"))? else {
        return Ok(None);
    };
    let kind = format!("{prefix}.type");
    if let Some(name) = text(&kind)?
        && !["jks", "pem", "pkcs12"].contains(&&*name.to_ascii_lowercase())
    {
        return refuse(format!(
            "{kind} is {name:?}: only PEM, JKS and PKCS12 are supported"
        ));
    }
    let password_key = format!("{prefix}.password");
    let mut password = text(&password_key)?;
    if keys.has_password_files {
        let key = format!("{prefix}.passwordPath");
        if let Some(path) = text(&key)? {
            password = Some(password_in(&key, &path)?);
        }
    } else if password.is_none()
        && let Some(path) = text(CREDENTIALS)?
    {
        return refuse(format!(
            "{password_key} may be in {CREDENTIALS} ({path}): credential providers are not supported"
        ));
    }
    Ok(Some((location, password.unwrap_or_default())))
}

/// Reads a password from a file, whose last line may have an end (`SecretUtils`).
fn password_in(key: &str, path: &str) -> Result<String> {
    const MAX_SIZE: u64 = 4096;
    let mut password = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_SIZE).read_to_string(&mut password));
    match read {
        Ok(_) => Ok(password.trim_end_matches(['\r', '\n']).to_owned()),
        Err(error) => refuse(format!("{key} is {path:?}, which can't be read: {error}")),
    }
}

fn versions(key: &str, names: &str, warnings: &mut Vec<String>) -> Result<Vec<TlsVersion>> {
    use TlsVersion::{V1_2, V1_3};
    chosen(key, names, warnings, |name| match name {
        "TLSv1.2" => Some(vec![V1_2]),
        "TLSv1.3" => Some(vec![V1_3]),
        "TLS" => Some(vec![V1_2, V1_3]),
        _ => None,
    })
}

/// Returns what the names of a comma-separated list stand for. Adds a warning for unsupported
/// names, and refuses a list of no other ones.
fn chosen<T>(
    key: &str,
    names: &str,
    warnings: &mut Vec<String>,
    meaning: impl Fn(&str) -> Option<Vec<T>>,
) -> Result<Vec<T>> {
    let (mut chosen, mut unsupported) = (Vec::new(), Vec::new());
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match meaning(name) {
            Some(meaning) => chosen.extend(meaning),
            None => unsupported.push(name),
        }
    }
    let unsupported = unsupported.join(", ");
    if chosen.is_empty() {
        return refuse(format!("{key} is {names:?}: none of them is supported"));
    }
    if !unsupported.is_empty() {
        warnings.push(format!(
            "{key}: {unsupported} is not supported, and not offered here"
        ));
    }
    Ok(chosen)
}

fn refuse<T>(why: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidConfig, why))
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use std::{fs, path::Path};

    use rstest::rstest;

    use super::*;
    use crate::config::Config;

    const ENABLED: &str = TlsKeys::HBASE.enabled;
    const TRUST: (&str, &str) = ("hbase.rpc.tls.truststore.location", "/t.jks");

    fn read_all(properties: &[(&str, &str)]) -> Result<Config> {
        let properties: String = properties
            .iter()
            .map(|(name, value)| format!("<property><name>{name}</name><value>{value}</value></property>"))
            .collect();
        Config::from_hbase_site(&format!("<configuration>{properties}</configuration>"))
    }

    fn read(properties: &[(&str, &str)]) -> Result<Config> {
        let base = [("hbase.masters", "m"), (ENABLED, "true"), TRUST];
        read_all(&[&base, properties].concat())
    }

    #[test]
    fn all_settings_are_read() {
        let config = read(&[
            ("hbase.rpc.tls.truststore.password", "of trust"),
            ("hbase.rpc.tls.keystore.location", "/k.p12"),
            ("hbase.rpc.tls.keystore.password", "of key"),
            ("hbase.rpc.tls.keystore.type", "PKCS12"),
            ("hbase.client.netty.tls.verify.server.hostname", "False"),
            ("hbase.client.netty.tls.handshaketimeout", "700"),
            ("hbase.rpc.tls.enabledProtocols", "TLSv1.3"),
            ("hbase.rpc.tls.protocol", "TLSv1.2"),
            ("hbase.rpc.tls.ciphersuites", "TLS_AES_128_GCM_SHA256"),
            ("hbase.rpc.tls.certReload", "false"),
            ("hbase.rpc.tls.host-verification.reverse-dns.enabled", "true"),
        ])
        .unwrap();
        let expected = TlsOptions::new("/t.jks", "of trust")
            .key_store("/k.p12", "of key")
            .verify_hostname(false)
            .handshake_timeout(Duration::from_millis(700))
            .versions([TlsVersion::V1_3])
            .cipher_suites(["TLS_AES_128_GCM_SHA256"])
            .reload(false);
        assert_eq!(config.tls(), Some(&expected));
        assert!(config.warnings().is_empty(), "{:?}", config.warnings());
        let shown = format!("{config:?}");
        assert!(
            !shown.contains("of trust") && !shown.contains("of key"),
            "{shown}"
        );
    }

    #[test]
    fn defaults_are_those_of_the_options() {
        assert_eq!(read(&[]).unwrap().tls(), Some(&TlsOptions::new("/t.jks", "")));
        for off in ["false", "", "FALSE"] {
            assert_eq!(read(&[(ENABLED, off), TRUST]).unwrap().tls(), None, "{off:?}");
        }
        let endless = read(&[("hbase.client.netty.tls.handshaketimeout", "0")]).unwrap();
        let longest = TlsOptions::new("/t.jks", "").handshake_timeout(Duration::MAX);
        assert_eq!(endless.tls(), Some(&longest));
    }

    #[rstest]
    #[case(TRUST.0, " ")]
    #[case("hbase.rpc.tls.clr", "true")]
    #[case("hbase.rpc.tls.ocsp", "true")]
    #[case("hbase.rpc.tls.truststore.type", "BCFKS")]
    #[case("hadoop.security.credential.provider.path", "jceks://file/c.jceks")]
    #[case("hbase.rpc.tls.enabledProtocols", "TLSv1,TLSv1.1")]
    #[case("hbase.rpc.tls.protocol", "SSLv3")]
    #[case(
        "hbase.rpc.tls.ciphersuites",
        "TLS_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"
    )]
    #[case("hbase.client.netty.tls.handshaketimeout", "soon")]
    #[case("hbase.client.netty.tls.verify.server.hostname", "no")]
    #[case("hbase.client.netty.tls.enabled", "yes")]
    fn unsupported_settings_are_refused_by_name(#[case] key: &str, #[case] value: &str) {
        let error = read(&[(key, value)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains(key), "{error}");
    }

    #[cfg(feature = "zookeeper")]
    mod zookeeper {
        use super::*;

        const PREFIX: &str = "hbase.zookeeper.property.";

        /// Reads settings of TLS to ZooKeeper, whose names lack the prefix.
        fn read(properties: &[(&str, &str)]) -> Result<Config> {
            let base = [("client.secure", "true"), ("ssl.trustStore.location", "/t.jks")];
            let named = base.iter().chain(properties);
            let named: Vec<_> = named
                .map(|(name, value)| (format!("{PREFIX}{name}"), *value))
                .collect();
            let properties: Vec<_> = named.iter().map(|(name, value)| (&**name, *value)).collect();
            read_all(&properties)
        }

        #[test]
        fn all_settings_are_read() {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            std::io::Write::write_all(&mut file, b" of key \n").unwrap();
            let config = read(&[
                ("clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty"),
                ("ssl.trustStore.password", "of trust"),
                ("ssl.trustStore.type", "JKS"),
                ("ssl.keyStore.location", "/k.p12"),
                ("ssl.keyStore.password", "not this one"),
                ("ssl.keyStore.passwordPath", file.path().to_str().unwrap()),
                ("ssl.hostnameVerification", "false"),
                ("ssl.enabledProtocols", "TLSv1.3"),
                ("ssl.protocol", "TLSv1.2"),
                ("ssl.ciphersuites", "TLS_AES_128_GCM_SHA256"),
                ("client.certReload", "false"),
            ])
            .unwrap();
            let expected = TlsOptions::new("/t.jks", "of trust")
                .key_store("/k.p12", " of key ")
                .verify_hostname(false)
                .versions([TlsVersion::V1_3])
                .cipher_suites(["TLS_AES_128_GCM_SHA256"])
                .reload(false);
            assert_eq!(config.zookeeper_tls(), Some(&expected));
            assert_eq!(config.tls(), None);
            assert!(config.warnings().is_empty(), "{:?}", config.warnings());
        }

        #[test]
        fn defaults_are_those_of_the_options() {
            let config = read(&[]).unwrap();
            assert_eq!(config.zookeeper_tls(), Some(&TlsOptions::new("/t.jks", "")));
            assert_eq!(read(&[("client.secure", "false")]).unwrap().zookeeper_tls(), None);
        }

        #[rstest]
        #[case("ssl.trustStore.location", " ")]
        #[case("ssl.trustStore.type", "BCFKS")]
        #[case("ssl.trustStore.passwordPath", "/no/such/file")]
        #[case("ssl.crl", "true")]
        #[case("ssl.ocsp", "true")]
        #[case("ssl.context.supplier.class", "a.B")]
        #[case("ssl.enabledProtocols", "TLSv1.1")]
        fn unsupported_settings_are_refused_by_name(#[case] key: &str, #[case] value: &str) {
            let error = read(&[(key, value)]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            let named = format!("{PREFIX}{key}");
            assert!(error.to_string().contains(&named), "{error}");
        }
    }

    #[test]
    fn credential_provider_does_not_matter_if_passwords_are_set() {
        let provider = ("hadoop.security.credential.provider.path", "jceks://file/c.jceks");
        read(&[provider, ("hbase.rpc.tls.truststore.password", "p")]).unwrap();
    }

    #[test]
    fn unsupported_names_among_supported_ones_are_warnings() {
        for (key, names, left_out) in [
            ("hbase.rpc.tls.enabledProtocols", "TLSv1.1, TLSv1.2", "TLSv1.1 "),
            (
                "hbase.rpc.tls.ciphersuites",
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA",
                "TLS_RSA_WITH_AES_128_CBC_SHA ",
            ),
        ] {
            let config = read(&[(key, names)]).unwrap();
            let [warning] = config.warnings() else {
                panic!("one warning, and not {:?}", config.warnings());
            };
            assert!(warning.contains(key) && warning.contains(left_out), "{warning}");
        }
    }

    #[test]
    fn documentation_has_all_keys() {
        let page = fs::read_to_string(Path::new(env!("REPOSITORY")).join("docs/configuration.md")).unwrap();
        let names = Path::new(env!("REPOSITORY")).join("crates/security/src/tls_keys.rs");
        let source = fs::read_to_string(names).unwrap() + include_str!("tls.rs");
        let keys = source.split('"').filter(|text| {
            [
                "hbase.rpc.tls.",
                "hbase.client.netty.",
                "hbase.zookeeper.property.",
                "hadoop.",
            ]
            .iter()
            .any(|prefix| text.starts_with(prefix))
        });
        let mut count = 0;
        for key in keys.filter(|key| !key.ends_with('.')) {
            assert!(page.contains(key), "docs/configuration.md lacks {key}");
            count += 1;
        }
        assert!(count > 20);
    }
}
