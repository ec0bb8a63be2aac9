//! Random gets, scans and mutations have the same results here and in HBase's own Java client: one
//! table is written and read by this client, another one in the same way by the other client.
//!
//! `DIFFERENTIAL_OPERATIONS` is the number of operations on each release (300 unless set), and
//! `DIFFERENTIAL_SEED` repeats a run.

use std::env;

use fastrand::Rng;
use hbase_txn::client::{
    BytesBinary, CellKind, Comparator, Comparison, FamilyDescriptor, Filter, ReadFilter, Row, TableDescriptor,
};

use super::*;
use crate::support::java::JavaSide;

const OPERATIONS: u64 = 300;
/// The delete markers of more operations hide most cells.
const OPERATIONS_OF_TABLE: usize = 2_000;
const ROWS: u32 = 12;
const QUALIFIERS: [&str; 4] = ["", "a", "ab", "b"];
const FAMILIES: [&str; 2] = ["f", "g"];

/// A read, in the words of the Java program.
enum Read {
    Get(Get),
    Exists(Get),
    Scan(Scan),
}

struct Generator {
    rng: Rng,
}

fn versioned(name: TableName) -> TableDescriptor {
    TableDescriptor::from(name)
        .with_family(FamilyDescriptor::new("f").with_attribute("VERSIONS", "4"))
        .with_family(FamilyDescriptor::new("g"))
}

/// Applies an option to a get or a scan, whose methods have the same names.
macro_rules! selected {
    ($read:expr, $all:expr, $options:expr) => {{
        let (mut read, all, options) = ($read, $all, $options);
        for family in FAMILIES {
            match all.rng.u8(..8) {
                0 => {
                    read = read.family(family);
                    options.push(format!("family={family}"));
                }
                1 | 2 => {
                    let qualifier = all.qualifier();
                    read = read.column(family, qualifier);
                    options.push(format!("column={family}:{qualifier}"));
                }
                _ => {}
            }
        }
        if all.rng.u8(..2) == 0 {
            let versions = all.rng.u32(1..6);
            read = read.versions(versions);
            options.push(format!("versions={versions}"));
        }
        if all.rng.u8(..5) == 0 {
            let range = all.time_range();
            read = read.time_range(range);
            options.push(format!("time={}:{}", range.from, range.to));
        }
        if all.rng.u8(..5) == 0 {
            let (family, range) = (FAMILIES[all.rng.usize(..2)], all.time_range());
            read = read.column_family_time_range(family, range);
            options.push(format!("family-time={family}:{}:{}", range.from, range.to));
        }
        if all.rng.u8(..6) == 0 {
            let cells = all.rng.u32(1..4);
            read = read.max_results_per_column_family(cells);
            options.push(format!("cells={cells}"));
        }
        if all.rng.u8(..6) == 0 {
            let cells = all.rng.u32(0..3);
            read = read.row_offset_per_column_family(cells);
            options.push(format!("offset={cells}"));
        }
        read
    }};
}

impl Generator {
    fn row(&mut self) -> String {
        format!("r{:02}", self.rng.u32(..ROWS))
    }

