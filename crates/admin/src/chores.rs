//! Chores of the master: cleaners of files, the catalog janitor, and the deletion of expired snapshots.

use hbase_client::{Result, low_level::pb};

use crate::{admin::Admin, cluster_status::was};

impl Admin {
    /// Lets the master delete logs and store files that nothing refers to any more, also while the cleaners
    /// are switched off. Returns whether no such files are left: not while some are kept, for a snapshot, a
    /// replication peer or a time (`hbase.master.hfilecleaner.ttl`, `hbase.master.logcleaner.ttl`).
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn run_cleaner_chore(&self) -> Result<bool> {
        let request = pb::RunCleanerChoreRequest {};
        let answer: pb::RunCleanerChoreResponse = self
            .call_once("RunCleanerChore", &request)
            .await
            .map_err(|error| error.at_operation("running the cleaners"))?;
        Ok(answer.cleaner_chore_ran)
    }

    /// Switches the periodic cleaners of logs and store files on or off, and returns the previous state.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn cleaner_chore_switch(&self, on: bool) -> Result<bool> {
        let request = pb::SetCleanerChoreRunningRequest { on };
        let answer: pb::SetCleanerChoreRunningResponse =
            self.call_once("SetCleanerChoreRunning", &request).await?;
        was(answer.prev_value)
    }

    /// Returns whether the periodic cleaners of logs and store files run.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn is_cleaner_chore_enabled(&self) -> Result<bool> {
        let request = pb::IsCleanerChoreEnabledRequest {};
        let answer: pb::IsCleanerChoreEnabledResponse = self.call("IsCleanerChoreEnabled", &request).await?;
        Ok(answer.value)
    }

    /// Lets the master scan `hbase:meta` for regions that were split or merged and that nothing refers to
    /// any more, and delete them. Returns how many it began to delete, or `None` if such a scan was
    /// running already.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn run_catalog_janitor(&self) -> Result<Option<u32>> {
        let request = pb::RunCatalogScanRequest {};
        let answer: pb::RunCatalogScanResponse = self
            .call_once("RunCatalogScan", &request)
            .await
            .map_err(|error| error.at_operation("running the catalog janitor"))?;
        Ok(u32::try_from(answer.scan_result()).ok())
    }

    /// Switches the periodic scan of the catalog janitor on or off, and returns the previous state.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn catalog_janitor_switch(&self, on: bool) -> Result<bool> {
        let request = pb::EnableCatalogJanitorRequest { enable: on };
        let answer: pb::EnableCatalogJanitorResponse =
            self.call_once("EnableCatalogJanitor", &request).await?;
        was(answer.prev_value)
    }

    /// Returns whether the periodic scan of the catalog janitor runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn is_catalog_janitor_enabled(&self) -> Result<bool> {
        let request = pb::IsCatalogJanitorEnabledRequest {};
        let answer: pb::IsCatalogJanitorEnabledResponse =
            self.call("IsCatalogJanitorEnabled", &request).await?;
        Ok(answer.value)
    }

    /// Switches the deletion of expired snapshots on or off, and returns the previous state.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn snapshot_cleanup_switch(&self, on: bool) -> Result<bool> {
        let request = pb::SetSnapshotCleanupRequest {
            enabled: on,
            synchronous: Some(true),
        };
        let answer: pb::SetSnapshotCleanupResponse =
            self.call_once("SwitchSnapshotCleanup", &request).await?;
        Ok(answer.prev_snapshot_cleanup)
    }

    /// Returns whether the master deletes expired snapshots.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn is_snapshot_cleanup_enabled(&self) -> Result<bool> {
        let request = pb::IsSnapshotCleanupEnabledRequest {};
        let answer: pb::IsSnapshotCleanupEnabledResponse =
            self.call("IsSnapshotCleanupEnabled", &request).await?;
        Ok(answer.enabled)
    }
}
