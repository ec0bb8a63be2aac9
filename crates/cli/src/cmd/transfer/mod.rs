//! `hbase-txn import` and `export`: rows from a file, and into one.
//!
//! | file | contents |
//! |---|---|
//! | `import` | the options of an import, its checkpoint and its summary |
//! | `importer` | reads lines and writes their mutations |
//! | `families` | the families of the table, which are checked before a line is sent |
//! | `settlement` | what became of the lines: counts, rejects, checkpoints, progress |
//! | `ledger` | the lines in flight, in the order of the file |
//! | `checkpoint` | the file that records how far an import is |
//! | `rejects` | the file of rejected lines |
//! | `file_lock` | locks of these two files |
//! | `check` | reads the cells of a file back |
//! | `export` | the options of an export, and its summary |
//! | `exporter` | reads rows of several parts and writes their lines |
//! | `part` | the parts of an export |
//! | `partial` | an export that is not complete, and how far it is |
//! | `format` | the two formats of files |
//! | `line_length` | the length of lines that an import can read |
//! | `json` | rows and mutations as JSON lines |
//! | `tsv` | rows as fields with a separator |

mod check;
mod checkpoint;
mod export;
mod exporter;
mod families;
mod file_lock;
mod format;
mod import;
mod importer;
mod json;
mod ledger;
mod line_length;
mod part;
mod partial;
mod rejects;
mod settlement;
mod tsv;

pub(crate) use self::{export::Export, import::Import};
