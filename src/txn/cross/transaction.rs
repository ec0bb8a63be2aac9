//! A transaction across partitions, whose contents are known beforehand.

use std::{fmt, pin::pin, sync::Arc};

use hbase_client::{
    IntoBytes,
    low_level::{Pauses, TableCalls},
};
use tokio::time::Instant;

use super::attempt::{self, Ended, Member, Members};
use crate::{
    error::{Error, Result},
    observe::ObservedCommit,
    txn::{
        commit::{Claimed, plan::Group},
        outcome::Outcome,
        record::{RecordRequest, TransactionId, digest::Digest, settle::Claim},
        transaction::Transaction,
    },
};

/// Transactions of several partitions, perhaps of several tables, which are applied together or not at all,
/// and only if all their conditions hold at the same time.
///
/// The partition of the first transaction is *home*: it keeps the decision, and the record of an
/// [`id`](Self::id). The tables need the attribute of
/// [`with_cross_partition`](crate::TableDescriptorExt::with_cross_partition).
///
/// # Guarantees
///
/// Such transactions, those of one partition, updates and snapshots of tables with this attribute are
/// strictly serialisable: each takes effect at one moment between its call and its answer. After the
/// commit they all see what it writes. [`Table`](crate::client::Table) and other clients read cells: they
/// see home at once, and the other partitions when they are applied, a moment later; if this process stops
/// in between, when a transaction, an update or a snapshot meets the partition.
///
/// A plain write is not stopped, and is not isolated from such a transaction.
///
/// # Limits
///
/// In the partitions after the first one there are puts without timestamps, deletes of columns, families and
/// rows, and conditions, but no increments and appends. No partition has locks or latches. There are at most 16
/// partitions, and 4 MiB of puts and deletes after home.
///
/// Each transaction changes the version of its partition, so one across partitions is repeated if another one
/// changes a partition between its read and its hold: it may not get through while a partition is always being
/// changed.
///
/// # Example
///
/// ```
/// use hbase_txn::{
///     CrossTransaction, Outcome, TableDescriptorExt,
///     client::{Condition, Put},
/// };
/// # use hbase_txn::{PartitionRule, PartitionedTable, admin::Admin, client::{FamilyDescriptor, TableDescriptor}};
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # let connection = hbase.connect().await?;
/// # let accounts = TableDescriptor::new("accounts")?
/// #     .with_family(FamilyDescriptor::new("f"))
/// #     .with_partition_rule(&PartitionRule::delimiter("/")?)
/// #     .with_multi_row_mutation_endpoint()
/// #     .with_cross_partition();
/// # Admin::new(&connection).create_table(&accounts, &[]).await?;
/// # let accounts = PartitionedTable::open(&connection, "accounts").await?;
/// let from = accounts
///     .transaction("alice")
///     .condition(Condition::absent("alice/moved/17", "f", "to").label("not moved yet"))
///     .put(Put::new("alice/moved/17").cell("f", "to", "bob"));
/// let to = accounts
///     .transaction("bob")
///     .put(Put::new("bob/item/17").cell("f", "from", "alice"));
/// match CrossTransaction::new(from).and(to).commit().await {
///     Outcome::Committed(_) => println!("moved"),
///     Outcome::Rejected(rejection) => println!("{}: {rejection}", rejection.table),
///     other => println!("{other}"),
/// }
/// # assert_eq!(accounts.snapshot("bob").await?.len(), 1);
/// # Ok(()) });
/// ```
#[must_use = "a transaction does nothing until it is committed"]
pub struct CrossTransaction {
    transactions: Vec<Transaction>,
    id: Option<Result<TransactionId>>,
}

impl CrossTransaction {
    /// Begins with the transaction of home. It must have no id.
    pub fn new(home: Transaction) -> Self {
        Self {
            transactions: vec![home],
            id: None,
        }
    }

    /// Adds the transaction of another partition, of this table or another one of the same connection.
    pub fn and(mut self, other: Transaction) -> Self {
        self.transactions.push(other);
        self
    }

    /// Records the transaction under the caller's id in the partition of home, as
    /// [`Transaction::id`] does for one partition: it is applied once, however often and by whichever
    /// process it is committed, with the same contents and the same home.
    pub fn id(mut self, id: impl IntoBytes) -> Self {
        self.id = Some(TransactionId::new(id));
        self
    }

