//! Applies a plan step by step. The cluster applies each step completely or not at all, so applying
//! again completes an interrupted application.
//!
//! | file | contents |
//! |---|---|
//! | `step` | the steps, and their observer |

mod step;

use hbase_admin::Admin;
use hbase_client::{Connection, TableDescriptor, TableRegion, TableState};
use hbase_txn::{ClientErrorKind, Error, ErrorKind, Result, TableDescriptorExt};
pub use step::{ApplyStep, ApplyWatcher};
use tokio::time::Instant;

use super::{
    audit::{Finding, Name, Severity, of_descriptor},
    plan::{Goal, Plan, refusal},
    probe,
    table_lock::TableLock,
};

/// The number of attempts to create the table if another client creates it first.
const ATTEMPTS: usize = 3;
/// The maximum number of regions named in a message.
const NAMED: usize = 5;

/// The result of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// Whether the cluster was changed.
    pub changed: bool,
    /// The number of regions that were queried and answered; 0 if the table is disabled.
    pub regions: usize,
    /// Whether the table is disabled, in which case its regions could not be queried.
    pub disabled: bool,
    /// Whether other processes of this toolkit were kept from changing the table meanwhile. `false` if
    /// the user has neither `ADMIN` nor `CREATE` on the table's namespace: one of two changes at the
    /// same time may then be lost.
    pub exclusive: bool,
}

impl Plan {
    /// Applies the changes: creates the namespace and the table, or changes the table and waits
    /// until its regions are reopened. Then reads the table back and queries each region: for the
    /// endpoint, or, in tables for locks and latches, whether it answers.
    ///
    /// HBase replaces the whole descriptor of a table, so that one of two changes at the same time is
    /// lost. This waits until no other process of this toolkit changes or repairs the table, by a lock in
    /// the master, and until the master has finished the changes of all clients. Then it plans again, on
    /// the table as it is, and applies only changes that were planned before. A client without that lock,
    /// such as HBase's shell, is not excluded from there until the table is read back.
    ///
    /// Each step may take the connection's operation timeout, and 100 ms for each region that it opens or
    /// reopens.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped or the process is killed, each step is applied completely or not at
    /// all; the master completes a step that it has begun. Plan and apply again for the rest.
    ///
    /// # Errors
    ///
    /// Before any change:
    ///
    /// - [`PartitionCut`](ErrorKind::PartitionCut),
    ///   [`NamespaceNotFound`](ClientErrorKind::NamespaceNotFound) and, for data loss,
    ///   [`InvalidInput`](ClientErrorKind::InvalidInput), if there are
    ///   [`refusals`](Self::refusals);
    /// - [`Conflict`](ErrorKind::Conflict) if the table was changed after it was planned, such that
    ///   another change would be needed now;
    /// - [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) if another process changes the table for
    ///   longer than the operation timeout.
    ///
    /// After the changes:
    ///
    /// - [`Conflict`](ErrorKind::Conflict) if the table does not have the planned form;
    /// - [`EndpointMissing`](ClientErrorKind::EndpointMissing) if a region does not load the
    ///   endpoint;
    /// - [`ConditionsUnsupported`](ClientErrorKind::ConditionsUnsupported) if a region ignores
    ///   conditions;
    /// - [`PartitionCut`](ErrorKind::PartitionCut) if a region boundary that was added
    ///   meanwhile splits a partition;
    /// - for a table file, the error of any other problem that prevents the table's use, such as
    ///   [`WeakDurability`](ErrorKind::WeakDurability),
    ///   [`RecordFamilyMissing`](ErrorKind::RecordFamilyMissing) for a setting that would lose
    ///   records, or [`InvalidInput`](ClientErrorKind::InvalidInput) if it has no kind of its own.
    ///
    /// Also returns the errors of the calls. An error after the first step names the completed
    /// steps.
    pub async fn apply(self, connection: &Connection, watcher: &dyn ApplyWatcher) -> Result<Applied> {
        if let Some(error) = refusal::error(self.table(), &self.refusals()) {
            return Err(error);
        }
        let has_changes = !self.changes().is_empty();
        let mut application = Application {
            connection,
            watcher,
            plan: self,
            exclusive: true,
            done: Vec::new(),
        };
        let applied = if has_changes {
            application.run().await
        } else {
            application.prove().await
        };
        applied.map_err(|error| application.in_context(error))
    }
}

/// A plan that is being applied.
struct Application<'a> {
    connection: &'a Connection,
    watcher: &'a dyn ApplyWatcher,
    plan: Plan,
    exclusive: bool,
    done: Vec<ApplyStep>,
}

