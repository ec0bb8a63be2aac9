//! The steps of an application, and their observer.

use std::fmt;

use hbase_client::TableName;

/// A step of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyStep {
    /// Creation of the namespace.
    CreateNamespace,
    /// Creation of the table.
    CreateTable {
        /// The number of its regions.
        regions: usize,
    },
    /// Change of the table's descriptor; its regions are reopened.
    ModifyTable {
        /// The number of regions to reopen; 0 if the table is disabled.
        regions: usize,
    },
    /// Readback of the table, and comparison with the plan.
    ReadBack,
    /// Querying each region for the endpoint.
    Probe {
        /// The number of regions.
        regions: usize,
    },
}

/// An observer of the steps of an application. `()` ignores them.
pub trait ApplyWatcher: Send + Sync {
    /// Called when a step begins.
    fn begins(&self, table: &TableName, step: ApplyStep);
    /// Called when a step is complete. Its result on the cluster no longer depends on this process.
    fn done(&self, table: &TableName, step: ApplyStep);
}

impl ApplyWatcher for () {
    fn begins(&self, _: &TableName, _: ApplyStep) {}
    fn done(&self, _: &TableName, _: ApplyStep) {}
}

impl ApplyStep {
    /// Returns the step's name, which is the same in all versions.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::CreateNamespace => "create-namespace",
            Self::CreateTable { .. } => "create-table",
            Self::ModifyTable { .. } => "modify-table",
            Self::ReadBack => "read-back",
            Self::Probe { .. } => "probe",
        }
    }

    /// Returns the number of regions of the step.
    #[must_use]
    pub fn regions(&self) -> Option<usize> {
        match self {
            Self::CreateTable { regions } | Self::ModifyTable { regions } | Self::Probe { regions } => {
                Some(*regions)
            }
            Self::CreateNamespace | Self::ReadBack => None,
        }
    }
}

/// Describes a completed step.
impl fmt::Display for ApplyStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |regions: usize| match regions {
            1 => "1 region".to_owned(),
            regions => format!("{regions} regions"),
        };
        match self {
            Self::CreateNamespace => f.write_str("namespace created"),
            Self::CreateTable { regions } => write!(f, "created with {}", counted(*regions)),
            Self::ModifyTable { regions: 0 } => f.write_str("changed"),
            Self::ModifyTable { regions } => write!(f, "changed, {} reopened", counted(*regions)),
            Self::ReadBack => f.write_str("read back, as planned"),
            Self::Probe { regions } => write!(f, "{} queried, all answer", counted(*regions)),
        }
    }
}
