//! The administration of tables and regions.

use std::{fmt, time::Duration};

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use super::{
    Connection,
    procedure::{Ended, Started},
};
use crate::{
    cluster::CallKind,
    config::bounded,
    error::{Error, ErrorKind, Result},
    model::{BytesBinary, RegionInfo, ServerName, TableDescriptor, TableName, TableState},
    wire::{convert, pb},
};

/// The administration of a cluster's tables and regions.
///
/// Calls that change something wait until the master has done it, within the operation timeout; when that passes,
/// the master goes on by itself. Each carries a nonce, so that a call that is sent again is done once.
///
/// Flushes and compactions are done by the region servers, and are waited for likewise.
#[derive(Clone)]
pub struct Admin {
    pub(super) connection: Connection,
    operation_timeout: Duration,
}

/// A region of a table, and where it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableRegion {
    /// The region.
    pub region: RegionInfo,
    /// Its server; none while it is unassigned.
    pub server: Option<ServerName>,
}

impl Admin {
    pub(super) fn new(connection: Connection) -> Self {
        let operation_timeout = connection.config().operation_timeout();
        Self {
            connection,
            operation_timeout,
        }
    }

    /// The same, with another operation timeout.
    #[must_use]
    pub fn with_operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = bounded(timeout);
        self
    }

    /// The names of all tables that are not HBase's own.
    ///
    /// # Errors
    ///
    /// When the master can't be reached or does not allow it.
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

    /// A table's descriptor.
    ///
    /// # Errors
    ///
    /// [`TableNotFound`](ErrorKind::TableNotFound).
    pub async fn descriptor(&self, table: &TableName) -> Result<TableDescriptor> {
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

    /// Whether a table exists.
    ///
    /// # Errors
    ///
    /// When the master can't be reached or does not allow it.
    pub async fn exists(&self, table: &TableName) -> Result<bool> {
        match self.descriptor(table).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::TableNotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a table is enabled.
    ///
    /// # Errors
    ///
    /// [`TableNotFound`](ErrorKind::TableNotFound).
    pub async fn state(&self, table: &TableName) -> Result<TableState> {
        let request = pb::GetTableStateRequest {
            table_name: convert::table_name_message(table),
        };
        let answer: pb::GetTableStateResponse = self
            .call("GetTableState", &request)
            .await
            .map_err(|error| error.at_table(table))?;
        Ok(convert::table_state(&answer.table_state))
    }

    /// The regions of a table, in order, as `hbase:meta` has them now.
    ///
    /// # Errors
    ///
    /// [`TableNotFound`](ErrorKind::TableNotFound).
    pub async fn regions(&self, table: &TableName) -> Result<Vec<TableRegion>> {
        let regions = self.connection.cluster.regions_of(table, self.deadline()).await?;
        Ok(regions
            .into_iter()
            .map(|found| TableRegion {
                region: found.region,
                server: found.server,
            })
            .collect())
    }

    /// Creates a table, with a region boundary at each split key. The keys are put in order.
    ///
    /// # Errors
    ///
    /// [`TableExists`](ErrorKind::TableExists), [`NamespaceNotFound`](ErrorKind::NamespaceNotFound);
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a table without families, an empty or doubled split key, and
    /// what the master's own checks refuse.
    pub async fn create_table(&self, descriptor: &TableDescriptor, split_keys: &[Bytes]) -> Result<()> {
        let blame = |error: Error| {
            error
                .at_operation("creating the table")
                .at_table(&descriptor.name)
        };
        let mut split_keys = split_keys.to_vec();
        split_keys.sort_unstable();
        descriptor.check().map_err(blame)?;
        if split_keys.first().is_some_and(Bytes::is_empty) {
            return Err(blame(Error::invalid("an empty split key")));
        }
        if let Some(pair) = split_keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(blame(Error::invalid(format!(
                "split key {} is given twice",
                BytesBinary(&pair[0])
            ))));
        }
        let request = pb::CreateTableRequest {
            table_schema: convert::table_schema(descriptor),
            split_keys,
            nonce_group: Some(nonce()),
            nonce: Some(nonce()),
        };
        let deadline = self.deadline();
        let ended = self
            .run::<_, pb::CreateTableResponse>("CreateTable", &request, deadline)
            .await;
        match ended.map_err(blame)? {
            Ended::Done => Ok(()),
            Ended::Forgotten => self
                .until(deadline)
                .descriptor(&descriptor.name)
                .await
                .map(drop)
                .map_err(blame),
        }
    }

    /// Replaces a table's descriptor; regions are reopened one by one so that the change takes effect.
    ///
    /// # Errors
    ///
    /// [`TableNotFound`](ErrorKind::TableNotFound), and what the master's own checks refuse.
    pub async fn modify_table(&self, descriptor: &TableDescriptor) -> Result<()> {
        let blame = |error: Error| {
            error
                .at_operation("modifying the table")
                .at_table(&descriptor.name)
        };
        descriptor.check().map_err(blame)?;
        let request = pb::ModifyTableRequest {
            table_name: convert::table_name_message(&descriptor.name),
            table_schema: convert::table_schema(descriptor),
            nonce_group: Some(nonce()),
            nonce: Some(nonce()),
            reopen_regions: Some(true),
        };
        let deadline = self.deadline();
        let ended = self
            .run::<_, pb::ModifyTableResponse>("ModifyTable", &request, deadline)
            .await;
        match ended.map_err(blame)? {
            Ended::Done => Ok(()),
            Ended::Forgotten => match self
                .until(deadline)
                .descriptor(&descriptor.name)
                .await
                .map_err(blame)?
            {
                found if found == *descriptor => Ok(()),
                _ => Err(blame(Error::new(
                    ErrorKind::Server,
                    "the table is not as it was asked to be",
                ))),
            },
        }
    }

    /// Takes a table offline. One that is offline already stays so.
    ///
    /// # Errors
    ///
    /// [`TableNotFound`](ErrorKind::TableNotFound).
    pub async fn disable_table(&self, table: &TableName) -> Result<()> {
        let blame = |error: Error| error.at_operation("disabling the table").at_table(table);
        let request = pb::DisableTableRequest {
            table_name: convert::table_name_message(table),
            nonce_group: Some(nonce()),
            nonce: Some(nonce()),
        };
        let deadline = self.deadline();
        let ended = self
            .run::<_, pb::DisableTableResponse>("DisableTable", &request, deadline)
            .await;
        // Releases differ in who says that there is nothing to do: the call, or the procedure that it started.
        match ended {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::TableDisabled => return Ok(()),
            Err(error) => return Err(blame(error)),
        }
        self.until(deadline)
            .expect_state(table, TableState::Disabled)
            .await
            .map_err(blame)
    }

    /// Brings a table back online. One that is online already stays so.
    ///
    /// # Errors
    ///
    /// [`TableNotFound`](ErrorKind::TableNotFound).
    pub async fn enable_table(&self, table: &TableName) -> Result<()> {
        let blame = |error: Error| error.at_operation("enabling the table").at_table(table);
        let request = pb::EnableTableRequest {
            table_name: convert::table_name_message(table),
            nonce_group: Some(nonce()),
            nonce: Some(nonce()),
        };
        let deadline = self.deadline();
        let ended = self
            .run::<_, pb::EnableTableResponse>("EnableTable", &request, deadline)
            .await;
        // Releases differ in who says that there is nothing to do: the call, or the procedure that it started.
        match ended {
            Ok(_) => {}
            Err(error) if is_class(&error, "TableNotDisabledException") => return Ok(()),
            Err(error) => return Err(blame(error)),
        }
        self.until(deadline)
            .expect_state(table, TableState::Enabled)
            .await
            .map_err(blame)
    }

    /// Deletes a table with all its rows; takes it offline first.
    ///
    /// # Errors
    ///
    /// [`TableNotFound`](ErrorKind::TableNotFound).
    pub async fn delete_table(&self, table: &TableName) -> Result<()> {
        let blame = |error: Error| error.at_operation("deleting the table").at_table(table);
        let deadline = self.deadline();
        self.until(deadline).disable_table(table).await.map_err(blame)?;
        let request = pb::DeleteTableRequest {
            table_name: convert::table_name_message(table),
            nonce_group: Some(nonce()),
            nonce: Some(nonce()),
        };
        let ended = self
            .run::<_, pb::DeleteTableResponse>("DeleteTable", &request, deadline)
            .await;
        match ended.map_err(blame)? {
            Ended::Forgotten if self.until(deadline).exists(table).await? => {
                Err(blame(Error::new(ErrorKind::Server, "the table is still there")))
            }
            Ended::Done | Ended::Forgotten => Ok(()),
        }
    }

    /// Creates a namespace. One that exists stays as it is.
    ///
    /// # Errors
    ///
    /// When the master can't be reached or does not allow it.
    pub async fn create_namespace(&self, namespace: &str) -> Result<()> {
        let request = pb::CreateNamespaceRequest {
            namespace_descriptor: pb::NamespaceDescriptor {
                name: Bytes::copy_from_slice(namespace.as_bytes()),
                configuration: Vec::new(),
            },
            nonce_group: Some(nonce()),
            nonce: Some(nonce()),
        };
        let deadline = self.deadline();
        let ended = self
            .run::<_, pb::CreateNamespaceResponse>("CreateNamespace", &request, deadline)
            .await;
        match ended {
            Ok(_) => Ok(()),
            Err(error) if is_class(&error, "NamespaceExistException") => Ok(()),
            Err(error) => Err(error.at_operation("creating the namespace")),
        }
    }

    /// Whether a namespace exists.
    ///
    /// # Errors
    ///
    /// When the master can't be reached or does not allow it.
    pub async fn namespace_exists(&self, namespace: &str) -> Result<bool> {
        let request = pb::GetNamespaceDescriptorRequest {
            namespace_name: namespace.to_owned(),
        };
        let answer: Result<pb::GetNamespaceDescriptorResponse> =
            self.call("GetNamespaceDescriptor", &request).await;
        match answer {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NamespaceNotFound => Ok(false),
            Err(error) => Err(error.at_operation(format!("looking for namespace {namespace}"))),
        }
    }

    /// Splits the region at a row; at a point of the server's choice without one. The table's split restriction
    /// may move the row to the beginning of its partition.
    ///
    /// # Errors
    ///
    /// When the row is the region's first, and what the master refuses else.
    pub async fn split_region(&self, region: &RegionInfo, row: Option<Bytes>) -> Result<()> {
        let blame = |error: Error| error.at_operation("splitting a region").at_table(&region.table);
        let request = pb::SplitTableRegionRequest {
            region_info: convert::region_info_message(region),
            split_row: row,
            nonce_group: Some(nonce()),
            nonce: Some(nonce()),
        };
        let ended = self
            .run::<_, pb::SplitTableRegionResponse>("SplitRegion", &request, self.deadline())
            .await;
        ended.map(drop).map_err(blame)
    }

    /// Merges regions that lie side by side into one.
    ///
    /// # Errors
    ///
    /// What the master refuses: regions that are not neighbours, or that still hold files of an earlier split.
    pub async fn merge_regions(&self, regions: &[RegionInfo]) -> Result<()> {
        let Some(first) = regions.first() else {
            return Err(Error::invalid("no regions to merge"));
        };
        let blame = |error: Error| error.at_operation("merging regions").at_table(&first.table);
        let request = pb::MergeTableRegionsRequest {
            region: regions.iter().map(convert::encoded_region_specifier).collect(),
            forcible: Some(false),
            nonce_group: Some(nonce()),
            nonce: Some(nonce()),
        };
        let ended = self
            .run::<_, pb::MergeTableRegionsResponse>("MergeTableRegions", &request, self.deadline())
            .await;
        ended.map(drop).map_err(blame)
    }

    /// Moves a region to another server.
    ///
    /// # Errors
    ///
    /// What the master refuses: a server that it does not know, a region in transition.
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

    /// Ends the cluster in order: region servers flush and close their regions, then the master goes. Returns when
    /// the master has begun.
    ///
    /// # Errors
    ///
    /// When the master can't be reached or does not allow it.
    pub async fn shut_down_cluster(&self) -> Result<()> {
        let _: pb::ShutdownResponse = self.call("Shutdown", &pb::ShutdownRequest {}).await?;
        Ok(())
    }

    async fn expect_state(&self, table: &TableName, wanted: TableState) -> Result<()> {
        match self.state(table).await? {
            state if state == wanted => Ok(()),
            state => Err(Error::new(
                ErrorKind::Server,
                format!("the table is {state} instead of {wanted}"),
            )),
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.operation_timeout
    }

    /// The same, for what is left of a call's time.
    pub(crate) fn until(&self, deadline: Instant) -> Self {
        let left = deadline.saturating_duration_since(Instant::now());
        self.clone().with_operation_timeout(left)
    }

    /// The descriptor of a table that is about to be used, by this deadline.
    ///
    /// # Errors
    ///
    /// Those of the calls; [`TableDisabled`](ErrorKind::TableDisabled).
    pub(crate) async fn usable_descriptor(
        &self,
        table: &TableName,
        deadline: Instant,
    ) -> Result<TableDescriptor> {
        let descriptor = self.until(deadline).descriptor(table).await?;
        let state = self.until(deadline).state(table).await?;
        if matches!(state, TableState::Disabled | TableState::Disabling) {
            let error = Error::new(ErrorKind::TableDisabled, format!("the table is {state}"));
            let error = self.at_master(error);
            return Err(error.with_hint(format!("enable it: hbase-txn table enable {table}")));
        }
        Ok(descriptor)
    }

    /// Says that an error is the master's word.
    fn at_master(&self, error: Error) -> Error {
        self.connection.cluster.at_master(error)
    }

    pub(super) async fn call<M: Message, R: Message + Default>(
        &self,
        method: &'static str,
        request: &M,
    ) -> Result<R> {
        self.connection
            .cluster
            .call_master(method, CallKind::Read, request, self.deadline())
            .await
    }

    /// Starts a procedure, and waits until it has ended.
    async fn run<M: Message, R: Started>(
        &self,
        method: &'static str,
        request: &M,
        deadline: Instant,
    ) -> Result<Ended> {
        let answer: R = self.call_until(method, request, deadline).await?;
        self.connection
            .await_procedure(answer.procedure(), deadline)
            .await
    }

    /// A change: it carries a nonce, or is the same when it is done twice.
    pub(super) async fn call_until<M: Message, R: Message + Default>(
        &self,
        method: &'static str,
        request: &M,
        deadline: Instant,
    ) -> Result<R> {
        self.connection
            .cluster
            .call_master(method, CallKind::IdempotentWrite, request, deadline)
            .await
    }
}

/// A nonce: never 0, which means none.
fn nonce() -> u64 {
    fastrand::u64(1..=u64::MAX)
}

pub(super) fn bad_answer(why: &dyn fmt::Display) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("the master's answer can't be read: {why}"),
    )
}

fn is_class(error: &Error, class: &str) -> bool {
    error
        .remote()
        .is_some_and(|remote| remote.simple_class() == class)
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Admin({})", self.connection.config().address())
    }
}
