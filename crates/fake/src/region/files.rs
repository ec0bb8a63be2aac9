//! Flushes and compactions.

use super::{Region, read};
use crate::exception::Result;

impl Region {
    /// Writes memory to a file, which drops what is masked or surplus in memory.
    pub(crate) fn flush(&mut self, now: u64) -> Result<()> {
        self.files += 1;
        let read_point = self.smallest_read_point();
        self.store.rewrite(
            &self.families,
            self.files,
            read_point,
            |entry| entry.file.is_none(),
            |cells, family| read::kept(cells, family, now, true),
        )
    }

    /// Writes all files as one, if the table allows it. A major compaction also drops markers.
    pub(crate) fn compact(&mut self, major: bool, now: u64) -> Result<()> {
        if !self.compacts {
            return Ok(());
        }
        self.files += 1;
        let read_point = self.smallest_read_point();
        self.store.rewrite(
            &self.families,
            self.files,
            read_point,
            |entry| entry.file.is_some(),
            |cells, family| read::kept(cells, family, now, !major),
        )
    }
}
