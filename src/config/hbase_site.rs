//! Reads `hbase-site.xml`: `<configuration><property><name/><value/></property>…</configuration>`.

use std::{collections::BTreeMap, str::FromStr, time::Duration};

use quick_xml::{Reader, events::Event};

use super::{ClusterAddress, Config, bounded, invalid};
use crate::error::{ErrorKind, Result};

/// No configuration file that a person wrote is larger.
const MAX_SIZE: usize = 4 << 20;

pub(super) fn parse(xml: &str) -> Result<Config> {
    let site = Site {
        properties: properties(xml)?,
    };
    if let Some(other) = site
        .text("hbase.security.authentication")
        .filter(|value| !value.eq_ignore_ascii_case("simple"))
    {
        return Err(crate::error::Error::new(
            ErrorKind::AuthenticationRequired,
            format!("hbase.security.authentication is {other:?}; this client speaks SIMPLE only"),
        ));
    }
    let mut config = Config::new(site.address()?);
    let set = |slot: &mut Duration, keys: &[&str]| -> Result<()> {
        for key in keys {
            if let Some(millis) = site.number(key)? {
                *slot = bounded(Duration::from_millis(millis));
                break;
            }
        }
        Ok(())
    };
    set(&mut config.operation_timeout, &["hbase.client.operation.timeout"])?;
    set(
        &mut config.read_timeout,
        &["hbase.rpc.read.timeout", "hbase.rpc.timeout"],
    )?;
    set(
        &mut config.write_timeout,
        &["hbase.rpc.write.timeout", "hbase.rpc.timeout"],
    )?;
    set(
        &mut config.connect_timeout,
        &["hbase.ipc.client.socket.timeout.connect"],
    )?;
    set(
        &mut config.registry_timeout,
        &["zookeeper.registry.async.get.timeout"],
    )?;
    set(&mut config.pause, &["hbase.client.pause"])?;
    let overloaded = ["hbase.client.pause.server.overloaded", "hbase.client.pause.cqtbe"];
    for key in overloaded {
        if let Some(millis) = site.number(key)? {
            config = config.with_overloaded_pause(Duration::from_millis(millis));
            break;
        }
    }
    if let Some(bytes) = site.number("hbase.client.scanner.max.result.size")? {
        config = config.with_scan_batch_bytes(bytes);
    }
    if let Some(bytes) = site.number::<i64>("hbase.client.keyvalue.maxsize")? {
        // HBase: zero or less means that there is no limit.
        config.max_cell_size = usize::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes > 0)
            .unwrap_or(usize::MAX);
    }
    Ok(config)
}

struct Site {
    properties: BTreeMap<String, String>,
}

impl Site {
    fn text(&self, key: &str) -> Option<&str> {
        self.properties
            .get(key)
            .map(|value| value.trim())
            .filter(|value| !value.is_empty())
    }

    fn number<N: FromStr>(&self, key: &str) -> Result<Option<N>> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(invalid(format!(
                "hbase-site.xml: {key} is {text:?}, which is no whole number"
            ))),
        }
    }

    fn address(&self) -> Result<ClusterAddress> {
        let by_rpc = self.text("hbase.client.registry.impl").is_some_and(|class| {
            class.ends_with("RpcConnectionRegistry") || class.ends_with("MasterRegistry")
        });
        if by_rpc {
            let servers = [
                "hbase.client.bootstrap.servers",
                "hbase.masters",
                "hbase.master.hostname",
            ];
            let servers = servers
                .iter()
                .find_map(|key| self.text(key))
                .unwrap_or("localhost");
            return ClusterAddress::rpc(servers);
        }
        let first = |keys: [&'static str; 2]| {
            keys.into_iter()
                .find_map(|key| self.text(key).map(|text| (key, text)))
        };
        let (_, quorum) =
            first(["hbase.client.zookeeper.quorum", "hbase.zookeeper.quorum"]).unwrap_or(("", "localhost"));
        let port = match first([
            "hbase.client.zookeeper.property.clientPort",
            "hbase.zookeeper.property.clientPort",
        ]) {
            None => None,
            Some((key, text)) => Some(
                text.parse()
                    .map_err(|_| invalid(format!("hbase-site.xml: {key} is {text:?}, which is no port")))?,
            ),
        };
        ClusterAddress::zookeeper(quorum, port, self.text("zookeeper.znode.parent"))
    }
}

