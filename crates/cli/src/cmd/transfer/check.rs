//! Reads the cells of a file back from the table.

use std::{collections::BTreeSet, mem};

use bytes::Bytes;
use hbase_client::Table;
use hbase_txn::client::{BytesBinary, Get, Mutation, Put, Row};
use serde::Serialize;

use super::{format::Format, settlement::is_of_one_line};
use crate::{
    cmd::input_lines::{InputLines, TooLong},
    exit::{Exit, Failure},
    output,
    progress::Progress,
};

/// The maximum number of puts that are read back at once, and of their bytes. A larger put is read alone.
const PUTS: usize = 1_000;
const BYTES: usize = 1 << 20;
/// The maximum number of cells and lines that are named on stderr.
const MOST_NAMED: u64 = 10;
/// HBase accepts a Java int.
const ALL_VERSIONS: u32 = i32::MAX as u32;

/// A check in progress.
pub(super) struct Check {
    table: Table,
    puts: Vec<(u64, Put)>,
    bytes: usize,
    counts: Counts,
    progress: Progress,
}

/// The result of a check. The keys and their order are fixed.
#[derive(Debug, Serialize)]
pub(super) struct Counts {
    table: String,
    /// The number of cells of the puts in the file.
    cells: u64,
    /// The number of those that the table does not return.
    hidden: u64,
    /// The number of lines that can't be parsed.
    invalid: u64,
}

impl Check {
    pub(super) fn new(table: Table) -> Self {
        Self {
            puts: Vec::new(),
            bytes: 0,
            counts: Counts {
                table: table.name().to_string(),
                cells: 0,
                hidden: 0,
                invalid: 0,
            },
            table,
            progress: Progress::of_long_work(),
        }
    }

    /// Reads the cells of all lines back.
    pub(super) async fn run(mut self, lines: InputLines, format: &Format) -> Result<Counts, Failure> {
        let checked = self.read(lines, format).await;
        self.progress.finish();
        checked.map(|()| self.counts)
    }

    async fn read(&mut self, mut lines: InputLines, format: &Format) -> Result<(), Failure> {
        while let Some(line) = lines.next_or_blank().await? {
            let parsed = match &line.text {
                Ok(text) if format.is_blank(text) => continue,
                Ok(text) => format.parse(line.number, text),
                Err(TooLong { longest }) => {
                    Err(format!("line {} is longer than {longest} bytes", line.number))
                }
            };
            match parsed {
                Ok(mutations) => {
                    for line_mutation in mutations {
                        // A delete writes no cells.
                        if let Mutation::Put(put) = line_mutation.mutation {
                            self.add(line.number, put).await?;
                        }
                    }
                }
                Err(why) => {
                    self.counts.invalid += 1;
                    self.name(self.counts.invalid, &format!("invalid: {why}"));
                }
            }
        }
        self.read_back().await
    }

    async fn add(&mut self, line: u64, put: Put) -> Result<(), Failure> {
        let mutation = Mutation::from(put.clone());
        self.bytes += mutation.size();
        self.puts.push((line, put));
        if self.puts.len() >= PUTS || self.bytes >= BYTES {
            self.read_back().await?;
        }
        Ok(())
    }

    /// Reads the cells of the puts in memory.
    async fn read_back(&mut self) -> Result<(), Failure> {
        let puts = mem::take(&mut self.puts);
        self.bytes = 0;
        let rows = match self.table.get_many(puts.iter().map(|(_, put)| get(put))).await {
            Ok(rows) => rows,
            Err(error) if is_of_one_line(&error) => self.read_singly(&puts).await?,
            Err(error) => return Err(error.into()),
        };
        for ((line, put), row) in puts.iter().zip(rows) {
            for cell in put.cells() {
                self.counts.cells += 1;
                let found = row.as_ref().map_or(&[][..], Row::cells);
                let column = (&cell.family, &cell.qualifier);
                let start = found.partition_point(|found| (&found.family, &found.qualifier) < column);
                let mut versions = found[start..]
                    .iter()
                    .take_while(|found| (&found.family, &found.qualifier) == column);
                // Without a timestamp in the file, the server chose one.
                if versions.any(|found| {
                    found.value == cell.value
                        && cell
                            .timestamp
                            .is_none_or(|timestamp| found.timestamp == timestamp)
                }) {
                    continue;
                }
                self.counts.hidden += 1;
                let timestamp = cell.timestamp.map_or_else(String::new, |at| format!(" at {at}"));
                let text = format!(
                    "not visible: line {line}, row {}, cell {}:{}{timestamp}",
                    BytesBinary(put.row()),
                    BytesBinary(&cell.family),
                    BytesBinary(&cell.qualifier)
                );
                self.name(self.counts.hidden, &text);
            }
        }
        self.progress
            .step(&format!("{} cells read back", self.counts.cells));
        Ok(())
    }

    /// Reads each row with a call of its own. Rows that can't exist have no cells.
    async fn read_singly(&self, puts: &[(u64, Put)]) -> Result<Vec<Option<Row>>, Failure> {
        let mut rows = Vec::with_capacity(puts.len());
        for (_, put) in puts {
            rows.push(match self.table.get(get(put)).await {
                Ok(row) => row,
                Err(error) if is_of_one_line(&error) => None,
                Err(error) => return Err(error.into()),
            });
        }
        Ok(rows)
    }

    /// Names the first of many on stderr.
    fn name(&self, number: u64, text: &str) {
        if number <= MOST_NAMED {
            self.progress
                .beside(|| output::complain(&format!("hbase-txn: {text}")));
        }
    }
}

impl Counts {
    pub(super) fn exit(&self) -> Exit {
        match self.hidden + self.invalid {
            0 => Exit::Done,
            _ => Exit::NotMet,
        }
    }

    pub(super) fn text(&self) -> String {
        let counted = |number, thing| output::counted(usize::try_from(number).unwrap_or(usize::MAX), thing);
        let mut text = format!(
            "{}: {}, {} not visible",
            self.table,
            counted(self.cells, "cell"),
            self.hidden
        );
        if self.invalid > 0 {
            text += &format!(", {} invalid", counted(self.invalid, "line"));
        }
        text
    }
}

/// Returns a get of the columns of a put. It has no time range, which would also return versions that are
/// too many for the family and not removed yet.
fn get(put: &Put) -> Get {
    let mut get = Get::new(put.row().clone()).versions(ALL_VERSIONS);
    let columns: BTreeSet<(Bytes, Bytes)> = put.cells().map(|cell| (cell.family, cell.qualifier)).collect();
    for (family, qualifier) in columns {
        get = get.column(family, qualifier);
    }
    get
}
