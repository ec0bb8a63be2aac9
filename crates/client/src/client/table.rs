//! Reads and writes of single rows, and scans.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use prost::Message;
use tokio::time::{Instant, sleep_until};

use super::{Connection, RegionCall, ResultScanner, lanes, timeline::first_answer};
use crate::{
    cluster::{Attempts, CallKind, Operation, RegionLocation},
    config::bounded,
    error::Result,
    model::{
        Consistency, Delete, Durability, Get, IntoBytes, IntoTableName, Limits, Mutation, Put, Row, Scan,
        TableDescriptor, TableName, TableRegion, set_attribute,
    },
    rpc::{AttemptLimit, CallError, CallOptions},
    wire::{
        cell_block::{CellBlockDecoder, Codec},
        convert, pb,
    },
};

/// A table of a cluster: reads and writes of rows.
///
/// Cheap to clone. Every call ends within the operation timeout of the client's
/// [`Config`](crate::Config), or within the table's own
/// ([`with_operation_timeout`](Self::with_operation_timeout)). Dropping a future gives its call up;
/// a write whose request was sent may still be applied.
#[derive(Clone)]
pub struct Table {
    pub(super) connection: Connection,
    pub(super) name: TableName,
    pub(super) operation_timeout: Duration,
    /// Behind a pointer, so that a handle stays small.
    pub(super) options: Arc<TableOptions>,
}

/// The options of a handle.
#[derive(Clone)]
pub(super) struct TableOptions {
    pub(super) call: CallOptions,
    /// The durability of writes that must survive a crash.
    durable: Durability,
    /// Refuses writes of some rows.
    row_check: Option<RowCheck>,
}

/// Returns an error for a row that must not be written.
pub type RowCheck = Arc<dyn Fn(&[u8]) -> Result<()> + Send + Sync>;

impl Connection {
    /// Returns a table of the cluster. Sends nothing: the first call fails if the table does not
    /// exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not the name of a table.
    pub fn table(&self, name: impl IntoTableName) -> Result<Table> {
        Ok(Table {
            connection: self.clone(),
            name: name.into_table_name()?,
            operation_timeout: self.config().operation_timeout(),
            options: Arc::new(TableOptions {
                call: CallOptions::default(),
                durable: Durability::SyncWal,
                row_check: None,
            }),
        })
    }
}

impl Table {
    /// Returns the name of the table.
    #[must_use]
    pub fn name(&self) -> &TableName {
        &self.name
    }