    fn qualifier(&mut self) -> &'static str {
        QUALIFIERS[self.rng.usize(..QUALIFIERS.len())]
    }

    fn time_range(&mut self) -> TimeRange {
        let from = self.rng.u64(..9);
        TimeRange {
            from,
            to: from + self.rng.u64(1..9),
        }
    }

    /// Returns the changes of a row, for either client.
    fn mutations(&mut self) -> (Vec<Mutation>, Vec<String>) {
        let row = self.row();
        let (mut mutations, mut options) = (Vec::new(), vec![row.clone()]);
        for _ in 0..self.rng.u32(1..4) {
            let family = FAMILIES[self.rng.usize(..2)];
            let (qualifier, timestamp) = (self.qualifier(), self.rng.u64(1..10));
            let value = format!("v{}", self.rng.u8(..10));
            let delete = || Delete::new(row.clone());
            let (mutation, kind): (Mutation, _) = match self.rng.u8(..12) {
                0 => (delete().version(family, qualifier, timestamp).into(), "version"),
                1 => (
                    delete().column(family, qualifier).timestamp(timestamp).into(),
                    "column",
                ),
                2 => (delete().family(family).timestamp(timestamp).into(), "family"),
                3 => (delete().timestamp(timestamp).into(), "row"),
                4 => (
                    delete().family_version(family, timestamp).into(),
                    "family-version",
                ),
                _ => {
                    let put = Put::new(row.clone());
                    (
                        put.cell_at(family, qualifier, timestamp, value.clone()).into(),
                        "put",
                    )
                }
            };
            mutations.push(mutation);
            options.push(format!("{kind}:{family}:{qualifier}:{timestamp}:{value}"));
        }
        (mutations, options)
    }

    /// Returns a filter, and its text in HBase's language of filters.
    fn filter(&mut self) -> (ReadFilter, String) {
        let (row, qualifier, number) = (self.row(), self.qualifier(), self.rng.u8(..10));
        let equal = |value: String| (Comparator::binary(value.clone()), value);
        match self.rng.u8(..12) {
            0 => (
                ReadFilter::row_prefix(&b"r0"[..]),
                "PrefixFilter('r0')".to_owned(),
            ),
            1 => {
                let (comparator, value) = equal(row);
                let filter = ReadFilter::row(Comparison::Less, comparator);
                (filter, format!("RowFilter(<, 'binary:{value}')"))
            }
            2 => (
                Filter::column_prefix(qualifier).into(),
                format!("ColumnPrefixFilter('{qualifier}')"),
            ),
            3 => {
                let (comparator, value) = equal(format!("v{number}"));
                let filter = Filter::value(Comparison::GreaterOrEqual, comparator);
                (filter.into(), format!("ValueFilter(>=, 'binary:{value}')"))
            }
            4 => {
                let (comparator, value) = equal(qualifier.to_owned());
                let filter = Filter::qualifier(Comparison::NotEqual, comparator);
                (filter.into(), format!("QualifierFilter(!=, 'binary:{value}')"))
            }
            5 => (ReadFilter::first_key_only(), "FirstKeyOnlyFilter()".to_owned()),
            6 => (ReadFilter::key_only(), "KeyOnlyFilter()".to_owned()),
            7 => {
                let (limit, offset) = (self.rng.u32(1..4), self.rng.u32(..3));
                let filter = ReadFilter::column_page(limit, offset);
                (filter, format!("ColumnPaginationFilter({limit}, {offset})"))
            }
            8 => {
                let stamps = [self.rng.u64(1..10), self.rng.u64(1..10)];
                let filter = ReadFilter::timestamps(stamps);
                (filter, format!("TimestampsFilter({}, {})", stamps[0], stamps[1]))
            }
            9 => {
                let (comparator, value) = equal(format!("v{number}"));
                let inner = Filter::value(Comparison::NotEqual, comparator);
                (
                    ReadFilter::skip(inner),
                    format!("SKIP ValueFilter(!=, 'binary:{value}')"),
                )
            }
            10 => {
                let (comparator, value) = equal(row);
                let inner = ReadFilter::row(Comparison::NotEqual, comparator);
                (
                    ReadFilter::while_match(inner),
                    format!("WHILE RowFilter(!=, 'binary:{value}')"),
                )
            }
            _ => {
                let (one, other) = (equal(format!("v{number}")), equal(row));
                let filter = ReadFilter::any([
                    Filter::value(Comparison::Equal, one.0).into(),
                    ReadFilter::row(Comparison::GreaterOrEqual, other.0),
                ]);
                let text = format!(
                    "ValueFilter(=, 'binary:{}') OR RowFilter(>=, 'binary:{}')",
                    one.1, other.1
                );
                (filter, text)
            }
        }
    }

    fn read(&mut self) -> (Read, Vec<String>) {
        match self.rng.u8(..10) {
            0..3 => {
                let row = self.row();
                let exists = self.rng.u8(..4) == 0;
                let mut options = vec![format!("{}={row}", if exists { "exists" } else { "get" })];
                let mut get = selected!(Get::new(row), &mut *self, &mut options);
                if self.rng.bool() {
                    let (filter, text) = self.filter();
                    get = get.filter(filter);
                    options.push(format!("filter={text}"));
                }
                if exists {
                    (Read::Exists(get), options)
                } else {
                    (Read::Get(get), options)
                }
            }
            _ => self.scan(),
        }
    }

    fn scan(&mut self) -> (Read, Vec<String>) {
        let mut options = vec!["scan=".to_owned()];
        let mut scan = Scan::new();
        let is_reversed = self.rng.u8(..3) == 0;
        let (one, other) = (self.row(), self.row());
        let (low, high) = (one.clone().min(other.clone()), one.max(other));
        let (start, stop) = if is_reversed { (high, low) } else { (low, high) };
        match self.rng.u8(..4) {
            0 => {
                scan = scan.start_row(start.clone());
                options.push(format!("start={start}"));
            }
            1 => {
                scan = scan.start_row_exclusive(start.clone());
                options.push(format!("start-after={start}"));
            }
            _ => {}
        }
        match self.rng.u8(..4) {
            // HBase reads a row whose bounds both are it, whatever they include.
            0 if !options.iter().any(|option| option.ends_with(&stop)) => {
                scan = scan.stop_row(stop.clone());
                options.push(format!("stop={stop}"));
            }
            1 if !options.iter().any(|option| option.ends_with(&stop)) => {
                scan = scan.stop_row_inclusive(stop.clone());
                options.push(format!("stop-with={stop}"));
            }
            _ => {}
        }
        if is_reversed {
            scan = scan.reversed();
            options.push("reversed=".to_owned());
        }
        if self.rng.u8(..6) == 0 {
            scan = scan.raw();
            options.push("raw=".to_owned());
        } else {
            scan = selected!(scan, &mut *self, &mut options);
        }
        // A batch is refused with filters that judge rows.
        match self.rng.u8(..4) {
            0 => {
                let cells = self.rng.u32(1..5);
                scan = scan.batch(cells);
                options.push(format!("batch={cells}"));
            }
            1 | 2 => {
                let (filter, text) = self.filter();
                scan = scan.filter(filter);
                options.push(format!("filter={text}"));
            }
            _ => {}
        }
        // Java's client may return a row too few of those that it returns in batches.
        let is_batched = options.iter().any(|option| option.starts_with("batch"));
        if !is_batched && self.rng.u8(..3) == 0 {
            let rows = self.rng.u32(1..6);
            scan = scan.limit(u64::from(rows));
            options.push(format!("limit={rows}"));
        }
        if self.rng.bool() {
            let rows = self.rng.u32(1..6);
            scan = scan.caching(rows);
            options.push(format!("caching={rows}"));
        }
        if self.rng.u8(..4) == 0 {
            let bytes = self.rng.u64(1..400);
            scan = scan.max_result_size(bytes);
            options.push(format!("bytes={bytes}"));
        }
        (Read::Scan(scan), options)
    }
}

