//! A small model of the visible state of a latch after each event.

use std::time::Duration;

use hbase_txn::{ClientErrorKind, ErrorKind, Level, latch::LatchState};

/// An event of a latch; each happens once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Init,
    InitAgain,
    Add,
    Down,
    /// A count-down by the other farm.
    FarDown,
    /// A count-down by a Java client, which checks nothing and sets no TTL.
    JavaDown,
    /// A flush of the whole region.
    Flush,
    /// The expiry of all cells with the short life.
    Expiry,
}

impl Event {
    pub(super) const ALL: [Self; 8] = [
        Self::Init,
        Self::InitAgain,
        Self::Add,
        Self::Down,
        Self::FarDown,
        Self::JavaDown,
        Self::Flush,
        Self::Expiry,
    ];
}

/// When a count ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// At [`Event::Expiry`].
    Expiry,
    Later,
    Never,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    value: i64,
    end: End,
}

/// One latch: the counts of this farm and of the other.
#[derive(Clone, Debug)]
pub(super) struct Model {
    level: Level,
    has_state: bool,
    own: Option<Count>,
    far: Option<Count>,
    /// Whether a note says that there was a latch.
    known: bool,
    expired: bool,
}

impl Model {
    pub(super) fn new(level: Level, has_state: bool) -> Self {
        Self {
            level,
            has_state,
            own: None,
            far: None,
            known: false,
            expired: false,
        }
    }

    /// Whether the short-lived cells have expired.
    pub(super) fn has_expired(&self) -> bool {
        self.expired
    }

    /// The life of a latch that is created now.
    pub(super) fn life(&self, short: Duration, long: Duration) -> Duration {
        if self.expired { long } else { short }
    }

    /// The count whose end is the end of the latch, or `None` if there is no latch.
    fn live(&self) -> Option<Count> {
        match self.level {
            Level::Dc => self.own.filter(|own| own.value >= 0 || own.end != End::Never),
            Level::Xdc => [self.own, self.far]
                .into_iter()
                .flatten()
                .find(|count| count.value >= 0),
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.live().is_some()
    }

    fn left(&self) -> i64 {
        let far = match self.level {
            Level::Dc => None,
            Level::Xdc => self.far,
        };
        let values = [self.own, far].map(|count| count.map_or(0, |count| count.value));
        values.iter().sum::<i64>().max(0)
    }

    /// The state and count that clients see.
    pub(super) fn state(&self) -> (LatchState, Option<u64>) {
        match (self.live(), self.left()) {
            (Some(_), 0) => (LatchState::Reached, Some(0)),
            (Some(_), left) => (LatchState::Open, Some(left.unsigned_abs())),
            (None, _) if self.known && self.has_state => (LatchState::Expired, None),
            (None, _) => (LatchState::Absent, None),
        }
    }

    /// The stored counts of this farm and of the other.
    pub(super) fn stored(&self) -> [Option<i64>; 2] {
        [self.own, self.far].map(|count| count.map(|count| count.value))
    }

    /// Applies an event and returns the result that its caller must get.
    pub(super) fn take(&mut self, event: Event) -> Result<(), ErrorKind> {
        match event {
            Event::Init => self.init(3),
            Event::InitAgain => self.init(2),
            Event::Add => self.count(false, 1),
            Event::Down => self.count(false, -1),
            // A latch of the other farm alone is never created.
            Event::FarDown if self.level == Level::Dc => Err(ErrorKind::LatchAbsent),
            Event::FarDown => self.count(true, -1),
            Event::JavaDown => {
                let own = self.own.get_or_insert(Count {
                    value: 0,
                    end: End::Never,
                });
                own.value -= 1;
                Ok(())
            }
            Event::Flush => Ok(()),
            Event::Expiry => {
                let stays = |count: &Count| count.end != End::Expiry;
                self.own = self.own.filter(stays);
                self.far = self.far.filter(stays);
                self.expired = true;
                Ok(())
            }
        }
    }

    fn init(&mut self, value: i64) -> Result<(), ErrorKind> {
        if self.is_live() {
            return Err(ErrorKind::LatchExists);
        }
        let end = if self.expired { End::Later } else { End::Expiry };
        self.own = Some(Count { value, end });
        if self.level == Level::Xdc {
            self.far = None;
        }
        self.known = true;
        Ok(())
    }

    fn count(&mut self, far: bool, by: i64) -> Result<(), ErrorKind> {
        let Some(live) = self.live() else {
            return Err(if self.known && self.has_state {
                ErrorKind::LatchExpired
            } else {
                ErrorKind::LatchAbsent
            });
        };
        if self.left() + by < 0 {
            return Err(ErrorKind::Client(ClientErrorKind::LimitExceeded));
        }
        let column = if far { &mut self.far } else { &mut self.own };
        let before = column.map_or(0, |count| count.value);
        *column = Some(Count {
            value: before + by,
            end: live.end,
        });
        Ok(())
    }
}