    /// Returns the client of the table.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sets the operation timeout.
    #[must_use]
    pub fn with_operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = bounded(timeout);
        self
    }

    /// Sets the durability of writes that must survive a crash from the table's descriptor.
    pub(crate) fn with_durability_of(mut self, descriptor: &TableDescriptor) -> Self {
        let of_table = descriptor.durability();
        if !of_table.is_weak() {
            Arc::make_mut(&mut self.options).durable = of_table;
        }
        self
    }

    /// Refuses calls on connections that are not encrypted.
    pub(super) fn with_privacy(mut self) -> Self {
        Arc::make_mut(&mut self.options).call.requires_privacy = true;
        self
    }

    /// Refuses writes of the rows for which the check returns an error.
    pub(crate) fn with_row_check(mut self, check: RowCheck) -> Self {
        Arc::make_mut(&mut self.options).row_check = Some(check);
        self
    }

    /// Refuses a mutation that can't be sent, or whose row must not be written.
    pub(super) fn check(&self, mutation: &Mutation) -> Result<()> {
        mutation.check(&self.limits())?;
        match &self.options.row_check {
            Some(check) => check(mutation.row()).map_err(|error| mutation.in_context(error)),
            None => Ok(()),
        }
    }

    /// Returns the durability of writes that must survive a crash: at least that of a plain put,
    /// and never weaker than `SYNC_WAL`.
    pub(crate) fn durable(&self) -> Durability {
        self.options.durable
    }

    /// Requests that cells include [their time of expiry](crate::Cell::expires_at): cells of gets
    /// and scans, and those that an increment or append returns and that inherit a TTL. An
    /// increment with a TTL that creates a cell returns it without the time: read the cell. Cells also
    /// include [whether they have access rules](crate::Cell::has_access_rules).
    ///
    /// Servers send both only on connections that request tags. This costs one more connection
    /// per server, shared by all such tables of the client, and on it the tags of every cell are
    /// transferred. Everything else is unchanged.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use hbase_client::{Get, Put};
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// let hour = Duration::from_secs(3_600);
    /// table.put(Put::new("xxxabc").cell("f", "session", "4711").ttl(hour)).await?;
    /// let row = table.with_expiry().get(Get::new("xxxabc")).await?.ok_or("no row")?;
    /// let ends = row.cell("f", "session").and_then(|cell| cell.expires_at());
    /// assert!(ends.is_some());
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn with_expiry(mut self) -> Self {
        Arc::make_mut(&mut self.options).call.codec = Codec::KeyValueWithTags;
        self
    }

    /// Sets a request attribute: servers receive it with each call of this handle. Replaces an
    /// attribute of the same name.
    ///
    /// Coprocessors and the slow log of servers read them, from HBase 2.6 on; earlier releases ignore
    /// them. For values of all calls of a client, use
    /// [`Config::with_connection_attribute`](crate::Config::with_connection_attribute). Single
    /// operations [share calls](crate::Config::with_coalescing) only with those that have the same
    /// request attributes. Look-ups of regions have none.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::Get;
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let connection = hbase.connect().await?;
    /// let orders = connection.table("orders")?.with_request_attribute("request-id", "4711");
    /// orders.get(Get::new("xxxabc")).await?;
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn with_request_attribute(mut self, name: impl Into<String>, value: impl IntoBytes) -> Self {
        let attributes = Arc::make_mut(&mut Arc::make_mut(&mut self.options).call.attributes);
        set_attribute(attributes, name.into(), value.into_bytes());
        self
    }

    /// Sets the priority of the calls of this handle, in place of [that of the
    /// client](crate::Config::with_call_priority), which says what servers do with it. `None`, the default,
    /// keeps that of the client, and system tables keep theirs. Operations share calls only with those of
    /// the same priority.
    #[must_use]
    pub fn with_call_priority(mut self, priority: Option<u32>) -> Self {
        Arc::make_mut(&mut self.options).call.priority = priority;
        self
    }

    /// Returns the region of a row and its servers, as the calls of this client use it: from the cache, or
    /// from `hbase:meta`. A region that is being opened is waited for.
    ///
    /// The region may have moved since the client has cached it; a call would notice that.
    /// `Admin::regions` of the crate `hbase-admin` returns all regions, as they are now.
    ///
    /// # Errors
    ///
    /// Returns an error as [`get`](Self::get) does.
    ///
    /// # Example
    ///
    /// ```
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &["m"]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// let found = table.locate("xxxabc").await?;
    /// assert!(found.region.contains("xxxabc") && found.server.is_some());
    /// # Ok(()) });
    /// ```
    pub async fn locate(&self, row: impl IntoBytes) -> Result<TableRegion> {
        let row = row.into_bytes();
        let call = RegionCall::new(self, "locate", &row, CallKind::Read, self.deadline());
        let location = call.into_location().await?;
        Ok(TableRegion {
            region: location.region.clone(),
            server: Some(location.server.clone()),
            replicas: location.replicas.clone(),
        })
    }

    /// Reads a row. Returns `None` if it has no requested cell.
    ///
    /// If a replica answers a get with [`Consistency::Timeline`], a row without requested cells is
    /// returned as one that [is stale](Row::is_stale), because the primary may have some.
    ///
    /// # Errors
    ///
    /// Returns
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) before anything is sent;
    /// - [`TableNotFound`](crate::ErrorKind::TableNotFound),
    ///   [`TableDisabled`](crate::ErrorKind::TableDisabled) or
    ///   [`FamilyNotFound`](crate::ErrorKind::FamilyNotFound);
    /// - [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded), with the last reason as its
    ///   source.
    pub async fn get(&self, get: Get) -> Result<Option<Row>> {
        get.check()
            .map_err(|error| error.at_operation("get").at_table(&self.name))?;
        if get.selection.consistency == Consistency::Timeline {
            return Box::pin(self.get_timeline("get", &get, self.deadline())).await;
        }
        let mut attempts = RegionCall::new(self, "get", &get.row, CallKind::Read, self.deadline());
        loop {
            let location = attempts.locate().await?;
            match attempts.attempt(&location).get(&get).await {
                Ok(row) => return Ok(row),
                Err(failure) => attempts.recover(failure).await?,
            }
        }
    }

    /// Returns whether a row has a requested cell, without transferring it.
    ///
    /// # Errors
    ///
    /// Returns an error as [`get`](Self::get) does.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::{Get, Put};
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// table.put(Put::new("xxxabc").cell("f", "state", "new")).await?;
    /// assert!(table.exists(Get::new("xxxabc")).await?);
    /// assert!(!table.exists(Get::new("xxxabc").column("f", "total")).await?);
    /// # Ok(()) });
    /// ```
    pub async fn exists(&self, get: Get) -> Result<bool> {
        get.check()
            .map_err(|error| error.at_operation("exists").at_table(&self.name))?;
        let message = convert::existence_message(&get);
        self.call_get("exists", &get, &message, self.deadline(), exists)
            .await
    }

    /// Reads a row that a replica may answer.
    pub(super) async fn get_timeline(
        &self,
        name: &'static str,
        get: &Get,
        deadline: Instant,
    ) -> Result<Option<Row>> {
        let row = |result: pb::Result, mut block: CellBlockDecoder| {
            let is_stale = result.stale == Some(true);
            let row = convert::row(result, &mut block)
                .map_err(|error| CallError::BadAnswer(error.to_string().into()))?;
            Ok(match is_stale {
                false => row,
                true => Some(
                    row.unwrap_or_else(|| Row::new(get.row.clone(), Vec::new()))
                        .with_stale(true),
                ),
            })
        };
        self.call_get(name, get, &convert::get_message(get), deadline, row)
            .await
    }

    /// Sends a get in a call of its own, also to replicas if they may answer.
    pub(super) async fn call_get<T>(
        &self,
        name: &'static str,
        get: &Get,
        message: &pb::Get,
        deadline: Instant,
        read: impl Fn(pb::Result, CellBlockDecoder) -> Result<T, CallError>,
    ) -> Result<T> {
        let operation = Operation {
            name,
            table: &self.name,
            row: Cow::Borrowed(&get.row),
            kind: CallKind::Read,
            deadline,
        };
        let mut attempts = Attempts::new(&self.connection.shared.cluster, operation);
        loop {
            let primary = attempts.locate().await?;
            let limit = attempts.attempt_limit(&primary);
            let call = |location: Arc<RegionLocation>| {
                let limit = limit.clone();
                async move {
                    let request = pb::GetRequest {
                        region: convert::region_specifier(&location.region),
                        get: message.clone(),
                    };
                    self.call(&location, "Get", &request, limit).await
                }
            };
            let (location, answer): (_, Result<(pb::GetResponse, _), _>) = match get.selection.consistency {
                Consistency::Strong => (Arc::clone(&primary), call(primary).await),
                Consistency::Timeline => {
                    let cluster = &self.connection.shared.cluster;
                    let patience = self.connection.config().primary_get_timeout();
                    let replica_id = get.selection.replica_id;
                    let (location, answer, _) =
                        first_answer(cluster, &primary, replica_id, patience, call).await;
                    (location, answer)
                }
            };
            match answer.and_then(|(answer, block)| read(answer.result.unwrap_or_default(), block)) {
                Ok(answer) => {
                    attempts.succeed();
                    return Ok(answer);
                }
                Err(failure) => attempts.recover(failure, &location).await?,
            }
        }
    }

    /// Writes cells of a row.
    ///
    /// A put without an answer is sent again only if all its cells have timestamps of their own, so
    /// that applying it twice has the same effect as once. Otherwise a second put could overwrite
    /// another client's write in between, so the outcome is reported as unknown.
    ///
    /// A put without a timestamp waits for about a millisecond if this client has just deleted a part
    /// of the row at the server's time: HBase would hide it otherwise. The same holds for increments
    /// and appends, and for puts in lists and writers.
    ///
    /// # Errors
    ///
    /// Returns an error as [`get`](Self::get) does; its [outcome may be
    /// unknown](crate::Error::is_outcome_unknown).
    pub async fn put(&self, put: Put) -> Result<()> {
        self.mutate("put", put.into()).await
    }

    /// Deletes parts of a row, or all of it.
    ///
    /// A delete without an answer is sent again only if it has a timestamp; see [`put`](Self::put).
    ///
    /// # Errors
    ///
    /// Returns an error as [`put`](Self::put) does.
    pub async fn delete(&self, delete: Delete) -> Result<()> {
        self.mutate("delete", delete.into()).await
    }

    /// Starts a scan. Sends nothing before the first row is requested.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) if the bounds or limits of the scan
    /// are invalid.
    pub fn scan(&self, scan: Scan) -> Result<ResultScanner> {
        scan.check(&self.name)
            .map_err(|error| error.at_operation("scan").at_table(&self.name))?;
        Ok(ResultScanner::new(self.clone(), scan))
    }

    /// Writes a put or a delete.
    async fn mutate(&self, name: &'static str, mutation: Mutation) -> Result<()> {
        self.check(&mutation)
            .map_err(|error| error.at_table(&self.name))?;
        let operation = lanes::Operation::mutation(&mutation);
        let kind = match mutation.is_repeatable() {
            true => CallKind::IdempotentWrite,
            false => CallKind::Write,
        };
        let mut attempts = self.attempts(name, Cow::Borrowed(mutation.row()), kind);
        self.wait_out_deletes([&mutation]).await;
        loop {
            let location = attempts.locate().await?;
            let (client, limit) = (&self.connection.shared, attempts.attempt_limit(&location));
            match client
                .execute(&location, &self.options.call, &operation, limit)
                .await
            {
                Ok(_) => {
                    attempts.succeed();
                    self.record_deletes([&mutation]);
                    return Ok(());
                }
                Err(failure) => attempts.recover(failure, &location).await?,
            }
        }
    }

    /// Waits until the server stamps these mutations later than the acknowledged deletes of their rows.
    pub(super) async fn wait_out_deletes<'m>(&self, mutations: impl IntoIterator<Item = &'m Mutation>) {
        let stamped = mutations
            .into_iter()
            .filter(|mutation| !mutation.is_delete() && mutation.is_stamped_by_server());
        let rows = stamped.map(|mutation| &**mutation.row());
        let recent = &self.connection.shared.recent_deletes;
        if let Some(end) = recent.end_of_pause(&self.name, rows) {
            Box::pin(sleep_until(end)).await;
        }
    }

    /// Records that these mutations were applied.
    pub(super) fn record_deletes<'m>(&self, applied: impl IntoIterator<Item = &'m Mutation>) {
        let deletes = applied
            .into_iter()
            .filter(|mutation| mutation.is_delete() && mutation.is_stamped_by_server());
        let rows = deletes.map(|mutation| &**mutation.row());
        self.connection.shared.recent_deletes.add(&self.name, rows);
    }

    /// Returns the limits that this client checks before sending.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_cell_size: self.connection.config().max_cell_size(),
        }
    }

    /// Returns the deadline of a call that begins now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.operation_timeout
    }

    pub(super) fn attempts<'a>(
        &'a self,
        name: &'static str,
        row: Cow<'a, Bytes>,
        kind: CallKind,
    ) -> Attempts<'a> {
        let operation = Operation {
            name,
            table: &self.name,
            row,
            kind,
            deadline: self.deadline(),
        };
        Attempts::new(&self.connection.shared.cluster, operation)
    }

    pub(super) async fn call<M: Message, R: Message + Default>(
        &self,
        location: &RegionLocation,
        method: &'static str,
        request: &M,
        limit: AttemptLimit,
    ) -> Result<(R, CellBlockDecoder), CallError> {
        self.connection
            .shared
            .call(location, &self.options.call, method, request, limit)
            .await
    }
}

/// Reads whether the row of a get exists.
pub(super) fn exists(answer: pb::Result, _: CellBlockDecoder) -> Result<bool, CallError> {
    Ok(answer.exists == Some(true))
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({})", self.name)
    }
}
