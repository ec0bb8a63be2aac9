//! One latch that goes through the events of one order.

use std::{
    fmt::Debug,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use hbase_txn::{
    Error, Level,
    client::{Cell, Get, Increment, Table},
    latch::{Latch, LatchManager, WaitOutcome},
};
use tokio::{sync::Semaphore, task::JoinHandle, time::sleep};

use super::model::{Event, Model};
use crate::support::latch_rows::latch_row;

pub(super) const CLIENT: &str = "orders";
/// The life of cells that end at the expiry.
pub(super) const SHORT: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(3_600);
/// A sequence that takes longer until then is not judged.
const IN_TIME: Duration = Duration::from_secs(18);
const PATIENCE: Duration = Duration::from_secs(60);

/// The clients of a table, shared by all its sequences.
pub(super) struct Players {
    pub(super) here: LatchManager,
    pub(super) there: LatchManager,
    /// Reads cells together with their expiry.
    pub(super) data: Table,
    pub(super) calls: Semaphore,
}

pub(super) struct Sequence {
    id: String,
    level: Level,
    events: [Event; 8],
    model: Model,
    began: Option<Instant>,
    waiting: Option<JoinHandle<Result<WaitOutcome, Error>>>,
    /// Whether the machine was too slow for the events before the latch's end.
    pub(super) late: bool,
    pub(super) complaints: Vec<String>,
}

impl Sequence {
    pub(super) fn new(id: String, level: Level, events: [Event; 8], has_state: bool) -> Self {
        Self {
            id,
            level,
            events,
            model: Model::new(level, has_state),
            began: None,
            waiting: None,
            late: false,
            complaints: Vec::new(),
        }
    }

    fn latch(&self, latches: &LatchManager) -> Latch {
        latches.latch(self.level, &self.id).unwrap()
    }

    /// Runs the event of this place and checks the state afterwards. The caller flushes the region.
    pub(super) async fn take(&mut self, players: &Players, place: usize) {
        let event = self.events[place];
        let is_early = event != Event::Expiry && !self.model.has_expired();
        self.late |= is_early && self.began.is_some_and(|began| began.elapsed() > IN_TIME);
        if self.late {
            return;
        }
        if event == Event::Expiry {
            self.expire(players).await;
        }
        let complaints = self.complaints.len();
        let was_live = self.model.is_live();
        let expected = {
            let _turn = players.calls.acquire().await.unwrap();
            let begins = Instant::now();
            let done = self.do_it(players, event).await;
            let life = self.model.life(SHORT, LONG);
            let expected = self.model.take(event);
            let told = done.map_err(|error| error.kind());
            if told != expected {
                self.complain(place, &told, &expected);
            }
            if life == SHORT && expected.is_ok() && matches!(event, Event::Init | Event::InitAgain) {
                self.began.get_or_insert(begins);
            }
            self.look(players, place).await;
            expected
        };
        if is_early && self.began.is_some_and(|began| began.elapsed() > IN_TIME) {
            // The latch may have ended in the meantime.
            self.late = true;
            self.complaints.truncate(complaints);
            return;
        }
        if expected.is_ok() {
            self.see_waiter(players, place, was_live).await;
        }
    }

    async fn do_it(&self, players: &Players, event: Event) -> Result<(), Error> {
        let ours = self.latch(&players.here);
        let life = self.model.life(SHORT, LONG);
        match event {
            Event::Init => ours.init(3, life).await,
            Event::InitAgain => ours.init(2, life).await,
            Event::Add => ours.count_up(1).await.map(drop),
            Event::Down => ours.count_down(1).await.map(drop),
            Event::FarDown => self.latch(&players.there).count_down(1).await.map(drop),
            Event::JavaDown => {
                let row = latch_row(CLIENT, &self.id);
                let increment = Increment::new(row).column("C", "count_fra", -1);
                Ok(players.data.increment(increment).await.map(drop)?)
            }
            Event::Flush | Event::Expiry => Ok(()),
        }
    }

    /// Checks the state that both farms see, and the stored cells.
    async fn look(&mut self, players: &Players, place: usize) {
        let expected = self.model.state();
        let farms: &[_] = match self.level {
            Level::Dc => &[&players.here],
            Level::Xdc => &[&players.here, &players.there],
        };
        for farm in farms {
            let shown = self.latch(farm).show().await;
            let shown = shown.map(|info| (info.state, info.count));
            if shown.as_ref().ok() != Some(&expected) {
                self.complain(place, &shown, &expected);
            }
        }
        let cells = self.cells(players).await;
        let value = |column: &str| {
            let cell = cells.iter().find(|cell| cell.qualifier == column)?;
            Some(i64::from_be_bytes(cell.value[..].try_into().unwrap()))
        };
        let stored = ["count_fra", "count_sgp"].map(value);
        if stored != self.model.stored() {
            self.complain(place, &stored, &self.model.stored());
        }
    }

    async fn cells(&self, players: &Players) -> Vec<Cell> {
        let row = players
            .data
            .get(Get::new(latch_row(CLIENT, &self.id)).family("C"));
        row.await.unwrap().map(|row| row.into_cells()).unwrap_or_default()
    }

    /// Waits until the short-lived counts have ended. A count by a Java client delays that.
    async fn expire(&self, players: &Players) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let cells = {
                let _turn = players.calls.acquire().await.unwrap();
                self.cells(players).await
            };
            let short = u64::try_from(SHORT.as_millis()).unwrap();
            let ends = |at: &u64, cell: &Cell| *at <= cell.timestamp + short;
            let last = cells
                .iter()
                .filter_map(|cell| cell.expires_at().filter(|at| ends(at, cell)));
            let Some(last) = last.max() else { return };
            assert!(Instant::now() < deadline, "{} does not end: {cells:?}", self.id);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let left = Duration::from_millis(last).saturating_sub(now);
            sleep(left.max(Duration::from_millis(200))).await;
        }
    }

    /// Keeps a waiter while the latch is open, and checks its outcome when the latch is not.
    async fn see_waiter(&mut self, players: &Players, place: usize, was_live: bool) {
        let now_open = matches!(self.model.state(), (_, Some(1..)));
        match (self.waiting.take(), now_open) {
            (Some(waiting), true) => self.waiting = Some(waiting),
            (Some(waiting), false) => {
                let expected = if self.model.is_live() {
                    WaitOutcome::Reached
                } else {
                    WaitOutcome::Expired
                };
                let told = tokio::time::timeout(PATIENCE, waiting).await;
                let told = told.map(|told| told.unwrap().map_err(|error| error.kind()));
                if told != Ok(Ok(expected)) {
                    self.complain(place, &told, &expected);
                }
            }
            (None, true) if !was_live => {
                let latch = self.latch(&players.there_or_here(self.level));
                self.waiting = Some(tokio::spawn(async move { latch.wait(LONG).await }));
            }
            (None, _) => {}
        }
    }

    /// Stops the sequence and its remaining waiter.
    pub(super) fn end(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            if waiting.is_finished() && !self.late {
                self.complaints.push(format!("{}: told too early", self.id));
            }
            waiting.abort();
        }
    }

    fn complain(&mut self, place: usize, found: &dyn Debug, expected: &dyn Debug) {
        let Self {
            id, level, events, ..
        } = self;
        let complaint = format!("{id}, {level}, {events:?}, at {place}: {found:?} instead of {expected:?}");
        self.complaints.push(complaint);
    }
}

impl Players {
    fn there_or_here(&self, level: Level) -> LatchManager {
        match level {
            Level::Dc => self.here.clone(),
            Level::Xdc => self.there.clone(),
        }
    }
}
