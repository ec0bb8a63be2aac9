//! What a lock is in HBase: its rows and cells, and the conditional changes that take, renew and release it.
//!
//! | file | contents |
//! |---|---|
//! | `acquire` `renew` `release` | the changes |
//! | `shared_renewals` | renewals of several locks that share calls |
//! | `claim` | the hold of one token on a lock |
//! | `location` | the rows of one lock, and the calls that read and change them |
//! | `row_state` `owner` `layout` | the cells of a row |
//! | `slots` | several holds in one row, for semaphores, read/write locks and elections |

pub(super) mod acquire;
pub(super) mod claim;
pub(super) mod layout;
pub(super) mod location;
pub(super) mod owner;
pub(super) mod release;
pub(super) mod renew;
pub(super) mod row_state;
pub(super) mod shared_renewals;
pub(super) mod slots;