/// Returns an answer in the words of the Java program.
fn lines(row: &Row) -> Vec<String> {
    let code = |kind: CellKind| match kind {
        CellKind::Put => 4,
        CellKind::Delete => 8,
        CellKind::DeleteFamilyVersion => 10,
        CellKind::DeleteColumn => 12,
        CellKind::DeleteFamily => 14,
        kind => panic!("{kind:?}"),
    };
    let cells = row.cells().iter().map(|cell| {
        let text = |bytes| BytesBinary(bytes).to_string();
        [
            text(&cell.row),
            text(&cell.family),
            text(&cell.qualifier),
            cell.timestamp.to_string(),
            code(cell.kind).to_string(),
            text(&cell.value),
        ]
        .join("/")
    });
    cells.chain(["--".to_owned()]).collect()
}

/// Returns the answers, or the name of the exception.
async fn performed(table: &hbase_txn::client::Table, read: Read) -> Result<Vec<String>, String> {
    let failed = |error: hbase_txn::client::Failure<ClientErrorKind>| format!("{error}");
    match read {
        Read::Get(get) => {
            let row = table.get(get).await.map_err(failed)?;
            Ok(row.iter().flat_map(lines).collect())
        }
        Read::Exists(get) => Ok(vec![table.exists(get).await.map_err(failed)?.to_string()]),
        Read::Scan(scan) => {
            let mut scanner = table.scan(scan).map_err(failed)?;
            let mut all = Vec::new();
            while let Some(row) = scanner.next().await.map_err(failed)? {
                all.extend(lines(&row));
            }
            Ok(all)
        }
    }
}

