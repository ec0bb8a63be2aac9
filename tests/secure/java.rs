//! HBase's own Java client is accepted and refused where this client is.

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf, process::Command};

use hbase_client::low_level::site_properties;
use hbase_txn::{
    ClientErrorKind,
    client::{Get, TokenFile, TokenFileFormat},
};
use tempfile::TempDir;

use super::{
    tls::{PASSWORD, has_tls},
    tls_refusals::fixtures,
    tokens::{expired, obtain, with_wrong_password},
    *,
};
use support::java::logins;

/// The authentication that the server sees, or a part of Java's exception.
type Expected = Result<&'static str, &'static str>;

/// Attempts to connect to a cluster with a folder for their files.
struct Attempts<'c> {
    cluster: &'c Cluster,
    folder: TempDir,
    all: Vec<Attempt>,
}

struct Attempt {
    what: &'static str,
    folder: PathBuf,
    token_file: Option<PathBuf>,
    expected: Expected,
}

impl Attempts<'_> {
    /// Adds an attempt with changes of the clients' settings. A setting without a value is removed.
    fn add(
        &mut self,
        what: &'static str,
        changes: &[(&str, &str)],
        token_file: Option<&str>,
        expected: Expected,
    ) {
        let settings = site_properties(&client_site(self.cluster)).unwrap();
        let mut settings: BTreeMap<_, _> = settings.into_iter().collect();
        let changes = changes.iter().copied();
        settings.extend(changes.map(|(key, value)| (key.to_owned(), value.to_owned())));
        settings.retain(|_, value| !value.is_empty());
        let mut text = "<configuration>".to_owned();
        for (name, value) in settings {
            let property = format!("<property><name>{name}</name><value>{value}</value></property>");
            writeln!(text, "{property}").unwrap();
        }
        text.push_str("</configuration>");
        let folder = self.folder.path().join(self.all.len().to_string());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("hbase-site.xml"), text).unwrap();
        let token_file = token_file.map(|name| self.folder.path().join(name));
        self.all.push(Attempt {
            what,
            folder,
            token_file,
            expected,
        });
    }

    async fn add_kerberos(&mut self) {
        let token = obtain(self.cluster).await;
        for (name, token) in [
            ("expired", expired(&token)),
            ("wrong", with_wrong_password(&token)),
        ] {
            let path = self.folder.path().join(name);
            let file = TokenFile::new([token]);
            file.write(path, TokenFileFormat::Writable).unwrap();
        }
        for format in ["writable", "protobuf"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_hbase-txn"));
            command.args(["token", "get", format, "--format", format, "--allow-unencrypted"]);
            command.envs(&self.cluster.status.environment);
            let command = command.env_remove("HBASE_TXN_CONNECT").current_dir(&self.folder);
            assert!(command.output().unwrap().status.success());
        }

        let (_, principal) = keytab_of(&self.cluster.config());
        let unknown = format!("alice/localhost@{}", principal.rsplit_once('@').unwrap().1);
        let unknown = [
            ("hbase.regionserver.kerberos.principal", unknown.as_str()),
            ("hbase.master.kerberos.principal", &unknown),
        ];
        let no_keytab = &[
            ("hbase.client.keytab.file", ""),
            ("hbase.client.keytab.principal", ""),
        ];
        let simple = [("hbase.security.authentication", "simple")];
        self.add("a keytab", &[], None, Ok("KERBEROS"));
        self.add(
            "no ticket",
            no_keytab,
            None,
            Err("no valid authentication method"),
        );
        self.add(
            "an unknown principal",
            &unknown,
            None,
            Err("Server not found in Kerberos"),
        );
        self.add("SIMPLE", &simple, None, Err("Connection closed"));
        for (what, file, expected) in [
            ("a token", "writable", Ok("TOKEN")),
            ("a token in protobuf", "protobuf", Ok("TOKEN")),
            ("an expired token", "expired", Err("Token has expired")),
            ("a wrong password", "wrong", Err("Mismatched response")),
        ] {
            self.add(what, no_keytab, Some(file), expected);
        }
    }

    fn add_tls(&mut self) {
        let method = match self.cluster.config().kerberos() {
            Some(_) => "KERBEROS",
            None => "SIMPLE",
        };
        let trust = fixtures().join("trust.p12").display().to_string();
        let untrusted = [
            ("hbase.rpc.tls.truststore.location", trust.as_str()),
            ("hbase.rpc.tls.truststore.password", PASSWORD),
        ];
        let plaintext = [("hbase.client.netty.tls.enabled", "false")];
        self.add("TLS", &[], None, Ok(method));
        self.add(
            "an unknown issuer",
            &untrusted,
            None,
            Err("PKIX path building failed"),
        );
        self.add("no TLS", &plaintext, None, Err("Connection closed"));
    }
}

impl Attempt {
    /// Connects with this client. Returns the user and the authentication as the server knows them.
    async fn run(&self) -> Result<String, hbase_txn::client::Failure<ClientErrorKind>> {
        let mut config = Config::from_conf_dir(&self.folder)?;
        if let Some(file) = &self.token_file {
            config = config.with_kerberos(None).with_token_file(file)?;
        }
        let is_simple = config.kerberos().is_none() && config.delegation_tokens().is_empty();
        let connection = connect(config).await?;
        connection.table("hbase:meta")?.get(Get::new("a")).await?;
        if is_simple {
            return Ok("SIMPLE".to_owned());
        }
        let (user, method) = who_am_i(&connection).await?;
        Ok(format!("{user} {method}"))
    }
}

#[tokio::test]
async fn java_is_accepted_and_refused_alike() {
    let is_guarded = |cluster: &Cluster| has_tls(cluster) || cluster.status.ports.contains_key("kdc");
    on_those(is_guarded, "--kerberos", async |cluster| {
        let mut attempts = Attempts {
            cluster,
            folder: tempfile::tempdir().unwrap(),
            all: Vec::new(),
        };
        if cluster.status.ports.contains_key("kdc") {
            attempts.add_kerberos().await;
        }
        if has_tls(cluster) {
            attempts.add_tls();
        }
        let files = attempts.all.iter().map(|attempt| {
            let site = attempt.folder.join("hbase-site.xml");
            (site, attempt.token_file.clone())
        });
        let files: Vec<_> = files.collect();
        let krb5_conf = cluster.status.environment.get("KRB5_CONFIG");
        let by_java = logins(&files, krb5_conf.map(String::as_str)).await;
        for (attempt, java) in attempts.all.iter().zip(by_java) {
            let ours = attempt.run().await;
            let what = format!("{}: ours {ours:?}, Java's {java:?}", attempt.what);
            match (attempt.expected, ours, java) {
                (Ok(method), Ok(ours), Ok(java)) => assert!(ours == java && ours.ends_with(method), "{what}"),
                (Err(cause), Err(_), Err(java)) => assert!(java.contains(cause), "{what}"),
                _ => panic!("{what}"),
            }
        }
    })
    .await;
}
