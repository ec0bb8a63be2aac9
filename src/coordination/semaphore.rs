//! Semaphores: so many permits for all processes together.

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
use tokio::time::Instant;

use super::{
    contest::Waiting,
    permits::{PermitRequest, taken},
};
use crate::{
    error::{Error, ErrorKind, Result},
    lock::{LockHolder, LockLoss, LockManager, LockToken, ReleaseOutcome, SlotRow, SlotsSeen},
    model::{BytesBinary, Level},
};

const KIND: &str = "SEM";
/// The longest pause before a look whether a definition is in sight.
const LOOKS: Duration = Duration::from_millis(100);

/// So many permits, for all processes together.
///
/// A permit is held like a lock: with a lease by the server's clock, a token, and a fencing number that is higher than that of
/// every permit that was handed out before. A process that dies leaves its permits to their leases. At no time more permits
/// are held than there are.
///
/// Permits are not handed out in the order in which processes ask; the tasks of one process queue up in order. See
/// `docs/coordination.md`.
///
/// Cheap to clone; clones share everything.
///
/// # Example
///
/// ```no_run
/// # async fn example(locks: hbase_txn::LockManager) -> hbase_txn::Result<()> {
/// use std::time::Duration;
/// use hbase_txn::{Level, Semaphore};
///
/// let exports = Semaphore::create(&locks, Level::Dc, "exports", 4).await?;
/// let permit = exports
///     .permit()
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(60))
///     .renewed()
///     .acquire()
///     .await?;
/// // … what at most four may do at a time …
/// permit.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Semaphore {
    row: SlotRow,
    /// As they were last seen.
    permits: Arc<AtomicU32>,
}

/// A semaphore as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SemaphoreInfo {
    /// Its key: `SEM#` and the name that a lock of this level, farm, client and id has.
    pub key: String,
    /// How many permits there are.
    pub permits: u32,
    /// How many of them are free.
    pub available: u32,
    /// Who holds permits, since longest first. After a [`resize`](Semaphore::resize) to fewer they may be more than there are.
    pub holders: Vec<PermitHolder>,
    /// The highest fencing number so far; attempts that came to nothing raise it too.
    pub fencing: Option<u64>,
}

/// Who holds permits of a semaphore.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitHolder {
    /// How many.
    pub permits: u32,
    /// Who, since when, for how long.
    pub holder: LockHolder,
}

impl Semaphore {
    /// The most permits a semaphore may have.
    pub const MOST_PERMITS: u32 = 1_024;

    /// Creates a semaphore with so many permits, 1 to 1,024. One that is there with as many is taken as it is.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](ErrorKind::InvalidInput) for an id or a number that can't be, and in a table whose family has a
    ///   TTL, which would forget the number;
    /// - [`DefinitionMismatch`](ErrorKind::DefinitionMismatch), naming both numbers, when it is there with another one;
    /// - those of the calls.
    pub async fn create(locks: &LockManager, level: Level, id: &str, permits: u32) -> Result<Self> {
        let semaphore = Self::named(locks, level, id)?;
        let created = semaphore.define(permits).await;
        created.map_err(|error| semaphore.blame(error))?;
        Ok(semaphore)
    }

    /// Opens a semaphore that was created before.
    ///
    /// # Errors
    ///
    /// [`SemaphoreAbsent`](ErrorKind::SemaphoreAbsent); [`DefinitionMismatch`](ErrorKind::DefinitionMismatch) when its
    /// number of permits can't be read; [`InvalidInput`](ErrorKind::InvalidInput) for an id that can't be; those of the call.
    pub async fn open(locks: &LockManager, level: Level, id: &str) -> Result<Self> {
        let semaphore = Self::named(locks, level, id)?;
        let seen = semaphore.look().await?;
        semaphore.note(&seen).map_err(|error| semaphore.blame(error))?;
        Ok(semaphore)
    }

    fn named(locks: &LockManager, level: Level, id: &str) -> Result<Self> {
        Ok(Self {
            row: locks.slot_row(KIND, level, id)?,
            permits: Arc::default(),
        })
    }

    /// Its key: `SEM#` and the name that a lock of this level, farm, client and id has.
    #[must_use]
    pub fn key(&self) -> &str {
        self.row.key()
    }

