//! The addresses of a [`Config`] that are dialled in place of others.

use super::{Config, MappedAddress};

impl Config {
    /// Returns the addresses that are dialled in place of others.
    #[must_use]
    pub fn address_map(&self) -> &[MappedAddress] {
        &self.address_map
    }

    /// Sets addresses to dial in place of those that the cluster names, for a machine that can't reach
    /// the latter: outside of a container network or a Kubernetes cluster, or behind port forwards.
    ///
    /// The map applies to all servers that the client dials: region servers, masters and the ZooKeeper
    /// quorum. An entry for a host and a port precedes one for the host alone, and an earlier entry
    /// a later one. Addresses without an entry are dialled as they are, and those in the map are not
    /// looked up in it again. A [`Connector`](crate::Connector) receives the address to dial.
    ///
    /// Only the address changes, not the name: the certificate of a server must still have the host by
    /// which the cluster names it, and its Kerberos principal has that host, too. The Kerberos library
    /// looks that host up unless `dns_canonicalize_hostname` is `false` in `krb5.conf`. Errors and metrics
    /// also name the servers as the cluster does.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::Config;
    ///
    /// # fn main() -> Result<(), hbase_client::Error> {
    /// // kubectl port-forward pod/rs-0 26020:16020; kubectl port-forward pod/master-0 26000:16000
    /// let config = Config::from_uri("hbase+rpc://master-0.hbase:16000")?.with_address_map([
    ///     "master-0.hbase:16000=localhost:26000".parse()?,
    ///     "rs-0.hbase:16020=localhost:26020".parse()?,
    /// ]);
    /// # assert_eq!(config.address_map().len(), 2);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_address_map(mut self, map: impl IntoIterator<Item = MappedAddress>) -> Self {
        self.address_map = map.into_iter().collect();
        self
    }
}
