//! What the tasks do, drawn from random numbers.

use std::{env, time::Duration};

use fastrand::Rng;
use hbase_txn::client::{Append, Comparison, Condition, Delete, Increment, Mutation, Put};

use super::history::{Change, Check, Found, name};

/// The families of the checked rows.
pub(crate) const FAMILIES: [&str; 2] = ["f", "g"];
/// The column of numbers. All others have text.
pub(crate) const COUNTER: &str = "n";
const COLUMNS: [(&str, &str); 5] = [("f", "a"), ("f", "b"), ("f", "n"), ("g", "a"), ("g", "n")];
pub(crate) const ROWS: usize = 5;
/// How many of twenty mutations are usually deletes.
const DELETES: u8 = 8;

/// Leaves out kinds of operations, to find out which of them a violation needs: some of `deletes`,
/// `blind`, `plain`, `batches`, `streams`, `updates`, `settlements` (of calls that are still running) and `drops`, separated by commas.
const WITHOUT: &str = "LINEARIZABLE_WITHOUT";

/// What a program may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// Whether the partitions have versions, so that updates see phantoms.
    pub(crate) versioned: bool,
    /// How many rows are written.
    pub(crate) rows: usize,
    /// The longest pause between two operations of a task, and within one.
    pub(crate) pause: Duration,
    /// One operation of this many is dropped before it ends.
    pub(crate) dropped: u32,
    /// How many of twenty mutations of a transaction are deletes.
    pub(crate) deletes: u8,
    /// Whether a transaction may be blind: write a cell without a condition on it or a guard.
    pub(crate) blind: bool,
    /// Whether single rows are written without transactions. Updates do not notice it if partitions
    /// have versions. A server whose clock is behind that of another may stamp such a write lower than what
    /// it replaces.
    pub(crate) plain: bool,
    pub(crate) batches: bool,
    pub(crate) streams: bool,
    pub(crate) updates: bool,
    /// Whether another client settles outcomes of calls that are still running.
    pub(crate) settlements: bool,
}

impl Mix {
    /// Creates a mix of all operations that are linearizable together.
    pub(crate) fn new(versioned: bool, steady_clocks: bool, pause: Duration, dropped: u32) -> Self {
        let without = env::var(WITHOUT).unwrap_or_default();
        let has = |kind: &str| without.split(',').all(|other| other != kind);
        Self {
            versioned,
            rows: ROWS,
            pause,
            dropped: if has("drops") { dropped } else { u32::MAX },
            deletes: if has("deletes") { DELETES } else { 0 },
            blind: has("blind"),
            plain: steady_clocks && !versioned && has("plain"),
            batches: has("batches"),
            streams: steady_clocks && has("streams"),
            updates: has("updates"),
            settlements: has("settlements"),
        }
    }

    /// Leaves out kinds of operations, and rows, so that what is left happens together more often.
    pub(crate) fn thinned(mut self, rng: &mut Rng) -> Self {
        for kind in [
            &mut self.blind,
            &mut self.plain,
            &mut self.batches,
            &mut self.streams,
            &mut self.updates,
            &mut self.settlements,
        ] {
            *kind &= rng.u8(..3) > 0;
        }
        if self.deletes > 0 {
            self.deletes = *rng.choice(&[0, DELETES, 2 * DELETES]).unwrap();
        }
        self.rows = rng.usize(1..=ROWS);
        self
    }
}

/// A cell of a partition.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) row: String,
    pub(crate) family: &'static str,
    pub(crate) qualifier: &'static str,
}

impl Place {
    /// Draws a cell. Some rows are used more often.
    pub(crate) fn draw(mix: &Mix, rng: &mut Rng) -> Self {
        let row = rng.usize(..mix.rows).min(rng.usize(..mix.rows));
        Self::in_row(&format!("r{row}"), rng)
    }

    pub(crate) fn in_row(row: &str, rng: &mut Rng) -> Self {
        let (family, qualifier) = *rng.choice(&COLUMNS).unwrap();
        Self {
            row: row.to_owned(),
            family,
            qualifier,
        }
    }

    pub(crate) fn name(&self) -> String {
        name(&self.row, self.family, self.qualifier)
    }

    pub(crate) fn is_counter(&self) -> bool {
        self.qualifier == COUNTER
    }

    /// Whether the cell is incremented or appended to. HBase stamps that after the cell as it is, and
    /// so perhaps ahead of the clock: a blind put that follows at once would be hidden.
    pub(crate) fn is_added_to(&self) -> bool {
        self.is_counter() || (self.family, self.qualifier) == ("f", "b")
    }

    /// Draws a cell until it is one of these.
    pub(crate) fn draw_where(
        draw: impl Fn(&mut Rng) -> Self,
        is_wanted: fn(&Self) -> bool,
        rng: &mut Rng,
    ) -> Self {
        loop {
            let place = draw(rng);
            if is_wanted(&place) {
                return place;
            }
        }
    }
}

/// A mutation, as the library and as the checker read it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) mutation: Mutation,
    pub(crate) change: Change,
    /// Whether it puts a cell that others increment or append to.
    pub(crate) puts_what_is_added_to: bool,
}

/// A condition, likewise.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) condition: Condition,
    pub(crate) check: Check,
}

/// Draws the mutations of a transaction, with values that begin with this name.
pub(crate) fn draw_steps(
    mix: &Mix,
    partition: &str,
    writer: &str,
    places: &[Place],
    rng: &mut Rng,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for number in 0..rng.usize(1..5) {
        let place = if rng.bool() {
            rng.choice(places).cloned()
        } else {
            None
        };
        let place = place.unwrap_or_else(|| Place::draw(mix, rng));
        let value = format!("{writer}.{number}");
        steps.push(match rng.u8(..20) {
            kind if kind < mix.deletes => delete(partition, &place, rng.u8(..3)),
            14..20 if place.is_added_to() => add(partition, &value, &place, rng),
            _ => put(partition, &value, &place, rng),
        });
    }
    steps
}

