//! Flushes, major compactions and split points, which region servers execute.

use std::collections::HashSet;

use bytes::Bytes;
use futures::{TryStreamExt, stream};
use hbase_client::{
    BytesBinary, Connection, Effect, Error, ErrorKind, IntoBytes, IntoTableName, RegionInfo, Result,
    ServerName, TableName,
    low_level::{
        CallKind, Pauses, RegionCall, convert,
        pb::{self, get_region_info_response::CompactionState},
        table_regions,
    },
};
use prost::Message;
use tokio::time::Instant;

use crate::admin::Admin;

/// The maximum number of regions of a table that are flushed or compacted concurrently.
const CONCURRENCY: usize = 16;

/// An operation on a region.
#[derive(Clone, Copy, Debug)]
enum Chore {
    Flush,
    MajorCompaction,
}

/// An operation, and the only family that it is for; all families if there is none.
#[derive(Clone, Copy, Debug)]
struct Job<'a> {
    chore: Chore,
    family: Option<&'a Bytes>,
}

impl Admin {
    /// Flushes a table: writes everything that was put before this call to store files.
    ///
    /// Flushes several regions at a time. Looks up regions again that move, split or merge
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// Returns [`TableNotFound`](ErrorKind::TableNotFound),
    /// [`TableDisabled`](ErrorKind::TableDisabled), or
    /// [`DeadlineExceeded`](ErrorKind::DeadlineExceeded) if the flush does not end within the
    /// operation timeout. Some regions may have been flushed then; repeating it is harmless.
    pub async fn flush_table(&self, table: impl IntoTableName) -> Result<()> {
        let table = &table.into_table_name()?;
        self.maintain_table(Job::of_all(Chore::Flush), table, self.deadline())
            .await
    }

    /// Flushes a column family of a table, as [`flush_table`](Self::flush_table) does all.
    ///
    /// # Errors
    ///
    /// Returns an error as [`flush_table`](Self::flush_table) does, and
    /// [`FamilyNotFound`](ErrorKind::FamilyNotFound).
    pub async fn flush_column_family(&self, table: impl IntoTableName, family: impl IntoBytes) -> Result<()> {
        let (table, family) = (&table.into_table_name()?, &family.into_bytes());
        self.maintain_family(Chore::Flush, table, family).await
    }

    /// Flushes a region, as [`flush_table`](Self::flush_table) does a table. If the region was
    /// split or merged, flushes the regions that have its rows now.
    ///
    /// # Errors
    ///
    /// Returns an error as [`flush_table`](Self::flush_table) does.
    pub async fn flush_region(&self, region: &RegionInfo) -> Result<()> {
        self.maintain_rows(Job::of_all(Chore::Flush), region, self.deadline())
            .await
    }

    /// Compacts a table: waits until a major compaction has rewritten every store file that its
    /// regions had at the time of the call. Rows in memory are not included:
    /// [flush](Self::flush_table) first.
    ///
    /// A major compaction drops deleted and expired cells and delete markers. The exceptions are
    /// HBase's: cells that an open scanner may still read, and cells that a family keeps
    /// (`KEEP_DELETED_CELLS`, `hbase.hstore.time.to.purge.deletes`).
    ///
    /// It reads and writes all of the table's data; the operation timeout must allow for that
    /// ([`with_operation_timeout`](Self::with_operation_timeout)). When the timeout passes, or the
    /// future is dropped, servers finish the compactions that they have begun.
    ///
    /// # Errors
    ///
    /// Returns [`TableNotFound`](ErrorKind::TableNotFound),
    /// [`TableDisabled`](ErrorKind::TableDisabled), or
    /// [`DeadlineExceeded`](ErrorKind::DeadlineExceeded), also if compactions are switched off:
    /// servers ignore the request then, without an error.
    pub async fn major_compact_table(&self, table: impl IntoTableName) -> Result<()> {
        let table = &table.into_table_name()?;
        self.maintain_table(Job::of_all(Chore::MajorCompaction), table, self.deadline())
            .await
    }

