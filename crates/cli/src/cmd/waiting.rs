//! The line on a terminal that says what a command waits for.

use std::{fmt, iter, pin::pin, time::Duration};

use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use hbase_txn::{
    Result,
    coordination::{Election, ReadWriteLock, Semaphore},
    lock::{LockEvent, LockHolder, LockManager},
};
use tokio::time::{interval, sleep, timeout};

use super::lock::{
    watch::is_held,
    which::{Kind, Named},
};
use crate::progress::Progress;

/// A shorter wait is not shown, and reads nothing.
const DELAY: Duration = Duration::from_millis(500);
/// The pause between two reads of what has no watch, and between two updates of the line.
const INTERVAL: Duration = Duration::from_secs(1);

/// The obstacle to a wait, as it was read.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// The holders, in the order in which their leases expire.
    Holders(Vec<LockHolder>),
    State(String),
}

impl Obstacle {
    pub(super) fn held_by(holders: impl IntoIterator<Item = LockHolder>) -> Self {
        let mut holders: Vec<LockHolder> = holders.into_iter().collect();
        holders.sort_by_key(|holder| holder.remaining().unwrap_or(Duration::MAX));
        Self::Holders(holders)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(state) => write!(f, "waiting: {state}"),
            Self::Holders(holders) => match &holders[..] {
                [] => f.write_str("waiting"),
                [holder] => write!(f, "waiting: held by {holder}"),
                [holder, others @ ..] => write!(f, "waiting: held by {holder}, and {} more", others.len()),
            },
        }
    }
}

/// The obstacles to a wait, each as of later than the one before.
pub(super) type Obstacles = BoxStream<'static, Result<Obstacle>>;

/// Returns the obstacles to a request for a lock, permits or a leadership.
pub(super) fn obstacles(locks: &LockManager, named: &Named<'_>) -> Result<Obstacles> {
    let (level, id) = (named.name.level(), named.name.id().to_owned());
    Ok(match named.kind {
        Kind::Lock => watched(locks.watch(level, &id)?),
        Kind::Election => watched(Election::new(locks, level, &id)?.watch()),
        Kind::Semaphore => {
            let locks = locks.clone();
            polled(move || {
                let (locks, id) = (locks.clone(), id.clone());
                async move {
                    let info = Semaphore::open(&locks, level, &id).await?.show().await?;
                    Ok(Obstacle::held_by(
                        info.holders.into_iter().map(|held| held.holder),
                    ))
                }
            })
        }
        // A member waits for no other.
        Kind::Group => stream::once(async { Ok(Obstacle::State("joining the group".to_owned())) }).boxed(),
        Kind::RwLock => {
            let lock = ReadWriteLock::new(locks, level, &id)?;
            polled(move || {
                let lock = lock.clone();
                async move {
                    let info = lock.show().await?;
                    // A writer that waits for readers has its place already, and may be this command.
                    Ok(if info.readers.is_empty() {
                        Obstacle::held_by(info.writer)
                    } else {
                        Obstacle::held_by(info.readers)
                    })
                }
            })
        }
    })
}

fn watched(events: BoxStream<'static, Result<LockEvent>>) -> Obstacles {
    let holder = |event: LockEvent| event.holder.filter(|_| is_held(event.kind));
    events
        .map_ok(move |event| Obstacle::held_by(holder(event)))
        .boxed()
}

/// Returns the obstacles that repeated reads find.
pub(super) fn polled<F>(read: impl Fn() -> F + Send + 'static) -> Obstacles
where
    F: Future<Output = Result<Obstacle>> + Send + 'static,
{
    let pauses = iter::once(Duration::ZERO).chain(iter::repeat(INTERVAL));
    stream::iter(pauses)
        .then(move |pause| {
            let obstacle = read();
            async move {
                sleep(pause).await;
                obstacle.await
            }
        })
        .boxed()
}

/// Waits, and shows the present obstacle on a terminal. A read that fails is not shown: the wait
/// itself fails, or goes on.
pub(super) async fn shown<T>(mut obstacles: Obstacles, wait: impl Future<Output = T>) -> T {
    let mut wait = pin!(wait);
    if let Ok(done) = timeout(DELAY, &mut wait).await {
        return done;
    }
    let Some(progress) = Progress::on_a_terminal() else {
        return wait.await;
    };
    progress.step("waiting");
    let (mut obstacle, mut updates) = (None, interval(INTERVAL));
    loop {
        tokio::select! {
            biased;
            done = &mut wait => {
                progress.finish();
                return done;
            }
            Some(next) = obstacles.next() => obstacle = next.ok(),
            _ = updates.tick() => {}
        }
        if let Some(obstacle) = &obstacle {
            progress.step(&obstacle.to_string());
        }
    }
}
