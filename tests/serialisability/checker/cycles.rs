//! Finds transactions that must precede themselves.

use std::collections::VecDeque;

use super::{
    Anomaly, Kind,
    dependencies::{Dependency, Why},
};
use crate::serialisability::history::History;

/// The kinds of dependencies in cycles, the worst first.
const LEVELS: [&[Why]; 5] = [
    &[Why::Overwritten],
    &[Why::Overwritten, Why::Seen],
    &[Why::Overwritten, Why::Seen, Why::NotSeen],
    &[Why::Overwritten, Why::Seen, Why::NotSeen, Why::Earlier],
    &[
        Why::Overwritten,
        Why::Seen,
        Why::NotSeen,
        Why::Earlier,
        Why::Phantom,
    ],
];

/// Transactions and their dependencies.
pub(super) struct Graph<'a> {
    history: &'a History,
    /// By the preceding transaction.
    dependencies: Vec<Vec<Dependency<'a>>>,
    /// Transactions that are in no cycle found so far.
    left: Vec<bool>,
}

impl<'a> Graph<'a> {
    pub(super) fn new(history: &'a History, all: &[Dependency<'a>]) -> Self {
        let count = history.transactions.len();
        let mut dependencies = vec![Vec::new(); count];
        for one in all {
            dependencies[one.before].push(*one);
        }
        Self {
            history,
            dependencies,
            left: vec![true; count],
        }
    }

    pub(super) fn anomalies(&mut self) -> Vec<Anomaly> {
        let mut anomalies = Vec::new();
        for level in LEVELS {
            while let Some(cycle) = self.shortest_cycle(level) {
                for one in &cycle {
                    self.left[one.before] = false;
                }
                anomalies.push(self.anomaly(&cycle));
            }
        }
        anomalies
    }

    fn shortest_cycle(&self, level: &[Why]) -> Option<Vec<Dependency<'a>>> {
        let core = self.core(level);
        let mut shortest: Option<Vec<_>> = None;
        for start in (0..core.len()).filter(|&one| core[one]) {
            let limit = shortest.as_ref().map_or(usize::MAX, |found| found.len() - 1);
            if limit < 2 {
                break;
            }
            if let Some(cycle) = self.cycle_from(start, &core, level, limit) {
                shortest = Some(cycle);
            }
        }
        shortest
    }

    /// Returns the transactions that remain when those without predecessors or without successors
    /// are removed repeatedly.
    fn core(&self, level: &[Why]) -> Vec<bool> {
        let mut core = self.left.clone();
        let mut before = vec![Vec::new(); core.len()];
        let mut behind = before.clone();
        for one in self.dependencies.iter().flatten() {
            if level.contains(&one.why) && core[one.before] && core[one.behind] {
                behind[one.before].push(one.behind);
                before[one.behind].push(one.before);
            }
        }
        for (out, into) in [(&behind, &before), (&before, &behind)] {
            let mut degrees: Vec<usize> = (0..core.len())
                .map(|one| into[one].iter().filter(|&&other| core[other]).count())
                .collect();
            let mut free: Vec<usize> = (0..core.len())
                .filter(|&one| core[one] && degrees[one] == 0)
                .collect();
            while let Some(one) = free.pop() {
                core[one] = false;
                for &other in &out[one] {
                    degrees[other] -= 1;
                    if core[other] && degrees[other] == 0 {
                        free.push(other);
                    }
                }
            }
        }
        core
    }

    /// Returns the shortest cycle through a transaction with at most this many dependencies.
    fn cycle_from(
        &self,
        start: usize,
        core: &[bool],
        level: &[Why],
        limit: usize,
    ) -> Option<Vec<Dependency<'a>>> {
        let mut came_by: Vec<Option<Dependency<'a>>> = vec![None; core.len()];
        let mut queue = VecDeque::from([(start, 0)]);
        while let Some((at, length)) = queue.pop_front() {
            if length == limit {
                return None;
            }
            for one in &self.dependencies[at] {
                if !level.contains(&one.why) || !core[one.behind] {
                    continue;
                }
                if one.behind == start {
                    let mut cycle = vec![*one];
                    while let Some(earlier) = came_by[cycle[cycle.len() - 1].before] {
                        cycle.push(earlier);
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if came_by[one.behind].is_none() {
                    came_by[one.behind] = Some(*one);
                    queue.push_back((one.behind, length + 1));
                }
            }
        }
        None
    }

    fn anomaly(&self, cycle: &[Dependency<'_>]) -> Anomaly {
        let transactions = &self.history.transactions;
        let name = |one: usize| transactions[one].name.as_str();
        let mut what = String::new();
        for one in cycle {
            let why = match one.why {
                Why::Overwritten => "wrote before",
                Why::Seen => "was seen by",
                Why::NotSeen => "has not seen",
                Why::Phantom => "has not seen, in a range,",
                Why::Earlier => "was over before",
            };
            let (before, behind) = (name(one.before), name(one.behind));
            what += &format!("\n  {before} {why} {behind} {}", one.key);
        }
        for one in cycle {
            what += &format!("\n  {}", transactions[one.before]);
        }
        Anomaly {
            kind: kind_of(cycle),
            transactions: cycle.iter().map(|one| name(one.before).to_owned()).collect(),
            what,
        }
    }
}

fn kind_of(cycle: &[Dependency<'_>]) -> Kind {
    let count = |why: Why| cycle.iter().filter(|one| one.why == why).count();
    let in_one_key = cycle.iter().all(|one| one.key == cycle[0].key);
    if count(Why::Phantom) > 0 {
        return Kind::Phantom;
    }
    if count(Why::Earlier) > 0 {
        return Kind::Stale;
    }
    match count(Why::NotSeen) {
        0 if count(Why::Seen) == 0 => Kind::WriteCycle,
        0 => Kind::CircularInformation,
        1 if in_one_key => Kind::LostUpdate,
        1 => Kind::ReadSkew,
        _ => Kind::WriteSkew,
    }
}
