//! A latch as it was read.

use std::collections::BTreeMap;

use bytes::Bytes;
use hbase_client::{BytesBinary, Cell, Get, Row};

use super::{
    layout::{self, Cells},
    note::Note,
    pending::Resolution,
    state::{LatchInfo, LatchState},
};
use crate::{
    error::{Error, ErrorKind, Result},
    java_layout::Level,
};

/// One cell, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedCell {
    pub(crate) value: Bytes,
    pub(crate) timestamp: u64,
    /// When the cell expires, by the server's clock. `None` if never.
    pub(crate) expires: Option<u64>,
}

impl ObservedCell {
    pub(super) fn of(cell: &Cell) -> Self {
        Self {
            value: Bytes::copy_from_slice(&cell.value),
            timestamp: cell.timestamp,
            expires: cell.expires_at(),
        }
    }
}

/// The count of one farm, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) qualifier: Bytes,
    pub(crate) seen: ObservedCell,
    pub(crate) value: i64,
}

impl Count {
    /// Returns whether the count is left by a Java client that counted down after the end of the
    /// latch: such a count has no end, and belongs to no latch.
    pub(super) fn is_leftover(&self) -> bool {
        self.value < 0 && self.seen.expires.is_none()
    }
}

/// A latch at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LatchObservation {
    /// The counts of the latch: of its farm, or of all farms.
    pub(crate) counts: Vec<Count>,
    pub(crate) note: Option<(Note, ObservedCell)>,
    /// The columns of the requested participants that have arrived, and their timestamps.
    pub(crate) arrived: Vec<(Bytes, u64)>,
    /// From which timestamp on a new cell of this farm or participant is visible. Zero unless it was
    /// read.
    pub(super) visible_from: u64,
}

/// The participants that are read with a latch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Participants<'a> {
    None,
    One(&'a Bytes),
    All,
}

/// Returns the read of a latch that is expected to exist.
pub(super) fn get_counts(cells: &Cells) -> Get {
    let get = Get::new(cells.row.clone());
    match cells.level {
        Level::Dc => get.column(cells.counts.clone(), cells.own.clone()),
        Level::Xdc => get.family(cells.counts.clone()),
    }
}

/// Returns the read of a latch.
pub(super) fn get(cells: &Cells, participants: Participants<'_>) -> Get {
    let get = get_counts(cells);
    match (&cells.note, participants) {
        (None, _) => get,
        (Some(note), Participants::None) => get.column(cells.state.clone(), note.clone()),
        (Some(note), Participants::One(column)) => get
            .column(cells.state.clone(), note.clone())
            .column(cells.state.clone(), column.clone()),
        (Some(_), Participants::All) if cells.counts == cells.state => {
            Get::new(cells.row.clone()).family(cells.state.clone())
        }
        (Some(_), Participants::All) => get.family(cells.state.clone()),
    }
}

impl LatchObservation {
    /// Decodes a row.
    ///
    /// # Errors
    ///
    /// Returns [`LatchCorrupt`](ErrorKind::LatchCorrupt) for a row that another program wrote.
    pub(crate) fn of(cells: &Cells, row: Option<&Row>) -> Result<Self> {
        let mut observation = Self::default();
        let arrivals = cells.arrivals();
        for cell in row.map(Row::cells).unwrap_or_default() {
            if cells.is_count(&cell.family, &cell.qualifier) {
                observation.counts.push(count(cell)?);
            } else if Some(&cell.qualifier) == cells.note.as_ref() {
                let note = Note::decode(&cell.value)
                    .ok_or_else(|| corrupt(cell, "is no note of a latch that this version can read"))?;
                observation.note = Some((note, ObservedCell::of(cell)));
            } else if cell.qualifier.starts_with(&arrivals) {
                let column = Bytes::copy_from_slice(&cell.qualifier);
                observation.arrived.push((column, cell.timestamp));
            }
        }
        let resolution = observation.resolution();
        observation.note = observation
            .note
            .map(|(note, seen)| (note.read(seen.timestamp, resolution), seen));
        Ok(observation)
    }

    /// Returns the outcome of the count that the last change noted. `None` if it noted none.
    pub(super) fn resolution(&self) -> Option<Resolution> {
        let (note, seen) = self.note.as_ref()?;
        let pending = note.pending.as_ref()?;
        let count = self.counts.iter().find(|count| count.qualifier == pending.column);
        let count = count.map(|count| (count.seen.timestamp, count.value));
        // A latch that has ended has no counts.
        let is_live = !self.counts.is_empty();
        Some(pending.resolution(seen.timestamp, count, is_live))
    }

