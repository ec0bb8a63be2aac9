//! HBase's data model: names, rows, cells, mutations, reads, regions, tables. No I/O.
//!
//! | file | contents |
//! |---|---|
//! | `bytes_binary` | bytes in the notation of HBase's shell |
//! | `table_name` `server_name` | names, checked on creation |
//! | `cell` | a cell, and the cells of a row |
//! | `put` `delete` `increment` `append` | the kinds of mutations |
//! | `mutation` | a mutation of any kind |
//! | `attributes` `durability` | TTLs and other attributes of mutations; their durability |
//! | `limits` | limits that are checked before sending |
//! | `read` | gets and scans |
//! | `comparison` `filter` | comparisons of bytes, and predicates on cells |
//! | `read_comparator` `read_filter` | comparisons and filters that only a server applies |
//! | `condition` | requirements on rows, without which a transaction is not applied |
//! | `region` | a region, its bounds and its servers |
//! | `table_descriptor` | a table's families and attributes |
//! | `permission` | permissions of users, on tables or on single cells |
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
mod permission;
mod put;
mod read;
mod read_comparator;
mod read_filter;
mod region;
mod server_name;
mod table_descriptor;
mod table_name;
mod value;

pub use append::Append;
pub(crate) use attributes::{VISIBILITY_ATTRIBUTE, set_attribute};
pub use bytes_binary::{BytesBinary, parse_bytes_binary};
pub use cell::{Cell, CellKind, QueryMetrics, Row};
pub(crate) use comparison::component_end;
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
pub use limits::{LATEST_TIMESTAMP, Limits, key_after_prefix, timestamp_after};
pub use mutation::Mutation;
pub use permission::Permission;
pub use put::{Column, Put};
pub(crate) use read::Selection;
pub use read::{Consistency, Get, IsolationLevel, ReadType, Scan, TimeRange};
pub use read_comparator::{ReadComparator, Regex, RegexEngine, RegexFlag};
pub(crate) use read_filter::{ColumnPageStart, ComparedPart, KeyRange, ReadFilterKind};
pub use read_filter::{DependentColumnFilter, ReadFilter, SingleColumnValueFilter};
pub use region::{RegionInfo, TableRegion};
pub use server_name::ServerName;
pub(crate) use server_name::is_host;
pub use table_descriptor::{FamilyDescriptor, TableDescriptor, TableState};
pub use table_name::{IntoTableName, TableName};
pub use value::{FromValue, IntoBytes, IntoValue};
