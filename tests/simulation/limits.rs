//! Transactions at their limits: numbers near the ends of 64 bits, prefixes near the longest row key,
//! about as many guards as are allowed, ranges beside the partition, tables without records.
//!
//! One client makes them one after the other, without faults, so each is committed or invalid, and
//! every snapshot is known.

use std::{collections::BTreeMap, time::Duration};

use fastrand::Rng;
use hbase_fake::sim::World;
use hbase_txn::{
    ErrorKind, OpenOptions, Outcome, PartitionRule, PartitionedTable, SnapshotOptions, TableDescriptorExt,
    Transaction,
    admin::Admin,
    client::{Connection, FamilyDescriptor, Increment, Put, TableDescriptor, TableName},
};
use tokio::time::{Instant, sleep};

use crate::bench::FAMILY;

const TABLE: &str = "limits";
const DELIMITER: &str = "/";
const TRANSACTIONS: usize = 8;
const MAX_STEPS: usize = 8;
/// The longest row key.
const MAX_ROW: usize = i16::MAX as usize;
/// No transaction waits for anything but a clock.
const SOON: Duration = Duration::from_secs(5);
/// How far clocks are taken to differ where they can't be compared, once for each side.
const ASSUMED_SKEW: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(5);
const NUMBERS: [i64; 7] = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];

/// What one transaction does to a cell.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put(i64),
    Increment(i64),
}

struct Client {
    table: PartitionedTable,
    has_endpoint: bool,
    has_records: bool,
    max_conditions: usize,
    /// The numbers in the rows of all partitions.
    numbers: BTreeMap<Vec<u8>, i64>,
    rng: Rng,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let connection = world.connect(world.hbase().config(), 0).await.unwrap();
    let has_records = rng.bool();
    create(&connection, has_records, rng.u8(..4) == 0).await;
    let has_endpoint = rng.bool();
    let max_conditions = rng.usize(2..MAX_STEPS);
    let mut options = OpenOptions::new().max_conditions(max_conditions);
    if !has_endpoint {
        options = options.without_endpoint();
    }
    let mut client = Client {
        table: options.open(&connection, TABLE).await.unwrap(),
        has_endpoint,
        has_records,
        max_conditions,
        numbers: BTreeMap::new(),
        rng,
    };
    for number in 0..TRANSACTIONS {
        let partition = client.draw_partition();
        client.transact(number, &partition).await;
        client.read(&partition).await;
        // An increment is stamped after its cell, and without records a guarded write may be ahead of
        // the server's clock: blind writes of that time would be hidden.
        sleep(if has_records { TICK } else { ASSUMED_SKEW }).await;
    }
}

async fn create(connection: &Connection, has_records: bool, has_versions: bool) {
    let name: TableName = TABLE.parse().unwrap();
    let rule = PartitionRule::delimiter(DELIMITER).unwrap();
    let mut descriptor = TableDescriptor::from(name)
        .with_family(FamilyDescriptor::new(FAMILY))
        .with_multi_row_mutation_endpoint()
        .with_partition_rule(&rule);
    if has_records {
        descriptor = descriptor.with_record_family();
        if has_versions {
            descriptor = descriptor.with_partition_version();
        }
    }
    Admin::new(connection)
        .create_table(&descriptor, &[])
        .await
        .unwrap();
}

/// Returns the steps of each cell as one, or `None` if an increment leaves the 64-bit numbers.
fn fold(steps: &[(Vec<u8>, Step)]) -> Option<BTreeMap<&[u8], Step>> {
    let mut folded: BTreeMap<&[u8], Step> = BTreeMap::new();
    for (row, step) in steps {
        let step = match (folded.get(&row[..]), *step) {
            (Some(Step::Put(number)), Step::Increment(by)) => Step::Put(number.checked_add(by)?),
            (Some(Step::Increment(first)), Step::Increment(by)) => Step::Increment(first.checked_add(by)?),
            (_, step) => step,
        };
        folded.insert(row, step);
    }
    Some(folded)
}

impl Client {
    /// Returns a prefix. Some are so long that rows of the library do not fit behind it.
    fn draw_partition(&mut self) -> Vec<u8> {
        let name = b'a' + self.rng.u8(..4);
        let length = if self.rng.bool() {
            MAX_ROW - self.rng.usize(8..14)
        } else {
            1
        };
        vec![name; length]
    }

