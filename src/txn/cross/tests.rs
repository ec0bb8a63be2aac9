//! Transactions across partitions on a fake cluster.

use std::{error::Error as StdError, time::Duration};

use futures::TryStreamExt;
use hbase_admin::Admin;
use hbase_client::{
    Condition, Delete, Durability, FamilyDescriptor, Get, Increment, Put, Scan, TableDescriptor,
};
use hbase_fake::{Call, FakeHBase};
use rstest::rstest;
use tokio::time::Instant;

use crate::{
    CrossPartitions, CrossTransaction, Error, ErrorKind, OpenOptions, Outcome, PartitionRule,
    PartitionedTable, TableDescriptorExt, Transaction,
};

struct Tables {
    hbase: FakeHBase,
    accounts: PartitionedTable,
    ledger: PartitionedTable,
}

/// Runs a test in virtual time.
fn run(test: impl AsyncFnOnce(&Tables) -> Result<(), Box<dyn StdError>>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let hbase = FakeHBase::builder().servers(2).build();
        let connection = hbase.connect().await.unwrap();
        let admin = Admin::new(&connection);
        for name in ["accounts", "ledger"] {
            let descriptor = TableDescriptor::new(name)
                .unwrap()
                .with_family(FamilyDescriptor::new("f"))
                .with_partition_rule(&PartitionRule::delimiter("/").unwrap())
                .with_multi_row_mutation_endpoint()
                .with_cross_partition();
            admin.create_table(&descriptor, &[]).await.unwrap();
        }
        let tables = Tables {
            accounts: PartitionedTable::open(&connection, "accounts").await.unwrap(),
            ledger: PartitionedTable::open(&connection, "ledger").await.unwrap(),
            hbase,
        };
        test(&tables).await.unwrap();
    });
}

fn put(row: &'static str, value: &'static str) -> Put {
    Put::new(row).cell("f", "q", value)
}

impl Tables {
    /// Returns a transaction of alice, bob and the ledger of november.
    fn transfer(&self) -> CrossTransaction {
        let alice = self.accounts.transaction("alice").put(put("alice/moved", "17"));
        let bob = self.accounts.transaction("bob").put(put("bob/item", "17"));
        let november = self.ledger.transaction("11");
        CrossTransaction::new(alice)
            .and(bob)
            .and(november.put(put("11/17", "moved")))
    }

    async fn value(&self, table: &PartitionedTable, prefix: &'static str, row: &str) -> Option<String> {
        let snapshot = table.snapshot(prefix).await.unwrap();
        snapshot.get::<String>(row, "f", "q").unwrap()
    }

    /// Returns whether each part of the transfer is in a snapshot.
    async fn seen(&self) -> [bool; 3] {
        [
            self.value(&self.accounts, "alice", "alice/moved").await.is_some(),
            self.value(&self.accounts, "bob", "bob/item").await.is_some(),
            self.value(&self.ledger, "11", "11/17").await.is_some(),
        ]
    }

    /// Returns the number of partitions that are held.
    async fn held(&self) -> usize {
        let mut held = 0;
        for table in [&self.accounts, &self.ledger] {
            let states = table.table().scan(Scan::new().column("_version", "s"));
            let states: Vec<_> = states.unwrap().into_stream().try_collect().await.unwrap();
            held += states
                .iter()
                .filter(|row| !row.cells()[0].value.is_empty())
                .count();
        }
        held
    }

    /// Returns the number of rows with redo.
    async fn kept(&self) -> usize {
        let redo = self.accounts.table().scan(Scan::new().column("_version", "d1"));
        redo.unwrap()
            .into_stream()
            .try_collect::<Vec<_>>()
            .await
            .unwrap()
            .len()
    }
}

