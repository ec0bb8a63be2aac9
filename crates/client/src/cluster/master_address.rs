//! The location of the active master.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::registry::Registry;
use crate::{error::Result, model::ServerName};

/// The cached address of the active master.
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

    /// Returns the master that answered last, if no call of it has failed since.
    pub(super) fn known(&self) -> Option<ServerName> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether another lookup may succeed after a failed one.
    pub(super) fn may_return(&self) -> bool {
        self.registry.was_reached()
    }

    /// Returns the active master, from the cache or from the registry.
    pub(super) async fn find(&self, deadline: Instant) -> Result<ServerName> {
        if let Some(server) = self.known() {
            return Ok(server);
        }
        let server = self.registry.active_master(deadline).await?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(server.clone());
        Ok(server)
    }

    /// Forgets a server that is no longer the active master.
    pub(super) fn forget(&self, server: &ServerName) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref() == Some(server) {
            *known = None;
        }
    }
}