    fn draw_row(&mut self, partition: &[u8]) -> Vec<u8> {
        let suffix = b'a' + self.rng.u8(..MAX_STEPS as u8);
        [partition, DELIMITER.as_bytes(), &[suffix]].concat()
    }

    fn draw_step(&mut self, partition: &[u8], puts: bool) -> (Vec<u8>, Step) {
        let number = *self.rng.choice(&NUMBERS).unwrap();
        let step = if puts || self.rng.u8(..3) == 0 {
            Step::Put(number)
        } else {
            Step::Increment(number)
        };
        (self.draw_row(partition), step)
    }

    async fn transact(&mut self, number: usize, partition: &[u8]) {
        let is_guarded = self.has_endpoint && self.rng.bool();
        let is_recorded = self.has_endpoint && self.has_records && self.rng.bool();
        let steps: Vec<_> = (0..self.rng.usize(1..=MAX_STEPS))
            .map(|_| self.draw_step(partition, is_guarded))
            .collect();
        let mut transaction = self.table.transaction_for_row(steps[0].0.clone());
        for (row, step) in &steps {
            transaction = add(transaction, row.clone(), *step);
        }
        if is_guarded {
            transaction = transaction.guard_timestamps();
        }
        if is_recorded {
            transaction = if self.rng.bool() {
                transaction.recorded()
            } else {
                transaction.id(format!("{number:02}"))
            };
        }
        let began = Instant::now();
        let outcome = transaction.commit().await;
        assert!(began.elapsed() < SOON, "{outcome}, after {:?}", began.elapsed());
        let folded = fold(&steps);
        let may_be_invalid = folded.is_none()
            || partition.len() > 1
            || is_recorded
            || is_guarded
                && folded
                    .as_ref()
                    .is_some_and(|cells| cells.len() >= self.max_conditions);
        match outcome {
            Outcome::Committed(_) => {
                let folded = folded.unwrap_or_else(|| panic!("committed without a sum: {steps:?}"));
                assert!(
                    !is_guarded || folded.len() <= self.max_conditions,
                    "committed with {} guards, and {} are allowed",
                    folded.len(),
                    self.max_conditions
                );
                for (row, step) in folded {
                    let number = match step {
                        Step::Put(number) => number,
                        // As HBase does.
                        Step::Increment(by) => self.numbers.get(row).unwrap_or(&0).wrapping_add(by),
                    };
                    self.numbers.insert(row.to_vec(), number);
                }
            }
            Outcome::Invalid(_) if may_be_invalid => {}
            outcome => panic!("{steps:?}: {outcome}"),
        }
    }

    /// Reads a partition, from a row that may be outside of it.
    async fn read(&mut self, partition: &[u8]) {
        let begin = [partition, DELIMITER.as_bytes()].concat();
        let behind = [partition, b"0"].concat();
        let start = if self.rng.bool() {
            Vec::new()
        } else {
            let other = self.draw_partition();
            self.draw_row(&other)
        };
        let options = SnapshotOptions::new().start_row(start.clone());
        let prefix = self.table.partition_of(begin.clone()).prefix().clone();
        let snapshot = match self.table.snapshot_with(prefix, options).await {
            Ok(snapshot) => snapshot,
            Err(error) => {
                let is_outside = error.kind() == ErrorKind::OtherPartition && start >= behind;
                assert!(is_outside, "{error}");
                return;
            }
        };
        assert!(start < behind, "a range behind the partition was read");
        let found = snapshot.rows().iter().map(|row| {
            let value = row.value(FAMILY, "n").expect("a row of this scenario");
            let number = i64::from_be_bytes(value[..].try_into().unwrap());
            (row.key().to_vec(), number)
        });
        let found: BTreeMap<Vec<u8>, i64> = found.collect();
        let expected = self.numbers.range(begin.max(start)..behind);
        let expected = expected.map(|(row, number)| (row.clone(), *number)).collect();
        assert!(found == expected, "{found:?}, and not {expected:?}");
    }
}

fn add(transaction: Transaction, row: Vec<u8>, step: Step) -> Transaction {
    match step {
        Step::Put(number) => transaction.put(Put::new(row).cell(FAMILY, "n", number.to_be_bytes().to_vec())),
        Step::Increment(by) => transaction.increment(Increment::new(row).column(FAMILY, "n", by)),
    }
}
