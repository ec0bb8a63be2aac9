//! `hbase-txn latch delete`.

use clap::Args;
use serde::Serialize;

use super::which::{LatchUse, Which};
use crate::{
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
};

/// Delete a latch and its notes
///
/// Waiting clients are notified that it is absent.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Delete {
    #[command(flatten)]
    which: Which,
}

const EXAMPLE: &str = r#"Example: hbase-txn latch delete latches nightly --farm fra --client billing --output json answers

{"latch":"DC#fra#billing#nightly","deleted":true}

`deleted` is false if there was nothing to delete. At level xdc the counts of all farms are deleted.

Exit status: 0, also if there was nothing; 1 refused or failed."#;

#[derive(Serialize)]
struct Deleted {
    latch: String,
    deleted: bool,
}

impl Delete {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let named = self.which.named(LatchUse::Read)?;
        let deleted = named.open(global).await?.delete().await?;
        let latch = named.key();
        match global.output {
            Format::Json => output::json(&Deleted { latch, deleted })?,
            Format::Table => {
                let what = if deleted {
                    "deleted"
                } else {
                    "there was nothing to delete"
                };
                output::line(&format!("{latch}: {what}"))?;
            }
        }
        Ok(Exit::Done)
    }
}
