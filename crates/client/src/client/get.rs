//! Reads of single rows, and the location of a row.

use std::sync::Arc;

use tokio::time::Instant;

use super::{CallKind, RegionCall, Table, dispatch::lanes::Operation, timeline::first_answer};
use crate::{
    cluster::RegionLocation,
    error::Result,
    model::{Consistency, Get, IntoBytes, Row, TableRegion},
    rpc::CallError,
    wire::{cell_block::CellBlockDecoder, convert, pb},
};

impl Table {
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
        RegionCall::new(self, "get", &get.row, CallKind::Read, self.deadline())
            .execute(&Operation::get(&get))
            .await
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
            Ok(if is_stale {
                Some(
                    row.unwrap_or_else(|| Row::new(get.row.clone(), Vec::new()))
                        .with_stale(true),
                )
            } else {
                row
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
        let mut attempts = RegionCall::new(self, name, &get.row, CallKind::Read, deadline);
        loop {
            let primary = attempts.locate().await?;
            let limit = attempts.attempt(&primary).limit();
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
            let answer = answer.and_then(|(answer, block)| read(answer.result.unwrap_or_default(), block));
            match attempts.attempt(&location).ended(answer) {
                Ok(answer) => return Ok(answer),
                Err(failure) => attempts.recover(failure).await?,
            }
        }
    }
}

/// Reads whether the row of a get exists.
pub(super) fn exists(answer: pb::Result, _: CellBlockDecoder) -> Result<bool, CallError> {
    Ok(answer.exists == Some(true))
}
