//! The parties' results of generations, and a checker. All times are of one clock, because the
//! parties are in one process.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Instant,
};

/// One call of a party, from its beginning until it learned the end of its generation, or gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) party: usize,
    pub(super) asked: Instant,
    pub(super) told: Instant,
    pub(super) ended: Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Opened(u64),
    Broken(u64),
    /// The answer was lost, or the call dropped: it may have counted, in one generation.
    Unknown,
}

impl Ended {
    fn generation(self) -> Option<u64> {
        match self {
            Self::Opened(generation) | Self::Broken(generation) => Some(generation),
            Self::Unknown => None,
        }
    }
}

/// A violation in a history.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Some calls returned that the generation has opened, others that it broke.
    OpenedAndBroken(u64),
    /// A call returned that the generation has opened before this party had begun enough calls.
    OpenedWithout { generation: u64, party: usize },
    /// A call arrived in a generation that had ended before the call began, or in an earlier one.
    Late { call: Call, ended: u64 },
}

/// All calls that have ended.
#[derive(Clone, Default)]
pub(super) struct History(Arc<Mutex<Vec<Call>>>);

impl History {
    pub(super) fn add(&self, call: Call) {
        self.0.lock().unwrap().push(call);
    }

    /// Returns the numbers of generations that opened and that broke. Panics on a violation.
    pub(super) fn check(&self, parties: usize) -> (usize, usize) {
        match check(&self.0.lock().unwrap(), parties) {
            Ok(counts) => counts,
            Err(fault) => panic!("{fault:?}"),
        }
    }
}

pub(super) fn check(calls: &[Call], parties: usize) -> Result<(usize, usize), Fault> {
    let mut opened: BTreeMap<u64, Instant> = BTreeMap::new();
    let mut broken: BTreeMap<u64, Instant> = BTreeMap::new();
    for call in calls {
        let (told, generation) = match call.ended {
            Ended::Opened(generation) => (&mut opened, generation),
            Ended::Broken(generation) => (&mut broken, generation),
            Ended::Unknown => continue,
        };
        let first = told.entry(generation).or_insert(call.told);
        *first = call.told.min(*first);
    }
    if let Some(generation) = opened.keys().find(|generation| broken.contains_key(generation)) {
        return Err(Fault::OpenedAndBroken(*generation));
    }
    for party in 0..parties {
        opened_with(calls, party, &opened)?;
    }
    in_order(calls)?;
    Ok((opened.len(), broken.len()))
}

/// Checks that each opened generation has a call of the party that began before any call returned
/// the opening.
fn opened_with(calls: &[Call], party: usize, opened: &BTreeMap<u64, Instant>) -> Result<(), Fault> {
    let of_party = || calls.iter().filter(|call| call.party == party);
    let mut by_unknown = 0;
    for (generation, told) in opened {
        let began = |call: &&Call| call.asked <= *told;
        let is_known = of_party()
            .filter(began)
            .any(|call| call.ended == Ended::Opened(*generation));
        if is_known {
            continue;
        }
        // A call with an unknown result counts in one generation at most.
        by_unknown += 1;
        let unknown = of_party()
            .filter(began)
            .filter(|call| call.ended == Ended::Unknown);
        if unknown.count() < by_unknown {
            return Err(Fault::OpenedWithout {
                generation: *generation,
                party,
            });
        }
    }
    Ok(())
}

/// Checks that a call that begins after the end of a generation arrives in a later one.
fn in_order(calls: &[Call]) -> Result<(), Fault> {
    let mut by_end: Vec<_> = calls
        .iter()
        .filter_map(|call| Some((call.told, call.ended.generation()?)))
        .collect();
    by_end.sort_unstable();
    let mut by_start: Vec<_> = calls.iter().collect();
    by_start.sort_by_key(|call| call.asked);
    let mut ends = by_end.into_iter().peekable();
    let mut last = 0;
    for call in by_start {
        while let Some((_, ended)) = ends.next_if(|(told, _)| *told < call.asked) {
            last = last.max(ended);
        }
        if call
            .ended
            .generation()
            .is_some_and(|generation| generation <= last)
        {
            return Err(Fault::Late {
                call: *call,
                ended: last,
            });
        }
    }
    Ok(())
}
