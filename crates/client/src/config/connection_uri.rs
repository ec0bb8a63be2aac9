//! Connection URIs: the address of a cluster, and settings as parameters.

use std::{borrow::Cow, collections::BTreeMap, fmt, str::FromStr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::address::ClusterAddress;
use crate::error::{Error, Result};

/// What `Display` encodes: all but the characters of common keys and values.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'/')
    .remove(b':')
    .remove(b'@')
    .remove(b',');

/// A connection URI of HBase: the [address](ClusterAddress) of a cluster, and the settings for it as
/// parameters.
///
/// A parameter is a property of `hbase-site.xml`, as in HBase from 2.7 and 3.0 on
/// (`ConnectionFactory.createConnection(URI, …)`): `hbase+zk://zk1,zk2/hbase?hbase.rpc.timeout=5000`.
/// Characters of a key or a value that separate parameters are encoded: `%26` for `&`, `%23` for
/// `#`, `%2B` for `+`, `%25` for `%`. A `+` is a space. An empty value stands for the default.
///
/// A password is refused, because URIs are visible in lists of processes and in logs. Of properties
/// for the address, such as `hbase.zookeeper.quorum`, those in parameters are ignored, because the
/// URI has the address.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use hbase_client::ConnectionUri;
///
/// let uri: ConnectionUri = "hbase+rpc://m1,m2?hbase.rpc.timeout=5000".parse().unwrap();
/// assert_eq!(uri.address().to_string(), "hbase+rpc://m1:16000,m2:16000");
/// let config = uri.config().unwrap();
/// assert_eq!(config.read_timeout(), Duration::from_secs(5));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionUri {
    address: ClusterAddress,
    parameters: BTreeMap<String, String>,
}

impl ConnectionUri {
    /// Returns the address of the cluster.
    #[must_use]
    pub const fn address(&self) -> &ClusterAddress {
        &self.address
    }

    /// Returns the decoded parameters, in the order of their keys.
    #[must_use]
    pub const fn parameters(&self) -> &BTreeMap<String, String> {
        &self.parameters
    }
}

impl FromStr for ConnectionUri {
    type Err = Error;

    fn from_str(uri: &str) -> Result<Self> {
        let (address, query) = uri.split_once('?').unwrap_or((uri, ""));
        let address = address.parse()?;
        let mut parameters = BTreeMap::new();
        // The query is not shown in errors: it may have a password.
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let refuse = |why: String| {
                Err(Error::invalid_config(why).at_operation(format!("connection URI {address}")))
            };
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let (Some(key), Some(value)) = (decoded(key), decoded(value)) else {
                return refuse("a parameter is not encoded correctly; % is %25 and # is %23".to_owned());
            };
            if is_secret(&key) {
                return refuse(format!(
                    "{key} is a secret, and others can see a URI: it belongs in hbase-site.xml"
                ));
            }
            if key.is_empty() {
                return refuse("a parameter has no key: it is key=value".to_owned());
            }
            if parameters.contains_key(&key) {
                return refuse(format!("{key} is there twice"));
            }
            parameters.insert(key, value);
        }
        Ok(Self { address, parameters })
    }
}

impl From<ClusterAddress> for ConnectionUri {
    /// Creates the URI of an address, without parameters.
    fn from(address: ClusterAddress) -> Self {
        Self {
            address,
            parameters: BTreeMap::new(),
        }
    }
}

impl fmt::Display for ConnectionUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        let encoded = |text| utf8_percent_encode(text, ENCODED);
        let mut separator = '?';
        for (key, value) in &self.parameters {
            write!(f, "{separator}{}={}", encoded(key), encoded(value))?;
            separator = '&';
        }
        Ok(())
    }
}

/// Decodes a key or a value. Returns `None` if it is not valid.
fn decoded(text: &str) -> Option<String> {
    let is_escape = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|b| b.is_ascii_hexdigit());
    if text.contains('#') || !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8().ok().map(Cow::into_owned)
}

/// Returns whether a property is a password, and not the file of one.
fn is_secret(key: &str) -> bool {
    key.to_ascii_lowercase().ends_with("password")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parse(uri: &str) -> ConnectionUri {
        uri.parse().unwrap()
    }

    #[rstest]
    #[case("hbase+rpc://m", &[], "hbase+rpc://m:16000")]
    #[case("hbase+rpc://m/?", &[], "hbase+rpc://m:16000")]
    #[case("hbase+rpc://m?&b=2&a=1&", &[("a", "1"), ("b", "2")], "hbase+rpc://m:16000?a=1&b=2")]
    #[case("hbase+rpc://m?a", &[("a", "")], "hbase+rpc://m:16000?a=")]
    #[case("hbase+rpc://m?a=b=c", &[("a", "b=c")], "hbase+rpc://m:16000?a=b%3Dc")]
    #[case(
        "hbase+rpc://m?p=hbase/_HOST@R&%26+%3f=%c3%a4%25%2B",
        &[("& ?", "ä%+"), ("p", "hbase/_HOST@R")],
        "hbase+rpc://m:16000?%26%20%3F=%C3%A4%25%2B&p=hbase/_HOST@R"
    )]
    fn parameters_are_decoded_and_shown(
        #[case] uri: &str,
        #[case] expected: &[(&str, &str)],
        #[case] shown: &str,
    ) {
        let uri = parse(uri);
        let found: Vec<_> = uri.parameters().iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(found, expected);
        assert_eq!(uri.to_string(), shown);
        assert_eq!(parse(shown), uri);
    }

    #[rstest]
    #[case("hbase+rpc://m?a=1&a=2", "a is there twice")]
    #[case("hbase+rpc://m?=1", "no key")]
    #[case("hbase+rpc://m?a=%zz", "not encoded")]
    #[case("hbase+rpc://m?a=%f", "not encoded")]
    #[case("hbase+rpc://m?a=%ff", "not encoded")]
    #[case("hbase+rpc://m?a=1#b", "not encoded")]
    #[case("http://m?a=1", "not a scheme")]
    fn invalid_parameters_are_refused(#[case] uri: &str, #[case] why: &str) {
        let error = uri.parse::<ConnectionUri>().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }

    #[rstest]
    #[case("hbase.rpc.tls.keystore.password")]
    #[case("hbase.rpc.tls.truststore.Password")]
    #[case("hbase.zookeeper.property.ssl.keyStore.password")]
    fn secrets_are_refused_and_not_shown(#[case] key: &str) {
        let uri = format!("hbase+rpc://m?{key}=hunter2&a=1");
        let error = uri.parse::<ConnectionUri>().unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(key) && shown.contains("hbase-site.xml"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
        let uri = "hbase+rpc://user:hunter2@m?a=1";
        let error = uri.parse::<ConnectionUri>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}
