//! A table, and all filters of reads with the rows that they find in it.

use hbase_txn::client::{
    Cell, Comparator, Comparison, Connection, DependentColumnFilter, FamilyDescriptor, Filter, Put,
    ReadComparator, ReadFilter, Regex, RegexEngine, RegexFlag, Scan, SingleColumnValueFilter, Table,
    TableDescriptor, TableName,
};

use super::{
    Cluster, rows,
    table::{TestTable, plain},
};

/// The key at which the second region of the table begins.
const SPLIT: &str = "b";

/// A filter, and what it finds.
pub struct Case {
    /// The filter in the language of `tests/java`, or empty if HBase's own comparator fails or reads
    /// beyond the value.
    pub java: &'static str,
    pub filter: ReadFilter,
    /// Keys of rows, each with the qualifiers that were found unless all were.
    pub found: &'static str,
}

/// Creates the table.
pub async fn filled(cluster: &Cluster, connection: &Connection) -> TestTable {
    let table = TestTable::create_on(cluster, "readfilters", descriptor, &[SPLIT]).await;
    fill(&table.of(connection)).await;
    table
}

fn descriptor(name: TableName) -> TableDescriptor {
    plain(name)
        .with_family(FamilyDescriptor::new("g"))
        .with_family(FamilyDescriptor::new("h").with_attribute("VERSIONS", "3"))
}

async fn fill(table: &Table) {
    let put = Put::new("a1x")
        .cell_at("f", "a", 1, "one")
        .cell_at("f", "ab", 1, "Two")
        .cell_at("f", "b", 2, "three")
        .cell_at("f", "m", 1, 7_i64.to_be_bytes())
        .cell_at("f", "n", 1, 5_i64.to_be_bytes())
        .cell_at("h", "v", 1, "old")
        .cell_at("h", "v", 2, "new");
    table.put(put).await.unwrap();
    let put = Put::new("a2y")
        .cell_at("f", "a", 2, "ONE")
        .cell_at("f", "b", 2, "four")
        .cell_at("f", "n", 1, (-5_i64).to_be_bytes());
    table.put(put).await.unwrap();
    let put = Put::new("b1x")
        .cell_at("f", "a", 1, "five")
        .cell_at("f", "ab", 3, "x")
        // 1.50 and, below, -2.5, as Java stores them.
        .cell_at("g", "d", 1, b"\0\0\0\x02\0\x96")
        .cell_at("h", "v", 2, "old");
    table.put(put).await.unwrap();
    let put = Put::new("b2y")
        .cell_at("f", "b", 1, "one more")
        .cell_at("f", "m", 2, "odd")
        .cell_at("g", "e", 1, "tiny");
    table.put(put).await.unwrap();
    let put = Put::new("c1x")
        .cell_at("f", "a", 1, "two\nlines")
        .cell_at("g", "d", 1, b"\0\0\0\x01\xe7");
    table.put(put).await.unwrap();
}

