//! The address of a cluster: HBase's connection URIs.

use std::{fmt, net::Ipv6Addr, str::FromStr};

use crate::{
    error::{Error, Result},
    model::{ServerName, is_host},
};

const ZOOKEEPER_PORT: u16 = 2181;
pub(super) const MASTER_PORT: u16 = 16000;
pub(super) const ZNODE: &str = "/hbase";

/// The address of a cluster.
///
/// # Example
///
/// ```
/// use hbase_client::ClusterAddress;
///
/// let address: ClusterAddress = "hbase+zk://zk1,zk2:2182".parse().unwrap();
/// assert_eq!(address.to_string(), "hbase+zk://zk1:2181,zk2:2182/hbase");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterAddress {
    /// A ZooKeeper quorum, `hbase+zk://host:port,host:port/znode`. Ports default to 2181, the znode
    /// to `/hbase`.
    ZooKeeper {
        /// The quorum.
        quorum: Vec<HostPort>,
        /// The parent znode, with the leading slash.
        znode: String,
    },
    /// Servers that serve the RPC registry, `hbase+rpc://host:port,host:port`: masters, and from
    /// 2.5 on region servers too. Ports default to 16000.
    Rpc {
        /// The servers to query.
        servers: Vec<HostPort>,
    },
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// A host name or an address; an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// A host, and a port if the text has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostText {
    pub(super) host: String,
    pub(super) port: Option<u16>,
}

impl HostText {
    /// Parses `host`, `host:port`, `[v6]`, `[v6]:port`, or `v6`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let refuse = || Error::invalid_config(format!("{text:?} is no host:port"));
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(refuse)?)),
            None if text.parse::<Ipv6Addr>().is_ok() => (text, None),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if !is_host(host) {
            return Err(refuse());
        }
        let port = port.map(|port| port.parse().ok().filter(|port| *port != 0).ok_or_else(refuse));
        Ok(Self {
            host: host.into(),
            port: port.transpose()?,
        })
    }

    /// Returns the host with its port, or else with this one.
    pub(super) fn or_port(self, default_port: u16) -> HostPort {
        HostPort {
            host: self.host,
            port: self.port.unwrap_or(default_port),
        }
    }
}

impl fmt::Display for HostText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl HostPort {
    /// Parses `host`, `host:port`, `[v6]`, `[v6]:port`, or `v6`.
    pub fn parse(text: &str, default_port: u16) -> Result<Self> {
        Ok(HostText::parse(text)?.or_port(default_port))
    }

    /// Returns the address of a server.
    pub(crate) fn of(server: &ServerName) -> Self {
        Self {
            host: server.host.clone(),
            port: server.port,
        }
    }

