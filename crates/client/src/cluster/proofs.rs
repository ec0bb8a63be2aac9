//! What region servers were proven to do.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use hbase_keyed_lock::{KeyedGuard, KeyedLock};

use crate::{error::Result, model::ServerName};

/// How long calls wait for the probe of another one.
const TURN: Duration = Duration::from_secs(1);

/// A server and what was proven of it. A restarted server has another start code, and may have another
/// version.
type Proof = (ServerName, &'static str);

/// The servers that were probed, each with what it was proven to do.
#[derive(Debug, Default)]
pub struct Proofs {
    proven: Mutex<HashMap<ServerName, Vec<&'static str>>>,
    turns: KeyedLock<Proof>,
}

impl Proofs {
    /// Returns whether a server was proven to do this.
    #[must_use]
    pub fn has(&self, server: &ServerName, what: &'static str) -> bool {
        self.proven()
            .get(server)
            .is_some_and(|proven| proven.contains(&what))
    }

    /// Records that a server was proven to do this.
    pub fn add(&self, server: ServerName, what: &'static str) {
        let mut proven = self.proven();
        let proven = proven.entry(server).or_default();
        if !proven.contains(&what) {
            proven.push(what);
        }
    }

    /// Returns the turn to probe a server. It is probed once, however many calls wait for that, unless
    /// the probe takes longer than a second: then they get no turn, and probe, too, because the call that
    /// probes may not be polled any more.
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded) if the turn does not come
    /// in time.
    pub async fn turn(
        &self,
        server: &ServerName,
        what: &'static str,
        deadline: Instant,
    ) -> Result<Option<ProofTurn<'_>>> {
        let end = Instant::now() + TURN;
        let turn = self.turns.lock((server.clone(), what));
        match turn.until(deadline.min(end).into_std()).await {
            Ok(turn) => Ok(Some(ProofTurn(turn))),
            Err(_) if end < deadline => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn proven(&self) -> MutexGuard<'_, HashMap<ServerName, Vec<&'static str>>> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn to probe a server. The next call gets it when this is dropped.
#[derive(Debug)]
pub struct ProofTurn<'a>(#[expect(dead_code, reason = "held until it is dropped")] KeyedGuard<'a, Proof>);
