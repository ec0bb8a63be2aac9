//! Latches of one client in one table.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    barrier::Barrier,
    handle::{Latch, no_place_for_participants},
    layout::Cells,
    name::{LatchName, check_farm},
    table::Families,
    watch::Watch,
};
use crate::{
    client::{Connection, Table},
    error::{Error, ErrorKind, Result},
    keyed_lock::KeyedLock,
    model::{Level, TableName},
};

/// The latches of one client (a service, say) in one table.
///
/// Cheap to clone; clones share everything. Make one per process, client and table: all that wait for latches through the
/// clones of one manager are served by one task, in one call per region server at a time as long as they are no more than 1,250.
///
/// # Example
///
/// ```no_run
/// # async fn example(connection: hbase_txn::Connection) -> hbase_txn::Result<()> {
/// use std::time::Duration;
///
/// use hbase_txn::{Level, LatchManagerOptions, WaitOutcome};
///
/// let latches = LatchManagerOptions::new("billing", "fra")
///     .open(&connection, "D_LTCH_jobs".parse()?)
///     .await?;
/// let parts = latches.latch(Level::Dc, "invoices-2026-11")?;
/// parts.init(3, Duration::from_secs(3_600)).await?;
/// // Each worker, when its part is done; once, however often it is tried:
/// parts.arrive("worker-1").await?;
/// // Whoever needs all parts:
/// if parts.wait(Duration::from_secs(600)).await? == WaitOutcome::Reached {
///     // … all are done …
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct LatchManager {
    pub(super) shared: Arc<Shared>,
}

/// What all latches of one client in one table have in common.
pub(super) struct Shared {
    /// Its cells say when they expire.
    pub(super) table: Table,
    client: String,
    farm: String,
    pub(super) families: Families,
    /// One task of this process changes a latch at a time; others would only be in its way.
    pub(super) turns: KeyedLock<Bytes>,
    pub(super) watch: Watch<Table>,
}

impl Shared {
    /// Of a table whose cells say when they expire.
    pub(super) fn new(table: Table, client: String, farm: String, families: Families) -> Arc<Self> {
        Arc::new(Self {
            watch: Watch::new(table.clone()),
            table,
            client,
            farm,
            families,
            turns: KeyedLock::new(),
        })
    }
}

/// How a [`LatchManager`] is opened.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until open is called"]
pub struct LatchManagerOptions {
    client: String,
    farm: String,
}

impl LatchManagerOptions {
    /// Latches of this client id, a part of every latch's name; counted here in the column of this farm (data centre), at
    /// either level.
    pub fn new(client: impl Into<String>, farm: impl Into<String>) -> Self {
        Self {
            client: client.into(),
            farm: farm.into(),
        }
    }

    /// Opens a latch table: looks at its descriptor and takes it as it is.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a client or farm that can't be;
    /// [`TableNotFound`](ErrorKind::TableNotFound), [`TableDisabled`](ErrorKind::TableDisabled);
    /// [`FamilyNotFound`](ErrorKind::FamilyNotFound) when the table has no family `C`.
    pub async fn open(self, connection: &Connection, name: TableName) -> Result<LatchManager> {
        let blame = |error: Error| error.at_operation("opening for latches").at_table(&name);
        // A name that is good for one id is good for all that fit.
        LatchName::new(&self.client, "-").map_err(blame)?;
        check_farm(&self.farm).map_err(blame)?;
        let deadline = Instant::now() + connection.config().operation_timeout();
        let descriptor = connection.admin().usable_descriptor(&name, deadline).await;
        let descriptor = descriptor.map_err(|error| {
            blame(match error.kind() {
                ErrorKind::TableNotFound => error.with_hint(
                    "check its name; hbase-txn latch init makes the table, and in a program LatchTableOptions",
                ),
                _ => error,
            })
        })?;
        let families = Families::of(&descriptor).map_err(blame)?;
        let table = connection.table(name).with_expiry();
        Ok(LatchManager {
            shared: Shared::new(table, self.client, self.farm, families),
        })
    }
}

impl LatchManager {
    /// A latch of this client; nothing is sent yet, and it need not exist.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](ErrorKind::InvalidInput) for an id that is empty or too long.
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

    /// A barrier of this client; nothing is sent yet, and it need not exist. It has no farm: the parties may be anywhere.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](ErrorKind::InvalidInput) for an id that is empty or too long;
    /// [`FamilyNotFound`](ErrorKind::FamilyNotFound) in a table without the state family.
    pub fn barrier(&self, id: &str) -> Result<Barrier> {
        let Shared {
            table,
            client,
            families,
            ..
        } = &*self.shared;
        let blame = |error: Error| error.at_operation("naming a barrier").at_table(table.name());
        let name = LatchName::new(client, id).map_err(blame)?;
        if !families.state {
            return Err(blame(no_place_for_participants(table.name())));
        }
        Ok(Barrier::new(
            table.clone(),
            name.key(),
            name.row(),
            families.cells_live,
        ))
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &TableName {
        self.shared.table.name()
    }

    /// Whether the table has the family in which more is known of a latch than Java's layout can say; see
    /// [`LatchTableOptions::no_state_family`](super::LatchTableOptions::no_state_family).
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
