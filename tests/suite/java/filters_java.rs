//! Filters of reads, and those of HBase's own client, on the same table.

use hbase_txn::client::{ReadFilter, Scan};

use crate::support::{
    connect,
    filters::{cases, filled, lines, read},
    java::JavaSide,
    standalone,
};

#[tokio::test]
async fn each_filter_finds_the_cells_that_it_finds_in_java() {
    let (java, connection) = (JavaSide::start(&standalone()).await, connect().await);
    let table = filled(&standalone(), &connection).await;
    let (mut compared, mut in_the_language) = (0, 0);
    for case in cases().iter().filter(|case| !case.java.is_empty()) {
        let theirs = java.scan(&table.name, case.java).await.unwrap();
        let ours = read(&table.of(&connection), Scan::new().filter(case.filter.clone())).await;
        assert_eq!(lines(&ours), theirs, "{}", case.java);
        compared += 1;
        // The other cases are names of filters that the language does not have.
        if !case.java.contains('(') {
            continue;
        }
        let parsed: ReadFilter = case.java.parse().unwrap();
        let ours = read(&table.of(&connection), Scan::new().filter(parsed)).await;
        assert_eq!(lines(&ours), theirs, "{}, parsed", case.java);
        in_the_language += 1;
    }
    assert!(compared > 40, "{compared} filters");
    assert!(in_the_language > 20, "{in_the_language} filters of the language");
}
