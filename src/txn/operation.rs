//! The operations of a transaction.

use hbase_client::{Append, Condition, Delete, Increment, Mutation, Put};

/// An operation of a [`Transaction`](super::Transaction).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Operation {
    /// A change to a row.
    Mutation(Mutation),
    /// A condition that must hold for the transaction to be applied.
    Condition(Condition),
}

macro_rules! mutations {
    ($($mutation:ident)*) => { $(
        impl From<$mutation> for Operation {
            fn from(mutation: $mutation) -> Self {
                Self::Mutation(mutation.into())
            }
        }
    )* };
}

mutations! { Append Delete Increment Mutation Put }

impl From<Condition> for Operation {
    fn from(condition: Condition) -> Self {
        Self::Condition(condition)
    }
}
