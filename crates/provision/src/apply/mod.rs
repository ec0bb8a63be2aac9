//! Application of a plan, step by step. Each step is applied on the cluster as a whole or not at
//! all, so the next application completes one that was stopped anywhere.
//!
//! | file | contents |
//! |---|---|
//! | `step` | the steps, and their watcher |

mod step;

use hbase_client::{Connection, TableDescriptor, TableRegion, TableState};
use hbase_txn::{ClientErrorKind, Error, ErrorKind, Result, TableDescriptorExt};
pub use step::{ApplyStep, ApplyWatcher};
use tokio::time::Instant;

use super::{
    audit::{Finding, Name, Severity, of_descriptor},
    plan::{Found, Goal, Plan, refusal},
    probe,
};

/// How often another client may create the table first before that is an error.
const ATTEMPTS: usize = 3;
/// The maximum number of regions in a sentence.
const NAMED: usize = 5;

/// The result of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// Whether the cluster was changed.
    pub changed: bool,
    /// The number of regions that were queried and answered; 0 if the table is disabled.
    pub regions: usize,
    /// Whether the table is disabled, so that the result could not be verified.
    pub disabled: bool,
}

/// Gives an existing table another descriptor, reads it back, and queries each region: for the
/// endpoint, if the descriptor names it. If the table already has this descriptor, only queries the
/// regions.
///
/// The descriptor is complete: attributes and families that it does not name are removed. Take that
/// of [`Admin::descriptor`](hbase_client::Admin::descriptor) and change it.
///
/// # Errors
///
/// As [`Plan::read_for`] and [`Plan::apply`].
pub async fn alter_table(
    connection: &Connection,
    wanted: &TableDescriptor,
    watcher: &dyn ApplyWatcher,
) -> Result<Applied> {
    let plan = Plan::read_for(connection, wanted).await?;
    plan.apply(connection, watcher).await
}

impl Plan {
    /// Makes the changes: creates the namespace and the table, or changes the table and waits until
    /// its regions are reopened; reads it back; queries each region for the endpoint, or, in tables
    /// for locks and latches, whether it answers.
    ///
    /// Each step has the connection's operation timeout: allow for the time that reopening all
    /// regions takes.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped, or a process that is killed, leaves whole steps; the master
    /// completes the step that it has begun. Plan and apply again for the rest.
    ///
    /// # Errors
    ///
    /// Before any change: [`PartitionCut`](ClientErrorKind::PartitionCut.into()),
    /// [`NamespaceNotFound`](ClientErrorKind::NamespaceNotFound) and
    /// [`DataLoss`](ClientErrorKind::InvalidInput) for the [`refusals`](Self::refusals);
    /// [`Conflict`](ErrorKind::Conflict) if the table was changed since it was planned.
    /// [`EndpointMissing`](ClientErrorKind::EndpointMissing) if a region does not load the
    /// endpoint, [`ConditionsUnsupported`](ClientErrorKind::ConditionsUnsupported) if one ignores
    /// conditions. After all changes, if the table still does not fit its purpose:
    /// [`PartitionCut`](ClientErrorKind::PartitionCut) by a boundary that was added meanwhile,
    /// [`WeakDurability`](ErrorKind::WeakDurability),
    /// [`RecordFamilyMissing`](ErrorKind::RecordFamilyMissing) for a setting by which records would
    /// be lost; [`InvalidInput`](ClientErrorKind::InvalidInput) for any other problem. Errors
    /// of the calls, which name the completed steps.
    pub async fn apply(self, connection: &Connection, watcher: &dyn ApplyWatcher) -> Result<Applied> {
        if let Some(error) = refusal::error(self.table(), &self.refusals()) {
            return Err(error);
        }
        let mut application = Application {
            connection,
            watcher,
            plan: self,
            done: Vec::new(),
        };
        let applied = application.run().await;
        applied.map_err(|error| application.in_context(error))
    }
}

/// A plan that is being applied.
struct Application<'a> {
    connection: &'a Connection,
    watcher: &'a dyn ApplyWatcher,
    plan: Plan,
    done: Vec<ApplyStep>,
}

