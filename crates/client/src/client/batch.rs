//! A list of operations of any kind, with one result each.
//!
//! Gets, puts and deletes, and increments and appends share calls, each as in lists of their own.

use futures::{StreamExt, join};

use super::{GetAnswer, Table};
use crate::{
    error::{Error, Result},
    model::{Append, Consistency, Delete, Get, Increment, Mutation, Put, Row, in_row},
};

const NAME: &str = "batch";

/// An operation of [`Table::batch`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RowOperation {
    /// Reads a row.
    Get(Box<Get>),
    /// Changes a row.
    Mutation(Mutation),
}

/// Refuses a get that can't share a call.
fn check(get: &Get) -> Result<()> {
    get.check()?;
    match get.selection.consistency {
        Consistency::Strong => Ok(()),
        Consistency::Timeline => {
            let error = Error::invalid("replicas do not answer the gets of a batch");
            Err(in_row(error, &get.row).with_hint("use get_many"))
        }
    }
}

impl Table {
    /// Executes operations of any kind, and returns one result for each, in their order: the row of a
    /// get if it has a requested cell, the new cells of an increment or append, and `None` for a put or
    /// delete.
    ///
    /// The operations are executed concurrently, in any order, as in a batch of HBase's Java client: a
    /// get may or may not see a put of the same list, and a put may come before or after an increment
    /// of its row. Only puts and deletes of one row are applied in their order. Each operation succeeds
    /// or fails on its own; the list is not a transaction. All operations end within the operation
    /// timeout.
    ///
    /// Gets share calls as in [`get_many`](Self::get_many), puts and deletes as in
    /// [`mutate_many`](Self::mutate_many). Increments and appends share calls too, of at most 1,000 in
    /// about 1 MiB, and two calls to a server are in flight. A call has at most 16 values that appends
    /// return, because they may be large: set the attribute `_rr_` of an append to a zero byte if you do
    /// not need its result.
    ///
    /// If the answer to a call is lost, its increments and appends are sent again as a single
    /// [increment](Self::increment) is, and each counts once and returns no cells, or is reported as
    /// unknown. Those that were applied together are repeated together, so they are also unknown if
    /// their region was split between them meanwhile.
    ///
    /// # Errors
    ///
    /// Each result is an error as [`get`](Self::get), [`put`](Self::put) or
    /// [`increment`](Self::increment) returns it; that of a mutation may have an [unknown
    /// outcome](crate::Error::is_outcome_unknown). A get with
    /// [`Consistency::Timeline`](crate::Consistency::Timeline), and a put or delete with a visibility
    /// expression, are [`InvalidInput`](crate::ErrorKind::InvalidInput).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, any of the mutations may still be applied.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::{Get, Increment, Put};
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// let results = table
    ///     .batch([
    ///         Put::new("a").cell("f", "state", "new").into(),
    ///         Increment::new("b").column("f", "visits", 2).into(),
    ///         Get::new("c").into(),
    ///     ])
    ///     .await;
    /// let rows = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    /// let visits = rows[1].as_ref().ok_or("no row")?.get::<i64>("f", "visits")?;
    /// assert_eq!(visits, Some(2));
    /// assert!(rows[0].is_none() && rows[2].is_none());
    /// # Ok(()) });
    /// ```
    pub async fn batch(
        &self,
        operations: impl IntoIterator<Item = RowOperation>,
    ) -> Vec<Result<Option<Row>>> {
        let deadline = self.deadline();
        let mut results = Vec::new();
        let (mut gets, mut get_places) = (Vec::new(), Vec::new());
        let (mut writes, mut write_places) = (Vec::new(), Vec::new());
        let mut changes = Vec::new();
        for (place, operation) in operations.into_iter().enumerate() {
            let mut result = Ok(None);
            match operation {
                RowOperation::Get(get) => match check(&get) {
                    Ok(()) => {
                        gets.push(*get);
                        get_places.push(place);
                    }
                    Err(error) => result = Err(error.at_operation(NAME).at_table(&self.name)),
                },
                RowOperation::Mutation(write @ (Mutation::Put(_) | Mutation::Delete(_))) => {
                    writes.push(write);
                    write_places.push(place);
                }
                RowOperation::Mutation(change) => changes.push((place, change)),
            }
            results.push(result);
        }
        let changed = self.change_each(NAME, changes, deadline);
        let read = self.get_each(NAME, gets, deadline).collect::<Vec<_>>();
        let written = self.mutate_each(NAME, writes, deadline);
        let (changed, read, written) = join!(changed, read, written);
        for (place, row) in changed {
            results[place] = row.map(Some);
        }
        for answer in read {
            match answer {
                GetAnswer::Found(found) => {
                    for (get, row) in found {
                        results[get_places[get]] = Ok(row);
                    }
                }
                GetAnswer::Failed(failed, error) => {
                    for get in failed {
                        results[get_places[get]] = Err(error.clone());
                    }
                }
            }
        }
        for (place, result) in write_places.into_iter().zip(written) {
            results[place] = result.map(|()| None);
        }
        results
    }
}

impl From<Get> for RowOperation {
    fn from(get: Get) -> Self {
        Self::Get(Box::new(get))
    }
}

impl From<Mutation> for RowOperation {
    fn from(mutation: Mutation) -> Self {
        Self::Mutation(mutation)
    }
}

impl From<Put> for RowOperation {
    fn from(put: Put) -> Self {
        Self::Mutation(put.into())
    }
}

impl From<Delete> for RowOperation {
    fn from(delete: Delete) -> Self {
        Self::Mutation(delete.into())
    }
}

impl From<Increment> for RowOperation {
    fn from(increment: Increment) -> Self {
        Self::Mutation(increment.into())
    }
}

impl From<Append> for RowOperation {
    fn from(append: Append) -> Self {
        Self::Mutation(append.into())
    }
}
