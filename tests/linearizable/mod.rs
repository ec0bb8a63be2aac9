//! Programs that are drawn, their histories, and their check by Porcupine.
//!
//! | file | what |
//! |---|---|
//! | `history` | operations as the checker reads them, and the order of their calls and returns |
//! | `program` | what the tasks do, drawn from random numbers |
//! | `runner` | tasks that perform operations and record them |
//! | `commits` | transactions, with retries and settlements, and batches |
//! | `updates` | updates |
//! | `plain` | reads and writes of single rows, and snapshots |
//! | `streams` | writers and lists of mutations, in rows of one task |
//! | `objects` | locks and latches of other programs, whose operations are recorded |
//! | `checker` | builds and runs the program of the folder `checker` |
//! | `tests` | histories of locks and latches that the checker accepts or refuses |

pub(crate) mod checker;
mod commits;
pub(crate) mod history;
pub(crate) mod objects;
mod plain;
pub(crate) mod program;
pub(crate) mod runner;
mod streams;
#[cfg(test)]
mod tests;
mod updates;