/// Returns whether a transaction may be blind.
pub(crate) fn may_be_blind(steps: &[Step]) -> bool {
    !steps.iter().any(|step| step.puts_what_is_added_to)
}

/// A put of a value that no other operation puts.
pub(crate) fn put(partition: &str, value: &str, place: &Place, rng: &mut Rng) -> Step {
    let put = Put::new(format!("{partition}{}", place.row));
    let (put, value) = if place.is_counter() {
        let number = rng.i64(1..1 << 40);
        (
            put.cell(place.family, place.qualifier, number),
            number.to_string(),
        )
    } else {
        (put.cell(place.family, place.qualifier, value), value.to_owned())
    };
    Step {
        mutation: put.into(),
        change: Change::Put {
            cell: place.name(),
            value,
        },
        puts_what_is_added_to: place.is_added_to(),
    }
}

/// An increment of a number, or an append to a text.
pub(crate) fn add(partition: &str, value: &str, place: &Place, rng: &mut Rng) -> Step {
    let row = format!("{partition}{}", place.row);
    if place.is_counter() {
        let by = rng.i64(1..1_000);
        return Step {
            mutation: Increment::new(row)
                .column(place.family, place.qualifier, by)
                .into(),
            change: Change::Increment {
                cell: place.name(),
                by,
            },
            puts_what_is_added_to: false,
        };
    }
    let value = format!("+{value}");
    let append = Append::new(row).cell(place.family, place.qualifier, value.clone());
    Step {
        mutation: append.into(),
        change: Change::Append {
            cell: place.name(),
            value,
        },
        puts_what_is_added_to: false,
    }
}

/// A delete of the row of a cell (0), of its family (1), or of its column (2).
pub(crate) fn delete(partition: &str, place: &Place, depth: u8) -> Step {
    let delete = Delete::new(format!("{partition}{}", place.row));
    let (delete, scope) = match depth {
        0 => (delete, format!("{}/", place.row)),
        1 => (
            delete.family(place.family),
            format!("{}/{}:", place.row, place.family),
        ),
        _ => (delete.column(place.family, place.qualifier), place.name()),
    };
    Step {
        mutation: delete.into(),
        change: Change::Delete { scope },
        puts_what_is_added_to: false,
    }
}

/// Returns whether each step writes a cell that a condition names.
pub(crate) fn are_covered(steps: &[Step], guards: &[Guard]) -> bool {
    steps.iter().all(|step| match &step.change {
        Change::Put { cell, .. } | Change::Append { cell, .. } | Change::Increment { cell, .. } => {
            guards.iter().any(|guard| guard.check.cell == *cell)
        }
        Change::Delete { .. } => false,
    })
}

/// Draws a condition that holds for what was seen last, more often than not.
pub(crate) fn draw_guard(partition: &str, place: &Place, seen: &Found, rng: &mut Rng) -> Guard {
    let row = format!("{partition}{}", place.row);
    let (family, qualifier) = (place.family, place.qualifier);
    let last = seen.get(&place.name());
    let holds = rng.u8(..5) > 0;
    let guard = |condition, is, value: &str| Guard {
        condition,
        check: Check {
            cell: place.name(),
            is,
            value: value.to_owned(),
        },
    };
    let Some(last) = last.filter(|_| holds) else {
        return if holds || rng.bool() {
            guard(Condition::absent(row, family, qualifier), "absent", "")
        } else {
            guard(Condition::present(row, family, qualifier), "present", "")
        };
    };
    if place.is_counter() {
        let number: i64 = last.parse().unwrap();
        return match rng.u8(..3) {
            0 => guard(Condition::present(row, family, qualifier), "present", ""),
            1 => guard(
                Condition::not_equal(row, family, qualifier, number),
                "not_equal",
                last,
            ),
            _ => guard(Condition::equal(row, family, qualifier, number), "equal", last),
        };
    }
    let value = last.as_str();
    let compare = |comparison| Condition::compare(row.clone(), family, qualifier, comparison, value);
    match rng.u8(..12) {
        0 => guard(Condition::present(row, family, qualifier), "present", ""),
        1 => guard(
            Condition::not_equal(row, family, qualifier, value),
            "not_equal",
            value,
        ),
        2 => {
            let prefix = &value[..rng.usize(value.len().min(1)..=value.len())];
            guard(
                Condition::begins_with(row, family, qualifier, prefix.to_owned()),
                "begins_with",
                prefix,
            )
        }
        3 => guard(compare(Comparison::Less), "less", value),
        4 => guard(compare(Comparison::LessOrEqual), "less_or_equal", value),
        5 => guard(compare(Comparison::Greater), "greater", value),
        6 => guard(compare(Comparison::GreaterOrEqual), "greater_or_equal", value),
        _ => guard(Condition::equal(row, family, qualifier, value), "equal", value),
    }
}

/// Draws a pause: mostly none, sometimes a long one.
pub(crate) fn draw_pause(longest: Duration, rng: &mut Rng) -> Duration {
    match rng.u8(..8) {
        0..3 => Duration::ZERO,
        3..6 => longest.mul_f64(rng.f64() / 50.0),
        6 => longest.mul_f64(rng.f64() / 5.0),
        _ => longest.mul_f64(rng.f64()),
    }
}
