//! The workloads, and the requests to contestants.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The partitions, which are the first three digits of a row.
pub(crate) const PARTITIONS: usize = 1_000;
/// The rows of a partition that are read, and that single puts and bulk writes overwrite.
pub(crate) const ROWS_OF_PARTITION: usize = 100;
/// The partition of all transactions of a workload in one partition.
pub(crate) const ONLY_PARTITION: usize = 500;
pub(crate) const FAMILY: &str = "f";
pub(crate) const QUALIFIER: &str = "q";
pub(crate) const VALUE: [u8; 100] = [b'v'; 100];

/// Returns three digits of the partition and five of the row, as the Java client's side does: formatting
/// would be a tenth of a bulk write.
pub(crate) fn row(partition: usize, number: usize) -> Bytes {
    let mut row = [b'0'; 8];
    let mut rest = partition * 100_000 + number;
    for digit in row.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    Bytes::copy_from_slice(&row)
}

/// Returns the rows of a bulk write in order: the first of all partitions, then the second of all.
pub(crate) fn nth_row(n: usize) -> Bytes {
    row(n % PARTITIONS, n / PARTITIONS % ROWS_OF_PARTITION)
}

/// One round of one contestant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) operation: Operation,
    /// The number of calls, or lanes of a bulk write, that are in flight at a time.
    pub(crate) outstanding: usize,
    /// The rows of one call.
    pub(crate) rows: usize,
    pub(crate) partitions: usize,
    pub(crate) rows_of_partition: usize,
    pub(crate) seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Operation {
    /// A new client that reads one row.
    Connect,
    Get,
    GetMany,
    Scan,
    /// Several regions at once.
    ScanRegions,
    Put,
    Bulk,
    Commit,
    /// Commits with a record under a generated id.
    Recorded,
    /// Commits with a record under the caller's id.
    OwnId,
}

/// The result of a round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Rows, or commits, that were certainly read or written.
    #[serde(default)]
    pub(crate) done: u64,
    #[serde(default)]
    pub(crate) seconds: f64,
    /// Percentiles of the times of calls, in microseconds.
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    /// Why the round failed.
    pub(crate) error: Option<String>,
}

impl Answer {
    /// Summarizes the times of calls in nanoseconds.
    pub(crate) fn of(mut times: Vec<u32>, done: u64, seconds: f64) -> Self {
        times.sort_unstable();
        let at = |share: f64| {
            let place = (times.len() as f64 * share) as usize;
            times.get(place).map(|nanos| f64::from(*nanos) / 1e3)
        };
        Self {
            done,
            seconds,
            p50: at(0.5),
            p99: at(0.99),
            error: None,
        }
    }
}

/// A program that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contestant {
    Ours,
    Java,
    Floor,
}

impl Contestant {
    /// Returns the name on command lines and of colours.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Java => "java",
            Self::Floor => "floor",
        }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ours => "hbase-txn",
            Self::Java => "Java client",
            Self::Floor => "floor",
        })
    }
}

/// A workload, and its variants that are compared. The first variant is that of this client.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) id: &'static str,
    pub(crate) title: String,
    /// What is counted.
    pub(crate) unit: &'static str,
    /// Whether the time of a call is compared instead of the rate.
    pub(crate) lone: bool,
    pub(crate) variants: Vec<Variant>,
}

#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) contestant: Contestant,
    pub(crate) request: Request,
}

impl Workload {
    fn new(id: &'static str, title: impl Into<String>, unit: &'static str, request: &Request) -> Self {
        let workload = Self {
            id,
            title: title.into(),
            unit,
            lone: request.outstanding == 1 && matches!(request.operation, Operation::Get | Operation::Put),
            variants: Vec::new(),
        };
        workload.with(Contestant::Ours, request)
    }

    fn with(self, contestant: Contestant, request: &Request) -> Self {
        self.with_named(contestant.to_string(), contestant, request)
    }

    fn with_named(mut self, name: impl Into<String>, contestant: Contestant, request: &Request) -> Self {
        self.variants.push(Variant {
            name: name.into(),
            contestant,
            request: request.clone(),
        });
        self
    }

    /// Leaves out the other contestants.
    pub(crate) fn of(mut self, contestants: &[Contestant]) -> Self {
        self.variants
            .retain(|variant| contestants.contains(&variant.contestant));
        self
    }

