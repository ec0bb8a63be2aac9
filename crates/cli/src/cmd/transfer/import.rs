//! `hbase-txn import`.

use std::{
    fs, mem,
    path::{Path, PathBuf},
};

use clap::Args;
use hbase_client::WriterOptions;
use hbase_txn::client::TableName;
use serde::Serialize;

use super::{
    check::Check,
    checkpoint::{Checkpoint, State},
    families::Families,
    file_lock::{FileLock, beside},
    format::{self, FormatOptions},
    importer::Importer,
    rejects::{self, Rejects},
    settlement::{Settlement, Stop},
};
use crate::{
    cmd::{input_lines::InputLines, lock::signals::Signals, whole_file},
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    hints, output,
    values::{self, Ranged},
};

/// Import rows from a file
///
/// Lines are written in large calls; lines of one row in their order. A line that can't be parsed,
/// or that a server refuses, is written to the file of rejects with its number and the reason, and
/// the others are imported. A checkpoint beside FILE records how far the import is, and --resume
/// continues there. What deletes in the table hide stays hidden: --check counts it.
///
/// A table that is read-only, or does not have the families of --columns, is refused before the first line.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Import {
    /// Table, with its namespace if it has one
    table: TableName,
    /// File with the lines; - for stdin, which can't be resumed
    file: PathBuf,
    #[command(flatten)]
    format: FormatOptions,
    /// Take TSV fields as they are, without \xNN for bytes and \N for a column without a cell
    #[arg(long, requires = "columns")]
    raw: bool,
    /// Skip the first N lines of FILE, such as a header
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    skip: Ranged<u64>,
    /// Continue behind the last line that an earlier run has imported, if one has stopped early
    #[arg(long)]
    resume: bool,
    /// File that records how far the import is; removed at the end [default: FILE.checkpoint]
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// File for the lines that are not imported; replaced if it exists [default: FILE.rejects]
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Stop with an error when more lines than this are rejected [default: no limit]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    max_rejects: Option<Ranged<u64>>,
    /// Import nothing, but read the cells of FILE back, and count those that the table does not return
    #[arg(long, conflicts_with_all = ["resume", "checkpoint", "rejects", "max_rejects"])]
    check: bool,
}

const EXAMPLE: &str = r#"Example: hbase-txn import orders rows.json, with lines such as

{"row":"xxxabc","cells":[{"family":"f","qualifier":"q","value":"v"},{"family":"f","qualifier":"r","timestamp":5,"value":"\\x00"}]}
{"op":"delete","row":"xxx123","family":"f"}

A row is written as hbase-txn export and scan --output json print it; a cell may have `timestamp` and `ttl_ms`, both in milliseconds. A put or a delete is written as in a transaction of hbase-txn txn apply. Bytes are written as in HBase's shell, \xNN, which JSON spells "\\xNN".

Example: hbase-txn import orders rows.tsv --columns HBASE_ROW_KEY,f:q,f:r

A field of TSV is a row key, the timestamp of the line or a value. \N is a column without a cell; an empty field is an empty value.

A line of the file of rejects is {"line":7,"error":"…","text":"…"}, where `text` is the line; `bytes` replaces it if it is not UTF-8. Lines on stdin have no such file unless --rejects names it.

A line may be written twice: if its answer is lost, or if an import is resumed. Give cells timestamps if other clients write the same cells meanwhile.

A put with a timestamp is stored, but not visible, if the table has a delete marker of the same time or later, more newer versions than the family keeps, or a family whose lifetime is over. After the import, --check reads FILE again and counts the cells of its puts that the table does not return to this user: cells with a timestamp by that and their value, others by their value in any version. Cells that later lines replace or delete count, too.

Exit status: 0 all lines are imported; 1 the import stopped, or did not begin: run it again with --resume; 3 it is complete, but lines were rejected; 4 it is complete, but rejected lines may have been stored all the same. With --check: 0 all cells are visible, 1 the check failed, 3 cells are not visible, or lines can't be parsed."#;

/// The result of an import. The keys and their order are fixed.
#[derive(Serialize)]
struct Summary<'a> {
    table: String,
    outcome: &'static str,
    imported: u64,
    rejected: u64,
    /// The number of rejected lines that may have been stored all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<u64>,
    /// The last line that is done.
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rejects: Option<&'a Path>,
    /// The file that a resumed import reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<&'a Path>,
}

/// The input behind the lines that are imported, and the files beside it.
struct Source {
    lines: InputLines,
    state: State,
    checkpoint: Option<Checkpoint>,
    rejects: Option<PathBuf>,
    /// Held until the import ends.
    locks: Vec<FileLock>,
}

