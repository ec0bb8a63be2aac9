//! Whether a server runs, as its connections see it.

use std::future::pending;

use tokio::sync::watch;

use crate::cluster::{Server, ServerState};

/// Whether a server runs, and since which start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Running { start_code: u64 },
    Hung { start_code: u64 },
    Down,
}

impl Life {
    pub(super) fn of(server: &Server) -> Self {
        let start_code = server.name.start_code;
        match server.state {
            ServerState::Up { .. } | ServerState::Stopping => Self::Running { start_code },
            ServerState::Hung => Self::Hung { start_code },
            ServerState::Down => Self::Down,
        }
    }
}

/// The life of a server from one start to its end: a restarted server is another one.
#[derive(Clone, Debug)]
pub(super) struct ServerLife {
    current: watch::Receiver<Life>,
    start_code: u64,
}

impl ServerLife {
    /// Returns the life of a server that runs or hangs now.
    pub(super) fn new(current: watch::Receiver<Life>) -> Option<Self> {
        let start_code = match *current.borrow() {
            Life::Running { start_code } | Life::Hung { start_code } => start_code,
            Life::Down => return None,
        };
        Some(Self { current, start_code })
    }

    /// Returns whether `life` is this one and the server runs.
    pub(super) fn is_running_as(&self, life: Life) -> bool {
        let start_code = self.start_code;
        life == Life::Running { start_code }
    }

    /// Waits while the server hangs. Returns whether it runs; it never will if not.
    pub(super) async fn runs(&mut self) -> bool {
        loop {
            let life = *self.current.borrow_and_update();
            if self.is_running_as(life) {
                return true;
            }
            let start_code = self.start_code;
            if life != (Life::Hung { start_code }) || self.current.changed().await.is_err() {
                return false;
            }
        }
    }

    /// Waits until the server runs no more, for a while or at all.
    pub(super) async fn stops(&mut self) {
        let start_code = self.start_code;
        let running = Life::Running { start_code };
        // Without a sender there is nothing left to wait for: it lives as long as the cluster.
        let _ = self.current.wait_for(|life| *life != running).await;
    }

    /// Waits until the server has ended.
    pub(super) async fn ends(&mut self) {
        let start_code = self.start_code;
        let ended = |life: &Life| *life != Life::Running { start_code } && *life != Life::Hung { start_code };
        if self.current.wait_for(ended).await.is_err() {
            pending::<()>().await;
        }
    }
}
