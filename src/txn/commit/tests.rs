use std::time::Duration;

use hbase_client::{Condition, Connection, Delete, Get, Put, Table};
use hbase_fake::{Call, FakeHBase, FaultHandle};
use tokio::{task::JoinHandle, time::sleep};

use crate::{OpenOptions, PartitionedTable, Transaction, Updated, txn::commit::*};

#[test]
fn only_an_answer_that_says_what_was_asked_proves_anything() {
    let answer = |processed| pb::MutateRowsResponse { processed }.encode_to_vec().into();
    assert!(read_answer(answer(None), false).unwrap() && read_answer(answer(Some(true)), false).unwrap());
    assert!(read_answer(answer(Some(true)), true).unwrap());
    assert!(!read_answer(answer(Some(false)), true).unwrap());
    for (odd, conditional) in [
        (answer(Some(false)), false),
        (answer(None), true),
        (Bytes::from_static(b"\xff\xff"), true),
    ] {
        let error = read_answer(odd, conditional).unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
    }
}

const TICK: Duration = Duration::from_millis(20);

/// Opens the table for two clients, each of which has proven the server.
async fn two_clients(hbase: &FakeHBase) -> Result<[PartitionedTable; 2]> {
    hbase.create_partitioned_table("orders", &["f", "g", "_txn"], 3);
    let mut tables = Vec::new();
    for seed in [1, 2] {
        let builder = Connection::builder(hbase.config()).connector(hbase.connector());
        let connection = builder.environment(hbase.environment().seed(seed)).connect();
        let table = PartitionedTable::open(&connection.await?, "orders").await?;
        let warm = table
            .transaction("xxx")
            .put(Put::new("xxxwarm").cell("f", "q", ""))
            .recorded();
        assert!(warm.commit().await.is_committed());
        tables.push(table);
    }
    Ok(tables.try_into().unwrap_or_else(|_| unreachable!()))
}

/// Commits while the call of the endpoint is held before it reaches the server.
fn hold(hbase: &FakeHBase, transaction: Transaction) -> (FaultHandle, JoinHandle<Outcome>) {
    let held = hbase.fault(Call::MutateRows.on("orders").hold_request().times(1));
    (held, tokio::spawn(async move { transaction.commit().await }))
}

/// Runs a test on a cluster of two region servers.
fn with_two_servers(test: impl AsyncFnOnce(&FakeHBase) -> Result<(), Box<dyn std::error::Error>>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let hbase = FakeHBase::builder().servers(2).build();
        test(&hbase).await.unwrap();
    });
}

async fn commit(transaction: Transaction) {
    let outcome = transaction.commit().await;
    assert!(outcome.is_committed(), "{outcome}");
    sleep(TICK).await;
}

async fn value(table: &Table, row: &'static str, qualifier: &'static str) -> Result<Option<String>> {
    let row = table.get(Get::new(row)).await?;
    Ok(row.and_then(|row| row.get::<String>("f", qualifier).ok().flatten()))
}

#[test]
fn members_with_time_left_settle_the_lost_answer_of_their_call() {
    FakeHBase::run(async |hbase| {
        let [orders, _] = two_clients(hbase).await?;
        let start = |row: &'static str, seconds| {
            let orders = orders
                .clone()
                .with_operation_timeout(Duration::from_secs(seconds));
            let transaction = orders
                .transaction("xxx")
                .put(Put::new(row).cell("f", "q", row))
                .recorded();
            tokio::spawn(async move { transaction.commit().await })
        };
        // Others wait while two calls are in flight, and share the next one.
        hbase.fault(Call::MutateRows.on("orders").delay_request(TICK).times(2));
        let first = [start("xxx1", 20), start("xxx2", 20)];
        sleep(TICK / 2).await;
        let is_shared = |call: &hbase_fake::ReceivedCall| call.rows.contains(&Bytes::from("xxx3"));
        let held = hbase.fault(Call::MutateRows.on("orders").when(is_shared).hold_answer());
        let (short, long) = (start("xxx3", 10), start("xxx4", 15));
        for first in first {
            assert!(first.await?.is_committed());
        }
        assert!(matches!(short.await?, Outcome::Unknown(_)));
        let outcome = long.await?;
        assert!(outcome.is_committed(), "{outcome}");
        held.release();
        Ok(())
    });
}

