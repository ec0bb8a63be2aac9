//! Flushes and compactions.

use super::{Region, entry::Entry, read};
use crate::exception::Result;

impl Region {
    /// Writes memory to a file, which drops what is masked or surplus in memory.
    pub(crate) fn flush(&mut self, now: u64) -> Result<()> {
        self.write_file(now, true, |entry| entry.file.is_none())
    }

    /// Writes all files as one, if the table allows it. A major compaction also drops markers.
    pub(crate) fn compact(&mut self, major: bool, now: u64) -> Result<()> {
        if !self.compacts {
            return Ok(());
        }
        self.write_file(now, !major, |entry| entry.file.is_some())
    }

    fn write_file(&mut self, now: u64, keep_markers: bool, selected: impl Fn(&Entry) -> bool) -> Result<()> {
        self.files += 1;
        let read_point = self.smallest_read_point();
        self.store.rewrite(
            &self.families,
            self.files,
            read_point,
            selected,
            |cells, family| read::kept(cells, family, now, keep_markers),
        )
    }
}
