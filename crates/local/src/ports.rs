//! Free ports on the loopback address.

use std::{
    collections::BTreeSet,
    fs, io,
    net::{Ipv4Addr, TcpListener},
    ops::Range,
};

use serde::{Deserialize, Serialize};

use super::{failure, properties::Properties};
use crate::{Error, Result};

/// The ports of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ports {
    pub(super) zookeeper: u16,
    pub(super) master: u16,
    /// The ports of the region servers, indexed by their number minus one.
    pub(super) region_servers: Vec<u16>,
    /// The port of HDFS; a standalone cluster has none.
    pub(super) namenode: Option<u16>,
    /// The port of the Thrift gateway, if there is one.
    #[serde(default)]
    pub(super) thrift: Option<u16>,
    /// The port of the KDC, if there is one.
    #[serde(default)]
    pub(super) kdc: Option<u16>,
}

/// Settings that fix a port. If a fixed port is taken, the boot fails.
pub(super) const ZOOKEEPER: &str = "hbase.zookeeper.property.clientPort";
pub(super) const MASTER: &str = "hbase.master.port";
pub(super) const REGION_SERVER: &str = "hbase.regionserver.port";

impl Ports {
    /// Chooses free ports. Takes those of `previous` if all of them are free, so that clients find
    /// a cluster at the same addresses after a restart.
    pub(super) fn choose(
        region_servers: Option<u16>,
        fixed: &Properties,
        previous: Option<&Self>,
    ) -> Result<Self> {
        if let Some(previous) = previous.filter(|ports| ports.agree_with(fixed) && ports.are_free()) {
            return Ok(previous.clone());
        }
        let mut taken = BTreeSet::new();
        let mut choose = |key: Option<&'static str>| match key.and_then(|key| Some((key, fixed.get(key)?))) {
            Some((key, text)) => fixed_port(key, text),
            None => free(&mut taken),
        };
        Ok(Self {
            zookeeper: choose(Some(ZOOKEEPER))?,
            master: choose(Some(MASTER))?,
            region_servers: match region_servers {
                None => vec![choose(Some(REGION_SERVER))?],
                Some(count) => (0..count).map(|_| choose(None)).collect::<Result<_>>()?,
            },
            namenode: region_servers.map(|_| choose(None)).transpose()?,
            thrift: None,
            kdc: None,
        })
    }

    /// Adds a port for the Thrift gateway: its previous port if that is free, or another free port.
    pub(super) fn with_thrift(mut self) -> Result<Self> {
        self.thrift = Some(self.kept_or_free(self.thrift)?);
        Ok(self)
    }

    /// Adds a port for the KDC, in the same way.
    pub(super) fn with_kdc(mut self) -> Result<Self> {
        self.kdc = Some(self.kept_or_free(self.kdc)?);
        Ok(self)
    }

    fn kept_or_free(&self, previous: Option<u16>) -> Result<u16> {
        match previous {
            Some(port) if is_free(port) => Ok(port),
            _ => free(&mut self.all().collect()),
        }
    }

    fn all(&self) -> impl Iterator<Item = u16> {
        [self.zookeeper, self.master]
            .into_iter()
            .chain(self.region_servers.iter().copied())
            .chain(self.namenode)
            .chain(self.thrift)
            .chain(self.kdc)
    }

    pub(super) fn are_free(&self) -> bool {
        self.all().all(is_free)
    }

    fn agree_with(&self, fixed: &Properties) -> bool {
        let agrees = |key, port: u16| fixed.get(key).is_none_or(|text| *text == port.to_string());
        agrees(ZOOKEEPER, self.zookeeper)
            && agrees(MASTER, self.master)
            && (self.namenode.is_some() || agrees(REGION_SERVER, self.region_servers[0]))
    }
}