#[test]
fn committed_transaction_is_visible_after_a_put_and_a_delete_in_its_way() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await?;
        let delayed = one
            .transaction("xxx")
            .condition(Condition::absent("xxxa", "f", "q"))
            .put(Put::new("xxxa").cell("f", "q", "1"))
            .put(Put::new("xxxb").cell("f", "q", "1"))
            .guard_timestamps()
            .recorded();
        let (held, commit_of_one) = hold(hbase, delayed);
        sleep(TICK).await;
        let put = Put::new("xxxa").cell("f", "q", "2");
        commit(other.transaction("xxx").put(put).guard_timestamps()).await;
        commit(other.transaction("xxx").delete(Delete::new("xxxa"))).await;
        assert_eq!(held.happened(), 1);
        held.release();
        assert!(commit_of_one.await?.is_committed());
        for row in ["xxxa", "xxxb"] {
            assert_eq!(
                value(other.table(), row, "q").await?.as_deref(),
                Some("1"),
                "{row}"
            );
        }
        Ok(())
    });
}

#[test]
fn update_is_visible_after_a_put_and_a_delete_in_its_way() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await?;
        let held = hbase.fault(Call::MutateRows.on("orders").hold_request().times(1));
        let update = tokio::spawn(async move {
            one.update("xxx", |view| {
                view.get::<String>("xxxa", "f", "q")?;
                view.put(Put::new("xxxa").cell("f", "q", "1"))?;
                Ok::<_, Error>(())
            })
            .await
        });
        sleep(TICK).await;
        commit(other.transaction("xxx").put(Put::new("xxxa").cell("f", "q", "2"))).await;
        commit(
            other
                .transaction("xxx")
                .delete(Delete::new("xxxa").column("f", "q")),
        )
        .await;
        assert_eq!(held.happened(), 1);
        held.release();
        assert!(matches!(update.await??, Updated::Done { attempts: 1, .. }));
        assert_eq!(value(other.table(), "xxxa", "q").await?.as_deref(), Some("1"));
        Ok(())
    });
}

/// The condition names one column, written earlier than the others.
#[test]
fn conditional_delete_of_a_row_or_family_deletes_all_of_it() {
    FakeHBase::run(async |hbase| {
        let [one, _] = two_clients(hbase).await?;
        let table = one.table();
        for (condition, delete) in [
            (Condition::equal("xxxa", "f", "state", "new"), Delete::new("xxxa")),
            (
                Condition::equal("xxxa", "f", "state", "new"),
                Delete::new("xxxa").family("f"),
            ),
            (
                Condition::absent("xxxa", "f", "owner"),
                Delete::new("xxxa").family("f"),
            ),
            (
                Condition::matches(
                    "xxxa",
                    hbase_client::Filter::family(Comparison::Equal, hbase_client::Comparator::binary("f")),
                ),
                Delete::new("xxxa").column("f", "state").column("f", "total"),
            ),
        ] {
            for column in ["state", "total"] {
                table.put(Put::new("xxxa").cell("f", column, "new")).await?;
                sleep(TICK).await;
            }
            commit(one.transaction("xxx").condition(condition).delete(delete)).await;
            assert_eq!(table.get(Get::new("xxxa")).await?, None);
        }
        Ok(())
    });
}

/// A blind delete, and at once a put of the same cell by another client.
#[test]
fn put_in_the_millisecond_of_a_delete_is_visible() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await?;
        for round in 0..50 {
            let old = Put::new("xxxa").cell("f", "q", "old");
            one.table().put(old).await?;
            let delete = match round % 3 {
                0 => Delete::new("xxxa"),
                1 => Delete::new("xxxa").family("f"),
                _ => Delete::new("xxxa").column("f", "q"),
            };
            assert!(
                one.transaction("xxx")
                    .delete(delete)
                    .commit()
                    .await
                    .is_committed()
            );
            let put = Put::new("xxxa").cell("f", "q", "new");
            assert!(other.transaction("xxx").put(put).commit().await.is_committed());
            assert_eq!(value(other.table(), "xxxa", "q").await?.as_deref(), Some("new"));
        }
        Ok(())
    });
}

