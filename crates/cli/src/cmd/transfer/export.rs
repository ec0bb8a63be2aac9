//! `hbase-txn export`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use clap::Args;
use hbase_txn::{admin::Admin, client::TableName};
use serde::Serialize;

use super::{
    exporter::{Exporter, Form},
    format::{Format, FormatOptions},
    json::RowForm,
    part::Part,
    partial::{Partial, State},
};
use crate::{
    cmd::{
        lock::signals::Signals,
        rows::{Range, Selection},
        table::regions_at_once::regions_at_once,
        whole_file,
    },
    exit::{Exit, Failure, Outcome},
    global::{self, Global},
    output::{self, Lines},
    progress::Progress,
    values::{self, Ranged},
};

/// Export rows to a file
///
/// The file can be imported. It has the cells that this user may read, by default the newest version of
/// each column. There is no limit by default. Rows of several regions are read at different times, so an
/// export is not a snapshot. FILE is replaced at the end, as a whole; an export that stops early leaves
/// FILE.partial, and --resume continues it. Deletes, visibility labels and ACLs are not exported: a cell
/// with a label or an ACL ends the export with an error. This toolkit's cells in the families _txn,
/// _version and _lock are exported only if the family is named.
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
    /// Leave the timestamps out of JSON, so that imported cells get the server's time
    #[arg(long, conflicts_with_all = ["versions", "all_versions", "columns"])]
    without_timestamps: bool,
    /// Export also cells with a visibility label or an ACL, but without it: more users may read the copy
    #[arg(long)]
    without_access_rules: bool,
    /// Number of regions to read concurrently, 1 to 64; if more than 1, only rows of one region are in order
    #[arg(long, value_name = "N", default_value = "1", allow_hyphen_values = true, value_parser = values::whole::<usize>)]
    #[arg(conflicts_with = "limit")]
    regions_at_once: Ranged<usize>,
    /// Continue an export to FILE that has stopped early, with the same options
    #[arg(long, conflicts_with = "limit")]
    resume: bool,
}

const EXAMPLE: &str = r#"Example: hbase-txn export orders rows.json --prefix xxx --all-versions

Each line is a row, {"row":"xxxabc","cells":[{"family":"f","qualifier":"q","timestamp":5,"value":"\\x00"}]}, in order. --column f:n:toLong writes the values of a column as numbers: "value":5,"value_type":"toLong". A cell with a lifetime of its own also has `ttl_ms`. A row that may need more than 64 MiB is several lines, because an import reads no longer ones. A single cell that needs more ends the export with an error.

Example: hbase-txn export orders rows.tsv --columns HBASE_ROW_KEY,HBASE_TS_KEY,f:q,f:n:toLong

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

impl Export {
    pub(crate) async fn run(mut self, global: &Global) -> Outcome {
        let file = self.file.take().filter(|file| file != Path::new("-"));
        let format = self.format.format(file.as_deref(), false)?;
        self.select(&format)?;
        let regions_at_once = regions_at_once(&self.regions_at_once)?;
        let mut signals = Signals::listen()?;
        let (partial, state) = match &file {
            Some(file) => {
                whole_file::check(file)?;
                let (partial, state) = Partial::open(file, self.request(&format), self.resume)?;
                (Some(partial), state)
            }
            None if self.resume => {
                return Err(Failure::Unparsable(
                    "--resume: stdout can't be continued; export to a file".to_owned(),
                ));
            }
            None => (None, State::default()),
        };
        let (lines, progress) = match &partial {
            Some(partial) => (
                Lines::to(partial.writer()?, &partial.path().display().to_string()),
                Some(Progress::of_long_work()),
            ),
            None => (Lines::new(), Progress::of_long_output()),
        };
        let form = Form {
            format,
            row: RowForm {
                with_timestamps: !self.without_timestamps,
                value_types: self.cells.value_types(),
            },
            with_access_rules: !self.without_access_rules,
        };
        let (name, is_resumable) = (self.table.clone(), !self.range.has_limit());
        let mut exporter = Exporter::new(form, lines, partial, state, progress);
        let exported = tokio::select! {
            biased;
            () = signals.ending() => Err(Failure::Interrupted),
            exported = self.export(global, regions_at_once, &mut exporter) => exported,
        };
        let state = exporter.finish(exported, is_resumable)?;
        let without_access_rules = (state.without_access_rules > 0).then_some(state.without_access_rules);
        if let Some(cells) = without_access_rules {
            let cells = output::counted(count(cells), "cell");
            output::complain(&format!(
                "hbase-txn: {cells} exported without their visibility label or ACL"
            ));
        }
        if let Some(file) = &file {
            let summary = Summary {
                table: name.to_string(),
                rows: state.rows,
                file,
                without_access_rules,
            };
            match global.output {
                global::Format::Json => output::json(&summary)?,
                global::Format::Table => output::line(&summary.text())?,
            }
        }
        Ok(Exit::Done)
    }

    /// Returns a text of the table and of all options that determine the rows and their form.
    fn request(&self, format: &Format) -> String {
        let form = (self.without_timestamps, self.without_access_rules);
        format!(
            "{} {format:?} {:?} {:?} {form:?}",
            self.table, self.range, self.cells
        )
    }

    /// Selects the columns of TSV, and the versions.
    fn select(&mut self, format: &Format) -> Result<(), Failure> {
        let Format::Tsv(tsv) = format else {
            return Ok(());
        };
        if !self.cells.family.is_empty() || !self.cells.column.is_empty() {
            return Err(Failure::Unparsable(
                "--columns names the columns of TSV; leave --family and --column out".to_owned(),
            ));
        }
        if self.cells.formatter.is_some() {
            return Err(Failure::Unparsable(
                "the types of TSV are part of --columns, such as f:n:toLong; leave --formatter out"
                    .to_owned(),
            ));
        }
        if self.cells.versions()?.is_some() && !tsv.columns.has_timestamp() {
            return Err(Failure::Unparsable(
                "several versions need a timestamp: add HBASE_TS_KEY to --columns".to_owned(),
            ));
        }
        self.cells.column = tsv.columns.of_cells().cloned().collect();
        Ok(())
    }

    async fn export(
        self,
        global: &Global,
        regions_at_once: usize,
        exporter: &mut Exporter,
    ) -> Result<(), Failure> {
        let connection = global.connect().await?;
        if exporter.is_new() {
            let mut keys = BTreeSet::new();
            // Without order, each region is a part, so that several are read at once.
            if regions_at_once > 1 {
                let regions = Admin::new(&connection).regions(self.table.clone()).await?;
                let starts = regions.into_iter().map(|found| found.region.start_key);
                keys = starts.filter(|key| self.range.is_divided_by(key)).collect();
            }
            exporter.begin(Part::between(keys));
        }
        // What is read once need not replace what others read often.
        let scan = self.range.scan(self.cells)?.cache_blocks(false);
        // For lifetimes, which TSV has not, and for access rules.
        let table = connection.table(self.table)?.with_expiry();
        exporter.run(&table, &scan, regions_at_once).await
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