    /// Compacts a column family of a table, as
    /// [`major_compact_table`](Self::major_compact_table) does all.
    ///
    /// # Errors
    ///
    /// Returns an error as [`major_compact_table`](Self::major_compact_table) does, and
    /// [`FamilyNotFound`](ErrorKind::FamilyNotFound).
    pub async fn major_compact_column_family(
        &self,
        table: impl IntoTableName,
        family: impl IntoBytes,
    ) -> Result<()> {
        let (table, family) = (&table.into_table_name()?, &family.into_bytes());
        self.maintain_family(Chore::MajorCompaction, table, family).await
    }

    /// Compacts a region, as [`major_compact_table`](Self::major_compact_table) does a table. If
    /// the region was split or merged, compacts the regions that have its rows now.
    ///
    /// # Errors
    ///
    /// Returns an error as [`major_compact_table`](Self::major_compact_table) does.
    pub async fn major_compact_region(&self, region: &RegionInfo) -> Result<()> {
        self.maintain_rows(Job::of_all(Chore::MajorCompaction), region, self.deadline())
            .await
    }

    /// Flushes the regions that a region server has open, as [`flush_region`](Self::flush_region) does each.
    /// Skips regions of tables that are deleted or disabled meanwhile.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached, and as [`flush_table`](Self::flush_table) does.
    pub async fn flush_region_server(&self, server: &ServerName) -> Result<()> {
        self.maintain_server(Chore::Flush, server).await
    }

    /// Compacts the regions that a region server has open, as
    /// [`major_compact_table`](Self::major_compact_table) does those of a table: all its data is read and
    /// written. Skips regions of tables that are deleted or disabled meanwhile.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached, and as
    /// [`major_compact_table`](Self::major_compact_table) does.
    pub async fn major_compact_region_server(&self, server: &ServerName) -> Result<()> {
        self.maintain_server(Chore::MajorCompaction, server).await
    }

    /// Returns the row at which the server would split a region: the middle of its largest file,
    /// adjusted by the split policy and restriction of the table. Returns `None` if the server
    /// finds no such point, or if the region does not exist anymore.
    ///
    /// It changes no data. A server that finds no split point flushes the region and tries again
    /// (`RSRpcServices.getRegionInfo`).
    ///
    /// # Errors
    ///
    /// Returns an error if the call fails, for example [`TableNotFound`](ErrorKind::TableNotFound)
    /// or [`DeadlineExceeded`](ErrorKind::DeadlineExceeded).
    pub async fn split_point(&self, region: &RegionInfo) -> Result<Option<Bytes>> {
        let target = RegionTarget {
            connection: &self.connection,
            name: "split point",
            table: &region.table,
            row: &region.start_key,
            family: None,
            deadline: self.deadline(),
        };
        let (asked, answer): (_, pb::GetRegionInfoResponse) = target
            .call("GetRegionInfo", CallKind::Read, |region| {
                pb::GetRegionInfoRequest {
                    region,
                    compaction_state: None,
                    best_split_row: Some(true),
                }
            })
            .await?;
        Ok(answer.best_split_row.filter(|_| asked.name == region.name))
    }

    async fn maintain_family(&self, chore: Chore, table: &TableName, family: &Bytes) -> Result<()> {
        let deadline = self.deadline();
        let descriptor = self.until(deadline).descriptor(table).await?;
        if descriptor.family(family).is_none() {
            let what = format!("the table has no column family {}", BytesBinary(family));
            let error = Error::new(ErrorKind::FamilyNotFound, what);
            return Err(error.at_operation(chore.name()).at_table(table));
        }
        let family = Some(family);
        self.maintain_table(Job { chore, family }, table, deadline).await
    }

    async fn maintain_server(&self, chore: Chore, server: &ServerName) -> Result<()> {
        let deadline = self.deadline();
        let found = self.until(deadline).online_regions(server).await?;
        // Servers flush a primary only.
        let primaries = found.into_iter().filter(|found| found.replica == 0);
        stream::iter(primaries.map(Ok))
            .try_for_each_concurrent(CONCURRENCY, async |found| {
                let done = self.maintain_rows(Job::of_all(chore), &found.region, deadline);
                match done.await {
                    Err(error)
                        if matches!(error.kind(), ErrorKind::TableNotFound | ErrorKind::TableDisabled) =>
                    {
                        Ok(())
                    }
                    done => done,
                }
            })
            .await
    }

