//! Transactions across partitions.

use std::time::Duration;

use futures::future::{join_all, try_join_all};
use hbase_txn::{
    CrossPartitions, CrossTransaction, ErrorKind, OpenOptions, Outcome, Settled, TableDescriptorExt,
    TransactionId,
    client::{Condition, TableDescriptor, TableName},
};

use crate::support::{
    bank::{Bank, SUM},
    connect, eventually, put, says, standalone,
    table::{SharedTable, by_three, recorded},
    value,
};

static ONE: SharedTable = SharedTable::new("across_one", crossing, &["m"]);
static OTHER: SharedTable = SharedTable::new("across_other", crossing, &["m"]);
static RECORDED: SharedTable = SharedTable::new("across_none", recorded, &[]);

fn crossing(name: TableName) -> TableDescriptor {
    by_three(name).with_cross_partition()
}

#[tokio::test]
async fn parts_of_two_tables_are_committed_and_soon_read_by_all() {
    let connection = connect().await;
    let shared = (ONE.get().await, OTHER.get().await);
    let (one, other) = (shared.0.open(&connection).await, shared.1.open(&connection).await);
    let first = one.transaction("two").put(put("two1", "v"));
    let second = other.transaction("xxx").put(put("xxx1", "v"));
    let third = one.transaction("aaa").put(put("aaa1", "v"));
    let done = CrossTransaction::new(first).and(second).and(third).commit().await;
    assert_eq!(done.into_result().unwrap().rows, 3);
    let snapshot = other.snapshot("xxx").await.unwrap();
    assert_eq!(snapshot.get("xxx1", "f", "q").unwrap(), Some("v"));
    for (table, row) in [(&one, "two1"), (&other, "xxx1"), (&one, "aaa1")] {
        eventually("applied", async || {
            value(table.table(), row).await.filter(|value| value == "v")
        })
        .await;
    }
}

#[tokio::test]
async fn partition_may_be_alone_or_without_changes() {
    let connection = connect().await;
    let shared = (ONE.get().await, OTHER.get().await);
    let (one, other) = (shared.0.open(&connection).await, shared.1.open(&connection).await);
    let alone = CrossTransaction::new(one.transaction("alo").put(put("alo1", "v")));
    assert!(alone.commit().await.is_committed());
    let free = |row| Condition::absent(row, "f", "q");
    let checked_home = one.transaction("hom").condition(free("hom1"));
    let checked_home =
        CrossTransaction::new(checked_home).and(other.transaction("hom").put(put("hom1", "v")));
    assert!(checked_home.commit().await.is_committed());
    let checked_other = other.transaction("oth").condition(free("oth1"));
    let checked_other =
        CrossTransaction::new(one.transaction("oth").put(put("oth1", "v"))).and(checked_other);
    assert!(checked_other.commit().await.is_committed());
    let both = CrossPartitions::new([(&one, "oth"), (&other, "hom")]).unwrap();
    let [first, second] = both.snapshot().await.unwrap();
    assert_eq!((first.len(), second.len()), (1, 1));
    let one = CrossPartitions::new([(&one, "alo")]).unwrap();
    let added = one
        .update(|[view]| view.put(put("alo2", "v")).map(drop))
        .await
        .unwrap();
    assert!(added.into_value().is_some());
    assert_eq!(one.snapshot().await.unwrap()[0].len(), 2);
}

#[tokio::test]
async fn condition_of_any_part_rejects_all() {
    let connection = connect().await;
    let shared = (ONE.get().await, OTHER.get().await);
    let (one, other) = (shared.0.open(&connection).await, shared.1.open(&connection).await);
    let free = |row| Condition::absent(row, "f", "q").label("free");
    let claim = async |name: &'static str| {
        let user = one.transaction("usr").put(put(format!("usr{name}"), name));
        let names = other
            .transaction("nam")
            .condition(free("namanna"))
            .put(put("namanna", name));
        CrossTransaction::new(user).and(names).commit().await
    };
    assert!(claim("1").await.is_committed());
    let Outcome::Rejected(rejection) = claim("2").await else {
        panic!("two have the same name");
    };
    assert_eq!(rejection.table, *other.name());
    assert_eq!(value(one.table(), "usr2").await, None);
}

#[tokio::test]
async fn transfers_among_four_partitions_keep_the_sum_in_each_snapshot() {
    let cluster = standalone();
    let bank = Bank::create(&cluster, "across_bank").await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(bank.open(&cluster.connect().await).await);
    }
    let transfers = open.iter().map(async |bank| {
        for _ in 0..20 {
            bank.transfer().await?;
        }
        Ok::<_, hbase_txn::Error>(())
    });
    let snapshots = async {
        for _ in 0..20 {
            assert_eq!(open[0].sum().await?, SUM);
        }
        Ok(())
    };
    futures::future::try_join(try_join_all(transfers), snapshots)
        .await
        .unwrap();
    eventually("all is applied", async || {
        (open[1].held().await == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_finish_what_a_stopped_client_has_left() {
    let cluster = standalone();
    let bank = Bank::create(&cluster, "across_stopped").await;
    let open = bank.open(&cluster.connect().await).await;
    let mut left = 0;
    for round in 0..10 {
        bank.stop_a_client(&cluster, Duration::from_micros(fastrand::u64(..20_000)))
            .await;
        left += usize::from(open.held().await > 0);
        assert_eq!(open.sum().await.unwrap(), SUM, "round {round}");
    }
    open.visit().await.unwrap();
    assert_eq!((open.held().await, open.sum().await.unwrap()), (0, SUM));
    assert!(left > 0, "no client left anything");
}

#[tokio::test]
async fn id_stands_for_the_transaction_of_all_partitions() {
    let connection = connect().await;
    let shared = (ONE.get().await, OTHER.get().await);
    let (one, other) = (shared.0.open(&connection).await, shared.1.open(&connection).await);
    let id = TransactionId::unique();
    let commit = async |number: &'static str| {
        let first = one.transaction("idd").put(put("idd1", number));
        let second = other.transaction("idd").put(put("idd1", number));
        CrossTransaction::new(first).and(second).id(&id).commit().await
    };
    let outcomes = join_all([commit("1"), commit("1")]).await;
    let replayed: Vec<_> = outcomes
        .into_iter()
        .map(|outcome| outcome.into_result().unwrap().replayed)
        .collect();
    assert!(replayed.contains(&false), "{replayed:?}");
    assert!(commit("1").await.into_result().unwrap().replayed);
    assert_eq!(
        commit("2").await.into_result().unwrap_err().kind(),
        ErrorKind::IdReused
    );
    assert_eq!(one.settle("idd", &id).await.unwrap(), Settled::Committed);
}

#[tokio::test]
async fn tables_without_the_attribute_take_no_part() {
    let connection = connect().await;
    let shared = (ONE.get().await, RECORDED.get().await);
    let (one, plain) = (shared.0.open(&connection).await, shared.1.open(&connection).await);
    let error = CrossPartitions::new([(&one, "xxx"), (&plain, "xxx")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CrossPartitionUnsupported);
    says(&error, &["across_none", "alter the table"]);
    let part = plain.transaction("xxx").put(put("xxx1", "v"));
    let whole = CrossTransaction::new(one.transaction("xxx").put(put("xxx1", "v"))).and(part);
    let error = whole.commit().await.into_result().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CrossPartitionUnsupported);
    let without = OpenOptions::new().without_endpoint();
    let error = without.open(&connection, one.name().clone()).await.unwrap_err();
    says(&error, &["needs its endpoint"]);
}
