//! The names of the settings of TLS in `hbase-site.xml`, which errors mention too.

/// The settings of TLS to one kind of server. Those of stores are prefixes.
#[derive(Debug)]
pub struct TlsKeys {
    /// Whether TLS is enabled.
    pub enabled: &'static str,
    /// The trust store.
    pub trust_store: &'static str,
    /// The key store.
    pub key_store: &'static str,
    /// The versions that may be used.
    pub enabled_protocols: &'static str,
    /// The cipher suites that may be used.
    pub cipher_suites: &'static str,
    /// The version that may be used if [`enabled_protocols`](Self::enabled_protocols) is not set.
    pub protocol: &'static str,
    /// Whether the certificate of a server must name the server.
    pub verify_hostname: &'static str,
    /// The timeout of a handshake in milliseconds.
    pub handshake_timeout: Option<&'static str>,
    /// Whether the stores are read again when their files change.
    pub reload: &'static str,
    /// Settings that would have to be absent or false, because this client has less security, and why.
    pub unsupported: &'static [(&'static str, &'static str)],
    /// Whether a password may be in a file of its own, and not in a credential provider.
    pub has_password_files: bool,
    /// The method of the client's configuration that sets TLS.
    pub method: &'static str,
    /// Whether TLS is enabled on the servers.
    pub enabled_on_servers: &'static str,
    /// The key store of the servers.
    pub key_store_on_servers: &'static str,
    /// Whether the servers check the names of clients.
    pub verify_clients: &'static str,
}

const NO_REVOCATION_LISTS: &str = "revocation lists are not supported";
const NO_OCSP: &str = "OCSP is not supported";

impl TlsKeys {
    /// Masters and region servers.
    pub const HBASE: Self = Self {
        enabled: "hbase.client.netty.tls.enabled",
        trust_store: "hbase.rpc.tls.truststore",
        key_store: "hbase.rpc.tls.keystore",
        enabled_protocols: "hbase.rpc.tls.enabledProtocols",
        cipher_suites: "hbase.rpc.tls.ciphersuites",
        protocol: "hbase.rpc.tls.protocol",
        verify_hostname: "hbase.client.netty.tls.verify.server.hostname",
        handshake_timeout: Some("hbase.client.netty.tls.handshaketimeout"),
        reload: "hbase.rpc.tls.certReload",
        unsupported: &[
            ("hbase.rpc.tls.clr", NO_REVOCATION_LISTS),
            ("hbase.rpc.tls.ocsp", NO_OCSP),
        ],
        has_password_files: false,
        method: "Config::with_tls",
        enabled_on_servers: "hbase.server.netty.tls.enabled",
        key_store_on_servers: "hbase.rpc.tls.keystore.location",
        verify_clients: "hbase.server.netty.tls.verify.client.hostname",
    };

    /// Servers of a ZooKeeper quorum.
    pub const ZOOKEEPER: Self = Self {
        enabled: "hbase.zookeeper.property.client.secure",
        trust_store: "hbase.zookeeper.property.ssl.trustStore",
        key_store: "hbase.zookeeper.property.ssl.keyStore",
        enabled_protocols: "hbase.zookeeper.property.ssl.enabledProtocols",
        cipher_suites: "hbase.zookeeper.property.ssl.ciphersuites",
        protocol: "hbase.zookeeper.property.ssl.protocol",
        verify_hostname: "hbase.zookeeper.property.ssl.hostnameVerification",
        handshake_timeout: None,
        reload: "hbase.zookeeper.property.client.certReload",
        unsupported: &[
            ("hbase.zookeeper.property.ssl.crl", NO_REVOCATION_LISTS),
            ("hbase.zookeeper.property.ssl.ocsp", NO_OCSP),
            (
                "hbase.zookeeper.property.ssl.context.supplier.class",
                "classes of Java are not supported",
            ),
        ],
        has_password_files: true,
        method: "Config::with_zookeeper_tls",
        enabled_on_servers: "secureClientPort",
        key_store_on_servers: "ssl.keyStore.location",
        verify_clients: "ssl.clientHostnameVerification",
    };
}