/// All properties. Of two with one name the later counts, as in Hadoop.
pub(crate) fn properties(xml: &str) -> Result<BTreeMap<String, String>> {
    if xml.len() > MAX_SIZE {
        return Err(invalid(format!(
            "hbase-site.xml has {} bytes; {MAX_SIZE} is the limit",
            xml.len()
        )));
    }
    let mut reader = Reader::from_str(xml);
    let mut properties = BTreeMap::new();
    let mut path: Vec<String> = Vec::new();
    let (mut name, mut value) = (String::new(), String::new());
    loop {
        let at = reader.buffer_position();
        let broken = |why: &dyn std::fmt::Display| invalid(format!("hbase-site.xml: byte {at}: {why}"));
        let text: String = match reader.read_event().map_err(|error| broken(&error))? {
            Event::Eof if path.is_empty() => return Ok(properties),
            Event::Eof => return Err(broken(&format_args!("<{}> is never closed", path.join("><")))),
            Event::Start(tag) => {
                path.push(tag.name().into_inner().to_owned());
                if path.len() > 16 {
                    return Err(broken(&"too many levels"));
                }
                continue;
            }
            Event::End(_) => {
                if path.pop().as_deref() == Some("property") {
                    properties.insert(
                        std::mem::take(&mut name).trim().to_owned(),
                        std::mem::take(&mut value),
                    );
                }
                continue;
            }
            Event::Text(text) => text.xml10_content().into_owned(),
            Event::CData(text) => text.xml10_content().into_owned(),
            Event::GeneralRef(reference) => {
                match reference.resolve_char_ref().map_err(|error| broken(&error))? {
                    Some(character) => character.to_string(),
                    None => quick_xml::escape::resolve_predefined_entity(&reference)
                        .ok_or_else(|| broken(&format_args!("unknown entity &{};", &*reference)))?
                        .to_owned(),
                }
            }
            _ => continue,
        };
        match path.last().map(String::as_str) {
            Some("name") => name.push_str(&text),
            Some("value") => value.push_str(&text),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn site(properties: &[(&str, &str)]) -> String {
        let body: String = properties
            .iter()
            .map(|(name, value)| format!("<property><name>{name}</name><value>{value}</value></property>"))
            .collect();
        format!("<?xml version=\"1.0\"?><!-- by hand --><configuration>{body}</configuration>")
    }

    #[test]
    fn reads_the_cluster_and_the_times() {
        let config = Config::from_hbase_site(&site(&[
            (
                "hbase.client.registry.impl",
                "org.apache.hadoop.hbase.client.RpcConnectionRegistry",
            ),
            ("hbase.masters", " m1:16000 , m2 "),
            ("hbase.rpc.timeout", "7000"),
            ("hbase.rpc.read.timeout", "3000"),
            ("hbase.client.pause.cqtbe", "500"),
            ("a.key.of.someone.else", "a &amp; b &#65;"),
        ]))
        .unwrap();
        assert_eq!(config.address().to_string(), "hbase+rpc://m1:16000,m2:16000");
        assert_eq!(config.read_timeout(), Duration::from_secs(3));
        assert_eq!(config.write_timeout(), Duration::from_secs(7));
        assert_eq!(config.overloaded_pause(), Duration::from_millis(500));
        assert_eq!(config.operation_timeout(), Duration::from_secs(60));
    }

    #[cfg(feature = "zookeeper")]
    #[test]
    fn finds_the_quorum_by_default_and_prefers_the_clients_own() {
        let address = |properties: &[(&str, &str)]| {
            Config::from_hbase_site(&site(properties))
                .unwrap()
                .address()
                .to_string()
        };
        assert_eq!(address(&[]), "hbase+zk://localhost:2181/hbase");
        assert_eq!(
            address(&[
                ("hbase.zookeeper.quorum", "a,b"),
                ("hbase.client.zookeeper.quorum", "c,d:7"),
                ("hbase.zookeeper.property.clientPort", "5"),
                ("zookeeper.znode.parent", "/hbase-secure"),
            ]),
            "hbase+zk://c:5,d:7/hbase-secure"
        );
    }

    #[rstest]
    #[case("<configuration><property>", "never closed")]
    #[case("<configuration></wrong>", "byte")]
    #[case(
        "<configuration><property><name>a</name><value>&who;</value></property></configuration>",
        "&who;"
    )]
    #[case(&site(&[("hbase.rpc.timeout", "soon")]), "\"soon\"")]
    #[case(&site(&[("hbase.zookeeper.property.clientPort", "99999")]), "\"99999\"")]
    #[case(&site(&[("hbase.security.authentication", "kerberos")]), "SIMPLE only")]
    fn says_what_it_cannot_read(#[case] xml: &str, #[case] why: &str) {
        let error = Config::from_hbase_site(xml).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }

    #[test]
    fn a_largest_cell_of_zero_or_less_is_no_limit() {
        for (value, limit) in [("0", usize::MAX), ("-1", usize::MAX), ("77", 77)] {
            let config = Config::from_hbase_site(&site(&[
                ("hbase.client.keyvalue.maxsize", value),
                ("hbase.security.authentication", "SIMPLE"),
            ]));
            assert_eq!(config.unwrap().max_cell_size(), limit);
        }
    }

    #[test]
    fn a_time_that_means_for_ever_to_java_is_a_year() {
        let config = Config::from_hbase_site(&site(&[
            ("hbase.client.operation.timeout", "9223372036854775807"),
            ("hbase.rpc.timeout", "0"),
        ]))
        .unwrap();
        assert_eq!(config.operation_timeout(), Duration::from_secs(365 * 24 * 3600));
        assert_eq!(config.read_timeout(), Duration::from_millis(1));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(xml in "[<>/a-z&;#!\\[\\] \"=?-]{0,80}") {
            let _ = Config::from_hbase_site(&xml);
        }
    }
}
