//! Streams, frames, connections, and the faults that happen to them.
//!
//! A connection has a task that cuts frames. A call that nothing delays is executed there, at once;
//! any other call has a task of its own, and arrives, is executed and is answered at three times of
//! tokio's clock.

mod connection;
mod delivery;
mod faults;
mod frame;
mod opening;
mod plan;
mod server_life;
mod signal;
mod state;
pub(crate) mod tcp;
#[cfg(test)]
mod tests;
mod trace;

use std::{
    future::pending,
    io,
    sync::{Arc, MutexGuard},
};

use tokio::{io::DuplexStream, time::sleep};

pub(crate) use self::faults::RandomDraws;
pub use self::faults::{Call, Dial, Fault, FaultHandle, Latency, RandomFaults, ReceivedCall};
use self::{
    connection::Connection,
    signal::Signal,
    state::{Shared, State},
};
use crate::cluster::World;

/// The bytes that a stream carries before its reader must take some.
const STREAM: usize = 1 << 20;

/// The network of a cluster. Its connections end when it is dropped.
#[derive(Debug)]
pub(crate) struct Network {
    shared: Arc<Shared>,
    /// Whether the network is there, for tasks that end with it.
    open: Signal<bool>,
}

impl Network {
    /// Returns the network of a cluster. `wall` is the present time in milliseconds since 1970, from
    /// which on tokio's clock counts; without it, the time is the system's.
    pub(crate) fn new(world: World, seed: u64, wall: Option<u64>) -> Self {
        Self {
            shared: Arc::new(Shared::new(State::new(world, seed, wall))),
            open: Signal::new(true),
        }
    }

    /// Returns what connects to the cluster, and does not keep it.
    pub(crate) fn dialer(&self) -> Dialer {
        Dialer {
            shared: Arc::clone(&self.shared),
            open: self.open.clone(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// Reads or changes the cluster at the present time, in milliseconds since 1970. Connections of
    /// servers that crash end.
    pub(crate) fn with_world<T>(&self, change: impl FnOnce(&mut World, u64) -> T) -> T {
        let mut state = self.state();
        let wall = state.wall();
        let result = change(&mut state.world, wall);
        state.update_lives();
        result
    }

    /// Returns the time in milliseconds since 1970, without the skew of servers.
    pub(crate) fn wall(&self) -> u64 {
        self.state().wall()
    }

    /// Adds a fault, after those that were added before.
    pub(crate) fn fault(&self, fault: Fault) -> FaultHandle {
        self.state().faults.add(fault)
    }

    /// Sets the faults that happen at random, to calls and dials that no other fault selects.
    /// Returns those that were set before.
    pub(crate) fn set_random_faults(&self, random: Option<RandomDraws>) -> Option<RandomDraws> {
        std::mem::replace(&mut self.state().faults.random, random)
    }

    /// Sets how long calls and dials take.
    pub(crate) fn set_latency(&self, latency: Latency) {
        self.state().latency = latency;
    }

    /// Makes later connections carry only this many bytes at once, at least and at most.
    pub(crate) fn set_chunks(&self, chunks: Option<(usize, usize)>) {
        self.state().chunks = chunks;
    }

    /// Returns the faults that did not happen, or not as often as they were to.
    pub(crate) fn unused_faults(&self) -> Vec<String> {
        self.state().faults.unused()
    }

    /// Returns what clients sent that is not modelled, in frames and headers.
    pub(crate) fn refusals(&self) -> Vec<String> {
        self.state().refusals.clone()
    }

    pub(crate) fn take_refusals(&self) -> Vec<String> {
        std::mem::take(&mut self.state().refusals)
    }

    /// Returns the number of calls of a method that clients sent.
    pub(crate) fn calls(&self, method: &str) -> usize {
        self.state().trace.calls(method)
    }

    /// Returns the latest dials and calls, as text.
    pub(crate) fn dump(&self) -> String {
        self.state().trace.to_string()
    }

    /// Returns a number that is equal for two runs in which the same was sent at the same times.
    pub(crate) fn trace_hash(&self) -> u64 {
        self.state().trace.hash()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.state().close();
        self.open.set(false);
    }
}

/// Connects to the servers of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    shared: Arc<Shared>,
    open: Signal<bool>,
}

impl Dialer {
    /// Connects to the server with this name in the cluster.
    ///
    /// # Errors
    ///
    /// Returns an error if no server has the name, or if it refuses the connection.
    pub(crate) async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        let dialling = self.shared.lock().dial(host, port)?;
        if dialling.lost {
            return pending().await;
        }
        if !dialling.delay.is_zero() {
            sleep(dialling.delay).await;
        }
        let (id, life, chunk) = self.shared.lock().connect(dialling.server)?;
        let (client, server) = tokio::io::duplex(chunk.unwrap_or(STREAM));
        let shared = Arc::clone(&self.shared);
        tokio::spawn(Connection::serve(shared, id, life, chunk, server));
        Ok(client)
    }
}
