//! Users as whom HBase's own Java client connects.

use std::{io::Write, path::PathBuf};

use serde_json::json;
use tempfile::NamedTempFile;
use tokio::{task::spawn_blocking, time::timeout};

use super::{PATIENCE, build, program};

/// Connects with HBase's own client by each of these files `hbase-site.xml`, with the tokens of a file
/// if there is one. Returns the user and the authentication as the server knows them, with SIMPLE no
/// user, or the stack trace. `krb5_conf` is the configuration of Kerberos.
pub async fn logins(
    attempts: &[(PathBuf, Option<PathBuf>)],
    krb5_conf: Option<&str>,
) -> Vec<Result<String, String>> {
    let built = spawn_blocking(build::build).await.unwrap();
    let mut requests = NamedTempFile::new().unwrap();
    for (site, tokens) in attempts {
        let request = json!([site, tokens.clone().unwrap_or_default()]);
        writeln!(requests, "{request}").unwrap();
    }
    let mut command = program(&built, "hbasetxn.Login");
    if let Some(conf) = krb5_conf {
        command.env("JDK_JAVA_OPTIONS", format!("-Djava.security.krb5.conf={conf}"));
    }
    let output = command
        .env("KRB5CCNAME", "/no/such/cache")
        .stdin(requests.reopen().unwrap())
        .kill_on_drop(true)
        .output();
    let output = timeout(PATIENCE, output).await;
    let output = output.expect("the Java program hangs").unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<_> = answers
        .lines()
        .map(|answer| match serde_json::from_str::<Vec<String>>(answer) {
            Ok(parts) => parts,
            Err(error) => panic!("{error}: {answer}"),
        })
        .map(|parts| match &parts[..] {
            [user] => Ok(user.clone()),
            _ => Err(parts.concat()),
        })
        .collect();
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(answers.len(), attempts.len(), "the Java program failed:\n{log}");
    answers
}
