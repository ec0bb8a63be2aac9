//! The calls: how each is made, and how its effect is read.

mod admin;
mod holds;
mod latches;
mod locks;
mod rows;
mod transactions;

use super::report::Call;

pub(super) fn all() -> Vec<Call> {
    [
        rows::all(),
        transactions::all(),
        locks::all(),
        holds::all(),
        latches::all(),
        admin::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
