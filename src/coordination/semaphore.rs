//! Semaphores: a number of permits for all processes together.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use hbase_client::{BytesBinary, low_level::TableCalls};
use tokio::time::Instant;

use super::{
    contest::Waiting,
    permits::{PermitRequest, taken},
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result, unknown_if},
    java_layout::Level,
    lock::{LockHolder, LockLoss, LockManager, LockToken, ReleaseOutcome, SlotRow, SlotsSeen},
    random,
};

pub(super) const KIND: &str = "SEM";
/// The longest pause before the next check whether a definition is visible.
const LOOKS: Duration = Duration::from_millis(100);

/// A cluster-wide semaphore: a number of permits for all processes together.
///
/// A permit is held like a lock: it has a lease by the server's clock, a token, and a fencing
/// number that is higher than that of every permit that was granted before. The permits of a
/// process that dies are free when their leases expire. No permit is granted beyond the number of
/// permits.
///
/// Processes that wait acquire permits in the order in which they began to wait, and so do the tasks of
/// one process. A request for many permits is not overtaken by later requests for few. See
/// `docs/coordination.md`.
///
/// Cheap to clone; clones share everything.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use hbase_txn::{Level, coordination::Semaphore};
///
/// # use hbase_txn::lock::LockManagerOptions;
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_table("dlm_locks", &["D"], &[]);
/// # let options = LockManagerOptions::new("billing").farm("fra");
/// # let locks = options.open(&hbase.connect().await?, "dlm_locks").await?;
/// let exports = Semaphore::create(&locks, Level::Dc, "exports", 4).await?;
/// let permit = exports
///     .permit()
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(60))
///     .auto_renew()
///     .acquire()
///     .await?;
/// // … what at most four may do at a time …
/// assert_eq!(exports.show().await?.available, 3);
/// assert!(permit.release().await?.is_released());
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct Semaphore {
    row: SlotRow,
    /// The number of permits, as it was last read.
    permits: Arc<AtomicU32>,
}

/// The state of a semaphore at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SemaphoreInfo {
    /// Its key: `SEM#` and the name that a lock of this level, farm, client and id has.
    pub key: String,
    /// The number of permits.
    pub permits: u32,
    /// The number of free permits.
    pub available: u32,
    /// The holders of permits, the longest-held first. After a [`resize`](Semaphore::resize) to
    /// fewer permits they may hold more than there are.
    pub holders: Vec<PermitHolder>,
    /// The number of processes that wait for permits, up to 64.
    pub waiting: usize,
    /// The highest fencing number so far. Failed attempts raise it too.
    pub fencing: Option<i64>,
}

/// A holder of permits of a semaphore.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitHolder {
    /// The number of permits that it holds.
    pub permits: u32,
    /// The holder, the start of its hold, and its lease.
    pub holder: LockHolder,
}

impl Semaphore {
    /// The maximum number of permits of a semaphore.
    pub const MAX_PERMITS: u32 = 1_024;

    /// Creates a semaphore with this number of permits, 1 to 1,024. An existing semaphore with the
    /// same number is used unchanged.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](ClientErrorKind::InvalidInput) for an invalid id or number, and for a
    ///   table whose family has a TTL, after which the number would be lost;
    /// - [`DefinitionMismatch`](ErrorKind::DefinitionMismatch), naming both numbers, if it exists
    ///   with another number;
    /// - the errors of the calls.
    pub async fn create(locks: &LockManager, level: Level, id: &str, permits: u32) -> Result<Self> {
        let semaphore = Self::named(locks, level, id)?;
        let created = semaphore.define(permits).await;
        created.map_err(|error| semaphore.in_context(error))?;
        Ok(semaphore)
    }

