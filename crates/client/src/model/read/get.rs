//! Reads of one row.

use bytes::Bytes;

use super::selection::{Consistency, IsolationLevel, MOST, Selection, TimeRange, selection_methods};
use crate::{
    error::Result,
    model::{IntoBytes, ReadFilter, attributes::set_attribute, limits::check_row},
};

/// A read of one row.
///
/// # Example
///
/// ```
/// use hbase_client::Get;
///
/// let get = Get::new("xxxabc").column("f", "q").versions(3);
/// # let _ = get;
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a get does nothing until it is given to a table"]
pub struct Get {
    pub(crate) row: Bytes,
    pub(crate) cache_blocks: bool,
    pub(crate) selection: Selection,
}

impl Get {
    /// Creates a get of this row: of the whole row, unless families or columns are named.
    pub fn new(row: impl IntoBytes) -> Self {
        Self {
            row: row.into_bytes(),
            cache_blocks: true,
            selection: Selection::default(),
        }
    }

    /// Sets whether the server keeps the blocks that it reads in its block cache. The default is
    /// `true`.
    pub fn cache_blocks(mut self, cache: bool) -> Self {
        self.cache_blocks = cache;
        self
    }

    selection_methods!();

    pub(crate) fn check(&self) -> Result<()> {
        check_row(&self.row)?;
        self.selection.check()
    }
}
