//! An address that is dialled in place of one that the cluster names.

use std::{fmt, str::FromStr};

use super::address::{HostPort, HostText};
use crate::error::{Error, Result};

/// An address to dial in place of one that the cluster names
/// ([`Config::with_address_map`](super::Config::with_address_map)).
///
/// Written `HOST:PORT=ADDRESS:PORT`. Without the port of the address, the one of the host is kept. Without
/// the port of the host, it applies to all ports of the host. An IPv6 address is in brackets.
///
/// # Example
///
/// ```
/// use hbase_client::MappedAddress;
///
/// let mapped: MappedAddress = "rs-0.hbase:16020=localhost:26020".parse().unwrap();
/// assert_eq!(mapped.to_string(), "rs-0.hbase:16020=localhost:26020");
/// assert!("rs-0.hbase=10.0.0.7".parse::<MappedAddress>().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedAddress {
    from: HostText,
    to: HostText,
}

impl FromStr for MappedAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (from, to) = text
                .split_once('=')
                .ok_or_else(|| Error::invalid_config("there is no ="))?;
            Ok(Self {
                from: HostText::parse(from)?,
                to: HostText::parse(to)?,
            })
        };
        parse().map_err(|error: Error| {
            error
                .at_operation(format!("mapped address {text:?}"))
                .with_hint("it is HOST:PORT=ADDRESS:PORT; either port may be missing")
        })
    }
}

impl fmt::Display for MappedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.from, self.to)
    }
}

impl MappedAddress {
    /// Returns the address to dial for this one, if the map has another.
    pub(crate) fn of(map: &[Self], address: &HostPort) -> Option<HostPort> {
        let has_port = |port| {
            map.iter().find(move |mapped| {
                mapped.from.port == port && mapped.from.host.eq_ignore_ascii_case(&address.host)
            })
        };
        let mapped = has_port(Some(address.port)).or_else(|| has_port(None))?;
        Some(mapped.to.clone().or_port(address.port))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("rs:1", "localhost:9")]
    #[case("RS:2", "10.0.0.7:2")]
    #[case("other:1", "[::1]:1")]
    #[case("[fe80::1]:3", "[::1]:4")]
    #[case("localhost:9", "localhost:9")]
    #[case("rs2:1", "rs2:1")]
    fn entry_with_the_port_precedes_that_of_the_host(#[case] address: &str, #[case] dialled: &str) {
        let map = [
            "rs=10.0.0.7",
            "rs:1=localhost:9",
            "rs:1=late",
            "other:1=[::1]",
            "fe80::1=[::1]:4",
        ];
        let map = map.map(|entry| entry.parse::<MappedAddress>().unwrap());
        let address = HostPort::parse(address, 1).unwrap();
        let found = MappedAddress::of(&map, &address).unwrap_or(address);
        assert_eq!(found.to_string(), dialled);
    }

    #[rstest]
    #[case("a:1")]
    #[case("a:1=")]
    #[case("=b:1")]
    #[case("a:0=b")]
    #[case("a:1=b:70000")]
    #[case("a:1=b=c")]
    #[case("a:1=b:1:2")]
    fn other_text_is_refused_with_the_form(#[case] text: &str) {
        let error = text.parse::<MappedAddress>().unwrap_err().to_string();
        assert!(
            error.contains(text) && error.contains("HOST:PORT=ADDRESS:PORT"),
            "{error}"
        );
    }
}