    /// Opens an existing semaphore.
    ///
    /// # Errors
    ///
    /// - [`SemaphoreAbsent`](ErrorKind::SemaphoreAbsent) if it does not exist;
    /// - [`DefinitionMismatch`](ErrorKind::DefinitionMismatch) if its number of permits can't be
    ///   read;
    /// - [`InvalidInput`](ClientErrorKind::InvalidInput) for an invalid id;
    /// - the errors of the call.
    pub async fn open(locks: &LockManager, level: Level, id: &str) -> Result<Self> {
        let semaphore = Self::named(locks, level, id)?;
        let seen = semaphore.read().await?;
        semaphore
            .note(&seen)
            .map_err(|error| semaphore.in_context(error))?;
        Ok(semaphore)
    }

    fn named(locks: &LockManager, level: Level, id: &str) -> Result<Self> {
        Ok(Self {
            row: locks.slot_row(KIND, level, id)?,
            permits: Arc::default(),
        })
    }

    /// Returns its key: `SEM#` and the name that a lock of this level, farm, client and id has.
    #[must_use]
    pub fn key(&self) -> &str {
        self.row.key()
    }

    /// Returns the number of permits as it was last read.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits.load(Ordering::Relaxed)
    }

    /// Creates a request for one permit. Sends nothing.
    pub fn permit(&self) -> PermitRequest {
        self.acquire_many(1)
    }

    /// Creates a request for several permits, all or none. Sends nothing. The permits form one
    /// hold: they are acquired, renewed and released together.
    ///
    /// A request that waits for many permits keeps later requests waiting, unless there are enough permits for
    /// both.
    pub fn acquire_many(&self, count: u32) -> PermitRequest {
        PermitRequest::new(self.clone(), self.row.request(&[]), count)
    }

    /// Reads the holders of permits, and the number of free ones.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open).
    pub async fn show(&self) -> Result<SemaphoreInfo> {
        let seen = self.read().await?;
        let permits = self.note(&seen).map_err(|error| self.in_context(error))?;
        Ok(info(self.key(), permits, seen))
    }

    /// Changes the number of permits, 1 to 1,024.
    ///
    /// Held permits stay held, even those beyond a smaller number. While more permits are held than
    /// the new number, no other is granted. No request of an earlier `resize` changes the number
    /// after this one has succeeded, even if it arrives late.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open), and
    /// [`InvalidInput`](ClientErrorKind::InvalidInput) for a number out of range. After an error
    /// whose [outcome is unknown](Error::is_outcome_unknown), the semaphore has the old number or
    /// the new one.
    pub async fn resize(&self, permits: u32) -> Result<()> {
        self.redefine(permits)
            .await
            .map_err(|error| self.in_context(error))
    }

    /// Deletes the semaphore, and returns whether it existed. No permit is granted after that. Held
    /// permits stay held until they are released or their leases expire, even if the semaphore is
    /// created again meanwhile. A semaphore that was created again is not deleted.
    ///
    /// # Errors
    ///
    /// Returns the errors of the calls, and [`Conflict`](ErrorKind::Conflict) if it was
    /// [resized](Self::resize) or created again at each attempt to delete it.
    pub async fn delete(&self) -> Result<bool> {
        self.undefine().await.map_err(|error| self.in_context(error))
    }

    /// Releases permits by their token, from any process. Nothing continues in the background: if
    /// it fails, call it again.
    ///
    /// # Errors
    ///
    /// Returns an error if a call fails, within the operation timeout.
    pub async fn release(&self, token: LockToken) -> Result<ReleaseOutcome> {
        self.row
            .release(token)
            .await
            .map_err(|error| self.in_context(error))
    }

    /// Renews permits by their token, from any process: they are held for `lease` from now on, or
    /// as long as before if that is longer. `None` is their own lease: that of their request, or of
    /// their last renewal.
    ///
    /// The inner result is the loss if the token does not hold the permits any more, or if the new
    /// lease had expired when the answer arrived.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](ClientErrorKind::InvalidInput) for a lease out of range;
    /// - the errors of the calls, within the operation timeout.
    pub async fn renew(
        &self,
        token: LockToken,
        lease: impl Into<Option<Duration>>,
    ) -> Result<Result<(), LockLoss>> {
        let renewed = self.row.renew(token, lease.into()).await;
        renewed.map_err(|error| self.in_context(error))
    }

    /// Revokes all permits of the holder with this token, as read in [`SemaphoreInfo::holders`],
    /// and returns the holder. Returns `None`, and changes nothing, if the token does not hold
    /// permits any more.
    ///
    /// The holder notices at its next renewal or release; its work continues until then. The forced
    /// release is logged as a warning with the holder's name and token.
    ///
    /// # Errors
    ///
    /// Returns an error if a call fails, within the operation timeout.
    pub async fn force_release(&self, token: LockToken) -> Result<Option<LockHolder>> {
        let evicted = self.row.evict(token).await;
        evicted.map_err(|error| self.in_context(error))
    }

    async fn read(&self) -> Result<SlotsSeen> {
        let seen = self.row.read(self.row.table().deadline()).await;
        seen.map_err(|error| self.in_context(error))
    }

    async fn define(&self, permits: u32) -> Result<()> {
        check(permits)?;
        if let Some(ttl) = self.row.forgets_after() {
            return Err(Error::invalid(format!(
                "the table's family keeps cells for {ttl:?} only, so the number of permits would be lost"
            ))
            .with_hint("use a table whose family D has no TTL"));
        }
        let (deadline, mut waiting) = self.patience();
        let mut is_written = false;
        loop {
            let seen = self.row.read(deadline).await.map_err(unknown_if(is_written))?;
            if seen.definition.is_some() {
                return match self.note(&seen)? {
                    there if there == permits => Ok(()),
                    there => Err(Error::new(
                        ErrorKind::DefinitionMismatch,
                        format!("cannot create it with {permits} permits: it exists with {there}"),
                    )
                    .with_hint("open it with the permits that it has, or resize it")),
                };
            }
            // The delete marker of an earlier semaphore may hide this definition. It is then
            // written again later.
            let defined = self.row.define(None, self.definition(permits), deadline);
            is_written |= defined.await.map_err(unknown_if(is_written))?;
            let is_seen = self.is_seen(&seen, deadline).await;
            if !is_seen.map_err(unknown_if(is_written))? && !waiting.goes_on().await {
                return Err(not_in_sight());
            }
        }
    }

    async fn redefine(&self, permits: u32) -> Result<()> {
        check(permits)?;
        let (deadline, mut waiting) = self.patience();
        let mut is_written = false;
        loop {
            let seen = self.row.read(deadline).await.map_err(unknown_if(is_written))?;
            self.note(&seen).map_err(unknown_if(is_written))?;
            // Also if the number is the same: a late request of an earlier resize, whose outcome is
            // unknown, then fails its condition.
            let defined = self
                .row
                .define(seen.definition.as_ref(), self.definition(permits), deadline);
            let changed = defined.await.map_err(unknown_if(is_written))?;
            is_written |= changed;
            // Another client may have changed the number again since.
            if changed
                && self
                    .is_seen(&seen, deadline)
                    .await
                    .map_err(unknown_if(is_written))?
            {
                return Ok(());
            }
            if !waiting.goes_on().await {
                return Err(not_in_sight());
            }
        }
    }

    async fn undefine(&self) -> Result<bool> {
        let (deadline, mut waiting) = self.patience();
        while let Some(definition) = self.row.read(deadline).await?.definition {
            if self.row.undefine(&definition, deadline).await? {
                return Ok(true);
            }
            if !waiting.goes_on().await {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    "cannot delete it: other clients resized or created it again at each attempt",
                )
                .with_retryable(true));
            }
        }
        Ok(false)
    }

    /// Encodes a definition: the number of permits, and random digits, which no other definition
    /// has.
    fn definition(&self, permits: u32) -> Bytes {
        let environment = self.row.table().connection().environment();
        format!("{permits} {:016x}", random::bits_64(environment)).into()
    }

    fn patience(&self) -> (Instant, Waiting) {
        let deadline = self.row.table().deadline();
        (deadline, Waiting::new(deadline, LOOKS))
    }

    /// Returns whether a change is visible: the definition is not the one before.
    async fn is_seen(&self, before: &SlotsSeen, deadline: Instant) -> Result<bool> {
        let seen = self.row.read(deadline).await?;
        if seen.definition.is_some() {
            self.note(&seen)?;
        }
        Ok(seen.definition != before.definition)
    }

    /// Records and returns the number of permits.
    pub(super) fn note(&self, seen: &SlotsSeen) -> Result<u32> {
        let permits = match &seen.definition {
            Some(definition) => decode(&definition.value)?,
            None => return Err(not_found()),
        };
        self.permits.store(permits, Ordering::Relaxed);
        Ok(permits)
    }

    pub(super) fn row(&self) -> &SlotRow {
        &self.row
    }

    pub(super) fn in_context(&self, error: Error) -> Error {
        error
            .at_operation(format!("semaphore {}", BytesBinary(self.key().as_bytes())))
            .at_table(self.row.table().name())
    }
}

