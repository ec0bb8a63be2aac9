//! The processes of a cluster, as a test uses them.

use std::fmt;

use super::FakeHBase;
use crate::cluster::ServerIndex;

/// A region server or a master of a [`FakeHBase`].
#[derive(Clone, Copy)]
pub struct FakeServer<'a> {
    hbase: &'a FakeHBase,
    index: ServerIndex,
}

impl FakeHBase {
    /// Returns a process of the cluster: region servers from 0, then masters.
    ///
    /// # Panics
    ///
    /// Panics if the cluster has fewer.
    #[must_use]
    #[track_caller]
    pub fn server(&self, number: usize) -> FakeServer<'_> {
        let servers = self.network.with_world(|world, _| world.servers().len());
        assert!(
            number < servers,
            "server {number} of a cluster with {servers} servers"
        );
        FakeServer {
            hbase: self,
            index: ServerIndex(number),
        }
    }
}

impl FakeServer<'_> {
    pub(super) fn index(self) -> ServerIndex {
        self.index
    }

    /// Returns the host and the port of the server.
    #[must_use]
    pub fn address(self) -> (String, u16) {
        let network = &self.hbase.network;
        let name = network.with_world(|world, _| world.server(self.index).name.clone());
        (name.host, name.port)
    }

    /// Ends the process without a shutdown. Its connections break. What it had not synced is lost,
    /// and other servers open its regions.
    pub fn crash(self) {
        let network = &self.hbase.network;
        network.with_world(|world, wall| world.crash(self.index, wall));
    }

    /// Starts a crashed process again, with a new start code.
    pub fn restart(self) {
        let network = &self.hbase.network;
        network.with_world(|world, wall| world.restart(self.index, wall));
    }

    /// Makes the process read and answer nothing, as in a long pause of its JVM. The master does not
    /// notice it.
    pub fn hang(self) {
        let network = &self.hbase.network;
        network.with_world(|world, wall| world.hang(self.index, wall));
    }

    /// Ends what [`hang`](Self::hang) began. Requests that have arrived are executed.
    pub fn resume(self) {
        let network = &self.hbase.network;
        network.with_world(|world, wall| world.resume(self.index, wall));
    }

    /// Sets the process's clock ahead of the cluster's by so many milliseconds, or behind if they
    /// are negative. It stamps cells, and ends their lives.
    pub fn set_clock_ahead(self, milliseconds: i64) {
        let network = &self.hbase.network;
        network.with_world(|world, _| world.skew(self.index, milliseconds));
    }
}

impl fmt::Debug for FakeServer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FakeServer").field(&self.index.0).finish()
    }
}
