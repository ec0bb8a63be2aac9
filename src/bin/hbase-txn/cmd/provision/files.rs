//! The files of a command line, read before anything is sent.

use std::{collections::BTreeMap, path::PathBuf};

use hbase_txn::{
    Connection, ErrorKind,
    provision::{Plan, TableFile},
};

use crate::exit::Failure;

/// Reads all files. What is wrong with any of them is told for all of them.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<TableFile>, Failure> {
    let (mut files, mut wrong, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    let mut of_table = BTreeMap::new();
    for path in paths {
        match TableFile::read(path) {
            Ok(file) => {
                if let Some(first) = of_table.insert(file.name().clone(), path) {
                    wrong.push(format!(
                        "{}: table {} is described by {} already",
                        path.display(),
                        file.name(),
                        first.display()
                    ));
                }
                files.push(file);
            }
            Err(error) if error.kind() == ErrorKind::InvalidInput => wrong.push(error.to_string()),
            Err(error) => missing.push(error.to_string()),
        }
    }
    match (wrong.is_empty(), missing.is_empty()) {
        (true, true) => Ok(files),
        (false, true) => Err(Failure::Unparsable(wrong.join("\n"))),
        _ => Err(Failure::Refused([missing, wrong].concat().join("\n"))),
    }
}

/// Plans all files, one after the other.
pub(super) async fn planned(
    connection: &Connection,
    files: &[TableFile],
    allow_data_loss: bool,
) -> Result<Vec<Plan>, Failure> {
    let mut plans = Vec::new();
    for file in files {
        let plan = Plan::read(connection, file).await?;
        plans.push(match allow_data_loss {
            true => plan.allow_data_loss(),
            false => plan,
        });
    }
    Ok(plans)
}
