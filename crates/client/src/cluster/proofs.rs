//! The region servers that were proven to honour the conditions of a `Multi`.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use hbase_keyed_lock::{KeyedGuard, KeyedLock};

use crate::{error::Result, model::ServerName};

/// How long calls wait for the probe of another one.
const TURN: Duration = Duration::from_secs(1);

/// The servers, each with its start code: a restarted server may have another version.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    proven: Mutex<HashSet<ServerName>>,
    turns: KeyedLock<ServerName>,
}

impl Proofs {
    pub(crate) fn has(&self, server: &ServerName) -> bool {
        self.proven().contains(server)
    }

    pub(crate) fn add(&self, server: ServerName) {
        self.proven().insert(server);
    }

    /// Returns the turn to probe a server. It is probed once, however many calls wait for that, unless
    /// the probe takes longer than [`TURN`]: then they get no turn, and probe, too. The call that probes
    /// may not be polled any more.
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded) if the turn does not come
    /// in time.
    pub(crate) async fn turn(
        &self,
        server: &ServerName,
        deadline: Instant,
    ) -> Result<Option<KeyedGuard<'_, ServerName>>> {
        let end = Instant::now() + TURN;
        let turn = self.turns.lock(server.clone());
        match turn.until(deadline.min(end).into_std()).await {
            Ok(turn) => Ok(Some(turn)),
            Err(_) if end < deadline => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn proven(&self) -> MutexGuard<'_, HashSet<ServerName>> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
