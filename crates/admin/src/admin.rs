//! The administration of tables and their regions, and the calls of the master that all modules use.

use std::{fmt, time::Duration};

use bytes::Bytes;
use hbase_client::{
    BytesBinary, Connection, Effect, Error, ErrorKind, IntoTableName, RegionInfo, Result, ServerName,
    ServiceKind, TableDescriptor, TableName, TableState,
    low_level::{CallKind, ServerTarget, at_master, bounded, call_server, convert, forget_table, nonce, pb},
};
use prost::Message;
use tokio::time::Instant;

use crate::{
    change::{Request, Tables},
    procedure::{Ended, Started, await_procedure, seen_after_change},
};

/// The time that a change of a table may take for each of its regions.
const TIME_OF_A_REGION: Duration = Duration::from_millis(100);

/// The administration of a cluster's tables and regions.
///
/// A call that changes something returns when the master has finished, within the operation
/// timeout. After the timeout the master continues on its own. Each change carries a nonce, so that
/// a repeated call is applied once. A master that has forgotten how a change ended, as after a restart,
/// is asked for the result of the change instead; where that shows nothing, or is not answered either, the
/// [outcome is unknown](Error::is_outcome_unknown).
///
/// The region servers execute flushes and compactions. The calls wait for those in the same way.
#[derive(Clone)]
pub struct Admin {
    pub(crate) connection: Connection,
    pub(crate) operation_timeout: Duration,
}

impl Admin {
    /// Returns the administration of the connection's cluster, with the operation timeout of the
    /// connection.
    #[must_use]
    pub fn new(connection: &Connection) -> Self {
        Self {
            connection: connection.clone(),
            operation_timeout: connection.config().operation_timeout(),
        }
    }

