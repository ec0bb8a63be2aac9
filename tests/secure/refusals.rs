//! The errors of clients that servers refuse.

use std::{fs, path::Path, process::Command, time::Duration};

use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{Kerberos, Protection},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use support::{spy::Spy, standalone, within};

/// The limit of a call that fails. Most fail at once.
const DEADLINE: Duration = Duration::from_secs(8);

/// Connects with these settings, which must fail for this reason.
pub(super) async fn refused(config: Config, kind: ClientErrorKind, parts: &[&str]) {
    let attempt = async {
        let connection = connect(config.with_operation_timeout(DEADLINE)).await?;
        who_am_i(&connection).await
    };
    let error = within(DEADLINE, attempt).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    says(&error, parts);
}

fn with_kerberos(cluster: &Cluster, change: impl FnOnce(Kerberos) -> Kerberos) -> Config {
    let config = cluster.config();
    let kerberos = config.kerberos().unwrap().clone();
    config.with_kerberos(Some(change(kerberos)))
}

const FAILED: ClientErrorKind = ClientErrorKind::AuthenticationFailed;

#[tokio::test]
async fn client_without_ticket_is_told_to_get_one() {
    on_kerberos(async |cluster| {
        let config = with_kerberos(cluster, |kerberos| {
            kerberos.with_ticket_cache("FILE:/no/such/cache")
        });
        refused(config, FAILED, &["cannot get a ticket", "kinit"]).await;
    })
    .await;
}

#[tokio::test]
async fn keytab_that_is_absent_or_lacks_the_principal_is_named() {
    on_kerberos(async |cluster| {
        let (file, _) = keytab_of(&cluster.config());
        let config = with_kerberos(cluster, |kerberos| {
            kerberos.with_keytab("/no/such.keytab", "alice@A")
        });
        refused(config, FAILED, &["/no/such.keytab", "No such file"]).await;
        let config = with_kerberos(cluster, |kerberos| kerberos.with_keytab(&file, "carol@CAROL"));
        refused(config, FAILED, &["no key of carol@CAROL", "alice@"]).await;
    })
    .await;
}

#[tokio::test]
async fn principal_of_the_server_that_is_unknown_absent_or_malformed_is_named() {
    on_kerberos(async |cluster| {
        let (_, client) = keytab_of(&cluster.config());
        let realm = client.rsplit_once('@').unwrap().1;
        let wrong = format!("nobody/localhost@{realm}");
        let config = with_kerberos(cluster, |kerberos| {
            kerberos
                .with_region_server_principal(&wrong)
                .with_master_principal(&wrong)
        });
        refused(config, FAILED, &[&wrong, "principal of the server"]).await;
        let config = with_kerberos(cluster, |kerberos| {
            kerberos
                .with_region_server_principal("hbase")
                .with_master_principal("hbase")
        });
        let key = "hbase.regionserver.kerberos.principal is \"hbase\"";
        refused(config, ClientErrorKind::InvalidConfig, &[key]).await;
        let (file, client) = keytab_of(&cluster.config());
        let config = cluster
            .config()
            .with_kerberos(Some(Kerberos::default().with_keytab(file, client)));
        let key = "hbase.regionserver.kerberos.principal is not set";
        refused(config, ClientErrorKind::InvalidConfig, &[key]).await;
    })
    .await;
}

#[tokio::test]
async fn simple_client_is_told_that_authentication_is_required() {
    on_kerberos(async |cluster| {
        let config = cluster
            .config()
            .with_kerberos(None)
            .with_protection([])
            .with_aes(false);
        // HBase 3.0 closes the connection without a word.
        let parts = ["uthentication is required", "hbase.security.authentication"];
        refused(config, ClientErrorKind::AuthenticationRequired, &parts).await;
    })
    .await;
}