impl Application<'_> {
    async fn run(&mut self) -> Result<Applied> {
        // Before the lock, which is in the namespace and would keep the master from creating it.
        self.create_namespace().await?;
        let lock = TableLock::acquire(self.connection, self.plan.table()).await?;
        let applied = lock.keep(self.run_under(&lock)).await;
        lock.release().await;
        applied
    }

    async fn run_under(&mut self, lock: &TableLock) -> Result<Applied> {
        self.exclusive = lock.is_exclusive();
        for _ in 0..ATTEMPTS {
            self.plan.renew(self.connection).await?;
            if self.plan.found.is_none() {
                if self.create().await? {
                    return self.prove().await;
                }
                // Another process created the table meanwhile, perhaps an earlier, interrupted run.
                continue;
            }
            if !self.plan.changes().is_empty() {
                self.modify(lock).await?;
            }
            return self.prove().await;
        }
        Err(Error::new(
            ErrorKind::Conflict,
            "another client creates and deletes the table at the same time",
        ))
    }

    async fn create_namespace(&mut self) -> Result<()> {
        let Goal::File(file) = &self.plan.goal else {
            return Ok(());
        };
        let admin = Admin::new(self.connection);
        let namespace = file.name().namespace().to_owned();
        if self.plan.found.is_some() || !file.create_namespace || admin.namespace_exists(&namespace).await? {
            return Ok(());
        }
        self.begins(ApplyStep::CreateNamespace);
        admin.create_namespace(namespace.as_str()).await?;
        self.is_done(ApplyStep::CreateNamespace);
        Ok(())
    }

    /// Returns `false` if the table already exists.
    async fn create(&mut self) -> Result<bool> {
        let admin = Admin::new(self.connection);
        let Goal::File(file) = &self.plan.goal else {
            return Err(Error::new(ClientErrorKind::TableNotFound, "no such table"));
        };
        let file = file.clone();
        let regions = file.split_keys().len() + 1;
        let step = ApplyStep::CreateTable { regions };
        self.begins(step);
        let admin = admin.with_time_for_regions(regions);
        match admin.create_table(&self.plan.signed(), file.split_keys()).await {
            Ok(()) => {
                self.is_done(step);
                Ok(true)
            }
            Err(error) if error.kind() == ClientErrorKind::TableExists => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn modify(&mut self, lock: &TableLock) -> Result<()> {
        let step = ApplyStep::ModifyTable {
            regions: self.plan.reopens(),
        };
        self.begins(step);
        lock.check().await?;
        let admin = Admin::new(self.connection).with_time_for_regions(self.plan.reopens());
        admin.modify_table(&self.plan.signed()).await?;
        self.is_done(step);
        Ok(())
    }

    /// Reads the table back and queries its regions.
    async fn prove(&mut self) -> Result<Applied> {
        let admin = Admin::new(self.connection);
        let table = self.plan.table().clone();
        self.begins(ApplyStep::ReadBack);
        let unmet = self.plan.unmet(&admin.descriptor(&table).await?);
        if let Some(first) = unmet.first() {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "the table is not as planned: {} changes are missing, the first is {} {first}",
                    unmet.len(),
                    first.sign()
                ),
            )
            .with_hint(
                "another client has changed the table, or the server ignores the change; plan again",
            ));
        }
        let disabled = matches!(
            admin.state(&table).await?,
            TableState::Disabled | TableState::Disabling
        );
        let regions = admin.regions(&table).await?;
        self.is_done(ApplyStep::ReadBack);
        let changed = self.done.iter().any(|step| *step != ApplyStep::ReadBack);
        if !disabled {
            let step = ApplyStep::Probe {
                regions: regions.len(),
            };
            self.begins(step);
            self.probe(&regions).await?;
            self.is_done(step);
        }
        self.judge().await?;
        Ok(Applied {
            changed,
            regions: if disabled { 0 } else { regions.len() },
            disabled,
            exclusive: self.exclusive,
        })
    }

    async fn probe(&self, regions: &[TableRegion]) -> Result<()> {
        let deadline = Instant::now() + self.connection.config().operation_timeout();
        let table = self.connection.table(self.plan.table())?;
        let (mut missing, mut deaf) = (Vec::new(), Vec::new());
        for (region, answer) in probe::ask(&table, &self.plan.wanted, regions, deadline).await {
            match answer {
                Ok(true) => {}
                Ok(false) => deaf.push(region),
                Err(error) if error.kind() == ClientErrorKind::EndpointMissing => {
                    missing.push((region, error));
                }
                Err(error) => {
                    let name = region.region.encoded_text();
                    return Err(error.at_operation(format!("querying region {name}")));
                }
            }
        }
        match self.plan.needs_endpoint() {
            true if !missing.is_empty() => Err(endpoint_missing(missing, regions.len())),
            true if !deaf.is_empty() => Err(conditions_ignored(&deaf, regions.len())),
            _ => Ok(()),
        }
    }

    /// Audits the table with the rule in effect, because other problems may still prevent its use.
    async fn judge(&self) -> Result<()> {
        let admin = Admin::new(self.connection);
        let table = self.plan.table();
        let now = admin.descriptor(table).await?;
        let broken = of_descriptor(&now, &admin.regions(table).await?).into_iter();
        let broken: Vec<_> = broken
            .filter(|finding| finding.severity == Severity::Broken && self.answers_for(finding))
            .collect();
        let Some(first) = broken.first() else {
            return Ok(());
        };
        let kind = kind_of(first);
        let whats: Vec<_> = broken.iter().map(|finding| finding.what.as_str()).collect();
        let error = Error::new(kind, whats.join("; "));
        let error = if first.finding == Name::VersionFamilyMissing.text() {
            error.with_missing_family(TableDescriptor::VERSION_FAMILY)
        } else {
            error
        };
        Err(error.with_hint("audit the table: each finding names its fix"))
    }

    /// Whether a finding fails the application. A file specifies the purpose of a table, so all
    /// problems count except disabled splits and merges, and a table that is to be read only; for a descriptor,
    /// only new cuts of partitions count.
    fn answers_for(&self, finding: &Finding) -> bool {
        match &self.plan.goal {
            Goal::File(file) => {
                let read_only = file.stated.attribute("READONLY").map(|_| Name::ReadOnly);
                let switches = [Name::SplitsDisabled, Name::MergesDisabled].into_iter();
                !switches
                    .chain(read_only)
                    .any(|name| name.text() == finding.finding)
            }
            Goal::Descriptor | Goal::Alteration(_) => {
                let before = self.plan.found.iter();
                let mut before = before.flat_map(|found| of_descriptor(&found.descriptor, &found.regions));
                kind_of(finding) == ErrorKind::PartitionCut
                    && !before.any(|before| before.what == finding.what)
            }
        }
    }

    fn begins(&self, step: ApplyStep) {
        self.watcher.begins(self.plan.table(), step);
    }

    fn is_done(&mut self, step: ApplyStep) {
        self.watcher.done(self.plan.table(), step);
        self.done.push(step);
    }

    /// Adds the file and the completed steps to an error.
    fn in_context(&self, error: Error) -> Error {
        let error = self.in_context_of_step(error);
        match self.plan.place() {
            Some(place) => error.within(place),
            None => error,
        }
    }

    fn in_context_of_step(&self, error: Error) -> Error {
        let table = self.plan.table();
        if self.done.is_empty() {
            return error.at_operation("applying a plan").at_table(table);
        }
        let done: Vec<String> = self.done.iter().map(ToString::to_string).collect();
        let outer = Error::new(error.kind(), format!("{}; the next step failed", done.join(", ")))
            .with_effect(error.effect())
            .with_retryable(error.is_retryable())
            .at_operation("applying a plan")
            .at_table(table)
            .with_hint("apply it again to run the remaining steps");
        outer.with_source(error)
    }
}

