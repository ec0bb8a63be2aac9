//! Reads of one row, or of a range of rows.
//!
//! | file | contents |
//! |---|---|
//! | `selection` | what gets and scans request of each row |
//! | `get` | one row |
//! | `scan` | a range of rows |

mod get;
mod scan;
mod selection;

pub(crate) use self::selection::Selection;
pub use self::{
    get::Get,
    scan::{ReadType, Scan},
    selection::{Consistency, IsolationLevel, TimeRange},
};
