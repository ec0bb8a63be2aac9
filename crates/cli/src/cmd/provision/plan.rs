//! `hbase-txn provision plan`.

use std::{fmt, path::PathBuf};

use clap::Args;
use hbase_provision::{Change, ChangeKind};

use super::{files, show};
use crate::{
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
};

/// Show the changes that would make the cluster match the table files
///
/// Lines with + are added, with - removed, with ~ changed, with ! refused. The last line counts the
/// tables. Exit status: 0 if all changes can be applied or there are none, 3 if any is refused, 2 if a
/// file is not a table file, 1 if the plan failed, such as for a cluster that does not answer.
///
/// With --detailed-exitcode: 0 if there are no changes, 2 if there are changes that can be applied, 3
/// if any is refused, 1 in all other cases; a command line that can't be parsed always exits with 2.
///
/// In JSON each change, refusal and note is an object with the key `change`, `refused` or `note`;
/// without changes there are none. Nothing is changed. See schemas/tables for files.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn provision plan schemas/tables/orders.toml")]
pub(crate) struct Plan {
    /// Table files; - for stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Plan for an apply with this permission to lose data, as a refusal names it; may be repeated
    #[arg(long, value_name = "LOSS")]
    allow_data_loss: Vec<String>,
    /// Exit with 2 if there are changes
    #[arg(long)]
    detailed_exitcode: bool,
    /// Refuse each attribute of a table or a family, and each setting of a family's CONFIGURATION, that is
    /// set on the cluster and not in the file; other tables are not compared
    #[arg(long)]
    strict: bool,
}

impl Plan {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.print(global).await {
            Err(Failure::Unparsable(why)) if self.detailed_exitcode => Err(Failure::Refused(why)),
            outcome => outcome,
        }
    }

    async fn print(&self, global: &Global) -> Outcome {
        let files = files::read(&self.files).await?;
        let connection = global.connect().await?;
        let plans = files::planned(&connection, &files, &self.allow_data_loss).await?;
        let plans: Vec<_> = if self.strict {
            plans.into_iter().map(hbase_provision::Plan::strict).collect()
        } else {
            plans
        };
        for plan in &plans {
            show::plan(plan, global.output)?;
        }
        let counts = Counts::of(&plans);
        if global.output == Format::Table {
            output::line(&counts.to_string())?;
        }
        Ok(match counts {
            Counts { refused: 1.., .. } => Exit::NotMet,
            Counts {
                create: 0, alter: 0, ..
            } => Exit::Done,
            _ if self.detailed_exitcode => Exit::Differs,
            _ => Exit::Done,
        })
    }
}

/// The numbers of tables by what becomes of them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    create: usize,
    alter: usize,
    refused: usize,
    unchanged: usize,
}

impl Counts {
    fn of(plans: &[hbase_provision::Plan]) -> Self {
        let mut counts = Self::default();
        for plan in plans {
            let creates = |change: &Change| change.change == ChangeKind::CreateTable;
            let count = match (plan.refusals().is_empty(), plan.changes()) {
                (false, _) => &mut counts.refused,
                (true, []) => &mut counts.unchanged,
                (true, changes) if changes.iter().any(creates) => &mut counts.create,
                (true, _) => &mut counts.alter,
            };
            *count += 1;
        }
        counts
    }
}

/// `3 to create, 2 to alter, 1 refused`
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.create, "to create"),
            (self.alter, "to alter"),
            (self.refused, "refused"),
            (self.unchanged, "unchanged"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(&counts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_shown_where_they_are_not_zero() {
        let counts = Counts {
            create: 3,
            refused: 1,
            ..Counts::default()
        };
        assert_eq!(counts.to_string(), "3 to create, 1 refused");
    }
}
