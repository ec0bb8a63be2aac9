//! The files of a command line, read before any call to a server.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use hbase_provision::{Plan, TableFile};
use hbase_txn::{ClientErrorKind, client::Connection};

use tokio::io::{AsyncReadExt, stdin};

use crate::exit::Failure;

/// The name of stdin in errors.
const STDIN: &str = "stdin";

/// Reads all files, and reports the mistakes of all of them.
pub(super) async fn read(paths: &[PathBuf]) -> Result<Vec<TableFile>, Failure> {
    let (mut files, mut wrong, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    let mut of_table = BTreeMap::new();
    if paths.iter().filter(|path| is_stdin(path)).count() > 1 {
        return Err(Failure::Unparsable(
            "- is given twice; stdin is one file".to_owned(),
        ));
    }
    for path in paths {
        let read = if is_stdin(path) {
            TableFile::parse(STDIN, whole_stdin().await?)
        } else {
            TableFile::read(path)
        };
        match read {
            Ok(file) => {
                if let Some(first) = of_table.insert(file.name().clone(), file.place().to_owned()) {
                    wrong.push(format!(
                        "{}: table {} is described by {first} already",
                        file.place(),
                        file.name(),
                    ));
                }
                files.push(file);
            }
            Err(error) if error.kind() == ClientErrorKind::InvalidInput => wrong.push(error.to_string()),
            Err(error) => missing.push(error.to_string()),
        }
    }
    match (wrong.is_empty(), missing.is_empty()) {
        (true, true) => Ok(files),
        (false, true) => Err(Failure::Unparsable(wrong.join("\n"))),
        _ => Err(Failure::Refused([missing, wrong].concat().join("\n"))),
    }
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Reads stdin, at most one byte more than a table file may have.
async fn whole_stdin() -> Result<Vec<u8>, Failure> {
    let mut contents = Vec::new();
    let read = stdin()
        .take(TableFile::MAX_SIZE as u64 + 1)
        .read_to_end(&mut contents)
        .await;
    match read {
        Ok(_) => Ok(contents),
        Err(error) => Err(Failure::Refused(format!("{STDIN} can't be read: {error}"))),
    }
}

/// Plans all files, one after the other.
pub(super) async fn planned(
    connection: &Connection,
    files: &[TableFile],
    allowed_losses: &[String],
) -> Result<Vec<Plan>, Failure> {
    let mut plans = Vec::new();
    for file in files {
        let plan = Plan::read(connection, file).await?;
        plans.push(allowed_losses.iter().fold(plan, Plan::allow_data_loss));
    }
    Ok(plans)
}
