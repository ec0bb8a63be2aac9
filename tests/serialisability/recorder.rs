//! Reads and changes a partition, and records both.

use std::collections::BTreeMap;

use bytes::Bytes;
use hbase_txn::{
    Result, Snapshot, UpdateView,
    client::{Append, Delete, Mutation, Put, Row},
};

use super::{
    FAMILY, QUALIFIER,
    history::{List, Transaction},
};

/// The access of a transaction to its partition.
pub(crate) enum View<'v, 'a> {
    /// The view of an update: its reads are conditions.
    Tracked(&'v mut UpdateView<'a>),
    /// The common way without updates: a snapshot now, a commit later.
    Naive {
        snapshot: &'a Snapshot,
        changes: Vec<Mutation>,
    },
}

/// A view, with its recorded operations.
pub(crate) struct Recorder<'v, 'a> {
    view: View<'v, 'a>,
    noted: Transaction,
}

impl<'v, 'a> Recorder<'v, 'a> {
    pub(crate) fn new(view: View<'v, 'a>, name: impl Into<String>) -> Self {
        Self {
            view,
            noted: Transaction::new(name),
        }
    }

    /// Returns the recorded transaction, and the mutations that the caller must send, if the view
    /// does not.
    pub(crate) fn finish(self) -> (Transaction, Vec<Mutation>) {
        match self.view {
            View::Tracked(_) => (self.noted, Vec::new()),
            View::Naive { changes, .. } => (self.noted, changes),
        }
    }

    /// Returns the unique element that this attempt appends.
    pub(crate) fn element(&self) -> String {
        self.noted.name.clone()
    }

    /// Reads one cell.
    pub(crate) fn list(&mut self, row: &str) -> Result<List> {
        let value: Option<&Bytes> = match &mut self.view {
            View::Tracked(view) => view.value(row, FAMILY, QUALIFIER)?,
            View::Naive { snapshot, .. } => snapshot.value(row, FAMILY, QUALIFIER),
        };
        let list = value.map(decode).unwrap_or_default();
        self.noted.read(key(row, QUALIFIER), list.clone());
        Ok(list)
    }

    /// Reads a row with all its columns.
    pub(crate) fn row(&mut self, row: &str) -> Result<BTreeMap<String, List>> {
        let found = match &mut self.view {
            View::Tracked(view) => view.row(row)?,
            View::Naive { snapshot, .. } => snapshot.row(row),
        };
        let found = lists(found);
        // A semicolon is the byte after a colon.
        self.noted
            .read_span(format!("{row}:"), format!("{row};"), found.clone());
        Ok(found)
    }

    /// Reads a range of rows.
    pub(crate) fn rows(&mut self, start: &str, stop: &str) -> Result<BTreeMap<String, List>> {
        let rows = match &mut self.view {
            View::Tracked(view) => view.rows(start, stop)?,
            View::Naive { snapshot, .. } => snapshot.range(start, stop),
        };
        let found = lists(rows);
        self.noted.read_span(start, stop, found.clone());
        Ok(found)
    }

    /// Appends to a cell, without reading it.
    pub(crate) fn append(&mut self, row: &str) -> Result<()> {
        let element = self.element();
        let append = Append::new(row.to_owned()).cell(FAMILY, QUALIFIER, format!("{element},"));
        self.noted.append(key(row, QUALIFIER), element);
        self.change(append)
    }

    /// Puts a cell as it was read, with one more element.
    pub(crate) fn put_behind(&mut self, row: &str, read: &List) -> Result<()> {
        let mut value: String = read.iter().map(|element| format!("{element},")).collect();
        let element = self.element();
        value = value + &element + ",";
        self.noted.append(key(row, QUALIFIER), element);
        self.change(Put::new(row.to_owned()).cell(FAMILY, QUALIFIER, value))
    }

    /// Puts an absent column.
    pub(crate) fn insert(&mut self, row: &str, qualifier: &str) -> Result<()> {
        let element = self.element();
        let put = Put::new(row.to_owned()).cell(FAMILY, qualifier.to_owned(), format!("{element},"));
        self.noted.append(key(row, qualifier), element);
        self.change(put)
    }

    /// Deletes a row with one column, by its key.
    pub(crate) fn delete_row(&mut self, key: &str) -> Result<()> {
        let (row, _) = key.split_once(':').unwrap();
        self.noted.delete(key);
        self.change(Delete::new(row.to_owned()))
    }

    /// Deletes a column of a row, by its key.
    pub(crate) fn delete_column(&mut self, key: &str) -> Result<()> {
        let (row, qualifier) = key.split_once(':').unwrap();
        self.noted.delete(key);
        self.change(Delete::new(row.to_owned()).column(FAMILY, qualifier.to_owned()))
    }

    fn change(&mut self, mutation: impl Into<Mutation>) -> Result<()> {
        match &mut self.view {
            View::Tracked(view) => view.add(mutation).map(drop),
            View::Naive { changes, .. } => {
                changes.push(mutation.into());
                Ok(())
            }
        }
    }
}

pub(crate) fn key(row: &str, qualifier: &str) -> String {
    format!("{row}:{qualifier}")
}

/// Returns the lists in rows, by key.
pub(crate) fn lists<'a>(rows: impl IntoIterator<Item = &'a Row>) -> BTreeMap<String, List> {
    let cells = rows.into_iter().flat_map(Row::cells);
    cells
        .map(|cell| {
            let [row, qualifier] = [&cell.row, &cell.qualifier].map(|name| String::from_utf8_lossy(name));
            (key(&row, &qualifier), decode(&cell.value))
        })
        .collect()
}

fn decode(value: &Bytes) -> List {
    let text = String::from_utf8_lossy(value);
    text.split_terminator(',').map(str::to_owned).collect()
}
