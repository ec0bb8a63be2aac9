//! Visits every state that can be reached, in the order of the number of steps.

use std::collections::{HashMap, VecDeque};

use crate::{
    Config,
    clients::steps,
    state::{Call, Client, Id, Stage, State, Violation, Visitor, arrive},
};

/// What a search has found.
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) violation: Option<Violation>,
    /// The number of steps to the violation.
    pub(crate) depth: usize,
}

struct Search<'a> {
    config: &'a Config,
    /// In the order in which they were found, each with that from which it was.
    states: Vec<(State, u32)>,
    numbers: HashMap<State, u32>,
    /// The steps from state to state.
    edges: Vec<(u32, u32)>,
}

/// Searches all states from the first one. Beside what holds in each state, each must lead to one in which
/// all clients are done and all partitions are free.
pub(crate) fn search(config: &Config) -> Found {
    let mut search = Search {
        config,
        states: Vec::new(),
        numbers: HashMap::new(),
        edges: Vec::new(),
    };
    search.add(config.first(), 0);
    let mut at = 0;
    let violation = loop {
        let Some((state, _)) = search.states.get(at).copied() else {
            break search.dead_end();
        };
        match state.check(config).and_then(|()| successors(config, &state)) {
            Ok(next) => next.into_iter().for_each(|next| {
                let number = search.add(next, at as u32);
                search.edges.push((at as u32, number));
            }),
            Err(violation) => break Some(violation),
        }
        at += 1;
    };
    let (mut depth, mut from) = (0, at.min(search.states.len() - 1));
    while from > 0 {
        (depth, from) = (depth + 1, search.states[from].1 as usize);
    }
    Found {
        states: search.states.len(),
        violation,
        depth,
    }
}

/// Returns the states after each step of a client, and after the arrival of each call that was ever sent: its
/// answer is heard or lost.
fn successors(config: &Config, state: &State) -> Result<Vec<State>, Violation> {
    let mut next = Vec::new();
    for (id, client) in clients(state) {
        for (client, calls) in steps(config, state, id, client)? {
            let mut after = *state;
            after.clients[usize::from(id)] = Some(client);
            after.sent = calls
                .into_iter()
                .fold(after.sent, |sent, call| sent | config.bit(call));
            next.push(after);
        }
        if let Client::Plain(false) = client {
            let mut after = *state;
            let place = config.place_of(id);
            let mut partition = *state.at(place);
            partition.log = partition.log.and(id);
            after = after.with(place, partition);
            after.history = after.history.and(id);
            after.clients[usize::from(id)] = Some(Client::Plain(true));
            next.push(after);
        }
    }
    for call in config.calls_of(state.sent) {
        if let Some(after) = arrive(config, state, call)? {
            let heard = hear(&after, call);
            if after != *state {
                next.push(after);
            }
            next.extend(heard);
        }
    }
    Ok(next)
}

fn clients(state: &State) -> impl Iterator<Item = (Id, Client)> {
    let clients = (0..).zip(state.clients);
    clients.filter_map(|(id, client)| Some((id, client?)))
}

/// Returns the state in which the client that sent a call has heard its answer.
fn hear(state: &State, call: Call) -> Option<State> {
    let mut after = *state;
    let (id, client) = match call {
        Call::Write { writer } | Call::Update { writer, .. } | Call::Check { writer, .. } => {
            (writer, Client::Visitor(Visitor::Done))
        }
        Call::Hold { txn, at, .. } | Call::Apply { txn, at } => {
            let Some(Client::Coordinator(coordinator)) = state.clients[usize::from(txn)] else {
                return None;
            };
            let waits = match call {
                Call::Hold { .. } => Stage::Holds,
                _ => Stage::Applies,
            };
            let heard = Client::Coordinator(coordinator.answered_by(at));
            (coordinator.stage == waits).then_some((txn, heard))?
        }
        Call::Commit { txn, .. } => {
            let Some(Client::Coordinator(coordinator)) = state.clients[usize::from(txn)] else {
                return None;
            };
            let heard = coordinator.going_on(Stage::Applies);
            (coordinator.stage == Stage::Decides).then_some((txn, Client::Coordinator(heard)))?
        }
        Call::Release { .. } | Call::Fence { .. } | Call::Finish { .. } => return None,
    };
    after.clients[usize::from(id)] = Some(client);
    Some(after)
}

impl Search<'_> {
    fn add(&mut self, state: State, from: u32) -> u32 {
        *self.numbers.entry(state).or_insert_with(|| {
            self.states.push((state, from));
            (self.states.len() - 1) as u32
        })
    }

    /// Returns a violation if no path leads from a state to the end of all clients.
    fn dead_end(&self) -> Option<Violation> {
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); self.states.len()];
        for (from, to) in &self.edges {
            before[*to as usize].push(*from);
        }
        let is_end = |(state, _): &(State, u32)| self.config.is_end(state);
        let mut ends: Vec<bool> = self.states.iter().map(is_end).collect();
        let mut queue: VecDeque<_> = (0..ends.len()).filter(|at| ends[*at]).collect();
        while let Some(at) = queue.pop_front() {
            for from in &before[at] {
                let from = *from as usize;
                if !ends[from] {
                    ends[from] = true;
                    queue.push_back(from);
                }
            }
        }
        let dead = ends.iter().filter(|end| !**end).count();
        (dead > 0).then(|| format!("{dead} states from which the clients do not end"))
    }
}
