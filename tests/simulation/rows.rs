//! Single rows of a plain table: puts, increments, appends, deletes, conditional changes, gets of one
//! row and of many, and scans.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    time::Duration,
};

use fastrand::Rng;
use hbase_fake::sim::World;
use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{
        Append, Condition, Config, Connection, Delete, FamilyDescriptor, Get, Increment, Put, RowOperation,
        Scan, Table, TableDescriptor,
    },
};
use tokio::{task::LocalSet, time::timeout};

use crate::bench::{FAMILY, connect, connect_with};

/// The number of tasks, each with a client of its own or all with one client, whose calls carry
/// operations of several tasks.
const TASKS: [usize; 2] = [5, 24];
const CALLS: usize = 12;
const COUNTER: &str = "counter";
const LIST: &str = "list";
/// The number of rows that stay as they are.
const STILL: usize = 30;

#[derive(Default)]
struct Tally {
    /// Increments of the counter that are applied, and those that may be.
    added: Cell<i64>,
    maybe_added: Cell<i64>,
    /// Whether each element was appended to the list: certainly, perhaps, or not.
    appended: RefCell<BTreeMap<String, Option<bool>>>,
    /// Whether each row was deleted, likewise.
    deleted: RefCell<BTreeMap<String, Option<bool>>>,
    /// The rows that were deleted and certainly written again, with the way.
    rewritten: RefCell<Vec<(String, Rewrite)>>,
}

/// A way to write a row that was deleted.
#[derive(Clone, Copy, Debug)]
enum Rewrite {
    Put,
    MutateMany,
    MutateRow,
    Conditional,
    ConditionalMany,
    Increment,
    Append,
    Batch,
}

const REWRITES: [Rewrite; 8] = [
    Rewrite::Put,
    Rewrite::MutateMany,
    Rewrite::MutateRow,
    Rewrite::Conditional,
    Rewrite::ConditionalMany,
    Rewrite::Increment,
    Rewrite::Append,
    Rewrite::Batch,
];

/// What an operation of a batch adds.
enum Added {
    /// To the counter.
    Amount(i64),
    /// To the list.
    Element(String),
}

struct Task {
    table: Table,
    row: String,
    /// The number of tasks.
    tasks: usize,
    rng: Rng,
    tally: Rc<Tally>,
    /// The last acknowledged value of the row, and the values that it may have instead.
    value: i64,
    maybe: Vec<i64>,
    refused: Vec<i64>,
    next: i64,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let count = rng.choice(TASKS).unwrap();
    let table = create(&plain, count).await;
    let tally = Rc::new(Tally::default());
    let tasks = LocalSet::new();
    let shared = if count == TASKS[1] {
        // With more time than a get waits for a call before it enters another.
        let call = Duration::from_millis(*rng.choice(&[200, 1_000, 10_000]).unwrap());
        let set = |config: Config| config.with_read_timeout(call).with_write_timeout(call);
        Some(connect_with(&world, &mut rng, set).await)
    } else {
        None
    };
    for number in 0..count {
        let connection = match &shared {
            Some(connection) => connection.clone(),
            None => connect(&world, &mut rng).await,
        };
        let deadline = Duration::from_millis(rng.u64(300..4_000));
        let table = connection.table("rows").unwrap().with_operation_timeout(deadline);
        let task = Task {
            table,
            row: name(number),
            tasks: count,
            rng: world.rng(1 + number as u64),
            tally: Rc::clone(&tally),
            value: 0,
            maybe: Vec::new(),
            refused: Vec::new(),
            next: 1,
        };
        tasks.spawn_local(task.run());
    }
    world.begin_faults();
    tasks.await;
    world.end_faults().await;
    tally.check_list(&table).await;
    tally.check_deleted(&table).await;
    tally.check_rewritten(&table).await;
    let counted = number(&table, COUNTER, "n").await;
    let (least, most) = (tally.added.get(), tally.added.get() + tally.maybe_added.get());
    assert!(
        (least..=most).contains(&counted),
        "the counter is {counted}, and not {least} to {most}"
    );
}

/// The name of a task, which is that of its row.
fn name(task: usize) -> String {
    format!("t{task:02}")
}

