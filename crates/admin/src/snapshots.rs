//! Snapshots of tables: their files at one moment, without a copy.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hbase_client::{Effect, Error, ErrorKind, IntoTableName, Result, TableName, low_level::pb};

use crate::{
    admin::{Admin, bad_answer},
    change::Tables,
    polling::poll_until,
    procedure::{Ended, await_procedure, seen_after_change, unfinished},
    store_file_trackers::{check_tracker, unknown_tracker},
};

/// How a snapshot is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SnapshotKind {
    /// Of a disabled table.
    Disabled,
    /// After a flush of each region. What `snapshot` takes of a table that is online.
    Flush,
    /// Without a flush: only what is in files.
    SkipFlush,
}

/// A snapshot on the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotDescription {
    /// The name, unique in the cluster.
    pub name: String,
    /// The table of which it was taken. `None` if the cluster does not say.
    pub table: Option<TableName>,
    /// When it was taken, by the master's clock.
    pub created: SystemTime,
    /// How it was taken.
    pub kind: SnapshotKind,
    /// The user who took it. Empty if the cluster does not say.
    pub owner: String,
    /// How long after that the cluster deletes it. `None` if it never does.
    pub ttl: Option<Duration>,
}

/// What a table that is cloned from a snapshot has of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneSnapshotOptions {
    permissions: bool,
    store_file_tracker: Option<String>,
}

impl CloneSnapshotOptions {
    /// Creates the options of a clone like the table of the snapshot, without its permissions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Also grants what users had on the table of the snapshot when it was taken. They are in the
    /// snapshot if the cluster checked permissions then.
    #[must_use]
    pub fn with_permissions(mut self) -> Self {
        self.permissions = true;
        self
    }

    /// Gives the table another store file tracker, by its name
    /// ([`modify_table_store_file_tracker`](Admin::modify_table_store_file_tracker)). HBase 2.5 and
    /// later.
    #[must_use]
    pub fn with_store_file_tracker(mut self, tracker: impl Into<String>) -> Self {
        self.store_file_tracker = Some(tracker.into());
        self
    }
}

impl SnapshotDescription {
    fn of(message: pb::SnapshotDescription) -> Result<Self> {
        let positive = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        let table = message.table.as_deref().filter(|table| !table.is_empty());
        Ok(Self {
            kind: match message.r#type() {
                pb::snapshot_description::Type::Disabled => SnapshotKind::Disabled,
                pb::snapshot_description::Type::Flush => SnapshotKind::Flush,
                pb::snapshot_description::Type::Skipflush => SnapshotKind::SkipFlush,
            },
            table: table
                .map(|table| table.parse().map_err(|error| bad_answer(&error)))
                .transpose()?,
            created: UNIX_EPOCH + Duration::from_millis(positive(message.creation_time).unwrap_or(0)),
            owner: message.owner.unwrap_or_default(),
            // The largest number means no limit, as 0 does.
            ttl: positive(message.ttl)
                .filter(|ttl| (1..i64::MAX as u64).contains(ttl))
                .map(Duration::from_secs),
            name: message.name,
        })
    }
}