/// The row has a cell, or none.
#[test]
fn column_added_to_a_row_that_is_being_deleted_is_deleted() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await?;
        for delete in [Delete::new("xxxa"), Delete::new("xxxa").family("g")] {
            for has_cell in [true, false] {
                if has_cell {
                    commit(one.transaction("xxx").put(Put::new("xxxa").cell("f", "q", "1"))).await;
                }
                let both = one
                    .transaction("xxx")
                    .delete(delete.clone())
                    .put(Put::new("xxxlog").cell("f", "q", "deleted"));
                let (held, deleted) = hold(hbase, both);
                sleep(TICK).await;
                commit(
                    other
                        .transaction("xxx")
                        .put(Put::new("xxxa").cell("g", "added", "1")),
                )
                .await;
                assert_eq!(held.happened(), 1);
                held.release();
                assert!(deleted.await?.is_committed());
                let left = Get::new("xxxa").column("g", "added");
                assert_eq!(other.table().get(left).await?, None, "{has_cell}");
                commit(one.transaction("xxx").delete(Delete::new("xxxa"))).await;
            }
        }
        Ok(())
    });
}

/// Another delete is applied between the placeholder and the read that looks for it.
#[test]
fn placeholder_that_another_delete_takes_away_is_put_again() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await?;
        let placed = hbase.fault(Call::Multi.on("orders").row("xxxa").hold_answer().times(1));
        let both = one
            .transaction("xxx")
            .delete(Delete::new("xxxa"))
            .put(Put::new("xxxlog").cell("f", "q", "deleted"));
        let deleted = tokio::spawn(async move { both.commit().await });
        placed.wait_for(1).await;
        commit(other.transaction("xxx").delete(Delete::new("xxxa"))).await;
        let held = hbase.fault(Call::MutateRows.on("orders").hold_request().times(1));
        placed.release();
        held.wait_for(1).await;
        commit(
            other
                .transaction("xxx")
                .put(Put::new("xxxa").cell("g", "added", "1")),
        )
        .await;
        held.release();
        assert!(deleted.await?.is_committed());
        assert_eq!(other.table().get(Get::new("xxxa").family("g")).await?, None);
        Ok(())
    });
}

/// The region moves to a server whose clock is behind the placeholder. A marker at the placeholder's time would
/// hide what that server stamps.
#[test]
fn write_after_a_delete_whose_placeholder_is_ahead_is_visible() {
    with_two_servers(async |hbase| {
        let [one, _] = two_clients(hbase).await?;
        hbase.server(1).set_clock_ahead(-20_000);
        let placed = hbase.fault(Call::Multi.on("orders").row("xxxa").hold_answer().times(1));
        let both = one
            .transaction("xxx")
            .delete(Delete::new("xxxa"))
            .put(Put::new("xxxlog").cell("f", "q", "deleted"));
        let deleted = tokio::spawn(async move { both.commit().await });
        placed.wait_for(1).await;
        hbase.move_region("orders", "xxx", 1);
        placed.release();
        assert!(deleted.await?.is_committed());
        commit(one.transaction("xxx").put(Put::new("xxxa").cell("f", "q", "new"))).await;
        assert_eq!(value(one.table(), "xxxa", "q").await?.as_deref(), Some("new"));
        Ok(())
    });
}

/// The region moves, while the call is under way, to a server whose clock is behind. Blind
/// transactions, checked ones and deletes wait until that clock has passed what was written before.
#[test]
fn write_is_visible_after_a_move_to_a_clock_that_is_behind() {
    with_two_servers(async |hbase| {
        let [one, _] = two_clients(hbase).await?;
        hbase.server(1).set_clock_ahead(-20_000);
        let put = |value: &'static str| Put::new("xxxa").cell("f", "q", value);
        type Write = fn(Transaction, Put) -> Transaction;
        let writes: [Write; 4] = [
            |transaction, put| transaction.put(put),
            |transaction, put| transaction.put(put).guard_timestamps(),
            |transaction, put| {
                transaction
                    .condition(Condition::equal("xxxa", "f", "q", "old"))
                    .put(put)
            },
            |transaction, put| transaction.delete(Delete::new("xxxa")).put(put),
        ];
        for (number, write) in writes.into_iter().enumerate() {
            hbase.move_region("orders", "xxx", 0);
            hbase.settled().await;
            sleep(Duration::from_secs(60)).await;
            commit(one.transaction("xxx").put(put("old"))).await;
            let (held, new) = hold(hbase, write(one.transaction("xxx"), put("new")));
            sleep(TICK).await;
            assert_eq!(held.happened(), 1);
            hbase.move_region("orders", "xxx", 1);
            held.release();
            let outcome = new.await?;
            assert!(outcome.is_committed(), "{number}: {outcome}");
            let value = value(one.table(), "xxxa", "q").await?;
            assert_eq!(value.as_deref(), Some("new"), "{number}");
            commit(
                one.transaction("xxx")
                    .delete(Delete::new("xxxa").column("f", "q")),
            )
            .await;
            assert_eq!(one.table().get(Get::new("xxxa")).await?, None, "{number}");
        }
        Ok(())
    });
}