#[tokio::test]
async fn ticket_of_another_realm_is_refused() {
    let mut clusters = secure();
    clusters.retain(|cluster| cluster.status.ports.contains_key("kdc"));
    let [one, other, ..] = &clusters[..] else {
        panic!("two clusters of dev up --kerberos are needed: run make test");
    };
    // A ticket for another server of the same name, from another KDC.
    let foreign = other.config().kerberos().unwrap().clone();
    let config = one.config().with_kerberos(Some(foreign));
    refused(
        config,
        FAILED,
        &["GSS initiate failed", "principal of the server"],
    )
    .await;
    // A ticket of another realm for this server: the realms do not trust each other.
    let (file, client) = keytab_of(&other.config());
    let config = with_kerberos(one, |kerberos| kerberos.with_keytab(file, client));
    refused(config, FAILED, &["krbtgt/", "trust each other"]).await;
}

#[tokio::test]
async fn protections_without_a_common_one_are_named() {
    let all = [
        Protection::Authentication,
        Protection::Integrity,
        Protection::Privacy,
    ];
    let lacks =
        |cluster: &Cluster, protection: &Protection| !cluster.config().protection().contains(protection);
    let lacks_any = |cluster: &Cluster| {
        cluster.status.ports.contains_key("kdc") && all.iter().any(|protection| lacks(cluster, protection))
    };
    on_those(lacks_any, "--kerberos", async |cluster| {
        for protection in all.iter().filter(|protection| lacks(cluster, protection)) {
            let config = cluster.config().with_protection([*protection]).with_aes(false);
            let accepts = format!("the client accepts {}", protection.name());
            refused(
                config,
                FAILED,
                &["the server offers", &accepts, "hbase.rpc.protection"],
            )
            .await;
        }
    })
    .await;
}

#[tokio::test]
async fn server_without_aes_is_named() {
    let lacks_aes = |cluster: &Cluster| {
        let config = cluster.config();
        config.protection().contains(&Protection::Privacy) && !config.aes() && config.kerberos().is_some()
    };
    on_those(lacks_aes, "--kerberos --protection privacy", async |cluster| {
        let config = cluster
            .config()
            .with_protection([Protection::Privacy])
            .with_aes(true);
        let parts = ["no keys for AES", "hbase.rpc.crypto.encryption.aes.enabled"];
        refused(config, FAILED, &parts).await;
    })
    .await;
}

#[tokio::test]
async fn server_without_security_is_refused_unless_that_is_allowed() {
    let simple = standalone().config();
    on_kerberos(async |cluster| {
        let config = cluster.config().with_tls(None);
        let config = config.with_address(simple.address().clone());
        let parts = ["has no security", "fallback-to-simple-auth-allowed"];
        refused(config.clone(), FAILED, &parts).await;
        let config = config.with_fallback_to_simple(true);
        let connection = connect(config.clone()).await.unwrap();
        Admin::new(&connection).cluster_info().await.unwrap();
        let tenant = config.with_effective_user(Some("tenant".into()));
        refused(tenant, FAILED, &["cannot act as tenant", "Config::with_user"]).await;
        let tenant = simple.clone().with_effective_user(Some("tenant".into()));
        let parts = ["cannot act as tenant", simple.user()];
        refused(tenant, ClientErrorKind::InvalidConfig, &parts).await;
    })
    .await;
}

/// Runs the command on a cluster with its settings but these for the ticket, and with these variables.
/// The Kerberos library reads the environment of its process.
pub(super) fn command(cluster: &Cluster, arguments: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
    let folder = TempDir::new().unwrap();
    let site = client_site(cluster);
    // Without the keytab the ticket comes from the default cache.
    let site: String = site
        .lines()
        .filter(|line| !line.contains("hbase.client.keytab"))
        .collect();
    fs::write(folder.path().join("hbase-site.xml"), site).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_hbase-txn"))
        .args(["--timeout", "8s"])
        .args(arguments)
        .env("HBASE_CONF_DIR", folder.path())
        .envs(&cluster.status.environment)
        .env("HBASE_CONF_DIR", folder.path())
        .env_remove("HBASE_TXN_CONNECT")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), text)
}

