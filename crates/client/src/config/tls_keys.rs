//! The settings of TLS in `hbase-site.xml`.

use std::time::Duration;

use super::{
    times::LONGEST,
    tls::{CIPHER_SUITES, TlsOptions, TlsStore, TlsVersion},
};
use crate::error::{Error, ErrorKind, Result};

const ENABLED: &str = "hbase.client.netty.tls.enabled";
const PROTOCOL: &str = "hbase.rpc.tls.protocol";
const ENABLED_PROTOCOLS: &str = "hbase.rpc.tls.enabledProtocols";
const SUITES: &str = "hbase.rpc.tls.ciphersuites";
const HANDSHAKE_TIMEOUT: &str = "hbase.client.netty.tls.handshaketimeout";
const CREDENTIALS: &str = "hadoop.security.credential.provider.path";
/// Settings that would have to be true for more security than this client has.
const UNSUPPORTED: [(&str, &str); 2] = [
    ("hbase.rpc.tls.clr", "revocation lists are not supported"),
    ("hbase.rpc.tls.ocsp", "OCSP is not supported"),
];

/// Returns the settings of TLS if it is enabled, and adds warnings. `text` returns a property
/// that is not empty.
pub(super) fn read(
    text: impl Fn(&str) -> Result<Option<String>>,
    warnings: &mut Vec<String>,
) -> Result<Option<TlsOptions>> {
    let is = |key: &str, default: bool| -> Result<bool> {
        let word = text(key)?;
        // Hadoop takes everything else for the default.
        Ok(match word.map(|word| word.to_ascii_lowercase()).as_deref() {
            Some("true") => true,
            Some("false") => false,
            _ => default,
        })
    };
    if !is(ENABLED, false)? {
        return Ok(None);
    }
    for (key, why) in UNSUPPORTED {
        if is(key, false)? {
            return refuse(format!("{key} is true: {why}"));
        }
    }
    let trust_store = store(&text, "hbase.rpc.tls.truststore")?;
    if trust_store.is_none() {
        return Err(Error::new(
            ErrorKind::InvalidConfig,
            format!(
                "{ENABLED} is true, and hbase.rpc.tls.truststore.location is not set: the trust store of the \
                 system is not used"
            ),
        ));
    }
    let key_store = store(&text, "hbase.rpc.tls.keystore")?;
    let mut tls = TlsOptions::without_stores()
        .with_stores(trust_store, key_store)
        .verify_hostname(is("hbase.client.netty.tls.verify.server.hostname", true)?)
        .reload(is("hbase.rpc.tls.certReload", true)?);
    if let Some(millis) = text(HANDSHAKE_TIMEOUT)? {
        // In Netty, zero or less means no limit.
        let millis: i64 = millis.parse().map_err(|_| {
            Error::invalid_config(format!(
                "hbase-site.xml: {HANDSHAKE_TIMEOUT} is {millis:?}, which is no whole number"
            ))
        })?;
        tls = tls.handshake_timeout(match u64::try_from(millis) {
            Ok(0) | Err(_) => LONGEST,
            Ok(millis) => Duration::from_millis(millis),
        });
    }
    let protocols = match text(ENABLED_PROTOCOLS)? {
        Some(names) => Some((ENABLED_PROTOCOLS, names)),
        None => text(PROTOCOL)?.map(|name| (PROTOCOL, name)),
    };
    if let Some((key, names)) = protocols {
        tls = tls.versions(versions(key, &names, warnings)?);
    }
    if let Some(names) = text(SUITES)? {
        let names = chosen(SUITES, &names, warnings, |name| {
            CIPHER_SUITES.contains(&name).then(|| vec![name.to_owned()])
        })?;
        tls = tls.cipher_suites(names);
    }
    Ok(Some(tls))
}

fn store(text: impl Fn(&str) -> Result<Option<String>>, prefix: &str) -> Result<Option<TlsStore>> {
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
    let password = text(&password_key)?;
    if password.is_none()
        && let Some(path) = text(CREDENTIALS)?
    {
        return refuse(format!(
            "{password_key} may be in {CREDENTIALS} ({path}): credential providers are not supported"
        ));
    }
    Ok(Some(TlsStore::new(location.into(), password.unwrap_or_default())))
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

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use rstest::rstest;

    use super::*;
    use crate::config::Config;

    const TRUST: (&str, &str) = ("hbase.rpc.tls.truststore.location", "/t.jks");

    fn read(properties: &[(&str, &str)]) -> Result<Config> {
        let mut site = String::from("<configuration>");
        for (name, value) in [("hbase.masters", "m"), (ENABLED, "true"), TRUST]
            .iter()
            .chain(properties)
        {
            site += &format!("<property><name>{name}</name><value>{value}</value></property>");
        }
        Config::from_hbase_site(&(site + "</configuration>"))
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
        for off in ["false", "", "no"] {
            assert_eq!(read(&[(ENABLED, off), TRUST]).unwrap().tls(), None, "{off:?}");
        }
        let endless = read(&[("hbase.client.netty.tls.handshaketimeout", "0")]).unwrap();
        assert!(endless.tls().unwrap().handshake_limit() > Duration::from_secs(1_000_000));
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
    fn unsupported_settings_are_refused_by_name(#[case] key: &str, #[case] value: &str) {
        let error = read(&[(key, value)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains(key), "{error}");
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
        let source = include_str!("tls_keys.rs");
        let keys = source.split('"').filter(|text| {
            ["hbase.rpc.tls.", "hbase.client.netty.", "hadoop."]
                .iter()
                .any(|prefix| text.starts_with(prefix))
        });
        let mut count = 0;
        for key in keys.filter(|key| key.len() > "hbase.rpc.tls.".len()) {
            assert!(page.contains(key), "docs/configuration.md lacks {key}");
            count += 1;
        }
        assert!(count > 10);
    }
}