fn fixed_port(key: &str, text: &str) -> Result<u16> {
    let port = text
        .trim()
        .parse()
        .ok()
        .filter(|port| *port != 0)
        .ok_or_else(|| Error::invalid(format!("{key}={text}: no port number")))?;
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
        let failed = failure(format!("port {port} ({key}) can't be used on 127.0.0.1"));
        let failed = match error.kind() {
            io::ErrorKind::AddrInUse => failed.with_hint(format!(
                "another process listens there (`ss -ltnp 'sport = :{port}'` shows it); stop it, or leave {key} out \
                 and a free port is chosen"
            )),
            _ => failed.with_hint(format!("take another port, or leave {key} out")),
        };
        failed.with_source(error)
    })?;
    Ok(port)
}

/// Chooses a free port outside the kernel's range for outgoing connections. A port in that range
/// could be taken by an outgoing connection of any program, even of HBase itself, before HBase
/// binds it.
fn free(taken: &mut BTreeSet<u16>) -> Result<u16> {
    let range = outside(&ephemeral());
    for _ in 0..1_000 {
        let port = fastrand::u16(range.clone());
        if !taken.contains(&port) && is_free(port) {
            taken.insert(port);
            return Ok(port);
        }
    }
    Err(failure(format!(
        "no free port on 127.0.0.1 between {} and {}",
        range.start,
        range.end - 1
    ))
    .with_hint("see what listens with `ss -ltnp`, and end what is not needed"))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn ephemeral() -> Range<u16> {
    let read = || {
        let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
        let mut bounds = text.split_whitespace().map(str::parse::<u16>);
        Some(bounds.next()?.ok()?..bounds.next()?.ok()?)
    };
    read().unwrap_or(32_768..60_999)
}

/// Returns a range below the ephemeral range or above it, or all ports from `FIRST` if neither has
/// room.
fn outside(ephemeral: &Range<u16>) -> Range<u16> {
    const ENOUGH: u16 = 1_000;
    const FIRST: u16 = 20_000;
    if ephemeral.start >= FIRST + ENOUGH {
        FIRST..ephemeral.start
    } else if ephemeral.end <= u16::MAX - ENOUGH {
        ephemeral.end + 1..u16::MAX
    } else {
        FIRST..u16::MAX
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn chosen_ports_are_free_and_different() {
        let ports = Ports::choose(Some(3), &Properties::new(), None).unwrap();
        let ports = ports.with_thrift().unwrap();
        let all: BTreeSet<u16> = ports.all().collect();
        assert_eq!(all.len(), 7);
        assert!(all.into_iter().all(is_free));
        assert_eq!(ports.clone().with_thrift().unwrap(), ports);
    }

    #[test]
    fn the_previous_ports_are_kept_until_one_of_them_is_taken() {
        let first = Ports::choose(None, &Properties::new(), None).unwrap();
        let again = Ports::choose(None, &Properties::new(), Some(&first)).unwrap();
        assert_eq!(again, first);
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first.master)).unwrap();
        let other = Ports::choose(None, &Properties::new(), Some(&first)).unwrap();
        assert_ne!(other.master, first.master);
    }

    #[test]
    fn a_fixed_port_is_kept_to_and_when_taken_named() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let fixed = Properties::from([(MASTER.to_owned(), port.to_string())]);
        let error = Ports::choose(None, &fixed, None).unwrap_err();
        assert!(error.to_string().contains(&port.to_string()), "{error}");
        assert!(error.hint().unwrap().contains("another process listens there"));
        drop(listener);
        assert_eq!(Ports::choose(None, &fixed, None).unwrap().master, port);
    }

    #[rstest]
    #[case(32_768..60_999, 20_000..32_768)]
    #[case(10_000..50_000, 50_001..65_535)]
    #[case(1_024..65_535, 20_000..65_535)]
    fn keeps_out_of_the_kernels_range(#[case] ephemeral: Range<u16>, #[case] expected: Range<u16>) {
        assert_eq!(outside(&ephemeral), expected);
    }
}