    /// Parses a comma-separated list.
    pub(super) fn parse_list(text: &str, default_port: u16) -> Result<Vec<Self>> {
        text.split(',')
            .map(|item| Self::parse(item.trim(), default_port))
            .collect()
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl ClusterAddress {
    pub(super) fn zookeeper(quorum: &str, client_port: Option<u16>, znode: Option<&str>) -> Result<Self> {
        if !cfg!(feature = "zookeeper") {
            return Err(Error::invalid_config("this build can't use ZooKeeper").with_hint(
                "build it with the feature zookeeper, or connect by hbase+rpc://host:port of a master",
            ));
        }
        let znode = znode.unwrap_or(ZNODE);
        if !znode.starts_with('/') || znode.len() > 1 && znode.ends_with('/') || znode.contains("//") {
            return Err(Error::invalid_config(format!("{znode:?} is no path of a znode")));
        }
        Ok(Self::ZooKeeper {
            quorum: HostPort::parse_list(quorum, client_port.unwrap_or(ZOOKEEPER_PORT))?,
            znode: znode.into(),
        })
    }

    pub(super) fn rpc(servers: &str) -> Result<Self> {
        Ok(Self::Rpc {
            servers: HostPort::parse_list(servers, MASTER_PORT)?,
        })
    }
}

impl FromStr for ClusterAddress {
    type Err = Error;

    fn from_str(uri: &str) -> Result<Self> {
        if uri.contains(['?', '#']) {
            let why =
                "an address has no parameters: Config::from_uri reads the URI of a cluster with settings";
            return Err(Error::invalid_config(why));
        }
        // Not shown: it may have a password.
        if uri.contains('@') {
            let why = "an address has no user: Config has the methods for a user and for Kerberos";
            return Err(Error::invalid_config(why));
        }
        let form = "hbase+zk://host:port,host:port/znode or hbase+rpc://host:port,host:port";
        let parsed = match uri.split_once("://") {
            Some(("hbase+zk", rest)) => match rest.split_once('/') {
                Some((quorum, "")) => Self::zookeeper(quorum, None, None),
                Some((quorum, znode)) => Self::zookeeper(quorum, None, Some(&format!("/{znode}"))),
                None => Self::zookeeper(rest, None, None),
            },
            Some(("hbase+rpc", rest)) => Self::rpc(rest.strip_suffix('/').unwrap_or(rest)),
            _ => Err(Error::invalid_config("not a scheme of a connection URI")),
        };
        parsed.map_err(|error| {
            error
                .at_operation(format!("connection URI {uri:?}"))
                .with_hint(format!("it is {form}"))
        })
    }
}

impl fmt::Display for ClusterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |hosts: &[HostPort]| {
            hosts
                .iter()
                .map(HostPort::to_string)
                .collect::<Vec<_>>()
                .join(",")
        };
        match self {
            Self::ZooKeeper { quorum, znode } => write!(f, "hbase+zk://{}{znode}", list(quorum)),
            Self::Rpc { servers } => write!(f, "hbase+rpc://{}", list(servers)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("hbase+rpc://a", "hbase+rpc://a:16000")]
    #[case("hbase+rpc://a:1,b:2/", "hbase+rpc://a:1,b:2")]
    #[case("hbase+rpc://[::1]:16000", "hbase+rpc://[::1]:16000")]
    #[case(
        "hbase+rpc://[::1],::1,fe80::2",
        "hbase+rpc://[::1]:16000,[::1]:16000,[fe80::2]:16000"
    )]
    #[cfg_attr(
        feature = "zookeeper",
        case(
            "hbase+zk://[::1],[2001:db8::1]:2182/x",
            "hbase+zk://[::1]:2181,[2001:db8::1]:2182/x"
        )
    )]
    #[cfg_attr(
        feature = "zookeeper",
        case("hbase+zk://a,b:2182/x/y", "hbase+zk://a:2181,b:2182/x/y")
    )]
    #[cfg_attr(feature = "zookeeper", case("hbase+zk://a/", "hbase+zk://a:2181/hbase"))]
    fn reads_connection_uris(#[case] uri: &str, #[case] shown: &str) {
        assert_eq!(uri.parse::<ClusterAddress>().unwrap().to_string(), shown);
    }

    #[rstest]
    #[case("")]
    #[case("a:16000")]
    #[case("http://a")]
    #[case("hbase+rpc://")]
    #[case("hbase+rpc://a:")]
    #[case("hbase+rpc://a:0")]
    #[case("hbase+rpc://a:70000")]
    #[case("hbase+rpc://a,,b")]
    #[case("hbase+rpc://a b")]
    #[case("hbase+rpc://[::1")]
    #[case("hbase+rpc://::1:16000")]
    #[case("hbase+rpc://a:1:2")]
    #[case("hbase+zk://a//x")]
    fn refuses_what_is_no_address_and_says_the_form(#[case] uri: &str) {
        let error = uri.parse::<ClusterAddress>().unwrap_err();
        assert!(error.to_string().contains("hbase+rpc://host:port"), "{error}");
    }
}
