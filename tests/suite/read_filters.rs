//! Filters of reads: each finds the rows that it is documented to find.

use hbase_txn::{
    ClientErrorKind,
    client::{Comparator, Comparison, Get, ReadFilter, Regex, Row, Scan, SingleColumnValueFilter},
};

use crate::support::{
    connect,
    filters::{check_all, filled, read},
    spied, standalone,
};

fn qualifiers(row: Option<Row>) -> String {
    let cells = row.map(Row::into_cells).unwrap_or_default();
    let names = cells.iter().map(|cell| String::from_utf8_lossy(&cell.qualifier));
    names.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn each_filter_finds_its_rows() {
    let connection = connect().await;
    let table = filled(&standalone(), &connection).await;
    check_all(&table.of(&connection)).await;
}

#[tokio::test]
async fn filters_apply_to_gets() {
    let connection = connect().await;
    let table = filled(&standalone(), &connection).await;
    let table = table.of(&connection);
    let get = async |filter: ReadFilter| {
        let get = Get::new("a1x").family("f").filter(filter);
        qualifiers(table.get(get).await.unwrap())
    };
    assert_eq!(get(ReadFilter::column_count(2)).await, "a ab");
    assert_eq!(get(ReadFilter::column_page(2, 3)).await, "m n");
    let small = SingleColumnValueFilter::new("f", "n", Comparison::Less, Comparator::long(5));
    assert_eq!(get(small.clone().into()).await, "");
    assert_eq!(
        get(ReadFilter::any([small.into(), ReadFilter::row_prefix("a1")])).await,
        "a ab b m n"
    );
}

#[tokio::test]
async fn a_random_sample_has_some_of_the_rows() {
    let connection = connect().await;
    let table = filled(&standalone(), &connection).await;
    let table = table.of(&connection);
    let mut counts = [0; 6];
    for _ in 0..60 {
        let cells = read(&table, Scan::new().filter(ReadFilter::random_rows(0.5))).await;
        counts[cells.chunk_by(|one, other| one.row == other.row).count()] += 1;
    }
    assert!(
        counts.iter().filter(|count| **count > 0).count() > 2,
        "{counts:?}"
    );
}

#[tokio::test]
async fn an_expression_that_java_cannot_compile_is_an_error_at_once() {
    let connection = connect().await;
    let table = filled(&standalone(), &connection).await;
    let scan = Scan::new().filter(ReadFilter::row(Comparison::Equal, Regex::new("(")));
    let error = table
        .of(&connection)
        .scan(scan)
        .unwrap()
        .next()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Server, "{error}");
}

#[tokio::test]
async fn filters_without_a_meaning_are_not_sent() {
    let (connection, spy) = spied().await;
    let table = filled(&standalone(), &connection).await;
    let table = table.of(&connection);
    let before = spy.scan_calls();
    let inverted = ReadFilter::row_ranges(["b".."a"]);
    let error = table
        .get(Get::new("a1x").filter(inverted.clone()))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
    let error = table.scan(Scan::new().filter(inverted)).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
    assert_eq!(spy.scan_calls(), before);
}
