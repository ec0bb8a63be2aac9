//! What HBase's own Java client reads in files `hbase-site.xml`.

use std::{collections::BTreeMap, path::PathBuf};

use tokio::{task::spawn_blocking, time::timeout};

use super::{PATIENCE, build, program};

/// Returns the settings of each file, or why Java refuses it.
pub async fn configurations(files: &[PathBuf]) -> Vec<Result<BTreeMap<String, String>, String>> {
    let built = spawn_blocking(build::build).await.unwrap();
    let output = program(&built, "hbasetxn.Configurations")
        .args(files)
        .kill_on_drop(true)
        .output();
    let output = timeout(PATIENCE, output).await;
    let output = output.expect("the Java program hangs").unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<_> = answers
        .lines()
        .map(|line| {
            let mut found: BTreeMap<String, String> = serde_json::from_str(line).unwrap();
            found.remove("error").map_or(Ok(found), Err)
        })
        .collect();
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(answers.len(), files.len(), "the Java program failed:\n{log}");
    answers
}