    async fn maintain_table(&self, job: Job<'_>, table: &TableName, deadline: Instant) -> Result<()> {
        let regions = table_regions(&self.connection, table, deadline).await?;
        stream::iter(regions.into_iter().map(Ok))
            .try_for_each_concurrent(CONCURRENCY, async |found| {
                self.maintain_rows(job, &found.region, deadline).await
            })
            .await
    }

    /// Executes the operation on all regions that contain rows of this one now.
    async fn maintain_rows(&self, job: Job<'_>, region: &RegionInfo, deadline: Instant) -> Result<()> {
        let mut row = region.start_key.clone();
        loop {
            let target = RegionTarget {
                connection: &self.connection,
                name: job.chore.name(),
                table: &region.table,
                row: &row,
                family: job.family,
                deadline,
            };
            let done = match job.chore {
                Chore::Flush => target.flush().await?,
                Chore::MajorCompaction => target.major_compact().await?,
            };
            let covered = !region.end_key.is_empty() && done.end_key >= region.end_key;
            if covered || done.end_key.is_empty() {
                return Ok(());
            }
            row = done.end_key;
        }
    }
}

impl Job<'_> {
    const fn of_all(chore: Chore) -> Self {
        Self { chore, family: None }
    }
}

impl Chore {
    const fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::MajorCompaction => "major compaction",
        }
    }
}

const GOES_ON: &str = "a compaction that has begun goes on by itself. Allow more time; or see whether compactions are switched \
                       off, for the table (COMPACTION_ENABLED), by its space quota or on the server";

/// The current region of a row, and the context of errors.
#[derive(Clone, Copy)]
struct RegionTarget<'a> {
    connection: &'a Connection,
    name: &'static str,
    table: &'a TableName,
    row: &'a Bytes,
    /// The only family that the operation is for.
    family: Option<&'a Bytes>,
    deadline: Instant,
}

/// The store files of a region for which a major compaction was requested.
#[derive(Debug)]
struct Round {
    region: RegionInfo,
    files: HashSet<String>,
    /// Whether a compaction other than a major one was seen since.
    minor: bool,
}

