//! HBase's data model: names, rows, cells, mutations, reads, regions, tables, partitions. No I/O.
//!
//! | file | what |
//! |---|---|
//! | `bytes_binary` | bytes as HBase's shell writes them |
//! | `table_name` `server_name` | names, checked when they are made |
//! | `cell` | a cell, and the cells of a row |
//! | `mutation` `increment` `append` | puts, deletes, increments, appends, durability, and what is refused before sending |
//! | `read` | gets and scans |
//! | `comparison` `filter` | how bytes are compared, and which cells of a row are wanted |
//! | `condition` | what must be true of a row for a transaction to be applied |
//! | `hash_prefix` | the byte that spreads keys over 256 buckets |
//! | `level` | how far a lock or a latch reaches |
//! | `region` | a region and its bounds |
//! | `table_descriptor` | a table's families and attributes |
//! | `partition` | how a row's prefix decides which rows can change together |

mod append;
mod bytes_binary;
mod cell;
mod comparison;
mod condition;
mod filter;
mod hash_prefix;
mod increment;
mod level;
mod mutation;
mod partition;
mod read;
mod region;
mod server_name;
mod table_descriptor;
mod table_name;

pub use append::Append;
pub use bytes_binary::{BytesBinary, parse_bytes_binary};
pub use cell::{Cell, CellKind, Row};
pub(crate) use comparison::{BitOperation, ComparatorKind};
pub use comparison::{Comparator, Comparison};
pub(crate) use condition::Check;
pub use condition::Condition;
pub use filter::Filter;
pub(crate) use filter::FilterKind;
pub(crate) use hash_prefix::{JAVA_REGIONS, bucket_split_keys, distributed_row};
pub(crate) use increment::Counter;
pub use increment::Increment;
pub use level::Level;
pub(crate) use mutation::{Column, DeleteScope, LATEST_TIMESTAMP, Limits, VISIBILITY_ATTRIBUTE, blame_row};
pub use mutation::{Delete, Durability, Mutation, Put};
pub use partition::{Partition, PartitionRule};
pub(crate) use read::Selection;
pub use read::{Get, Scan, TimeRange};
pub use region::RegionInfo;
pub use server_name::ServerName;
pub use table_descriptor::{FamilyDescriptor, TableDescriptor, TableState};
pub use table_name::TableName;
