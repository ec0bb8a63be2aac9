//! What a read does after each cell.

use crate::filter::SeekKey;

/// What a read does after a cell: HBase's `MatchCode`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Include,
    IncludeAndNextColumn,
    IncludeAndNextRow,
    Skip,
    NextColumn,
    NextRow,
    /// The read continues at a key of the filter if that is ahead.
    Seek(SeekKey),
    /// The family is read no further.
    Done,
}

/// What a marker masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Masked {
    /// One cell.
    Alone,
    /// It and the older versions of its column.
    WithOlder,
}
