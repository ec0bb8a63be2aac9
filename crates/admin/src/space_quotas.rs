//! Space quotas: how much of the file system tables may take.

use hbase_client::{Error, Result, low_level::pb};

use crate::{
    admin::Admin,
    quotas::{QuotaTarget, unreadable},
};

/// What servers refuse of a table that takes more than its space quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpaceViolationPolicy {
    /// Everything: the master disables the table.
    Disable,
    /// Writes and compactions.
    NoWritesCompactions,
    /// Writes.
    NoWrites,
    /// Puts, increments and appends, but not deletes.
    NoInserts,
}

/// A limit of the bytes that a table takes, or all tables of a namespace together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct SpaceQuota {
    /// The bytes of store files.
    pub limit: u64,
    /// What is refused above the limit.
    pub policy: SpaceViolationPolicy,
}

/// A space quota, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct SpaceQuotaSettings {
    /// A table or a namespace.
    pub target: QuotaTarget,
    /// Its limit.
    pub quota: SpaceQuota,
}

impl SpaceQuota {
    /// Creates a limit in bytes.
    #[must_use]
    pub const fn new(limit: u64, policy: SpaceViolationPolicy) -> Self {
        Self { limit, policy }
    }

    fn message(self) -> pb::SpaceQuota {
        let policy = match self.policy {
            SpaceViolationPolicy::Disable => pb::SpaceViolationPolicy::Disable,
            SpaceViolationPolicy::NoWritesCompactions => pb::SpaceViolationPolicy::NoWritesCompactions,
            SpaceViolationPolicy::NoWrites => pb::SpaceViolationPolicy::NoWrites,
            SpaceViolationPolicy::NoInserts => pb::SpaceViolationPolicy::NoInserts,
        };
        pb::SpaceQuota {
            soft_limit: Some(self.limit),
            violation_policy: Some(policy.into()),
            remove: None,
        }
    }

    fn of(quota: &pb::SpaceQuota) -> Result<Self> {
        let policy = quota.violation_policy.map(pb::SpaceViolationPolicy::try_from);
        Ok(Self {
            limit: quota.soft_limit(),
            policy: match policy {
                Some(Ok(pb::SpaceViolationPolicy::Disable)) => SpaceViolationPolicy::Disable,
                Some(Ok(pb::SpaceViolationPolicy::NoWritesCompactions)) => {
                    SpaceViolationPolicy::NoWritesCompactions
                }
                Some(Ok(pb::SpaceViolationPolicy::NoWrites)) => SpaceViolationPolicy::NoWrites,
                Some(Ok(pb::SpaceViolationPolicy::NoInserts)) => SpaceViolationPolicy::NoInserts,
                Some(Err(_)) | None => return Err(unreadable("a space quota without a known policy")),
            },
        })
    }
}

impl Admin {
    /// Limits the bytes of a table, or of all tables of a namespace together. Replaces the quota that
    /// it has.
    ///
    /// The master and the region servers look at the sizes of files every few minutes
    /// (`hbase.master.quotas.observer.chore.period` and others), so a table can exceed the limit by
    /// then. A write that is refused fails at once with
    /// [`QuotaExceeded`](hbase_client::ErrorKind::QuotaExceeded), and so does
    /// [`enable_table`](Self::enable_table) of a table that the policy has disabled. HBase does not check
    /// calls of endpoints, so it refuses their writes only under
    /// [`Disable`](SpaceViolationPolicy::Disable).
    ///
    /// Deleted rows count until a [major compaction](Self::major_compact_table) after a flush. After
    /// that, or when the quota is raised or removed, servers accept writes again, and the master enables
    /// a table that the policy has disabled.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](hbase_client::ErrorKind::InvalidInput) for another target than a table or a
    /// namespace and for a limit of zero, and an error of the server if quotas are switched off
    /// (`hbase.quota.enabled`).
    ///
    /// # Example
    ///
    /// ```no_run
    /// use hbase_admin::{Admin, QuotaTarget, SpaceQuota, SpaceViolationPolicy};
    /// use hbase_client::Connection;
    ///
    /// # async fn example(connection: &Connection) -> hbase_client::Result<()> {
    /// let target = QuotaTarget::Table("orders".parse()?);
    /// let quota = SpaceQuota::new(1 << 40, SpaceViolationPolicy::NoInserts);
    /// Admin::new(connection).set_space_quota(&target, &quota).await?;
    /// # Ok(()) }
    /// ```
    pub async fn set_space_quota(&self, target: &QuotaTarget, quota: &SpaceQuota) -> Result<()> {
        let in_context = |error: Error| error.at_operation("setting a space quota");
        if quota.limit == 0 {
            return Err(in_context(Error::invalid("a space quota of no bytes")));
        }
        self.change_space_quota(target, quota.message())
            .await
            .map_err(in_context)
    }

    /// Removes the space quota of a table or a namespace. Does nothing if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error as [`set_space_quota`](Self::set_space_quota) does.
    pub async fn remove_space_quota(&self, target: &QuotaTarget) -> Result<()> {
        let removal = pb::SpaceQuota {
            remove: Some(true),
            ..pb::SpaceQuota::default()
        };
        self.change_space_quota(target, removal)
            .await
            .map_err(|error| error.at_operation("removing a space quota"))
    }

    /// Returns all space quotas, as `hbase:quota` has them.
    ///
    /// # Errors
    ///
    /// Returns an error as [`throttles`](Self::throttles) does.
    pub async fn space_quotas(&self) -> Result<Vec<SpaceQuotaSettings>> {
        let in_context = |error: Error| error.at_operation("listing the space quotas");
        let mut found = Vec::new();
        for (target, quotas) in self.quotas().await.map_err(in_context)? {
            if let Some(quota) = &quotas.space {
                let quota = SpaceQuota::of(quota).map_err(in_context)?;
                found.push(SpaceQuotaSettings { target, quota });
            }
        }
        Ok(found)
    }

    async fn change_space_quota(&self, target: &QuotaTarget, quota: pb::SpaceQuota) -> Result<()> {
        if !matches!(target, QuotaTarget::Table(_) | QuotaTarget::Namespace(_)) {
            return Err(Error::invalid("only tables and namespaces have space quotas"));
        }
        let request = pb::SetQuotaRequest {
            space_limit: Some(pb::SpaceLimitRequest { quota: Some(quota) }),
            ..pb::SetQuotaRequest::default()
        };
        self.set_quota(target, request).await
    }
}
