//! Merges and splits, one after the other.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use bytes::Bytes;
use hbase_admin::{Admin, low_level::AdminCalls};
use hbase_client::{
    Connection, IntoBytes, IntoTableName, RegionInfo, TableDescriptor, TableName,
    low_level::{Pauses, bounded},
};
use hbase_txn::{ClientErrorKind, Error, ErrorKind, Partition, PartitionRule, Result, usable_descriptor};
use tokio::time::{Instant, sleep};

use super::{
    plan::{self, RepairStep},
    preflight,
};
use crate::{
    giant::{GiantRegion, RegionLoads, by_region, giants},
    table_lock::TableLock,
};

/// The default limit of a step. A server releases the files that a merge or a split left behind two
/// minutes after a compaction.
const PATIENCE: Duration = Duration::from_secs(600);
/// The default limits of one merge. A boundary inside a partition cuts it into two regions, each of
/// which HBase would split at 10 GiB. Much more than that is the sign of a wrong rule.
const MOST_REGIONS: usize = 8;
const MOST_MIB: u64 = 64 << 10;
/// How often one partition is rejoined. HBase may split it once more, by its size when it was merged.
const TIMES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// A repair of a table's region boundaries: removes the boundaries that cut a partition, and splits
/// off first partitions that are so large that HBase can't split the region by itself.
///
/// Clients may use the table meanwhile. A client that begins a transaction on a region that is
/// being merged or split waits, as it does when HBase merges or splits the region by itself. No
/// data is lost and no change is applied twice.
///
/// # Example
///
/// ```
/// use hbase_provision::Repair;
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_partitioned_table("orders", &["f"], 3);
/// # hbase.split("orders", "abcd");
/// # let connection = hbase.connect().await?;
/// let repair = Repair::new(&connection, "orders")?;
/// for step in repair.plan().await? {
///     println!("{step}");
/// }
/// repair.run(|step| println!("{step}")).await?;
/// assert!(repair.plan().await?.is_empty());
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Repair {
    connection: Connection,
    table: TableName,
    rule: Option<PartitionRule>,
    patience: Duration,
    most_regions: usize,
    most_mib: u64,
    most_steps: usize,
    pause: Duration,
    /// The prefix of the only partition to repair.
    partition: Option<Bytes>,
}

/// The result of a repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// The number of partitions that were cut and are whole again.
    pub rejoined: usize,
    /// The number of splits, of merged regions and of others.
    pub splits: usize,
}

impl Repaired {
    /// Adds the completed steps to the error of the step after them.
    fn before(self, error: Error) -> Error {
        if self == Self::default() {
            return error;
        }
        let what = format!(
            "{} partitions were rejoined and {} regions split before it failed",
            self.rejoined, self.splits
        );
        let hint = error.hint().map(str::to_owned);
        let outer = Error::new(error.kind(), what)
            .with_effect(error.effect())
            .with_retryable(error.is_retryable())
            .with_hint(hint.unwrap_or_else(|| "run the repair again for the remaining steps".to_owned()));
        outer.with_source(error)
    }
}

impl Repair {
    /// Creates a repair of this table.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a table's name.
    pub fn new(connection: &Connection, table: impl IntoTableName) -> Result<Self> {
        Ok(Self {
            connection: connection.clone(),
            table: table.into_table_name()?,
            rule: None,
            patience: PATIENCE,
            most_regions: MOST_REGIONS,
            most_mib: MOST_MIB,
            most_steps: usize::MAX,
            pause: Duration::ZERO,
            partition: None,
        })
    }

    /// Uses this rule instead of the table's own, for a table that can't get the rule as long as
    /// boundaries contradict it.
    #[must_use]
    pub fn by_rule(mut self, rule: PartitionRule) -> Self {
        self.rule = Some(rule);
        self
    }

