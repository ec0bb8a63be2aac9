//! Locks of one client in one table, through a gateway.

use std::{fmt, sync::Arc};

use super::{connection::ThriftConnection, hold::Place, request::ThriftLockRequest, rows::Rows};
use crate::{
    config::login_name,
    error::{Error, Result},
    lock::{FAMILY, LockInfo, LockName, LockRows, LockToken, Party, ReleaseOutcome, default_holder},
    model::{BytesBinary, Level, TableName},
};

const NO_TABLE: &str = "check its name; a gateway can't make it, hbase-txn lock acquire makes one natively";

/// The locks of one client (a service, say) in one table, through a Thrift gateway.
///
/// They are the locks of a [`LockManager`](crate::LockManager), in the same rows: who reaches HBase itself and who goes through a gateway
/// exclude each other, and Java clients as well as those natively do. What is promised is the same, at a price: where one call does
/// it natively, a lock that is free costs five calls through a gateway, seven with a companion row (one more when nobody had it for a
/// week); a renewal four or seven, a release three or four, a look one.
///
/// What a gateway can't do is not offered: several locks at once, locks in partitions, transactions that are fenced by a lock,
/// taking a lock away, lists.
///
/// Cheap to clone; clones share everything. Make one per process, client and table: the tasks of a process queue up for a
/// lock only among the clones of one manager.
///
/// # Example
///
/// ```no_run
/// # async fn example() -> hbase_txn::Result<()> {
/// use hbase_txn::{Level, ThriftConnection, ThriftLockManagerOptions};
///
/// let gateway = ThriftConnection::connect("gateway.example:9090").await?;
/// let locks = ThriftLockManagerOptions::new("billing")
///     .farm("fra")
///     .open(&gateway, "dlm_locks".parse()?)
///     .await?;
/// if let Some(guard) = locks.lock(Level::Dc, "invoice-7")?.try_acquire().await? {
///     // … what only one may do …
///     guard.release().await?;
/// }
/// # Ok(()) }
/// ```
///
/// A transaction can't be fenced by a lock that is held through a gateway. What compiles with a [`LockGuard`](crate::LockGuard),
///
/// ```no_run
/// # fn example(mut transaction: hbase_txn::Transaction, guard: hbase_txn::LockGuard) {
/// let fenced = transaction.fenced_by(&guard);
/// # }
/// ```
///
/// does not with a guard of this:
///
/// ```compile_fail,E0308
/// # fn example(mut transaction: hbase_txn::Transaction, guard: hbase_txn::ThriftLockGuard) {
/// let fenced = transaction.fenced_by(&guard);
/// # }
/// ```
#[derive(Clone)]
pub struct ThriftLockManager {
    rows: Rows,
    client: String,
    farm: Option<String>,
    companion: bool,
    party: Arc<Party>,
}

/// How a [`ThriftLockManager`] is opened.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until open is called"]
pub struct ThriftLockManagerOptions {
    client: String,
    farm: Option<String>,
    holder: Option<String>,
    companion: bool,
}

impl ThriftLockManagerOptions {
    /// Locks of this client id: a part of every lock's name, the same for all processes that are to exclude each other.
    pub fn new(client: impl Into<String>) -> Self {
        Self {
            client: client.into(),
            farm: None,
            holder: None,
            companion: true,
        }
    }

    /// The farm (data centre) that locks of level [`Dc`](Level::Dc) belong to. Without it there are none of that level.
    pub fn farm(mut self, farm: impl Into<String>) -> Self {
        self.farm = Some(farm.into());
        self
    }

    /// What this process calls itself where it holds a lock, for people who look; `user@host:pid` unless said.
    pub fn holder(mut self, name: impl Into<String>) -> Self {
        self.holder = Some(name.into());
        self
    }

    /// For a table that was made with [`LockTableOptions::ours_alone`](crate::LockTableOptions::ours_alone): locks have no companion
    /// row there. A gateway does not show that attribute of the table, so it must be said. If it is said of a table that has companions,
    /// or not of one that has none, locks still exclude each other, but fencing numbers are counted in two places.
    pub fn ours_alone(mut self) -> Self {
        self.companion = false;
        self
    }

