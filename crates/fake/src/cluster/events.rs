//! What a test makes happen: crashes, moves, splits, clocks.

use std::ops::Bound;

use bytes::Bytes;
use hbase_protocol as pb;
use pb::region_state::State;

use super::{
    hosted::Hosted,
    names::{RegionInfo, TableName},
    procedures::Step,
    server::{Role, ServerIndex, ServerState},
    world::{World, schema},
};
use crate::{
    cell::Cell,
    exception::{Exception, Result},
    region::{Nonces, Region},
};

const ENDPOINT: &str = "|org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint|536870911|";

impl World {
    /// Creates a table whose regions are open, with these attributes and the endpoint for changes of
    /// several rows.
    pub(crate) fn create_table(
        &mut self,
        name: &str,
        families: &[&str],
        attributes: &[(&str, &str)],
        split_keys: &[Bytes],
    ) -> Result<()> {
        let name = TableName::parse(name);
        if self.tables.contains_key(&name) {
            return Err(Exception::new("TableExistsException", name.to_string()));
        }
        let attributes = [attributes, &[("coprocessor$1", ENDPOINT)]].concat();
        let schema = schema(&name, families, &attributes);
        self.add_open_table(&name, &schema, split_keys)
    }

    /// Ends a process without a shutdown. What it had not synced is lost.
    pub(crate) fn crash(&mut self, server: ServerIndex, wall: u64) {
        self.advance(wall);
        let name = self.server(server).name.clone();
        if self.server(server).state == ServerState::Down {
            return;
        }
        let process = self.server_mut(server);
        process.state = ServerState::Down;
        process.scanners.clear();
        process.moved.clear();
        process.regions = 0;
        if process.role == Role::Master {
            self.elect_master();
            return;
        }
        self.dead_servers.push(name);
        let due = self.wall + self.settings.durations.reassign;
        let mut rng = self.rng.fork();
        for (encoded, hosted) in &mut self.regions {
            if hosted.serving != Some(server) {
                continue;
            }
            (hosted.state, hosted.serving) = (State::Closed, None);
            if let Some(region) = &mut hosted.region {
                region.crash(|| rng.bool());
            }
            let step = Step::Open {
                region: encoded.clone(),
                server: None,
            };
            self.procedures.plan(due, step);
        }
    }

    /// Starts a process again, with a new start code.
    pub(crate) fn restart(&mut self, server: ServerIndex, wall: u64) {
        self.advance(wall);
        let serves_from = self.wall + self.settings.durations.start;
        let wall = self.wall;
        let process = self.server_mut(server);
        if process.state != ServerState::Down {
            return;
        }
        process.name.start_code = wall.max(process.name.start_code + 1);
        process.nonces = Nonces::default();
        process.state = ServerState::Up { serves_from };
        self.elect_master();
    }

    fn elect_master(&mut self) {
        let is_up = |server: &ServerIndex| self.server(*server).state != ServerState::Down;
        let masters = (0..self.servers.len()).map(ServerIndex);
        let mut masters = masters.filter(|server| self.server(*server).role == Role::Master && is_up(server));
        if self.active_master.is_none_or(|master| !is_up(&master)) {
            self.active_master = masters.next();
        }
    }

    /// Makes a process read and answer nothing.
    pub(crate) fn hang(&mut self, server: ServerIndex, wall: u64) {
        self.advance(wall);
        let process = self.server_mut(server);
        if matches!(process.state, ServerState::Up { .. }) {
            process.state = ServerState::Hung;
        }
    }

    /// Ends what [`hang`](Self::hang) began.
    pub(crate) fn resume(&mut self, server: ServerIndex, wall: u64) {
        self.advance(wall);
        let process = self.server_mut(server);
        if process.state == ServerState::Hung {
            process.state = ServerState::Up { serves_from: 0 };
        }
    }

