//! What must be seen of a latch after each event, in a few lines.

use std::time::Duration;

use hbase_txn::{ClientErrorKind, ErrorKind, Level, latch::LatchState};

/// What can happen to a latch, each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Init,
    InitAgain,
    Add,
    Down,
    /// By the other farm.
    FarDown,
    /// By a Java client, which asks nothing and gives no TTL.
    JavaDown,
    /// Of the whole region.
    Flush,
    /// All that is to end before the others does.
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
    /// At the event of that name.
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
    /// Whether it is known that there was a latch.
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

    /// Whether what was to end has ended.
    pub(super) fn has_expired(&self) -> bool {
        self.expired
    }

    /// How long a latch that is made now is to live.
    pub(super) fn life(&self, short: Duration, long: Duration) -> Duration {
        if self.expired { long } else { short }
    }

    /// The count by whose end the latch ends; none when there is no latch.
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

    /// What is shown.
    pub(super) fn state(&self) -> (LatchState, Option<u64>) {
        match (self.live(), self.left()) {
            (Some(_), 0) => (LatchState::Reached, Some(0)),
            (Some(_), left) => (LatchState::Open, Some(left.unsigned_abs())),
            (None, _) if self.known && self.has_state => (LatchState::Expired, None),
            (None, _) => (LatchState::Absent, None),
        }
    }

    /// What the columns hold: of this farm, of the other.
    pub(super) fn stored(&self) -> [Option<i64>; 2] {
        [self.own, self.far].map(|count| count.map(|count| count.value))
    }

    /// Goes on by an event; how it must end for who asks for it.
    pub(super) fn take(&mut self, event: Event) -> Result<(), ErrorKind> {
        match event {
            Event::Init => self.init(3),
            Event::InitAgain => self.init(2),
            Event::Add => self.count(false, 1),
            Event::Down => self.count(false, -1),
            // No latch of that farm alone was ever made.
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
            return Err(match self.known && self.has_state {
                true => ErrorKind::LatchExpired,
                false => ErrorKind::LatchAbsent,
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
