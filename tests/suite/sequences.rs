//! The operations of one transaction take effect one after the other, whatever the server's
//! timestamps.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use fastrand::Rng;
use hbase_txn::{
    Outcome,
    client::{Append, Delete, FamilyDescriptor, Increment, Mutation, Put, Scan, TableDescriptor, TableName},
};

use crate::support::{
    connect, rows,
    table::{SharedTable, by_three},
};

/// The number of transactions, and the seed that repeats a run.
const COUNT: &str = "HBASE_TXN_TEST_SEQUENCES";
const SEED: &str = "HBASE_TXN_TEST_SEED";
const SHORT: u64 = 2_000;
/// The largest distance of a stored cell's timestamp from now, in milliseconds.
const SKEW: u64 = 60_000;

static TABLE: SharedTable = SharedTable::new("sequences", two_families, &[]);

fn two_families(name: TableName) -> TableDescriptor {
    by_three(name).with_family(FamilyDescriptor::new("g"))
}

type Visible = BTreeMap<(String, &'static str, &'static str), Vec<u8>>;

#[derive(Clone, Debug)]
enum Change {
    Put(Vec<u8>),
    Increment(i64),
    Append(Vec<u8>),
    Delete,
}

/// One operation on a cell; without a qualifier or family, a delete of a family or row.
#[derive(Clone, Debug)]
struct Operation {
    row: String,
    family: Option<&'static str>,
    qualifier: Option<&'static str>,
    change: Change,
}

fn number(number: i64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Counters are in `n`, text in `t`.
fn value(random: &mut Rng, qualifier: &str) -> Vec<u8> {
    match qualifier {
        "n" => number(random.i64(-3..3)),
        _ => random.alphanumeric().to_string().into(),
    }
}

fn operation(random: &mut Rng, case: u64) -> Operation {
    let row = row(random, case);
    let family = random.choice(["f", "g"]);
    let qualifier = random.choice(["n", "t"]);
    let (family, qualifier, change) = match (random.u8(..20), qualifier) {
        (0, _) => (None, None, Change::Delete),
        (1..3, _) => (family, None, Change::Delete),
        (3..6, _) => (family, qualifier, Change::Delete),
        (6..13, Some("n")) => (family, qualifier, Change::Increment(random.i64(-3..4))),
        (6..13, _) => (family, qualifier, Change::Append(value(random, "t"))),
        _ => (family, qualifier, Change::Put(value(random, qualifier.unwrap()))),
    };
    Operation {
        row,
        family,
        qualifier,
        change,
    }
}

fn row(random: &mut Rng, case: u64) -> String {
    format!("seq{case:06}{}", random.choice(["a", "b"]).unwrap())
}

impl Operation {
    fn mutation(&self) -> Mutation {
        let row = self.row.clone();
        match (&self.change, self.family, self.qualifier) {
            (Change::Put(value), Some(family), Some(qualifier)) => {
                Put::new(row).cell(family, qualifier, value.clone()).into()
            }
            (Change::Increment(amount), Some(family), Some(qualifier)) => {
                Increment::new(row).column(family, qualifier, *amount).into()
            }
            (Change::Append(suffix), Some(family), Some(qualifier)) => {
                Append::new(row).cell(family, qualifier, suffix.clone()).into()
            }
            (Change::Delete, Some(family), Some(qualifier)) => {
                Delete::new(row).column(family, qualifier).into()
            }
            (Change::Delete, Some(family), None) => Delete::new(row).family(family).into(),
            (Change::Delete, ..) => Delete::new(row).into(),
            _ => unreachable!("{self:?}"),
        }
    }

    fn apply(&self, visible: &mut Visible) {
        if let Change::Delete = self.change {
            visible.retain(|(row, family, qualifier), _| {
                *row != self.row
                    || self.family.is_some_and(|own| own != *family)
                    || self.qualifier.is_some_and(|own| own != *qualifier)
            });
            return;
        }
        let key = (self.row.clone(), self.family.unwrap(), self.qualifier.unwrap());
        match &self.change {
            Change::Put(value) => {
                visible.insert(key, value.clone());
            }
            Change::Increment(amount) => {
                let cell = visible.entry(key).or_insert_with(|| number(0));
                let before = i64::from_be_bytes(cell[..].try_into().unwrap());
                *cell = number(before.wrapping_add(*amount));
            }
            Change::Append(suffix) => visible.entry(key).or_default().extend(suffix),
            Change::Delete => {}
        }
    }
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap())
}

#[tokio::test]
async fn any_operations_leave_what_they_leave_one_after_the_other() {
    let seed = setting(SEED).unwrap_or_else(|| fastrand::u64(..));
    println!("{SEED}={seed}");
    let mut random = Rng::with_seed(seed);
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let (mut done, mut case) = (0, 0);
    while done < setting(COUNT).unwrap_or(SHORT) {
        case += 1;
        let mut visible = Visible::new();
        let mut newest = BTreeMap::new();
        for _ in 0..random.usize(..8) {
            let key = (
                row(&mut random, case),
                random.choice(["f", "g"]).unwrap(),
                random.choice(["n", "t"]).unwrap(),
            );
            let (at, value) = (now - SKEW + random.u64(..2 * SKEW), value(&mut random, key.2));
            let put = Put::new(key.0.clone()).cell_at(key.1, key.2, at, value.clone());
            table.table().put(put).await.unwrap();
            if newest.get(&key).is_none_or(|newest| *newest <= at) {
                newest.insert(key.clone(), at);
                visible.insert(key, value);
            }
        }
        // Later transactions meet the delete markers that earlier ones left ahead of the clock.
        for _ in 0..random.usize(1..5) {
            let count = random.usize(1..12);
            let operations: Vec<Operation> = (0..count).map(|_| operation(&mut random, case)).collect();
            let mut transaction = table.transaction("seq");
            for operation in &operations {
                transaction = transaction.add(operation.mutation());
                operation.apply(&mut visible);
            }
            transaction = transaction.guard_timestamps();
            let outcome = transaction.commit().await;
            assert!(
                matches!(outcome, Outcome::Committed(_)),
                "{outcome}: {operations:?}"
            );
            let found: BTreeMap<_, _> = rows(table.table(), Scan::prefix(format!("seq{case:06}")))
                .await
                .into_iter()
                .flat_map(|row| row.into_cells())
                .map(|cell| ((cell.row, cell.family, cell.qualifier), cell.value))
                .collect();
            let expected: BTreeMap<_, _> = visible
                .iter()
                .map(|((row, family, qualifier), value)| {
                    let key = (row.clone().into(), Bytes::from(*family), Bytes::from(*qualifier));
                    (key, Bytes::from(value.clone()))
                })
                .collect();
            assert_eq!(found, expected, "case {case}: {operations:?}");
            done += 1;
        }
    }
}
