//! Barriers under faults: a generation opens once, with all parties, and no party gets another
//! result.
//!
//! | file | what |
//! |---|---|
//! | `parties` | parties that arrive again and again |
//! | `history` | the parties' results, and their checker |
//! | `faults` | spinning parties, lost requests, moving regions, killed servers |

mod faults;
mod history;
mod parties;
