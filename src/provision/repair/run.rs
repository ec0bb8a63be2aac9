//! Merges and splits, one after the other.

use std::{collections::HashSet, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;

use super::plan::{self, RepairStep};
use crate::{
    client::{Admin, Connection, Pauses, RegionSwitch},
    config::bounded,
    error::{Error, ErrorKind, Result},
    lock::LockTableOptions,
    model::{PartitionRule, RegionInfo, TableDescriptor, TableName},
    provision::{
        audit::is_lock_table,
        command,
        giant::{Giant, by_region, giants},
    },
};

/// How long a step is tried for unless said otherwise. A server lets go of what a merge or a split left two minutes
/// after a compaction.
const PATIENCE: Duration = Duration::from_secs(600);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Puts a table's region boundaries where its partition rule wants them: removes those that cut a partition, and splits
/// off first partitions so large that HBase can't split the region by itself.
///
/// Clients may go on meanwhile. Those that have the table open, and begin a transaction on a region that is being merged or
/// split, wait for it as they do when HBase does that by itself; nothing is lost, and nothing is applied twice.
///
/// # Example
///
/// ```no_run
/// use hbase_txn::{Connection, provision::Repair};
///
/// # async fn example(connection: &Connection) -> hbase_txn::Result<()> {
/// let repair = Repair::new(connection, "orders".parse()?);
/// for step in repair.plan().await? {
///     println!("{step}");
/// }
/// let repaired = repair.run(|step| println!("{step}")).await?;
/// assert!(repair.plan().await?.is_empty());
/// # drop(repaired); Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Repair {
    connection: Connection,
    table: TableName,
    rule: Option<PartitionRule>,
    patience: Duration,
}

/// What a repair did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// Partitions that were cut and are whole.
    pub rejoined: usize,
    /// Splits that were made, of regions that were merged and others.
    pub splits: usize,
}

impl Repair {
    /// Of this table.
    #[must_use]
    pub fn new(connection: &Connection, table: TableName) -> Self {
        Self {
            connection: connection.clone(),
            table,
            rule: None,
            patience: PATIENCE,
        }
    }

    /// By this rule, whatever the table states: for a table that is to state it, and can't as long as boundaries contradict it.
    #[must_use]
    pub fn by_rule(mut self, rule: PartitionRule) -> Self {
        self.rule = Some(rule);
        self
    }

