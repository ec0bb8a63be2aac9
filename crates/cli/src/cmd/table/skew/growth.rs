//! The previous run, in a file, and the growth since then.

use std::{
    collections::BTreeMap,
    fs::{self, File, Permissions},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use hbase_local::Home;
use hbase_provision::{PartitionSize, RegionSkew, SkewReport};
use hbase_txn::client::BytesBinary;
use serde::{Deserialize, Serialize};

use super::words;
use crate::{cmd::whole_file, output};

/// The maximum size of a file; this command writes no larger one.
const LARGEST_FILE: u64 = 64 << 20;
/// The maximum number of regions in the file.
const REGIONS: usize = 10_000;

/// The data of a run in the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LastRun {
    cluster: String,
    table: String,
    /// In seconds since 1970.
    at: u64,
    sampled: bool,
    rows: u64,
    bytes: u64,
    partitions: u64,
    /// Bytes by the encoded name of the region.
    regions: BTreeMap<String, u64>,
    /// Bytes of the largest partitions, by their first keys.
    largest: BTreeMap<String, u64>,
}

/// The growth or shrinkage between two runs.
#[derive(Debug)]
pub(super) struct Growth {
    /// The time of the previous run, in seconds since 1970.
    pub(super) since: u64,
    /// The seconds between the runs.
    pub(super) seconds: u64,
    /// Whether one of the runs was a sample.
    pub(super) estimated: bool,
    pub(super) rows: i64,
    pub(super) bytes: i64,
    pub(super) partitions: i64,
    before: LastRun,
}

impl LastRun {
    pub(super) fn of(cluster: &str, report: &SkewReport, at: u64) -> Self {
        Self {
            cluster: cluster.to_owned(),
            table: report.table.to_string(),
            at,
            sampled: report.is_sampled(),
            rows: report.users.rows,
            bytes: report.total_bytes(),
            partitions: report.partitions,
            regions: report
                .regions
                .iter()
                .take(REGIONS)
                .map(|region| (region_key(region), region.total_bytes()))
                .collect(),
            largest: report
                .largest
                .iter()
                .map(|size| (partition_key(size), size.total_bytes()))
                .collect(),
        }
    }

    /// Writes this run to the file, and returns the growth since the run that was there. An
    /// unreadable or unwritable file is reported and is not an error.
    pub(super) fn replace_the_one_before(self) -> Option<Growth> {
        let path = match self.path() {
            Ok(path) => path,
            Err(why) => {
                output::complain(&format!("hbase-txn: the run is not remembered: {why}"));
                return None;
            }
        };
        self.replace(&path)
    }

    fn replace(self, path: &Path) -> Option<Growth> {
        let before = match read(path) {
            Ok(before) => {
                before.filter(|before| before.cluster == self.cluster && before.table == self.table)
            }
            Err(why) => {
                output::complain(&format!(
                    "hbase-txn: {} is damaged and is replaced: {why}",
                    path.display()
                ));
                None
            }
        };
        if let Err(why) = self.write(path) {
            output::complain(&format!("hbase-txn: the run is not remembered: {why}"));
        }
        before.map(|before| self.since(before))
    }

    /// Returns `$XDG_STATE_HOME/hbase-txn/skew/TABLE-….json`, a different file for each cluster.
    fn path(&self) -> Result<PathBuf, String> {
        let home = Home::from_env().map_err(|error| error.to_string())?;
        let digest = hmac_sha256::Hash::hash(format!("{}\n{}", self.cluster, self.table).as_bytes());
        let digest: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let table: String = self.table.replace(':', ".").chars().take(100).collect();
        Ok(home.state().join("skew").join(format!("{table}-{digest}.json")))
    }