#[test]
fn parts_in_two_tables_are_committed_together() {
    run(async |tables| {
        let done = tables.transfer().commit().await.into_result()?;
        assert_eq!((done.rows, done.mutations, done.replayed), (3, 3, false));
        assert_eq!(tables.seen().await, [true; 3]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!((tables.held().await, tables.kept().await), (0, 0));
        let value = tables.ledger.table().get(Get::new("11/17")).await?;
        assert!(value.is_some());
        Ok(())
    });
}

#[rstest]
#[case::at_home(true)]
#[case::elsewhere(false)]
fn condition_that_does_not_hold_rejects_all(#[case] at_home: bool) {
    run(async |tables| {
        let gone = |row| Condition::present(row, "f", "q").label("there");
        let alice = tables.accounts.transaction("alice").put(put("alice/moved", "17"));
        let november = tables.ledger.transaction("11").put(put("11/17", "moved"));
        let (alice, november) = if at_home {
            (alice.condition(gone("alice/item")), november)
        } else {
            (alice, november.condition(gone("11/open")))
        };
        let Outcome::Rejected(rejection) = CrossTransaction::new(alice).and(november).commit().await else {
            panic!("not rejected");
        };
        assert_eq!(
            rejection.table.to_string(),
            if at_home { "accounts" } else { "ledger" }
        );
        assert_eq!(rejection.failed[0].label, "there");
        assert_eq!(tables.seen().await, [false; 3]);
        assert_eq!(tables.held().await, 0);
        Ok(())
    });
}

#[test]
fn transaction_of_one_partition_waits_for_the_lease_of_a_dead_one() {
    run(async |tables| {
        // The commit at home never arrives, and its process does not come back.
        let lost = tables
            .hbase
            .fault(Call::MutateRows.row("alice/moved").lose_request());
        let alone = tokio::time::timeout(Duration::from_millis(100), tables.transfer().commit());
        assert!(alone.await.is_err());
        assert_eq!(tables.held().await, 2);
        // A snapshot does not wait, and sees nothing of it.
        assert_eq!(tables.seen().await, [false; 3]);
        let began = Instant::now();
        let next = tables.ledger.transaction("11").put(put("11/18", "next"));
        assert!(next.commit().await.is_committed());
        assert!(began.elapsed() <= Duration::from_secs(2), "{:?}", began.elapsed());
        // Also one that only checks.
        let check = Condition::absent("bob/item", "f", "q");
        assert!(
            tables
                .accounts
                .transaction("bob")
                .condition(check)
                .commit()
                .await
                .is_committed()
        );
        // The late commit is refused.
        lost.release();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(tables.seen().await, [false; 3]);
        assert_eq!(tables.held().await, 0);
        Ok(())
    });
}

#[test]
fn committed_transaction_is_seen_and_applied_by_those_that_meet_it() {
    run(async |tables| {
        // The process stops after the commit: nothing that applies or finishes it arrives.
        let commit = tables.transfer().commit();
        let [stopped, stopped_too] =
            ["11/17", "bob/item"].map(|row| tables.hbase.fault(Call::MutateRows.row(row).lose_request()));
        assert!(commit.await.is_committed());
        assert_eq!(tables.held().await, 2);
        assert_eq!(tables.seen().await, [true; 3]);
        // An update reads what it wrote, and applies it.
        let read = tables.ledger.update("11", |view| {
            let value = view.get::<String>("11/17", "f", "q")?;
            view.put(put("11/18", "next"))?;
            Ok::<_, Error>(value)
        });
        stopped.release();
        let read = read.await?.into_value().unwrap();
        assert_eq!(read.as_deref(), Some("moved"));
        assert_eq!(tables.held().await, 1);
        // A condition is judged after it.
        stopped_too.release();
        let check = Condition::absent("bob/item", "f", "q");
        let bob = tables
            .accounts
            .transaction("bob")
            .condition(check)
            .put(put("bob/x", "x"));
        assert!(matches!(bob.commit().await, Outcome::Rejected(_)));
        assert_eq!(tables.held().await, 0);
        // The first process proves that others have applied it, and forgets it.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(tables.kept().await, 0);
        Ok(())
    });
}

/// What was checked when it was committed is applied by a client with smaller limits too.
#[test]
fn redo_is_applied_whatever_the_limits_of_the_visitor_are() {
    run(async |tables| {
        let rows = (0..20).map(|row| Put::new(format!("bob/{row}")).cell("f", "q", "v"));
        let bob = rows.fold(tables.accounts.transaction("bob"), Transaction::put);
        let alice = tables.accounts.transaction("alice").put(put("alice/moved", "17"));
        let stopped = tables.hbase.fault(Call::MutateRows.row("bob/1").lose_request());
        assert!(
            CrossTransaction::new(alice)
                .and(bob)
                .commit()
                .await
                .is_committed()
        );
        let small = OpenOptions::new()
            .max_mutations(2)
            .max_conditions(2)
            .max_bytes(100);
        let small = small.open(&tables.hbase.connect().await?, "accounts").await?;
        stopped.release();
        assert_eq!(tables.held().await, 1);
        assert!(
            small
                .transaction("bob")
                .put(put("bob/x", "x"))
                .commit()
                .await
                .is_committed()
        );
        assert_eq!((tables.held().await, small.snapshot("bob").await?.len()), (0, 21));
        Ok(())
    });
}

#[test]
fn tables_of_two_connections_are_refused() {
    run(async |tables| {
        let other = PartitionedTable::open(&tables.hbase.connect().await?, "ledger").await?;
        let error = CrossPartitions::new([(&tables.accounts, "alice"), (&other, "11")]).unwrap_err();
        assert!(error.to_string().contains("different connections"), "{error}");
        Ok(())
    });
}

#[test]
fn id_of_the_caller_is_applied_once() {
    run(async |tables| {
        let transfer = || tables.transfer().id("request-4711");
        assert!(!transfer().commit().await.into_result()?.replayed);
        assert!(transfer().commit().await.into_result()?.replayed);
        let other = tables
            .transfer()
            .and(tables.ledger.transaction("12").put(put("12/1", "x")));
        let error = other.id("request-4711").commit().await.into_result().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IdReused);
        // The same changes as parts of other partitions are another transaction.
        let place = |first: bool| {
            let (one, other) = (
                tables.accounts.transaction("carol"),
                tables.ledger.transaction("carol"),
            );
            let change = put("carol/1", "x");
            let (one, other) = if first {
                (one.put(change), other)
            } else {
                (one, other.put(change))
            };
            CrossTransaction::new(one).and(other).id("request-4712")
        };
        assert!(place(true).commit().await.is_committed());
        let error = place(false).commit().await.into_result().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IdReused);
        Ok(())
    });
}

