//! The properties of TLS.

use super::Site;
use crate::{config::Config, error::Result};

#[cfg(feature = "tls")]
impl Site {
    /// Sets TLS to the servers and to ZooKeeper.
    pub(super) fn set_tls(&self, config: &mut Config, warnings: &mut Vec<String>) -> Result<()> {
        use crate::config::tls_keys::{TlsKeys, read};
        config.tls = read(&TlsKeys::HBASE, |key| self.text(key), warnings)?;
        #[cfg(feature = "zookeeper")]
        {
            config.zookeeper_tls = read(&TlsKeys::ZOOKEEPER, |key| self.text(key), warnings)?;
        }
        Ok(())
    }
}

#[cfg(not(feature = "tls"))]
impl Site {
    /// Refuses TLS by the name of the feature.
    pub(super) fn set_tls(&self, config: &mut Config, _: &mut Vec<String>) -> Result<()> {
        use crate::{
            config::{ClusterAddress, properties::switch},
            error::{Error, ErrorKind},
        };
        let by_zookeeper = matches!(config.address(), ClusterAddress::ZooKeeper { .. });
        for (key, counts) in [
            ("hbase.client.netty.tls.enabled", true),
            ("hbase.zookeeper.property.client.secure", by_zookeeper),
        ] {
            if counts && switch(key, self.text(key)?)? == Some(true) {
                return Err(Error::new(
                    ErrorKind::AuthenticationRequired,
                    format!("{key} is true; this build has no TLS"),
                )
                .with_hint("build it with the feature tls"));
            }
        }
        Ok(())
    }
}