async fn create(connection: &Connection, tasks: usize) -> Table {
    let descriptor = TableDescriptor::new("rows")
        .unwrap()
        .with_family(FamilyDescriptor::new(FAMILY));
    let split_keys = ["still10".into(), "still20".into(), "t02".into()];
    Admin::new(connection)
        .create_table(&descriptor, &split_keys)
        .await
        .unwrap();
    let table = connection.table("rows").unwrap();
    for still in 0..STILL {
        let put = Put::new(format!("still{still:02}")).cell(FAMILY, "n", 7_i64);
        table.put(put).await.unwrap();
    }
    for task in 0..tasks {
        table
            .put(Put::new(name(task)).cell(FAMILY, "n", 0_i64))
            .await
            .unwrap();
    }
    table
        .put(Put::new(COUNTER).cell(FAMILY, "n", 0_i64))
        .await
        .unwrap();
    table.put(Put::new(LIST).cell(FAMILY, "n", "")).await.unwrap();
    table
}

async fn number(table: &Table, row: &str, qualifier: &str) -> i64 {
    let row = table.get(Get::new(row.to_owned())).await.unwrap().unwrap();
    decode(row.value(FAMILY, qualifier).unwrap())
}

fn decode(value: &[u8]) -> i64 {
    i64::from_be_bytes(value.try_into().unwrap())
}

/// Returns whether a change is certainly made, or certainly not.
fn certainty(done: Result<(), bool>) -> Option<bool> {
    match done {
        Ok(()) => Some(true),
        Err(is_unknown) => (!is_unknown).then_some(false),
    }
}

impl Tally {
    /// Notes the outcome of an increment of the counter.
    fn note_amount(&self, amount: i64, done: Result<(), bool>) {
        match certainty(done) {
            Some(true) => self.added.set(self.added.get() + amount),
            None => self.maybe_added.set(self.maybe_added.get() + amount),
            Some(false) => {}
        }
    }

    async fn check_list(&self, table: &Table) {
        let row = table.get(Get::new(LIST)).await.unwrap().unwrap();
        let list = String::from_utf8_lossy(row.value(FAMILY, "n").unwrap()).into_owned();
        for (element, certainty) in &*self.appended.borrow() {
            let times = list.split(',').filter(|found| found == element).count();
            let is_right = match certainty {
                Some(is_appended) => times == usize::from(*is_appended),
                None => times <= 1,
            };
            assert!(is_right, "{element}: {certainty:?}, and {times} times in {list}");
        }
    }

    async fn check_rewritten(&self, table: &Table) {
        let rewritten = self.rewritten.borrow().clone();
        for (row, rewrite) in rewritten {
            let is_there = table.get(Get::new(row.clone())).await.unwrap().is_some();
            assert!(is_there, "{row}: deleted, written by {rewrite:?}, and not there");
        }
    }

    async fn check_deleted(&self, table: &Table) {
        let deleted = self.deleted.borrow().clone();
        for (row, certainty) in deleted {
            let is_there = table.get(Get::new(row.clone())).await.unwrap().is_some();
            let is_right = certainty.is_none_or(|is_deleted| is_deleted != is_there);
            assert!(is_right, "{row}: deleted {certainty:?}, and there {is_there}");
        }
    }
}

impl Rewrite {
    /// Writes a cell of a row. Returns whether it is certainly stored.
    async fn write(self, table: &Table, row: &str) -> bool {
        let put = || Put::new(row.to_owned()).cell(FAMILY, "n", 7_i64);
        let increment = || Increment::new(row.to_owned()).column(FAMILY, "n", 7);
        let absent = || Condition::absent(row.to_owned(), FAMILY, "other");
        match self {
            Self::Put => table.put(put()).await.is_ok(),
            Self::MutateMany => table.mutate_many([put()]).await.iter().all(Result::is_ok),
            Self::MutateRow => table.mutate_row([put().into()]).await.is_ok(),
            Self::Conditional => {
                let done = table.check_and_mutate(absent(), [put().into()]).await;
                done.is_ok_and(|result| result.success)
            }
            Self::ConditionalMany => {
                let change = (absent(), vec![put().into()]);
                let done = table.check_and_mutate_many([change]).await;
                done.iter().flatten().any(|result| result.success)
            }
            Self::Increment => table.increment(increment()).await.is_ok(),
            Self::Append => {
                let append = Append::new(row.to_owned()).cell(FAMILY, "n", "v");
                table.append(append).await.is_ok()
            }
            Self::Batch => {
                let done = table.batch([increment().into()]).await;
                done.iter().all(Result::is_ok)
            }
        }
    }
}