    /// How many permits there are, as it was last seen.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits.load(Ordering::Relaxed)
    }

    /// Asks for one permit; nothing is sent yet.
    pub fn permit(&self) -> PermitRequest {
        self.permits_together(1)
    }

    /// Asks for so many permits, all or none; nothing is sent yet. They are one hold: acquired, renewed and released
    /// together.
    ///
    /// Who wants many is overtaken by those who want few: permits are not set aside for it.
    pub fn permits_together(&self, count: u32) -> PermitRequest {
        PermitRequest::new(self.clone(), self.row.request(&[]), count)
    }

    /// Who holds permits, and how many are free.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn show(&self) -> Result<SemaphoreInfo> {
        let seen = self.look().await?;
        let permits = self.note(&seen).map_err(|error| self.blame(error))?;
        let available = permits.saturating_sub(taken(&seen));
        let mut holders: HashMap<Option<LockToken>, PermitHolder> = HashMap::new();
        for holder in seen.held.into_values() {
            let same = holders.entry(holder.token);
            let same = same.or_insert_with(|| PermitHolder { permits: 0, holder });
            same.permits += 1;
        }
        let mut holders: Vec<PermitHolder> = holders.into_values().collect();
        holders.sort_by_key(|held| (held.holder.since, held.permits));
        Ok(SemaphoreInfo {
            key: self.key().to_owned(),
            permits,
            available,
            holders,
            fencing: seen.number,
        })
    }

    /// Changes how many permits there are: 1 to 1,024.
    ///
    /// Permits that are held stay held, also those beyond a smaller number. As long as there are more of them than the new
    /// number, nobody gets another.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`InvalidInput`](ErrorKind::InvalidInput) for another number. An error whose
    /// [outcome is unknown](Error::is_outcome_unknown) leaves the old number or the new one.
    pub async fn resize(&self, permits: u32) -> Result<()> {
        self.redefine(permits).await.map_err(|error| self.blame(error))
    }

    /// Deletes the semaphore: nobody gets a permit any more; whether it was there. Permits that are held stay held until they are
    /// released or their leases are over, also when it is created anew meanwhile. One that is created anew is not deleted.
    ///
    /// # Errors
    ///
    /// Those of the calls; [`Conflict`](ErrorKind::Conflict) when it was [resized](Self::resize) each time it was to be deleted.
    pub async fn delete(&self) -> Result<bool> {
        self.undefine().await.map_err(|error| self.blame(error))
    }

    /// Releases permits of another process, by the token that it was told. Nothing goes on in the background: where it fails,
    /// call it again.
    ///
    /// # Errors
    ///
    /// Those of the calls, within the operation timeout.
    pub async fn release(&self, token: LockToken) -> Result<ReleaseOutcome> {
        self.row.release(token).await.map_err(|error| self.blame(error))
    }

    /// Renews permits of another process, by the token that it was told: they are held this long from now on, or as long as
    /// before if that is longer. None when they were; why not, when they are not held any more.
    ///
    /// # Errors
    ///
    /// Those of the calls, within the operation timeout; [`InvalidInput`](ErrorKind::InvalidInput) for a lease out of range.
    pub async fn renew(&self, token: LockToken, lease: Duration) -> Result<Option<LockLoss>> {
        let renewed = self.row.renew(token, lease).await;
        renewed.map_err(|error| self.blame(error))
    }

    async fn look(&self) -> Result<SlotsSeen> {
        let seen = self.row.look(self.row.table().deadline()).await;
        seen.map_err(|error| self.blame(error))
    }

    async fn define(&self, permits: u32) -> Result<()> {
        check(permits)?;
        if let Some(ttl) = self.row.forgets_after() {
            return Err(Error::invalid(format!(
                "the table's family forgets everything after {ttl:?}, and so the number of permits"
            ))
            .with_hint("take a table whose family D has no TTL"));
        }
        let (deadline, mut waiting) = self.patience();
        loop {
            let seen = self.row.look(deadline).await?;
            if seen.definition.is_some() {
                return match self.note(&seen)? {
                    there if there == permits => Ok(()),
                    there => Err(Error::new(
                        ErrorKind::DefinitionMismatch,
                        format!("{permits} permits are asked for, and it is there with {there}"),
                    )
                    .with_hint("open it as it is, or resize it")),
                };
            }
            // One that lies under the delete marker of an earlier semaphore is not seen, and is put again later.
            self.row
                .define(None, permits.to_string().as_bytes(), deadline)
                .await?;
            if !self.is_seen(&seen, deadline).await? && !waiting.goes_on().await {
                return Err(not_in_sight());
            }
        }
    }

    async fn redefine(&self, permits: u32) -> Result<()> {
        check(permits)?;
        let (deadline, mut waiting) = self.patience();
        loop {
            let seen = self.row.look(deadline).await?;
            if self.note(&seen)? == permits {
                return Ok(());
            }
            let changed = self
                .row
                .define(seen.definition.as_ref(), permits.to_string().as_bytes(), deadline)
                .await?;
            // Somebody else may have changed it since: then ours was the number for a while.
            if changed && self.is_seen(&seen, deadline).await? {
                return Ok(());
            }
            if !waiting.goes_on().await {
                return Err(not_in_sight());
            }
        }
    }

    async fn undefine(&self) -> Result<bool> {
        let (deadline, mut waiting) = self.patience();
        while let Some(definition) = self.row.look(deadline).await?.definition {
            if self.row.undefine(&definition, deadline).await? {
                return Ok(true);
            }
            if !waiting.goes_on().await {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    "the semaphore was resized, or created anew, each time it was to be deleted",
                )
                .with_retryable(true));
            }
        }
        Ok(false)
    }

    fn patience(&self) -> (Instant, Waiting) {
        let deadline = self.row.table().deadline();
        (deadline, Waiting::new(deadline, LOOKS))
    }

    /// Whether a change is in sight: it does not say any more what it said.
    async fn is_seen(&self, before: &SlotsSeen, deadline: Instant) -> Result<bool> {
        let seen = self.row.look(deadline).await?;
        if seen.definition.is_some() {
            self.note(&seen)?;
        }
        Ok(seen.definition != before.definition)
    }

    /// How many permits there are by what was seen.
    pub(super) fn note(&self, seen: &SlotsSeen) -> Result<u32> {
        let permits = match &seen.definition {
            Some(definition) => read(&definition.value)?,
            None => return Err(not_found()),
        };
        self.permits.store(permits, Ordering::Relaxed);
        Ok(permits)
    }

    pub(super) fn row(&self) -> &SlotRow {
        &self.row
    }

    pub(super) fn blame(&self, error: Error) -> Error {
        error
            .at_operation(format!("semaphore {}", BytesBinary(self.key().as_bytes())))
            .at_table(self.row.table().name())
    }
}

