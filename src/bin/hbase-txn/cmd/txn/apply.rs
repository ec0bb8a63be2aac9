//! `hbase-txn txn apply`.

use std::{future::ready, io, path::PathBuf, pin::pin, sync::Arc, time::Duration};

use clap::Args;
use futures::{Stream, StreamExt, TryStreamExt, future::Either, stream};
use hbase_txn::{PartitionedTable, TableName};
use tokio::sync::{Semaphore, oneshot};

use super::{
    answers::{Answer, Answers},
    groups::{Group, Step, steps},
    lines::{InputLine, InputLines},
    turns::{Turn, Turns},
};
use crate::{
    args::{Format, Global},
    cmd::Outcome,
    exit::Failure,
};

/// Apply transactions, one JSON object a line
///
/// A line with `prefix` is one transaction in that partition; without it the mutations are grouped, and each partition
/// is a transaction of its own. Transactions of one partition are applied in the order of their lines, others side by
/// side; each may take the time of --timeout. How they ended is answered in the order of the lines. A line that can't
/// be read is refused, and the others are applied.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Apply {
    /// The table, with its namespace if it has one
    table: TableName,
    /// The lines; stdin without it and for -
    file: Option<PathBuf>,
}

const EXAMPLE: &str = r#"Example: hbase-txn txn apply orders lines.json --output json, with lines such as

{"prefix":"xxx","mutations":[{"op":"put","row":"xxxabc","family":"f","qualifier":"q","value":"v","ttl_ms":60000},{"op":"delete","row":"xxx123"}]}

A delete without `qualifier` is of the family, without `family` of the row; with `timestamp`, of what is stamped at or before it. Bytes are written as in HBase's shell, \xNN, which JSON spells "\\xNN". It answers

{"line":1,"prefix":"xxx","outcome":"committed","rows":2}

The outcome is committed, refused (not sent), failed (not applied) or unknown (applied or not, nobody knows). Exit status: 0 when all are committed, 1 with any refused or failed, 4 with any unknown."#;

/// Transactions on their way at a time. Each holds one of a server's handlers, of which it has 30.
const IN_FLIGHT: usize = 16;
/// Bytes of lines that are held at a time; a longer line goes alone.
const HELD: usize = 8 << 20;
/// After this the server's clock shows another millisecond.
const MILLISECOND: Duration = Duration::from_millis(1);

impl Apply {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        // A file that can't be read is told before anybody waits for a server.
        let lines = InputLines::open(self.file.as_deref()).await?;
        let connection = global.connect().await?;
        let table = PartitionedTable::open(&connection, self.table).await?;
        apply(table, lines, global.output).await
    }
}

async fn apply(table: PartitionedTable, lines: InputLines, format: Format) -> Outcome {
    let (stop, stopped) = oneshot::channel::<()>();
    let mut turns = Turns::default();
    let mut answers = pin!(
        read(table, lines)
            .take_until(stopped)
            .map(|step| match step {
                // Turns are taken here, where lines come in their order.
                Ok(Step::Commit(group)) => {
                    let turn = turns.take(&group.partition);
                    Either::Left(async move { Ok(commit(group, turn).await) })
                }
                Ok(Step::Refused(answer)) => Either::Right(ready(Ok(answer))),
                Err(error) => Either::Right(ready(Err(error))),
            })
            .buffered(IN_FLIGHT)
    );
    let (mut told, mut stop) = (Answers::new(format), Some(stop));
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(answer) => {
                if !told.tell(&answer) {
                    // What is on its way is waited for, nothing more is sent.
                    stop = None;
                }
            }
            Err(error) => told.fail(Failure::from(error).report()),
        }
    }
    drop(stop);
    Ok(told.end())
}

/// The lines' transactions, read as they are asked for.
fn read(table: PartitionedTable, lines: InputLines) -> impl Stream<Item = io::Result<Step>> {
    let held = Arc::new(Semaphore::new(HELD));
    stream::try_unfold((table, lines, held), async |(table, mut lines, held)| {
        let Some(line) = lines.next().await? else {
            return Ok::<_, io::Error>(None);
        };
        // Waits while too much is held; what is on its way goes on, and gives back.
        let share = Arc::clone(&held)
            .acquire_many_owned(share(&line))
            .await
            .map_err(io::Error::other)?;
        let steps = stream::iter(steps(&table, line, share)).map(Ok);
        Ok(Some((steps, (table, lines, held))))
    })
    .try_flatten()
}

fn share(line: &InputLine) -> u32 {
    let length = line.text.as_ref().map_or(0, Vec::len).min(HELD);
    u32::try_from(length).unwrap_or(u32::MAX)
}

async fn commit(group: Group, mut turn: Turn) -> Answer {
    turn.comes().await;
    let deletes_now = group.deletes_now;
    let answer = group.commit().await;
    if deletes_now {
        // The server stamps a delete with its time, and hides what is put with the same stamp afterwards: the next
        // transaction of the partition must not come in the same millisecond.
        tokio::time::sleep(MILLISECOND).await;
    }
    answer
}