impl Admin {
    /// Returns the snapshots of all tables.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn snapshots(&self) -> Result<Vec<SnapshotDescription>> {
        let request = pb::GetCompletedSnapshotsRequest {};
        let answer: pb::GetCompletedSnapshotsResponse = self
            .call("GetCompletedSnapshots", &request)
            .await
            .map_err(|error| error.at_operation("listing the snapshots"))?;
        answer
            .snapshots
            .into_iter()
            .map(SnapshotDescription::of)
            .collect()
    }

    /// Takes a snapshot of a table, after a flush of its regions if it is online. Rows that are
    /// written meanwhile may be in it or not, each region at a moment of its own.
    ///
    /// # Errors
    ///
    /// Returns [`SnapshotExists`](ErrorKind::SnapshotExists) for the name of an existing snapshot,
    /// and [`TableNotFound`](ErrorKind::TableNotFound) if the table does not exist.
    pub async fn snapshot(&self, name: &str, table: impl IntoTableName) -> Result<()> {
        self.take_snapshot(name, table.into_table_name()?, None).await
    }

    /// Takes a snapshot of a table, as [`snapshot`](Self::snapshot) does, that the master deletes when it
    /// is older than `ttl`: within its period (`hbase.master.cleaner.snapshot.interval`, half an hour),
    /// unless that is [switched off](Self::snapshot_cleanup_switch).
    ///
    /// `ttl` is at least a second; fractions of a second are dropped.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](ErrorKind::InvalidInput) for a shorter `ttl`, and an error as
    /// [`snapshot`](Self::snapshot) does.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use hbase_admin::Admin;
    ///
    /// # async fn example(connection: &hbase_client::Connection) -> hbase_client::Result<()> {
    /// let week = Duration::from_secs(7 * 24 * 3600);
    /// Admin::new(connection).snapshot_with_ttl("orders-monday", "orders", week).await?;
    /// # Ok(()) }
    /// ```
    pub async fn snapshot_with_ttl(
        &self,
        name: &str,
        table: impl IntoTableName,
        ttl: Duration,
    ) -> Result<()> {
        self.take_snapshot(name, table.into_table_name()?, Some(ttl))
            .await
    }

    async fn take_snapshot(&self, name: &str, table: TableName, ttl: Option<Duration>) -> Result<()> {
        let table = &table;
        let in_context = |error: Error| {
            let operation = format!("taking snapshot {name}");
            error.at_operation(operation).at_table(table)
        };
        check_name(name).map_err(in_context)?;
        let ttl = ttl.map(seconds).transpose().map_err(in_context)?;
        let deadline = self.deadline();
        // The master reports a missing table as a snapshot that failed.
        self.until(deadline).descriptor(table).await.map_err(in_context)?;
        let snapshot = pb::SnapshotDescription {
            ttl,
            ..described(name, table)
        };
        let request = pb::SnapshotRequest {
            snapshot: snapshot.clone(),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let answer: pb::SnapshotResponse = self
            .call_until("Snapshot", &request, deadline)
            .await
            .map_err(in_context)?;
        let procedure = answer
            .proc_id
            .and_then(|id| u64::try_from(id).ok())
            .filter(|id| *id > 0);
        if let Some(procedure) = procedure {
            let ended = await_procedure(&self.connection, Some(procedure), deadline).await;
            if ended.map_err(in_context)? == Ended::Done {
                return Ok(());
            }
        }
        // Releases before 2.6 have no procedure for it.
        let request = pb::IsSnapshotDoneRequest {
            snapshot: Some(snapshot),
        };
        let poll = async || {
            let answer: pb::IsSnapshotDoneResponse =
                self.until(deadline).call("IsSnapshotDone", &request).await?;
            Ok((answer.done == Some(true)).then_some(()))
        };
        let unfinished = || unfinished("the snapshot is not complete in time");
        poll_until(deadline, poll, unfinished)
            .await
            .map_err(|error| in_context(error.with_effect(Effect::Unknown)))
    }

    /// Deletes a snapshot. Tables that were cloned from it stay.
    ///
    /// # Errors
    ///
    /// Returns [`SnapshotNotFound`](ErrorKind::SnapshotNotFound) if it does not exist.
    pub async fn delete_snapshot(&self, name: &str) -> Result<()> {
        let in_context = |error: Error| error.at_operation(format!("deleting snapshot {name}"));
        check_name(name).map_err(in_context)?;
        let request = pb::DeleteSnapshotRequest {
            snapshot: pb::SnapshotDescription {
                name: name.to_owned(),
                ..Default::default()
            },
        };
        let _: pb::DeleteSnapshotResponse = self
            .call_until("DeleteSnapshot", &request, self.deadline())
            .await
            .map_err(in_context)?;
        Ok(())
    }

    /// Creates a table with the descriptor, the regions and the rows of a snapshot. Where the cluster
    /// checks permissions, only the user has some on it.
    ///
    /// # Errors
    ///
    /// Returns [`SnapshotNotFound`](ErrorKind::SnapshotNotFound) if the snapshot does not exist, and
    /// [`TableExists`](ErrorKind::TableExists) if the table does.
    pub async fn clone_snapshot(&self, name: &str, table: impl IntoTableName) -> Result<()> {
        self.clone_snapshot_with(name, table, &CloneSnapshotOptions::new())
            .await
    }

    /// Creates a table as [`clone_snapshot`](Self::clone_snapshot) does, also with the permissions of the
    /// snapshot or with another store file tracker.
    ///
    /// # Errors
    ///
    /// Returns an error as [`clone_snapshot`](Self::clone_snapshot) does,
    /// [`InvalidInput`](ErrorKind::InvalidInput) for an unknown tracker, and
    /// [`Unsupported`](ErrorKind::Unsupported) for any tracker if the master's release has none.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use hbase_admin::{Admin, CloneSnapshotOptions};
    ///
    /// # async fn example(connection: &hbase_client::Connection) -> hbase_client::Result<()> {
    /// let options = CloneSnapshotOptions::new().with_permissions();
    /// let admin = Admin::new(connection);
    /// admin.clone_snapshot_with("orders-monday", "orders_again", &options).await?;
    /// # Ok(()) }
    /// ```
    pub async fn clone_snapshot_with(
        &self,
        name: &str,
        table: impl IntoTableName,
        options: &CloneSnapshotOptions,
    ) -> Result<()> {
        let table = &table.into_table_name()?;
        let in_context = |error: Error| {
            let operation = format!("cloning snapshot {name}");
            error.at_operation(operation).at_table(table)
        };
        let tracker = options.store_file_tracker.as_deref();
        tracker.map_or(Ok(()), check_tracker).map_err(in_context)?;
        let deadline = self.deadline();
        self.until(deadline)
            .find_snapshot(name)
            .await
            .map_err(in_context)?;
        // A release without trackers would ignore it.
        if tracker.is_some() && self.until(deadline).release().await.map_err(in_context)? < (2, 5) {
            let what = "the release of the master has no store file trackers";
            return Err(in_context(Error::new(ErrorKind::Unsupported, what)));
        }
        // The master would restore an existing table.
        if self.until(deadline).exists(table).await.map_err(in_context)? {
            return Err(in_context(Error::new(ErrorKind::TableExists, "the table exists")));
        }
        let ended = self.begin_from_snapshot(name, table, options, deadline).await;
        match ended.map_err(|error| in_context(unknown_tracker(error)))? {
            Ended::Done => Ok(()),
            Ended::Forgotten => {
                let found = self.until(deadline).descriptor(table).await;
                seen_after_change(found).map(drop).map_err(in_context)
            }
        }
    }

    /// Makes the table of a snapshot as it was then: descriptor, regions and rows. What was written
    /// since is lost, so take a snapshot before. The table must be
    /// [disabled](Self::disable_table), and stays so.
    ///
    /// # Errors
    ///
    /// Returns [`SnapshotNotFound`](ErrorKind::SnapshotNotFound) if the snapshot does not exist,
    /// [`TableNotFound`](ErrorKind::TableNotFound) if its table does not, and an error of the server
    /// if the table is not disabled. If the master has forgotten how it ended, the [outcome is
    /// unknown](Error::is_outcome_unknown).
    pub async fn restore_snapshot(&self, name: &str) -> Result<()> {
        self.restore(name, &CloneSnapshotOptions::new()).await
    }

    /// Makes the table of a snapshot as it was then, as [`restore_snapshot`](Self::restore_snapshot) does,
    /// and grants again what users had on it when the snapshot was taken. They are in the snapshot if the
    /// cluster checked permissions then. What was granted since stays.
    ///
    /// # Errors
    ///
    /// Returns an error as [`restore_snapshot`](Self::restore_snapshot) does.
    pub async fn restore_snapshot_with_permissions(&self, name: &str) -> Result<()> {
        self.restore(name, &CloneSnapshotOptions::new().with_permissions())
            .await
    }

    async fn restore(&self, name: &str, options: &CloneSnapshotOptions) -> Result<()> {
        let in_context = |error: Error| error.at_operation(format!("restoring snapshot {name}"));
        let deadline = self.deadline();
        let found = self
            .until(deadline)
            .find_snapshot(name)
            .await
            .map_err(in_context)?;
        let table = found
            .table
            .ok_or_else(|| in_context(bad_answer(&"the snapshot names no table")))?;
        let in_context = |error: Error| in_context(error).at_table(&table);
        // The master would create the table.
        self.until(deadline)
            .descriptor(&table)
            .await
            .map_err(in_context)?;
        self.begin_from_snapshot(name, &table, options, deadline)
            .await
            .and_then(Ended::certain)
            .map_err(in_context)
    }

    async fn begin_from_snapshot(
        &self,
        name: &str,
        table: &TableName,
        options: &CloneSnapshotOptions,
        deadline: tokio::time::Instant,
    ) -> Result<Ended> {
        let request = pb::RestoreSnapshotRequest {
            snapshot: described(name, table),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
            restore_acl: Some(options.permissions),
            custom_sft: options.store_file_tracker.clone(),
        };
        let before = self.until(deadline).before_change(table).await?;
        self.run_on::<_, pb::RestoreSnapshotResponse>(
            Tables::of(before),
            "RestoreSnapshot",
            &request,
            deadline,
        )
        .await
    }

    async fn find_snapshot(&self, name: &str) -> Result<SnapshotDescription> {
        check_name(name)?;
        let found = self
            .snapshots()
            .await?
            .into_iter()
            .find(|snapshot| snapshot.name == name);
        found.ok_or_else(|| self.at_master(Error::new(ErrorKind::SnapshotNotFound, "no such snapshot")))
    }
}

fn described(name: &str, table: &TableName) -> pb::SnapshotDescription {
    pb::SnapshotDescription {
        name: name.to_owned(),
        table: Some(table.to_string()),
        ..Default::default()
    }
}

/// Returns the TTL as HBase stores it.
fn seconds(ttl: Duration) -> Result<i64> {
    let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
    // HBase replaces a TTL that is no number of milliseconds by its default.
    if (1..=i64::MAX / 1_000).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(Error::invalid(
            "the TTL of a snapshot is at least a second, and not endless",
        ))
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        Err(Error::invalid("a snapshot without a name"))
    } else {
        Ok(())
    }
}