impl Task {
    async fn run(mut self) {
        for _ in 0..CALLS {
            match self.rng.u8(..15) {
                13..15 => self.delete_and_write_again().await,
                0..3 => self.put().await,
                11..13 => self.add_in_a_batch().await,
                10 => self.put_of_no_family().await,
                3 => self.get().await,
                4 => self.get_many().await,
                5 => self.increment().await,
                6 => self.append().await,
                7 => self.set_if_unchanged().await,
                8 => self.delete().await,
                _ => self.scan().await,
            }
        }
    }

    /// Puts the next value of the own row.
    async fn put(&mut self) {
        let value = self.next;
        self.next += 1;
        let put = Put::new(self.row.clone()).cell(FAMILY, "n", value);
        let patience = match self.rng.u8(..8) {
            0 => Duration::from_micros(self.rng.u64(..200_000)),
            _ => Duration::from_secs(180),
        };
        match timeout(patience, self.table.put(put)).await {
            Ok(done) => self.note(value, done.map(|()| true).map_err(Into::into)),
            Err(_) => {
                assert!(patience < Duration::from_secs(1), "a put does not end");
                self.maybe.push(value);
            }
        }
    }

    /// Puts a value that the server refuses, which may be in one call with those of other tasks.
    async fn put_of_no_family(&mut self) {
        let put = Put::new(self.row.clone()).cell("absent", "n", self.next);
        let error = self.table.put(put).await.unwrap_err();
        let kind = error.kind();
        assert!(
            kind == ClientErrorKind::FamilyNotFound || error.is_retryable() || error.is_outcome_unknown(),
            "{error}"
        );
    }

    /// Puts the next value of the own row, if it has the last one.
    async fn set_if_unchanged(&mut self) {
        let value = self.next;
        self.next += 1;
        let unchanged = Condition::equal(self.row.clone(), FAMILY, "n", self.value);
        let put = Put::new(self.row.clone()).cell(FAMILY, "n", value);
        let was_known = self.maybe.is_empty();
        let done = self
            .table
            .check_and_mutate(unchanged, [put.into()])
            .await
            .map(|result| result.success);
        assert!(
            !was_known || !matches!(done, Ok(false)),
            "{}: no other client changes it",
            self.row
        );
        self.note(value, done.map_err(Into::into));
    }

    fn note(&mut self, value: i64, done: hbase_txn::Result<bool>) {
        match done {
            Ok(true) => {
                self.value = value;
                // Earlier requests may still be late.
            }
            Err(error) if error.is_outcome_unknown() => self.maybe.push(value),
            Ok(false) => self.refused.push(value),
            Err(error) => {
                // That is the failure of another task's put.
                assert_ne!(error.kind(), ClientErrorKind::FamilyNotFound, "{error}");
                self.refused.push(value);
            }
        }
    }

    fn check(&self, found: i64) {
        assert!(
            !self.refused.contains(&found),
            "{} has {found}, which was not applied",
            self.row
        );
        assert!(
            found == self.value || self.maybe.contains(&found),
            "{} has {found}, and not {} or one of {:?}",
            self.row,
            self.value,
            self.maybe
        );
    }

    async fn get(&mut self) {
        if let Ok(row) = self.table.get(Get::new(self.row.clone())).await {
            self.check(decode(row.unwrap().value(FAMILY, "n").unwrap()));
        }
    }

    async fn increment(&mut self) {
        let amount = self.rng.i64(1..9);
        let increment = Increment::new(COUNTER).column(FAMILY, "n", amount);
        let done = self.table.increment(increment).await;
        let done = done.map(drop).map_err(|error| error.is_outcome_unknown());
        self.tally.note_amount(amount, done);
    }

    /// Appends an element to the list.
    async fn append(&mut self) {
        let element = format!("{}-{}", self.row, self.next);
        self.next += 1;
        let append = Append::new(LIST).cell(FAMILY, "n", format!("{element},"));
        let done = self.table.append(append).await;
        let done = done.map(drop).map_err(|error| error.is_outcome_unknown());
        self.tally.appended.borrow_mut().insert(element, certainty(done));
    }

