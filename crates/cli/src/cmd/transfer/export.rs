//! `hbase-txn export`.

use std::{
    path::{Path, PathBuf},
    pin::pin,
    task::Poll,
    time::Instant,
};

use clap::Args;
use futures::poll;
use hbase_txn::{BytesBinary, ResultScanner, Row, TableName};
use serde::Serialize;

use super::format::{Format, FormatOptions};
use crate::{
    cmd::{
        lock::signals::Signals,
        rows::{Range, Selection},
        whole_file::{self, NewFile},
    },
    exit::{Exit, Failure, Outcome},
    global::{self, Global},
    output::{self, Lines},
    progress::Progress,
    values::{Column, Ranged},
};

/// Export rows to a file
///
/// The file can be imported. It has the cells that this user may read, by default the newest version of
/// each column. There is no limit by default. Rows of several regions are read at different times, so an
/// export is not a snapshot. FILE is replaced at the end, as a whole. Deletes, visibility labels and ACLs
/// are not exported: a cell with a label or an ACL ends the export with an error. This toolkit's cells in
/// the families _txn, _version and _lock are exported only if the family is named.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Export {
    /// Table, with its namespace if it has one
    table: TableName,
    /// File to write; - for stdout [default: -]
    file: Option<PathBuf>,
    #[command(flatten)]
    format: FormatOptions,
    #[command(flatten)]
    range: Range,
    #[command(flatten)]
    cells: Selection,
    /// All versions of each column
    #[arg(long, conflicts_with = "versions")]
    all_versions: bool,
    /// Leave the timestamps out of JSON, so that imported cells get the server's time
    #[arg(long, conflicts_with_all = ["versions", "all_versions", "columns"])]
    without_timestamps: bool,
    /// Export also cells with a visibility label or an ACL, but without it: more users may read the copy
    #[arg(long)]
    without_access_rules: bool,
}

const EXAMPLE: &str = r#"Example: hbase-txn export orders rows.json --prefix xxx --all-versions

Each line is a row, {"row":"xxxabc","cells":[{"family":"f","qualifier":"q","timestamp":5,"value":"\\x00"}]}, in order. A cell with a lifetime of its own also has `ttl_ms`. A row that may need more than 64 MiB is several lines, because an import reads no longer ones. A single cell that needs more ends the export with an error.

Example: hbase-txn export orders rows.tsv --columns HBASE_ROW_KEY,HBASE_TS_KEY,f:q,f:r

With HBASE_TS_KEY each timestamp of a row is a line of its own; without it a row is a line with the newest values. \N is a column without a cell. Bytes are written as in HBase's shell, \xNN. TSV has no lifetimes."#;

/// The result of an export. The keys and their order are fixed.
#[derive(Serialize)]
struct Summary<'a> {
    table: String,
    rows: u64,
    file: &'a Path,
    /// The number of cells that are exported without their visibility label or ACL.
    #[serde(skip_serializing_if = "Option::is_none")]
    without_access_rules: Option<u64>,
}

/// Where rows go, and in which form.
struct Target {
    lines: Lines,
    format: Format,
    with_timestamps: bool,
    /// Whether cells are written without their visibility expression or ACL.
    without_access_rules: bool,
    /// The number of such cells.
    had_access_rules: u64,
    rows: u64,
    started: Instant,
    progress: Option<Progress>,
}