/// The region moves to a server whose clock is ahead, because its own one ends, and comes back. The client
/// that writes then has sent nothing meanwhile.
#[test]
fn write_is_visible_after_a_restart_of_the_server_and_moves_away_and_back() {
    with_two_servers(async |hbase| {
        let [one, other] = two_clients(hbase).await?;
        hbase.server(1).set_clock_ahead(5_000);
        hbase.server(0).crash();
        hbase.settled().await;
        let put = |value: &'static str| Put::new("xxxa").cell("f", "q", value);
        commit(other.transaction("xxx").put(put("old"))).await;
        hbase.server(0).restart();
        hbase.move_region("orders", "xxx", 0);
        hbase.settled().await;
        commit(one.transaction("xxx").put(put("new"))).await;
        assert_eq!(value(one.table(), "xxxa", "q").await?.as_deref(), Some("new"));
        Ok(())
    });
}

/// What the comparison found is somewhere between its two times.
#[test]
fn slow_comparison_of_clocks_hides_no_difference() {
    FakeHBase::run(async |hbase| {
        hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
        let orders = PartitionedTable::open(&hbase.connect().await?, "orders").await?;
        hbase.server(0).set_clock_ahead(-10_000);
        let slow = Call::Multi.on("orders").delay_request(Duration::from_secs(11));
        let slow = hbase.fault(slow.times(1));
        let warm = Put::new("xxxw").cell("f", "q", "1");
        commit(orders.transaction("xxx").put(warm).recorded()).await;
        assert_eq!(slow.happened(), 1);
        let now = hbase_fake_now(hbase);
        for ahead in [0, 5, 500, 9_000, 3_600_000] {
            let old = Put::new("xxxa").cell_at("f", "q", now + ahead, "old");
            orders.table().put(old).await?;
            let checked = Condition::equal("xxxa", "f", "q", "old");
            let new = Put::new("xxxa").cell("f", "q", "new");
            commit(orders.transaction("xxx").condition(checked).put(new)).await;
            let value = value(orders.table(), "xxxa", "q").await?;
            assert_eq!(value.as_deref(), Some("new"), "{ahead}");
            commit(orders.transaction("xxx").delete(Delete::new("xxxa"))).await;
        }
        Ok(())
    });
}

/// The attempt before was applied by another server, whose clock stamped the newest cell.
#[test]
fn comparison_repeated_on_another_server_compares_no_clock_with_the_wrong_server() {
    with_two_servers(async |hbase| {
        hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
        let orders = PartitionedTable::open(&hbase.connect().await?, "orders").await?;
        hbase.server(1).set_clock_ahead(-20_000);
        hbase.move_region("orders", "xxx", 0);
        hbase.settled().await;
        let put = |value: &'static str| Put::new("xxxa").cell("f", "q", value);
        orders.table().put(put("old")).await?;
        sleep(TICK).await;
        let comparison = hbase.fault(Call::Multi.on("orders").close_after().times(1));
        let new = orders.transaction("xxx").put(put("new"));
        let new = tokio::spawn(new.commit());
        sleep(TICK).await;
        assert_eq!(comparison.happened(), 1);
        hbase.move_region("orders", "xxx", 1);
        assert!(new.await?.is_committed());
        let value = value(orders.table(), "xxxa", "q").await?;
        assert_eq!(value.as_deref(), Some("new"));
        Ok(())
    });
}

