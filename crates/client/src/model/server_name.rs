//! The name of a server, which changes with each start.

use std::fmt;

/// A server of the cluster: host, port and start code.
///
/// The start code is the server's start time. After a restart, the same host and port are another
/// server, and cached facts about the old one are void.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName {
    /// The host name that the server registered with; an IPv6 address without brackets.
    pub host: String,
    /// The RPC port.
    pub port: u16,
    /// The start time in milliseconds since 1970, or 0 if the source did not contain it.
    pub start_code: u64,
}

impl ServerName {
    /// Creates a name. The host may be an IPv6 address in brackets, as HBase writes it in front of
    /// a port. `None` if no host has that name, or the port is zero.
    pub(crate) fn new(host: &str, port: u16, start_code: u64) -> Option<Self> {
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = address.unwrap_or(host);
        (is_host(host) && port != 0).then(|| Self {
            host: host.to_owned(),
            port,
            start_code,
        })
    }

    /// Returns the address of the server, `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Whether a text can be the name or the address of a host. Such a text needs no quotes in messages.
pub(crate) fn is_host(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
    !text.is_empty() && text.chars().all(plain)
}

impl fmt::Display for ServerName {
    /// Writes `host,port,startcode`, as HBase does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.host, self.port, self.start_code)
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerName({self})")
    }
}
