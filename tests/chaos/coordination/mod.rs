//! Semaphores, read/write locks and elections under load and faults: never more permits than the
//! semaphore has, no reader together with a writer, one leader a term, and rising terms.
//!
//! | file | what |
//! |---|---|
//! | `contest` | owners that acquire and release, each like a process of its own |
//! | `faults` | lost answers, stopped owners, moving regions, killed servers |
//! | `simulated::spinning` | owners that acquire again as soon as they have released |

mod contest;
mod faults;

/// Under faults that the simulation has too: `make test` leaves them to it, `make chaos` runs both.
mod simulated {
    mod spinning;
}
