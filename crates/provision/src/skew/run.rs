//! Concurrent reading of a table's regions.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use hbase_admin::{Admin, RegionLoad};
use hbase_client::{
    Connection, IntoTableName, ReadFilter, RegionInfo, Scan, Table, TableName, TableRegion,
    low_level::bounded,
};
use hbase_txn::{ClientErrorKind, Error, PartitionRule, Result, usable_descriptor};
use tokio::time::{Instant, timeout};

use super::{
    partitions::Scale,
    region::RegionMeasure,
    report::{SkewProgress, SkewReport},
    table::TableMeasure,
};

/// The default limit of a run.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// The default number of largest partitions.
const LARGEST: usize = 20;
/// The maximum number of largest partitions.
const MAX_LARGEST: usize = 1_000;
/// The default number of regions to read concurrently.
const REGIONS_AT_ONCE: usize = 4;
const MAX_REGIONS_AT_ONCE: usize = 64;
/// Tables up to this size are read completely by default; of larger tables, a sample of about this
/// size.
const WHOLE_MIB: u64 = 1_024;
/// The smallest fraction that is chosen by default: a smaller sample would miss too many
/// partitions.
const SMALLEST_FRACTION: f64 = 0.001;
/// The number of rows of a region between reports of progress.
const ROWS_TOLD: u64 = 10_000;

/// The rows to read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Sampling {
    /// All rows of a table of up to 1 GiB, as reported by its servers. Of a larger table, a sample
    /// of about 1 GiB, but at least one row in 1,000.
    #[default]
    Auto,
    /// Each row with this probability: above 0 and at most 1 (all rows).
    Fraction(f64),
}

/// A measurement of the distribution of a table's rows over its partitions and regions.
///
/// Servers send the lengths of values instead of the values. Memory is bounded, independent of the
/// number of rows and partitions. A sample reduces the rows that are sent and counted; the servers
/// still read all rows, and do not add blocks from disk to their block caches.
///
/// The table may be written meanwhile, and its regions may move, split and merge. Reading a large
/// table loads its servers; [`regions_at_once`](Self::regions_at_once) limits the load.
///
/// # Example
///
/// ```
/// use hbase_provision::Skew;
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_partitioned_table("orders", &["f"], 3);
/// # let connection = hbase.connect().await?;
/// # let put = hbase_txn::client::Put::new("xxxabc").cell("f", "state", "new");
/// # connection.table("orders")?.put(put).await?;
/// let report = Skew::new(&connection, "orders")?.largest(10).run(|_| {}).await?;
/// for partition in &report.largest {
///     println!("{}: {} bytes", partition.partition, partition.total_bytes());
/// }
/// # assert_eq!(report.largest.len(), 1);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Skew {
    connection: Connection,
    table: TableName,
    sampling: Sampling,
    largest: usize,
    regions_at_once: usize,
    patience: Duration,
}

impl Skew {
    /// Creates a measurement of this table.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a table's name.
    pub fn new(connection: &Connection, table: impl IntoTableName) -> Result<Self> {
        Ok(Self {
            connection: connection.clone(),
            table: table.into_table_name()?,
            sampling: Sampling::default(),
            largest: LARGEST,
            regions_at_once: REGIONS_AT_ONCE,
            patience: PATIENCE,
        })
    }

    /// Sets the rows to read.
    #[must_use]
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// Sets the number of largest partitions in the report: default 20, at most 1,000.
    #[must_use]
    pub fn largest(mut self, partitions: usize) -> Self {
        self.largest = partitions;
        self
    }

    /// Sets the number of regions to read concurrently: default 4, from 1 to 64.
    #[must_use]
    pub fn regions_at_once(mut self, regions: usize) -> Self {
        self.regions_at_once = regions;
        self
    }