    /// Sets the limit of each step: default 10 minutes. After a merge or a split HBase refuses
    /// another one of the same region until its files are rewritten and the old ones are released,
    /// two minutes later by default (`hbase.hfile.compaction.discharger.interval`).
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = bounded(patience);
        self
    }

    /// Sets how many regions may become one: default 8. All regions with rows of a partition become
    /// one, so that a rule with a prefix that is too short would make one region of a whole table.
    #[must_use]
    pub fn most_regions(mut self, regions: usize) -> Self {
        self.most_regions = regions;
        self
    }

    /// Sets how large the store files of regions that become one may be together, in MiB as the
    /// servers last reported it: default 64 GiB. HBase rewrites them.
    #[must_use]
    pub fn most_mib(mut self, mib: u64) -> Self {
        self.most_mib = mib;
        self
    }

    /// Ends after this many steps: by default when no boundary needs a repair.
    #[must_use]
    pub fn most_steps(mut self, steps: usize) -> Self {
        self.most_steps = steps;
        self
    }

    /// Repairs only the partition with this prefix.
    #[must_use]
    pub fn partition(mut self, prefix: impl IntoBytes) -> Self {
        self.partition = Some(prefix.into_bytes());
        self
    }

    /// Sets a pause between two steps, in which servers finish compactions: default none.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = bounded(pause);
        self
    }

    /// Plans the steps for the current boundaries. Returns an empty list if no boundary needs a
    /// repair. [`check`](Self::check) tells whether they are within the limits.
    ///
    /// # Errors
    ///
    /// Returns an error if the table has no partition rule
    /// ([`NoPartitionRule`](ErrorKind::NoPartitionRule)), does not exist
    /// ([`TableNotFound`](ClientErrorKind::TableNotFound)), or is disabled
    /// ([`TableDisabled`](ClientErrorKind::TableDisabled)).
    pub async fn plan(&self) -> Result<Vec<RepairStep>> {
        let deadline = Instant::now() + self.connection.config().operation_timeout();
        let descriptor = usable_descriptor(&self.admin(deadline), &self.table, deadline).await?;
        let rule = self.rule_of(&descriptor)?;
        let loads = self.loads(deadline).await?;
        let mut steps = self.cuts(&rule, &loads).await?;
        steps.extend(self.giants(&descriptor, &rule, &loads, deadline).await?);
        steps.truncate(self.most_steps);
        Ok(steps)
    }

    /// Checks that no step merges more than the limits allow.
    ///
    /// # Errors
    ///
    /// Returns [`LimitExceeded`](ClientErrorKind::LimitExceeded) for the first step that does.
    pub fn check(&self, steps: &[RepairStep]) -> Result<()> {
        for step in steps {
            if let RepairStep::Rejoin {
                partition,
                regions,
                size_mib,
                ..
            } = step
                && (regions.len() > self.most_regions || *size_mib > self.most_mib)
            {
                let what = format!(
                    "partition {partition} is in {} regions of {size_mib} MiB, and a merge makes one region of at most {}, \
                     of {} MiB",
                    regions.len(),
                    self.most_regions,
                    self.most_mib
                );
                let error = Error::new(ClientErrorKind::LimitExceeded, what);
                return Err(error.with_hint("check the partition rule; if it is right, raise the limits"));
            }
        }
        Ok(())
    }

    /// Repairs the table, and calls `begin` before each step. Waits within the operation timeout until no
    /// other process of this toolkit changes or repairs the table. After an interruption, run it again
    /// for the remaining steps. A region that was merged, but not yet split again, stays merged,
    /// which is harmless.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`plan`](Self::plan) and [`check`](Self::check), before the first step;
    /// [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) before the first step if regions of the table stay in
    /// transition within the operation timeout; [`SwitchedOff`](ClientErrorKind::SwitchedOff) if splits or merges are switched off, [`Conflict`](ErrorKind::Conflict) if a partition is split
    /// again and again meanwhile, or the last refusal of the master if a step exceeds its limit. Completed
    /// steps stay in effect.
    pub async fn run(&self, begin: impl FnMut(&RepairStep)) -> Result<Repaired> {
        let in_context = |error: Error| error.at_operation("repairing the table").at_table(&self.table);
        let mut repaired = Repaired::default();
        let lock = TableLock::acquire(&self.connection, &self.table)
            .await
            .map_err(in_context)?;
        let ended = lock.keep(self.run_steps(&lock, begin, &mut repaired)).await;
        lock.release().await;
        match ended {
            Ok(()) => Ok(repaired),
            Err(error) => Err(in_context(repaired.before(error))),
        }
    }

    async fn run_steps(
        &self,
        lock: &TableLock,
        mut begin: impl FnMut(&RepairStep),
        repaired: &mut Repaired,
    ) -> Result<()> {
        let deadline = Instant::now() + self.connection.config().operation_timeout();
        let descriptor = usable_descriptor(&self.admin(deadline), &self.table, deadline).await?;
        let rule = self.rule_of(&descriptor)?;
        let mut rejoined = BTreeMap::new();
        let mut begun = 0;
        let loads = loop {
            let deadline = Instant::now() + self.connection.config().operation_timeout();
            let loads = self.loads(deadline).await?;
            let cuts = self.cuts(&rule, &loads).await?;
            self.check(&cuts)?;
            let Some(step) = cuts.into_iter().next() else {
                break loads;
            };
            if !self.is_next(&descriptor, lock, &mut begun).await? {
                return Ok(());
            }
            if let RepairStep::Rejoin { partition, .. } = &step {
                let times = rejoined.entry(partition.clone()).or_insert(0_u32);
                if *times == TIMES {
                    return Err(split_again(partition));
                }
                *times += 1;
            }
            begin(&step);
            self.rejoin(&rule, &step, &loads, repaired).await?;
        };
        let deadline = Instant::now() + self.connection.config().operation_timeout();
        for step in self.giants(&descriptor, &rule, &loads, deadline).await? {
            if !self.is_next(&descriptor, lock, &mut begun).await? {
                return Ok(());
            }
            begin(&step);
            if let RepairStep::SplitOff { at, .. } = &step {
                repaired.splits += usize::from(self.split(at).await?);
            }
        }
        Ok(())
    }

    /// Waits for the pause before a step, and checks that nothing is in its way. Returns `false` if there
    /// were enough steps.
    async fn is_next(
        &self,
        descriptor: &TableDescriptor,
        lock: &TableLock,
        begun: &mut usize,
    ) -> Result<bool> {
        if *begun >= self.most_steps {
            return Ok(false);
        }
        let deadline = Instant::now() + self.connection.config().operation_timeout();
        match *begun {
            0 => preflight::await_transitions(&self.admin(deadline), &self.table, deadline).await?,
            _ => sleep(self.pause).await,
        }
        let deadline = Instant::now() + self.connection.config().operation_timeout();
        preflight::refuse_if_switched_off(&self.admin(deadline), descriptor).await?;
        lock.check().await?;
        *begun += 1;
        Ok(true)
    }

    async fn cuts(&self, rule: &PartitionRule, loads: &RegionLoads) -> Result<Vec<RepairStep>> {
        let deadline = Instant::now() + self.connection.config().operation_timeout();
        let mut cuts = plan::cuts(rule, &self.regions(deadline).await?, loads);
        cuts.retain(|cut| self.concerns(cut.partition()));
        Ok(cuts)
    }

    fn concerns(&self, partition: &Partition) -> bool {
        let only = self.partition.as_ref();
        only.is_none_or(|only| partition.prefix() == only)
    }

    async fn loads(&self, deadline: Instant) -> Result<RegionLoads> {
        let servers = self.admin(deadline).server_loads().await?;
        Ok(by_region(servers.into_iter().flat_map(|server| server.regions)))
    }

    /// Merges the regions of the partition as long as it is cut, then splits the merged region.
    async fn rejoin(
        &self,
        rule: &PartitionRule,
        step: &RepairStep,
        loads: &RegionLoads,
        repaired: &mut Repaired,
    ) -> Result<()> {
        let RepairStep::Rejoin { partition, .. } = step else {
            return Ok(());
        };
        let mut attempts = Attempts::new(self.patience);
        // The split key of the merged region, once a merge was requested.
        let mut asked: Option<Option<Bytes>> = None;
        let mut refusal = None;
        let split_at = loop {
            let mut cuts = self.cuts(rule, loads).await?;
            cuts.retain(|cut| cut.partition() == partition);
            // Others may have split it since.
            self.check(&cuts)?;
            let Some(RepairStep::Rejoin {
                regions, split_at, ..
            }) = cuts.pop()
            else {
                // The partition is whole: by a merge of this repair whose answer was lost, or by
                // another client.
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
                Err(error) => refusal = Some(error.into()),
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

    /// Splits at a row, unless a region begins there already. Returns whether this repair split it.
    async fn split(&self, at: &Bytes) -> Result<bool> {
        let mut attempts = Attempts::new(self.patience);
        let mut asked = false;
        let mut refusal = None;
        loop {
            let regions = self.regions(attempts.deadline).await?;
            let Some(region) = regions.into_iter().find(|region| region.contains(at)) else {
                return Err(Error::new(
                    ClientErrorKind::Server,
                    "no region contains the row where a region should begin",
                ));
            };
            if region.start_key == *at {
                // By a split of this repair whose answer was lost, or by another client.
                return Ok(asked);
            }
            let region = [region];
            if let Some(refusal) = refusal.take() {
                attempts.again(self, &region, refusal).await?;
            }
            let admin = self.admin(attempts.deadline);
            match admin.split_region(&region[0], Some(at.clone())).await {
                Ok(()) => return Ok(true),
                // The table's split restriction moves the row to the beginning of the region.
                Err(error) if is_at_the_start(&error) => return Ok(asked),
                Err(error) => refusal = Some(error.into()),
            }
            asked = true;
        }
    }

    async fn giants(
        &self,
        descriptor: &TableDescriptor,
        rule: &PartitionRule,
        loads: &RegionLoads,
        deadline: Instant,
    ) -> Result<Vec<RepairStep>> {
        let admin = self.admin(deadline);
        let regions = self.regions(deadline).await?;
        let table = self.connection.table(&self.table)?;
        let giants = giants(loads, &admin, &table, descriptor, rule, regions.iter(), deadline).await?;
        let steps = giants.into_iter().filter_map(|giant| {
            let GiantRegion {
                partition,
                region,
                others,
                ..
            } = giant;
            (others && self.concerns(&partition)).then(|| RepairStep::SplitOff {
                at: partition.key_behind(),
                partition,
                region,
            })
        });
        Ok(steps.collect())
    }

    /// Returns the rule that boundaries must follow.
    fn rule_of(&self, descriptor: &TableDescriptor) -> Result<PartitionRule> {
        match &self.rule {
            Some(rule) => Ok(rule.clone()),
            None => PartitionRule::from_descriptor(descriptor),
        }
    }

    async fn regions(&self, deadline: Instant) -> Result<Vec<RegionInfo>> {
        let regions = self.admin(deadline).regions(&self.table).await?;
        Ok(regions.into_iter().map(|found| found.region).collect())
    }

    fn admin(&self, deadline: Instant) -> Admin {
        Admin::new(&self.connection).until(deadline)
    }
}

fn split_again(partition: &Partition) -> Error {
    let what = format!("partition {partition} was rejoined {TIMES} times, and was split again each time");
    let error = Error::new(ErrorKind::Conflict, what);
    error.with_hint("set the table's partition rule first, so that HBase splits no partition")
}

/// Attempts at a step that the master refuses for a while: regions that were just split or merged
/// refer to files of their parents, and can't be changed until a compaction has rewritten those
/// files.
struct Attempts {
    deadline: Instant,
    pauses: Pauses,
    /// The regions that were compacted for this step. One compaction of each is enough.
    compacted: HashSet<Bytes>,
}

impl Attempts {
    fn new(patience: Duration) -> Self {
        Self {
            deadline: Instant::now() + patience,
            pauses: Pauses::growing(FIRST_PAUSE, MAX_PAUSE),
            compacted: HashSet::new(),
        }
    }

    /// Prepares the next attempt, or fails with the last refusal.
    async fn again(&mut self, repair: &Repair, regions: &[RegionInfo], refusal: Error) -> Result<()> {
        let final_word = matches!(
            refusal.kind(),
            ErrorKind::Client(ClientErrorKind::AccessDenied)
                | ErrorKind::Client(ClientErrorKind::TableNotFound)
                | ErrorKind::Client(ClientErrorKind::TableDisabled)
                | ErrorKind::Client(ClientErrorKind::InvalidInput)
                | ErrorKind::Client(ClientErrorKind::Closed)
        );
        if final_word {
            return Err(refusal);
        }
        let by_files = is_about_files(&refusal);
        tracing::debug!(table = %repair.table, error = %refusal, by_files, "the master refuses; trying again");
        for region in regions.iter().filter(|_| by_files) {
            if !self.compacted.insert(region.name.clone()) {
                continue;
            }
            match repair.admin(self.deadline).major_compact_region(region).await {
                Ok(()) => {}
                // The refusal is more useful than a timeout.
                Err(error) if error.kind() == ClientErrorKind::DeadlineExceeded => return Err(refusal),
                Err(error) => return Err(error.into()),
            }
        }
        if self.pauses.wait_before(self.deadline).await {
            Ok(())
        } else {
            Err(refusal)
        }
    }
}

/// Whether the master refused because regions still refer to files of their parents, which a compaction
/// rewrites (`MergeTableRegionsProcedure`, `SplitTableRegionProcedure`). Other refusals pass by themselves.
fn is_about_files(refusal: &Error) -> bool {
    let about = ["mergeable", "splittable", "merge qualifier"];
    let remote = refusal.remote();
    remote.is_some_and(|remote| about.iter().any(|words| remote.message.contains(words)))
}

/// Whether the master refused because the region begins with the row already.
fn is_at_the_start(error: &hbase_client::Error) -> bool {
    let remote = error.remote();
    remote.is_some_and(|remote| remote.message.contains("Split row is equal to startkey"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hbase_client::FamilyDescriptor;
    use hbase_fake::FakeHBase;

    use super::*;

    #[test]
    fn repair_ends_after_its_steps_pauses_and_leaves_other_partitions() {
        FakeHBase::run(async |hbase| {
            hbase.create_partitioned_table("orders", &["f"], 3);
            for row in ["aaab", "cccd", "eeef"] {
                hbase.split("orders", row);
                hbase.settled().await;
            }
            let connection = hbase.connect().await?;
            let repair = Repair::new(&connection, "orders").unwrap();
            let left = async || {
                let steps = repair.plan().await.unwrap().into_iter();
                steps
                    .map(|step| step.partition().prefix().clone())
                    .collect::<Vec<_>>()
            };
            assert_eq!(left().await, ["aaa", "ccc", "eee"]);
            let one = repair.clone().most_steps(1);
            assert_eq!(one.plan().await.unwrap().len(), 1);
            assert_eq!(one.run(|_| ()).await.unwrap().rejoined, 1);
            assert_eq!(left().await, ["ccc", "eee"]);
            let only = repair.clone().partition("eee");
            assert_eq!(only.run(|_| ()).await.unwrap().rejoined, 1);
            assert_eq!(left().await, ["ccc"]);
            hbase.split("orders", "aaab");
            hbase.settled().await;
            let pause = Duration::from_secs(90);
            let began = Instant::now();
            repair.clone().pause(pause).run(|_| ()).await.unwrap();
            assert!(began.elapsed() >= pause && began.elapsed() < pause * 2);
            assert_eq!(left().await, [""; 0]);
            Ok(())
        });
    }

    /// As HBase does by its own rule, if the table has none and the region is large.
    #[test]
    fn partition_that_is_split_again_and_again_ends_the_repair() {
        FakeHBase::run(async |hbase| {
            hbase.create_partitioned_table("orders", &["f"], 3);
            hbase.split("orders", "abcd");
            let connection = hbase.connect().await?;
            let admin = Admin::new(&connection);
            let repair = Repair::new(&connection, "orders").unwrap();
            let mut begun = 0;
            let split_again = async {
                loop {
                    let regions = admin.regions("orders").await.unwrap_or_default();
                    let are_served = regions.iter().all(|region| region.server.is_some());
                    let is_cut = regions.iter().any(|found| found.region.start_key == "abcd");
                    if are_served && !is_cut && !regions.is_empty() {
                        hbase.split("orders", "abcd");
                    }
                    sleep(Duration::from_millis(20)).await;
                }
            };
            let error = tokio::select! {
                repaired = repair.run(|_| begun += 1) => repaired.unwrap_err(),
                () = split_again => unreachable!(),
            };
            assert_eq!((error.kind(), begun), (ErrorKind::Conflict, TIMES), "{error}");
            Ok(())
        });
    }

    /// A wrong rule, for example, with a prefix that is too short.
    #[test]
    fn no_merge_is_larger_than_its_limit_whatever_the_rule() {
        let mut refused = 0;
        for seed in 0..60 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut boundaries = BTreeSet::new();
            for _ in 0..random.usize(1..20) {
                let length = random.usize(2..5);
                boundaries.insert((0..length).map(|_| random.u8(b'a'..b'd')).collect::<Bytes>());
            }
            let boundaries: Vec<_> = boundaries.into_iter().collect();
            let (length, most) = (random.usize(1..4), random.usize(2..5));
            let mut was_refused = false;
            FakeHBase::run(async |hbase| {
                let connection = hbase.connect().await?;
                let admin = Admin::new(&connection);
                let table = TableDescriptor::new("orders")?.with_family(FamilyDescriptor::new("f"));
                admin.create_table(&table, &boundaries).await?;
                let repair = Repair::new(&connection, "orders").unwrap();
                let rule = PartitionRule::prefix_length(length)?;
                let repair = repair.by_rule(rule).most_regions(most);
                let steps = repair.plan().await.unwrap();
                let is_too_large = |step: &RepairStep| matches!(step, RepairStep::Rejoin { regions, .. } if regions.len() > most);
                let repaired = repair.run(|step| assert!(!is_too_large(step), "{step}")).await;
                was_refused = steps.iter().any(is_too_large);
                if was_refused {
                    let error = repaired.unwrap_err();
                    assert_eq!(error.kind(), ClientErrorKind::LimitExceeded, "{error}");
                    assert_eq!(repair.plan().await.unwrap(), steps, "something was done");
                } else {
                    repaired.unwrap();
                    assert_eq!(repair.plan().await.unwrap(), []);
                }
                Ok(())
            });
            refused += u32::from(was_refused);
        }
        assert!((10..50).contains(&refused), "{refused} of 60 are refused");
    }
}