/// How many reads were compared, and what came of them.
#[derive(Debug, Default)]
struct Compared {
    reads: u64,
    /// Found something.
    answered: u64,
    refused: u64,
}

/// The same table of both clients.
struct Sides<'a> {
    table: hbase_txn::client::Table,
    java: &'a JavaSide,
    in_java: &'a TableName,
}

impl Sides<'_> {
    /// Performs one operation with both clients. `at` leads back to it.
    async fn perform_next(&self, all: &mut Generator, at: &str, compared: &mut Compared) {
        if all.rng.u8(..3) == 0 {
            let (mutations, options) = all.mutations();
            for mutation in mutations {
                match mutation {
                    Mutation::Put(put) => self.table.put(put).await.unwrap(),
                    Mutation::Delete(delete) => self.table.delete(delete).await.unwrap(),
                    other => panic!("{other:?}"),
                }
            }
            self.java.write(self.in_java, &options).await.unwrap();
            return;
        }
        let (read, options) = all.read();
        let ours = performed(&self.table, read).await;
        let answer = self.java.read(self.in_java, &options).await;
        compared.reads += 1;
        match (ours, answer) {
            (Ok(ours), Ok(answer)) => {
                compared.answered += u64::from(!ours.is_empty());
                assert_eq!(ours, answer, "{at}: {options:?}");
            }
            // Both refuse it, or the server does.
            (Err(_), Err(_)) => compared.refused += 1,
            (Err(ours), Ok(_)) => panic!("{at}: {options:?}: {ours}"),
            (Ok(_), Err(error)) => panic!("{at}: {options:?}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn random_reads_and_mutations_have_the_results_that_java_has() {
    let number = |variable| {
        env::var(variable)
            .ok()
            .map(|text: String| text.parse::<u64>().unwrap())
    };
    let operations = number("DIFFERENTIAL_OPERATIONS").unwrap_or(OPERATIONS);
    let seed = number("DIFFERENTIAL_SEED").unwrap_or_else(|| fastrand::u64(1..1 << 32));
    // One virtual machine at a time: those of all releases would take the time that leases in other
    // tests have.
    for cluster in &versions() {
        let version = cluster.status.version.unwrap();
        println!("on {version}");
        let connection = cluster.connect().await;
        let java = JavaSide::start(cluster).await;
        let mut all = Generator {
            rng: Rng::with_seed(seed),
        };
        let mut compared = Compared::default();
        for first in (0..operations).step_by(OPERATIONS_OF_TABLE) {
            let mine = TestTable::create_on(cluster, "differential-ours", versioned, &["r04", "r09"]).await;
            let theirs = TestTable::create_on(cluster, "differential-java", versioned, &["r04", "r09"]).await;
            let sides = Sides {
                table: mine.of(&connection),
                java: &java,
                in_java: &theirs.name,
            };
            for operation in (first..operations).take(OPERATIONS_OF_TABLE) {
                let at = format!("DIFFERENTIAL_SEED={seed}, operation {operation}");
                sides.perform_next(&mut all, &at, &mut compared).await;
            }
        }
        println!("{version}: DIFFERENTIAL_SEED={seed}: {operations} operations, {compared:?}");
        let Compared {
            reads,
            answered,
            refused,
        } = compared;
        assert!(answered > reads / 3 && refused < reads / 10, "{compared:?}");
    }
}
