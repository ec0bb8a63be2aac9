//! Filters: the server passes exactly the cells that [`Filter::passes`] passes.

use hbase_txn::client::{
    Cell, Comparator, Comparison, FamilyDescriptor, Filter, Get, Put, Row, Scan, TableDescriptor, TableName,
};

use crate::support::{
    connect, keys,
    table::{SharedTable, plain},
};

static TABLE: SharedTable = SharedTable::new("filters", two_families, &[]);

fn two_families(name: TableName) -> TableDescriptor {
    plain(name)
        .with_family(FamilyDescriptor::new("g"))
        .with_family(FamilyDescriptor::new("versions").with_attribute("VERSIONS", "3"))
}

/// Random choices that are reproducible by their seed.
struct Random(fastrand::Rng);

impl Random {
    /// Short strings of few different bytes, so that filters match; extreme numbers, and values
    /// that are not numbers.
    fn bytes(&mut self) -> Vec<u8> {
        match self.0.u8(..4) {
            0 => self.number().to_be_bytes().to_vec(),
            _ => {
                let length = self.0.usize(..4);
                (0..length).map(|_| self.choice(b"\x00aAb\x7f\x80\xff")).collect()
            }
        }
    }

    fn number(&mut self) -> i64 {
        self.choice(&[i64::MIN, -256, -2, -1, 0, 1, 255, i64::MAX])
    }

    fn family(&mut self) -> &'static str {
        self.choice(&["f", "g"])
    }

    fn qualifier(&mut self) -> &'static str {
        self.choice(&["", "a", "ab", "b", "ba", "c"])
    }

    fn choice<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.usize(..of.len())]
    }

    /// A comparison, and operand bytes from `given`.
    fn comparison(&mut self, given: fn(&mut Self) -> Vec<u8>) -> (Comparison, Comparator) {
        let comparison = match self.0.u8(..6) {
            0 => Comparison::Equal,
            1 => Comparison::NotEqual,
            2 => Comparison::Less,
            3 => Comparison::LessOrEqual,
            4 => Comparison::Greater,
            _ => Comparison::GreaterOrEqual,
        };
        let given = given(self);
        let bits = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        let comparator = match self.0.u8(..if bits { 9 } else { 4 }) {
            0 => Comparator::binary(given),
            1 => Comparator::prefix(given),
            2 => Comparator::long(self.number()),
            3 => Comparator::component(self.0.u32(..3), self.choice(&["a", "b", "ab", "\0"])),
            4 => Comparator::bit_and(given),
            5 => Comparator::bit_or(given),
            6 => Comparator::bit_xor(given),
            7 => Comparator::substring(self.choice(&["a", "B", "ab", "\x7f"])),
            _ => Comparator::null(),
        };
        (comparison, comparator)
    }

    fn filter(&mut self, depth: usize) -> Filter {
        match self.0.u8(..if depth == 0 { 5 } else { 9 }) {
            0 => {
                let (comparison, comparator) = self.comparison(|random| random.family().into());
                Filter::family(comparison, comparator)
            }
            1 => {
                let (comparison, comparator) = self.comparison(|random| random.qualifier().into());
                Filter::qualifier(comparison, comparator)
            }
            2 => {
                let (comparison, comparator) = self.comparison(Self::bytes);
                Filter::value(comparison, comparator)
            }
            3 => {
                let (family, qualifier) = (self.family(), self.qualifier());
                let (comparison, comparator) = self.comparison(Self::bytes);
                Filter::column_value(family, qualifier, comparison, comparator)
            }
            4 => Filter::column_prefix(self.qualifier()),
            list => {
                let parts: Vec<_> = (0..self.0.usize(1..4)).map(|_| self.filter(depth - 1)).collect();
                if list % 2 == 0 {
                    Filter::all(parts)
                } else {
                    Filter::any(parts)
                }
            }
        }
    }
}

fn cells(row: Option<Row>) -> Vec<Cell> {
    row.map(Row::into_cells).unwrap_or_default()
}

#[tokio::test]
async fn the_server_lets_the_same_cells_through_as_the_client() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    let seed = fastrand::u64(..);
    let mut random = Random(fastrand::Rng::with_seed(seed));
    let (mut some, mut none) = (0, 0);
    for at in 0..25 {
        let row = format!("random{at}");
        let put = (0..random.0.usize(1..14)).fold(Put::new(row.clone()), |put, _| {
            let (family, qualifier) = (random.family(), random.qualifier());
            put.cell(family, qualifier, random.bytes())
        });
        table.put(put).await.unwrap();
        let stored = cells(table.get(Get::new(row.clone())).await.unwrap());
        for _ in 0..40 {
            let filter = random.filter(3);
            let found = table.get(Get::new(row.clone()).filter(filter.clone())).await;
            let found = found.unwrap_or_else(|error| panic!("seed {seed}, {filter:?}: {error}"));
            let expected: Vec<_> = stored
                .iter()
                .filter(|cell| filter.passes(cell))
                .cloned()
                .collect();
            if expected.is_empty() {
                none += 1;
            } else {
                some += 1;
            }
            assert_eq!(cells(found), expected, "seed {seed}, {filter:?} on {stored:?}");
        }
    }
    assert!(
        some > 200 && none > 200,
        "{some} filters let something through, {none} nothing"
    );
}

#[tokio::test]
async fn a_scan_finds_only_rows_that_have_cells_that_pass() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    for (row, value) in [("scan1", 5_i64), ("scan2", -5), ("scan3", 50)] {
        let put = Put::new(row)
            .cell("f", "total", value.to_be_bytes().to_vec())
            .cell("f", "word", "short");
        table.put(put).await.unwrap();
    }
    let large = Filter::column_value("f", "total", Comparison::GreaterOrEqual, Comparator::long(5));
    let scan = Scan::prefix("scan").filter(large);
    assert_eq!(keys(&table, scan.clone()).await, ["scan1", "scan3"]);
    assert_eq!(keys(&table, scan.clone().caching(1)).await, ["scan1", "scan3"]);
    assert_eq!(keys(&table, scan.limit(1)).await, ["scan1"]);
}

#[tokio::test]
async fn a_filter_is_asked_about_every_version_that_the_family_keeps() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    for (timestamp, value) in [(1, "old"), (2, "new")] {
        let put = Put::new("aged").cell_at("versions", "q", timestamp, value);
        table.put(put).await.unwrap();
    }
    let old = Filter::value(Comparison::Equal, Comparator::binary("old"));
    let found = cells(table.get(Get::new("aged").filter(old)).await.unwrap());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].timestamp, 1);
}