    /// Makes a process run again.
    pub(crate) fn heal(&mut self, server: ServerIndex, wall: u64) {
        self.resume(server, wall);
        self.restart(server, wall);
    }

    /// Sets how far a server's clock is ahead, in milliseconds.
    pub(crate) fn skew(&mut self, server: ServerIndex, ahead: i64) {
        self.server_mut(server).skew = ahead;
    }

    /// Returns the encoded names of the open regions of tables other than HBase's own.
    pub(crate) fn open_regions(&self) -> Vec<Bytes> {
        let open = self
            .regions
            .iter()
            .filter(|(_, hosted)| hosted.is_open() && !hosted.info.table.is_system());
        open.map(|(encoded, _)| encoded.clone()).collect()
    }

    /// Returns the region of a row.
    pub(crate) fn region_of(&self, table: &str, row: &[u8]) -> Result<Bytes> {
        let regions = &self.table(&TableName::parse(table))?.regions;
        let mut before = regions.range::<[u8], _>((Bound::Unbounded, Bound::Included(row)));
        let nearest = before.next_back().map(|(_, encoded)| encoded.clone());
        nearest.ok_or_else(|| Exception::io("the table has no region"))
    }

    /// Returns the region that ends where this one begins.
    pub(crate) fn region_before(&self, region: &Bytes) -> Result<Bytes> {
        let info = &self.hosted(region)?.info;
        let before = self.regions.iter().find(|(_, hosted)| {
            hosted.is_live() && hosted.info.table == info.table && hosted.info.end_key == info.start_key
        });
        before
            .filter(|_| !info.start_key.is_empty())
            .map(|(encoded, _)| encoded.clone())
            .ok_or_else(|| Exception::do_not_retry("it is in the first region"))
    }

    /// Returns whether two open regions of a table touch each other.
    pub(crate) fn are_neighbours(&self, one: &Bytes, other: &Bytes) -> bool {
        let infos = (self.hosted(one), self.hosted(other));
        let (Ok(one), Ok(other)) = infos else {
            return false;
        };
        one.info.is_before(&other.info)
    }

    /// Moves a region to a server.
    pub(crate) fn move_region(&mut self, region: &Bytes, to: ServerIndex, wall: u64) -> Result<()> {
        self.advance(wall);
        self.check_open_region(region)?;
        self.reassign(region, Some(to))
    }

    pub(super) fn check_open_region(&self, region: &Bytes) -> Result<&Hosted> {
        let hosted = self.hosted(region)?;
        if hosted.is_open() {
            Ok(hosted)
        } else {
            Err(Exception::do_not_retry(format!(
                "{} is not OPEN",
                hosted.info.name_text()
            )))
        }
    }

    /// Flushes an open region.
    pub(crate) fn flush(&mut self, region: &Bytes, wall: u64) -> Result<()> {
        self.advance(wall);
        let server = self.check_open_region(region)?.serving;
        let now = server.map_or(self.wall, |server| self.clock(server));
        if let Some(cells) = &mut self.hosted_mut(region)?.region {
            cells.flush(now)?;
        }
        Ok(())
    }

    /// Compacts an open region.
    pub(crate) fn compact(&mut self, region: &Bytes, major: bool, wall: u64) -> Result<()> {
        self.advance(wall);
        let server = self.check_open_region(region)?.serving;
        let now = server.map_or(self.wall, |server| self.clock(server));
        if let Some(cells) = &mut self.hosted_mut(region)?.region {
            cells.compact(major, now)?;
        }
        Ok(())
    }

