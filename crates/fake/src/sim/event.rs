//! Events of a cluster.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::sleep;

use super::plan::Event;
use crate::{
    FakeHBase,
    cluster::{Role, ServerIndex, World},
};

impl Event {
    /// Makes the event happen. Returns its description, or `None` if it can't.
    pub(super) fn happen(self, hbase: &Arc<FakeHBase>) -> Option<String> {
        let network = hbase.network();
        let region = |world: &World, number: usize| -> Option<Bytes> {
            let regions = world.open_regions();
            regions.get(number % regions.len().max(1)).cloned()
        };
        network.with_world(|world, wall| match self {
            Self::Move {
                region: number,
                server,
            } => {
                let (region, to) = (region(world, number)?, region_server(world, server));
                world.move_region(&region, to, wall).ok()?;
                Some(format!("region {} moves to server {}", name(&region), to.0))
            }
            Self::Split { region: number } => {
                let region = region(world, number)?;
                let row = world.split_point(&region).ok()?;
                world.split(&region, &row, wall).ok()?;
                Some(format!(
                    "region {} is split at {}",
                    name(&region),
                    row.escape_ascii()
                ))
            }
            Self::Merge { region: number } => {
                let regions = world.open_regions();
                let one = region(world, number)?;
                let other = regions.iter().find(|other| world.are_neighbours(&one, other))?;
                world.merge(&[one.clone(), other.clone()], wall).ok()?;
                Some(format!("regions {} and {} are merged", name(&one), name(other)))
            }
            Self::Flush { region: number } => {
                let region = region(world, number)?;
                world.flush(&region, wall).ok()?;
                Some(format!("region {} is flushed", name(&region)))
            }
            Self::Compact { region: number } => {
                let region = region(world, number)?;
                world.compact(&region, true, wall).ok()?;
                Some(format!("region {} is compacted", name(&region)))
            }
            Self::Crash { server, down } => {
                let server = region_server(world, server);
                world.crash(server, wall);
                later(hbase, down, move |world, wall| world.restart(server, wall));
                Some(format!("server {} crashes for {down:?}", server.0))
            }
            Self::Hang { server, stays } => {
                let server = region_server(world, server);
                world.hang(server, wall);
                later(hbase, stays, move |world, wall| world.resume(server, wall));
                Some(format!("server {} hangs for {stays:?}", server.0))
            }
            Self::Skew { server, ahead } => {
                let server = region_server(world, server);
                world.skew(server, ahead);
                Some(format!("the clock of server {} is {ahead} ms ahead", server.0))
            }
            Self::MuteMaster { stays } => {
                let mut servers = world.servers().iter();
                let master = ServerIndex(servers.position(|server| server.role == Role::Master)?);
                world.hang(master, wall);
                later(hbase, stays, move |world, wall| world.resume(master, wall));
                Some(format!("the master hangs for {stays:?}"))
            }
        })
    }
}

fn region_server(world: &World, number: usize) -> ServerIndex {
    let servers = world
        .servers()
        .iter()
        .filter(|server| server.role == Role::Region);
    ServerIndex(number % servers.count().max(1))
}

fn name(region: &Bytes) -> String {
    String::from_utf8_lossy(&region[..region.len().min(6)]).into_owned()
}

fn later(hbase: &Arc<FakeHBase>, time: Duration, change: impl FnOnce(&mut World, u64) + Send + 'static) {
    let hbase = Arc::clone(hbase);
    tokio::spawn(async move {
        sleep(time).await;
        hbase.network().with_world(change);
    });
}
