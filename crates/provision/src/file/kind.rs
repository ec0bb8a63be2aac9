//! The purposes of tables.

/// The purpose of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// Transactions.
    Transactions,
    /// Locks, in a table as [`LockTableOptions`](hbase_txn::lock::LockTableOptions) creates it.
    Locks,
    /// Latches, in a table as [`LatchTableOptions`](hbase_txn::latch::LatchTableOptions) creates
    /// it.
    Latches,
}
