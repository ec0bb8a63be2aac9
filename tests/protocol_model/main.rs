//! A model of transactions across partitions, of which every reachable state is visited.
//!
//! A call changes one partition, all or nothing. The network keeps each call that was ever sent, and it may
//! arrive at any time, any number of times, or never; an answer may be lost. A client that stops takes no
//! further step. There are no clocks: a visitor may abort an undecided transaction at any time.
//!
//! | file | contents |
//! |---|---|
//! | `state` | partitions, calls and clients; what a call does; what must hold |
//! | `clients` | coordinators, writers, the sweeper, readers |
//! | `search` | visits all states |
//!
//! Each bug of the protocol must lead to a violation in a small configuration. `HBASE_TXN_TEST_LONG` selects the large
//! configurations too.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::cast_possible_truncation, reason = "there are fewer states")]

mod clients;
mod search;
mod state;

use std::{cell::RefCell, env, time::Instant};

use self::{
    search::search,
    state::{
        CLIENTS, Call, Client, Coordinator, Decision, Id, Log, NOBODY, PLACES, Partition, Place, ReadStage,
        Reader, Stage, State, TRANSACTIONS, Visitor,
    },
};

/// A change of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    HoldWithoutVersion,
    CommitWithoutVersion,
    /// Two attempts share a record.
    SharedRecord,
    /// Finishing deletes the record.
    FinishDeletesRecord,
    FinishSentWithApplies,
    NoDecisionTakenForAbort,
    GivesUpUnfenced,
    ReleaseOfAnyIntent,
    ApplyWithoutIntent,
    OnlyReadIsNotHeld,
    WriterIgnoresIntent,
    CheckIgnoresIntent,
    ReaderIgnoresIntents,
    DecisionReadFirst,
    ReaderLooksOnce,
    /// A client without transactions writes into a held partition.
    PlainWrite,
    /// A release restores the version from before the hold, which does no harm.
    ReleaseRestoresVersion,
}

impl Bug {
    /// Returns whether a reader with this bug looks at the partitions once.
    fn is_of_one_look(self) -> bool {
        matches!(self, Self::ReaderIgnoresIntents | Self::DecisionReadFirst)
    }
}

/// A transaction across partitions: home, and the others.
#[derive(Clone, Debug)]
struct Transaction {
    places: Vec<Place>,
    writes: Vec<Place>,
    /// It begins when this one has given up.
    after: Option<Id>,
    /// It has the record of the one before.
    shares_record: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Coordinator,
    Write,
    Update,
    Check,
    Sweeper,
    Reader,
    Plain,
}

/// The clients of a model, transactions first.
struct Config {
    name: &'static str,
    places: Place,
    transactions: Vec<Transaction>,
    /// The other clients, and their partitions.
    others: Vec<(Kind, Vec<Place>)>,
    bug: Bug,
    /// All calls that were sent in any state, each of which has a bit.
    calls: RefCell<Vec<Call>>,
}

fn across(places: &[Place]) -> Transaction {
    Transaction {
        places: places.to_vec(),
        writes: places.to_vec(),
        after: None,
        shares_record: false,
    }
}

impl Transaction {
    fn home(&self) -> Place {
        self.places[0]
    }

    fn writing(self, writes: &[Place]) -> Self {
        let writes = writes.to_vec();
        Self { writes, ..self }
    }

    fn after(self, earlier: Id) -> Self {
        Self {
            after: Some(earlier),
            ..self
        }
    }
}

impl Config {
    fn new(name: &'static str, transactions: &[Transaction], others: &[(Kind, &[Place])]) -> Self {
        let places = transactions.iter().flat_map(|txn| &txn.places).max().unwrap() + 1;
        let others = others.iter().map(|(kind, places)| (*kind, places.to_vec()));
        Self {
            name,
            places,
            transactions: transactions.to_vec(),
            others: others.collect(),
            bug: Bug::None,
            calls: RefCell::default(),
        }
    }

    fn with(self, bug: Bug) -> Self {
        Self { bug, ..self }
    }

    fn kind(&self, id: Id) -> Kind {
        match usize::from(id).checked_sub(self.transactions.len()) {
            None => Kind::Coordinator,
            Some(other) => self.others[other].0,
        }
    }

    fn places_of(&self, id: Id) -> &[Place] {
        match usize::from(id).checked_sub(self.transactions.len()) {
            None => &self.transactions[usize::from(id)].places,
            Some(other) => &self.others[other].1,
        }
    }

    fn place_of(&self, id: Id) -> Place {
        self.places_of(id)[0]
    }

    fn writes(&self, id: Id, place: Place) -> bool {
        match self.transactions.get(usize::from(id)) {
            Some(transaction) => transaction.writes.contains(&place),
            None => self.place_of(id) == place,
        }
    }