    fn write(&self, path: &Path) -> Result<(), String> {
        if let Some(folder) = path.parent() {
            // Prefixes of rows are in the file.
            fs::create_dir_all(folder)
                .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(0o700)))
                .map_err(|error| format!("creating {}: {}", folder.display(), output::plain(&error)))?;
        }
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        whole_file::write(path, &text).map_err(|error| error.to_string())
    }

    fn since(&self, before: Self) -> Growth {
        Growth {
            since: before.at,
            seconds: self.at.saturating_sub(before.at),
            estimated: self.sampled || before.sampled,
            rows: difference(self.rows, before.rows),
            bytes: difference(self.bytes, before.bytes),
            partitions: difference(self.partitions, before.partitions),
            before,
        }
    }
}

impl Growth {
    /// Returns the growth of a region in bytes; `None` if the region is new, for example after a
    /// split.
    pub(super) fn of_region(&self, region: &RegionSkew) -> Option<i64> {
        let before = self.before.regions.get(&region_key(region))?;
        Some(difference(region.total_bytes(), *before))
    }

    /// Returns the growth of a partition in bytes; `None` if it was not among the largest.
    pub(super) fn of_partition(&self, size: &PartitionSize) -> Option<i64> {
        let before = self.before.largest.get(&partition_key(size));
        // If the file has all partitions, a missing one had no rows.
        let all = !self.before.sampled && self.before.largest.len() as u64 == self.before.partitions;
        let before = before.copied().or_else(|| all.then_some(0))?;
        Some(difference(size.total_bytes(), before))
    }

    /// Returns the bytes of the table in the previous run.
    pub(super) fn bytes_before(&self) -> u64 {
        self.before.bytes
    }

    /// `since 2026-11-22 14:05 UTC (3 h ago)`.
    pub(super) fn since_text(&self) -> String {
        format!(
            "since {} ({})",
            words::moment(self.since),
            words::ago(self.seconds)
        )
    }
}

/// Reads the previous run, if there is one.
fn read(path: &Path) -> Result<Option<LastRun>, String> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(output::plain(&error)),
    };
    let mut text = String::new();
    let read = file.take(LARGEST_FILE + 1).read_to_string(&mut text);
    read.map_err(|error| output::plain(&error))?;
    if text.len() as u64 > LARGEST_FILE {
        return Err(format!("it has more than {}", words::bytes(LARGEST_FILE)));
    }
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| error.to_string())
}

fn difference(now: u64, before: u64) -> i64 {
    let size = i64::try_from(now.abs_diff(before)).unwrap_or(i64::MAX);
    if now < before { -size } else { size }
}

fn region_key(region: &RegionSkew) -> String {
    region.region.encoded_text()
}

/// A row that is a partition of its own may have the same prefix as another partition. Its key gets
/// a suffix that no formatted key contains.
fn partition_key(size: &PartitionSize) -> String {
    let key = BytesBinary(size.partition.first_key()).to_string();
    if size.partition.is_lone_row() {
        format!("{key}\n")
    } else {
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bytes: u64) -> LastRun {
        LastRun {
            cluster: "hbase+zk://z:1/hbase".to_owned(),
            table: "t".to_owned(),
            at: 1_000 + bytes,
            sampled: false,
            rows: 5,
            bytes,
            partitions: 2,
            regions: BTreeMap::new(),
            largest: [("a".to_owned(), bytes)].into(),
        }
    }

    #[test]
    fn growth_is_between_two_runs_of_one_table_of_one_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("skew/t.json");
        assert!(run(10).replace(&path).is_none());
        let growth = run(7).replace(&path).unwrap();
        assert_eq!((growth.bytes, growth.rows, growth.since), (-3, 0, 1_010));
        let another = LastRun {
            cluster: "hbase+zk://y:1/hbase".to_owned(),
            ..run(9)
        };
        assert!(another.replace(&path).is_none());
    }

    #[test]
    fn a_damaged_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        for damage in ["{\"at\":", "[]", "{}", "\u{0}"] {
            fs::write(&path, damage).unwrap();
            assert!(read(&path).is_err(), "{damage}");
            assert!(run(1).replace(&path).is_none());
            assert!(read(&path).unwrap().is_some());
        }
    }

    #[test]
    fn runs_are_private_to_their_user() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("skew");
        // As an earlier release made it.
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        run(1).write(&folder.join("t.json")).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
