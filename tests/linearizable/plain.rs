//! Reads and writes of single rows, and snapshots.

use fastrand::Rng;
use hbase_txn::client::{Get, Mutation, Put, Scan};
use tokio::time::timeout;

use super::{
    history::{Check, Found, Operation, Outcome, Read, found},
    program::{FAMILIES, Place, ROWS, add, draw_guard, put},
    runner::Task,
    updates::reads_of_rows,
};

impl Task<'_> {
    fn note_read(&self, called: i64, what: &str, reads: Vec<Read>) {
        let returned = self.shared.log.tick();
        for read in &reads {
            self.shared.see(&self.partition, read);
        }
        let operation = Operation::read(self.client, called, returned, what, reads);
        self.shared.log.note(&self.partition, operation);
    }

    /// Reads the partition at one moment.
    pub(crate) async fn snapshot(&mut self) {
        let called = self.shared.log.tick();
        if let Ok(snapshot) = self.table().snapshot(self.partition.clone()).await {
            let all = found(&self.partition, snapshot.rows());
            self.note_read(
                called,
                "snapshot",
                vec![Read {
                    scope: String::new(),
                    found: all,
                }],
            );
        }
    }

    pub(super) async fn get_row(&mut self) {
        let row = Place::draw(&self.shared.mix, &mut self.rng).row;
        let called = self.shared.log.tick();
        let get = FAMILIES
            .iter()
            .fold(Get::new(format!("{}{row}", self.partition)), |get, family| {
                get.family(*family)
            });
        if let Ok(answer) = self.table().table().get(get).await {
            let found = found(&self.partition, &answer);
            self.note_read(
                called,
                "get",
                vec![Read {
                    scope: format!("{row}/"),
                    found,
                }],
            );
        }
    }

    pub(super) async fn get_cell(&mut self) {
        let place = Place::draw(&self.shared.mix, &mut self.rng);
        let called = self.shared.log.tick();
        let get = Get::new(format!("{}{}", self.partition, place.row)).column(place.family, place.qualifier);
        if let Ok(answer) = self.table().table().get(get).await {
            let found = found(&self.partition, &answer);
            self.note_read(
                called,
                "get",
                vec![Read {
                    scope: place.name(),
                    found,
                }],
            );
        }
    }

    /// Reads several rows, each at a moment of its own.
    pub(super) async fn get_many(&mut self) {
        let called = self.shared.log.tick();
        let get = |row| Get::new(format!("{}r{row}", self.partition));
        let gets = (0..ROWS).map(|row| FAMILIES.iter().fold(get(row), |get, family| get.family(*family)));
        let answer = self.table().table().get_many(gets.collect::<Vec<_>>()).await;
        if let Ok(rows) = answer {
            let all = found(&self.partition, rows.iter().flatten());
            for read in reads_of_rows(0..ROWS, &all) {
                self.note_read(called, "get_many", vec![read]);
            }
        }
    }

    /// Increments a number or appends to a text, without a transaction. Its answer has the new value, unless it was sent
    /// again.
    pub(super) async fn add(&mut self) {
        let place = self.place_where(Place::is_added_to);
        let step = add(&self.partition, &self.name, &place, &mut self.rng);
        let (patience, is_dropped) = self.patience();
        let table = self.table().table().clone();
        let called = self.shared.log.tick();
        let done = match step.mutation {
            Mutation::Increment(increment) => timeout(patience, table.increment(increment)).await,
            Mutation::Append(append) => timeout(patience, table.append(append)).await,
            other => panic!("{other:?}"),
        };
        let returned = self.shared.log.tick();
        let (outcome, results) = match &done {
            Ok(Ok(row)) => (Outcome::Committed, found(&self.partition, [row])),
            Ok(Err(error)) if error.is_outcome_unknown() => (Outcome::Unknown, Found::new()),
            Ok(Err(_)) => return,
            Err(_) => {
                assert!(is_dropped, "{} does not end", self.name);
                (Outcome::Unknown, Found::new())
            }
        };
        let operation = Operation {
            client: self.client,
            called,
            returned,
            what: format!("add {}", self.name),
            outcome,
            reads: Vec::new(),
            checks: Vec::new(),
            changes: vec![step.change],
            results,
        };
        self.shared.log.note(&self.partition, operation);
    }

    fn place_where(&mut self, is_wanted: fn(&Place) -> bool) -> Place {
        let mix = &self.shared.mix;
        Place::draw_where(|rng| Place::draw(mix, rng), is_wanted, &mut self.rng)
    }

    /// Reads whether cells exist, each at a moment of its own.
    pub(super) async fn exist(&mut self) {
        let places: Vec<Place> = (0..self.rng.usize(1..4))
            .map(|_| Place::draw(&self.shared.mix, &mut self.rng))
            .collect();
        let get = |place: &Place| {
            Get::new(format!("{}{}", self.partition, place.row)).column(place.family, place.qualifier)
        };
        let table = self.table().table().clone();
        let called = self.shared.log.tick();
        let answer = match &places[..] {
            [place] => table.exists(get(place)).await.map(|exists| vec![exists]),
            places => {
                table
                    .exists_many(places.iter().map(get).collect::<Vec<_>>())
                    .await
            }
        };
        let returned = self.shared.log.tick();
        for (place, exists) in places.iter().zip(answer.into_iter().flatten()) {
            let mut operation = Operation::read(self.client, called, returned, "exists", Vec::new());
            operation.checks.push(Check {
                cell: place.name(),
                is: if exists { "present" } else { "absent" },
                value: String::new(),
            });
            self.shared.log.note(&self.partition, operation);
        }
    }

    /// Changes several rows, each on a condition and at a moment of its own.
    pub(super) async fn write_rows(&mut self) {
        let seen = self.shared.seen(&self.partition);
        let mut changes = Vec::new();
        for row in 0..self.shared.mix.rows {
            let rng = &mut self.rng;
            if rng.bool() {
                let draw = |rng: &mut Rng| Place::in_row(&format!("r{row}"), rng);
                let place = Place::draw_where(draw, |place| !place.is_added_to(), rng);
                let guard = draw_guard(&self.partition, &place, &seen, rng);
                let step = put(&self.partition, &format!("{}.{row}", self.name), &place, rng);
                changes.push((guard, step));
            }
        }
        let table = self.table().table().clone();
        let sent = changes.iter();
        let sent = sent.map(|(guard, step)| (guard.condition.clone(), vec![step.mutation.clone()]));
        let called = self.shared.log.tick();
        let results = table.check_and_mutate_many(sent.collect::<Vec<_>>()).await;
        let returned = self.shared.log.tick();
        for ((guard, step), result) in changes.into_iter().zip(results) {
            let outcome = match result {
                Ok(result) if result.success => Outcome::Committed,
                Ok(_) => Outcome::Rejected,
                Err(error) if error.is_outcome_unknown() => Outcome::Unknown,
                Err(_) => continue,
            };
            let operation = Operation {
                client: self.client,
                called,
                returned,
                what: format!("check_and_mutate_many {}", self.name),
                outcome,
                reads: Vec::new(),
                checks: vec![guard.check],
                changes: vec![step.change],
                results: Found::new(),
            };
            self.shared.log.note(&self.partition, operation);
        }
    }

    /// Scans the partition: each row is read at a moment of its own.
    pub(super) async fn scan(&mut self) {
        let called = self.shared.log.tick();
        let scan = Scan::prefix(format!("{}r", self.partition)).caching(self.rng.u32(1..4));
        let scan = FAMILIES.iter().fold(scan, |scan, family| scan.family(*family));
        let mut scanner = self.table().table().scan(scan).unwrap();
        let mut rows = Vec::new();
        loop {
            match scanner.next().await {
                Ok(Some(row)) => rows.push(row),
                Ok(None) => break,
                Err(_) => return,
            }
        }
        let all = found(&self.partition, &rows);
        for read in reads_of_rows(0..ROWS, &all) {
            self.note_read(called, "scan", vec![read]);
        }
    }

    /// Puts cells of one row, without a transaction.
    pub(super) async fn write_row(&mut self) {
        let seen = self.shared.seen(&self.partition);
        let is_wanted = |place: &Place| !place.is_added_to();
        let place = self.place_where(is_wanted);
        let rng = &mut self.rng;
        let mut steps = vec![put(&self.partition, &format!("{}.0", self.name), &place, rng)];
        let other = Place::draw_where(|rng| Place::in_row(&place.row, rng), is_wanted, rng);
        if rng.bool() && other.name() != place.name() {
            steps.push(put(&self.partition, &format!("{}.1", self.name), &other, rng));
        }
        let guard = (rng.bool()).then(|| draw_guard(&self.partition, &place, &seen, rng));
        let mutations: Vec<Mutation> = steps.iter().map(|step| step.mutation.clone()).collect();
        let table = self.table().table().clone();
        let (patience, is_dropped) = self.patience();
        let called = self.shared.log.tick();
        let (what, write) = match &guard {
            Some(guard) => {
                let change = table.check_and_mutate(guard.condition.clone(), mutations);
                let done = timeout(patience, change).await;
                (
                    "check_and_mutate",
                    done.map(|done| done.map(|result| result.success)),
                )
            }
            None if let [Mutation::Put(put)] = &mutations[..] => {
                let put: Put = put.clone();
                let done = timeout(patience, table.put(put)).await;
                ("put", done.map(|done| done.map(|()| true)))
            }
            None => {
                let done = timeout(patience, table.mutate_row(mutations)).await;
                ("mutate_row", done.map(|done| done.map(|_| true)))
            }
        };
        let returned = self.shared.log.tick();
        let outcome = match write {
            Ok(Ok(true)) => Outcome::Committed,
            Ok(Ok(false)) => Outcome::Rejected,
            Ok(Err(error)) if error.is_outcome_unknown() => Outcome::Unknown,
            Ok(Err(_)) => return,
            Err(_) => {
                assert!(is_dropped, "{} does not end", self.name);
                Outcome::Unknown
            }
        };
        let operation = Operation {
            client: self.client,
            called,
            returned,
            what: format!("{what} {}", self.name),
            outcome,
            reads: Vec::new(),
            checks: guard.into_iter().map(|guard| guard.check).collect(),
            changes: steps.into_iter().map(|step| step.change).collect(),
            results: Found::new(),
        };
        self.shared.log.note(&self.partition, operation);
    }
}
