//! The steps of the clients.

use crate::{
    Bug, Config, Kind,
    state::{
        Call, Client, Coordinator, Decision, Id, NOBODY, Place, ReadStage, Reader, Stage, State, Violation,
        Visitor, before,
    },
};

/// A step: the client afterwards, and the calls that it sends.
pub(crate) type Step = (Client, Vec<Call>);

/// Returns the steps that a client can take.
pub(crate) fn steps(config: &Config, state: &State, id: Id, client: Client) -> Result<Vec<Step>, Violation> {
    match client {
        Client::Coordinator(coordinator) => Ok(coordinate(config, state, id, coordinator)),
        Client::Visitor(visitor) => Ok(visit(config, state, id, visitor)),
        Client::Reader(reader) => read(config, state, id, reader),
        // It writes by itself.
        Client::Plain(_) => Ok(Vec::new()),
    }
}

fn coordinate(config: &Config, state: &State, txn: Id, at: Coordinator) -> Vec<Step> {
    let this = &config.transactions[usize::from(txn)];
    let (others, bug) = (&this.places[1..], config.bug);
    let is_held = |place: Place| bug != Bug::OnlyReadIsNotHeld || config.writes(txn, place);
    let held = || others.iter().copied().filter(|place| is_held(*place));
    let bits = |places: &mut dyn Iterator<Item = Place>| places.fold(0, |bits, place| bits | 1 << place);
    let release = || {
        others
            .iter()
            .map(|at| Call::Release { txn, at: *at })
            .collect::<Vec<_>>()
    };
    let go = |stage, calls| (Client::Coordinator(at.going_on(stage)), calls);
    let given_up = |calls| {
        (
            Client::Coordinator(Coordinator::new().going_on(Stage::GaveUp)),
            calls,
        )
    };
    let note = |place: Place| (Client::Coordinator(at.answered_by(place)), Vec::new());
    let mut steps = Vec::new();
    match at.stage {
        Stage::Reads => {
            if let Some(earlier) = this.after {
                let gave_up = matches!(
                    state.clients[usize::from(earlier)],
                    Some(Client::Coordinator(Coordinator {
                        stage: Stage::GaveUp,
                        ..
                    }))
                );
                let is_aborted = state.decisions[config.record_of(txn)] == Decision::Aborted;
                if !gave_up || (this.shares_record && !is_aborted) {
                    return steps;
                }
            }
            let Some(place) = this.places.get(usize::from(at.reads)) else {
                let holds = held().map(|place| {
                    let index = this.places.iter().position(|other| *other == place);
                    let (version, _) = at.read[index.unwrap_or_default()];
                    Call::Hold {
                        txn,
                        at: place,
                        version,
                    }
                });
                return vec![go(Stage::Holds, holds.collect())];
            };
            let partition = state.at(*place);
            if partition.holder == NOBODY {
                let mut next = at;
                next.read[usize::from(at.reads)] = (partition.version, partition.log);
                next.reads += 1;
                steps.push((Client::Coordinator(next), Vec::new()));
            }
        }
        Stage::Holds => {
            // After a lost answer it reads its intent.
            let seen = held().filter(|place| state.at(*place).holder == txn && at.answered >> place & 1 == 0);
            steps.extend(seen.map(note));
            let needed = bits(&mut held());
            if at.answered & needed == needed {
                let mut read = this.places.iter().zip(&at.read);
                // A read in place of an intent, which is a bug.
                let is_unchanged = read.all(|(place, (version, _))| {
                    let partition = state.at(*place);
                    is_held(*place) || (partition.version == *version && partition.holder == NOBODY)
                });
                if is_unchanged || bug != Bug::OnlyReadIsNotHeld {
                    let (version, _) = at.read[0];
                    steps.push(go(Stage::Decides, vec![Call::Commit { txn, version }]));
                }
            }
            let mut calls = release();
            if this.shares_record || config.transactions.iter().any(|other| other.shares_record) {
                calls.push(Call::Fence { txn });
            }
            steps.push(given_up(calls));
        }
        Stage::Decides => {
            if bug == Bug::GivesUpUnfenced {
                steps.push(go(Stage::GaveUpUnfenced, release()));
            }
            steps.push(go(Stage::Settles, vec![Call::Fence { txn }]));
        }
        Stage::Settles => match state.decisions[config.record_of(txn)] {
            Decision::Aborted => steps.push(given_up(release())),
            Decision::Committed | Decision::Finished => steps.push(go(Stage::Applies, Vec::new())),
            Decision::None => {}
        },
        Stage::Applies => {
            let applies: Vec<_> = held().map(|at| Call::Apply { txn, at }).collect();
            let needed = bits(&mut others.iter().copied());
            if applies.iter().all(|call| config.was_sent(state, *call)) {
                let known = others.iter().copied();
                let known = known.filter(|at| state.at(*at).holder != txn);
                steps.extend(known.filter(|place| at.answered >> place & 1 == 0).map(note));
            } else {
                let mut calls = applies;
                if bug == Bug::FinishSentWithApplies {
                    calls.push(Call::Finish { txn });
                }
                steps.push((Client::Coordinator(at), calls));
            }
            if at.answered & needed == needed {
                let done = Coordinator::new().going_on(Stage::Done);
                steps.push((Client::Coordinator(done), vec![Call::Finish { txn }]));
            }
        }
        Stage::Done | Stage::GaveUp | Stage::GaveUpUnfenced => {}
    }
    steps
}