    /// Returns the count of this process's farm.
    pub(super) fn own(&self, cells: &Cells) -> Option<&Count> {
        self.counts.iter().find(|count| count.qualifier == cells.own)
    }

    /// Returns the cell whose end is the end of the latch: the latest end of the counts that began
    /// it. `None` if there is no latch.
    ///
    /// While no count has expired, at least one count of all farms is not negative, because only
    /// what was counted up can be counted down.
    pub(crate) fn deadline(&self, level: Level) -> Option<&ObservedCell> {
        let live = self.counts.iter().filter(|count| match level {
            Level::Dc => !count.is_leftover(),
            Level::Xdc => count.value >= 0,
        });
        live.map(|count| &count.seen)
            .max_by_key(|seen| seen.expires.unwrap_or(u64::MAX))
    }

    /// Returns the remaining count of a live latch, at least zero.
    ///
    /// # Errors
    ///
    /// Returns [`LatchCorrupt`](ErrorKind::LatchCorrupt) if the sum of the counts is out of range.
    pub(crate) fn left(&self) -> Result<u64> {
        let sum = self
            .counts
            .iter()
            .try_fold(0_i64, |sum, count| sum.checked_add(count.value))
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::LatchCorrupt,
                    "the counts of the farms add up to more than a count can be",
                )
                .with_hint("delete the latch and create it again; a Java client counts without reading first")
            })?;
        Ok(u64::try_from(sum).unwrap_or(0))
    }

    pub(crate) fn state(&self, level: Level) -> Result<LatchState> {
        Ok(match (self.deadline(level), &self.note) {
            (Some(_), _) if self.left()? == 0 => LatchState::Reached,
            (Some(_), _) => LatchState::Open,
            (None, Some((note, _))) if !note.deleted => LatchState::Expired,
            (None, _) => LatchState::Absent,
        })
    }

    /// Returns the state of the latch of this number if it is known, and otherwise of the latch that
    /// exists.
    pub(super) fn state_of(&self, latch: Option<u64>, level: Level) -> Result<LatchState> {
        let noted = latch.zip(self.note.as_ref());
        match noted.and_then(|(latch, (note, _))| note.end_of(latch)) {
            Some(end) => Ok(end),
            None => self.state(level),
        }
    }

    /// Returns the number of the latch. `None` without a note, or if its note has none.
    pub(crate) fn latch(&self) -> Option<u64> {
        let (note, _) = self.note.as_ref()?;
        Some(note.latch).filter(|latch| *latch != 0)
    }

    /// Returns the columns and timestamps of the counts. Those of another latch are later.
    pub(super) fn stamps(&self) -> Vec<(Bytes, u64)> {
        let stamp = |count: &Count| (count.qualifier.clone(), count.seen.timestamp);
        self.counts.iter().map(stamp).collect()
    }

    pub(crate) fn info(&self, key: &str, level: Level) -> Result<LatchInfo> {
        let state = self.state(level)?;
        let is_live = matches!(state, LatchState::Open | LatchState::Reached);
        let farms: BTreeMap<_, _> = if is_live {
            self.counts
                .iter()
                .filter_map(|count| Some((layout::farm(&count.qualifier)?, count.value)))
                .filter(|(farm, _)| !farm.is_empty())
                .map(|(farm, value)| (BytesBinary(farm).to_string(), value))
                .collect()
        } else {
            BTreeMap::new()
        };
        Ok(LatchInfo {
            key: key.to_owned(),
            level,
            state,
            count: is_live.then(|| self.left()).transpose()?,
            farms,
            ends: self
                .deadline(level)
                .and_then(|seen| seen.expires)
                .map(LatchInfo::time),
            arrived: self
                .note
                .as_ref()
                .filter(|_| is_live)
                .map(|(note, _)| note.arrived),
        })
    }
}

fn count(cell: &Cell) -> Result<Count> {
    if layout::farm(&cell.qualifier).is_none() {
        return Err(corrupt(
            cell,
            "is no count, and a Java client would add it to the others",
        ));
    }
    let value: [u8; 8] = cell.value[..].try_into().map_err(|_| {
        corrupt(
            cell,
            &format!("has {} bytes, a count has eight", cell.value.len()),
        )
    })?;
    Ok(Count {
        qualifier: Bytes::copy_from_slice(&cell.qualifier),
        seen: ObservedCell::of(cell),
        value: i64::from_be_bytes(value),
    })
}

fn corrupt(cell: &Cell, what: &str) -> Error {
    Error::new(
        ErrorKind::LatchCorrupt,
        format!(
            "the cell {}:{} {what}",
            BytesBinary(&cell.family),
            BytesBinary(&cell.qualifier)
        ),
    )
    .with_hint("another program writes to this row; delete the cell, or the whole row")
}
