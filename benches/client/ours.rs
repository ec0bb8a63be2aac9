//! This client as a contestant.

use std::{
    env,
    time::{Duration, Instant},
};

use bytes::Bytes;
use fastrand::Rng;
use futures::future::try_join_all;
use hbase_txn::{
    OpenOptions, PartitionedTable, TransactionId,
    client::{Config, Connection, Get, Put, Row, Scan, Table, WriterOptions},
};

use super::{
    setup::{self, Failure},
    workload::{
        Answer, FAMILY, ONLY_PARTITION, Operation, QUALIFIER, ROWS_OF_PARTITION, Request, VALUE, nth_row, row,
    },
};

pub(crate) struct Ours {
    config: Config,
    reads: Table,
    writes: PartitionedTable,
}

impl Ours {
    pub(crate) async fn new(uri: &str, reads: &str, writes: &str) -> Result<Self, Failure> {
        // The driver sets it for clusters with Kerberos or TLS alone.
        let config = match env::var_os(setup::CONF_DIR) {
            Some(folder) => Config::from_conf_dir(folder)?,
            None => Config::from_uri(uri)?,
        };
        let connection = Connection::builder(config.clone()).connect().await?;
        Ok(Self {
            config,
            reads: connection.table(reads)?,
            writes: OpenOptions::new()
                .concurrency(64)
                .open(&connection, writes)
                .await?,
        })
    }

    pub(crate) async fn perform(&self, request: &Request) -> Result<Answer, Failure> {
        let reads = self.reads.clone();
        match request.operation {
            Operation::Connect => {
                let config = self.config.clone();
                let call = move |task: &mut Task| {
                    let (config, name) = (config.clone(), reads.name().clone());
                    let get = Get::new(task.row());
                    async move {
                        let connection = Connection::builder(config).connect().await?;
                        let found = connection.table(name)?.get(get).await?;
                        connection.close().await;
                        all_found(&[found])
                    }
                };
                repeat(request, 1, call).await
            }
            Operation::Get => {
                let call = move |task: &mut Task| {
                    let (table, get) = (reads.clone(), Get::new(task.row()));
                    async move { all_found(&[table.get(get).await?]) }
                };
                repeat(request, 1, call).await
            }
            Operation::GetMany => {
                let call = move |task: &mut Task| {
                    let table = reads.clone();
                    let gets: Vec<Get> = (0..task.rows).map(|_| Get::new(task.row())).collect();
                    async move { all_found(&table.get_many(gets).await?) }
                };
                repeat(request, request.rows, call).await
            }
            Operation::Scan => self.scan(request).await,
            Operation::ScanRegions => self.scan_regions(request).await,
            Operation::Put => {
                let writes = self.writes.table().clone();
                let call = move |task: &mut Task| {
                    let (table, put) = (writes.clone(), put(task.row()));
                    async move { Ok(table.put(put).await?) }
                };
                repeat(request, 1, call).await
            }
            Operation::Bulk => self.bulk(request).await,
            Operation::Commit | Operation::Recorded | Operation::OwnId => self.commit(request).await,
        }
    }

    async fn commit(&self, request: &Request) -> Result<Answer, Failure> {
        let (table, operation) = (self.writes.clone(), request.operation);
        let call = move |task: &mut Task| {
            let partition = task.partition();
            let mut transaction = table.transaction(format!("{partition:03}"));
            for number in 0..task.rows {
                let number = task.index * task.rows + number;
                transaction = transaction.put(put(row(partition, number)));
            }
            let transaction = match operation {
                Operation::Recorded => transaction.recorded(),
                Operation::OwnId => transaction.id(TransactionId::unique()),
                _ => transaction,
            };
            async move {
                transaction.commit().await.into_result()?;
                Ok(())
            }
        };
        repeat(request, 1, call).await
    }

    /// Writes rows of all partitions as fast as possible.
    async fn bulk(&self, request: &Request) -> Result<Answer, Failure> {
        let length = Duration::from_secs_f64(request.seconds);
        let (began, mut done) = (Instant::now(), 0);
        let writer = self.writes.table().writer(WriterOptions::new());
        while done % 1_000 > 0 || began.elapsed() < length {
            writer.write(put(nth_row(done))).await?;
            done += 1;
        }
        writer.flush().await?;
        Ok(Answer::of(Vec::new(), done as u64, began.elapsed().as_secs_f64()))
    }

    async fn scan(&self, request: &Request) -> Result<Answer, Failure> {
        let length = Duration::from_secs_f64(request.seconds);
        let (began, mut done) = (Instant::now(), 0);
        while began.elapsed() < length {
            let mut scanner = self.reads.scan(Scan::new())?;
            while scanner.next().await?.is_some() {
                done += 1;
                if done % 1_000 == 0 && began.elapsed() >= length {
                    break;
                }
            }
        }
        Ok(Answer::of(Vec::new(), done, began.elapsed().as_secs_f64()))
    }

    async fn scan_regions(&self, request: &Request) -> Result<Answer, Failure> {
        let length = Duration::from_secs_f64(request.seconds);
        let (began, mut done) = (Instant::now(), 0);
        while began.elapsed() < length {
            let mut scanner = self.reads.scan_regions(Scan::new(), 4)?;
            while scanner.next().await?.is_some() {
                done += 1;
                if done % 1_000 == 0 && began.elapsed() >= length {
                    break;
                }
            }
        }
        Ok(Answer::of(Vec::new(), done, began.elapsed().as_secs_f64()))
    }
}

fn all_found(rows: &[Option<Row>]) -> Result<(), Failure> {
    if rows.iter().all(Option::is_some) {
        Ok(())
    } else {
        Err("a row is missing".into())
    }
}

/// Creates a put of constants, which are not copied, as Java's arrays are not.
fn put(row: Bytes) -> Put {
    let [family, qualifier] = [FAMILY, QUALIFIER].map(|name| Bytes::from_static(name.as_bytes()));
    Put::new(row).cell(family, qualifier, Bytes::from_static(&VALUE))
}

/// The choices of one task.
struct Task {
    index: usize,
    rows: usize,
    partitions: usize,
    random: Rng,
}

impl Task {
    fn partition(&mut self) -> usize {
        match self.partitions {
            1 => ONLY_PARTITION,
            partitions => self.random.usize(..partitions),
        }
    }

    fn row(&mut self) -> Bytes {
        row(self.partition(), self.random.usize(..ROWS_OF_PARTITION))
    }
}

/// Keeps as many calls in flight as requested, each from a task that makes one after the other.
async fn repeat<F>(
    request: &Request,
    rows_of_call: usize,
    call: impl Fn(&mut Task) -> F + Clone + Send + 'static,
) -> Result<Answer, Failure>
where
    F: Future<Output = Result<(), Failure>> + Send,
{
    let (began, length) = (Instant::now(), Duration::from_secs_f64(request.seconds));
    let tasks = (0..request.outstanding).map(|index| {
        let call = call.clone();
        let mut task = Task {
            index,
            rows: request.rows,
            partitions: request.partitions,
            random: Rng::new(),
        };
        tokio::spawn(async move {
            let mut times = Vec::new();
            while began.elapsed() < length {
                let sent = Instant::now();
                call(&mut task).await?;
                times.push(u32::try_from(sent.elapsed().as_nanos()).unwrap_or(u32::MAX));
            }
            Ok::<_, Failure>(times)
        })
    });
    let times = try_join_all(tasks.collect::<Vec<_>>()).await?;
    let times = times.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    let done = (times.len() * rows_of_call) as u64;
    Ok(Answer::of(times, done, began.elapsed().as_secs_f64()))
}