impl Coordinator {
    pub(crate) fn new() -> Self {
        Self {
            stage: Stage::Reads,
            read: Default::default(),
            reads: 0,
            answered: 0,
        }
    }

    /// Returns it at its next stage.
    pub(crate) fn going_on(mut self, stage: Stage) -> Self {
        (self.stage, self.answered) = (stage, 0);
        self
    }

    /// Returns it with the answer of a partition.
    pub(crate) fn answered_by(mut self, place: Place) -> Self {
        self.answered |= 1 << place;
        self
    }
}

fn visit(config: &Config, state: &State, id: Id, visitor: Visitor) -> Vec<Step> {
    let go = |visitor, calls| (Client::Visitor(visitor), calls);
    let kind = config.kind(id);
    match visitor {
        Visitor::Done => Vec::new(),
        Visitor::Meets { holder, at } => resolve(config, state, kind, holder, at, false),
        Visitor::Fenced { holder, at } => resolve(config, state, kind, holder, at, true),
        Visitor::Idle | Visitor::Sent if kind == Kind::Sweeper => {
            let places = (0..config.places).filter(|place| state.at(*place).holder != NOBODY);
            let meets = places.map(|at| {
                go(
                    Visitor::Meets {
                        holder: state.at(at).holder,
                        at,
                    },
                    Vec::new(),
                )
            });
            let finishes = (0..).zip(&config.transactions).filter_map(|(txn, transaction)| {
                let is_committed = state.decisions[config.record_of(txn)] == Decision::Committed;
                let is_applied = transaction.places[1..]
                    .iter()
                    .all(|at| state.at(*at).holder != txn);
                let finish = Call::Finish { txn };
                let is_new = !config.was_sent(state, finish);
                let finishes = is_committed && is_applied && is_new && state.history.has(txn);
                finishes.then(|| go(Visitor::Idle, vec![finish]))
            });
            meets.chain(finishes).collect()
        }
        Visitor::Idle | Visitor::Sent => {
            let at = config.place_of(id);
            let partition = state.at(at);
            if partition.log.has(id) {
                return vec![go(Visitor::Done, Vec::new())];
            }
            let meets = go(
                Visitor::Meets {
                    holder: partition.holder,
                    at,
                },
                Vec::new(),
            );
            let call = match kind {
                Kind::Update => Call::Update {
                    writer: id,
                    version: partition.version,
                    read: partition.log,
                },
                Kind::Check => Call::Check {
                    writer: id,
                    read: partition.log,
                },
                _ if visitor == Visitor::Sent && partition.holder != NOBODY => return vec![meets],
                _ if visitor == Visitor::Sent => return Vec::new(),
                _ => Call::Write { writer: id },
            };
            if partition.holder != NOBODY && kind != Kind::Write {
                return vec![meets];
            }
            vec![go(Visitor::Sent, vec![call])]
        }
    }
}

/// Frees a partition by the decision at home.
fn resolve(config: &Config, state: &State, kind: Kind, holder: Id, at: Place, has_fenced: bool) -> Vec<Step> {
    let back = if kind == Kind::Sweeper {
        Visitor::Idle
    } else {
        Visitor::Sent
    };
    let go = |visitor, calls| (Client::Visitor(visitor), calls);
    let release = Call::Release { txn: holder, at };
    match state.decisions[config.record_of(holder)] {
        Decision::Committed => vec![go(back, vec![Call::Apply { txn: holder, at }])],
        Decision::Aborted => vec![go(back, vec![release])],
        Decision::Finished => vec![go(back, Vec::new())],
        Decision::None if has_fenced => Vec::new(),
        Decision::None => {
            let waits = go(back, Vec::new());
            let ends = match config.bug {
                Bug::NoDecisionTakenForAbort => go(back, vec![release]),
                _ => go(Visitor::Fenced { holder, at }, vec![Call::Fence { txn: holder }]),
            };
            vec![waits, ends]
        }
    }
}