/// Returns the state of the semaphore with this key.
pub(super) fn info(key: &str, permits: u32, seen: SlotsSeen) -> SemaphoreInfo {
    let available = permits.saturating_sub(taken(&seen));
    let waiting = seen.waiting();
    let mut places: HashMap<Option<LockToken>, usize> = HashMap::new();
    let mut holders: Vec<PermitHolder> = Vec::new();
    for holder in seen.held.into_values() {
        let place = *places.entry(holder.token).or_insert(holders.len());
        if place == holders.len() {
            holders.push(PermitHolder { permits: 0, holder });
        }
        holders[place].permits += 1;
    }
    holders.sort_by_key(|held| (held.holder.since, held.permits));
    SemaphoreInfo {
        waiting,
        key: key.to_owned(),
        permits,
        available,
        holders,
        fencing: seen.number,
    }
}

fn check(permits: u32) -> Result<()> {
    if (1..=Semaphore::MAX_PERMITS).contains(&permits) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{permits} permits are out of range: from 1 to {}",
        Semaphore::MAX_PERMITS
    )))
}

/// Decodes the number of permits: decimal digits, readable in HBase's shell, with or without the
/// random ones.
pub(super) fn decode(definition: &Bytes) -> Result<u32> {
    let text = std::str::from_utf8(definition).ok();
    let permits = text.map(|text| match text.split_once(' ') {
        Some((permits, random)) if random.len() == 16 => permits,
        _ => text,
    });
    let permits = permits.filter(|text| text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit()));
    let permits = permits.and_then(|text| text.parse().ok());
    permits.filter(|permits| check(*permits).is_ok()).ok_or_else(|| {
        let shown = &definition[..definition.len().min(64)];
        Error::new(
            ErrorKind::DefinitionMismatch,
            format!(
                "its number of permits, column D:P, can't be read: {}",
                BytesBinary(shown)
            ),
        )
        .with_hint("another program wrote that cell; delete it, and create the semaphore again")
    })
}

fn not_found() -> Error {
    Error::new(ErrorKind::SemaphoreAbsent, "there is no such semaphore")
        .with_hint("check its name, or create it with Semaphore::create")
}

fn not_in_sight() -> Error {
    Error::new(
        ClientErrorKind::DeadlineExceeded,
        "the change was applied, but cells with timestamps ahead of the server's clock hide it",
    )
    .with_retryable(true)
    .with_hint("compare the clocks of the region servers, and try again")
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("table", self.row.table().name())
            .field("key", &self.key())
            .field("permits", &self.permits())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn only_encoded_permits_decode(permits in 1..=1_024_u32, other: Vec<u8>) {
            prop_assert_eq!(decode(&permits.to_string().into()).unwrap(), permits);
            if let Ok(permits) = decode(&other.into()) {
                prop_assert!((1..=1_024).contains(&permits));
            }
        }
    }

    #[test]
    fn a_number_that_can_t_be_is_refused() {
        for text in ["", "0", "1025", "99999", "+4", "-1", "4 ", "vier", "\u{664}"] {
            let error = decode(&Bytes::from_static(text.as_bytes())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DefinitionMismatch, "{text:?}");
        }
    }
}