    /// Splits a region at a row. Returns the daughters.
    pub(crate) fn split(&mut self, region: &Bytes, at: &Bytes, wall: u64) -> Result<[Bytes; 2]> {
        self.advance(wall);
        let info = self.check_open_region(region)?.info.clone();
        if *at == info.start_key || !info.contains(at) {
            return Err(Exception::do_not_retry(format!(
                "Split row is equal to startkey or outside of {}",
                info.name_text()
            )));
        }
        let server = self.close(region)?;
        let now = self.wall;
        let id = now.max(info.id + 1);
        let parent = self.hosted_mut(region)?;
        let Some(cells) = parent.region.take() else {
            return Err(Exception::io("the region is gone"));
        };
        parent.info.split = true;
        parent.state = State::Split;
        let (low, high) = cells.split(at);
        let low_info = RegionInfo::new(info.table.clone(), info.start_key.clone(), at.clone(), id);
        let high_info = RegionInfo::new(info.table.clone(), at.clone(), info.end_key.clone(), id);
        self.record_split(region, [&low_info, &high_info])?;
        let janitor = now + self.settings.durations.janitor;
        let forget = Step::Forget {
            region: region.clone(),
        };
        self.procedures.plan(janitor, forget);
        let daughters = [(low_info, low), (high_info, high)].map(|(info, cells)| {
            let encoded = info.encoded.clone();
            (encoded, Hosted::new(info, cells, now))
        });
        let mut names = Vec::new();
        for (encoded, hosted) in daughters {
            let start = hosted.info.start_key.clone();
            self.regions.insert(encoded.clone(), hosted);
            self.table_mut(&info.table)?
                .regions
                .insert(start, encoded.clone());
            self.record_region(&encoded)?;
            self.plan_opening(&encoded, server);
            names.push(encoded);
        }
        let [low, high] = [names.remove(0), names.remove(0)];
        Ok([low, high])
    }

    /// Merges adjacent regions. Returns the new one.
    pub(crate) fn merge(&mut self, regions: &[Bytes], wall: u64) -> Result<Bytes> {
        self.advance(wall);
        let mut parts = Vec::new();
        for region in regions {
            parts.push(self.check_open_region(region)?.info.clone());
        }
        parts.sort_by(|one, other| one.start_key.cmp(&other.start_key));
        let are_adjacent = parts.windows(2).all(|pair| {
            let [one, other] = pair else { return false };
            one.is_before(other)
        });
        let ([first, .., last], true) = (&parts[..], are_adjacent) else {
            return Err(Exception::new(
                "exceptions.MergeRegionException",
                "Unable to merge non-adjacent or non-overlapping regions",
            ));
        };
        let server = self.close(&first.encoded)?;
        for part in &parts[1..] {
            self.close(&part.encoded)?;
        }
        let cells = parts.iter().filter_map(|part| {
            let hosted = self.regions.remove(&part.encoded);
            hosted.and_then(|hosted| hosted.region)
        });
        let cells = cells.reduce(Region::merge);
        let cells = cells.ok_or_else(|| Exception::io("the regions are gone"))?;
        let latest = parts.iter().map(|part| part.id).max().unwrap_or(0);
        let merged = RegionInfo::new(
            first.table.clone(),
            first.start_key.clone(),
            last.end_key.clone(),
            self.wall.max(latest + 1),
        );
        let encoded = merged.encoded.clone();
        self.regions
            .insert(encoded.clone(), Hosted::new(merged, cells, self.wall));
        let table = self.table_mut(&first.table)?;
        for part in &parts {
            table.regions.remove(&part.start_key);
        }
        table.regions.insert(first.start_key.clone(), encoded.clone());
        for part in &parts {
            self.delete_meta_row(part.name.clone())?;
        }
        self.record_region(&encoded)?;
        self.plan_opening(&encoded, server);
        Ok(encoded)
    }

    /// Returns all stored cells of a table, markers included, in order.
    pub(crate) fn dump(&self, table: &str) -> Vec<Cell> {
        let Some(table) = self.tables.get(&TableName::parse(table)) else {
            return Vec::new();
        };
        let regions = table
            .regions
            .values()
            .filter_map(|encoded| self.regions.get(encoded));
        let cells = regions.filter_map(|hosted| hosted.region.as_ref());
        cells.flat_map(|region| region.dump()).collect()
    }
}
