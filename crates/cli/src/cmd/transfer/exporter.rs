//! Reads rows of several parts at once, and writes their lines.

use std::{
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use futures::{
    FutureExt, StreamExt, TryStreamExt,
    future::ready,
    poll,
    stream::{self, BoxStream},
};
use hbase_client::Table;
use hbase_txn::client::{BytesBinary, Row, Scan};
use tokio::time::interval;

use super::{
    format::Format,
    json::{self, RowForm},
    part::Part,
    partial::{Partial, State},
};
use crate::{
    exit::Failure,
    output::{self, Lines},
    progress::Progress,
};

/// The time between two checkpoints.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(5);
/// The time between two looks at the clock while no rows arrive, and the rows between two of them.
const TICK: Duration = Duration::from_millis(500);
const ROWS: u64 = 1_000;

/// The form of the lines.
pub(super) struct Form {
    pub(super) format: Format,
    /// The form of a row in JSON.
    pub(super) row: RowForm,
    /// Whether a cell with a visibility expression or an ACL is an error.
    pub(super) with_access_rules: bool,
}

impl Form {
    /// Writes a row. Refuses one that can't be imported.
    fn write(&self, lines: &mut Lines, row: &Row) -> Result<(), Failure> {
        match &self.format {
            Format::Json => json::write(lines, row, &self.row),
            Format::Tsv(tsv) => tsv.write(lines, row),
        }
    }
}

/// An export in progress.
pub(super) struct Exporter {
    form: Form,
    lines: Lines,
    /// `None` if the output can't be continued.
    partial: Option<Partial>,
    state: State,
    progress: Option<Progress>,
    started: Instant,
    /// The number of rows before this run.
    rows_before: u64,
    last_checkpoint: Instant,
    /// Whether a row can't be exported, so that a second attempt would end there, too.
    is_refused: bool,
}

/// The next row of a part, or `None` at its end.
type PartRow = (usize, Option<Row>);

impl Exporter {
    pub(super) fn new(
        form: Form,
        lines: Lines,
        partial: Option<Partial>,
        state: State,
        progress: Option<Progress>,
    ) -> Self {
        let now = Instant::now();
        Self {
            form,
            lines,
            partial,
            rows_before: state.rows,
            state,
            progress,
            started: now,
            last_checkpoint: now,
            is_refused: false,
        }
    }

    /// Returns whether the export does not continue an earlier one.
    pub(super) fn is_new(&self) -> bool {
        self.state.parts.is_empty()
    }

    /// Sets the parts of a new export.
    pub(super) fn begin(&mut self, parts: Vec<Part>) {
        self.state.parts = parts.into_iter().map(Some).collect();
    }

    /// Exports the parts that are not complete, this many at the same time. The scan is that of the whole
    /// export.
    pub(super) async fn run(&mut self, table: &Table, all: &Scan, at_once: usize) -> Result<(), Failure> {
        let parts = self.state.parts.clone().into_iter().enumerate();
        let rows = parts.filter_map(|(number, part)| Some(rows_of(table, number, part?.scan(all))));
        let mut rows = pin!(stream::iter(rows).flatten_unordered(at_once));
        let mut ticks = interval(TICK);
        loop {
            let next = match poll!(rows.next()) {
                Poll::Ready(next) => next,
                Poll::Pending => {
                    // Rows that have arrived are written before others are fetched.
                    self.lines.flush()?;
                    loop {
                        tokio::select! {
                            biased;
                            next = rows.next() => break next,
                            _ = ticks.tick() => self.tick()?,
                        }
                    }
                }
            };
            match next.transpose()? {
                None => return Ok(()),
                Some((number, None)) => self.state.parts[number] = None,
                Some((number, Some(row))) => self.write(number, &row)?,
            }
        }
    }

    fn write(&mut self, part: usize, row: &Row) -> Result<(), Failure> {
        let form = &self.form;
        let written =
            check_access_rules(row, form.with_access_rules).and_then(|()| form.write(&mut self.lines, row));
        self.is_refused = matches!(written, Err(Failure::Refused(_)));
        written?;
        let with_rules = row.cells().iter().filter(|cell| cell.has_access_rules());
        self.state.without_access_rules += with_rules.count() as u64;
        self.state.rows += 1;
        if let Some(part) = &mut self.state.parts[part] {
            part.advance(row.key().clone());
        }
        // A fast server always has the next row.
        if self.state.rows.is_multiple_of(ROWS) {
            self.tick()
        } else {
            Ok(())
        }
    }

    /// Shows the progress, and writes a checkpoint if it is time.
    fn tick(&mut self) -> Result<(), Failure> {
        if let Some(progress) = &self.progress {
            let seconds = self.started.elapsed().as_secs_f64().max(0.001);
            let rate = (self.state.rows - self.rows_before) as f64 / seconds;
            progress.step(&format!("{} rows, {rate:.0} rows/s", self.state.rows));
        }
        if self.last_checkpoint.elapsed() >= CHECKPOINT_INTERVAL {
            self.write_checkpoint()
        } else {
            Ok(())
        }
    }

    fn write_checkpoint(&mut self) -> Result<(), Failure> {
        if let Some(partial) = &self.partial {
            self.lines.flush()?;
            partial.write_checkpoint(&mut self.state)?;
        }
        self.last_checkpoint = Instant::now();
        Ok(())
    }

    /// Replaces the file by a complete export. Keeps an incomplete one if it can be continued.
    pub(super) fn finish(
        mut self,
        exported: Result<(), Failure>,
        is_resumable: bool,
    ) -> Result<State, Failure> {
        if let Some(progress) = &self.progress {
            progress.finish();
        }
        // Rows that were read are printed even if an error follows.
        let flushed = self.lines.flush().map_err(Failure::from);
        let Err(failure) = exported.and(flushed) else {
            if let Some(partial) = self.partial {
                partial.finish()?;
            }
            return Ok(self.state);
        };
        let is_resumable = is_resumable && self.state.rows > 0 && !self.is_refused;
        // After a failed write a part of a line may be in the file.
        let is_written = !matches!(failure, Failure::Io(_));
        let is_recorded = is_resumable && is_written && self.write_checkpoint().is_ok();
        if let Some(partial) = self.partial {
            if is_recorded || is_resumable && partial.has_checkpoint() {
                let rows = output::counted(usize::try_from(self.state.rows).unwrap_or(usize::MAX), "row");
                output::complain(&format!(
                    "hbase-txn: the export stopped after {rows}: run the same command with --resume to continue there"
                ));
            } else {
                partial.discard()?;
            }
        }
        Err(failure)
    }
}

/// Refuses a cell with access rules, unless it is to be written without them.
fn check_access_rules(row: &Row, with_access_rules: bool) -> Result<(), Failure> {
    match row.cells().iter().find(|cell| cell.has_access_rules()) {
        Some(cell) if with_access_rules => Err(Failure::Refused(format!(
            "cannot export row {}: its cell {}:{} has a visibility label or an ACL, which a file does not keep, so \
             more users could read the copy; --without-access-rules exports such cells all the same",
            BytesBinary(row.key()),
            BytesBinary(&cell.family),
            BytesBinary(&cell.qualifier)
        ))),
        _ => Ok(()),
    }
}

/// Returns the rows of a part, and its end.
fn rows_of(
    table: &Table,
    number: usize,
    scan: Scan,
) -> BoxStream<'static, Result<PartRow, hbase_client::Error>> {
    match table.scan(scan) {
        Ok(scanner) => {
            let rows = scanner.into_stream().map_ok(move |row| (number, Some(row)));
            rows.chain(ready(Ok((number, None))).into_stream()).boxed()
        }
        Err(error) => ready(Err(error)).into_stream().boxed(),
    }
}
