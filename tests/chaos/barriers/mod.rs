//! Barriers under faults: a generation opens once, with all parties, and nobody is told anything
//! else.
//!
//! | file | what |
//! |---|---|
//! | `parties` | parties that arrive again and again |
//! | `history` | what parties were told, and the checker of that |
//! | `faults` | parties that spin, networks that swallow, regions that move, servers that die |

mod faults;
mod history;
mod parties;
