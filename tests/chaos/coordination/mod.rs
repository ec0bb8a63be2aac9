//! Semaphores, read/write locks and elections under load and faults: never more permits than there
//! are, no reader beside a writer, one leader a term, and terms that rise.
//!
//! | file | what |
//! |---|---|
//! | `contest` | owners that come and go, each a process of its own as far as anybody can tell |
//! | `faults` | answers that are lost, owners that stand still, regions that move, servers that die |
//! | `history` | what owners believed, and the checker of that |
//! | `spinning` | owners that acquire again as soon as they have released |

mod contest;
mod faults;
mod history;
mod spinning;
