//! Where the active master is.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::registry::Registry;
use crate::{error::Result, model::ServerName};

/// The active master, as far as it is known.
#[derive(Debug)]
pub(super) struct MasterAddress {
    registry: Arc<Registry>,
    known: Mutex<Option<ServerName>>,
}

impl MasterAddress {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            known: Mutex::default(),
        }
    }

    /// The master that answered last, if no call of it failed since.
    pub(super) fn known(&self) -> Option<ServerName> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether another look-up may succeed where one has failed.
    pub(super) fn may_return(&self) -> bool {
        self.registry.was_reached()
    }

    /// The active master, asked of the registry unless it is known.
    pub(super) async fn find(&self, deadline: Instant) -> Result<ServerName> {
        if let Some(server) = self.known() {
            return Ok(server);
        }
        let server = self.registry.active_master(deadline).await?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(server.clone());
        Ok(server)
    }

    /// Forgets a server that is not the active master any more.
    pub(super) fn forget(&self, server: &ServerName) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref() == Some(server) {
            *known = None;
        }
    }
}
