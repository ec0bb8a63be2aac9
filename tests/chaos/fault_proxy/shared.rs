//! Operations that share calls, whose connections are cut: the outcome of each is what is stored.

use std::{collections::BTreeMap, time::Duration};

use fastrand::Rng;
use futures::future::join_all;
use hbase_txn::{
    Error, PartitionedTable, TableDescriptorExt,
    client::{Delete, Put, Scan, TableDescriptor},
};
use tokio::time::timeout;

use super::Rig;
use crate::{
    cluster::{FAMILY, QUALIFIER, create_table_as, drop_table},
    history::text,
    proxy::Action,
    settings::Settings,
};

const TASKS: usize = 64;
const STEPS: usize = 12;
const PREFIXES: [&str; 6] = ["aaa", "bbb", "iii", "jjj", "qqq", "rrr"];

/// What is known of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Present,
    Absent,
    Either,
}

impl Expected {
    fn after(result: Result<(), Error>, done: Self, before: Self) -> Self {
        match result {
            Ok(()) => done,
            Err(error) if error.is_outcome_unknown() => Self::Either,
            Err(_) => before,
        }
    }
}

type Rows = BTreeMap<String, Expected>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_calls_over_cut_connections_report_what_is_stored() {
    const TEST: &str = "cut_shared_calls";
    let settings = Settings::of(TEST);
    let mut rig = Rig::new(TEST, &settings, |config| {
        config
            .with_read_timeout(Duration::from_millis(500))
            .with_operation_timeout(Duration::from_secs(3))
    })
    .await;
    // A table that keeps records.
    drop_table(&rig.connection, &rig.table).await;
    let split_keys = ["h", "p"].map(str::to_owned);
    let recorded = |descriptor: TableDescriptor| descriptor.with_record_family();
    let name = create_table_as(&rig.connection, &settings, TEST, &split_keys, recorded).await;
    rig.table = PartitionedTable::open(&rig.connection, name.unwrap())
        .await
        .unwrap();
    for round in 0..settings.rounds {
        let mut rng = settings.rng(u64::from(round));
        rig.proxy.rule(move |_| match rng.u8(..100) {
            0 => Action::CutBeforeRequest,
            1 => Action::CutInRequest,
            2 => Action::CutAfterRequest,
            3 => Action::CutBeforeAnswer,
            4 => Action::CutInAnswer,
            5 => Action::DropAnswer,
            _ => Action::Pass,
        });
        let tasks = (0..TASKS).map(|task| {
            let rng = settings.rng(u64::from(round) * 1_000 + 100 + task as u64);
            tokio::spawn(write(rig.table.clone(), format!("{round}-{task}"), rng))
        });
        let expected: Rows = join_all(tasks)
            .await
            .into_iter()
            .flat_map(Result::unwrap)
            .collect();
        rig.proxy.pass_all();
        let count = |wanted| expected.values().filter(|one| **one == wanted).count();
        println!(
            "{TEST}: round {round}: {} present, {} absent, {} either",
            count(Expected::Present),
            count(Expected::Absent),
            count(Expected::Either)
        );
        assert!(count(Expected::Either) > 0, "no fault hit a write");
        check(&rig.table, &expected).await;
    }
    rig.still_works().await;
    rig.end().await;
}

/// Writes rows of its own, each by one operation: puts, lists, transactions; deletes some of them, and drops some
/// operations.
async fn write(table: PartitionedTable, task: String, mut rng: Rng) -> Rows {
    let mut rows = Rows::new();
    for step in 0..STEPS {
        let prefix = PREFIXES[rng.usize(..PREFIXES.len())];
        let row = |number: usize| format!("{prefix}-{task}-{step}-{number}");
        let put = |number: usize| Put::new(row(number)).cell(FAMILY, QUALIFIER, row(number));
        let patience = match rng.u8(..10) {
            0 => Duration::from_micros(rng.u64(..20_000)),
            _ => Duration::from_secs(60),
        };
        // `None` for an operation that was dropped.
        let results: Vec<Option<Result<(), Error>>> = match rng.u8(..3) {
            0 => {
                let put = timeout(patience, table.table().put(put(0))).await.ok();
                vec![put.map(|put| put.map_err(Error::from))]
            }
            1 => {
                let puts = (0..20).map(put);
                match timeout(patience, table.table().mutate_many(puts)).await {
                    Ok(results) => results
                        .into_iter()
                        .map(|put| Some(put.map_err(Error::from)))
                        .collect(),
                    Err(_) => vec![None; 20],
                }
            }
            _ => {
                let mut transaction = table.transaction(prefix).put(put(0)).put(put(1));
                if rng.bool() {
                    transaction = transaction.recorded();
                }
                let outcome = timeout(patience, transaction.commit()).await.ok();
                let result = outcome.map(|outcome| outcome.into_result().map(drop));
                vec![result.clone(), result]
            }
        };
        for (number, result) in results.into_iter().enumerate() {
            let mut expected = match result {
                Some(result) => Expected::after(result, Expected::Present, Expected::Absent),
                None => Expected::Either,
            };
            if expected == Expected::Present && rng.u8(..4) == 0 {
                // A delete in the millisecond of its put hides it, too.
                let deleted = table.table().delete(Delete::new(row(number))).await;
                expected = Expected::after(deleted.map_err(Error::from), Expected::Absent, expected);
            }
            rows.insert(row(number), expected);
        }
    }
    rows
}

/// Compares the table with what was reported. A late copy of an unknown write may still arrive; such a row may be in
/// any state.
async fn check(table: &PartitionedTable, expected: &Rows) {
    let mut found = Vec::new();
    let mut scanner = table.table().scan(Scan::new()).unwrap();
    while let Some(row) = scanner.next().await.unwrap() {
        found.push(text(&row).0);
    }
    let wrong: Vec<_> = expected
        .iter()
        .filter(|(row, expected)| {
            let is_there = found.binary_search(row).is_ok();
            match expected {
                Expected::Present => !is_there,
                Expected::Absent => is_there,
                Expected::Either => false,
            }
        })
        .collect();
    assert!(wrong.is_empty(), "reported otherwise: {wrong:?}");
}
