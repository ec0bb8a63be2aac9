//! Whether a server runs, as its connections see it.

use super::signal::Signal;
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
            ServerState::Up { .. } => Self::Running { start_code },
            ServerState::Hung => Self::Hung { start_code },
            ServerState::Down => Self::Down,
        }
    }
}

/// The life of a server from one start to its end: a restarted server is another one.
#[derive(Clone, Debug)]
pub(super) struct ServerLife {
    current: Signal<Life>,
    start_code: u64,
}

impl ServerLife {
    /// Returns the life of a server that runs or hangs now.
    pub(super) fn new(current: Signal<Life>) -> Option<Self> {
        let start_code = match current.get() {
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
    pub(super) async fn runs(&self) -> bool {
        let start_code = self.start_code;
        let life = self.current.wait_for(|life| life != Life::Hung { start_code });
        self.is_running_as(life.await)
    }

    /// Waits until the server runs no more, for a while or at all.
    pub(super) async fn stops(&self) {
        let start_code = self.start_code;
        let running = Life::Running { start_code };
        self.current.wait_for(|life| life != running).await;
    }

    /// Waits until the server has ended.
    pub(super) async fn ends(&self) {
        let start_code = self.start_code;
        let ended = |life| life != Life::Running { start_code } && life != Life::Hung { start_code };
        self.current.wait_for(ended).await;
    }
}