    /// Opens a lock table: takes it as it is, and refuses what no lock can live in. Two calls.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a client, farm or holder that can't be;
    /// [`TableNotFound`](crate::ErrorKind::TableNotFound), [`TableDisabled`](crate::ErrorKind::TableDisabled);
    /// [`FamilyNotFound`](crate::ErrorKind::FamilyNotFound) when the table has no family `D`.
    pub async fn open(self, gateway: &ThriftConnection, name: TableName) -> Result<ThriftLockManager> {
        let blame = |error: Error| error.at_operation("opening for locks").at_table(&name);
        // A name that is good for one id is good for all that fit.
        LockName::xdc(&self.client, "-").map_err(blame)?;
        if let Some(farm) = &self.farm {
            LockName::dc(farm, &self.client, "-").map_err(blame)?;
        }
        let holder = self.holder.unwrap_or_else(|| default_holder(&login_name()));
        let rows = Rows {
            connection: gateway.clone(),
            table: name.clone(),
            family: FAMILY,
        };
        let families = rows.families(NO_TABLE, gateway.deadline()).await.map_err(blame)?;
        let cells_live = *families
            .get(&FAMILY)
            .ok_or_else(|| blame(rows.no_family(&FAMILY, "")))?;
        let party = Party::new(holder, cells_live).map_err(blame)?;
        Ok(ThriftLockManager {
            rows,
            client: self.client,
            farm: self.farm,
            companion: self.companion,
            party: Arc::new(party),
        })
    }
}

impl ThriftLockManager {
    /// Asks for a lock; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an id that is empty or too long, and for a lock of one farm where no
    /// farm was named.
    pub fn lock(&self, level: Level, id: &str) -> Result<ThriftLockRequest> {
        let (name, place) = self.place(level, id)?;
        Ok(ThriftLockRequest::new(
            Arc::clone(&self.party),
            name.key().to_owned(),
            place,
        ))
    }

    /// Who holds a lock. One call, which reads each of its rows for itself.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), and those of the call.
    pub async fn show(&self, level: Level, id: &str) -> Result<LockInfo> {
        let (name, place) = self.place(level, id)?;
        let sights = place.look(self.rows.connection.deadline()).await?;
        let key = BytesBinary(name.key().as_bytes()).to_string();
        Ok(LockInfo::of(Some(name), key, &sights))
    }

    /// Releases a lock of another process, by the token that it was told. Nothing goes on in the background: where it fails,
    /// call it again.
    ///
    /// # Errors
    ///
    /// Those of the calls, within the operation timeout.
    pub async fn release(&self, level: Level, id: &str, token: LockToken) -> Result<ReleaseOutcome> {
        let (name, place) = self.place(level, id)?;
        let released = place.release(token, self.rows.connection.deadline()).await;
        let loss = released.map_err(|error| error.at_operation(format!("lock {name}")))?;
        Ok(loss.map_or(ReleaseOutcome::Released, ReleaseOutcome::Lost))
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &TableName {
        &self.rows.table
    }

    fn place(&self, level: Level, id: &str) -> Result<(LockName, Place)> {
        let name = match (level, &self.farm) {
            (Level::Dc, Some(farm)) => LockName::dc(farm, &self.client, id),
            (Level::Dc, None) => Err(Error::invalid("a lock of one farm, but no farm was named")),
            (Level::Xdc, _) => LockName::xdc(&self.client, id),
        };
        let name = name.map_err(|error| error.at_operation("naming a lock").at_table(self.table()))?;
        let lock = match self.companion {
            true => LockRows::with_companion(name.row()),
            false => LockRows::alone(FAMILY, name.row()),
        };
        let rows = self.rows.clone();
        Ok((name, Place { rows, lock }))
    }
}

impl fmt::Debug for ThriftLockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThriftLockManager")
            .field("gateway", self.rows.connection.gateway())
            .field("table", self.table())
            .field("client", &self.client)
            .field("farm", &self.farm)
            .finish_non_exhaustive()
    }
}
