//! The cluster and the faults of a run, drawn from its seed.

use std::time::Duration;

use fastrand::Rng;

use crate::{Latency, RandomFaults, region::Release};

/// A fault that can be left out of a repeated run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FaultId {
    /// The fault of the call or dial with this number.
    Call(u64),
    /// The event with this number.
    Event(usize),
}

/// A fault that happened in a run.
#[derive(Clone, Debug)]
pub(super) struct FaultReport {
    pub(super) id: FaultId,
    /// The kind of the fault.
    pub(super) kind: &'static str,
    pub(super) text: String,
}

/// The options of a scenario that limit its plans.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlanOptions {
    /// Whether the clocks of servers never jump.
    pub(super) steady_clocks: bool,
    /// Whether requests may be executed twice.
    pub(super) doubled_requests: bool,
    /// The number of moves, splits and merges beside the other events.
    pub(super) region_changes: usize,
}

/// What happens to the cluster at some time. Numbers choose one of the servers, or of the regions,
/// that there are then.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Move {
        region: usize,
        server: usize,
    },
    Split {
        region: usize,
    },
    Merge {
        region: usize,
    },
    Flush {
        region: usize,
    },
    Compact {
        region: usize,
    },
    Crash {
        server: usize,
        down: Duration,
    },
    Hang {
        server: usize,
        stays: Duration,
    },
    /// The clock of a server jumps.
    Skew {
        server: usize,
        ahead: i64,
    },
    /// The master hangs.
    MuteMaster {
        stays: Duration,
    },
}

/// The parts of a run that follow from its seed alone.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) servers: usize,
    pub(super) release: Release,
    pub(super) latency: Latency,
    /// The bytes that a stream carries at once, at least and at most.
    pub(super) chunks: Option<(usize, usize)>,
    pub(super) faults: RandomFaults,
    /// The events, with their times since the faults began.
    pub(super) events: Vec<(Duration, Event)>,
}

const RELEASES: [Release; 4] = [Release::V2_4, Release::V2_5, Release::V2_6, Release::V3_0];
/// The longest delays of messages, in milliseconds. Deadlines of clients lie between them.
const DELAYS: [u64; 4] = [20, 300, 3_000, 20_000];
/// Longer than any message takes.
pub(super) const LATEST_MESSAGE: Duration = Duration::from_secs(60);
/// The longest latencies, in milliseconds.
const LATENCIES: [u64; 4] = [0, 0, 5, 40];

impl Plan {
    /// Draws a plan.
    pub(super) fn draw(seed: u64, options: PlanOptions) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x706c_616e);
        let servers = rng.usize(1..4);
        let release = RELEASES[rng.usize(..RELEASES.len())];
        let longest = Duration::from_millis(LATENCIES[rng.usize(..LATENCIES.len())]);
        let latency = Latency {
            request: Duration::ZERO..longest,
            queue: Duration::ZERO..longest / 4,
            answer: Duration::ZERO..longest,
        };
        let faults = draw_faults(&mut rng, options);
        let mut events: Vec<_> = (0..rng.usize(..6))
            .map(|_| (Duration::from_millis(rng.u64(..4_000)), Event::draw(&mut rng)))
            .collect();
        events.retain(|(_, event)| !options.steady_clocks || !matches!(event, Event::Skew { .. }));
        let chunks = (rng.u8(..16) == 0).then(|| (rng.usize(1..20), rng.usize(20..2_000)));
        for _ in 0..options.region_changes {
            let after = Duration::from_millis(rng.u64(..4_000));
            events.push((after, Event::draw_region_change(&mut rng)));
        }
        events.sort_by_key(|event| event.0);
        Self {
            servers,
            release,
            latency,
            chunks,
            faults,
            events,
        }
    }
}

/// Most runs have a few kinds of faults, so that others show what those do alone.
fn draw_faults(rng: &mut Rng, options: PlanOptions) -> RandomFaults {
    let mut often = |one_in: u8| match rng.u8(..one_in) {
        0 => 0.08 * rng.f64(),
        _ => 0.0,
    };
    let faults = RandomFaults {
        lose_request: often(3),
        lose_answer: often(2),
        delay_request: often(3),
        delay_in_queue: often(4),
        delay_answer: often(3),
        cut_answer: often(5),
        close_before: often(5),
        close_after: often(4),
        wrong_call_id: often(8),
        fail_before: often(5),
        fail_after: often(6),
        refuse_dial: often(5),
        delay_dial: often(6),
        lose_dial: often(6),
        answer_twice: often(6),
        // A muted connection loses the calls after this one, too.
        mute: often(6) / 4.0,
        deliver_twice: often(4) * f64::from(u8::from(options.doubled_requests)),
        exceptions: Vec::new(),
        max_delay: Duration::ZERO,
    };
    // Servers send some exceptions only for calls that they have not executed.
    let (fail_after, exceptions) = if rng.bool() {
        (faults.fail_after, vec!["java.io.IOException"])
    } else {
        (0.0, vec!["RegionTooBusyException", "CallQueueTooBigException"])
    };
    RandomFaults {
        max_delay: Duration::from_millis(DELAYS[rng.usize(..DELAYS.len())]),
        fail_after,
        exceptions,
        ..faults
    }
}

impl Event {
    /// Returns the name of the kind of the event.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Move { .. } => "move",
            Self::Split { .. } => "split",
            Self::Merge { .. } => "merge",
            Self::Flush { .. } => "flush",
            Self::Compact { .. } => "compact",
            Self::Crash { .. } => "crash",
            Self::Hang { .. } => "hang",
            Self::Skew { .. } => "skew",
            Self::MuteMaster { .. } => "mute_master",
        }
    }

    fn draw_region_change(rng: &mut Rng) -> Self {
        let (region, server) = (rng.usize(..64), rng.usize(..64));
        match rng.u8(..3) {
            0 => Self::Move { region, server },
            1 => Self::Split { region },
            _ => Self::Merge { region },
        }
    }

    fn draw(rng: &mut Rng) -> Self {
        let (region, server) = (rng.usize(..64), rng.usize(..64));
        let stays = Duration::from_millis(rng.u64(10..4_000));
        match rng.u8(..16) {
            0..5 => Self::Move { region, server },
            5..7 => Self::Split { region },
            7 => Self::Merge { region },
            8 => Self::Flush { region },
            9 => Self::Compact { region },
            10..13 => Self::Crash { server, down: stays },
            13 => Self::Hang { server, stays },
            14 => Self::Skew {
                server,
                ahead: rng.i64(-20_000..=20_000),
            },
            _ => Self::MuteMaster { stays },
        }
    }
}
