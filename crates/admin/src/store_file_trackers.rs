//! Store file trackers: how regions know their store files.

use hbase_client::{
    Error, IntoBytes, IntoTableName, RemoteException, Result,
    low_level::{convert, pb},
};

use crate::{admin::Admin, change::Tables, column_families, procedure::Ended};

impl Admin {
    /// Changes the store file tracker of a table: how its regions know their store files. HBase writes the
    /// lists of files that the new tracker needs, and reopens the regions, twice if it must.
    /// Does nothing if the table has the tracker.
    ///
    /// `tracker` is HBase's name of it, `DEFAULT` (the files in the family's folder) or `FILE` (a list in a
    /// file, so that no file is renamed), or the class of one. It becomes the attribute
    /// `hbase.store.file-tracker.impl` of the table. [`modify_table`](Self::modify_table) does not change it
    /// safely, because files would be lost between two trackers.
    ///
    /// HBase 2.5 and later.
    ///
    /// # Errors
    ///
    /// Returns [`Unsupported`](hbase_client::ErrorKind::Unsupported) if the master's release cannot do it,
    /// [`TableNotFound`](hbase_client::ErrorKind::TableNotFound), [`TableDisabled`](hbase_client::ErrorKind::TableDisabled),
    /// and [`InvalidInput`](hbase_client::ErrorKind::InvalidInput) for an unknown tracker. If the master has forgotten how it ended, the [outcome is
    /// unknown](Error::is_outcome_unknown); repeating the call is harmless.
    pub async fn modify_table_store_file_tracker(
        &self,
        table: impl IntoTableName,
        tracker: &str,
    ) -> Result<()> {
        let table = &table.into_table_name()?;
        let in_context = |error: Error| {
            let operation = format!("changing the store file tracker to {tracker}");
            error.at_operation(operation).at_table(table)
        };
        check_tracker(tracker).map_err(in_context)?;
        let request = pb::ModifyTableStoreFileTrackerRequest {
            table_name: convert::table_name_message(table),
            dst_sft: tracker.to_owned(),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let before = self.before_change(table).await.map_err(in_context)?;
        let ended = self.run_on::<_, pb::ModifyTableStoreFileTrackerResponse>(
            Tables::of(before),
            "ModifyTableStoreFileTracker",
            &request,
            self.deadline(),
        );
        let done = ended.await.and_then(Ended::certain);
        done.map_err(|error| in_context(unknown_tracker(error)))
    }

    /// Changes the store file tracker of a column family, as
    /// [`modify_table_store_file_tracker`](Self::modify_table_store_file_tracker) does that of a table. It
    /// goes before that of the table. HBase refuses the change of a family without a tracker of its own in a
    /// table whose tracker is not `DEFAULT`.
    ///
    /// # Errors
    ///
    /// Returns an error as that does, and [`FamilyNotFound`](hbase_client::ErrorKind::FamilyNotFound) if the table
    /// has no such family.
    pub async fn modify_column_family_store_file_tracker(
        &self,
        table: impl IntoTableName,
        family: impl IntoBytes,
        tracker: &str,
    ) -> Result<()> {
        let (table, family) = (&table.into_table_name()?, family.into_bytes());
        let change = format!("changing the store file tracker to {tracker} of");
        let in_context = column_families::in_context(&change, &family, table);
        check_tracker(tracker).map_err(&in_context)?;
        let request = pb::ModifyColumnStoreFileTrackerRequest {
            table_name: convert::table_name_message(table),
            family: family.clone(),
            dst_sft: tracker.to_owned(),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let before = self.before_change(table).await.map_err(&in_context)?;
        let ended = self.run_on::<_, pb::ModifyColumnStoreFileTrackerResponse>(
            Tables::of(before),
            "ModifyColumnStoreFileTracker",
            &request,
            self.deadline(),
        );
        let done = ended.await.and_then(Ended::certain);
        done.map_err(|error| in_context(unknown_tracker(error)))
    }
}

/// Rejects what the master would take for no change.
pub(crate) fn check_tracker(tracker: &str) -> Result<()> {
    if tracker.trim().is_empty() {
        Err(Error::invalid("a store file tracker without a name"))
    } else {
        Ok(())
    }
}

/// Gives the error of a server that has no class of the tracker's name its kind. The server looks for the
/// class before it changes anything (`StoreFileTrackerFactory.getTrackerClass`).
pub(crate) fn unknown_tracker(error: Error) -> Error {
    let is_unknown = |remote: &RemoteException| remote.message.contains("ClassNotFoundException");
    if error.remote().is_some_and(is_unknown) {
        Error::invalid("the servers have no such store file tracker").with_source(error)
    } else {
        error
    }
}