impl Import {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let max_rejects = self.max_rejects.as_ref().map(|most| most.get("--max-rejects"));
        let max_rejects = max_rejects.transpose()?;
        let file = (!is_stdin(&self.file)).then_some(&*self.file);
        let format = self.format.format(file, self.raw)?;
        let skip = self.skip.get("--skip")?;
        if self.check {
            return self.read_back(global, &format, skip).await;
        }
        let mut signals = Signals::listen()?;
        // A file that can't be read is reported before any call to a server.
        let mut source = tokio::select! {
            biased;
            () = signals.ending() => return Err(Failure::Interrupted),
            source = self.open(&format, skip) => source?,
        };
        let _locks = mem::take(&mut source.locks);
        let connection = tokio::select! {
            biased;
            () = signals.ending() => return Err(Failure::Interrupted),
            connection = global.connect() => connection?,
        };
        let table = connection.table(self.table.clone())?;
        let families = Families::read(&connection, &self.table).await?;
        if let (Some(families), format::Format::Tsv(tsv)) = (&families, &format) {
            let named = tsv.columns.of_cells().map(|typed| &typed.column.family);
            let checked = families.check(named);
            checked.map_err(|why| Failure::Refused(format!("--columns: {}: {why}", self.table)))?;
        }
        let (lines, settlement) = source.begin(max_rejects)?;
        // A resumed import writes lines again, too.
        let writer = table.writer(WriterOptions::new().at_least_once());
        let importer = Importer::new(lines, format, families, writer, settlement, signals);
        let (settlement, result) = importer.run().await;
        self.report(&settlement, result, global.output)
    }

    /// Reads the cells of the file back, and prints how many are not visible.
    async fn read_back(&self, global: &Global, format: &format::Format, skip: u64) -> Outcome {
        let lines = self
            .unpacked(InputLines::open(Some(&self.file)).await?)
            .await?
            .skip(skip);
        let mut signals = Signals::listen()?;
        let checked = async {
            let table = global.connect().await?.table(self.table.clone())?;
            Check::new(table).run(lines, format).await
        };
        let counts = tokio::select! {
            biased;
            () = signals.ending() => return Err(Failure::Interrupted),
            checked = checked => checked?,
        };
        match global.output {
            Format::Json => output::json(&counts)?,
            Format::Table => output::line(&counts.text())?,
        }
        Ok(counts.exit())
    }

    /// Opens the input, and locks the files beside it. Changes none of them.
    async fn open(&self, format: &format::Format, skip: u64) -> Result<Source, Failure> {
        let is_file = !is_stdin(&self.file) && fs::metadata(&self.file).is_ok_and(|found| found.is_file());
        if !is_file {
            let lines = InputLines::open(Some(&self.file)).await?.skip(skip);
            self.refuse_to_resume_a_pipe()?;
            if let Some(rejects) = &self.rejects {
                whole_file::check(rejects)?;
            }
            return Ok(Source {
                lines: self.unpacked(lines).await?,
                state: State::default(),
                checkpoint: None,
                rejects: self.rejects.clone(),
                locks: self
                    .rejects
                    .as_deref()
                    .map(lock)
                    .into_iter()
                    .collect::<Result<_, _>>()?,
            });
        }
        let or_beside = |option: &Option<PathBuf>, extension| match option {
            Some(path) => path.clone(),
            None => beside(&self.file, extension),
        };
        let checkpoint = or_beside(&self.checkpoint, "checkpoint");
        let rejects = or_beside(&self.rejects, "rejects");
        refuse_one_file_twice(&self.file, &checkpoint, &rejects)?;
        whole_file::check(&checkpoint)?;
        whole_file::check(&rejects)?;
        let locks = vec![lock(&checkpoint)?, lock(&rejects)?];
        let skipped = match skip {
            0 => String::new(),
            lines => format!(" --skip {lines}"),
        };
        let options = format.options() + &skipped;
        let checkpoint = Checkpoint::new(checkpoint, &self.file, &self.table, options)?;
        let state = match checkpoint.read()? {
            None => State::default(),
            Some(state) if self.resume => state,
            Some(state) => {
                return Err(Failure::Refused(format!(
                    "an import of {} has stopped behind line {}; add --resume to continue there, or delete {} to import \
                     from the beginning",
                    self.file.display(),
                    state.position.line,
                    checkpoint.path.display()
                )));
            }
        };
        let position = state.position;
        let lines = InputLines::open_at(&self.file, position.line, position.offset).await?;
        Ok(Source {
            lines: self.unpacked(lines).await?.skip(skip),
            state,
            checkpoint: Some(checkpoint),
            rejects: Some(rejects),
            locks,
        })
    }

    /// Refuses lines that are compressed.
    async fn unpacked(&self, mut lines: InputLines) -> Result<InputLines, Failure> {
        if !lines.is_gzip().await? {
            return Ok(lines);
        }
        let path = self.file.display().to_string();
        let (name, file) = if is_stdin(&self.file) {
            ("stdin".to_owned(), "FILE".to_owned())
        } else {
            (path.clone(), hints::quote(&path))
        };
        Err(Failure::Refused(format!(
            "{name} is compressed by gzip; import its contents: zcat {file} | hbase-txn import {} -",
            self.table
        )))
    }

    fn refuse_to_resume_a_pipe(&self) -> Result<(), Failure> {
        let name = if is_stdin(&self.file) {
            "stdin".to_owned()
        } else {
            self.file.display().to_string()
        };
        let options = [
            (self.resume, "--resume"),
            (self.checkpoint.is_some(), "--checkpoint"),
        ];
        match options.into_iter().find(|(is_given, _)| *is_given) {
            None => Ok(()),
            Some((_, option)) => Err(Failure::Unparsable(format!(
                "{option}: {name} can't be read again, so an import of it can't be resumed; import a file"
            ))),
        }
    }

    /// Prints the result, and returns the exit status.
    fn report(&self, settlement: &Settlement, result: Result<(), Stop>, format: Format) -> Outcome {
        let state = settlement.state();
        let exit = match &result {
            Ok(()) if state.unknown > 0 => Exit::Unknown,
            Ok(()) if state.rejected > 0 => Exit::NotMet,
            Ok(()) => Exit::Done,
            // Lines in flight may have been stored: a resumed import writes them again.
            Err(stop) => {
                self.complain(settlement, stop);
                match stop {
                    Stop::Interrupted => Exit::Interrupted,
                    Stop::TooManyRejects(_) | Stop::Failed(_) => Exit::Failed,
                }
            }
        };
        let summary = Summary {
            table: self.table.to_string(),
            outcome: if result.is_ok() { "complete" } else { "stopped" },
            imported: state.imported,
            rejected: state.rejected,
            unknown: (state.unknown > 0).then_some(state.unknown),
            line: state.position.line,
            rejects: settlement.rejects(),
            checkpoint: settlement.checkpoint(),
        };
        let printed = match format {
            Format::Json => output::json(&summary),
            Format::Table => output::line(&summary.text()),
        };
        Ok(match printed {
            Ok(()) => exit,
            Err(error) => exit.or_graver(Failure::from(error).report()),
        })
    }

    /// Reports why the import stopped, and how to continue.
    fn complain(&self, settlement: &Settlement, stop: &Stop) {
        match stop {
            Stop::Interrupted => Failure::Interrupted.report(),
            Stop::TooManyRejects(most) => {
                let why = format!("more than {most} lines were rejected; --max-rejects allows no more");
                Failure::Refused(why).report()
            }
            Stop::Failed(failure) => failure.report(),
        };
        let line = settlement.state().position.line;
        let next = match settlement.checkpoint() {
            Some(_) => "run the same command with --resume to continue there",
            None if line == 0 => "nothing is imported",
            None => "this input can't be resumed; import the lines behind it",
        };
        output::complain(&format!(
            "hbase-txn: the import stopped behind line {line}: {next}"
        ));
    }
}

