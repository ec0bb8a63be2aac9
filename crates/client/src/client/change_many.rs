//! Many increments and appends at once, with one call for each server.
//!
//! The changes of a region that share a call are one atomic action, as in the module of `lanes`: the
//! server syncs its log once for all of them, while it would do so after each of them otherwise. An
//! action has at most one change of a row, because the server would base a second one on the old
//! value.
//!
//! Each change carries a nonce, of which a server remembers the last one of an atomic action. So an
//! action that may have been applied is sent again as it is, to the same server, or not at all.
//!
//! If an action fails for good and nothing of it was applied, each of its changes is sent again as
//! an action of its own, because another one may be the cause.

mod call;

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::Instant;

use super::{CallKind, Table, bulk::is_final};
use crate::{
    cluster::{Attempts, Operation, RegionLocation},
    error::{Effect, Error, Result},
    model::{BytesBinary, Mutation, RegionInfo, Row, ServerName},
    rpc::{AttemptLimit, CallError},
    wire::{cell_block::Codec, mutation::MutationMessage},
};

/// The number of calls in flight to a server. While it executes one, the client encodes the next.
const LANES: usize = 2;
/// The maximum number of changes in an atomic action: the server reads all their cells, perhaps from
/// the disk, before it unlocks any of their rows.
const MOST_TOGETHER: usize = 100;
/// The limits of a call, unless a single change is larger.
const MOST_CHANGES: usize = 1_000;
const MOST_BYTES: usize = 1 << 20;
/// The weight of a value that an append returns, in bytes. Its real size is not known before, and no
/// server limits the size of an answer to atomic actions. So a call has few such values, each of at
/// most 10 MiB (`hbase.server.keyvalue.maxsize`).
const APPENDED_VALUE: usize = 64 << 10;

/// An increment or append, encoded once for all attempts.
struct Change {
    /// Its index in the caller's list.
    place: usize,
    mutation: Mutation,
    message: Bytes,
    weight: usize,
    /// Whether it is an action of its own.
    is_alone: bool,
}

/// Changes that are attempted together, in the order of their rows. Never empty.
struct Part<'a> {
    attempts: Attempts<'a>,
    changes: Vec<Change>,
}

/// A part that is one action, and the location of its region.
struct Placed<'a> {
    part: Part<'a>,
    location: Arc<RegionLocation>,
}

/// The calls to a server.
#[derive(Default)]
struct Flow<'a> {
    in_flight: usize,
    ready: VecDeque<Placed<'a>>,
}

/// Changes in progress.
struct Changing<'a> {
    table: &'a Table,
    nonce_group: u64,
    steps: FuturesUnordered<BoxFuture<'a, Step<'a>>>,
    servers: BTreeMap<ServerName, Flow<'a>>,
    answers: Vec<Answer>,
}

/// The result of a change, by its index in the caller's list.
type Answer = (usize, Result<Row>);

