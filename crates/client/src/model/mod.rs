//! HBase's data model: names, rows, cells, mutations, reads, regions, tables, partitions. No I/O.
//!
//! | file | what |
//! |---|---|
//! | `bytes_binary` | bytes as HBase's shell writes them |
//! | `table_name` `server_name` | names, checked when they are made |
//! | `cell` | a cell, and the cells of a row |
//! | `put` `delete` `increment` `append` | the kinds of mutations |
//! | `mutation` | a mutation of any kind |
//! | `attributes` `durability` | TTLs and other attributes of mutations; how durable they are |
//! | `limits` | what is refused before sending |
//! | `read` | gets and scans |
//! | `comparison` `filter` | how bytes are compared, and which cells of a row are wanted |
//! | `condition` | what must be true of a row for a transaction to be applied |
//! | `region` | a region and its bounds |
//! | `table_descriptor` | a table's families and attributes |
//! | `partition` | how a row's prefix decides which rows can change together |
//! | `value` | row keys, names and values, from Rust types to bytes and back |

mod append;
mod attributes;
mod bytes_binary;
mod cell;
mod comparison;
mod condition;
mod delete;
mod durability;
mod filter;
mod increment;
mod limits;
mod mutation;
mod partition;
mod put;
mod read;
mod region;
mod server_name;
mod table_descriptor;
mod table_name;
mod value;

pub use append::Append;
pub use attributes::VISIBILITY_ATTRIBUTE;
pub use bytes_binary::{BytesBinary, parse_bytes_binary};
pub use cell::{Cell, CellKind, Row};
pub use comparison::{BitOperation, ComparatorKind};
pub use comparison::{Comparator, Comparison};
pub use condition::Check;
pub use condition::Condition;
pub use delete::{Delete, DeleteScope};
pub use durability::Durability;
pub use filter::Filter;
pub use filter::FilterKind;
pub use increment::Counter;
pub use increment::Increment;
pub(crate) use limits::in_row;
pub use limits::{LATEST_TIMESTAMP, Limits, timestamp_after};
pub use mutation::Mutation;
pub use partition::{Partition, PartitionRule};
pub use put::{Column, Put};
pub(crate) use read::Selection;
pub use read::{Get, Scan, TimeRange};
pub use region::RegionInfo;
pub use server_name::ServerName;
pub use table_descriptor::{FamilyDescriptor, TableDescriptor, TableState};
pub use table_name::{IntoTableName, TableName};
pub use value::{FromValue, IntoBytes, IntoValue};
