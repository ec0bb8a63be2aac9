//! The handle of a table, and the options of its calls.

use std::{fmt, sync::Arc, time::Duration};

use prost::Message;
use tokio::{runtime::Handle, time::Instant};

use super::Connection;
use crate::{
    cluster::RegionLocation,
    config::bounded,
    error::Result,
    model::{
        Durability, IntoBytes, IntoTableName, Limits, Mutation, TableDescriptor, TableName, set_attribute,
    },
    rpc::{AttemptLimit, CallError, CallOptions, ServiceKind},
    wire::cell_block::{CellBlockDecoder, Codec},
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

    /// Returns the limits that this client checks before sending.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_cell_size: self.connection.config().max_cell_size(),
        }
    }

    /// Returns the runtime in which the connection was made.
    pub(crate) fn runtime(&self) -> &Handle {
        self.connection.cluster().runtime()
    }

    /// Returns the deadline of a call that begins now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.operation_timeout
    }

    pub(super) async fn call<M: Message, R: Message + Default>(
        &self,
        location: &RegionLocation,
        method: &'static str,
        request: &M,
        limit: AttemptLimit,
    ) -> Result<(R, CellBlockDecoder), CallError> {
        let options = &self.options.call;
        self.connection
            .cluster()
            .call_region_server(location, ServiceKind::Client, options, method, request, limit)
            .await
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({})", self.name)
    }
}
