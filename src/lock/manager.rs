//! Locks of one client in one table.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    guard::ReleaseOutcome,
    layout::{FAMILY, LockRows},
    name::LockName,
    owner::LockToken,
    party::{self, Party},
    place::Place,
    request::LockRequest,
    state::{LockHolder, LockInfo, LockLoss},
    table::{self, LockTableOptions},
};
use crate::{
    client::{Connection, ResultScanner, Table},
    error::{Error, ErrorKind, Result},
    model::{BytesBinary, Level, Scan, TableName},
};

/// The locks of one client (a service, say) in one table.
///
/// Cheap to clone; clones share everything. Make one per process, client and table: the tasks of a process queue up for a
/// lock only among the clones of one manager.
///
/// # Example
///
/// ```no_run
/// # async fn example(connection: hbase_txn::Connection) -> hbase_txn::Result<()> {
/// use hbase_txn::{Level, LockManagerOptions};
///
/// let locks = LockManagerOptions::new("billing")
///     .farm("fra")
///     .open(&connection, "dlm_locks".parse()?)
///     .await?;
/// if let Some(guard) = locks.lock(Level::Dc, "invoice-7")?.try_acquire().await? {
///     // … what only one may do …
///     guard.release().await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct LockManager {
    shared: Arc<Shared>,
}

struct Shared {
    table: Table,
    client: String,
    farm: Option<String>,
    companion: bool,
    party: Arc<Party>,
}

/// How a [`LockManager`] is opened.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until open is called"]
pub struct LockManagerOptions {
    client: String,
    farm: Option<String>,
    holder: Option<String>,
}

impl LockManagerOptions {
    /// Locks of this client id: a part of every lock's name, the same for all processes that are to exclude each other.
    pub fn new(client: impl Into<String>) -> Self {
        Self {
            client: client.into(),
            farm: None,
            holder: None,
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

    /// Opens a lock table: looks at its descriptor, takes it as it is, and refuses what no lock can live in.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a client, farm or holder that can't be;
    /// [`TableNotFound`](ErrorKind::TableNotFound), [`TableDisabled`](ErrorKind::TableDisabled);
    /// [`FamilyNotFound`](ErrorKind::FamilyNotFound) when the table has no family `D`.
    pub async fn open(self, connection: &Connection, name: TableName) -> Result<LockManager> {
        let blame = |error: Error| error.at_operation("opening for locks").at_table(&name);
        // A name that is good for one id is good for all that fit.
        LockName::xdc(&self.client, "-").map_err(blame)?;
        if let Some(farm) = &self.farm {
            LockName::dc(farm, &self.client, "-").map_err(blame)?;
        }
        let holder = self
            .holder
            .unwrap_or_else(|| party::default_holder(connection.config().user()));
        let deadline = Instant::now() + connection.config().operation_timeout();
        let descriptor = connection.admin().usable_descriptor(&name, deadline).await;
        let descriptor = descriptor.map_err(|error| {
            blame(match error.kind() {
                ErrorKind::TableNotFound => error.with_hint(
                    "check its name; hbase-txn lock acquire makes the table, and in a program LockTableOptions",
                ),
                _ => error,
            })
        })?;
        let family = table::lock_family(&descriptor).map_err(blame)?;
        let party = Arc::new(Party::new(holder, family.time_to_live()).map_err(blame)?);
        Ok(LockManager {
            shared: Arc::new(Shared {
                table: connection.table(name),
                client: self.client,
                farm: self.farm,
                companion: LockTableOptions::has_companions(&descriptor),
                party,
            }),
        })
    }
}

impl LockManager {
    /// Asks for a lock; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](ErrorKind::InvalidInput) for an id that is empty or too long, and for a lock of one farm where no
    /// farm was named.
    pub fn lock(&self, level: Level, id: &str) -> Result<LockRequest> {
        let (name, place) = self.place(level, id)?;
        let party = Arc::clone(&self.shared.party);
        Ok(LockRequest::new(party, name.key().to_owned(), place))
    }

    /// Who holds a lock.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), and those of the call.
    pub async fn show(&self, level: Level, id: &str) -> Result<LockInfo> {
        let (name, place) = self.place(level, id)?;
        let sights = place.look(place.table.deadline()).await;
        let sights = sights.map_err(|error| place.blame(&name, error))?;
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
        let released = place.release(token, place.table.deadline()).await;
        released.map_err(|error| place.blame(&name, error))
    }

    /// Renews a lock of another process, by the token that it was told: it is held this long from now on, or as long as
    /// before if that is longer. None when it was; why not, when it is not held any more.
    ///
    /// # Errors
    ///
    /// Those of the calls, within the operation timeout; [`InvalidInput`](ErrorKind::InvalidInput) for a lease out of range,
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) for a lock that would outlive the TTL of the table's family.
    pub async fn renew(
        &self,
        level: Level,
        id: &str,
        token: LockToken,
        lease: Duration,
    ) -> Result<Option<LockLoss>> {
        let (name, place) = self.place(level, id)?;
        self.shared
            .party
            .check_lease(lease)
            .map_err(|error| place.blame(&name, error))?;
        let renewed = place.renew_for(token, lease, place.table.deadline()).await;
        renewed.map_err(|error| place.blame(&name, error))
    }

    /// Takes a lock away from whoever holds it, and tells whom that hit. None when nobody held it.
    ///
    /// The holder learns of it with its next renewal or release; what it does until then is not stopped. Fencing numbers
    /// and [`Transaction::fenced_by`](crate::Transaction::fenced_by) refuse it.
    ///
    /// # Errors
    ///
    /// Those of the calls.
    pub async fn force_release(&self, level: Level, id: &str) -> Result<Option<LockHolder>> {
        let (name, place) = self.place(level, id)?;
        place
            .evict(place.table.deadline())
            .await
            .map_err(|error| place.blame(&name, error))
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &TableName {
        self.shared.table.name()
    }

    /// Whether locks have a companion row; see [`LockTableOptions::ours_alone`](super::LockTableOptions::ours_alone).
    #[must_use]
    pub fn has_companions(&self) -> bool {
        self.shared.companion
    }

    pub(super) fn party(&self) -> &Arc<Party> {
        &self.shared.party
    }

    pub(super) fn place(&self, level: Level, id: &str) -> Result<(LockName, Place)> {
        let Shared { client, farm, .. } = &*self.shared;
        let name = match (level, farm) {
            (Level::Dc, Some(farm)) => LockName::dc(farm, client, id),
            (Level::Dc, None) => Err(Error::invalid("a lock of one farm, but no farm was named").with_hint(
                "name it where the locks are opened (LockManagerOptions::farm; --farm), or use level xdc, of all farms",
            )),
            (Level::Xdc, _) => LockName::xdc(client, id),
        };
        let name = name.map_err(|error| error.at_operation("naming a lock").at_table(self.table()))?;
        let row = name.row();
        let rows = match self.shared.companion {
            true => LockRows::with_companion(row),
            false => LockRows::alone(FAMILY, row),
        };
        let table = self.shared.table.clone();
        let cells_live = self.shared.party.cells_live;
        Ok((
            name,
            Place {
                table,
                rows,
                cells_live,
            },
        ))
    }

    pub(super) fn scan(&self, scan: Scan) -> Result<ResultScanner> {
        self.shared.table.scan(scan)
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager")
            .field("table", self.table())
            .field("client", &self.shared.client)
            .field("farm", &self.shared.farm)
            .finish_non_exhaustive()
    }
}