    /// Sets the limit of the whole run: default one hour. Each call for rows has the connection's
    /// operation timeout.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = bounded(patience);
        self
    }

    /// Reads the table, and reports progress from time to time.
    ///
    /// # Errors
    ///
    /// Returns [`NoPartitionRule`](hbase_txn::ErrorKind::NoPartitionRule),
    /// [`TableNotFound`](ClientErrorKind::TableNotFound) or
    /// [`TableDisabled`](ClientErrorKind::TableDisabled);
    /// [`InvalidInput`](ClientErrorKind::InvalidInput) if an option is out of range; or
    /// [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) if the limit of the run is exceeded.
    pub async fn run(&self, report: impl FnMut(SkewProgress) + Send) -> Result<SkewReport> {
        let in_context = |error: Error| error.at_operation("measuring the table").at_table(&self.table);
        self.check().map_err(in_context)?;
        let watch = Watch(Mutex::new((SkewProgress::default(), report)));
        let read = timeout(self.patience, self.read(&watch)).await;
        read.unwrap_or_else(|_| Err(self.too_late(watch.progress())))
            .map_err(in_context)
    }

    fn check(&self) -> Result<()> {
        if let Sampling::Fraction(fraction) = self.sampling
            && !(fraction > 0.0 && fraction <= 1.0)
        {
            return Err(Error::invalid(format!(
                "a sample of {fraction} of the rows; it is above 0 and at most 1"
            )));
        }
        let bounds = [
            ("largest partitions", self.largest, 0..=MAX_LARGEST),
            ("regions at once", self.regions_at_once, 1..=MAX_REGIONS_AT_ONCE),
        ];
        match bounds.iter().find(|(_, number, range)| !range.contains(number)) {
            Some((what, number, range)) => Err(Error::invalid(format!(
                "{number} {what}; they are from {} to {}",
                range.start(),
                range.end()
            ))),
            None => Ok(()),
        }
    }

    fn too_late(&self, progress: SkewProgress) -> Error {
        Error::new(
            ClientErrorKind::DeadlineExceeded,
            format!(
                "{} of {} regions and {} rows were read in {:?}",
                progress.regions_done, progress.regions, progress.rows, self.patience
            ),
        )
        .with_hint("give it more time, or read a sample of the rows")
    }

    async fn read<F: FnMut(SkewProgress) + Send>(&self, watch: &Watch<F>) -> Result<SkewReport> {
        let admin = Admin::new(&self.connection);
        let deadline = Instant::now() + self.connection.config().operation_timeout();
        let descriptor = usable_descriptor(&admin, &self.table, deadline).await?;
        let rule = PartitionRule::from_descriptor(&descriptor)?;
        let regions = admin.regions(&self.table).await?;
        let mut loads = self.loads(&regions).await?;
        let fraction = self.fraction(loads.values());
        let scale = Scale::new(fraction);
        watch.update(|progress| progress.regions = regions.len());

        let table = self.connection.table(&self.table)?;
        let measures = regions.iter().enumerate().map(|(at, found)| {
            let measure = RegionMeasure::new(rule.clone(), scale, at, self.largest);
            read_region(&table, scan(&found.region, fraction), measure, watch)
        });
        // In the order of the regions, because their boundaries may cut a partition. Collected
        // first: with a lazy iterator of futures in the stream, this future could not be spawned as
        // a task.
        let measures: Vec<_> = measures.collect();
        let mut measures = stream::iter(measures).buffered(self.regions_at_once);
        let mut all = TableMeasure::new(scale, self.largest);
        for found in &regions {
            let Some(measure) = measures.next().await else {
                break;
            };
            all.add(found.clone(), loads.remove(&found.region.name), measure?);
        }
        Ok(all.into_report(self.table.clone(), fraction))
    }

    /// Returns the servers' load reports on the table's regions.
    async fn loads(&self, regions: &[TableRegion]) -> Result<HashMap<Bytes, RegionLoad>> {
        let servers = Admin::new(&self.connection).server_loads().await?;
        let mut loads: HashMap<_, _> = servers
            .into_iter()
            .flat_map(|server| server.regions)
            .map(|load| (load.name.clone(), load))
            .collect();
        let of_table = regions.iter().map(|found| &found.region.name);
        Ok(of_table.filter_map(|name| loads.remove_entry(name)).collect())
    }

    fn fraction<'a>(&self, loads: impl Iterator<Item = &'a RegionLoad>) -> f64 {
        match self.sampling {
            Sampling::Fraction(fraction) => fraction,
            Sampling::Auto => {
                let mib: u64 = loads
                    .map(|load| u64::from(load.store_files_mib) + u64::from(load.memstore_mib))
                    .sum();
                (WHOLE_MIB as f64 / mib.max(1) as f64).clamp(SMALLEST_FRACTION, 1.0)
            }
        }
    }
}

/// All versions of all rows, or of a random sample of the rows.
fn scan(region: &RegionInfo, fraction: f64) -> Scan {
    let sample = (fraction < 1.0).then(|| ReadFilter::random_rows(fraction as f32));
    let filters = sample.into_iter().chain([ReadFilter::value_lengths()]);
    Scan::new()
        .start_row(region.start_key.clone())
        .stop_row(region.end_key.clone())
        .versions(u32::MAX)
        .filter(ReadFilter::all(filters))
        .cache_blocks(false)
}

async fn read_region<F: FnMut(SkewProgress) + Send>(
    table: &Table,
    scan: Scan,
    mut measure: RegionMeasure,
    watch: &Watch<F>,
) -> Result<RegionMeasure> {
    let mut rows = table.scan(scan)?;
    let mut unreported = 0;
    while let Some(row) = rows.next().await? {
        measure.add(&row)?;
        unreported += 1;
        if unreported == ROWS_TOLD {
            watch.update(|progress| progress.rows += std::mem::take(&mut unreported));
        }
    }
    watch.update(|progress| {
        progress.rows += unreported;
        progress.regions_done += 1;
    });
    Ok(measure)
}

/// The progress and its receiver.
struct Watch<F>(Mutex<(SkewProgress, F)>);

impl<F: FnMut(SkewProgress)> Watch<F> {
    fn update(&self, change: impl FnOnce(&mut SkewProgress)) {
        let mut watch = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut watch.0);
        let progress = watch.0;
        (watch.1)(progress);
    }

    fn progress(&self) -> SkewProgress {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }
}
