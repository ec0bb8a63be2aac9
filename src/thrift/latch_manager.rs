//! Latches of one client in one table, through a gateway.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use hbase_client::{IntoTableName, TableName};
use hbase_keyed_lock::KeyedLock;

use super::{
    connection::ThriftConnection,
    latch::ThriftLatch,
    latch_location::{LatchRows, ThriftLatchLocation},
    rows::Rows,
};
use crate::{
    error::{Error, Result},
    java_layout::Level,
    latch::{Cells, LatchName, LatchTableOptions, Watch, check_farm},
};

const COUNTS: Bytes = Bytes::from_static(LatchTableOptions::FAMILY.as_bytes());
const NOTES: Bytes = Bytes::from_static(LatchTableOptions::STATE_FAMILY.as_bytes());
const NO_TABLE: &str = "check its name; a gateway cannot create it, LatchManagerOptions::open_or_create can";

/// The latches of one client (a service, say) in one table, through a Thrift gateway.
///
/// They are the latches of a [`LatchManager`](crate::latch::LatchManager), in the same rows and
/// cells: native clients, Java clients and clients of a gateway count and await the same latches. A
/// count takes six calls through a gateway and two natively; a read takes one.
///
/// The differences are:
///
/// - participants cannot arrive through a gateway, and there are no barriers;
/// - a latch can be counted only if a note records its end. That is so for all latches except those
///   that a Java client created and that no client of this library has counted since;
/// - a count at the same moment as a Java client's may have an [unknown
///   outcome](Error::is_outcome_unknown).
///
/// Cheap to clone; clones share everything. Create one per process, client and table: one task
/// polls for all waiters of the clones of one manager.
///
/// # Example
///
/// ```no_run
/// # async fn example() -> hbase_txn::Result<()> {
/// use std::time::Duration;
///
/// use hbase_txn::{
///     Level, latch::WaitOutcome, thrift::{ThriftConnection, ThriftLatchManagerOptions},
/// };
///
/// let gateway = ThriftConnection::connect("gateway.example:9090").await?;
/// let latches = ThriftLatchManagerOptions::new("billing", "fra")
///     .open(&gateway, "D_LTCH_jobs")
///     .await?;
/// let parts = latches.latch(Level::Dc, "invoices-2026-11")?;
/// parts.init(3, Duration::from_secs(3_600)).await?;
/// // Each worker, when its part is done:
/// parts.count_down(1).await?;
/// // Every process that needs all parts:
/// if parts.wait(Duration::from_secs(600)).await? == WaitOutcome::Reached {
///     // … all are done …
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ThriftLatchManager {
    shared: Arc<Shared>,
}

/// The state that all latches of one client and table share within this process.
pub(super) struct Shared {
    pub(super) rows: LatchRows,
    client: String,
    farm: String,
    /// Whether the table has a family for notes.
    has_state: bool,
    /// The shorter TTL of the two families. `None` if both are without limit.
    pub(super) cells_live: Option<Duration>,
    /// One task of this process changes a latch at a time, because concurrent changes would
    /// conflict.
    pub(super) turns: KeyedLock<Bytes>,
    pub(super) watch: Watch<LatchRows>,
}

/// The options of a [`ThriftLatchManager`].
#[derive(Clone, Debug)]
#[must_use = "options do nothing until open is called"]
pub struct ThriftLatchManagerOptions {
    client: String,
    farm: String,
}

impl ThriftLatchManagerOptions {
    /// Creates options for the latches of this client id, which is a part of every latch's name.
    /// This process counts in the column of this farm (data centre), at either level.
    pub fn new(client: impl Into<String>, farm: impl Into<String>) -> Self {
        Self {
            client: client.into(),
            farm: farm.into(),
        }
    }

    /// Opens a latch table, and uses it unchanged. Sends two calls.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for an invalid client or farm;
    /// - [`TableNotFound`](crate::ClientErrorKind::TableNotFound) or
    ///   [`TableDisabled`](crate::ClientErrorKind::TableDisabled);
    /// - [`FamilyNotFound`](crate::ClientErrorKind::FamilyNotFound) if the table has no family `C`;
    /// - the errors of the calls.
    pub async fn open(
        self,
        gateway: &ThriftConnection,
        name: impl IntoTableName,
    ) -> Result<ThriftLatchManager> {
        let name = name.into_table_name()?;
        let in_context = |error: Error| error.at_operation("opening for latches").at_table(&name);
        // Whether a client is valid does not depend on the id.
        LatchName::new(&self.client, "-").map_err(in_context)?;
        check_farm(&self.farm).map_err(in_context)?;
        let of_family = |family| Rows {
            connection: gateway.clone(),
            table: name.clone(),
            family,
        };
        let rows = LatchRows {
            counts: of_family(COUNTS),
            notes: of_family(NOTES),
        };
        let families = rows.counts.families(NO_TABLE, gateway.deadline()).await;
        let families = families.map_err(in_context)?;
        if !families.contains_key(&COUNTS) {
            let error = rows.counts.no_family(&COUNTS, ", in which counts are kept");
            return Err(in_context(
                error.with_hint("name a table that was made for latches"),
            ));
        }
        let lives = [COUNTS, NOTES].map(|family| families.get(&family).copied().flatten());
        Ok(ThriftLatchManager {
            shared: Arc::new(Shared {
                watch: Watch::new(rows.clone()),
                rows,
                client: self.client,
                farm: self.farm,
                has_state: families.contains_key(&NOTES),
                cells_live: lives.into_iter().flatten().min(),
                turns: KeyedLock::new(),
            }),
        })
    }
}

impl ThriftLatchManager {
    /// Returns a latch of this client. Sends nothing; the latch need not exist.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the id is empty or too
    /// long.
    pub fn latch(&self, level: Level, id: &str) -> Result<ThriftLatch> {
        let Shared {
            rows,
            client,
            farm,
            has_state,
            ..
        } = &*self.shared;
        let name = LatchName::new(client, id)
            .map_err(|error| error.at_operation("naming a latch").at_table(self.table()))?;
        let location = ThriftLatchLocation {
            rows: rows.clone(),
            cells: Cells::new(name.row(), level, farm, *has_state),
        };
        Ok(ThriftLatch::new(Arc::clone(&self.shared), name.key(), location))
    }

    /// Returns the table's name.
    #[must_use]
    pub fn table(&self) -> &TableName {
        &self.shared.rows.counts.table
    }

    /// Returns whether the table has the family `S`, which changes through a gateway need; see
    /// [`LatchTableOptions::no_state_family`].
    #[must_use]
    pub fn has_state_family(&self) -> bool {
        self.shared.has_state
    }
}

impl fmt::Debug for ThriftLatchManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThriftLatchManager")
            .field("gateway", self.shared.rows.counts.connection.gateway())
            .field("table", self.table())
            .field("client", &self.shared.client)
            .field("farm", &self.shared.farm)
            .finish_non_exhaustive()
    }
}
