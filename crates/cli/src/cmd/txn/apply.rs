//! `hbase-txn txn apply`.

use std::{future::ready, io, path::PathBuf, pin::pin, sync::Arc, time::Duration};

use clap::Args;
use futures::{Stream, StreamExt, TryStreamExt, future::Either, stream};
use hbase_txn::{OpenOptions, PartitionedTable, client::TableName};
use tokio::sync::{Semaphore, oneshot};

use super::{
    answers::{Answer, Answers},
    groups::{Group, Step, steps},
    turns::{Turn, Turns},
};
use crate::{
    cmd::input_lines::{InputLine, InputLines},
    exit::{Failure, Outcome},
    global::{Format, Global},
};

/// Apply transactions, one JSON object per line
///
/// A line with `prefix` is one transaction in that partition. Without it, the mutations are grouped
/// by partition, and each partition is a separate transaction. Transactions of one partition are
/// applied in the order of their lines, others concurrently; each may take --timeout. Outcomes are
/// printed in the order of the lines. A line that can't be parsed is refused, and the others are
/// applied.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Apply {
    /// Table, with its namespace if it has one
    table: TableName,
    /// File with the lines; - for stdin [default: -]
    file: Option<PathBuf>,
    /// Stamp puts above cells that are stamped in the future; each row to write is read first
    #[arg(long, conflicts_with = "without_endpoint")]
    guard_timestamps: bool,
    /// Send through HBase's Multi, and print the results of increments and appends; no ids, no
    /// conditions
    #[arg(long)]
    without_endpoint: bool,
}

const EXAMPLE: &str = r#"Example: hbase-txn txn apply orders lines.json --output json, with lines such as

{"prefix":"xxx","mutations":[{"op":"put","row":"xxxabc","family":"f","qualifier":"q","value":"v","ttl_ms":60000},{"op":"delete","row":"xxx123"}]}
{"id":"order-4711","conditions":[{"label":"new","row":"xxxabc","family":"f","qualifier":"state","op":"absent"}],"mutations":[{"op":"put","row":"xxxabc","family":"f","qualifier":"state","value":"placed"},{"op":"increment","row":"xxxsum","family":"f","qualifier":"orders","amount":1},{"op":"append","row":"xxxsum","family":"f","qualifier":"log","value":";4711"}]}

What a line changes means what it means in sequence. A put, an increment and an append take `ttl_ms`, a put and a delete `timestamp`, both in milliseconds. A delete without `qualifier` is of the family, without `family` of the row; with `timestamp`, of what is stamped at or before it. Bytes are written as in HBase's shell, \xNN, which JSON spells "\\xNN".

A `value` may also be a number, which has eight bytes as a counter has, or true or false. `value_type` sets another type: toInt, toShort, toDouble, toFloat.

Conditions must all hold, or nothing is applied: `op` is absent or present, or begins_with, equal, not_equal, less, less_or_equal, greater, greater_or_equal with a `value`, with which the stored value is compared: bytes byte by byte, a number of eight bytes by its sign and size. An empty value counts as absent; for an absent cell only not_equal holds. `label` is the condition's name in outcomes. A line may have only conditions.

With `id`, 1 to 64 bytes, the transaction is recorded in its partition: it is applied once, however often the line is sent within the table's replay window, by default 24 hours. An `id` stands for one list of mutations and conditions. A line with `id` or `conditions` is one transaction, so without `prefix` all its rows must be of one partition.

The output is one object for each transaction:

{"line":1,"prefix":"xxx","outcome":"committed","rows":2}
{"line":2,"prefix":"xxx","outcome":"rejected","rows":2,"failed":[{"label":"new","row":"xxxabc","found":"placed"}]}

`rows` is the number of rows it changes. The outcome is committed (with "replayed":true if an earlier commit of the id applied it, with `results` of increments and appends if the server returned them), rejected (`failed` has the conditions that did not hold; `found` is null if there was no cell), invalid (not sent), aborted (not applied) or unknown (perhaps applied; with `id`, hbase-txn txn outcome finds out). Exit status: 0 if all are committed, 3 with any rejected, 1 with any invalid or aborted, 4 with any unknown; of several the gravest: 4, 1, 3."#;

/// The maximum number of concurrent transactions. Each occupies a handler of a server, which has 30
/// by default.
const IN_FLIGHT: usize = 16;
/// The maximum number of bytes of lines in memory. A longer line is held alone.
const HELD: usize = 8 << 20;
/// The time after which the server's clock has advanced by a millisecond.
const MILLISECOND: Duration = Duration::from_millis(1);

impl Apply {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        // A file that can't be read is reported before any call to a server.
        let lines = InputLines::open(self.file.as_deref()).await?;
        let connection = global.connect().await?;
        let mut options = OpenOptions::new();
        if self.without_endpoint {
            options = options.without_endpoint();
        }
        let table = options.open(&connection, self.table).await?;
        apply(table, lines, self.guard_timestamps, global.output).await
    }
}

async fn apply(
    table: PartitionedTable,
    lines: InputLines,
    guard_timestamps: bool,
    format: Format,
) -> Outcome {
    let (stop, stopped) = oneshot::channel::<()>();
    let mut turns = Turns::default();
    let mut answers = pin!(
        read(table, lines, guard_timestamps)
            .take_until(stopped)
            .map(|step| match step {
                // Turns are taken here, where the lines arrive in order.
                Ok(Step::Commit(group)) => {
                    let turn = turns.take(&group.partition);
                    Either::Left(async move { Ok(commit(group, turn, guard_timestamps).await) })
                }
                Ok(Step::Refused(answer)) => Either::Right(ready(Ok(answer))),
                Err(error) => Either::Right(ready(Err(error))),
            })
            .buffered(IN_FLIGHT)
    );
    let (mut printer, mut stop) = (Answers::new(format), Some(stop));
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(answer) => {
                if !printer.print(&answer) {
                    // Transactions in flight are completed, but no more are sent.
                    stop = None;
                }
            }
            Err(error) => printer.fail(Failure::from(error).report()),
        }
    }
    drop(stop);
    Ok(printer.end())
}

/// The transactions of the lines, read on demand.
fn read(
    table: PartitionedTable,
    lines: InputLines,
    guard_timestamps: bool,
) -> impl Stream<Item = io::Result<Step>> {
    let held = Arc::new(Semaphore::new(HELD));
    stream::try_unfold((table, lines, held), move |(table, mut lines, held)| async move {
        let Some(line) = lines.next().await? else {
            return Ok::<_, io::Error>(None);
        };
        // Waits while too much is held. Transactions in flight complete and release their share.
        let share = Arc::clone(&held)
            .acquire_many_owned(share(&line))
            .await
            .map_err(io::Error::other)?;
        let steps = stream::iter(steps(&table, line, share, guard_timestamps)).map(Ok);
        Ok(Some((steps, (table, lines, held))))
    })
    .try_flatten()
}

fn share(line: &InputLine) -> u32 {
    let length = line.text.as_ref().map_or(0, Vec::len).min(HELD);
    u32::try_from(length).unwrap_or(u32::MAX)
}

async fn commit(group: Box<Group>, mut turn: Turn, guard_timestamps: bool) -> Answer {
    turn.comes().await;
    let deletes_now = group.deletes_now;
    let answer = group.commit().await;
    if deletes_now && !guard_timestamps {
        // A delete without a timestamp gets the server's time, and hides later puts with the same
        // timestamp. So the next transaction of the partition must not run in the same millisecond.
        // A guarded transaction gives its puts a timestamp after the delete that it finds.
        tokio::time::sleep(MILLISECOND).await;
    }
    answer
}
