//! A list of mutations, with one result each.

use tokio::time::Instant;

use super::{Bulk, Rules};
use crate::{
    client::Table,
    error::{Error, ErrorKind, Result},
    model::Mutation,
    wire::encoded::EncodedMutations,
};

/// The name of the operation in errors.
const NAME: &str = "mutate_many";

impl Table {
    /// Writes many puts and deletes, in few calls. Returns one result for each, in their order.
    ///
    /// Mutations of one row are applied in their order, and a put after a delete is visible. Otherwise each mutation succeeds or fails on
    /// its own, as with [`put`](Self::put): the list is not a transaction, and other clients may see
    /// some of its mutations before others. If regions move or split meanwhile, only their mutations
    /// are sent again.
    ///
    /// A call has at most 2,000 mutations, in about 1 MiB, and two calls to a server are in flight.
    /// All mutations end within the operation timeout. For more than that takes, use a
    /// [`writer`](Self::writer). Dropping the future cancels the mutations that were not sent; those
    /// in flight may still be applied.
    ///
    /// # Errors
    ///
    /// Each result is an error as [`put`](Self::put) returns it; its [outcome may be
    /// unknown](crate::Error::is_outcome_unknown). Increments and appends are
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput).
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::Put;
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// let puts = ["a", "b"].map(|row| Put::new(row).cell("f", "q", "v"));
    /// for result in table.mutate_many(puts).await {
    ///     result?;
    /// }
    /// # Ok(()) });
    /// ```
    #[doc(alias = "put_many")]
    pub async fn mutate_many<M: Into<Mutation>>(
        &self,
        mutations: impl IntoIterator<Item = M>,
    ) -> Vec<Result<()>> {
        self.mutate_each(NAME, mutations, self.deadline()).await
    }

    /// Writes as [`mutate_many`](Self::mutate_many) does, as a part of this operation.
    pub(in crate::client) async fn mutate_each<M: Into<Mutation>>(
        &self,
        name: &'static str,
        mutations: impl IntoIterator<Item = M>,
        deadline: Instant,
    ) -> Vec<Result<()>> {
        let mut results: Vec<Result<()>> = Vec::new();
        let mut bulk = Bulk::new(
            self,
            Rules {
                name,
                deadline: Some(deadline),
                at_least_once: false,
            },
        );
        let mut encoded = EncodedMutations::default();
        for mutation in mutations {
            results.push(self.encode(&mutation.into(), results.len() as u64, &mut encoded));
        }
        bulk.add(&encoded.finish());
        while !bulk.is_done() {
            for completed in bulk.next().await {
                for (number, failure) in completed.results() {
                    if let (Some(failure), Ok(index)) = (failure, usize::try_from(number)) {
                        results[index] = Err(failure);
                    }
                }
            }
        }
        results
    }

    /// Checks a put or a delete and encodes it with this number.
    pub(super) fn encode(
        &self,
        mutation: &Mutation,
        number: u64,
        encoded: &mut EncodedMutations,
    ) -> Result<()> {
        let in_context = |error: Error| mutation.in_context(error).at_table(&self.name);
        self.check(mutation)
            .and_then(|()| mutation.check_invisible())
            .map_err(in_context)?;
        if matches!(mutation, Mutation::Increment(_) | Mutation::Append(_)) {
            let what = "only puts and deletes can be written in bulk";
            return Err(in_context(Error::new(ErrorKind::InvalidInput, what)));
        }
        encoded
            .push(mutation, number, mutation.is_repeatable())
            .map_err(|error| in_context(Error::new(ErrorKind::InvalidInput, error.to_string())))
    }
}
