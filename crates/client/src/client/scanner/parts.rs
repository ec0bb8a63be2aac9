//! Rows in parts, each with some of the row's cells.

use crate::model::{Cell, Row};

/// What was returned of a row whose parts are returned one by one.
#[derive(Debug)]
pub(super) struct Returned {
    /// The last returned cell.
    last: Cell,
    /// Whether the row comes again from its first cell, from a new scanner.
    pub(super) comes_again: bool,
}

impl Returned {
    /// Returns the cells of a further part that were not returned before, and what is returned with
    /// them.
    pub(super) fn and(begun: Option<Self>, part: Row) -> (Row, Option<Self>) {
        let part = match &begun {
            Some(begun) if begun.comes_again => {
                let key = part.key().clone();
                let mut cells = part.into_cells();
                cells.retain(|cell| cell.is_after(&begun.last));
                Row::new(key, cells)
            }
            _ => part,
        };
        let returned = match part.cells().last() {
            Some(last) => Some(Self {
                last: last.clone(),
                comes_again: false,
            }),
            None => begun,
        };
        (part, returned)
    }

    /// Returns whether this is of the row of this part.
    pub(super) fn is_of(&self, part: &Row) -> bool {
        self.last.row == part.key()
    }
}