    /// Returns the record in which the decision on a transaction is.
    fn record_of(&self, txn: Id) -> usize {
        let txn = usize::from(txn);
        if self.transactions[txn].shares_record {
            txn - 1
        } else {
            txn
        }
    }

    fn bit(&self, call: Call) -> u128 {
        let mut calls = self.calls.borrow_mut();
        let known = calls.iter().position(|known| *known == call);
        let at = known.unwrap_or_else(|| {
            calls.push(call);
            calls.len() - 1
        });
        1 << at
    }

    fn was_sent(&self, state: &State, call: Call) -> bool {
        state.sent & self.bit(call) != 0
    }

    fn calls_of(&self, sent: u128) -> Vec<Call> {
        let calls = self.calls.borrow();
        let all = calls.iter().enumerate().filter(|(at, _)| sent >> at & 1 == 1);
        all.map(|(_, call)| *call).collect()
    }

    fn first(&self) -> State {
        let partition = Partition {
            version: 0,
            holder: NOBODY,
            log: Log::default(),
        };
        let mut state = State {
            partitions: [partition; PLACES],
            decisions: [Decision::None; TRANSACTIONS],
            history: Log::default(),
            sent: 0,
            clients: [None; CLIENTS],
        };
        for (id, _) in self.transactions.iter().enumerate() {
            state.clients[id] = Some(Client::Coordinator(Coordinator::new()));
        }
        for (at, (kind, _)) in self.others.iter().enumerate() {
            state.clients[self.transactions.len() + at] = Some(match kind {
                Kind::Reader => Client::Reader(Reader::new(&state)),
                Kind::Plain => Client::Plain(false),
                _ => Client::Visitor(Visitor::Idle),
            });
        }
        state
    }

    /// Returns whether all clients are done, and all partitions are free.
    fn is_end(&self, state: &State) -> bool {
        let is_done = |(id, client): (Id, &Option<Client>)| match client {
            Some(Client::Coordinator(coordinator)) => match coordinator.stage {
                Stage::Done | Stage::GaveUp => true,
                // It waits for one that has not given up.
                Stage::Reads => self.transactions[usize::from(id)].after.is_some() && coordinator.reads == 0,
                _ => false,
            },
            Some(Client::Visitor(visitor)) if self.kind(id) == Kind::Sweeper => *visitor == Visitor::Idle,
            Some(Client::Visitor(visitor)) => *visitor == Visitor::Done,
            Some(Client::Reader(reader)) => reader.stage == ReadStage::Done,
            Some(Client::Plain(_)) | None => true,
        };
        let all_done = (0..).zip(&state.clients).all(is_done);
        all_done
            && state
                .partitions
                .iter()
                .all(|partition| partition.holder == NOBODY)
    }
}

/// Returns the configurations of the right protocol, and the number of states of each.
fn right() -> Vec<(Config, usize)> {
    use Kind::{Check, Reader, Sweeper, Update, Write};
    let t = || across(&[0, 1]);
    let crossing = || across(&[1, 0]);
    let wide = || across(&[0, 1, 2]);
    let skew = [t().writing(&[0]), crossing().writing(&[1])];
    let config = Config::new;
    vec![
        (
            config(
                "a writer and a reader",
                &[t()],
                &[(Write, &[1]), (Reader, &[0, 1])],
            ),
            15_820,
        ),
        (
            config("a writer at home", &[t()], &[(Write, &[0]), (Reader, &[1])]),
            2_066,
        ),
        (
            config("three partitions", &[wide()], &[(Write, &[1]), (Reader, &[1, 2])]),
            58_034,
        ),
        (
            config(
                "crossing, with a reader",
                &[t(), crossing()],
                &[(Reader, &[0, 1])],
            ),
            116_668,
        ),
        (
            config("crossing, with a writer", &[t(), crossing()], &[(Write, &[1])]),
            14_459,
        ),
        (config("write skew", &skew, &[(Write, &[1])]), 14_459),
        (
            config(
                "a second attempt",
                &[t(), t().after(0)],
                &[(Write, &[1]), (Reader, &[1])],
            ),
            31_914,
        ),
        (
            config(
                "a sweeper",
                &[t()],
                &[(Reader, &[0, 1]), (Reader, &[1]), (Sweeper, &[0])],
            ),
            69_087,
        ),
        (
            config(
                "a chain, with a sweeper",
                &[wide(), across(&[2, 1])],
                &[(Sweeper, &[0])],
            ),
            38_554,
        ),
        (
            config(
                "a chain, with a writer",
                &[wide(), across(&[2, 1])],
                &[(Write, &[1])],
            ),
            32_235,
        ),
        (
            config("a wide reader", &[wide()], &[(Write, &[1]), (Reader, &[0, 1, 2])]),
            84_966,
        ),
        (
            config(
                "a chain, with a reader",
                &[wide(), across(&[2, 1])],
                &[(Reader, &[1, 2])],
            ),
            256_912,
        ),
        (
            config(
                "crossing, with all",
                &[t(), crossing()],
                &[(Write, &[1]), (Reader, &[0, 1])],
            ),
            2_186_791,
        ),
        (
            config(
                "a second attempt and a sweeper",
                &[t(), t().after(0)],
                &[(Reader, &[0, 1]), (Sweeper, &[0])],
            ),
            48_917,
        ),
        (
            config(
                "updates",
                &[t()],
                &[(Update, &[1]), (Update, &[0]), (Reader, &[0, 1])],
            ),
            377_042,
        ),
        (
            config(
                "checks of one partition",
                &[t()],
                &[(Check, &[1]), (Check, &[0]), (Write, &[1])],
            ),
            19_144,
        ),
    ]
}