/// Without the deleted version, an older one is visible, which the delete of the row must find.
#[test]
fn row_whose_newest_version_was_deleted_is_deleted() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await?;
        let now = hbase_fake_now(hbase);
        for age in [3_000, 2_000, 1_000] {
            let put = Put::new("xxxa").cell_at("f", "q", now - age, age.to_string());
            other.table().put(put).await?;
        }
        for age in [1_000, 2_000] {
            let version = Delete::new("xxxa").version("f", "q", now - age);
            other.table().delete(version).await?;
        }
        assert_eq!(value(other.table(), "xxxa", "q").await?.as_deref(), Some("3000"));
        commit(one.transaction("xxx").delete(Delete::new("xxxa"))).await;
        assert_eq!(value(other.table(), "xxxa", "q").await?, None);
        commit(one.transaction("xxx").put(Put::new("xxxa").cell("f", "q", "new"))).await;
        assert_eq!(value(other.table(), "xxxa", "q").await?.as_deref(), Some("new"));
        Ok(())
    });
}

/// Returns the time of the cluster without skew.
fn hbase_fake_now(hbase: &FakeHBase) -> u64 {
    crate::txn::proof::servers::millis(hbase_client::Environment::wall_clock(&hbase.environment()))
}

/// A put that is stamped ahead, because its cell is, meets a delete of that cell.
#[test]
fn put_stamped_ahead_is_not_hidden_by_a_delete_in_its_way() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await?;
        let far = hbase_fake_now(hbase) + 3_600_000;
        let old = Put::new("xxxa").cell_at("f", "q", far, "old");
        commit(one.transaction("xxx").put(old)).await;
        let put = |value: &'static str| Put::new("xxxa").cell("f", "q", value);
        let (held, delayed) = hold(hbase, one.transaction("xxx").put(put("1")).guard_timestamps());
        sleep(TICK).await;
        commit(other.transaction("xxx").put(put("2")).guard_timestamps()).await;
        commit(other.transaction("xxx").delete(Delete::new("xxxa"))).await;
        held.release();
        assert!(delayed.await?.is_committed());
        assert_eq!(value(other.table(), "xxxa", "q").await?.as_deref(), Some("1"));
        Ok(())
    });
}

#[test]
fn guards_read_no_versions_that_the_clock_has_passed() {
    FakeHBase::run(async |hbase| {
        hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
        // A few cells in each answer.
        let builder = Connection::builder(hbase.config().with_scan_batch_bytes(200));
        let builder = builder
            .connector(hbase.connector())
            .environment(hbase.environment());
        let orders = PartitionedTable::open(&builder.connect().await?, "orders").await?;
        let guarded = || {
            let put = Put::new("xxxhot").cell("f", "q", "v");
            orders.transaction("xxx").guard_timestamps().put(put)
        };
        commit(guarded()).await;
        for _ in 0..200 {
            commit(
                orders
                    .transaction("xxx")
                    .put(Put::new("xxxhot").cell("f", "q", "v")),
            )
            .await;
        }
        let before = hbase.calls("Scan");
        commit(guarded()).await;
        assert!(
            hbase.calls("Scan") <= before + 2,
            "{before} {}",
            hbase.calls("Scan")
        );
        Ok(())
    });
}

#[test]
fn guards_are_limited_as_conditions_are() {
    FakeHBase::run(async |hbase| {
        hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
        let options = OpenOptions::new().max_conditions(5);
        let orders = options.open(&hbase.connect().await?, "orders").await?;
        for (cells, is_committed) in [(5, true), (6, false)] {
            let mut transaction = orders.transaction("xxx").guard_timestamps();
            for cell in 0..cells {
                transaction = transaction.put(Put::new(format!("xxx{cell}")).cell("f", "q", "v"));
            }
            let outcome = transaction.commit().await;
            assert_eq!(outcome.is_committed(), is_committed, "{outcome}");
            let updated = orders.update("xxx", |view| {
                for cell in 0..cells {
                    view.put(Put::new(format!("xxx{cell}")).cell("f", "q", "v"))?;
                }
                Ok::<_, Error>(())
            });
            assert_eq!(updated.await.is_ok(), is_committed);
            if !is_committed {
                assert!(matches!(outcome, Outcome::Invalid(_)), "{outcome}");
            }
        }
        Ok(())
    });
}
