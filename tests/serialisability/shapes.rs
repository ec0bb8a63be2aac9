//! The kinds of transactions, which make all anomalies possible.
//!
//! A partition has a few lists to which all transactions append; a range of rows that are inserted
//! and deleted; a row whose columns are; and names, each for one transaction only.

use std::collections::BTreeMap;

use fastrand::Rng;
use hbase_txn::Error;

use super::{QUALIFIER, history::List, recorder::Recorder};

const LISTS: usize = 4;
/// The approximate number of transactions that want the same name.
const RIVALS: usize = 4;

/// A kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Reads a list and writes it with one more element.
    ReadAndPut,
    /// Appends to two lists without reading them.
    AppendUnseen,
    /// Reads two lists and appends to a third, or to one of them.
    Skew,
    /// Reads the range and inserts a row.
    Insert,
    /// Reads the range and deletes a row; half of them insert another one.
    Remove,
    /// Reads the range and writes a list.
    Count,
    /// Reads a list and inserts a row, without reading the range.
    InsertUnseen,
    /// Reads a whole row; adds a column to it or deletes one.
    Columns,
    /// Takes a name if it is free.
    Claim,
    /// Reads the whole partition.
    ReadAll,
    /// Reads some lists.
    ReadLists,
    /// Reads and writes, and then cancels itself.
    ThinkBetter,
}

/// A transaction to be done.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// A unique name.
    pub(crate) name: String,
    pub(crate) partition: String,
    pub(crate) shape: Shape,
    /// The approximate number of earlier transactions.
    place: usize,
    seed: u64,
}

/// The reason why a closure ended without changes.
#[derive(Debug)]
pub(crate) enum Stop {
    ThoughtBetter,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Work {
    /// Returns whether it may leave no element.
    pub(crate) fn may_only_delete(&self) -> bool {
        matches!(self.shape, Shape::Remove | Shape::Columns)
    }

    /// Chooses a random transaction.
    pub(crate) fn choose(name: String, partitions: &[String], place: usize, rng: &mut Rng) -> Self {
        let shape = match rng.u32(..100) {
            0..15 => Shape::ReadAndPut,
            15..20 => Shape::AppendUnseen,
            20..40 => Shape::Skew,
            40..50 => Shape::Insert,
            50..60 => Shape::Remove,
            60..67 => Shape::Count,
            67..74 => Shape::InsertUnseen,
            74..82 => Shape::Columns,
            82..89 => Shape::Claim,
            89..92 => Shape::ReadAll,
            92..97 => Shape::ReadLists,
            _ => Shape::ThinkBetter,
        };
        Self {
            name,
            partition: rng.choice(partitions).unwrap().clone(),
            shape,
            place,
            seed: rng.u64(..),
        }
    }

    /// Performs it as far as the present data allow.
    pub(crate) fn perform(&self, on: &mut Recorder<'_, '_>) -> Result<(), Stop> {
        // Each attempt makes the same choices.
        let mut rng = Rng::with_seed(self.seed);
        let numbers = rng.choose_multiple(0..LISTS, 3);
        let [one, other, third] = [0, 1, 2].map(|place| self.row(&format!("l{}", numbers[place])));
        match self.shape {
            Shape::ReadAndPut => {
                let list = on.list(&one)?;
                on.put_behind(&one, &list)?;
            }
            Shape::AppendUnseen => {
                on.append(&one)?;
                on.append(&other)?;
            }
            Shape::Skew => {
                let list = on.list(&one)?;
                on.list(&other)?;
                match rng.u32(..3) {
                    0 => on.append(&third)?,
                    1 => on.append(&other)?,
                    _ => on.put_behind(&one, &list)?,
                }
            }
            Shape::Insert => {
                self.range(on)?;
                on.insert(&self.fresh_row(on), QUALIFIER)?;
            }
            Shape::Remove => {
                let rows = self.range(on)?;
                if let Some(key) = some_key(&rows, &mut rng) {
                    on.delete_row(key)?;
                    if rng.bool() {
                        on.insert(&self.fresh_row(on), QUALIFIER)?;
                    }
                }
            }
            Shape::Count => {
                self.range(on)?;
                on.append(&one)?;
            }
            Shape::InsertUnseen => {
                on.list(&one)?;
                on.insert(&self.fresh_row(on), QUALIFIER)?;
            }
            Shape::Columns => {
                let row = self.row("w");
                let columns = on.row(&row)?;
                match some_key(&columns, &mut rng) {
                    Some(key) if rng.bool() => on.delete_column(key)?,
                    _ => on.insert(&row, &on.element())?,
                }
                if rng.bool() {
                    on.append(&one)?;
                }
            }
            Shape::Claim => {
                let name = self.wanted_name();
                if on.list(&name)?.is_empty() {
                    on.insert(&name, QUALIFIER)?;
                }
                on.append(&one)?;
            }
            Shape::ReadAll => {
                let end = format!("{}~", self.partition);
                on.rows(&self.partition, &end)?;
            }
            Shape::ReadLists => {
                on.list(&one)?;
                on.list(&other)?;
            }
            Shape::ThinkBetter => {
                on.list(&one)?;
                on.append(&one)?;
                on.insert(&self.fresh_row(on), QUALIFIER)?;
                return Err(Stop::ThoughtBetter);
            }
        }
        Ok(())
    }

    /// Returns the key of the name that it wants.
    pub(crate) fn wanted_name(&self) -> String {
        self.row(&format!("u{:06}", self.place / RIVALS))
    }

    fn row(&self, row: &str) -> String {
        format!("{}{row}", self.partition)
    }

    fn fresh_row(&self, on: &Recorder<'_, '_>) -> String {
        self.row(&format!("r{}", on.element()))
    }

    fn range(&self, on: &mut Recorder<'_, '_>) -> Result<BTreeMap<String, List>, Stop> {
        Ok(on.rows(&self.row("r"), &self.row("s"))?)
    }
}

fn some_key<'a>(found: &'a BTreeMap<String, List>, rng: &mut Rng) -> Option<&'a String> {
    let keys: Vec<&String> = found.keys().collect();
    rng.choice(keys)
}
