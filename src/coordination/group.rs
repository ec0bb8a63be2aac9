//! Group membership: a list of the live processes of a service, with data of each.

use std::{collections::BTreeMap, fmt};

use bytes::Bytes;
use futures::stream::BoxStream;
use hbase_client::{BytesBinary, low_level::TableCalls};
use tokio::time::Instant;

use super::{
    changes::changes,
    contest::{Contender, Contest, ContestOutcome, compete, free_slot},
};
use crate::{
    error::{Error, Result},
    java_layout::Level,
    lock::{Demand, LockGuard, LockHolder, LockManager, LockRequest, LockToken, Session, SlotRow, SlotsSeen},
};

pub(super) const KIND: &str = "GRP";
/// The prefix of a member's slot.
const MEMBER: &str = "m";

/// A list of the live processes of a service, with data of each, such as its address.
///
/// A member joins with its [session](Session), and is listed until it leaves, is evicted, or its session
/// ends; a process that dies is listed until its lease expires. All processes see the members by one read of
/// one row, so every read shows the group at one moment.
///
/// Members share out work without further calls: each computes from the same list which parts are
/// its own. Two members may have read different lists for a moment, so a part that must have one owner
/// needs a [lock](crate::lock) too. The guide `docs/patterns.md` shows both.
///
/// Cheap to clone; clones share everything.
///
/// # Example
///
/// ```
/// use futures::TryStreamExt;
/// use hbase_txn::{Level, coordination::Group};
///
/// # use hbase_txn::lock::LockManagerOptions;
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_table("dlm_locks", &["D"], &[]);
/// # let options = LockManagerOptions::new("billing").farm("fra");
/// # let locks = options.open(&hbase.connect().await?, "dlm_locks").await?;
/// let session = locks.session("worker-7")?;
/// let workers = Group::new(&locks, Level::Dc, "workers")?;
/// let membership = workers.join(&session, "10.0.0.7:9000").await?;
/// let mut changes = workers.changes();
/// while let Some(members) = changes.try_next().await? {
///     for member in &members {
///         println!("{} at {:?}", member.holder, member.data);
///     }
///     assert!(members.iter().any(|member| member.holder.token == Some(membership.token())));
///     # break;
/// }
/// assert!(membership.release().await?.is_released());
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct Group {
    row: SlotRow,
}

/// A member of a [`Group`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The name of its session, its token, and when it joined.
    pub holder: LockHolder,
    /// Its data.
    pub data: Bytes,
}

/// A group at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupInfo {
    /// Its key: `GRP#` and the name that a lock of this level, farm, client and id has.
    pub key: String,
    /// Its members, in the order of [`LockHolder::since`].
    pub members: Vec<Member>,
}

/// A request to join.
struct Joining {
    row: SlotRow,
    request: LockRequest,
}

impl Group {
    /// The maximum number of members.
    pub const MAX_MEMBERS: usize = 1_024;
    /// The maximum size of a member's data, in bytes.
    pub const MAX_DATA: usize = 4_096;

    /// Names a group. Sends nothing; a group needs no creation.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the id is empty or too
    /// long, or if the level needs a farm and the manager has none.
    pub fn new(locks: &LockManager, level: Level, id: &str) -> Result<Self> {
        Ok(Self {
            row: locks.slot_row(KIND, level, id)?,
        })
    }

    /// Returns its key: `GRP#` and the name that a lock of this level, farm, client and id has.
    #[must_use]
    pub fn key(&self) -> &str {
        self.row.key()
    }

    /// Joins with this data, which all processes can read. The member is listed until the guard is
    /// released or dropped, or the session ends; if the membership is lost, the session ends.
    ///
    /// Two memberships of one session are two members. To change the data, join again and release
    /// the old membership.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for more than
    ///   [`MAX_DATA`](Self::MAX_DATA) bytes, and for a lease out of range;
    /// - [`LockUnavailable`](crate::ErrorKind::LockUnavailable) if the group has
    ///   [`MAX_MEMBERS`](Self::MAX_MEMBERS) members, within the operation timeout;
    /// - [`LockLost`](crate::ErrorKind::LockLost) if the session has ended;
    /// - the errors of the calls.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves no member behind.
    pub async fn join(&self, session: &Session, data: impl Into<Bytes>) -> Result<LockGuard> {
        let data = data.into();
        if data.len() > Self::MAX_DATA {
            return Err(self.in_context(Error::invalid(format!(
                "a member's data of {} bytes are too many: at most {}",
                data.len(),
                Self::MAX_DATA
            ))));
        }
        let row = self.row.clone().with_data(data);
        let wait = row.table().deadline().saturating_duration_since(Instant::now());
        let request = row.request(&[]).wait(wait).session(session);
        let joining = Joining { row, request };
        let joined = compete(&joining, &joining.row, &joining.request, false).await;
        joined.map_err(|error| self.in_context(error))
    }