    fn with_all(self, request: &Request) -> Self {
        self.with(Contestant::Java, request)
            .with(Contestant::Floor, request)
    }
}

/// Returns all workloads, in the order in which they are measured.
pub(crate) fn all(seconds: f64) -> Vec<Workload> {
    let request = |operation, outstanding, rows, partitions| Request {
        operation,
        outstanding,
        rows,
        partitions,
        rows_of_partition: ROWS_OF_PARTITION,
        seconds,
    };
    let spread = |operation, outstanding, rows| request(operation, outstanding, rows, PARTITIONS);
    let single = |id, outstanding| {
        let (operation, word, unit) = match id {
            "lone-get" | "get-64" | "get-512" => (Operation::Get, "get", "gets"),
            _ => (Operation::Put, "put", "puts"),
        };
        let title = match outstanding {
            1 => format!("lone {word}"),
            _ => format!("{unit}, {outstanding} at once"),
        };
        let request = spread(operation, outstanding, 1);
        Workload::new(id, title, unit, &request).with_all(&request)
    };
    let commit = |id, rows| {
        let request = spread(Operation::Commit, 64, rows);
        let title = format!("commits of {rows} rows, 64 at once");
        Workload::new(id, title, "commits", &request).with_all(&request)
    };

    let get_many = spread(Operation::GetMany, 8, 100);
    let scan = spread(Operation::Scan, 1, 1);
    let scan_regions = spread(Operation::ScanRegions, 1, 1);
    // The floor has two frames of 2,000 rows in flight in each of four regions.
    let (bulk, bulk_frames) = (
        spread(Operation::Bulk, 2, 16_000),
        spread(Operation::Bulk, 8, 2_000),
    );
    let hot = |operation, outstanding, rows| request(operation, outstanding, rows, 1);
    // The floor has 100 commits in each of three frames, because nothing else is as fast for one partition.
    let hot_commit = |id, outstanding| {
        let request = hot(Operation::Commit, outstanding, 10);
        let title = format!("commits of 10 rows in one partition, {outstanding} at once");
        Workload::new(id, title, "commits", &request)
            .with(Contestant::Java, &request)
            .with(Contestant::Floor, &hot(Operation::Commit, 3, 10))
    };
    let recorded = hot(Operation::Recorded, 64, 1);
    let connect = spread(Operation::Connect, 8, 1);
    vec![
        Workload::new(
            "connect",
            "new clients that read a row, 8 at once",
            "clients",
            &connect,
        )
        .with(Contestant::Java, &connect),
        single("lone-get", 1),
        single("get-64", 64),
        single("get-512", 512),
        Workload::new("get-many", "gets of 100 rows, 8 at once", "rows", &get_many)
            .with(Contestant::Java, &get_many),
        Workload::new("scan", "scan of the table", "rows", &scan).with(Contestant::Java, &scan),
        // Java has no scan of several regions at once.
        Workload::new(
            "scan-regions",
            "scan of the table, four regions at once",
            "rows",
            &scan_regions,
        )
        .with(Contestant::Java, &scan),
        single("lone-put", 1),
        single("put-8", 8),
        single("put-64", 64),
        single("put-512", 512),
        Workload::new("bulk", "bulk write", "rows", &bulk)
            .with(Contestant::Java, &bulk)
            .with(Contestant::Floor, &bulk_frames),
        commit("commit-2", 2),
        commit("commit-10", 10),
        commit("commit-50", 50),
        hot_commit("hot-commit", 64),
        hot_commit("hot-commit-300", 300),
        Workload::new(
            "hot-recorded",
            "recorded commits of one row in one partition, 64 at once",
            "commits",
            &recorded,
        )
        // As they would have to be if transactions with records could not share a call.
        .with_named(
            "one after the other",
            Contestant::Ours,
            &hot(Operation::Recorded, 1, 1),
        ),
        Workload::new(
            "own-id",
            "recorded commits of one row, caller's id, 16 at once",
            "commits",
            &spread(Operation::OwnId, 16, 1),
        )
        .with_named(
            "generated id",
            Contestant::Ours,
            &spread(Operation::Recorded, 16, 1),
        ),
    ]
}
