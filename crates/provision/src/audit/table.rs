//! All problems of one table, not only the first.

use hbase_admin::{Admin, low_level::AdminCalls};
use hbase_client::{Connection, TableDescriptor, TableName, TableRegion, TableState};
use hbase_txn::{ClientErrorKind, Error, PartitionRule, Result, TableDescriptorExt};
use tokio::time::Instant;

use super::{
    cluster::Cluster, endpoint, endpoint::Answers, finding::Finding, latch_table, load, lock_table,
    name::Name, rights, rule, settings,
};
use crate::command;

/// The purpose of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Transactions,
    Locks,
    Latches,
}

/// The properties of a table that the master knows.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) descriptor: TableDescriptor,
    state: TableState,
    regions: Vec<TableRegion>,
}

impl Found {
    pub(super) async fn read(admin: &Admin, name: &TableName, deadline: Instant) -> Result<Self> {
        let descriptor = admin.until(deadline).descriptor(name).await?;
        let state = admin.until(deadline).state(name).await?;
        let regions = admin.until(deadline).regions(name).await?;
        Ok(Self {
            descriptor,
            state,
            regions,
        })
    }

    /// Returns the number of regions.
    pub(super) fn regions(&self) -> usize {
        self.regions.len()
    }

    /// Returns the purpose. A table that is neither for locks nor for latches counts as one for
    /// transactions.
    pub(super) fn purpose(&self) -> Purpose {
        purpose(&self.descriptor, &self.regions)
    }

    /// Whether any property of the table shows that it is for this toolkit.
    pub(super) fn is_ours(&self) -> bool {
        self.purpose() != Purpose::Transactions
            || self.descriptor.names_multi_row_mutation_endpoint()
            || rule::is_attempted(&self.descriptor)
            || self
                .descriptor
                .families
                .iter()
                .any(|family| TableDescriptor::reserves_family(&family.name))
    }

    /// Returns all problems for the table's purpose. A check that fails is a finding, and the other
    /// checks continue.
    ///
    /// # Errors
    ///
    /// Returns [`TableNotFound`](ClientErrorKind::TableNotFound) if the table was dropped
    /// meanwhile.
    pub(super) async fn findings(
        &self,
        connection: &Connection,
        cluster: &Cluster,
        deadline: Instant,
    ) -> Result<Vec<Finding>> {
        let (descriptor, regions) = (&self.descriptor, &self.regions[..]);
        let name = &descriptor.name;
        let (admin, table) = (Admin::new(connection), connection.table(name)?);
        let disabled = matches!(self.state, TableState::Disabled | TableState::Disabling);
        let mut findings = Vec::new();
        let mut answers = Answers::default();
        let mut failed = Vec::new();
        if disabled {
            findings.push(self.disabled());
        } else {
            answers = Answers::ask(&table, descriptor, regions, deadline).await;
            findings.extend(answers.unavailable(descriptor));
        }
        findings.extend(cluster.in_transition(name));
        match rights::findings(connection, name, deadline).await {
            Ok(missing) => findings.extend(missing),
            Err(error) => failed.push(incomplete(name, "the user's rights", &error)),
        }
        match self.purpose() {
            Purpose::Locks | Purpose::Latches => findings.extend(of_descriptor(descriptor, regions)),
            Purpose::Transactions => {
                findings.extend(rule_or_cuts(descriptor, regions));
                if disabled {
                    findings.extend(endpoint::unnamed(descriptor, regions));
                } else {
                    let user = rights::user(connection).await;
                    findings.extend(answers.findings(descriptor, regions, &user));
                }
                findings.extend(settings::findings(descriptor));
            }
        }
        if let (Purpose::Transactions, Ok(rule), false) = (
            self.purpose(),
            PartitionRule::from_descriptor(descriptor),
            disabled,
        ) {
            let by = endpoint::patience(deadline);
            match load::findings(&cluster.loads, &admin, &table, descriptor, &rule, regions, by).await {
                Ok(found) => findings.extend(found),
                Err(error) => failed.push(incomplete(name, "its large regions", &error)),
            }
        }
        let doubtful = answers.any_silent() || !failed.is_empty();
        findings.extend(failed);
        if doubtful {
            // The regions of a dropped table do not answer either.
            match admin.until(deadline).descriptor(name).await {
                Err(error) if error.kind() == ClientErrorKind::TableNotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(findings)
    }

    fn disabled(&self) -> Finding {
        let name = &self.descriptor.name;
        Finding::broken(
            Name::TableDisabled,
            format!("the table is {}", self.state),
            "its rows can't be read or written",
        )
        .of_table(name)
        .fixed_by(command::of_table("enable", name), "")
    }
}

fn purpose(descriptor: &TableDescriptor, regions: &[TableRegion]) -> Purpose {
    if lock_table::is_one(descriptor, regions) {
        Purpose::Locks
    } else if latch_table::is_one(descriptor, regions) {
        Purpose::Latches
    } else {
        Purpose::Transactions
    }
}

/// Returns the findings from a table's descriptor and boundaries, without further calls.
pub(crate) fn of_descriptor(descriptor: &TableDescriptor, regions: &[TableRegion]) -> Vec<Finding> {
    match purpose(descriptor, regions) {
        Purpose::Locks => {
            let mut findings = lock_table::findings(descriptor, regions);
            findings.extend(settings::feature_unknown(descriptor));
            findings.extend(settings::read_only(descriptor));
            findings
        }
        Purpose::Latches => {
            let mut findings = latch_table::findings(descriptor);
            findings.extend(settings::feature_unknown(descriptor));
            findings.extend(settings::read_only(descriptor));
            findings
        }
        Purpose::Transactions => {
            let mut findings = rule_or_cuts(descriptor, regions);
            findings.extend(settings::findings(descriptor));
            findings
        }
    }
}

fn rule_or_cuts(descriptor: &TableDescriptor, regions: &[TableRegion]) -> Vec<Finding> {
    match PartitionRule::from_descriptor(descriptor) {
        Ok(rule) => rule::boundaries(&descriptor.name, &rule, regions),
        Err(error) => vec![rule::missing(descriptor, &error)],
    }
}

/// The finding for a check that failed.
pub(super) fn incomplete(table: &TableName, what: &str, error: &Error) -> Finding {
    Finding::broken(
        Name::AuditIncomplete,
        format!("{what} could not be checked: {error}"),
        "a problem may have been missed",
    )
    .of_table(table)
    .fixed_by(
        command::of_table("check", table),
        "run it again when the cluster answers, or with a longer --timeout",
    )
}
