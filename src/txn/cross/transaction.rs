//! A transaction across partitions, whose contents are known beforehand.

use std::{fmt, pin::pin, sync::Arc};

use hbase_client::{
    Effect, IntoBytes,
    low_level::{KEEP_THE_RUNTIME, Pauses, TableCalls},
};
use tokio::time::Instant;

use super::{
    attempt::{Attempt, Ended, Member, Members},
    redo,
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    observe::ObservedCommit,
    txn::{
        commit::Claimed,
        outcome::{Committed, Outcome},
        part::Ending,
        record::{
            RecordRequest, State, TransactionId,
            digest::Digest,
            settle::{Claim, Unsettled, settled_elsewhere},
        },
        reserved_rows::of_lone_row,
        transaction::Transaction,
    },
};

/// The maximum number of partitions.
const MAX_PARTITIONS: usize = 16;
/// One part in this many of the time left is reserved for determining the outcome of an attempt.
const KEPT_FOR_SETTLING: u32 = 5;

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
/// rows, and conditions, but no increments, appends, locks or latches. There are at most 16 partitions,
/// and 4 MiB of puts and deletes after home.
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
        let home = members.home();
        let ending = Ending::of(&home.group.parts);
        let observed = ObservedCommit::begin(home.committer.table().name());
        let commit = pin!(commit(&members));
        let outcome = observed.within(commit).await;
        observed.end(outcome.name(), outcome.error());
        ending.notify(&outcome);
        outcome
    }

    /// Checks the transactions, and returns them as members.
    fn members(self) -> Result<Arc<Members>> {
        let count = self.transactions.len();
        if count > MAX_PARTITIONS {
            let what = format!("a transaction across {count} partitions; the limit is {MAX_PARTITIONS}");
            return Err(Error::new(ClientErrorKind::LimitExceeded, what));
        }
        let mut members: Vec<Member> = Vec::with_capacity(count);
        for transaction in self.transactions {
            let (committer, group, record) = transaction.into_parts();
            let name = committer.table().name().clone();
            let member = Member {
                committer,
                group: group?,
            };
            let checked = member.check(&members, record.as_ref());
            checked.map_err(|error| member.in_context(error).at_table(&name))?;
            members.push(member);
        }
        let redo: usize = members[1..].iter().map(|member| member.redo().len()).sum();
        if redo > redo::MAX_BYTES {
            let limit = redo::MAX_BYTES;
            let what = format!(
                "{redo} bytes of changes in the partitions after the first one; the limit is {limit}"
            );
            return Err(Error::new(ClientErrorKind::LimitExceeded, what));
        }
        members[0].group.record = self.id.transpose()?.map(RecordRequest::of_caller);
        Ok(Arc::new(Members(members)))
    }
}

impl Member {
    /// Refuses what can't be part of a transaction across partitions, after these other members.
    fn check(&self, before: &[Self], record: Option<&RecordRequest>) -> Result<()> {
        let (table, partition) = (self.committer.table(), self.partition());
        if !table.terms().cross_partition {
            let what = "the table has no transactions across partitions";
            return Err(Error::new(ErrorKind::CrossPartitionUnsupported, what)
                .with_hint("run hbase-txn table alter with --cross-partition, and open it again"));
        }
        if partition.is_lone_row() {
            return Err(of_lone_row(
                partition,
                "a part in a transaction across partitions",
            ));
        }
        if record.is_some() {
            return Err(
                Error::invalid("an id of a part of a transaction across partitions")
                    .with_hint("give it to the whole transaction"),
            );
        }
        let is_same =
            |other: &Self| other.committer.table().name() == table.name() && other.partition() == partition;
        if before.iter().any(is_same) {
            return Err(
                Error::invalid("a partition twice in a transaction across partitions")
                    .with_hint("put all its changes and conditions into one of the two"),
            );
        }
        if before.is_empty() {
            return Ok(());
        }
        if let Some(part) = self.group.parts.first() {
            return Err(Error::invalid(
                "a lock or a latch in a partition of a transaction that is not the first one",
            )
            .at_operation(part.condition().label_text().into_owned()));
        }
        self.group.mutations.iter().try_for_each(redo::check)
    }
}

