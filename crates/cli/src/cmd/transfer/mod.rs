//! `hbase-txn import`: rows from a file.
//!
//! | file | contents |
//! |---|---|
//! | `import` | the options of an import, its checkpoint and its summary |
//! | `importer` | reads lines and writes their mutations |
//! | `settlement` | what became of the lines: counts, rejects, checkpoints, progress |
//! | `ledger` | the lines in flight, in the order of the file |
//! | `spacing` | puts that must not follow a delete of their row within a millisecond |
//! | `checkpoint` | the file that records how far an import is |
//! | `rejects` | the file of rejected lines |
//! | `format` | the two formats of files |
//! | `json` | rows and mutations as JSON lines |
//! | `tsv` | rows as fields with a separator |

mod checkpoint;
mod format;
mod import;
mod importer;
mod json;
mod ledger;
mod rejects;
mod settlement;
mod spacing;
mod tsv;

pub(crate) use self::import::Import;