fn check(permits: u32) -> Result<()> {
    if (1..=Semaphore::MOST_PERMITS).contains(&permits) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{permits} permits; a semaphore has from 1 to {}",
        Semaphore::MOST_PERMITS
    )))
}

/// The number of permits, as text of digits, which people can read in HBase's shell.
fn read(definition: &Bytes) -> Result<u32> {
    let text = std::str::from_utf8(definition).ok();
    let permits = text.filter(|text| text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit()));
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
        .with_hint("another program wrote that cell; delete it, and create the semaphore anew")
    })
}

fn not_found() -> Error {
    Error::new(ErrorKind::SemaphoreAbsent, "there is no such semaphore")
        .with_hint("check its name; Semaphore::create and hbase-txn semaphore create make one")
}

fn not_in_sight() -> Error {
    Error::new(
        ErrorKind::DeadlineExceeded,
        "the change was applied, but it lies behind what is stamped ahead of the server's clock",
    )
    .with_retryable(true)
    .with_hint("compare the clocks of the region servers, and try it again")
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
        fn what_is_written_is_read_and_nothing_else_is(permits in 1..=1_024_u32, other: Vec<u8>) {
            prop_assert_eq!(read(&permits.to_string().into()).unwrap(), permits);
            if let Ok(permits) = read(&other.into()) {
                prop_assert!((1..=1_024).contains(&permits));
            }
        }
    }

    #[test]
    fn a_number_that_can_t_be_is_refused() {
        for text in ["", "0", "1025", "99999", "+4", "-1", "4 ", "vier", "\u{664}"] {
            let error = read(&Bytes::from_static(text.as_bytes())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DefinitionMismatch, "{text:?}");
        }
    }
}