async fn commit(members: &Arc<Members>) -> Outcome {
    let deadline = members.home().committer.table().table().deadline();
    match commit_by(members, deadline).await {
        Ok(outcome) => outcome,
        Err(Failed { error, claim }) if error.is_outcome_unknown() => {
            Outcome::Unknown(Unsettled::new(error, claim))
        }
        Err(Failed { error, .. }) => match error.kind() {
            ErrorKind::IdReused | ErrorKind::CrossPartitionUnsupported | ErrorKind::PartitionRuleChanged => {
                Outcome::Invalid(error)
            }
            _ => Outcome::Aborted(error),
        },
    }
}

/// The error of a commit, and the claim by which its outcome can be determined if it is not known.
struct Failed {
    error: Error,
    claim: Option<Claim>,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, claim: None }
    }
}

async fn commit_by(members: &Arc<Members>, deadline: Instant) -> Result<Outcome, Failed> {
    let home = members.home();
    let mut claimed = members.claim()?;
    let mut pauses = Pauses::after_conflicts();
    loop {
        let began = Instant::now();
        let states = members.free_states(deadline).await?;
        let took = began.elapsed();
        if let Some(Claimed { claim, seen }) = &mut claimed {
            *seen = claim
                .read(deadline)
                .await
                .map_err(|error| home.in_context(error))?;
            match seen {
                Some(found) if found.record.state == State::Committed => {
                    return Ok(Outcome::Committed(members.committed(true)));
                }
                Some(found) if !claim.may_follow(found) => return Err(settled_elsewhere().into()),
                _ => {}
            }
        }
        let settling = deadline.saturating_duration_since(Instant::now()) / KEPT_FOR_SETTLING;
        let attempt = Attempt::new(members, states, claimed.clone(), took, deadline - settling);
        let claim = match &claimed {
            Some(claimed) => claimed.claim.clone(),
            None => attempt.claim()?,
        };
        let running = home.committer.table().table().runtime().spawn(attempt.run());
        let ended = running.await.unwrap_or_else(|_| {
            let what = "the runtime of the connection has ended";
            Err(Error::new(ClientErrorKind::Closed, what)
                .with_effect(Effect::Unknown)
                .with_hint(KEEP_THE_RUNTIME))
        });
        match ended {
            Ok(Ended::Committed) => return Ok(Outcome::Committed(members.committed(false))),
            Ok(Ended::Rejected(rejection)) => return Ok(Outcome::Rejected(rejection)),
            Ok(Ended::Conflict) => {}
            Err(error) => {
                return Err(Failed {
                    error,
                    claim: Some(claim),
                });
            }
        }
        if !pauses.wait_before(deadline).await {
            let what = "gave up, nothing was applied: other transactions were in the way each time";
            let error = Error::new(ClientErrorKind::DeadlineExceeded, what).with_retryable(true);
            return Err(home.in_context(error).into());
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
        let all = |of: fn(&Member) -> &[_]| -> Vec<_> { self.0.iter().flat_map(of).cloned().collect() };
        let mutations = all(|member| &member.group.mutations);
        let conditions: Vec<_> = self
            .0
            .iter()
            .flat_map(|member| &member.group.conditions)
            .cloned()
            .collect();
        let parts = self.0.iter().map(|member| {
            let name = format!(
                "{} {}",
                member.committer.table().name(),
                member.group.conditions.len()
            );
            (name.into(), member.partition().prefix())
        });
        let deeds = home
            .group
            .parts
            .iter()
            .map(|part| (part.description(), part.condition().row()));
        let digest = Digest::of(&mutations, &conditions, parts.chain(deeds));
        let claim = Claim::new(home.committer.table(), home.partition(), &request.id, digest);
        let claim = claim.map_err(|error| home.in_context(error))?;
        Ok(Some(Claimed { claim, seen: None }))
    }

    fn committed(&self, replayed: bool) -> Committed {
        Committed {
            partition: self.home().partition().clone(),
            rows: self.0.iter().map(|member| member.group.rows()).sum(),
            mutations: self.0.iter().map(|member| member.group.mutations.len()).sum(),
            replayed,
            results: Vec::new(),
        }
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
