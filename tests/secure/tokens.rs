//! Delegation tokens: how a client obtains one, authenticates by it, and learns why it is refused.

use std::{process::Command, time::Duration};

use hbase_client::low_level::pb::TokenIdentifier;
use hbase_local::HBaseVersion;
use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{DelegationToken, Protection, TokenFile, TokenFileFormat},
};
use prost::Message;

use super::*;
use kerberos::protections;
use support::{
    table::{TestTable, recorded},
    value, within,
};

/// The limit of a call that fails. Most fail at once.
const DEADLINE: Duration = Duration::from_secs(8);

/// Obtains a token with the ticket of the configuration.
pub(super) async fn obtain(cluster: &Cluster) -> DelegationToken {
    let config = cluster.config().with_unencrypted_tokens(true);
    let connection = connect(config).await.unwrap();
    connection.delegation_token().await.unwrap()
}

/// Returns the settings of a client that has this token alone.
pub(super) fn by_token(config: Config, token: DelegationToken) -> Config {
    config.with_kerberos(None).with_delegation_tokens([token])
}

/// The parts of a token with less than 128 bytes each.
struct Parts {
    identifier: TokenIdentifier,
    password: Vec<u8>,
    cluster_id: String,
}

impl Parts {
    fn of(token: &DelegationToken) -> Self {
        let file = TokenFile::new([token.clone()]).to_bytes(TokenFileFormat::Writable);
        let mut rest = &file[b"HDTS\0\x01".len()..];
        let mut next = || {
            let (length, behind) = rest.split_first().unwrap();
            let (part, behind) = behind.split_at(usize::from(*length));
            rest = behind;
            part.to_vec()
        };
        let cluster_id = String::from_utf8(next()).unwrap();
        Self {
            identifier: TokenIdentifier::decode(&next()[4..]).unwrap(),
            password: next(),
            cluster_id,
        }
    }

    fn token(&self) -> DelegationToken {
        let identifier = self.identifier.encode_to_vec();
        let identifier = [&(identifier.len() as i32).to_be_bytes()[..], &identifier].concat();
        let mut file = b"HDTS\0\x01".to_vec();
        let service = self.cluster_id.as_bytes();
        for part in [service, &identifier, &self.password, b"HBASE_AUTH_TOKEN", service] {
            file.push(u8::try_from(part.len()).unwrap());
            file.extend(part);
        }
        file.push(0);
        TokenFile::from_bytes(&file).unwrap().tokens()[0].clone()
    }
}

/// Returns a token with other parts, which no server issued.
fn forged(token: &DelegationToken, change: impl FnOnce(&mut Parts)) -> DelegationToken {
    let mut parts = Parts::of(token);
    change(&mut parts);
    parts.token()
}

pub(super) fn with_wrong_password(token: &DelegationToken) -> DelegationToken {
    forged(token, |parts| parts.password[0] ^= 1)
}

pub(super) fn expired(token: &DelegationToken) -> DelegationToken {
    forged(token, |parts| parts.identifier.expiration_date = Some(1_000))
}

async fn refused(config: Config, kind: ClientErrorKind, parts: &[&str]) {
    let attempt = async {
        let connection = connect(config.with_operation_timeout(DEADLINE)).await?;
        who_am_i(&connection).await
    };
    let error = within(Duration::from_secs(3), attempt).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(!error.is_retryable(), "{error}");
    says(&error, parts);
}

