//! TLS for one machine: a certificate authority of the cluster's own, and the stores that it fills.

use std::{
    fs,
    path::{Path, PathBuf},
};

use futures::future::try_join;
use serde::{Deserialize, Serialize};

use super::{
    java::Java,
    layout::{Layout, create_folder, remove, storage},
    properties::{Properties, properties},
};
use crate::Result;

/// The identities that TLS proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Tls {
    /// Those of servers.
    Servers,
    /// Those of clients too.
    Mutual,
}

/// The password of all stores, which everyone on this machine may know.
const PASSWORD: &str = "changeit";

const CIPHER_SUITES: &str = "TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,\
                             TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";

/// Creates the stores of a cluster, unless it has them: `ca.p12` with the certificate authority,
/// `server.p12` and `client.p12` with keys, `trust.p12` and `ca.pem` with its certificate.
pub(super) async fn create_stores(layout: &Layout, java: &Java) -> Result<()> {
    let folder = layout.tls();
    if folder.is_dir() {
        return Ok(());
    }
    // An interrupted attempt leaves nothing that would be taken for the whole.
    let new = folder.with_extension("new");
    remove(&new)?;
    create_folder(&new)?;
    let stores = Stores { java, folder: &new };
    stores.key("ca", &["-ext", "bc:c=ca:true"]).await?;
    let ca = stores
        .keytool("ca.p12", &["-exportcert", "-rfc", "-alias", "ca"])
        .await?;
    stores.write("ca.pem", &ca)?;
    let import = ["-importcert", "-noprompt", "-alias", "ca", "-file", "ca.pem"];
    stores.keytool("trust.p12", &import).await?;
    try_join(stores.signed_key("server", &ca), stores.signed_key("client", &ca)).await?;
    fs::rename(&new, &folder).map_err(|error| storage("can't create", &folder, error))
}

/// Returns the settings of servers, which are clients of each other too.
pub(super) fn server_site(layout: &Layout, tls: Tls) -> Properties {
    let mut site = client_site(layout, tls);
    site.extend(key_store(layout.tls().join("server.p12")));
    site.extend(properties([
        ("hbase.server.netty.tls.enabled", "true".into()),
        ("hbase.server.netty.tls.supportplaintext", "false".into()),
        (
            "hbase.server.netty.tls.client.auth.mode",
            match tls {
                Tls::Servers => "NONE".into(),
                Tls::Mutual => "NEED".into(),
            },
        ),
        ("hbase.rpc.tls.enabledProtocols", "TLSv1.2,TLSv1.3".into()),
        // Those that 3.0.0-alpha-4 enables by default are all of TLS 1.2.
        ("hbase.rpc.tls.ciphersuites", CIPHER_SUITES.into()),
    ]));
    site
}

/// Returns the settings of clients.
pub(super) fn client_site(layout: &Layout, tls: Tls) -> Properties {
    let trust_store = layout.tls().join("trust.p12");
    let mut site = properties([
        ("hbase.client.netty.tls.enabled", "true".into()),
        (
            "hbase.rpc.tls.truststore.location",
            trust_store.display().to_string(),
        ),
        ("hbase.rpc.tls.truststore.type", "PKCS12".into()),
        ("hbase.rpc.tls.truststore.password", PASSWORD.into()),
    ]);
    if tls == Tls::Mutual {
        site.extend(key_store(layout.tls().join("client.p12")));
    }
    site
}

fn key_store(path: PathBuf) -> Properties {
    properties([
        ("hbase.rpc.tls.keystore.location", path.display().to_string()),
        ("hbase.rpc.tls.keystore.type", "PKCS12".into()),
        ("hbase.rpc.tls.keystore.password", PASSWORD.into()),
    ])
}

struct Stores<'a> {
    java: &'a Java,
    folder: &'a Path,
}

impl Stores<'_> {
    async fn keytool(&self, store: &str, arguments: &[&str]) -> Result<String> {
        let store = ["-keystore", store, "-storetype", "PKCS12", "-storepass", PASSWORD];
        self.java
            .keytool(self.folder, &[arguments, &store].concat())
            .await
    }

    /// Creates a store with a key of its own name, and a certificate that it has signed itself.
    async fn key(&self, name: &str, more: &[&str]) -> Result<()> {
        let (store, subject) = (format!("{name}.p12"), format!("CN={name}"));
        let key = [
            "-genkeypair",
            "-alias",
            name,
            "-dname",
            &subject,
            "-validity",
            "3650",
        ];
        let kind = ["-keyalg", "EC", "-keysize", "256"];
        self.keytool(&store, &[&key, &kind[..], more].concat()).await?;
        Ok(())
    }

    /// Creates a store with a key, and a certificate for this machine that the authority has signed.
    async fn signed_key(&self, name: &str, ca: &str) -> Result<()> {
        self.key(name, &[]).await?;
        let (store, request, chain) = (
            format!("{name}.p12"),
            format!("{name}.request"),
            format!("{name}.chain"),
        );
        let text = self.keytool(&store, &["-certreq", "-alias", name]).await?;
        self.write(&request, &text)?;
        let sign = [
            "-gencert",
            "-rfc",
            "-alias",
            "ca",
            "-infile",
            &request,
            "-validity",
            "3650",
            "-ext",
            "EKU=serverAuth,clientAuth",
            "-ext",
            "SAN=dns:localhost,ip:127.0.0.1",
        ];
        let signed = self.keytool("ca.p12", &sign).await?;
        self.write(&chain, &format!("{signed}{ca}"))?;
        let import = ["-importcert", "-noprompt", "-alias", name, "-file", &chain];
        self.keytool(&store, &import).await?;
        remove(&self.folder.join(&request))?;
        remove(&self.folder.join(&chain))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|error| storage("can't write", &path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Home;

    #[test]
    fn only_mutual_tls_gives_clients_a_key() {
        let layout = Layout::new(&Home::new("/state", "/cache"), "x").unwrap();
        let key = "hbase.rpc.tls.keystore.location";
        assert!(!client_site(&layout, Tls::Servers).contains_key(key));
        assert!(client_site(&layout, Tls::Mutual)[key].ends_with("client.p12"));
        let servers = server_site(&layout, Tls::Mutual);
        assert!(servers[key].ends_with("server.p12"));
        assert_eq!(servers["hbase.server.netty.tls.supportplaintext"], "false");
    }
}