impl Export {
    pub(crate) async fn run(mut self, global: &Global) -> Outcome {
        let file = self.file.take().filter(|file| file != Path::new("-"));
        let format = self.format.format(file.as_deref(), false)?;
        self.select(&format)?;
        let mut signals = Signals::listen()?;
        let new_file = match &file {
            Some(file) => {
                whole_file::check(file)?;
                Some(NewFile::create(file)?)
            }
            None => None,
        };
        let (lines, progress) = match (&new_file, &file) {
            (Some(new_file), Some(file)) => {
                let lines = Lines::to(new_file.writer()?, &file.display().to_string());
                (lines, Progress::on_a_terminal())
            }
            _ => (Lines::new(), Progress::beside_output()),
        };
        let mut target = Target {
            lines,
            format,
            with_timestamps: !self.without_timestamps,
            without_access_rules: self.without_access_rules,
            had_access_rules: 0,
            rows: 0,
            started: Instant::now(),
            progress,
        };
        let name = self.table.clone();
        let exported = tokio::select! {
            biased;
            () = signals.ending() => Err(Failure::Interrupted),
            exported = self.export(global, &mut target) => exported,
        };
        if let Some(progress) = &target.progress {
            progress.finish();
        }
        // Rows that were read are printed even if an error follows.
        let flushed = target.lines.flush();
        exported?;
        flushed?;
        if target.had_access_rules > 0 {
            let cells = output::counted(count(target.had_access_rules), "cell");
            output::complain(&format!(
                "hbase-txn: {cells} exported without their visibility label or ACL"
            ));
        }
        if let (Some(new_file), Some(file)) = (new_file, &file) {
            new_file.replace()?;
            let summary = Summary {
                table: name.to_string(),
                rows: target.rows,
                file,
                without_access_rules: (target.had_access_rules > 0).then_some(target.had_access_rules),
            };
            match global.output {
                global::Format::Json => output::json(&summary)?,
                global::Format::Table => output::line(&summary.text())?,
            }
        }
        Ok(Exit::Done)
    }

    /// Selects the columns of TSV, and the versions.
    fn select(&mut self, format: &Format) -> Result<(), Failure> {
        if self.all_versions {
            let all = i32::MAX.unsigned_abs().into();
            self.cells.versions = Some(Ranged::new("", Some(all)));
        }
        let Format::Tsv(tsv) = format else {
            return Ok(());
        };
        if !self.cells.family.is_empty() || !self.cells.column.is_empty() {
            return Err(Failure::Unparsable(
                "--columns names the columns of TSV; leave --family and --column out".to_owned(),
            ));
        }
        if self.cells.versions.is_some() && !tsv.columns.has_timestamp() {
            return Err(Failure::Unparsable(
                "several versions need a timestamp: add HBASE_TS_KEY to --columns".to_owned(),
            ));
        }
        self.cells.column = tsv.columns.of_cells().cloned().collect::<Vec<Column>>();
        Ok(())
    }

    async fn export(self, global: &Global, target: &mut Target) -> Result<(), Failure> {
        let scan = self.range.scan(self.cells)?;
        let table = global.connect().await?.table(self.table)?;
        // For lifetimes, which TSV has not, and for access rules.
        let table = table.with_expiry();
        target.write(&mut table.scan(scan)?).await
    }
}

impl Target {
    async fn write(&mut self, scanner: &mut ResultScanner) -> Result<(), Failure> {
        loop {
            let mut next = pin!(scanner.next());
            let next = match poll!(next.as_mut()) {
                Poll::Ready(next) => next,
                Poll::Pending => {
                    // Rows that have arrived are written before others are fetched.
                    self.lines.flush()?;
                    self.show();
                    next.await
                }
            };
            let Some(row) = next? else {
                return Ok(());
            };
            self.check_access_rules(&row)?;
            self.format.write(&mut self.lines, &row, self.with_timestamps)?;
            self.rows += 1;
            // A fast server always has the next row.
            if self.rows.is_multiple_of(1_000) {
                self.show();
            }
        }
    }

    /// Refuses a cell with access rules, unless it is to be written without them.
    fn check_access_rules(&mut self, row: &Row) -> Result<(), Failure> {
        let mut found = row.cells().iter().filter(|cell| cell.has_access_rules());
        if self.without_access_rules {
            self.had_access_rules += found.count() as u64;
            return Ok(());
        }
        match found.next() {
            None => Ok(()),
            Some(cell) => Err(Failure::Refused(format!(
                "cannot export row {}: its cell {}:{} has a visibility label or an ACL, which a file does not keep, so \
                 more users could read the copy; --without-access-rules exports such cells all the same",
                BytesBinary(row.key()),
                BytesBinary(&cell.family),
                BytesBinary(&cell.qualifier)
            ))),
        }
    }

    fn show(&self) {
        if let Some(progress) = &self.progress {
            let seconds = self.started.elapsed().as_secs_f64().max(0.001);
            let rate = self.rows as f64 / seconds;
            progress.step(&format!("{} rows, {rate:.0} rows/s", self.rows));
        }
    }
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl Summary<'_> {
    fn text(&self) -> String {
        format!(
            "{}: {} exported to {}",
            self.table,
            output::counted(count(self.rows), "row"),
            self.file.display()
        )
    }
}