    /// Reads the members, in the order of [`LockHolder::since`], which is the time by the clock of the region
    /// server at which each joined. All readers see one order of the same members.
    ///
    /// # Errors
    ///
    /// Returns an error if the call fails.
    pub async fn members(&self) -> Result<Vec<Member>> {
        Ok(self.show().await?.members)
    }

    /// Reads the group.
    ///
    /// # Errors
    ///
    /// Returns an error if the call fails.
    pub async fn show(&self) -> Result<GroupInfo> {
        let seen = self.row.read(self.row.table().deadline()).await;
        Ok(info(self.key(), seen.map_err(|error| self.in_context(error))?))
    }

    /// Returns a stream of the members: the current ones first, then all of them after each change.
    ///
    /// The stream polls the server, with pauses that grow to half a second while nothing changes.
    /// A member that joins and leaves between two polls is not seen. The stream never ends; a failed
    /// poll is an `Err` item, after which the stream may be polled again.
    ///
    /// # Cancel safety
    ///
    /// `next` may be dropped and called again: no change is lost.
    #[must_use = "a stream does nothing unless it is polled"]
    pub fn changes(&self) -> BoxStream<'static, Result<Vec<Member>>> {
        let group = self.clone();
        let read = move || {
            let group = group.clone();
            async move { group.members().await }
        };
        let tokens = |members: &Vec<Member>| {
            let tokens = members.iter().map(|member| member.holder.token);
            tokens.collect::<Vec<_>>()
        };
        changes(read, tokens)
    }

    /// Removes the member with this token, as read in [`Member::holder`], and returns it. Returns
    /// `None`, and changes nothing, if the token is not a member any more.
    ///
    /// The member notices at its next renewal, and its session ends then. The forced release is logged
    /// as a warning with the session's name and the token.
    ///
    /// # Errors
    ///
    /// Returns an error if a call fails, within the operation timeout.
    pub async fn force_release(&self, token: LockToken) -> Result<Option<LockHolder>> {
        let evicted = self.row.evict(token).await;
        evicted.map_err(|error| self.in_context(error))
    }

    fn in_context(&self, error: Error) -> Error {
        error
            .at_operation(format!("group {}", BytesBinary(self.key().as_bytes())))
            .at_table(self.row.table().name())
    }
}

impl Contender for Joining {
    /// There usually is room for all that join, in any order.
    fn demand(&self) -> Demand {
        Demand::UNORDERED
    }

    async fn try_once(&self, contest: &mut Contest<'_>) -> Result<ContestOutcome> {
        let none = SlotsSeen::default();
        let before = contest.seen.as_ref().unwrap_or(&none);
        let Some(slot) = free_slot(before, MEMBER, Group::MAX_MEMBERS) else {
            return Ok(ContestOutcome::Full);
        };
        let slots = [slot];
        match contest.attempt(&self.request, &slots).await? {
            Some(guard) if guard.is_held() => return Ok(ContestOutcome::Won(guard)),
            Some(guard) => contest.give_back(guard, &slots).await,
            None => {}
        }
        Ok(ContestOutcome::Again)
    }

    fn unavailable(&self, contest: &Contest<'_>) -> String {
        match contest.seen.as_ref().map_or(0, |seen| seen.held.len()) {
            number if number >= Group::MAX_MEMBERS => format!("the group has {number} members"),
            _ => "others joined at the same moment each time".to_owned(),
        }
    }
}

/// Returns the members, in the order of their times and then of their tokens.
fn members(seen: SlotsSeen) -> Vec<Member> {
    let SlotsSeen { held, mut data, .. } = seen;
    let mut members: BTreeMap<_, Member> = BTreeMap::new();
    for (slot, holder) in held {
        let data = data.remove(&slot).unwrap_or_default();
        let token = holder.token.map(|token| token.to_string());
        members.insert((holder.since, token, slot), Member { holder, data });
    }
    members.into_values().collect()
}

