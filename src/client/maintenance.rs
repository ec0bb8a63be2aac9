//! Flushes and major compactions, which region servers do, and where they would split.

use std::{borrow::Cow, collections::HashSet};

use bytes::Bytes;
use futures::{TryStreamExt, stream};
use prost::Message;
use tokio::time::Instant;

use super::{Admin, pauses::Pauses};
use crate::{
    cluster::{Attempts, CallKind, Cluster, Operation},
    error::{Effect, Error, ErrorKind, Result},
    model::{BytesBinary, RegionInfo, TableName},
    rpc::ServiceKind,
    wire::{
        cell_block::Codec,
        convert,
        pb::{self, get_region_info_response::CompactionState},
    },
};

/// Regions of a table that are seen to at a time.
const AT_ONCE: usize = 16;

/// What is done to regions.
#[derive(Clone, Copy, Debug)]
enum Chore {
    Flush,
    MajorCompaction,
}

impl Admin {
    /// Flushes a table: what was written before this call is in store files when it returns.
    ///
    /// Several regions flush at a time. Those that move, split or merge meanwhile are looked up again.
    ///
    /// # Errors
    ///
    /// [`TableNotFound`](ErrorKind::TableNotFound), [`TableDisabled`](ErrorKind::TableDisabled);
    /// [`DeadlineExceeded`](ErrorKind::DeadlineExceeded) when it has not ended within the operation timeout. Some
    /// regions may have flushed then; to flush again does no harm.
    pub async fn flush_table(&self, table: &TableName) -> Result<()> {
        self.see_to_table(Chore::Flush, table).await
    }

    /// Flushes a region, as [`flush_table`](Self::flush_table) does a table. Of a region that was split or merged
    /// since, it flushes those that have its rows now.
    ///
    /// # Errors
    ///
    /// As [`flush_table`](Self::flush_table).
    pub async fn flush_region(&self, region: &RegionInfo) -> Result<()> {
        self.see_to_rows(Chore::Flush, region, self.deadline()).await
    }

    /// Compacts a table: waits until every store file that its regions had when this was called has been rewritten
    /// by a major compaction. What was only in memory is not part of it: [flush](Self::flush_table) first.
    ///
    /// A major compaction drops what is deleted or expired, the delete markers too. Exceptions are HBase's: what a
    /// scanner that is still open may see, what a family keeps
    /// (`KEEP_DELETED_CELLS`, `hbase.hstore.time.to.purge.deletes`).
    ///
    /// It reads and writes all of the table's data; the operation timeout must allow for that
    /// ([`with_operation_timeout`](Self::with_operation_timeout)). When it passes, or the future is dropped, servers
    /// finish what they have begun.
    ///
    /// # Errors
    ///
    /// [`TableNotFound`](ErrorKind::TableNotFound), [`TableDisabled`](ErrorKind::TableDisabled);
    /// [`DeadlineExceeded`](ErrorKind::DeadlineExceeded), which is also how it ends where compactions are switched
    /// off: servers ignore the request then, and don't say so.
    pub async fn major_compact_table(&self, table: &TableName) -> Result<()> {
        self.see_to_table(Chore::MajorCompaction, table).await
    }

    /// Compacts a region, as [`major_compact_table`](Self::major_compact_table) does a table. Of a region that was
    /// split or merged since, it compacts those that have its rows now.
    ///
    /// # Errors
    ///
    /// As [`major_compact_table`](Self::major_compact_table).
    pub async fn major_compact_region(&self, region: &RegionInfo) -> Result<()> {
        self.see_to_rows(Chore::MajorCompaction, region, self.deadline())
            .await
    }

    /// Where its server would split a region by itself: the middle of its largest file, moved back by the table's split
    /// policy and restriction. None where it finds no place, or the region is another one by now.
    ///
    /// It changes no data; a server that finds no place writes the region's memory to a file and looks again
    /// (`RSRpcServices.getRegionInfo`).
    ///
    /// # Errors
    ///
    /// Those of the call: [`TableNotFound`](ErrorKind::TableNotFound), [`DeadlineExceeded`](ErrorKind::DeadlineExceeded), what the
    /// server refuses.
    pub async fn split_point(&self, region: &RegionInfo) -> Result<Option<Bytes>> {
        let place = Place {
            cluster: &self.connection.cluster,
            name: "split point",
            table: &region.table,
            row: &region.start_key,
            deadline: self.deadline(),
        };
        let (asked, answer): (_, pb::GetRegionInfoResponse) = place
            .ask("GetRegionInfo", CallKind::Read, |region| {
                pb::GetRegionInfoRequest {
                    region,
                    compaction_state: None,
                    best_split_row: Some(true),
                }
            })
            .await?;
        Ok(answer.best_split_row.filter(|_| asked.name == region.name))
    }