/// Returns a small configuration for each bug that must be found.
fn broken() -> Vec<Config> {
    use Kind::{Check, Plain, Reader, Sweeper, Write};
    let t = || across(&[0, 1]);
    let config = Config::new;
    let writer = || config("a writer", &[t()], &[(Write, &[1])]);
    let read = || config("a reader", &[t()], &[(Write, &[1]), (Reader, &[0, 1])]);
    let twice = || [t(), t().after(0)];
    let shared = [
        t(),
        Transaction {
            shares_record: true,
            ..t().after(0)
        },
    ];
    let skew = [t().writing(&[0]), across(&[1, 0]).writing(&[1])];
    vec![
        writer().with(Bug::HoldWithoutVersion),
        config("two attempts", &twice(), &[(Sweeper, &[0])]).with(Bug::HoldWithoutVersion),
        config("a writer at home", &[t()], &[(Write, &[0])]).with(Bug::CommitWithoutVersion),
        config("two attempts", &shared, &[(Write, &[1])]).with(Bug::SharedRecord),
        config("a reader", &[t()], &[(Write, &[1]), (Reader, &[1])]).with(Bug::FinishDeletesRecord),
        writer().with(Bug::FinishSentWithApplies),
        writer().with(Bug::NoDecisionTakenForAbort),
        config("alone", &[t()], &[]).with(Bug::GivesUpUnfenced),
        config("two attempts", &twice(), &[]).with(Bug::ReleaseOfAnyIntent),
        writer().with(Bug::ApplyWithoutIntent),
        config("write skew", &skew, &[]).with(Bug::OnlyReadIsNotHeld),
        writer().with(Bug::WriterIgnoresIntent),
        config("a check", &[t()], &[(Check, &[1])]).with(Bug::CheckIgnoresIntent),
        read().with(Bug::ReaderIgnoresIntents),
        read().with(Bug::DecisionReadFirst),
        read().with(Bug::ReaderLooksOnce),
        config("a plain client", &[t()], &[(Plain, &[1])]).with(Bug::PlainWrite),
    ]
}

/// The number of states up to which a configuration is searched in the short form.
const SHORT: usize = 50_000;

#[test]
fn protocol_holds_in_every_state() {
    let is_long = env::var_os("HBASE_TXN_TEST_LONG").is_some();
    for (config, expected) in right() {
        if expected > SHORT && !is_long {
            continue;
        }
        let began = Instant::now();
        let found = search(&config);
        println!(
            "{}: {} states in {:.1?}",
            config.name,
            found.states,
            began.elapsed()
        );
        assert_eq!(
            found.violation, None,
            "{}, after {} steps",
            config.name, found.depth
        );
        assert_eq!(found.states, expected, "{}", config.name);
    }
}

#[test]
fn each_bug_of_the_protocol_is_found() {
    for config in broken() {
        let found = search(&config);
        let what = format!("{:?}, {}", config.bug, config.name);
        let violation = found
            .violation
            .unwrap_or_else(|| panic!("{what}: not found in {} states", found.states));
        println!(
            "{what}: after {} steps and {} states: {violation}",
            found.depth, found.states
        );
    }
}

#[test]
fn version_restored_by_a_release_does_no_harm() {
    let t = || across(&[0, 1]);
    let writer: [(Kind, &[Place]); 2] = [(Kind::Write, &[1]), (Kind::Reader, &[0, 1])];
    let config = Config::new("a writer", &[t()], &writer).with(Bug::ReleaseRestoresVersion);
    assert_eq!(search(&config).violation, None);
    let twice = Config::new("two attempts", &[t(), t().after(0)], &[(Kind::Write, &[1])]);
    assert_eq!(search(&twice.with(Bug::ReleaseRestoresVersion)).violation, None);
}
