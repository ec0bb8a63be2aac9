//! Reads lines and writes their mutations.

use std::{future::Future, pin::pin, time::Duration};

use hbase_client::Writer;
use hbase_txn::client::Mutation;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::{
    families::Families,
    format::Format,
    ledger::Rejection,
    settlement::{Settlement, Stop, is_of_one_line},
};
use crate::{
    cmd::{
        input_lines::{InputLine, InputLines, TooLong},
        json_line::LineMutation,
        lock::signals::Signals,
    },
    exit::Failure,
};

/// The time between two looks at what the writer has done.
const INTERVAL: Duration = Duration::from_millis(100);
/// The maximum number of bytes of lines in flight. A longer line is held alone.
const HELD: usize = 16 << 20;

/// An import in progress.
pub(super) struct Importer {
    lines: InputLines,
    format: Format,
    /// The families of the table, or `None` if the user may not read them.
    families: Option<Families>,
    writer: Writer,
    watch: Watch,
}

/// What happens while the import waits.
struct Watch {
    settlement: Settlement,
    signals: Signals,
    ticks: Interval,
}

impl Importer {
    pub(super) fn new(
        lines: InputLines,
        format: Format,
        families: Option<Families>,
        writer: Writer,
        settlement: Settlement,
        signals: Signals,
    ) -> Self {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            lines,
            format,
            families,
            writer,
            watch: Watch {
                settlement,
                signals,
                ticks,
            },
        }
    }

    /// Imports all lines, or those up to a reason to stop. Returns what is done.
    pub(super) async fn run(mut self) -> (Settlement, Result<(), Stop>) {
        let read = self.read().await;
        let ended = match read {
            // A second attempt would fail in the same way, after the same time.
            Err(Stop::Failed(_)) => read,
            Err(Stop::Interrupted) => {
                self.watch
                    .settlement
                    .complain("waiting for the lines in flight; a second signal ends the wait");
                self.flush().await.and(read)
            }
            _ => self.flush().await.and(read),
        };
        let Watch { mut settlement, .. } = self.watch;
        let settled = settlement.settle(&self.writer).map_err(Stop::Failed);
        let ended = ended
            .and_then(|()| settled.map(drop))
            .and_then(|()| settlement.check());
        let finished = settlement.finish(ended.is_ok()).map_err(Stop::Failed);
        (settlement, ended.and(finished))
    }

    async fn read(&mut self) -> Result<(), Stop> {
        loop {
            let read = self
                .watch
                .during(&self.writer, self.lines.next_or_blank())
                .await?;
            let Some(line) = read.map_err(|error| Stop::Failed(error.into()))? else {
                return Ok(());
            };
            let parsed = match &line.text {
                Ok(text) if self.format.is_blank(text) => continue,
                Ok(text) => self.parse(line.number, text),
                Err(TooLong { longest }) => {
                    Err(format!("line {} is longer than {longest} bytes", line.number))
                }
            };
            match parsed {
                Ok(mutations) => self.write(line, mutations).await?,
                Err(why) => {
                    self.watch.settlement.ledger.add(line, 0);
                    self.watch.settlement.reject_last(0, Rejection::new(why));
                    self.watch.settlement.check()?;
                }
            }
            let settlement = &self.watch.settlement;
            if settlement.ledger.held() > HELD || settlement.is_full() {
                self.drain().await?;
            }
        }
    }

    fn parse(&self, number: u64, text: &[u8]) -> Result<Vec<LineMutation>, String> {
        let mutations = self.format.parse(number, text)?;
        if let Some(families) = &self.families {
            let named = mutations.iter().flat_map(|line| line.mutation.families());
            families
                .check(named)
                .map_err(|why| format!("line {number}: {why}"))?;
        }
        Ok(mutations)
    }

    /// Writes the mutations of a line, until one is refused.
    async fn write(&mut self, line: InputLine, mutations: Vec<LineMutation>) -> Result<(), Stop> {
        let (number, mut left) = (line.number, mutations.len());
        self.watch.settlement.ledger.add(line, left);
        for LineMutation { mutation, .. } in mutations {
            if let Err(why) = self.append(mutation).await? {
                self.watch
                    .settlement
                    .reject_last(left, Rejection::new(format!("line {number}: {why}")));
                return self.watch.settlement.check();
            }
            left -= 1;
        }
        Ok(())
    }

    /// Gives a mutation to the writer. Returns why it is refused.
    async fn append(&mut self, mutation: Mutation) -> Result<Result<(), String>, Stop> {
        loop {
            let write = self.writer.write(mutation.clone());
            let Err(error) = self.watch.during(&self.writer, write).await? else {
                return Ok(Ok(()));
            };
            // The writer refuses all mutations while it has many failures.
            if self.watch.settle(&self.writer)? {
                continue;
            }
            let is_of_one_line = is_of_one_line(&error);
            let failure = Failure::from(error);
            return if is_of_one_line {
                Ok(Err(failure.to_string()))
            } else {
                Err(Stop::Failed(failure))
            };
        }
    }

    /// Waits until all mutations so far are done.
    async fn drain(&mut self) -> Result<(), Stop> {
        // Its failures are taken by the settlement.
        let _ = self.watch.during(&self.writer, self.writer.flush()).await?;
        self.watch.settle(&self.writer).map(drop)
    }

    /// Waits until all mutations are done, a signal arrives, or one fails for a reason of the table.
    async fn flush(&mut self) -> Result<(), Stop> {
        let mut flushed = pin!(self.writer.flush());
        let Watch {
            settlement,
            signals,
            ticks,
        } = &mut self.watch;
        loop {
            tokio::select! {
                biased;
                () = signals.ending() => return Err(Stop::Interrupted),
                _ = &mut flushed => return Ok(()),
                _ = ticks.tick() => {
                    settlement.settle(&self.writer).map_err(Stop::Failed)?;
                    if let Err(stop @ Stop::Failed(_)) = settlement.check() {
                        return Err(stop);
                    }
                }
            }
        }
    }
}

impl Watch {
    /// Waits for work, and meanwhile settles what is done.
    async fn during<T>(&mut self, writer: &Writer, work: impl Future<Output = T>) -> Result<T, Stop> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                () = self.signals.ending() => return Err(Stop::Interrupted),
                _ = self.ticks.tick() => self.settle(writer).map(drop)?,
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Settles what is done. Returns whether there were failures.
    fn settle(&mut self, writer: &Writer) -> Result<bool, Stop> {
        let has_failures = self.settlement.settle(writer).map_err(Stop::Failed)?;
        self.settlement.check()?;
        Ok(has_failures)
    }
}