/// Asserts that each filter finds its rows.
pub async fn check_all(table: &Table) {
    let everything = read(table, Scan::new()).await;
    let mut failures = Vec::new();
    for Case { filter, found, .. } in cases() {
        let cells = read(table, Scan::new().filter(filter.clone())).await;
        let text = shown(&cells, &everything);
        if text != found {
            failures.push(format!("{filter:?}\n  found {text}\n  expected {found}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns up to three versions of the cells of a scan.
pub async fn read(table: &Table, scan: Scan) -> Vec<Cell> {
    let rows = rows(table, scan.versions(3)).await;
    rows.into_iter().flat_map(|row| row.into_cells()).collect()
}

/// Returns the text of cells as the Java program has it.
pub fn lines(cells: &[Cell]) -> Vec<String> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    cells
        .iter()
        .map(|cell| {
            let parts = [&cell.row, &cell.family, &cell.qualifier].map(|part| hex(part));
            format!("{}/{}/{}", parts.join("/"), cell.timestamp, hex(&cell.value))
        })
        .collect()
}

fn shown(found: &[Cell], everything: &[Cell]) -> String {
    let same_row = |one: &Cell, other: &Cell| one.row == other.row;
    let rows = found.chunk_by(same_row).map(|cells| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let key = text(&cells[0].row);
        if everything.iter().filter(|cell| cell.row == key).count() == cells.len() {
            return key;
        }
        let qualifiers: Vec<_> = cells.iter().map(|cell| text(&cell.qualifier)).collect();
        format!("{key}({})", qualifiers.join(" "))
    });
    rows.collect::<Vec<_>>().join(" ")
}

fn case(java: &'static str, filter: impl Into<ReadFilter>, found: &'static str) -> Case {
    Case {
        java,
        filter: filter.into(),
        found,
    }
}

pub fn cases() -> Vec<Case> {
    [rows_by_key(), columns(), values(), whole_rows()]
        .into_iter()
        .flatten()
        .collect()
}

fn rows_by_key() -> Vec<Case> {
    let all = "a1x a2y b1x b2y c1x";
    vec![
        case(
            "RowFilter(>=, 'binary:b')",
            ReadFilter::row(Comparison::GreaterOrEqual, Comparator::binary("b")),
            "b1x b2y c1x",
        ),
        case(
            "RowFilter(=, 'regexstring:^.1')",
            ReadFilter::row(Comparison::Equal, Regex::new("^.1")),
            "a1x b1x c1x",
        ),
        case(
            "RowComponent",
            ReadFilter::row(Comparison::Equal, Comparator::component(1, "1x")),
            "a1x b1x c1x",
        ),
        case("PrefixFilter('a')", ReadFilter::row_prefix("a"), "a1x a2y"),
        case(
            "MultiRowRange",
            ReadFilter::row_ranges(["a2".."b1y", "c".."d"]),
            "a2y b1x c1x",
        ),
        case(
            "FuzzyRow",
            ReadFilter::fuzzy_rows([("?1x", [1, 0, 0])]),
            "a1x b1x c1x",
        ),
        // Servers of the first version of masks read this one as "any row".
        case(
            "FuzzyRowFixed",
            ReadFilter::fuzzy_rows([("b2y", [0, 0, 0])]),
            "b2y",
        ),
        case(
            "FuzzyRows",
            ReadFilter::fuzzy_rows([("??y", [1, 1, 0]), ("c??", [0, 1, 1])]),
            "a2y b2y c1x",
        ),
        case(
            "InclusiveStopFilter('a2y')",
            ReadFilter::inclusive_stop("a2y"),
            "a1x a2y",
        ),
        case("RandomRow", ReadFilter::random_rows(1.0), all),
        // In each of the two regions.
        case("PageFilter(1)", ReadFilter::page(1), "a1x b1x"),
        case(
            "WHILE RowFilter(!=, 'binary:a2y')",
            ReadFilter::while_match(ReadFilter::row(Comparison::NotEqual, Comparator::binary("a2y"))),
            "a1x b1x b2y c1x",
        ),
        case("KeyOnlyFilter()", ReadFilter::key_only(), all),
        case("ValueLengths", ReadFilter::value_lengths(), all),
        case(
            "FirstKeyOnlyFilter()",
            ReadFilter::first_key_only(),
            "a1x(a) a2y(a) b1x(a) b2y(b) c1x(a)",
        ),
        case(
            "PrefixFilter('a') AND ColumnPrefixFilter('b')",
            ReadFilter::all([ReadFilter::row_prefix("a"), Filter::column_prefix("b").into()]),
            "a1x(b) a2y(b)",
        ),
        case(
            "PrefixFilter('c') OR ColumnPrefixFilter('ab')",
            ReadFilter::any([ReadFilter::row_prefix("c"), Filter::column_prefix("ab").into()]),
            "a1x(ab) b1x(ab) c1x",
        ),
    ]
}

fn columns() -> Vec<Case> {
    vec![
        case(
            "FamilyFilter(=, 'regexstring:[fh]')",
            ReadFilter::family(Comparison::Equal, Regex::new("[fh]")),
            "a1x a2y b1x(a ab v) b2y(b m) c1x(a)",
        ),
        case(
            "QualifierFilter(!=, 'regexstring:^a')",
            ReadFilter::qualifier(Comparison::NotEqual, Regex::new("^a")),
            "a1x(b m n v v) a2y(b n) b1x(d v) b2y c1x(d)",
        ),
        case(
            "ColumnPrefixFilter('a')",
            Filter::column_prefix("a"),
            "a1x(a ab) a2y(a) b1x(a ab) c1x(a)",
        ),
        case(
            "MultipleColumnPrefixFilter('a', 'n')",
            ReadFilter::column_prefixes(["n", "a"]),
            "a1x(a ab n) a2y(a n) b1x(a ab) c1x(a)",
        ),
        case(
            "ColumnRangeFilter('ab', true, 'm', false)",
            ReadFilter::column_range("ab".."m"),
            "a1x(ab b) a2y(b) b1x(ab d) b2y(b e) c1x(d)",
        ),
        case(
            "ColumnPaginationFilter(2, 1)",
            ReadFilter::column_page(2, 1),
            "a1x(ab b) a2y(b n) b1x(ab d) b2y(m e) c1x(d)",
        ),
        case(
            "ColumnPageFrom",
            ReadFilter::column_page_from(1, "b"),
            "a1x(b) a2y(b) b1x(d) b2y(b) c1x(d)",
        ),
        case(
            "TimestampsFilter(2)",
            ReadFilter::timestamps([2]),
            "a1x(b v) a2y(a b) b1x(v) b2y(m)",
        ),
        case(
            "SeekTimestamps",
            ReadFilter::seek_timestamps([1]),
            "a1x(a ab m n v) a2y(n) b1x(a d) b2y(b e) c1x",
        ),
    ]
}

fn values() -> Vec<Case> {
    let no_case = Regex::new("^one$").flags([RegexFlag::CaseInsensitive]);
    let bytes = Regex::new("^\\x00{7}").charset("ISO-8859-1");
    let decimal = |unscaled, scale| ReadComparator::BigDecimal { unscaled, scale };
    vec![
        case(
            "ValueFilter(=, 'substring:O')",
            Filter::value(Comparison::Equal, Comparator::substring("O")),
            "a1x(a ab v) a2y(a b) b1x(v) b2y(b m) c1x(a)",
        ),
        case(
            "ColumnValueFilter('f', 'a', =, 'regexstring:^t')",
            ReadFilter::column_value("f", "a", Comparison::Equal, Regex::new("^t")),
            "c1x(a)",
        ),
        case(
            "RegexFlags",
            ReadFilter::value(Comparison::Equal, no_case),
            "a1x(a) a2y(a)",
        ),
        case(
            "RegexCharset",
            ReadFilter::value(Comparison::Equal, bytes),
            "a1x(m n)",
        ),
        case(
            "RegexJoni",
            ReadFilter::value(Comparison::Equal, Regex::new("^t.*e").engine(RegexEngine::Joni)),
            "a1x(b) c1x(a)",
        ),
        case(
            "ValueFilter(=, 'binaryprefix:o')",
            Filter::value(Comparison::Equal, Comparator::prefix("o")),
            "a1x(a v) b1x(v) b2y(b m)",
        ),
        case(
            "ValueBits",
            Filter::value(Comparison::Equal, Comparator::bit_and([8])),
            "b1x(ab)",
        ),
        case(
            "ValueNull",
            Filter::value(Comparison::NotEqual, Comparator::null()),
            "a1x a2y b1x b2y c1x",
        ),
        case(
            "",
            Filter::value(Comparison::Equal, Comparator::component(4, "more")),
            "b2y(b)",
        ),
        case(
            "",
            Filter::value(Comparison::NotEqual, Comparator::component(4, "more")),
            "a1x a2y b1x b2y(m e) c1x",
        ),
        case(
            "ColumnDecimal",
            ReadFilter::column_value("g", "d", Comparison::Greater, decimal(2, 1)),
            "b1x(d)",
        ),
        case(
            "",
            ReadFilter::column_value("g", "e", Comparison::NotEqual, decimal(-1, 0)),
            "b2y(e)",
        ),
    ]
}

fn whole_rows() -> Vec<Case> {
    let column = |family, qualifier, value| {
        SingleColumnValueFilter::new(family, qualifier, Comparison::Equal, Comparator::binary(value))
    };
    let number = |comparison| SingleColumnValueFilter::new("f", "n", comparison, Comparator::long(0));
    let component = Comparator::component(1, "ne");
    vec![
        case(
            "SingleColumnValueFilter('f', 'a', =, 'binary:one')",
            column("f", "a", "one"),
            "a1x b2y",
        ),
        case(
            "SingleColumnValueFilter('f', 'a', =, 'binary:one', true, true)",
            column("f", "a", "one").filter_if_missing(true),
            "a1x",
        ),
        case(
            "SingleColumnValueFilter('h', 'v', =, 'binary:old', true, true)",
            column("h", "v", "old").filter_if_missing(true),
            "b1x",
        ),
        case(
            "SingleColumnValueFilter('h', 'v', =, 'binary:old', true, false)",
            column("h", "v", "old")
                .filter_if_missing(true)
                .latest_version_only(false),
            "a1x b1x",
        ),
        case(
            "SingleColumnValueExcludeFilter('f', 'a', =, 'binary:one')",
            column("f", "a", "one").exclude_column(true),
            "a1x(ab b m n v v) b2y",
        ),
        case(
            "SingleColumnLong",
            number(Comparison::Greater).filter_if_missing(true),
            "a1x",
        ),
        case("", number(Comparison::Less).filter_if_missing(true), "a2y"),
        case("", number(Comparison::Less), "a2y b1x b2y c1x"),
        case(
            "",
            SingleColumnValueFilter::new("f", "a", Comparison::Equal, component).filter_if_missing(true),
            "a1x",
        ),
        case(
            "DependentColumnFilter('f', 'b')",
            DependentColumnFilter::new("f", "b"),
            "a1x(b v) a2y(a b) b2y(b e)",
        ),
        case(
            "DependentColumnFilter('f', 'b', true, =, 'regexstring:^t')",
            DependentColumnFilter::new("f", "b")
                .drop_column(true)
                .value(Comparison::Equal, Regex::new("^t")),
            "a1x(v)",
        ),
        case(
            "SKIP ValueFilter(!=, 'substring:one')",
            ReadFilter::skip(Filter::value(Comparison::NotEqual, Comparator::substring("one"))),
            "b1x c1x",
        ),
    ]
}
