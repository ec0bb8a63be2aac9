//! `hbase-txn provision apply`.

use std::{io, path::PathBuf, sync::Mutex};

use clap::Args;
use hbase_provision::{Applied, ApplyStep, ApplyWatcher, Plan};
use hbase_txn::client::{Connection, TableName};
use serde::Serialize;

use super::{files, show};
use crate::{
    change_log,
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    hints, output,
    progress::Progress,
};

/// Create and change tables as table files describe them
///
/// Plans all files first, and changes nothing if one of them is refused. Does not ask. Then, table by
/// table, prints the changes, creates or changes the table, reads it back, and queries the endpoint of
/// each region. Prints each step. After an interruption, run it again for the remaining steps; it
/// reports if nothing is left.
///
/// A change reopens the regions of its table, all at once unless the master has
/// `hbase.reopen.table.regions.progressive.batch.size.max`. Each step may take --timeout, and 100 ms for
/// each region that it opens or reopens.
///
/// Exit status: 0 all tables are as planned and verified, 3 a change is refused and nothing was done, 1 a
/// change failed, or can't be verified because the table is disabled, 2 a file is not a table file.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn provision apply schemas/tables/orders.toml --timeout 10m")]
pub(crate) struct Apply {
    /// Table files; - for stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also make this change, which loses data, as its refusal names it: TABLE:FAMILY for a dropped family,
    /// TABLE:FAMILY:ATTRIBUTE for a lowered setting; may be repeated
    #[arg(long, value_name = "LOSS")]
    allow_data_loss: Vec<String>,
    /// Also set the attribute hbase-txn.last-change of each table that is created or changed: time, user
    /// and host
    #[arg(long)]
    sign: bool,
}

impl Apply {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let files = files::read(&self.files).await?;
        global.name_cluster()?;
        let connection = global.connect().await?;
        let plans = files::planned(&connection, &files, &self.allow_data_loss).await?;
        let plans = signed(plans, self.sign, &connection).await?;
        apply(global, &connection, plans).await
    }
}

/// Signs plans with the time, the user and the host, if `sign` is set.
pub(in crate::cmd) async fn signed(
    plans: Vec<Plan>,
    sign: bool,
    connection: &Connection,
) -> Result<Vec<Plan>, Failure> {
    if !sign {
        return Ok(plans);
    }
    let signature = change_log::signature(connection).await?;
    Ok(plans.into_iter().map(|plan| plan.sign(&signature)).collect())
}

/// Applies plans one after the other, unless any of them is refused.
pub(in crate::cmd) async fn apply(global: &Global, connection: &Connection, plans: Vec<Plan>) -> Outcome {
    let refused: Vec<String> = plans
        .iter()
        .flat_map(|plan| plan.refusals())
        .map(|refusal| refusal.to_string())
        .collect();
    if !refused.is_empty() {
        for refusal in refused {
            Failure::Refused(format!("nothing was done: {refusal}")).report();
        }
        return Ok(Exit::NotMet);
    }
    let mut exit = Exit::Done;
    let mut plans = plans.into_iter();
    while let Some(plan) = plans.next() {
        let table = plan.table().clone();
        if !plan.changes().is_empty() {
            show::plan(&plan, global.output)?;
        }
        let reporter = Reporter::new(global.output);
        let applied = plan.apply(connection, &reporter).await;
        let printed = reporter.finish();
        // Its own failure says more than that of the output.
        let applied = applied.map_err(|error| Failure::Library(hints::with_check(error)));
        match applied.and_then(|applied| printed.map(|()| applied)) {
            Ok(applied) => exit = exit.or_graver(print_end(&table, applied, global.output)?),
            Err(failure) => {
                exit = exit.or_graver(failure.report());
                let others: Vec<_> = plans.map(|plan| plan.table().to_string()).collect();
                if !others.is_empty() {
                    output::complain(&format!("hbase-txn: not started: {}", others.join(", ")));
                }
                break;
            }
        }
    }
    Ok(exit)
}

/// Prints the result of a table's application.
fn print_end(table: &TableName, applied: Applied, format: Format) -> Outcome {
    if applied.changed && !applied.exclusive {
        output::complain(&format!(
            "hbase-txn: {table}: a concurrent change of another process may be lost: the lock on changes needs ADMIN or \
             CREATE on the namespace, and the user has neither"
        ));
    }
    if applied.disabled {
        output::complain(&format!(
            "hbase-txn: {table}: the table is as planned but disabled, so it can't be verified; enable it with \
             hbase-txn table enable {table}, and apply again"
        ));
        return Ok(Exit::Failed);
    }
    if format == Format::Table && !applied.changed {
        output::line(&format!("{table}: nothing to change"))?;
    }
    Ok(Exit::Done)
}

/// Prints each step when it is done, and shows the current one on a terminal.
struct Reporter {
    format: Format,
    progress: Option<Progress>,
    /// The error of the output, which does not stop the application.
    failure: Mutex<Option<io::Error>>,
}

#[derive(Serialize)]
struct Done<'a> {
    table: String,
    done: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    regions: Option<usize>,
}

impl Reporter {
    fn new(format: Format) -> Self {
        Self {
            format,
            progress: Progress::on_a_terminal(),
            failure: Mutex::default(),
        }
    }

    /// Fails if a step could not be printed.
    fn finish(self) -> Result<(), Failure> {
        if let Some(progress) = &self.progress {
            progress.finish();
        }
        let failure = self.failure.into_inner().unwrap_or_default();
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    fn print(&self, table: &TableName, step: ApplyStep) -> io::Result<()> {
        match self.format {
            Format::Table => output::line(&format!("{table}: {step}")),
            Format::Json => output::json(&Done {
                table: table.to_string(),
                done: step.name(),
                regions: step.regions(),
            }),
        }
    }
}

impl ApplyWatcher for Reporter {
    fn begins(&self, table: &TableName, step: ApplyStep) {
        if let Some(progress) = &self.progress {
            progress.step(&format!("{table}: {}", step.name()));
        }
    }

    fn done(&self, table: &TableName, step: ApplyStep) {
        let printed = match &self.progress {
            Some(progress) => progress.beside(|| self.print(table, step)),
            None => self.print(table, step),
        };
        if let (Err(error), Ok(mut failure)) = (printed, self.failure.lock()) {
            failure.get_or_insert(error);
        }
    }
}