    async fn see_to_table(&self, chore: Chore, table: &TableName) -> Result<()> {
        let deadline = self.deadline();
        let regions = self.connection.cluster.regions_of(table, deadline).await?;
        stream::iter(regions.into_iter().map(Ok))
            .try_for_each_concurrent(AT_ONCE, async |found| {
                self.see_to_rows(chore, &found.region, deadline).await
            })
            .await
    }

    /// Does it to whichever regions have the rows of this one now.
    async fn see_to_rows(&self, chore: Chore, region: &RegionInfo, deadline: Instant) -> Result<()> {
        let mut row = region.start_key.clone();
        loop {
            let place = Place {
                cluster: &self.connection.cluster,
                name: chore.name(),
                table: &region.table,
                row: &row,
                deadline,
            };
            let done = match chore {
                Chore::Flush => place.flush().await?,
                Chore::MajorCompaction => place.major_compact().await?,
            };
            let covered = !region.end_key.is_empty() && done.end_key >= region.end_key;
            if covered || done.end_key.is_empty() {
                return Ok(());
            }
            row = done.end_key;
        }
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
                       off, for the table (COMPACTION_ENABLED) or on the server";

/// A row, by which the region that has it is addressed, and what an error says of it.
#[derive(Clone, Copy)]
struct Place<'a> {
    cluster: &'a Cluster,
    name: &'static str,
    table: &'a TableName,
    row: &'a Bytes,
    deadline: Instant,
}

/// The store files of a region that a major compaction was asked for.
#[derive(Debug)]
struct Round {
    region: RegionInfo,
    files: HashSet<String>,
    /// Whether another compaction than a major one was seen since.
    minor: bool,
}

impl Place<'_> {
    /// Flushes the region that has the row, and tells which one it was.
    async fn flush(&self) -> Result<RegionInfo> {
        let mut pauses = Pauses::polling();
        loop {
            let (region, answer): (_, pb::FlushRegionResponse) = self
                .ask("FlushRegion", CallKind::IdempotentWrite, |region| {
                    pb::FlushRegionRequest {
                        region,
                        write_flush_wal_marker: Some(true),
                        ..pb::FlushRegionRequest::default()
                    }
                })
                .await?;
            // The marker means that there was nothing to flush. Neither means that the region could not flush now;
            // a flush at work may have begun before what it was to include was written.
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

    /// Compacts the region that has the row, and tells which one it was.
    ///
    /// The request only queues compactions, one for each family, and is ignored for a family that is being compacted
    /// already, without a word. But when it is answered they are queued, so that the region says "major" of itself
    /// until they have ended; and they have been done when the files of before are gone. Files also go by minor
    /// compactions, several of which keep markers where a major one drops them: a round that sees one does not count.
    async fn major_compact(&self) -> Result<RegionInfo> {
        let mut was_asked_for = false;
        let compacted = self.until_compacted(&mut was_asked_for).await;
        compacted.map_err(|error| match (was_asked_for, error.kind()) {
            // The call that failed may only have looked; what was asked for before goes on.
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
            .ask("CompactRegion", CallKind::IdempotentWrite, |region| {
                pb::CompactRegionRequest {
                    region,
                    major: Some(true),
                    family: None,
                }
            })
            .await?;
        Ok(())
    }

    async fn compaction_state(&self) -> Result<(RegionInfo, CompactionState)> {
        let (region, answer): (_, pb::GetRegionInfoResponse) = self
            .ask("GetRegionInfo", CallKind::Read, |region| {
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
            .ask("GetStoreFile", CallKind::Read, |region| pb::GetStoreFileRequest {
                region,
                family: Vec::new(),
            })
            .await?;
        Ok((region, answer.store_file.into_iter().collect()))
    }

    /// Calls a method of the server that has the region of the row, until that succeeds or must not be tried again.
    async fn ask<M: Message, A: Message + Default>(
        &self,
        method: &'static str,
        kind: CallKind,
        request: impl Fn(pb::RegionSpecifier) -> M,
    ) -> Result<(RegionInfo, A)> {
        let operation = Operation {
            name: self.name,
            table: self.table,
            row: Cow::Borrowed(self.row),
            kind,
            deadline: self.deadline,
        };
        let mut attempts = Attempts::new(self.cluster, operation);
        loop {
            let location = attempts.locate().await?;
            let request = request(convert::region_specifier(&location.region));
            let deadline = attempts.attempt_deadline();
            let answer = self
                .cluster
                .call_region_server(
                    &location,
                    ServiceKind::Admin,
                    Codec::KeyValue,
                    method,
                    &request,
                    deadline,
                )
                .await;
            match answer {
                Ok((answer, _)) => return Ok((location.region.clone(), answer)),
                Err(failure) => attempts.recover(failure, &location).await?,
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
    /// Whether all files were rewritten by it, as the region and its files of now tell. Halves of a split have files
    /// of other names that only refer to the old ones.
    fn is_done_by(&self, region: &RegionInfo, files: &HashSet<String>) -> bool {
        !self.minor && self.region.name == region.name && self.files.is_disjoint(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_done_when_its_files_are_gone_from_the_same_region_by_a_major_compaction() {
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