    /// Increments the counter and appends to the list, several times in one batch, with an increment
    /// that the server refuses.
    async fn add_in_a_batch(&mut self) {
        let mut operations: Vec<RowOperation> = Vec::new();
        let mut added = BTreeMap::new();
        for _ in 0..self.rng.usize(1..6) {
            match self.rng.u8(..4) {
                0 => operations.push(Increment::new(LIST).column("absent", "n", 1).into()),
                1 => {
                    let element = format!("{}-{}", self.row, self.next);
                    self.next += 1;
                    let append = Append::new(LIST).cell(FAMILY, "n", format!("{element},"));
                    added.insert(operations.len(), Added::Element(element));
                    operations.push(append.into());
                }
                _ => {
                    let amount = self.rng.i64(1..9);
                    added.insert(operations.len(), Added::Amount(amount));
                    operations.push(Increment::new(COUNTER).column(FAMILY, "n", amount).into());
                }
            }
        }
        for (place, result) in self.table.batch(operations).await.into_iter().enumerate() {
            let done = result.map(drop).map_err(|error| error.is_outcome_unknown());
            match added.remove(&place) {
                Some(Added::Element(element)) => {
                    let certainty = certainty(done);
                    self.tally.appended.borrow_mut().insert(element, certainty);
                }
                Some(Added::Amount(amount)) => self.tally.note_amount(amount, done),
                None => assert!(done.is_err(), "a family that does not exist"),
            }
        }
    }

    /// Deletes one of the rows that no other client changes.
    async fn delete(&mut self) {
        let row = format!("z{}-{}", self.row, self.next);
        self.next += 1;
        let put = Put::new(row.clone()).cell(FAMILY, "n", 7_i64);
        if self.table.put(put).await.is_err() {
            return;
        }
        let done = self.table.delete(Delete::new(row.clone())).await;
        let done = done.map_err(|error| error.is_outcome_unknown());
        self.tally.deleted.borrow_mut().insert(row, certainty(done));
    }

    /// Deletes a new row and writes it again at once.
    async fn delete_and_write_again(&mut self) {
        let row = format!("z{}-{}", self.row, self.next);
        self.next += 1;
        let rewrite = self.rng.choice(REWRITES).unwrap();
        let delete = Delete::new(row.clone()).column(FAMILY, "n");
        let deleted = match self.rng.u8(..3) {
            0 => self.table.delete(delete).await.is_ok(),
            1 => self.table.mutate_row([delete.into()]).await.is_ok(),
            _ => self.table.mutate_many([delete]).await.iter().all(Result::is_ok),
        };
        if deleted && rewrite.write(&self.table, &row).await {
            self.tally.rewritten.borrow_mut().push((row, rewrite));
        }
    }

    /// Reads several rows, some of them twice: the answers come in the order of the gets.
    async fn get_many(&mut self) {
        let mut keys = vec![self.row.clone(), "missing".to_owned()];
        for _ in 0..self.rng.usize(1..20) {
            keys.push(format!("still{:02}", self.rng.usize(..STILL)));
        }
        self.rng.shuffle(&mut keys);
        let gets = keys.iter().map(|key| Get::new(key.clone()));
        let Ok(rows) = self.table.get_many(gets).await else {
            return;
        };
        assert_eq!(rows.len(), keys.len());
        for (key, row) in keys.iter().zip(rows) {
            let Some(row) = row else {
                assert_eq!(key, "missing");
                continue;
            };
            assert_eq!(row.key(), key.as_bytes());
            let value = decode(row.value(FAMILY, "n").unwrap());
            if *key == self.row {
                self.check(value);
            } else {
                assert_eq!(value, 7, "{key}");
            }
        }
    }

    /// Reads all rows: each comes once, in order, and none is missing.
    async fn scan(&mut self) {
        // In front of the rows that are deleted.
        let scan = Scan::new().stop_row("z").caching(self.rng.u32(1..8));
        let mut scanner = self.table.scan(scan).unwrap();
        let mut keys = Vec::new();
        loop {
            match scanner.next().await {
                Ok(Some(row)) => {
                    let key = String::from_utf8_lossy(row.key()).into_owned();
                    if key == self.row {
                        self.check(decode(row.value(FAMILY, "n").unwrap()));
                    }
                    keys.push(key);
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
        let mut wanted = vec![COUNTER.to_owned(), LIST.to_owned()];
        wanted.extend((0..STILL).map(|still| format!("still{still:02}")));
        wanted.extend((0..self.tasks).map(name));
        assert_eq!(keys, wanted, "a scan");
    }
}
