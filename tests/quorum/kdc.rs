//! A key distribution centre, and the process in which a client uses it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::time::sleep;

use super::{java::Java, member::free_ports};

pub(crate) const REALM: &str = "QUORUM.LOCAL";
/// Names the folder of the centre, in the process that uses it.
const FOLDER: &str = "HBASE_TXN_TEST_KDC";

/// A key distribution centre, which is killed on drop.
#[derive(Debug)]
pub(crate) struct Kdc {
    java: Java,
    folder: PathBuf,
}

impl Kdc {
    /// Starts a centre with these principals. Returns `None` in the process of the test runner: the
    /// test of this name has then run in another one, because the Kerberos library takes its
    /// configuration from the environment.
    pub(crate) async fn start(test: &str, principals: &[&str]) -> Option<Self> {
        let Some(folder) = env::var_os(FOLDER) else {
            let folder = TempDir::new().unwrap();
            let status = Command::new(env::current_exe().unwrap())
                .args([test, "--exact", "--nocapture"])
                .env(FOLDER, folder.path())
                .env("KRB5_CONFIG", folder.path().join("krb5.conf"))
                .env("KRB5CCNAME", folder.path().join("no-cache"))
                .env_remove("KRB5_CLIENT_KTNAME")
                .status();
            assert!(
                status.unwrap().success(),
                "the test has failed in its own process"
            );
            return None;
        };
        let folder = PathBuf::from(folder);
        let port = free_ports(1)[0];
        let properties = format!(
            "org.name=QUORUM\norg.domain=LOCAL\nkdc.bind.address=127.0.0.1\nkdc.port={port}\ntransport=TCP\n\
             instance=quorum\nmax.ticket.lifetime=86400000\nmax.renewable.lifetime=604800000\ndebug=false\n"
        );
        let configuration = format!(
            "[libdefaults]\n  default_realm = {REALM}\n  udp_preference_limit = 1\n  dns_lookup_kdc = false\n  \
             dns_lookup_realm = false\n  dns_canonicalize_hostname = false\n  rdns = false\n\n[realms]\n  \
             {REALM} = {{\n    kdc = 127.0.0.1:{port}\n  }}\n\n[domain_realm]\n  localhost = {REALM}\n"
        );
        fs::write(folder.join("krb5.conf"), configuration).unwrap();
        fs::write(folder.join("properties"), properties).unwrap();
        fs::create_dir(folder.join("work")).unwrap();
        let files = ["work", "properties", "keytab"].map(|name| folder.join(name).into_os_string());
        let mut arguments = vec!["org.apache.hadoop.minikdc.MiniKdc".into()];
        arguments.extend(files);
        arguments.extend(principals.iter().map(Into::into));
        let java = Java::start("minikdc-3.4.1", &[], &arguments, folder.join("log"));
        let deadline = Instant::now() + Duration::from_secs(60);
        while !java.log().contains("Standalone MiniKdc Running") {
            assert!(
                Instant::now() < deadline,
                "no key distribution centre: {}",
                java.log()
            );
            sleep(Duration::from_millis(50)).await;
        }
        Some(Self { java, folder })
    }

    /// Returns the configuration of the Kerberos library.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.folder.join("krb5.conf")
    }

    /// Returns the keytab of all principals.
    pub(crate) fn keytab(&self) -> PathBuf {
        self.folder.join("keytab")
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills the process at once.
    pub(crate) fn kill(&mut self) {
        self.java.kill();
    }
}
