//! The owners' view of permits, readers and leaders, and a checker of it.
//!
//! Each thing has a capacity, and each hold takes a part of it: a permit one of several, a leader
//! the whole, a writer as much as all possible readers. All owners are in one process, so all times
//! are of one clock.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use tokio::time::Instant;

/// One hold, from its acquisition until its owner released it or detected its loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) thing: usize,
    /// The part of the capacity that it takes.
    pub(crate) part: usize,
    pub(crate) asked: Instant,
    pub(crate) from: Instant,
    pub(crate) until: Instant,
    pub(crate) fencing: i64,
}

/// A violation in a history.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    EndedBeforeItBegan(Hold),
    /// From the beginning of this hold on, more is held than the capacity.
    Exceeded(Hold),
    /// A number is not higher than that of a hold that was acquired before this one was requested,
    /// or that had to end before this one could begin.
    Fencing {
        hold: Hold,
        before: i64,
    },
}

/// All holds that have ended.
#[derive(Clone, Default)]
pub(crate) struct History(Arc<Mutex<Vec<Hold>>>);

impl History {
    pub(crate) fn add(&self, hold: Hold) {
        self.0.lock().unwrap().push(hold);
    }

    /// Returns the number of holds of each thing. Panics on a violation.
    pub(crate) fn check(&self, capacities: &[usize]) -> Vec<usize> {
        let holds = self.0.lock().unwrap();
        let of_things = capacities.iter().enumerate().map(|(thing, capacity)| {
            let holds: Vec<Hold> = holds.iter().filter(|hold| hold.thing == thing).copied().collect();
            match check(&holds, *capacity) {
                Ok(()) => holds.len(),
                Err(fault) => panic!("thing {thing} of {capacity}: {fault:?}"),
            }
        });
        of_things.collect()
    }
}

/// Returns the first violation among the holds of one thing.
pub(crate) fn check(holds: &[Hold], capacity: usize) -> Result<(), Fault> {
    if let Some(hold) = holds
        .iter()
        .find(|hold| hold.until < hold.from || hold.from < hold.asked)
    {
        return Err(Fault::EndedBeforeItBegan(*hold));
    }
    let by = |key: fn(&Hold) -> Instant| {
        let mut sorted: Vec<&Hold> = holds.iter().collect();
        sorted.sort_by_key(|hold| key(hold));
        sorted
    };
    let (by_asked, by_from, by_until) = (by(|hold| hold.asked), by(|hold| hold.from), by(|hold| hold.until));
    let mut ends = by_until.iter().peekable();
    let mut taken = 0;
    // The highest number of the ended holds, for each part that they took.
    let mut highest: BTreeMap<usize, i64> = BTreeMap::new();
    for hold in &by_from {
        while let Some(ended) = ends.next_if(|ended| ended.until <= hold.from && **ended != *hold) {
            taken -= ended.part;
            let number = highest.entry(ended.part).or_default();
            *number = ended.fencing.max(*number);
        }
        taken += hold.part;
        if taken > capacity {
            return Err(Fault::Exceeded(**hold));
        }
        let beside = capacity.saturating_sub(hold.part);
        let before = highest.range(beside + 1..).map(|(_, number)| *number).max();
        refuse(hold, before)?;
    }
    let mut handed_out = by_from.iter().peekable();
    let mut before = None;
    for hold in by_asked {
        while let Some(earlier) = handed_out.next_if(|earlier| earlier.from < hold.asked) {
            before = before.max(Some(earlier.fencing));
        }
        refuse(hold, before)?;
    }
    Ok(())
}

fn refuse(hold: &Hold, before: Option<i64>) -> Result<(), Fault> {
    match before {
        Some(before) if before >= hold.fencing => Err(Fault::Fencing { hold: *hold, before }),
        _ => Ok(()),
    }
}