#[tokio::test]
async fn token_is_requested_over_encrypted_connections_only() {
    on_kerberos(async |cluster| {
        for config in protections(cluster) {
            let is_encrypted = config.tls().is_some() || config.protection() == [Protection::Privacy];
            let connection = connect(config.clone()).await.unwrap();
            match connection.delegation_token().await {
                Ok(_) => assert!(is_encrypted, "{config:?}"),
                Err(error) => {
                    assert!(!is_encrypted, "{config:?}");
                    assert_eq!(error.kind(), ClientErrorKind::InvalidConfig, "{error}");
                    let parts = ["not encrypted", "hbase.rpc.protection", "--allow-unencrypted"];
                    says(&error, &parts);
                }
            }
            let config = config.with_unencrypted_tokens(true);
            connect(config).await.unwrap().delegation_token().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn token_authenticates_its_user_under_every_protection() {
    on_kerberos(async |cluster| {
        let token = obtain(cluster).await;
        let table = TestTable::create_on(cluster, "by_token", recorded, &["m"]).await;
        for (number, config) in protections(cluster).into_iter().enumerate() {
            let connection = connect(by_token(config, token.clone())).await.unwrap();
            let (user, method) = who_am_i(&connection).await.unwrap();
            assert_eq!(token.user().split('@').next(), Some(user.as_str()));
            assert_eq!(method, "TOKEN");
            let partitioned = table.open(&connection).await;
            let committed = transaction(&partitioned)
                .id(format!("id-{number}"))
                .commit()
                .await;
            assert!(committed.is_committed(), "{committed}");
            let rows = table.of(&connection);
            assert_eq!(value(&rows, "xxx2").await.as_deref(), Some("2"));
            Admin::new(&connection).cluster_info().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn large_requests_and_answers_are_whole_by_token() {
    on_kerberos(async |cluster| {
        let token = obtain(cluster).await;
        let table = TestTable::create_on(cluster, "large_by_token", support::table::plain, &[]).await;
        let configs = protections(cluster);
        // The short form has the strongest protection of each cluster.
        let skipped = if is_long() { 0 } else { configs.len() - 1 };
        for config in configs.into_iter().skip(skipped) {
            work::large(by_token(config, token.clone()), &table).await;
        }
    })
    .await;
}

#[tokio::test]
async fn first_common_protection_is_used_by_token() {
    on_kerberos(async |cluster| {
        let token = obtain(cluster).await;
        let all = [
            Protection::Privacy,
            Protection::Integrity,
            Protection::Authentication,
        ];
        let config = by_token(cluster.config(), token).with_protection(all);
        who_am_i(&connect(config.with_aes(false)).await.unwrap())
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test]
async fn no_common_protection_is_named_by_token() {
    let lacks_one = |cluster: &Cluster| {
        let config = cluster.config();
        config.kerberos().is_some() && config.protection().len() < 3
    };
    on_those(lacks_one, "--kerberos --protection privacy", async |cluster| {
        let token = obtain(cluster).await;
        let config = cluster.config();
        let offered = config.protection().to_vec();
        let missing = [
            Protection::Authentication,
            Protection::Integrity,
            Protection::Privacy,
        ]
        .into_iter()
        .find(|protection| !offered.contains(protection))
        .unwrap();
        let config = by_token(config.with_protection([missing]).with_aes(false), token);
        let kind = ClientErrorKind::AuthenticationFailed;
        refused(config, kind, &["no common protection", offered[0].name()]).await;
    })
    .await;
}

#[tokio::test]
async fn token_of_the_cluster_is_chosen_by_its_id() {
    on_kerberos(async |cluster| {
        let token = obtain(cluster).await;
        let other = forged(&token, |parts| parts.cluster_id = "other".to_owned());
        let config = cluster.config().with_kerberos(None);
        let both = config
            .clone()
            .with_delegation_tokens([other.clone(), token.clone()]);
        let (_, method) = who_am_i(&connect(both.clone()).await.unwrap()).await.unwrap();
        assert_eq!(method, "TOKEN");

        let kind = ClientErrorKind::AuthenticationFailed;
        let id = token.cluster_id();
        let only_other = config.with_delegation_tokens([other.clone()]);
        refused(only_other, kind, &[id, "but for other"]).await;
        let with_ticket = cluster.config().with_delegation_tokens([other]);
        let (_, method) = who_am_i(&connect(with_ticket).await.unwrap()).await.unwrap();
        assert_eq!(method, "KERBEROS");

        // By the registry of the servers. Before 2.6, and in 3.0.0-alpha-4, it does not report the id.
        let address = cluster.rpc_config().address().clone();
        let one = by_token(cluster.config(), token).with_address(address.clone());
        let (_, method) = who_am_i(&connect(one).await.unwrap()).await.unwrap();
        assert_eq!(method, "TOKEN");
        let both = both.with_address(address);
        if cluster.status.version == Some(HBaseVersion::V2_6) {
            who_am_i(&connect(both).await.unwrap()).await.unwrap();
        } else {
            refused(both, ClientErrorKind::InvalidConfig, &["several clusters"]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn refused_tokens_are_named_with_what_to_do() {
    on_kerberos(async |cluster| {
        let token = obtain(cluster).await;
        let realm = token.user().rsplit_once('@').unwrap().1;
        let other = format!("mallory@{realm}");
        let other_user = forged(&token, |parts| parts.identifier.username = other.into());
        let unknown_key = forged(&token, |parts| parts.identifier.key_id = 4711);
        for (token, reason, hint) in [
            (
                with_wrong_password(&token),
                "",
                "its password is wrong or altered",
            ),
            (other_user, "", "its password is wrong or altered"),
            (
                expired(&token),
                "Token has expired",
                "hbase.auth.token.max.lifetime",
            ),
            (unknown_key, "Unknown master key", "so old that its key is gone"),
        ] {
            let user = token.user().to_owned();
            let config = by_token(cluster.config(), token);
            let refusal = format!("refused the delegation token of {user}");
            let kind = ClientErrorKind::AuthenticationFailed;
            refused(config, kind, &[&refusal, reason, "obtain a new token", hint]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn token_that_is_written_to_the_file_later_is_used() {
    on_kerberos(async |cluster| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = obtain(cluster).await;
        let write = |token| {
            let file = TokenFile::new([token]);
            file.write(&path, TokenFileFormat::Protobuf).unwrap();
        };
        write(expired(&token));
        let config = cluster
            .config()
            .with_kerberos(None)
            .with_token_file(&path)
            .unwrap();
        let kind = ClientErrorKind::AuthenticationFailed;
        refused(config.clone(), kind, &["Token has expired"]).await;
        write(token);
        let (_, method) = who_am_i(&connect(config).await.unwrap()).await.unwrap();
        assert_eq!(method, "TOKEN");
    })
    .await;
}

#[tokio::test]
async fn token_issues_no_token() {
    on_kerberos(async |cluster| {
        let config = by_token(cluster.config(), obtain(cluster).await);
        let connection = connect(config.with_unencrypted_tokens(true)).await.unwrap();
        let error = connection.delegation_token().await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");
        says(&error, &["Kerberos ticket"]);
    })
    .await;
}

/// The command writes a file, and then runs by it without a ticket.
#[tokio::test]
async fn command_obtains_shows_and_uses_a_token_file() {
    on_kerberos(async |cluster| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let file = file.to_str().unwrap();
        // The keytab that the configuration names is not there.
        let site = client_site(cluster);
        let (keytab, _) = keytab_of(&cluster.config());
        let site = site.replace(&keytab, "/no/such.keytab");
        fs::write(folder.path().join("hbase-site.xml"), site).unwrap();
        let run = |with_token: bool, arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_hbase-txn"));
            command
                .args(arguments)
                .envs(&cluster.status.environment)
                .env_remove("HBASE_TXN_CONNECT");
            if with_token {
                command
                    .env("HBASE_CONF_DIR", folder.path())
                    .env("HADOOP_TOKEN_FILE_LOCATION", file);
            }
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{arguments:?}: {text}");
            String::from_utf8(output.stdout).unwrap()
        };
        for format in ["writable", "protobuf"] {
            let get = ["--output", "json", "token", "get", file, "--format", format];
            let got = run(false, &[&get[..], &["--allow-unencrypted"]].concat());
            let shown = run(true, &["--output", "json", "token", "show"]);
            assert_eq!(got, shown);
            let read = TokenFile::read(file).unwrap();
            let [token] = read.tokens() else {
                panic!("{read:?}");
            };
            assert!(shown.contains(token.user()) && shown.contains(token.cluster_id()));
            let password = Parts::of(token).password;
            for text in [&shown, &run(true, &["token", "show", file])] {
                assert!(!text.contains("password") && !holds(text, &password), "{text}");
            }
            run(true, &["table", "list"]);
        }
    })
    .await;
}

/// Returns whether a text contains these bytes, as they are or in hexadecimal.
fn holds(text: &str, bytes: &[u8]) -> bool {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text.contains(&hex) || text.as_bytes().windows(bytes.len()).any(|part| part == bytes)
}