#[test]
fn lost_answers_are_found_out() {
    run(async |tables| {
        let lost = tables
            .hbase
            .fault(Call::MutateRows.row("alice/moved").lose_answer().times(1));
        assert!(tables.transfer().commit().await.is_committed());
        let also = tables
            .hbase
            .fault(Call::MutateRows.on("ledger").nth(1).lose_answer().times(1));
        assert!(tables.transfer().commit().await.is_committed());
        assert_eq!((lost.happened(), also.happened()), (1, 1));
        assert_eq!(tables.seen().await, [true; 3]);
        Ok(())
    });
}

#[test]
fn crossing_transactions_all_end() {
    run(async |tables| {
        let cross = |number: i64| async move {
            let (one, other) = if number % 2 == 0 {
                ("alice", "bob")
            } else {
                ("bob", "alice")
            };
            let at = |prefix: &str| {
                let row = format!("{prefix}/{number}");
                tables
                    .accounts
                    .transaction(prefix.to_owned())
                    .put(Put::new(row).cell("f", "q", number))
            };
            CrossTransaction::new(at(one)).and(at(other)).commit().await
        };
        let outcomes = futures::future::join_all((0..10).map(cross)).await;
        assert!(outcomes.iter().all(Outcome::is_committed), "{outcomes:?}");
        for prefix in ["alice", "bob"] {
            assert_eq!(tables.accounts.snapshot(prefix).await?.len(), 10);
        }
        Ok(())
    });
}

#[rstest]
#[case::increment(|table: &PartitionedTable| table.transaction("12").increment(Increment::new("12/n").column("f", "n", 1)), "an increment or append")]
#[case::stamped(|table: &PartitionedTable| table.transaction("12").delete(Delete::new("12/n").timestamp(7)), "a timestamp")]
#[case::weak(
    |table: &PartitionedTable| table.transaction("12").put(put("12/n", "v").durability(Durability::SkipWal)),
    "at least SYNC_WAL"
)]
#[case::twice(|table: &PartitionedTable| table.transaction("11"), "a partition twice")]
#[case::recorded(|table: &PartitionedTable| table.transaction("12").recorded(), "an id of a part")]
#[case::lone_row(|table: &PartitionedTable| table.transaction_for_row("12"), "a single row can't have a part")]
fn what_cannot_be_a_part_is_refused(#[case] part: fn(&PartitionedTable) -> Transaction, #[case] why: &str) {
    run(async |tables| {
        let outcome = tables.transfer().and(part(&tables.ledger)).commit().await;
        assert!(matches!(outcome, Outcome::Invalid(_)), "{outcome}");
        let error = outcome.into_result().unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("ledger"), "{error}");
        assert_eq!(tables.seen().await, [false; 3]);
        Ok(())
    });
}