impl Source {
    /// Replaces the rejects of an earlier import, and writes the first checkpoint: a file that can't
    /// be written is reported before anything is imported.
    fn begin(self, max_rejects: Option<u64>) -> Result<(InputLines, Settlement), Failure> {
        let Self {
            lines,
            state,
            checkpoint,
            rejects,
            locks: _,
        } = self;
        let rejects = rejects.map(|path| Rejects::open(path, state.rejects.as_ref()));
        let rejects = rejects.transpose()?;
        if let Some(checkpoint) = &checkpoint {
            checkpoint.write(&state)?;
        }
        Ok((lines, Settlement::new(state, checkpoint, rejects, max_rejects)))
    }
}

impl Summary<'_> {
    fn text(&self) -> String {
        let mut text = format!("{}: {} imported", self.table, lines(self.imported));
        if self.rejected > 0 {
            text += &format!(", {} rejected", lines(self.rejected));
        }
        if let Some(rejects) = self.rejects {
            text += &format!(" (see {})", rejects.display());
        }
        text
    }
}

fn lines(number: u64) -> String {
    output::counted(usize::try_from(number).unwrap_or(usize::MAX), "line")
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

fn lock(path: &Path) -> Result<FileLock, Failure> {
    FileLock::acquire(path, ", or specify other files with --checkpoint and --rejects")
}

/// Refuses options that would overwrite the input, or each other's file.
fn refuse_one_file_twice(file: &Path, checkpoint: &Path, rejected: &Path) -> Result<(), Failure> {
    // A file that does not exist is not the input, but may be that of the other option.
    let real = |path: &Path| fs::canonicalize(path).or_else(|_| rejects::real(path)).ok();
    let pairs = [
        ("--checkpoint", checkpoint, file),
        ("--rejects", rejected, file),
        ("--rejects", rejected, checkpoint),
    ];
    match pairs
        .into_iter()
        .find(|(_, one, other)| real(one).is_some_and(|one| real(other) == Some(one)))
    {
        None => Ok(()),
        Some((option, path, _)) => Err(Failure::Unparsable(format!(
            "{option} {}: the import uses this file for something else",
            path.display()
        ))),
    }
}
