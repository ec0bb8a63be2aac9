//! Regions that open, close and move.

use bytes::Bytes;
use hbase_protocol as pb;
use pb::{region_state::State, table_state::State as TableState};

use super::{
    procedures::Step,
    server::{Moved, Role, ServerIndex, ServerState},
    world::{World, has_endpoint},
};
use crate::exception::{Exception, Result};

impl World {
    /// Lets time pass: does what is due.
    pub(crate) fn advance(&mut self, wall: u64) {
        while let Some((due, step)) = self.procedures.take(wall) {
            self.wall = self.wall.max(due);
            // A region that is gone meanwhile needs no step.
            let _ = self.perform(step);
        }
        self.wall = self.wall.max(wall);
    }

    fn perform(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Open { region, server } => self.begin_opening(&region, server),
            Step::Opened { region, start } => {
                let hosted = self.hosted(&region)?;
                let server = hosted.serving.filter(|_| hosted.state == State::Opening);
                match server {
                    Some(server) if self.server(server).name == start => self.finish_opening(&region, server),
                    _ => Ok(()),
                }
            }
            Step::Forget { region } => {
                let name = self.hosted(&region)?.info.name.clone();
                self.regions.remove(&region);
                self.delete_meta_row(name)
            }
        }
    }

    /// Opens a region without delay.
    pub(super) fn open_at_once(&mut self, region: &Bytes, server: Option<ServerIndex>) -> Result<()> {
        let server = self
            .choose(server)
            .ok_or_else(|| Exception::io("no region server runs"))?;
        self.set_serving(region, State::Opening, Some(server))?;
        self.finish_opening(region, server)
    }

    fn begin_opening(&mut self, region: &Bytes, server: Option<ServerIndex>) -> Result<()> {
        let wall = self.wall;
        let hosted = self.hosted(region)?;
        let table = hosted.info.table.clone();
        let is_closed = matches!(hosted.state, State::Closed | State::Closing | State::Offline);
        let is_wanted = self
            .tables
            .get(&table)
            .is_some_and(|table| matches!(table.state, TableState::Enabled | TableState::Enabling));
        if !is_closed || !is_wanted || hosted.info.split {
            return Ok(());
        }
        let Some(server) = self.choose(server) else {
            let retry = wall + self.settings.durations.retry.max(1);
            let step = Step::Open {
                region: region.clone(),
                server: None,
            };
            self.procedures.plan(retry, step);
            return Ok(());
        };
        let start = self.server(server).name.clone();
        self.set_serving(region, State::Opening, Some(server))?;
        self.record_state(region)?;
        let due = wall + self.settings.durations.open;
        let step = Step::Opened {
            region: region.clone(),
            start,
        };
        self.procedures.plan(due, step);
        Ok(())
    }

    fn finish_opening(&mut self, region: &Bytes, server: ServerIndex) -> Result<()> {
        let name = self.server(server).name.clone();
        let table = self.hosted(region)?.info.table.clone();
        let schema = self.table(&table)?.schema.clone();
        let nonces = self.server(server).nonces.clone();
        let hosted = self.hosted_mut(region)?;
        let Some(cells) = hosted.region.as_mut() else {
            return Ok(());
        };
        cells.reopen(&schema, nonces)?;
        hosted.open_sequence = (hosted.open_sequence + 1).max(cells.sequence() + 1);
        hosted.has_endpoint = has_endpoint(&schema);
        hosted.location = Some(name);
        self.set_serving(region, State::Open, Some(server))?;
        self.server_mut(server).moved.remove(region);
        self.record_location(region)
    }

    /// Closes an open region in good order: its memory is flushed.
    pub(super) fn close(&mut self, region: &Bytes) -> Result<Option<ServerIndex>> {
        let Some(server) = self.hosted(region)?.serving else {
            return Ok(None);
        };
        let now = self.clock(server);
        let hosted = self.hosted_mut(region)?;
        if let (State::Open, Some(cells)) = (hosted.state, &mut hosted.region) {
            cells.flush(now)?;
        }
        self.set_serving(region, State::Closing, None)?;
        self.record_state(region)?;
        Ok(Some(server))
    }

    /// Sets the state of a region, and the server that serves or opens it.
    fn set_serving(&mut self, region: &Bytes, state: State, server: Option<ServerIndex>) -> Result<()> {
        let since = self.wall;
        let hosted = self.hosted_mut(region)?;
        (hosted.state, hosted.since) = (state, since);
        let before = std::mem::replace(&mut hosted.serving, server);
        if let Some(before) = before {
            self.server_mut(before).regions -= 1;
        }
        if let Some(server) = server {
            self.server_mut(server).regions += 1;
        }
        Ok(())
    }

    /// Closes a region, and opens it again: on this server, or on any.
    pub(super) fn reassign(&mut self, region: &Bytes, to: Option<ServerIndex>) -> Result<()> {
        let from = self.close(region)?;
        if let (Some(from), Some(to)) = (from, to)
            && from != to
        {
            let moved = Moved {
                to: self.server(to).name.clone(),
                sequence: self.hosted(region)?.open_sequence + 1,
                forgotten_at: self.wall + self.settings.durations.moved,
            };
            self.server_mut(from).moved.insert(region.clone(), moved);
        }
        self.plan_opening(region, to);
        Ok(())
    }

    pub(super) fn plan_opening(&mut self, region: &Bytes, server: Option<ServerIndex>) {
        let due = self.wall + self.settings.durations.close;
        let step = Step::Open {
            region: region.clone(),
            server,
        };
        self.procedures.plan(due, step);
    }

    /// Returns this server if regions can open on it, or the one with the fewest regions.
    fn choose(&self, server: Option<ServerIndex>) -> Option<ServerIndex> {
        if let Some(server) = server.filter(|server| self.server(*server).can_open()) {
            return Some(server);
        }
        let servers = (0..self.servers.len()).map(ServerIndex);
        servers
            .filter(|server| self.server(*server).can_open())
            .min_by_key(|server| self.server(*server).regions)
    }

    /// Returns whether no process is about to start, and every region of an enabled table
    /// is open.
    pub(crate) fn is_settled(&mut self, wall: u64) -> bool {
        self.advance(wall);
        let settled = |state: ServerState| match state {
            ServerState::Up { serves_from } => serves_from <= wall,
            ServerState::Hung | ServerState::Down => true,
        };
        self.servers.iter().all(|server| settled(server.state))
            && !self.procedures.has_openings()
            && self.regions.values().all(|hosted| {
                let table = self.tables.get(&hosted.info.table);
                let is_enabled = table.is_some_and(|table| table.state == TableState::Enabled);
                hosted.info.split || !is_enabled || hosted.is_open()
            })
    }

    /// Returns the region servers that run.
    pub(super) fn live_servers(&self) -> impl Iterator<Item = ServerIndex> {
        let servers = self.servers.iter().enumerate();
        servers
            .filter(|(_, server)| server.role == Role::Region && server.state != ServerState::Down)
            .map(|(number, _)| ServerIndex(number))
    }
}