    /// How long each step may take: 10 minutes unless said otherwise. Right after a merge or a split HBase refuses another one
    /// of the same region, until its files are rewritten and the old ones let go, two minutes later by default
    /// (`hbase.hfile.compaction.discharger.interval`).
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = bounded(patience);
        self
    }

    /// What is to be done, on the boundaries of now. None: the table is as it should be.
    ///
    /// # Errors
    ///
    /// [`NoPartitionRule`](ErrorKind::NoPartitionRule), [`TableNotFound`](ErrorKind::TableNotFound),
    /// [`TableDisabled`](ErrorKind::TableDisabled).
    pub async fn plan(&self) -> Result<Vec<RepairStep>> {
        let deadline = Instant::now() + self.connection.config().operation_timeout();
        let descriptor = self
            .admin(deadline)
            .usable_descriptor(&self.table, deadline)
            .await?;
        let rule = self.rule_of(&descriptor)?;
        let mut steps = plan::cuts(&rule, &self.regions(deadline).await?);
        steps.extend(self.giants(&descriptor, &rule, deadline).await?);
        Ok(steps)
    }

    /// Does it, and tells each step when it begins. Begun again, it goes on where it was stopped, but for one thing: a
    /// region that was merged and not split again yet stays in one piece, which is no harm.
    ///
    /// # Errors
    ///
    /// Those of [`plan`](Self::plan); [`InvalidInput`](ErrorKind::InvalidInput) where splits or merges are switched off;
    /// and what the master said last of a step that could not be done in time. What was done before that stays.
    pub async fn run(&self, mut begin: impl FnMut(&RepairStep)) -> Result<Repaired> {
        let blame = |error: Error| error.at_operation("repairing the table").at_table(&self.table);
        let deadline = Instant::now() + self.connection.config().operation_timeout();
        let descriptor = self
            .admin(deadline)
            .usable_descriptor(&self.table, deadline)
            .await?;
        let rule = self.rule_of(&descriptor).map_err(blame)?;
        let mut repaired = Repaired::default();
        while let Some(step) = self.cuts(&rule).await.map_err(blame)?.into_iter().next() {
            self.refuse_if_switched_off(&descriptor).await.map_err(blame)?;
            begin(&step);
            self.rejoin(&rule, &step, &mut repaired).await.map_err(blame)?;
        }
        let deadline = Instant::now() + self.connection.config().operation_timeout();
        for step in self.giants(&descriptor, &rule, deadline).await.map_err(blame)? {
            self.refuse_if_switched_off(&descriptor).await.map_err(blame)?;
            begin(&step);
            if let RepairStep::SplitOff { at, .. } = &step {
                repaired.splits += usize::from(self.split(at).await.map_err(blame)?);
            }
        }
        Ok(repaired)
    }

    async fn cuts(&self, rule: &PartitionRule) -> Result<Vec<RepairStep>> {
        let deadline = Instant::now() + self.connection.config().operation_timeout();
        Ok(plan::cuts(rule, &self.regions(deadline).await?))
    }

    /// Merges what has rows of the partition, as long as it is cut, and splits what that became.
    async fn rejoin(&self, rule: &PartitionRule, step: &RepairStep, repaired: &mut Repaired) -> Result<()> {
        let RepairStep::Rejoin { partition, .. } = step else {
            return Ok(());
        };
        let mut attempts = Attempts::new(self.patience);
        // Where the merged region is split, when a merge was asked for.
        let mut asked: Option<Option<Bytes>> = None;
        let mut refusal = None;
        let split_at = loop {
            let cuts = self.cuts(rule).await?;
            let cut = cuts.into_iter().find_map(|cut| match cut {
                RepairStep::Rejoin {
                    partition: of,
                    regions,
                    split_at,
                } if of == *partition => Some((regions, split_at)),
                _ => None,
            });
            let Some((regions, split_at)) = cut else {
                // It is whole: by a merge of ours whose answer was lost, or by somebody else's.
                match asked {
                    Some(split_at) => break split_at,
                    None => return Ok(()),
                }
            };
            if let Some(refusal) = refusal.take() {
                attempts.again(self, &regions, refusal).await?;
            }
            asked = Some(split_at.clone());
            match self.admin(attempts.deadline).merge_regions(&regions).await {
                Ok(()) => break split_at,
                Err(error) => refusal = Some(error),
            }
        };
        repaired.rejoined += 1;
        if let Some(at) = split_at
            && self.split(&at).await?
        {
            repaired.splits += 1;
        }
        Ok(())
    }

    /// Begins a region at a row, unless one begins there. Whether it was split.
    async fn split(&self, at: &Bytes) -> Result<bool> {
        let mut attempts = Attempts::new(self.patience);
        let mut asked = false;
        let mut refusal = None;
        loop {
            let regions = self.regions(attempts.deadline).await?;
            let Some(region) = regions.into_iter().find(|region| region.contains(at)) else {
                return Err(Error::new(
                    ErrorKind::Server,
                    "no region has the row where one should begin",
                ));
            };
            if region.start_key == *at {
                // By a split of ours whose answer was lost, or by somebody else's.
                return Ok(asked);
            }
            let region = [region];
            if let Some(refusal) = refusal.take() {
                attempts.again(self, &region, refusal).await?;
            }
            let admin = self.admin(attempts.deadline);
            match admin.split_region(&region[0], Some(at.clone())).await {
                Ok(()) => return Ok(true),
                // The table's own restriction moves the row to where the region begins already.
                Err(error) if is_at_the_start(&error) => return Ok(asked),
                Err(error) => refusal = Some(error),
            }
            asked = true;
        }
    }

    async fn giants(
        &self,
        descriptor: &TableDescriptor,
        rule: &PartitionRule,
        deadline: Instant,
    ) -> Result<Vec<RepairStep>> {
        let admin = self.admin(deadline);
        let loads = admin.server_loads().await?;
        let loads = by_region(loads.into_iter().flat_map(|server| server.regions));
        let regions = self.regions(deadline).await?;
        let table = self.connection.table(self.table.clone());
        let giants = giants(&loads, &admin, &table, descriptor, rule, regions.iter(), deadline).await?;
        let steps = giants.into_iter().filter_map(|giant| {
            let Giant {
                partition,
                region,
                others,
                ..
            } = giant;
            others.then(|| RepairStep::SplitOff {
                at: partition.key_behind(),
                partition,
                region,
            })
        });
        Ok(steps.collect())
    }

    async fn refuse_if_switched_off(&self, descriptor: &TableDescriptor) -> Result<()> {
        let deadline = Instant::now() + self.connection.config().operation_timeout();
        for (switch, attribute, name) in [
            (RegionSwitch::Splits, "SPLIT_ENABLED", "splits"),
            (RegionSwitch::Merges, "MERGE_ENABLED", "merges"),
        ] {
            let refuse = |what: String, command: String| {
                Err(Error::invalid(what).with_hint(format!("switch them on first: {command}")))
            };
            let value = descriptor.attribute(attribute);
            if value.is_some_and(|value| value.eq_ignore_ascii_case("false")) {
                return refuse(
                    format!("{name} are disabled for the table"),
                    command::alter(&self.table, &[&format!("--{name}"), "on"]),
                );
            }
            if !self.admin(deadline).is_switched_on(switch).await? {
                return refuse(
                    format!("{name} are switched off for the whole cluster"),
                    command::switch_on(name),
                );
            }
        }
        Ok(())
    }

    /// The rule that boundaries must follow. A lock table without one has its own: the rows of a lock begin with one byte.
    fn rule_of(&self, descriptor: &TableDescriptor) -> Result<PartitionRule> {
        match (&self.rule, PartitionRule::from_descriptor(descriptor)) {
            (Some(rule), _) => Ok(rule.clone()),
            (None, Err(_)) if is_lock_table(descriptor) && LockTableOptions::has_companions(descriptor) => {
                PartitionRule::prefix_length(1)
            }
            (None, rule) => rule,
        }
    }

    async fn regions(&self, deadline: Instant) -> Result<Vec<RegionInfo>> {
        let regions = self.admin(deadline).regions(&self.table).await?;
        Ok(regions.into_iter().map(|found| found.region).collect())
    }

    fn admin(&self, deadline: Instant) -> Admin {
        self.connection.admin().until(deadline)
    }
}