/// Fills a cache from a keytab, by the Kerberos library.
pub(super) fn fill(cache: &Path, cluster: &Cluster) {
    let (file, _) = keytab_of(&cluster.config());
    let cache = format!("FILE:{}", cache.display());
    let variables = [
        ("KRB5CCNAME", cache.as_str()),
        ("KRB5_CLIENT_KTNAME", file.as_str()),
    ];
    let (listed, text) = command(cluster, &["table", "list"], &variables);
    assert!(listed, "{text}");
}

#[tokio::test]
async fn tickets_of_a_cache_are_used_until_they_expire() {
    on_kerberos(async |cluster| {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("cache");
        fill(&file, cluster);
        let name = format!("FILE:{}", file.display());
        let config = with_kerberos(cluster, |kerberos| kerberos.with_ticket_cache(&name));
        let connection = connect(config.clone()).await.unwrap();
        // The library chose one of the keytab's principals, which may have no permission.
        Admin::new(&connection).cluster_info().await.unwrap();

        expire(&file);
        refused(config, FAILED, &["expired", "kinit"]).await;
        // A connection outlives its ticket.
        Admin::new(&connection).cluster_info().await.unwrap();
    })
    .await;
}

/// Moves the end of all tickets of a cache into the past.
fn expire(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs() as u32;
    let time = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    // The times of a ticket: authenticated, valid from, valid until, renewable until.
    for at in 0..bytes.len() - 16 {
        let times = [0, 4, 8].map(|offset| time(&bytes, at + offset));
        let is_recent = |time: u32| (now - 600..=now + 5).contains(&time);
        if is_recent(times[0]) && is_recent(times[1]) && (now + 600..now + 900_000).contains(&times[2]) {
            bytes[at + 8..at + 12].copy_from_slice(&(now - 400).to_be_bytes());
        }
    }
    fs::write(file, bytes).unwrap();
}

#[tokio::test]
async fn kdc_that_is_away_and_realm_that_is_not_configured_are_named() {
    on_kerberos(async |cluster| {
        let conf = &cluster.status.environment["KRB5_CONFIG"];
        let conf = fs::read_to_string(conf).unwrap();
        let folder = TempDir::new().unwrap();
        let (keytab, client) = keytab_of(&cluster.config());
        let realm = client.rsplit_once('@').unwrap().1;
        let port = cluster.status.ports["kdc"];
        let run = |name: &str, conf: String| {
            let file = folder.path().join(name);
            fs::write(&file, conf).unwrap();
            let cache = format!("FILE:{}", folder.path().join("none").display());
            command(
                cluster,
                &["table", "list"],
                &[
                    ("KRB5_CONFIG", file.to_str().unwrap()),
                    ("KRB5CCNAME", &cache),
                    ("KRB5_CLIENT_KTNAME", &keytab),
                ],
            )
        };
        let (listed, text) = run("away", conf.replace(&format!(":{port}"), ":1"));
        assert!(!listed);
        says(&text, &["Cannot contact any KDC", "can be reached from here"]);
        let (listed, text) = run("unknown", conf.replace(&format!("  {realm} = {{"), "  OTHER = {"));
        assert!(!listed);
        says(&text, &["Cannot find KDC", "krb5.conf"]);
    })
    .await;
}

/// Returns a port that closes plain connections without a word, and answers TLS with an alert.
async fn tls_only() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut first = [0; 3];
            if client.read_exact(&mut first).await.is_ok() && first.starts_with(b"\x16\x03") {
                let _ = client.write_all(b"\x15\x03\x03\0\x02\x02\x28").await;
            }
        }
    });
    port
}

#[tokio::test]
async fn server_that_speaks_tls_only_is_named_to_an_authenticated_client() {
    let port = tls_only().await;
    on_kerberos(async |cluster| {
        let config = cluster.config().with_tls(None).with_operation_timeout(DEADLINE);
        let attempt = async {
            let connector = Spy::with_detour(port);
            let builder = Connection::builder(config).connector(connector);
            who_am_i(&builder.connect().await?).await
        };
        let error = within(DEADLINE, attempt).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::AuthenticationRequired, "{error}");
        says(&error, &["TLS"]);
    })
    .await;
}
