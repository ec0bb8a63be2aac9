//! Latches of one client in one table.

use std::{fmt, sync::Arc};

use hbase_admin::Admin;
use hbase_client::{Connection, IntoTableName, TableName, low_level::TableCalls};

use super::{
    barrier::{Barrier, DoubleBarrier},
    handle::{Latch, no_place_for_participants},
    layout::Cells,
    name::{LatchName, check_farm},
    shared::Shared,
    table::{Families, LatchTableOptions},
};
use crate::{
    error::{Error, Result},
    java_layout::Level,
    table_descriptor::usable_or_created,
};

/// The latches of one client (a service, say) in one table.
///
/// Cheap to clone; clones share everything. Create one per process, client and table: one task
/// polls for all waiters for latches of the clones of one manager, with one call per region server at a
/// time for up to 1,250 latches, and another one polls for those at barriers.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use hbase_txn::{Level, latch::LatchManagerOptions};
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_table("D_LTCH_jobs", &["C", "S"], &[]);
/// # let connection = hbase.connect().await?;
/// let latches = LatchManagerOptions::new("billing", "fra")
///     .open(&connection, "D_LTCH_jobs")
///     .await?;
/// let parts = latches.latch(Level::Dc, "invoices-2026-11")?;
/// parts.init(3, Duration::from_secs(3_600)).await?;
/// // A worker that repeats its call is counted once.
/// parts.arrive("worker-1").await?;
/// parts.arrive("worker-1").await?;
/// assert_eq!(parts.show().await?.count, Some(2));
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct LatchManager {
    pub(super) shared: Arc<Shared>,
}

/// The hint of a table that does not exist.
const MISSING: &str = "check its name, or create it with LatchManagerOptions::open_or_create";

/// The options of a [`LatchManager`].
#[derive(Clone, Debug)]
#[must_use = "options do nothing until open is called"]
pub struct LatchManagerOptions {
    client: String,
    farm: String,
}

impl LatchManagerOptions {
    /// Creates options for the latches of this client id, which is a part of every latch's name.
    /// This process counts in the column of this farm (data centre), at either level.
    pub fn new(client: impl Into<String>, farm: impl Into<String>) -> Self {
        Self {
            client: client.into(),
            farm: farm.into(),
        }
    }

    /// Opens a latch table. Reads its descriptor, and uses the table unchanged. A missing table is
    /// an error; see [`open_or_create`](Self::open_or_create).
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for an invalid client or farm;
    /// - [`TableNotFound`](crate::ClientErrorKind::TableNotFound) or
    ///   [`TableDisabled`](crate::ClientErrorKind::TableDisabled);
    /// - [`FeatureUnknown`](crate::ErrorKind::FeatureUnknown) for a table that only newer releases
    ///   may use;
    /// - [`FamilyNotFound`](crate::ClientErrorKind::FamilyNotFound) if the table has no family `C`.
    pub async fn open(self, connection: &Connection, name: impl IntoTableName) -> Result<LatchManager> {
        self.open_table(connection, name.into_table_name()?, None).await
    }

    /// Opens the latch table that these options describe, and creates it first if it does not exist.
    ///
    /// An existing table is used unchanged. Several processes may open and create the table at the
    /// same time.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open), except
    /// [`TableNotFound`](crate::ClientErrorKind::TableNotFound), and those of
    /// [`LatchTableOptions::create`](super::LatchTableOptions::create).
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_txn::latch::{LatchManagerOptions, LatchTableOptions};
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # let connection = hbase.connect().await?;
    /// let table = LatchTableOptions::new("D_LTCH_jobs")?.regions(4);
    /// let latches = LatchManagerOptions::new("billing", "fra")
    ///     .open_or_create(&connection, table)
    ///     .await?;
    /// # assert_eq!(hbase_txn::admin::Admin::new(&connection).regions(latches.table()).await?.len(), 4);
    /// # Ok(()) });
    /// ```
    pub async fn open_or_create(
        self,
        connection: &Connection,
        table: LatchTableOptions,
    ) -> Result<LatchManager> {
        self.open_table(connection, table.name().clone(), Some(table))
            .await
    }

    async fn open_table(
        self,
        connection: &Connection,
        name: TableName,
        create: Option<LatchTableOptions>,
    ) -> Result<LatchManager> {
        let in_context = |error: Error| error.at_operation("opening for latches").at_table(&name);
        // Whether a client is valid does not depend on the id.
        LatchName::new(&self.client, "-").map_err(in_context)?;
        check_farm(&self.farm).map_err(in_context)?;
        let admin = Admin::new(connection);
        let timeout = connection.config().operation_timeout();
        let create = create.as_ref().map(|table| table.create(&admin));
        let descriptor = usable_or_created(&admin, &name, timeout, create, MISSING, in_context).await?;
        let families = Families::of(&descriptor).map_err(in_context)?;
        let table = connection
            .table(name)?
            .with_durability_of(&descriptor)
            .with_expiry();
        Ok(LatchManager {
            shared: Shared::new(table, self.client, self.farm, families),
        })
    }
}

impl LatchManager {
    /// Returns a latch of this client. Sends nothing; the latch need not exist.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the id is empty or too
    /// long.
    pub fn latch(&self, level: Level, id: &str) -> Result<Latch> {
        let Shared {
            client,
            farm,
            families,
            ..
        } = &*self.shared;
        let name = LatchName::new(client, id)
            .map_err(|error| error.at_operation("naming a latch").at_table(self.table()))?;
        let cells = Cells::new(name.row(), level, farm, families.state);
        Ok(Latch::new(Arc::clone(&self.shared), name.key(), cells))
    }

    /// Returns a barrier of this client. Sends nothing; the barrier need not exist. A barrier has
    /// no farm: its parties may be in any data centre.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the id is empty or too long;
    /// - [`FamilyNotFound`](crate::ClientErrorKind::FamilyNotFound) if the table does not have the
    ///   state family.
    pub fn barrier(&self, id: &str) -> Result<Barrier> {
        let Shared {
            table,
            client,
            families,
            ..
        } = &*self.shared;
        let in_context = |error: Error| error.at_operation("naming a barrier").at_table(table.name());
        let name = LatchName::new(client, id).map_err(in_context)?;
        if !families.state {
            return Err(in_context(no_place_for_participants()));
        }
        Ok(Barrier::new(Arc::clone(&self.shared), name.key(), name.row()))
    }

    /// Returns a double barrier of this client. Sends nothing; the barrier need not exist. It has the
    /// place of the [barrier](Self::barrier) of this id: one of the two can exist.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`barrier`](Self::barrier).
    pub fn double_barrier(&self, id: &str) -> Result<DoubleBarrier> {
        self.barrier(id).map(DoubleBarrier::new)
    }

    /// Returns the table's name.
    #[must_use]
    pub fn table(&self) -> &TableName {
        self.shared.table.name()
    }

    /// Returns whether the table has the family for the state that Java's layout cannot express;
    /// see [`LatchTableOptions::no_state_family`](super::LatchTableOptions::no_state_family).
    #[must_use]
    pub fn has_state_family(&self) -> bool {
        self.shared.families.state
    }
}

impl fmt::Debug for LatchManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LatchManager")
            .field("table", self.table())
            .field("client", &self.shared.client)
            .field("farm", &self.shared.farm)
            .finish_non_exhaustive()
    }
}