    /// Sets the operation timeout.
    #[must_use]
    pub fn with_operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = bounded(timeout);
        self
    }

    /// Adds 100 ms for each of this many regions to the operation timeout. A change of a table opens or
    /// closes all its regions, of which a cluster manages some dozens in a second.
    #[must_use]
    pub fn with_time_for_regions(self, regions: usize) -> Self {
        let more = TIME_OF_A_REGION.saturating_mul(u32::try_from(regions).unwrap_or(u32::MAX));
        let timeout = self.operation_timeout.saturating_add(more);
        self.with_operation_timeout(timeout)
    }

    /// Returns the client that it administers.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the names of all tables that are not HBase's own.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn tables(&self) -> Result<Vec<TableName>> {
        let request = pb::GetTableNamesRequest {
            include_sys_tables: Some(false),
            ..Default::default()
        };
        let answer: pb::GetTableNamesResponse = self.call("GetTableNames", &request).await?;
        answer
            .table_names
            .iter()
            .map(|name| convert::table_name(name).map_err(|error| bad_answer(&error)))
            .collect()
    }

    /// Returns the descriptor of a table.
    ///
    /// # Errors
    ///
    /// Returns [`TableNotFound`](ErrorKind::TableNotFound) if the table does not exist.
    pub async fn descriptor(&self, table: impl IntoTableName) -> Result<TableDescriptor> {
        let table = &table.into_table_name()?;
        let request = pb::GetTableDescriptorsRequest {
            table_names: vec![convert::table_name_message(table)],
            ..Default::default()
        };
        let answer: pb::GetTableDescriptorsResponse = self
            .call("GetTableDescriptors", &request)
            .await
            .map_err(|error| error.at_table(table))?;
        let schema = answer.table_schema.into_iter().next().ok_or_else(|| {
            self.at_master(Error::new(ErrorKind::TableNotFound, "no such table"))
                .at_table(table)
        })?;
        convert::table_descriptor(schema).map_err(|error| bad_answer(&error))
    }

    /// Returns whether a table exists.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn exists(&self, table: impl IntoTableName) -> Result<bool> {
        let table = &table.into_table_name()?;
        match self.descriptor(table).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::TableNotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the state of a table.
    ///
    /// # Errors
    ///
    /// Returns [`TableNotFound`](ErrorKind::TableNotFound) if the table does not exist.
    pub async fn state(&self, table: impl IntoTableName) -> Result<TableState> {
        let table = &table.into_table_name()?;
        let request = pb::GetTableStateRequest {
            table_name: convert::table_name_message(table),
        };
        let answer: pb::GetTableStateResponse = self
            .call("GetTableState", &request)
            .await
            .map_err(|error| error.at_table(table))?;
        Ok(convert::table_state(&answer.table_state))
    }

    /// Creates a table, with a region boundary at each split key. The keys need not be sorted.
    /// [`split_keys_between`](crate::split_keys_between) computes them at equal distances.
    ///
    /// # Errors
    ///
    /// Returns [`TableExists`](ErrorKind::TableExists),
    /// [`NamespaceNotFound`](ErrorKind::NamespaceNotFound), or
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a table without families, an empty or doubled
    /// split key, and everything that the master rejects.
    pub async fn create_table(&self, descriptor: &TableDescriptor, split_keys: &[Bytes]) -> Result<()> {
        let in_context = |error: Error| {
            error
                .at_operation("creating the table")
                .at_table(&descriptor.name)
        };
        let mut split_keys = split_keys.to_vec();
        split_keys.sort_unstable();
        descriptor.check().map_err(in_context)?;
        if split_keys.first().is_some_and(Bytes::is_empty) {
            return Err(in_context(Error::invalid("an empty split key")));
        }
        if let Some(pair) = split_keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(in_context(Error::invalid(format!(
                "split key {} is given twice",
                BytesBinary(&pair[0])
            ))));
        }
        let request = pb::CreateTableRequest {
            table_schema: convert::table_schema(descriptor),
            split_keys,
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let deadline = self.deadline();
        let tables = Tables {
            before: None,
            after: Some(descriptor),
        };
        let ended = self
            .run_on::<_, pb::CreateTableResponse>(tables, "CreateTable", &request, deadline)
            .await;
        match ended.map_err(in_context)? {
            Ended::Done => Ok(()),
            Ended::Forgotten => {
                let found = self.until(deadline).descriptor(&descriptor.name).await;
                seen_after_change(found).map(drop).map_err(in_context)
            }
        }
    }

    /// Replaces the descriptor of a table. HBase reopens the regions, so that the change takes effect:
    /// all at once, unless `hbase.reopen.table.regions.progressive.batch.size.max` of the master, which
    /// 2.6 and later read, limits them. A call to a region waits until the region is open again.
    ///
    /// # Errors
    ///
    /// Returns [`TableNotFound`](ErrorKind::TableNotFound) if the table does not exist, and an
    /// error if the master rejects the change.
    pub async fn modify_table(&self, descriptor: &TableDescriptor) -> Result<()> {
        let in_context = |error: Error| {
            error
                .at_operation("modifying the table")
                .at_table(&descriptor.name)
        };
        descriptor.check().map_err(in_context)?;
        let request = pb::ModifyTableRequest {
            table_name: convert::table_name_message(&descriptor.name),
            table_schema: convert::table_schema(descriptor),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
            reopen_regions: Some(true),
        };
        let deadline = self.deadline();
        let before = self.until(deadline).before_change(&descriptor.name).await;
        let tables = Tables {
            before: before.map_err(in_context)?,
            after: Some(descriptor),
        };
        let ended = self
            .run_on::<_, pb::ModifyTableResponse>(tables, "ModifyTable", &request, deadline)
            .await;
        match ended.map_err(in_context)? {
            Ended::Done => Ok(()),
            Ended::Forgotten => {
                let found = self.until(deadline).descriptor(&descriptor.name).await;
                match seen_after_change(found).map_err(in_context)? {
                    found if found == *descriptor => Ok(()),
                    // The master completes a descriptor, so another one may be the effect too.
                    _ => {
                        let what = "the table is not as it was asked to be";
                        let error = Error::new(ErrorKind::Server, what);
                        Err(in_context(error.with_effect(Effect::Unknown)))
                    }
                }
            }
        }
    }

    /// Takes a table offline. Does nothing if it is offline already.
    ///
    /// # Errors
    ///
    /// Returns [`TableNotFound`](ErrorKind::TableNotFound) if the table does not exist.
    pub async fn disable_table(&self, table: impl IntoTableName) -> Result<()> {
        self.disable(&table.into_table_name()?).await.map(drop)
    }

    /// Takes a table offline. Returns `false` if it is offline already.
    async fn disable(&self, table: &TableName) -> Result<bool> {
        let in_context = |error: Error| error.at_operation("disabling the table").at_table(table);
        let request = pb::DisableTableRequest {
            table_name: convert::table_name_message(table),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let deadline = self.deadline();
        let ended = self
            .run::<_, pb::DisableTableResponse>("DisableTable", &request, deadline)
            .await;
        // Releases differ in what reports that there is nothing to do: the call, or the procedure
        // that it started.
        match ended {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::TableDisabled => return Ok(false),
            Err(error) => return Err(in_context(error)),
        }
        let state = self
            .until(deadline)
            .expect_state(table, TableState::Disabled)
            .await;
        state.map(|()| true).map_err(in_context)
    }

    /// Brings a table back online. Does nothing if it is online already.
    ///
    /// # Errors
    ///
    /// Returns [`TableNotFound`](ErrorKind::TableNotFound) if the table does not exist.
    pub async fn enable_table(&self, table: impl IntoTableName) -> Result<()> {
        let table = &table.into_table_name()?;
        let in_context = |error: Error| error.at_operation("enabling the table").at_table(table);
        let request = pb::EnableTableRequest {
            table_name: convert::table_name_message(table),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let deadline = self.deadline();
        let ended = self
            .run::<_, pb::EnableTableResponse>("EnableTable", &request, deadline)
            .await;
        // Releases differ in what reports that there is nothing to do: the call, or the procedure
        // that it started.
        match ended {
            Ok(_) => {}
            Err(error) if is_class(&error, "TableNotDisabledException") => return Ok(()),
            Err(error) => return Err(in_context(error)),
        }
        self.until(deadline)
            .expect_state(table, TableState::Enabled)
            .await
            .map_err(in_context)
    }

    /// Disables a table and deletes it with all its rows. If the master refuses to delete it, it is enabled
    /// again.
    ///
    /// # Errors
    ///
    /// Returns [`TableNotFound`](ErrorKind::TableNotFound) if the table does not exist.
    pub async fn delete_table(&self, table: impl IntoTableName) -> Result<()> {
        let table = &table.into_table_name()?;
        let in_context = |error: Error| error.at_operation("deleting the table").at_table(table);
        let deadline = self.deadline();
        let before = self.until(deadline).before_change(table).await;
        let before = before.map_err(in_context)?;
        let disabled = self.until(deadline).disable(table).await.map_err(in_context)?;
        let request = pb::DeleteTableRequest {
            table_name: convert::table_name_message(table),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let ended = self
            .run_on::<_, pb::DeleteTableResponse>(Tables::of(before), "DeleteTable", &request, deadline)
            .await;
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                return Err(in_context(
                    self.after_disable(table, disabled, error, deadline).await,
                ));
            }
        };
        forget_table(&self.connection, table);
        match ended {
            Ended::Done => Ok(()),
            Ended::Forgotten => {
                let exists = self.until(deadline).exists(table).await;
                if seen_after_change(exists).map_err(in_context)? {
                    Err(in_context(left_disabled(Error::new(
                        ErrorKind::Server,
                        "the table is still there",
                    ))))
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Disables a table, deletes all its rows, and brings it back online. Its descriptor stays, and its
    /// region boundaries do if `preserve_splits`. If the master refuses to delete the rows, the table is
    /// enabled again.
    ///
    /// # Errors
    ///
    /// Returns [`TableNotFound`](ErrorKind::TableNotFound) if the table does not exist.
    pub async fn truncate_table(&self, table: impl IntoTableName, preserve_splits: bool) -> Result<()> {
        let table = &table.into_table_name()?;
        let in_context = |error: Error| error.at_operation("truncating the table").at_table(table);
        let deadline = self.deadline();
        let before = self.until(deadline).before_change(table).await;
        let before = before.map_err(in_context)?;
        let disabled = self.until(deadline).disable(table).await.map_err(in_context)?;
        let request = pb::TruncateTableRequest {
            table_name: convert::table_name_message(table),
            preserve_splits: Some(preserve_splits),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let ended = self
            .run_on::<_, pb::TruncateTableResponse>(Tables::of(before), "truncateTable", &request, deadline)
            .await;
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                return Err(in_context(
                    self.after_disable(table, disabled, error, deadline).await,
                ));
            }
        };
        match ended {
            Ended::Done => Ok(()),
            // The master brings the table online as the last step.
            Ended::Forgotten => self
                .until(deadline)
                .expect_state(table, TableState::Enabled)
                .await
                .map_err(in_context),
        }
    }

    /// Splits the region at a row, or at a point of the server's choice if `row` is `None`. The
    /// split restriction of the table may move the row to the start of its partition.
    ///
    /// # Errors
    ///
    /// Returns an error if the row is the first of the region, or if the master rejects the split.
    pub async fn split_region(&self, region: &RegionInfo, row: Option<Bytes>) -> Result<()> {
        let in_context = |error: Error| error.at_operation("splitting a region").at_table(&region.table);
        let request = pb::SplitTableRegionRequest {
            region_info: convert::region_info_message(region),
            split_row: row,
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let ended = self
            .run::<_, pb::SplitTableRegionResponse>("SplitRegion", &request, self.deadline())
            .await;
        ended.and_then(Ended::certain).map_err(in_context)
    }

    /// Merges adjacent regions into one.
    ///
    /// # Errors
    ///
    /// Returns an error if the master rejects the merge, for example of regions that are not
    /// adjacent, or that still have files of an earlier split.
    pub async fn merge_regions(&self, regions: &[RegionInfo]) -> Result<()> {
        let Some(first) = regions.first() else {
            return Err(Error::invalid("no regions to merge"));
        };
        let in_context = |error: Error| error.at_operation("merging regions").at_table(&first.table);
        let request = pb::MergeTableRegionsRequest {
            region: regions.iter().map(convert::encoded_region_specifier).collect(),
            forcible: Some(false),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let ended = self
            .run::<_, pb::MergeTableRegionsResponse>("MergeTableRegions", &request, self.deadline())
            .await;
        ended.and_then(Ended::certain).map_err(in_context)
    }

    /// Moves a region to another server.
    ///
    /// # Errors
    ///
    /// Returns an error if the master rejects the move, for example to an unknown server, or of a
    /// region in transition.
    pub async fn move_region(&self, region: &RegionInfo, to: &ServerName) -> Result<()> {
        let request = pb::MoveRegionRequest {
            region: convert::encoded_region_specifier(region),
            dest_server_name: Some(convert::server_name_message(to)),
        };
        let _: pb::MoveRegionResponse = self
            .call_until("MoveRegion", &request, self.deadline())
            .await
            .map_err(|error| error.at_operation("moving a region").at_table(&region.table))?;
        Ok(())
    }

    /// Shuts the cluster down in order: region servers flush and close their regions, then the
    /// master stops. Returns when the master has started to.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn shut_down_cluster(&self) -> Result<()> {
        let _: pb::ShutdownResponse = self.call_once("Shutdown", &pb::ShutdownRequest {}).await?;
        Ok(())
    }

    /// Enables a table again if the first step of a change has disabled it, and the second one has certainly
    /// failed. Otherwise adds to the error that the table is disabled.
    async fn after_disable(
        &self,
        table: &TableName,
        disabled: bool,
        error: Error,
        deadline: Instant,
    ) -> Error {
        let is_gone = error.kind() == ErrorKind::TableNotFound;
        if is_gone || !disabled && !error.is_outcome_unknown() {
            return error;
        }
        let enable = async || self.until(deadline).enable_table(table).await.is_ok();
        if !error.is_outcome_unknown() && enable().await {
            error
        } else {
            left_disabled(error)
        }
    }

    /// Checks the state of a table after a change of it.
    async fn expect_state(&self, table: &TableName, wanted: TableState) -> Result<()> {
        match seen_after_change(self.state(table).await)? {
            state if state == wanted => Ok(()),
            state => Err(Error::new(
                ErrorKind::Server,
                format!("the table is {state} instead of {wanted}"),
            )),
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.operation_timeout
    }

    /// Limits the calls to the rest of a call's time.
    pub(crate) fn until(&self, deadline: Instant) -> Self {
        let left = deadline.saturating_duration_since(Instant::now());
        self.clone().with_operation_timeout(left)
    }

    /// Returns the descriptor of a table that is about to be used, by this deadline.
    ///
    /// # Errors
    ///
    /// Returns an error if a call fails or the table is disabled.
    pub(crate) async fn enabled_descriptor(
        &self,
        table: &TableName,
        deadline: Instant,
    ) -> Result<TableDescriptor> {
        let descriptor = self.until(deadline).descriptor(table).await?;
        let state = self.until(deadline).state(table).await?;
        if matches!(state, TableState::Disabled | TableState::Disabling) {
            let error = Error::new(ErrorKind::TableDisabled, format!("the table is {state}"));
            return Err(self.at_master(error));
        }
        Ok(descriptor)
    }

    /// Adds the master to the context of an error.
    pub(crate) fn at_master(&self, error: Error) -> Error {
        at_master(&self.connection, error)
    }

    pub(crate) async fn call<M: Message, R: Message + Default>(
        &self,
        method: &'static str,
        request: &M,
    ) -> Result<R> {
        self.call_master(method, CallKind::Read, request, self.deadline())
            .await
    }

    pub(crate) fn nonce(&self) -> u64 {
        nonce(&self.connection)
    }

    /// Starts a procedure and waits until it has ended.
    pub(crate) async fn run<M: Request, R: Started>(
        &self,
        method: &'static str,
        request: &M,
        deadline: Instant,
    ) -> Result<Ended> {
        self.run_on::<M, R>(Tables::default(), method, request, deadline)
            .await
    }

    /// Does so, and has the log name the table before and after.
    pub(crate) async fn run_on<M: Request, R: Started>(
        &self,
        tables: Tables<'_>,
        method: &'static str,
        request: &M,
        deadline: Instant,
    ) -> Result<Ended> {
        let procedure = async {
            let answer: R = self
                .call_master(method, CallKind::IdempotentWrite, request, deadline)
                .await?;
            await_procedure(&self.connection, answer.procedure(), deadline).await
        };
        self.logged(method, request, tables, procedure).await
    }

    /// Sends a change whose answer would be another one if it were applied twice. If the answer is lost,
    /// it is not sent again, and the outcome is unknown.
    pub(crate) async fn call_once<M: Request, R: Message + Default>(
        &self,
        method: &'static str,
        request: &M,
    ) -> Result<R> {
        let call = self.call_master(method, CallKind::Write, request, self.deadline());
        self.logged(method, request, Tables::default(), call).await
    }

    /// Sends a change that carries a nonce, or that has the same result if it is applied twice.
    pub(crate) async fn call_until<M: Request, R: Message + Default>(
        &self,
        method: &'static str,
        request: &M,
        deadline: Instant,
    ) -> Result<R> {
        let call = self.call_master(method, CallKind::IdempotentWrite, request, deadline);
        self.logged(method, request, Tables::default(), call).await
    }

    pub(crate) async fn call_master<M: Message, R: Message + Default>(
        &self,
        method: &'static str,
        kind: CallKind,
        request: &M,
        deadline: Instant,
    ) -> Result<R> {
        let target = ServerTarget::Master(ServiceKind::Master);
        call_server(&self.connection, target, method, kind, request, deadline).await
    }
}

pub(crate) fn bad_answer(why: &dyn fmt::Display) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("the master's answer can't be read: {why}"),
    )
}

/// Adds to the error of the second step of a change that the first one has disabled the table.
fn left_disabled(error: Error) -> Error {
    let hint = match error.hint() {
        Some(hint) => format!("the table is disabled by now; {hint}"),
        None => "the table is disabled by now: try again, or enable it".to_owned(),
    };
    error.with_effect(Effect::Unknown).with_better_hint(hint)
}

pub(crate) fn is_class(error: &Error, class: &str) -> bool {
    error
        .remote()
        .is_some_and(|remote| remote.simple_class() == class)
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Admin({})", self.connection.config().address())
    }
}
