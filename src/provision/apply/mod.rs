//! Makes a table as it is planned, step by step. Each step is whole on the cluster or not there at all, so that an application that
//! was stopped anywhere is finished by the next one.
//!
//! | file | what |
//! |---|---|
//! | `step` | the steps, and who hears of them |

mod step;

pub use step::{ApplyStep, ApplyWatcher};
use tokio::time::Instant;

use super::{
    audit::{Finding, Grade, Name, of_descriptor},
    plan::{Found, Goal, Plan, refusal},
    probe,
};
use crate::{
    client::{Connection, TableRegion},
    error::{Error, ErrorKind, Result},
    model::{TableDescriptor, TableState},
};

/// How often a table may appear while it is being made before that is no coincidence any more.
const ATTEMPTS: usize = 3;
/// How many regions a sentence names.
const NAMED: usize = 5;

/// What an application has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// Whether anything was changed.
    pub changed: bool,
    /// How many regions were asked, each of which answered; none of a table that is disabled.
    pub regions: usize,
    /// Whether the table is disabled: nothing could be proven then.
    pub disabled: bool,
}

/// Gives a table that exists another descriptor, reads it back, and asks each region whether it answers: with the
/// endpoint, if the descriptor names it. Where the table has this descriptor already, nothing is changed, and the regions
/// are asked.
///
/// The descriptor is meant as a whole: what it does not name goes. Take that of [`Admin::descriptor`](crate::Admin::descriptor) and
/// change it.
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
    /// Makes it so: creates the namespace and the table, or changes the table and waits until its regions are reopened; reads it
    /// back; asks each region for the endpoint, or, of tables for locks and latches, whether it answers.
    ///
    /// Each step has the connection's operation timeout: allow for the time that reopening all regions takes. A future that
    /// is dropped, or a process that is killed, leaves whole steps; the master finishes what it has begun. Plan and apply
    /// again, and the rest is done.
    ///
    /// # Errors
    ///
    /// Before anything is done: [`PartitionCut`](ErrorKind::PartitionCut), [`NamespaceNotFound`](ErrorKind::NamespaceNotFound) and
    /// [`DataLoss`](ErrorKind::DataLoss) as the [`refusals`](Self::refusals) say;
    /// [`Conflict`](ErrorKind::Conflict) when the table was changed since it was planned.
    /// [`EndpointMissing`](ErrorKind::EndpointMissing) when a region does not load the endpoint,
    /// [`ConditionsUnsupported`](ErrorKind::ConditionsUnsupported) when one ignores conditions. When it is done, and the table is
    /// still not fit for what the file says: [`PartitionCut`](ErrorKind::PartitionCut) by a boundary that came meanwhile,
    /// [`WeakDurability`](ErrorKind::WeakDurability), [`RecordFamilyMissing`](ErrorKind::RecordFamilyMissing) for a setting by
    /// which records would be lost; [`InvalidInput`](ErrorKind::InvalidInput) for what else is broken. Errors of the calls, which say which steps were done.
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
        applied.map_err(|error| application.blame(error))
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
                // Somebody else has made it meanwhile; perhaps a run of ours that was stopped.
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
            "the table is made and deleted by somebody else at the same time",
        ))
    }

    /// Says false where the table is there already.
    async fn create(&mut self) -> Result<bool> {
        let admin = self.connection.admin();
        let Goal::File(file) = &self.plan.goal else {
            return Err(Error::new(ErrorKind::TableNotFound, "no such table"));
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
            Err(error) if error.kind() == ErrorKind::TableExists => Ok(false),
            Err(error) => Err(error),
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

    /// Reads the table back, and asks its regions.
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
            .with_hint("somebody else has changed it, or the server ignores it; plan again"));
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
        let table = self.connection.table(self.plan.table().clone());
        let (mut missing, mut deaf) = (Vec::new(), Vec::new());
        for (region, answer) in probe::ask(&table, &self.plan.wanted, regions, deadline).await {
            match answer {
                Ok(true) => {}
                Ok(false) => deaf.push(region),
                Err(error) if error.kind() == ErrorKind::EndpointMissing => missing.push((region, error)),
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

    /// Looks once more, now that the rule is at work: what was there before, or came meanwhile, may still stop what the
    /// table is for.
    async fn judge(&self) -> Result<()> {
        let admin = self.connection.admin();
        let table = self.plan.table();
        let now = admin.descriptor(table).await?;
        let broken = of_descriptor(&now, &admin.regions(table).await?).into_iter();
        let broken: Vec<_> = broken
            .filter(|finding| finding.grade == Grade::Broken && self.answers_for(finding))
            .collect();
        let Some(first) = broken.first() else {
            return Ok(());
        };
        let kind = kind_of(first);
        let whats: Vec<_> = broken.iter().map(|finding| finding.what.as_str()).collect();
        Err(Error::new(kind, whats.join("; ")).with_hint(first.mend.clone()))
    }

    /// A file says what a table is for. Of one that has another descriptor only what was not asked for is wrong with it.
    fn answers_for(&self, finding: &Finding) -> bool {
        let wanted_so = [Name::SplitsDisabled, Name::MergesDisabled];
        match &self.plan.goal {
            Goal::File(_) => !wanted_so.iter().any(|name| name.text() == finding.finding),
            Goal::Descriptor(_) => {
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

    /// Says for which file it failed, and what was done before.
    fn blame(&self, error: Error) -> Error {
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

/// What opening a table with this finding fails with.
fn kind_of(finding: &Finding) -> ErrorKind {
    let kinds = [
        (Name::BoundaryInsidePartition, ErrorKind::PartitionCut),
        (Name::BoundaryInsideLock, ErrorKind::PartitionCut),
        (Name::RecordsUnusable, ErrorKind::RecordFamilyMissing),
        (Name::RuleInvalid, ErrorKind::NoPartitionRule),
        (Name::RuleMissing, ErrorKind::NoPartitionRule),
        (Name::VersionFamilyMissing, ErrorKind::FamilyNotFound),
        (Name::WeakDurability, ErrorKind::WeakDurability),
    ];
    let found = kinds.iter().find(|(name, _)| name.text() == finding.finding);
    found.map_or(ErrorKind::InvalidInput, |(_, kind)| *kind)
}

fn conditions_ignored(deaf: &[&TableRegion], of: usize) -> Error {
    Error::new(
        ErrorKind::ConditionsUnsupported,
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
        ErrorKind::EndpointMissing,
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
