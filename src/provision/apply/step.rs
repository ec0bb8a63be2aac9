//! The steps of an application, and who hears of them.

use std::fmt;

use crate::model::TableName;

/// A step of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyStep {
    /// The namespace is made.
    CreateNamespace,
    /// The table is made.
    CreateTable {
        /// With so many regions.
        regions: usize,
    },
    /// The table is given its descriptor, and its regions are reopened one by one.
    ModifyTable {
        /// So many regions; none of a table that is disabled.
        regions: usize,
    },
    /// The table is read back and compared with the plan.
    ReadBack,
    /// Each region is asked for the endpoint.
    Probe {
        /// So many regions.
        regions: usize,
    },
}

/// Hears of the steps of an application. `()` is one that does nothing.
pub trait ApplyWatcher: Send + Sync {
    /// A step begins.
    fn begins(&self, table: &TableName, step: ApplyStep);
    /// A step is done: what it does is so on the cluster, whatever becomes of this process.
    fn done(&self, table: &TableName, step: ApplyStep);
}

impl ApplyWatcher for () {
    fn begins(&self, _: &TableName, _: ApplyStep) {}
    fn done(&self, _: &TableName, _: ApplyStep) {}
}

impl ApplyStep {
    /// The step's name, which stays the same from version to version.
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

    /// How many regions it is about.
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

/// What has happened when the step is done.
impl fmt::Display for ApplyStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |regions: usize| match regions {
            1 => "1 region".to_owned(),
            regions => format!("{regions} regions"),
        };
        match self {
            Self::CreateNamespace => f.write_str("namespace made"),
            Self::CreateTable { regions } => write!(f, "made with {}", counted(*regions)),
            Self::ModifyTable { regions: 0 } => f.write_str("changed"),
            Self::ModifyTable { regions } => write!(f, "changed, {} reopened", counted(*regions)),
            Self::ReadBack => f.write_str("read back, as planned"),
            Self::Probe { regions } => write!(f, "{} asked, all answer", counted(*regions)),
        }
    }
}