/// The result of a step for some changes.
enum Step<'a> {
    /// Their regions were found, except those that are unassigned at the moment.
    Placed {
        placed: Vec<Placed<'a>>,
        away: Vec<Part<'a>>,
        lost: Option<(Part<'a>, Error)>,
    },
    /// A server has answered a call.
    Answered {
        server: ServerName,
        results: Vec<(Placed<'a>, Result<Vec<Row>, CallError>)>,
    },
    /// They may be sent again.
    Recovered(Part<'a>),
    GivenUp(Part<'a>, Error),
}

impl Table {
    /// Executes increments and appends, and returns the result of each with its number.
    pub(super) async fn change_each(
        &self,
        name: &'static str,
        mutations: Vec<(usize, Mutation)>,
        deadline: Instant,
    ) -> Vec<Answer> {
        let (mut answers, mut changes) = (Vec::new(), Vec::new());
        for (place, mutation) in mutations {
            match self.check(&mutation) {
                Ok(()) => changes.push(self.change_of(place, mutation)),
                Err(error) => answers.push((place, Err(error.at_operation(name).at_table(&self.name)))),
            }
        }
        changes.sort_by(|one, other| one.mutation.row().cmp(other.mutation.row()));
        if changes.is_empty() {
            return answers;
        }
        let operation = Operation {
            name,
            table: &self.name,
            row: Cow::Owned(row_of(&changes)),
            kind: CallKind::Write,
            deadline,
        };
        let mut attempts = Attempts::new(&self.connection.shared.cluster, operation);
        if self.connection.config().nonces() {
            attempts.repeat_on_one_server();
        }
        self.wait_out_deletes(changes.iter().map(|change| &change.mutation))
            .await;
        let mut changing = Changing {
            table: self,
            nonce_group: self.connection.nonce(),
            steps: FuturesUnordered::new(),
            servers: BTreeMap::new(),
            answers,
        };
        changing.place(Part { attempts, changes });
        while let Some(step) = changing.steps.next().await {
            changing.go_on(step);
        }
        changing.answers
    }

    fn change_of(&self, place: usize, mutation: Mutation) -> Change {
        let message = MutationMessage::new(&mutation, mutation.durability());
        let message = match self.connection.config().nonces() {
            true => message.with_nonce(self.connection.nonce()).to_bytes(),
            false => message.to_bytes(),
        };
        let returned = match &mutation {
            Mutation::Append(append) if mutation.returns_result() => append.cells.len(),
            _ => 0,
        };
        Change {
            place,
            weight: message.len() + returned * APPENDED_VALUE,
            message,
            // Of an atomic action, the server drops a mutation with an invalid expression, and it
            // returns no times of expiry.
            is_alone: mutation.has_visibility() || self.options.call.codec == Codec::KeyValueWithTags,
            mutation,
        }
    }

    /// Finds the regions of all rows of a part, and splits it into actions.
    async fn placed_changes<'a>(&'a self, part: Part<'a>) -> Step<'a> {
        let (mut placed, mut away) = (Vec::new(), Vec::new());
        let mut next = Some(part);
        while let Some(mut part) = next.take() {
            let located = part.attempts.locate_now().await;
            if part.attempts.effect() == Effect::Unknown {
                let lost = match located {
                    Ok(location) => match part.recognised(&location) {
                        Ok(()) => {
                            placed.push(Placed { part, location });
                            None
                        }
                        Err(error) => Some((part, error)),
                    },
                    Err(_) => {
                        away.push(part);
                        None
                    }
                };
                return Step::Placed { placed, away, lost };
            }
            match located {
                Ok(location) => {
                    next = part.split_behind(&location.region);
                    placed.extend(part.into_actions().map(|part| Placed {
                        part,
                        location: Arc::clone(&location),
                    }));
                }
                Err(region) => {
                    // Without a known region, its end is unknown too.
                    next = region.and_then(|region| part.split_behind(&region));
                    away.push(part);
                }
            }
        }
        Step::Placed {
            placed,
            away,
            lost: None,
        }
    }

    /// Sends the actions of one call.
    async fn changed<'a>(&'a self, server: ServerName, nonce_group: u64, call: Vec<Placed<'a>>) -> Step<'a> {
        let limits = call
            .iter()
            .map(|Placed { part, location }| part.attempts.attempt_limit(location));
        let answer = match (limits.reduce(AttemptLimit::with), call.first()) {
            (Some(limit), Some(first)) => {
                let request = call::message(&call, nonce_group);
                self.call(&first.location, "Multi", &request, limit)
                    .await
                    .and_then(|(answer, block)| call::read(&call, answer, block))
            }
            _ => Ok(Vec::new()),
        };
        let results = answer.unwrap_or_else(|failure| call.iter().map(|_| Err(failure.clone())).collect());
        Step::Answered {
            server,
            results: call.into_iter().zip(results).collect(),
        }
    }
}

/// Returns the first row.
fn row_of(changes: &[Change]) -> Bytes {
    let first = changes.first();
    first.map_or_else(Bytes::new, |first| first.mutation.row().clone())
}

/// Groups changes, in the order of their rows, into actions. Those with the same row are in the order
/// of the caller's list.
fn actions(changes: Vec<Change>) -> Vec<Vec<Change>> {
    // The first change of each row, then the second ones, and so on.
    let mut rounds: Vec<Vec<Change>> = Vec::new();
    let mut round = 0;
    let mut row = None;
    for change in changes {
        round = match row.as_ref() == Some(change.mutation.row()) {
            true => round + 1,
            false => 0,
        };
        row = Some(change.mutation.row().clone());
        if rounds.len() <= round {
            rounds.push(Vec::new());
        }
        rounds[round].push(change);
    }
    let mut actions: Vec<Vec<Change>> = Vec::new();
    for round in rounds {
        let (mut weight, mut is_open) = (0, false);
        for change in round {
            weight += change.weight;
            let fits = is_open && !change.is_alone && weight <= MOST_BYTES;
            match actions.last_mut() {
                Some(action) if fits && action.len() < MOST_TOGETHER => action.push(change),
                _ => {
                    (weight, is_open) = (change.weight, !change.is_alone);
                    actions.push(vec![change]);
                }
            }
        }
    }
    actions
}

impl<'a> Part<'a> {
    /// Splits the part where a region ends, and returns the rest, if there is one.
    fn split_behind(&mut self, region: &RegionInfo) -> Option<Self> {
        let inside = self
            .changes
            .partition_point(|change| region.contains(change.mutation.row()));
        let changes = self.changes.split_off(inside.max(1));
        (!changes.is_empty()).then(|| Self {
            attempts: self.attempts.fork(row_of(&changes)),
            changes,
        })
    }

    /// Splits the part into actions.
    fn into_actions(self) -> impl Iterator<Item = Self> {
        let Self { attempts, changes } = self;
        let mut actions = actions(changes).into_iter();
        let first = actions.next();
        let rest = actions.map(|changes| Self {
            attempts: attempts.fork(row_of(&changes)),
            changes,
        });
        let rest: Vec<_> = rest.collect();
        let first = first.map(|changes| Self { attempts, changes });
        first.into_iter().chain(rest)
    }

    /// Checks that the server of a part that may have been applied would recognise it.
    fn recognised(&mut self, location: &RegionLocation) -> Result<()> {
        let has_all = |change: &Change| location.region.contains(change.mutation.row());
        match self.changes.iter().all(has_all) {
            true => self.attempts.recognised(location),
            false => Err(self.attempts.unrecognised("its region was split")),
        }
    }

    /// Waits until its first region is served.
    async fn located(mut self) -> Step<'a> {
        match self.attempts.locate().await {
            Ok(_) => Step::Recovered(self),
            Err(error) => Step::GivenUp(self, error),
        }
    }
}

impl<'a> Placed<'a> {
    async fn recovered(self, failure: CallError) -> Step<'a> {
        let Self { mut part, location } = self;
        match part.attempts.recover(failure, &location).await {
            Ok(()) => Step::Recovered(part),
            Err(error) => Step::GivenUp(part, error),
        }
    }
}

impl<'a> Flow<'a> {
    /// Takes the actions of the next call.
    fn take(&mut self) -> Vec<Placed<'a>> {
        let (mut changes, mut bytes, mut actions) = (0, 0, 0);
        let fitting = self.ready.iter().take_while(|placed| {
            changes += placed.part.changes.len();
            bytes += placed
                .part
                .changes
                .iter()
                .map(|change| change.weight)
                .sum::<usize>();
            actions += 1;
            actions == 1 || changes <= MOST_CHANGES && bytes <= MOST_BYTES
        });
        let fitting = fitting.count();
        self.ready.drain(..fitting).collect()
    }
}