/// The kind of the error that opening a table with this finding returns.
fn kind_of(finding: &Finding) -> ErrorKind {
    let kinds = [
        (Name::BoundaryInsidePartition, ErrorKind::PartitionCut),
        (Name::BoundaryInsideLock, ErrorKind::PartitionCut),
        (Name::FeatureUnknown, ErrorKind::FeatureUnknown),
        (Name::RecordsUnusable, ErrorKind::RecordFamilyMissing),
        (Name::RuleInvalid, ErrorKind::NoPartitionRule),
        (Name::RuleMissing, ErrorKind::NoPartitionRule),
        (Name::VersionFamilyMissing, ClientErrorKind::FamilyNotFound.into()),
        (Name::WeakDurability, ErrorKind::WeakDurability),
    ];
    let found = kinds.iter().find(|(name, _)| name.text() == finding.finding);
    found.map_or(ErrorKind::Client(ClientErrorKind::InvalidInput), |(_, kind)| {
        *kind
    })
}

fn conditions_ignored(deaf: &[&TableRegion], of: usize) -> Error {
    Error::new(
        ClientErrorKind::ConditionsUnsupported,
        format!(
            "conditions are ignored on {} of {of} regions: {}",
            deaf.len(),
            named(deaf)
        ),
    )
    .with_hint("upgrade the servers of these regions to HBase 2.4.5 or later")
}

/// The names of the first regions.
fn named(regions: &[&TableRegion]) -> String {
    let names: Vec<String> = regions
        .iter()
        .take(NAMED)
        .map(|region| region.region.encoded_text())
        .collect();
    let more = if regions.len() > NAMED { ", …" } else { "" };
    format!("{}{more}", names.join(", "))
}

fn endpoint_missing(missing: Vec<(&TableRegion, Error)>, of: usize) -> Error {
    let regions: Vec<_> = missing.iter().map(|(region, _)| *region).collect();
    let error = Error::new(
        ClientErrorKind::EndpointMissing,
        format!(
            "MultiRowMutationEndpoint does not answer on {} of {of} regions: {}",
            missing.len(),
            named(&regions)
        ),
    )
    .with_hint(
        "servers load it only where hbase.coprocessor.enabled and hbase.coprocessor.user.enabled are true, which needs \
         CoprocessorWhitelistMasterObserver on the masters to keep out code of users (coprocessor/security.md); a table whose \
         endpoint = false relies on hbase-site.xml",
    );
    match missing.into_iter().next() {
        Some((_, source)) => error.with_source(source),
        None => error,
    }
}