impl Application<'_> {
    async fn run(&mut self) -> Result<Applied> {
        for _ in 0..ATTEMPTS {
            let Some(found) = self.plan.found.clone() else {
                if self.create().await? {
                    return self.prove().await;
                }
                // Another process created it meanwhile, perhaps an earlier run that was stopped.
                self.plan_again().await?;
                continue;
            };
            if !self.plan.changes().is_empty() {
                self.modify(&found).await?;
            }
            return self.prove().await;
        }
        Err(Error::new(
            ErrorKind::Conflict,
            "another client creates and deletes the table at the same time",
        ))
    }

    /// Returns `false` if the table exists.
    async fn create(&mut self) -> Result<bool> {
        let admin = self.connection.admin();
        let Goal::File(file) = &self.plan.goal else {
            return Err(Error::new(ClientErrorKind::TableNotFound, "no such table"));
        };
        let file = file.clone();
        if file.create_namespace && !admin.namespace_exists(file.name().namespace()).await? {
            self.begins(ApplyStep::CreateNamespace);
            admin.create_namespace(file.name().namespace()).await?;
            self.is_done(ApplyStep::CreateNamespace);
        }
        let step = ApplyStep::CreateTable {
            regions: file.split_keys().len() + 1,
        };
        self.begins(step);
        match admin.create_table(&self.plan.wanted, file.split_keys()).await {
            Ok(()) => {
                self.is_done(step);
                Ok(true)
            }
            Err(error) if error.kind() == ClientErrorKind::TableExists => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn plan_again(&mut self) -> Result<()> {
        let Goal::File(file) = &self.plan.goal else {
            return Ok(());
        };
        let plan = Plan::read(self.connection, file).await?;
        self.plan = match self.plan.data_loss_allowed {
            true => plan.allow_data_loss(),
            false => plan,
        };
        refusal::error(self.plan.table(), &self.plan.refusals()).map_or(Ok(()), Err)
    }

    async fn modify(&mut self, found: &Found) -> Result<()> {
        let admin = self.connection.admin();
        let now = admin.descriptor(self.plan.table()).await?;
        if now != found.descriptor {
            return Err(
                Error::new(ErrorKind::Conflict, "the table was changed since it was planned")
                    .with_hint("plan again"),
            );
        }
        let step = ApplyStep::ModifyTable {
            regions: self.plan.reopens(),
        };
        self.begins(step);
        admin.modify_table(&self.plan.wanted).await?;
        self.is_done(step);
        Ok(())
    }

    /// Reads the table back, and queries its regions.
    async fn prove(&mut self) -> Result<Applied> {
        let admin = self.connection.admin();
        let table = self.plan.table().clone();
        self.begins(ApplyStep::ReadBack);
        let unmet = self.plan.unmet(&admin.descriptor(&table).await?);
        if let Some(first) = unmet.first() {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "the table is not as it was planned, {} changes are left: {} {first}",
                    unmet.len(),
                    first.sign()
                ),
            )
            .with_hint("another client has changed it, or the server ignores it; plan again"));
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
                    return Err(error.at_operation(format!("asking region {name}")));
                }
            }
        }
        match self.plan.needs_endpoint() {
            true if !missing.is_empty() => Err(endpoint_missing(missing, regions.len())),
            true if !deaf.is_empty() => Err(conditions_ignored(&deaf, regions.len())),
            _ => Ok(()),
        }
    }

    /// Audits the table, now that the rule is in effect: earlier or new problems may still prevent
    /// its use.
    async fn judge(&self) -> Result<()> {
        let admin = self.connection.admin();
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
        let error = match first.finding == Name::VersionFamilyMissing.text() {
            true => error.with_missing_family(TableDescriptor::VERSION_FAMILY),
            false => error,
        };
        Err(error.with_hint("audit the table: each finding names its fix"))
    }

    /// A file says what a table is for. Of one that has another descriptor only what was not asked
    /// for is wrong with it.
    fn answers_for(&self, finding: &Finding) -> bool {
        let wanted_so = [Name::SplitsDisabled, Name::MergesDisabled];
        match &self.plan.goal {
            Goal::File(_) => !wanted_so.iter().any(|name| name.text() == finding.finding),
            Goal::Descriptor(_) => {
                let before = self.plan.found.iter();
                let mut before = before.flat_map(|found| of_descriptor(&found.descriptor, &found.regions));
                kind_of(finding) == ClientErrorKind::PartitionCut
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
        let error = self.blame_step(error);
        match self.plan.place() {
            Some(place) => error.within(place),
            None => error,
        }
    }

    fn blame_step(&self, error: Error) -> Error {
        let table = self.plan.table();
        if self.done.is_empty() {
            return error.at_operation("applying a plan").at_table(table);
        }
        let done: Vec<String> = self.done.iter().map(ToString::to_string).collect();
        let outer = Error::new(error.kind(), format!("{}; then it failed", done.join(", ")))
            .with_effect(error.effect())
            .with_retryable(error.is_retryable())
            .at_operation("applying a plan")
            .at_table(table)
            .with_hint("apply it again: what is left is done then");
        outer.with_source(error)
    }
}

/// The error of opening a table with this finding.
fn kind_of(finding: &Finding) -> ErrorKind {
    let kinds = [
        (
            Name::BoundaryInsidePartition,
            ClientErrorKind::PartitionCut.into(),
        ),
        (Name::BoundaryInsideLock, ClientErrorKind::PartitionCut.into()),
        (Name::FeatureUnknown, ErrorKind::FeatureUnknown),
        (Name::RecordsUnusable, ErrorKind::RecordFamilyMissing),
        (Name::RuleInvalid, ClientErrorKind::NoPartitionRule.into()),
        (Name::RuleMissing, ClientErrorKind::NoPartitionRule.into()),
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

/// The first of so many regions.
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
        "servers load it only where hbase.coprocessor.enabled and hbase.coprocessor.user.enabled are true there; a table whose \
         endpoint = false relies on hbase-site.xml",
    );
    match missing.into_iter().next() {
        Some((_, source)) => error.with_source(source),
        None => error,
    }
}