impl<'a> Changing<'a> {
    fn place(&self, part: Part<'a>) {
        self.steps.push(self.table.placed_changes(part).boxed());
    }

    fn go_on(&mut self, step: Step<'a>) {
        match step {
            Step::Placed { placed, away, lost } => {
                self.send(placed);
                self.steps
                    .extend(away.into_iter().map(|part| part.located().boxed()));
                if let Some((part, error)) = lost {
                    self.give_up(part, &error);
                }
            }
            Step::Answered { server, results } => self.answered(&server, results),
            Step::Recovered(part) => self.place(part),
            Step::GivenUp(part, error) => self.give_up(part, &error),
        }
    }

    fn answered(&mut self, server: &ServerName, results: Vec<(Placed<'a>, Result<Vec<Row>, CallError>)>) {
        if let Some(flow) = self.servers.get_mut(server) {
            flow.in_flight -= 1;
        }
        let mut again = Vec::new();
        for (mut placed, result) in results {
            let part = &mut placed.part;
            match result {
                Ok(rows) => {
                    part.attempts.succeed();
                    let places = part.changes.iter().map(|change| change.place);
                    self.answers.extend(places.zip(rows.into_iter().map(Ok)));
                }
                Err(failure)
                    if part.changes.len() > 1
                        && is_final(&failure)
                        && part.attempts.effect() == Effect::None =>
                {
                    for change in &mut part.changes {
                        change.is_alone = true;
                    }
                    let Placed { part, location } = placed;
                    again.extend(part.into_actions().map(|part| Placed {
                        part,
                        location: Arc::clone(&location),
                    }));
                }
                Err(failure) => self.steps.push(placed.recovered(failure).boxed()),
            }
        }
        self.send(again);
        self.send_to(server);
    }

    fn give_up(&mut self, part: Part<'a>, error: &Error) {
        self.answers.extend(part.changes.into_iter().map(|change| {
            let error = error.clone().of_row(&BytesBinary(change.mutation.row()));
            (change.place, Err(error))
        }));
    }

    /// Sends actions, or lets them wait until their servers are free.
    fn send(&mut self, placed: Vec<Placed<'a>>) {
        let mut servers = Vec::new();
        for placed in placed {
            let server = placed.location.server.clone();
            self.servers
                .entry(server.clone())
                .or_default()
                .ready
                .push_back(placed);
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
        for server in servers {
            self.send_to(&server);
        }
    }

    fn send_to(&mut self, server: &ServerName) {
        let Some(flow) = self.servers.get_mut(server) else {
            return;
        };
        while flow.in_flight < LANES && !flow.ready.is_empty() {
            let call = flow.take();
            flow.in_flight += 1;
            let changed = self.table.changed(server.clone(), self.nonce_group, call);
            self.steps.push(changed.boxed());
        }
    }
}

#[cfg(test)]
mod tests;