    /// Commits the transaction and returns its outcome: repeats it within the operation timeout of home's
    /// table while other transactions are in the way.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the attempt in flight continues in the background, and no other one
    /// begins. Its outcome is then known only by an [`id`](Self::id):
    /// [`PartitionedTable::settle`](crate::PartitionedTable::settle) of home's table finds it.
    pub async fn commit(self) -> Outcome {
        let members = match self.members() {
            Ok(members) => members,
            Err(error) => return Outcome::Invalid(error.at_operation("transaction")),
        };
        let observed = ObservedCommit::begin(members.home().committer.table().name());
        let commit = pin!(commit(&members));
        let outcome = observed.within(commit).await;
        observed.end(outcome.name(), outcome.error());
        outcome
    }

    /// Checks the transactions, and returns them as members.
    fn members(self) -> Result<Arc<Members>> {
        let mut members = Vec::with_capacity(self.transactions.len());
        for transaction in self.transactions {
            let (committer, group, record) = transaction.into_parts();
            let member = Member {
                committer,
                group: group?,
            };
            if record.is_some() {
                let error = Error::invalid("an id of a part of a transaction across partitions")
                    .with_hint("give it to the whole transaction");
                return Err(member.in_context(error));
            }
            members.push(member);
        }
        if let Some(home) = members.first_mut() {
            home.group.record = self.id.transpose()?.map(RecordRequest::of_caller);
        }
        Ok(Arc::new(Members::new(members)?))
    }
}

async fn commit(members: &Arc<Members>) -> Outcome {
    let deadline = members.home().committer.table().table().deadline();
    let committed = commit_by(members, deadline).await;
    committed.unwrap_or_else(|error| members.outcome(Err(error.into())))
}

/// Repeats the transaction until an attempt has an outcome or the deadline passes.
///
/// # Errors
///
/// Returns an error if nothing was applied.
async fn commit_by(members: &Arc<Members>, deadline: Instant) -> Result<Outcome> {
    let home = members.home();
    let mut claimed = members.claim()?;
    let mut pauses = Pauses::after_conflicts();
    loop {
        let began = Instant::now();
        let states = members.free_states(deadline).await?;
        let took = began.elapsed();
        if let Some(claimed) = &mut claimed {
            let seen = claimed.claim.read_for_commit(deadline).await;
            claimed.seen = seen.map_err(|error| home.in_context(error))?;
            if claimed.is_committed() {
                return Ok(Outcome::Committed(members.committed(true)));
            }
        }
        let ended = attempt::run(Arc::clone(members), states, claimed.as_ref(), took, deadline).await;
        if !matches!(ended, Ok(Ended::Conflict)) || !pauses.wait_before(deadline).await {
            return Ok(members.outcome(ended));
        }
    }
}

impl Members {
    /// Claims the id of the caller.
    fn claim(&self) -> Result<Option<Claimed>> {
        let home = self.home();
        let Some(request) = &home.group.record else {
            return Ok(None);
        };
        let all = |of: fn(&Member) -> &[_]| -> Vec<_> { self.all.iter().flat_map(of).cloned().collect() };
        let mutations = all(|member| &member.group.mutations);
        let conditions: Vec<_> = self
            .all
            .iter()
            .flat_map(|member| &member.group.conditions)
            .cloned()
            .collect();
        let parts = self.all.iter().map(|member| {
            let Group {
                mutations,
                conditions,
                ..
            } = &member.group;
            let counts = (mutations.len(), conditions.len());
            let name = format!("{} {} {}", member.committer.table().name(), counts.0, counts.1);
            (name.into(), member.partition().prefix())
        });
        let digest = Digest::of(&mutations, &conditions, parts);
        let claim = Claim::new(home.committer.table(), home.partition(), &request.id, digest);
        let claim = claim.map_err(|error| home.in_context(error))?;
        Ok(Some(Claimed { claim, seen: None }))
    }
}

impl fmt::Debug for CrossTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrossTransaction")
            .field("transactions", &self.transactions)
            .field("id", &self.id)
            .finish()
    }
}