impl RegionTarget<'_> {
    /// Flushes the region of the row, and returns it.
    async fn flush(&self) -> Result<RegionInfo> {
        let mut pauses = Pauses::polling();
        loop {
            let (region, answer): (_, pb::FlushRegionResponse) = self
                .call("FlushRegion", CallKind::IdempotentWrite, |region| {
                    pb::FlushRegionRequest {
                        region,
                        write_flush_wal_marker: Some(true),
                        family: self.family.cloned(),
                        ..pb::FlushRegionRequest::default()
                    }
                })
                .await?;
            // The marker means that there was nothing to flush. Neither flag means that the region
            // could not flush now: a flush in progress may have begun before the latest writes.
            if answer.flushed() || answer.wrote_flush_wal_marker() {
                return Ok(region);
            }
            if !pauses.wait_before(self.deadline).await {
                return Err(self.not_in_time(&region, "could not be flushed").with_hint(
                    "it may be closing, busy with other flushes, or of a table that is read-only",
                ));
            }
        }
    }

    /// Compacts the region of the row, and returns it.
    ///
    /// The request only queues compactions, one for each family; the server silently ignores a
    /// family that is being compacted already. The answer means that they are queued: the region
    /// reports "major" until they have ended, and they are done when the earlier files are gone.
    /// Minor compactions remove files too, and may keep markers that a major one drops, so a round
    /// that sees a minor one does not count.
    async fn major_compact(&self) -> Result<RegionInfo> {
        let mut was_asked_for = false;
        let compacted = self.until_compacted(&mut was_asked_for).await;
        compacted.map_err(|error| match (was_asked_for, error.kind()) {
            // The failed call may only have read. A compaction requested before continues.
            (true, ErrorKind::DeadlineExceeded) => {
                error.with_effect(Effect::Unknown).with_better_hint(GOES_ON)
            }
            (true, _) => error.with_effect(Effect::Unknown),
            (false, ErrorKind::DeadlineExceeded) => error.with_hint(GOES_ON),
            (false, _) => error,
        })
    }

    async fn until_compacted(&self, was_asked_for: &mut bool) -> Result<RegionInfo> {
        let mut pauses = Pauses::polling();
        let mut round: Option<Round> = None;
        loop {
            let (region, state) = self.compaction_state().await?;
            match (&mut round, state) {
                (None, CompactionState::None) => {
                    let (region, files) = self.store_files().await?;
                    if files.is_empty() {
                        return Ok(region);
                    }
                    self.request_major_compaction().await?;
                    *was_asked_for = true;
                    round = Some(Round {
                        region,
                        files,
                        minor: false,
                    });
                    continue;
                }
                (Some(asked), CompactionState::None) => {
                    let (region, files) = self.store_files().await?;
                    if asked.is_done_by(&region, &files) {
                        return Ok(region);
                    }
                    round = None;
                }
                (Some(asked), CompactionState::Minor | CompactionState::MajorAndMinor) => asked.minor = true,
                _ => {}
            }
            if !pauses.wait_before(self.deadline).await {
                return Err(self.not_in_time(&region, "was not compacted"));
            }
        }
    }

    async fn request_major_compaction(&self) -> Result<()> {
        let (_, pb::CompactRegionResponse {}) = self
            .call("CompactRegion", CallKind::IdempotentWrite, |region| {
                pb::CompactRegionRequest {
                    region,
                    major: Some(true),
                    family: self.family.cloned(),
                }
            })
            .await?;
        Ok(())
    }

    async fn compaction_state(&self) -> Result<(RegionInfo, CompactionState)> {
        let (region, answer): (_, pb::GetRegionInfoResponse) = self
            .call("GetRegionInfo", CallKind::Read, |region| {
                pb::GetRegionInfoRequest {
                    region,
                    compaction_state: Some(true),
                    best_split_row: None,
                }
            })
            .await?;
        Ok((region, answer.compaction_state()))
    }

    async fn store_files(&self) -> Result<(RegionInfo, HashSet<String>)> {
        let (region, answer): (_, pb::GetStoreFileResponse) = self
            .call("GetStoreFile", CallKind::Read, |region| pb::GetStoreFileRequest {
                region,
                family: self.family.cloned().into_iter().collect(),
            })
            .await?;
        Ok((region, answer.store_file.into_iter().collect()))
    }

    /// Calls a method of the region's server, until it succeeds or must not be repeated.
    async fn call<M: Message, A: Message + Default>(
        &self,
        method: &'static str,
        kind: CallKind,
        request: impl Fn(pb::RegionSpecifier) -> M + Send + Sync,
    ) -> Result<(RegionInfo, A)> {
        let table = self.connection.table(self.table.clone())?;
        let mut call = RegionCall::new(&table, self.name, self.row, kind, self.deadline);
        loop {
            let location = call.locate().await?;
            let region = location.region();
            let request = request(convert::region_specifier(region));
            match call.attempt(&location).admin(method, &request).await {
                Ok(answer) => return Ok((region.clone(), answer)),
                Err(failed) => call.recover(failed).await?,
            }
        }
    }

    fn not_in_time(&self, region: &RegionInfo, what: &str) -> Error {
        let what = format!("region {} {what} in time", BytesBinary(&region.name));
        Error::new(ErrorKind::DeadlineExceeded, what)
            .with_effect(Effect::Unknown)
            .at_operation(self.name)
            .at_table(self.table)
    }
}

impl Round {
    /// Returns whether the compaction has rewritten all files, given the region and its present
    /// files. The halves of a split have files with other names, which only refer to the old ones.
    fn is_done_by(&self, region: &RegionInfo, files: &HashSet<String>) -> bool {
        !self.minor && self.region.name == region.name && self.files.is_disjoint(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_ends_when_a_major_compaction_removed_its_files() {
        let region = |name: &'static str| RegionInfo {
            name: name.into(),
            ..RegionInfo::meta()
        };
        let files = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let done = |name, now: &[&str], minor| {
            let round = Round {
                region: region("r"),
                files: files(&["a", "b"]),
                minor,
            };
            round.is_done_by(&region(name), &files(now))
        };
        assert!(done("r", &["c"], false) && done("r", &["c", "flushed"], false) && done("r", &[], false));
        assert!(!done("r", &["b", "c"], false), "a file is left");
        assert!(!done("r", &["c"], true), "it may have been a minor one");
        assert!(!done("half", &["a.r", "b.r"], false), "only references");
    }
}