impl Reader {
    pub(crate) fn new(state: &State) -> Self {
        Self {
            stage: ReadStage::Reads,
            read: state.partitions,
            reads: 0,
            decisions: Default::default(),
            asked: 0,
            start: 0,
            has_begun: false,
            next: 0,
        }
    }

    /// Returns the reader at the beginning of another round.
    fn again(&self) -> Self {
        let decisions = Default::default();
        let (reads, asked, next, stage) = (0, 0, 0, ReadStage::Reads);
        Self {
            stage,
            reads,
            decisions,
            asked,
            next,
            ..*self
        }
    }
}

/// A snapshot: reads the partitions, then asks for the decisions of the intents that it found. Of several
/// partitions it looks at all again, and asks again where there was no decision.
fn read(config: &Config, state: &State, id: Id, mut reader: Reader) -> Result<Vec<Step>, Violation> {
    let places = config.places_of(id);
    let decision = |holder: Id| match holder {
        NOBODY => Decision::None,
        txn => state.decisions[config.record_of(txn)],
    };
    if !reader.has_begun {
        (reader.has_begun, reader.start) = (true, state.history.len() as u8);
    }
    let next = match reader.stage {
        ReadStage::Done => return Ok(Vec::new()),
        ReadStage::Reads => {
            let index = usize::from(reader.reads);
            if config.bug == Bug::DecisionReadFirst {
                reader.decisions[index] = decision(state.at(places[index]).holder);
                // The decision is older than the partition.
                if reader.asked == reader.reads {
                    reader.asked += 1;
                    return Ok(vec![(Client::Reader(reader), Vec::new())]);
                }
            }
            reader.read[index] = *state.at(places[index]);
            reader.reads += 1;
            if usize::from(reader.reads) == places.len() {
                reader.stage = ReadStage::Asks;
                if config.bug != Bug::DecisionReadFirst {
                    reader.asked = 0;
                }
            }
            reader
        }
        ReadStage::Asks
            if usize::from(reader.asked) < places.len() && config.bug != Bug::ReaderIgnoresIntents =>
        {
            let index = usize::from(reader.asked);
            match decision(reader.read[index].holder) {
                Decision::Finished => reader.again(),
                found => {
                    reader.decisions[index] = found;
                    reader.asked += 1;
                    reader
                }
            }
        }
        ReadStage::Asks
            if places.len() > 1 && config.bug != Bug::ReaderLooksOnce && !config.bug.is_of_one_look() =>
        {
            reader.stage = ReadStage::LooksAgain;
            reader
        }
        ReadStage::Asks => return answer(config, state, places, reader),
        ReadStage::LooksAgain => {
            let index = usize::from(reader.next);
            let (now, then) = (state.at(places[index]), &reader.read[index]);
            if (now.version, now.holder) != (then.version, then.holder) {
                reader.again()
            } else {
                reader.next += 1;
                if usize::from(reader.next) == places.len() {
                    (reader.stage, reader.next) = (ReadStage::AsksAgain, 0);
                }
                reader
            }
        }
        ReadStage::AsksAgain => {
            let index = usize::from(reader.next);
            if index == places.len() {
                return answer(config, state, places, reader);
            }
            let was_undecided = reader.decisions[index] == Decision::None;
            let now = decision(reader.read[index].holder);
            if was_undecided && matches!(now, Decision::Committed | Decision::Finished) {
                reader.again()
            } else {
                reader.next += 1;
                reader
            }
        }
    };
    Ok(vec![(Client::Reader(next), Vec::new())])
}

/// Checks that the answer of a reader is what the partitions were at one moment since it began.
fn answer(config: &Config, state: &State, places: &[Place], reader: Reader) -> Result<Vec<Step>, Violation> {
    let found = (0..places.len()).map(|index| {
        let partition = reader.read[index];
        let is_committed = partition.holder != NOBODY && reader.decisions[index] == Decision::Committed;
        if is_committed && config.writes(partition.holder, places[index]) {
            partition.log.and(partition.holder)
        } else {
            partition.log
        }
    });
    let found: Vec<_> = found.collect();
    let ids = state.history.ids();
    let is_moment = |length: usize| {
        let mut answers = places.iter().zip(&found);
        answers.all(|(place, found)| before(config, &ids[..length], *place) == *found)
    };
    if (reader.start.into()..=ids.len()).any(is_moment) {
        let done = Reader {
            stage: ReadStage::Done,
            ..reader.again()
        };
        Ok(vec![(Client::Reader(done), Vec::new())])
    } else {
        Err(format!(
            "a reader saw {found:?} of {places:?}, the history is {ids:?} from {}",
            reader.start
        ))
    }
}