/// Returns the state of the group with this key.
pub(super) fn info(key: &str, seen: SlotsSeen) -> GroupInfo {
    GroupInfo {
        key: key.to_owned(),
        members: members(seen),
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Group").field(&self.row).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::{StreamExt, future::try_join_all};
    use hbase_fake::FakeHBase;
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::{
        coordination::{Election, Semaphore},
        lock::{LockLoss, LockManagerOptions, SessionEnd},
    };

    const LEASE: Duration = Duration::from_secs(6);
    /// A renewal, and the calls of a release.
    const NOTICED: Duration = Duration::from_secs(3);

    async fn open(hbase: &FakeHBase) -> Result<LockManager> {
        let locks = LockManagerOptions::new("billing").farm("fra");
        locks.open(&hbase.connect().await?, "locks").await
    }

    fn data(members: &[Member]) -> Vec<&[u8]> {
        members.iter().map(|member| &member.data[..]).collect()
    }

    #[test]
    fn members_are_listed_with_their_data_while_their_sessions_last() {
        FakeHBase::run(async |hbase| {
            hbase.create_table("locks", &["D"], &[]);
            let (locks, others) = (open(hbase).await?, open(hbase).await?);
            let group = Group::new(&others, Level::Dc, "g")?;
            let mut changes = group.changes();
            assert_eq!(changes.next().await.unwrap()?, []);
            let session = locks.session("first")?.ttl(LEASE);
            let first = Group::new(&locks, Level::Dc, "g")?.join(&session, "one").await?;
            let second = others.session("second")?.ttl(LEASE);
            sleep(Duration::from_millis(5)).await;
            let _second = group.join(&second, "").await?;
            // Renewals keep the data.
            sleep(LEASE * 3).await;
            assert_eq!(data(&group.members().await?), [&b"one"[..], b""]);
            assert_eq!(changes.next().await.unwrap()?.len(), 2);
            let listed = crate::coordination::list(&locks).await?;
            let [listed] = &listed[..] else {
                panic!("{listed:?}");
            };
            assert_eq!(listed.key, group.key());
            assert!(second.close().await?.is_closed());
            assert_eq!(data(&changes.next().await.unwrap()?), [b"one"]);
            assert!(first.release().await?.is_released());
            assert_eq!(changes.next().await.unwrap()?, []);
            let too_large = group
                .join(&session, vec![0; Group::MAX_DATA + 1])
                .await
                .unwrap_err();
            assert_eq!(too_large.kind(), crate::ClientErrorKind::InvalidInput);
            Ok(())
        });
    }

    #[test]
    fn loss_of_one_hold_ends_all_of_them() {
        FakeHBase::run(async |hbase| {
            hbase.create_table("locks", &["D"], &[]);
            let (locks, others) = (open(hbase).await?, open(hbase).await?);
            let session = locks.session("worker")?.ttl(LEASE);
            let lock = locks.lock(Level::Dc, "a")?.session(&session).acquire().await?;
            let semaphore = Semaphore::create(&locks, Level::Dc, "s", 1).await?;
            let permit = semaphore.permit().session(&session).acquire().await?;
            let election = Election::new(&locks, Level::Dc, "e")?;
            let leadership = election.campaign().session(&session).lead().await?;
            let group = Group::new(&locks, Level::Dc, "g")?;
            let member = group.join(&session, "here").await?;
            sleep(LEASE * 3).await;
            assert!(session.is_open());
            let guards = [&lock, &permit, leadership.guard(), &member];
            assert!(guards.iter().all(|guard| guard.is_held()));

            let seen = Group::new(&others, Level::Dc, "g")?.members().await?;
            assert_eq!(seen[0].holder.name.as_deref(), Some("worker"));
            group.force_release(member.token()).await?;
            let end = timeout(NOTICED, session.lost()).await?;
            let SessionEnd::Lost { hold, loss } = &end else {
                panic!("{end}");
            };
            assert_eq!((hold.as_str(), loss), (member.name(), &LockLoss::Removed));
            assert!(!session.is_open());
            for guard in [&lock, &permit, leadership.guard()] {
                assert!(!guard.is_held(), "{}", guard.name());
                assert_eq!(guard.lost().await, LockLoss::SessionEnded);
            }
            // They are released, although the guards are still here.
            let request = others.lock(Level::Dc, "a")?.wait(NOTICED);
            let next = timeout(NOTICED, request.acquire()).await??;
            assert!(!lock.release().await?.is_released());
            assert!(next.is_held());
            let leader = Election::new(&others, Level::Dc, "e")?.campaign().wait(NOTICED);
            assert!(timeout(NOTICED, leader.lead()).await??.is_leader());
            assert_eq!(session.close().await?, end);
            Ok(())
        });
    }

    #[test]
    fn hundreds_join_at_once_and_are_gone_with_their_process() {
        const MEMBERS: usize = 300;
        FakeHBase::run(async |hbase| {
            hbase.create_table("locks", &["D"], &[]);
            let observer = Group::new(&open(hbase).await?, Level::Dc, "g")?;
            let locks = open(hbase).await?;
            let group = Group::new(&locks, Level::Dc, "g")?;
            let session = locks.session("worker")?.ttl(LEASE);
            let joins = (0..MEMBERS).map(|number| group.join(&session, number.to_string()));
            let members = timeout(LEASE, try_join_all(joins)).await??;
            let mut seen = observer.members().await?;
            seen.sort_by_key(|member| String::from_utf8_lossy(&member.data).parse::<usize>().unwrap());
            assert_eq!(seen.len(), MEMBERS);
            assert_eq!(seen[MEMBERS - 1].data, (MEMBERS - 1).to_string());
            // As a process that dies: nothing renews them.
            for member in members {
                let _token = member.detach();
            }
            sleep(LEASE + Duration::from_millis(1)).await;
            assert_eq!(observer.members().await?.len(), 0);
            Ok(())
        });
    }
}
