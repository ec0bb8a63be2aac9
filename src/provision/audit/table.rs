//! Everything about one table that would stop what it is for, not only the first.

use tokio::time::Instant;

use super::{
    cluster::Cluster, endpoint, endpoint::Answers, finding::Finding, latch_table, load, lock_table, rights,
    rule, settings,
};
use crate::{
    client::{Admin, Connection, TableRegion},
    error::Result,
    model::{PartitionRule, TableDescriptor, TableName, TableState},
    provision::command,
};

/// What a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Transactions,
    Locks,
    Latches,
}

/// What a table is, as far as nobody was asked but the master.
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

    /// What it is for: what is neither for locks nor for latches is taken to be for transactions.
    pub(super) fn purpose(&self) -> Purpose {
        if lock_table::is_one(&self.descriptor) {
            Purpose::Locks
        } else if latch_table::is_one(&self.descriptor) {
            Purpose::Latches
        } else {
            Purpose::Transactions
        }
    }

    /// Whether anything of it says that it is for what this toolkit does.
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

    /// What stops what it is for.
    pub(super) async fn findings(
        &self,
        connection: &Connection,
        cluster: &Cluster,
        deadline: Instant,
    ) -> Result<Vec<Finding>> {
        let (descriptor, regions) = (&self.descriptor, &self.regions[..]);
        let table = connection.table(descriptor.name.clone());
        let disabled = matches!(self.state, TableState::Disabled | TableState::Disabling);
        let mut findings = Vec::new();
        let mut answers = Answers::default();
        if disabled {
            findings.push(self.disabled());
        } else {
            answers = Answers::ask(&table, descriptor, regions, deadline).await;
            findings.extend(answers.unavailable(descriptor));
        }
        findings.extend(cluster.in_transition(&descriptor.name));
        findings.extend(rights::findings(connection, &descriptor.name, deadline).await?);
        match self.purpose() {
            Purpose::Locks => findings.extend(lock_table::findings(descriptor, regions)),
            Purpose::Latches => findings.extend(latch_table::findings(descriptor)),
            Purpose::Transactions => {
                let rule = PartitionRule::from_descriptor(descriptor);
                match &rule {
                    Ok(rule) => findings.extend(rule::boundaries(&descriptor.name, rule, regions)),
                    Err(error) => findings.push(rule::missing(descriptor, error)),
                }
                match disabled {
                    true => findings.extend(endpoint::unnamed(descriptor, regions)),
                    false => {
                        findings.extend(answers.findings(descriptor, regions, connection.config().user()));
                    }
                }
                findings.extend(settings::findings(descriptor));
                if let (Ok(rule), false) = (&rule, disabled) {
                    findings
                        .extend(load::findings(cluster, &table, descriptor, rule, regions, deadline).await?);
                }
            }
        }
        Ok(findings)
    }

    fn disabled(&self) -> Finding {
        let name = &self.descriptor.name;
        Finding::broken(
            "table-disabled",
            format!("the table is {}", self.state),
            "nothing can be read or written",
        )
        .of_table(name)
        .mended_by(command::of_table("enable", name), "")
    }
}