/// Attempts at a step that a master refuses for a while: regions that were just split or merged refer to files of what
/// they came from, and are left alone until a compaction has rewritten those.
struct Attempts {
    deadline: Instant,
    pauses: Pauses,
    /// The regions that were compacted for it, which need that once.
    compacted: HashSet<Bytes>,
}

impl Attempts {
    fn new(patience: Duration) -> Self {
        Self {
            deadline: Instant::now() + patience,
            pauses: Pauses::growing(FIRST_PAUSE, LONGEST_PAUSE),
            compacted: HashSet::new(),
        }
    }

    /// Makes the next attempt possible, or fails with what was said of the last one.
    async fn again(&mut self, repair: &Repair, regions: &[RegionInfo], refusal: Error) -> Result<()> {
        let final_word = matches!(
            refusal.kind(),
            ErrorKind::AccessDenied
                | ErrorKind::TableNotFound
                | ErrorKind::TableDisabled
                | ErrorKind::InvalidInput
                | ErrorKind::Closed
        );
        if final_word {
            return Err(refusal);
        }
        tracing::debug!(table = %repair.table, error = %refusal, "the master refuses; compacting, and trying again");
        for region in regions {
            if !self.compacted.insert(region.name.clone()) {
                continue;
            }
            match repair.admin(self.deadline).major_compact_region(region).await {
                Ok(()) => {}
                // The refusal says more than that there was no time left.
                Err(error) if error.kind() == ErrorKind::DeadlineExceeded => return Err(refusal),
                Err(error) => return Err(error),
            }
        }
        match self.pauses.wait_before(self.deadline).await {
            true => Ok(()),
            false => Err(refusal),
        }
    }
}

/// Whether the master took the row for the one that the region begins with.
fn is_at_the_start(error: &Error) -> bool {
    let remote = error.remote();
    remote.is_some_and(|remote| remote.message.contains("Split row is equal to startkey"))
}
