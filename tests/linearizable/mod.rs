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
//! | `checker` | builds and runs the program of the folder `checker` |

pub(crate) mod checker;
mod commits;
pub(crate) mod history;
mod plain;
pub(crate) mod program;
pub(crate) mod runner;
mod streams;
mod updates;
