//! The durability of writes.

/// The durability of a write at the time of the server's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// The durability that the table specifies. If it specifies none: `SyncWal`, or `FsyncWal` on a
    /// region server with `hbase.wal.hsync=true`.
    #[default]
    UseDefault,
    /// Not in the write-ahead log: lost if the server dies before a flush.
    SkipWal,
    /// In the write-ahead log some time after the answer: the last writes before a crash are lost.
    AsyncWal,
    /// In the write-ahead log, handed to the file system's replicas.
    SyncWal,
    /// In the write-ahead log, forced to disk.
    FsyncWal,
}

impl Durability {
    /// Returns whether a crash can lose acknowledged writes.
    pub fn is_weak(self) -> bool {
        matches!(self, Self::SkipWal | Self::AsyncWal)
    }
}
