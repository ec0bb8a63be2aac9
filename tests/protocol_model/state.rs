//! The state of all partitions, calls and clients, and what must hold in each.

use crate::{Bug, Config};

/// A transaction, a writer, a check or a plain client.
pub(crate) type Id = u8;
/// A partition.
pub(crate) type Place = u8;

pub(crate) const NOBODY: Id = u8::MAX;
pub(crate) const PLACES: usize = 3;
pub(crate) const TRANSACTIONS: usize = 2;
pub(crate) const CLIENTS: usize = 4;

/// Who wrote, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Log {
    len: u8,
    ids: [Id; 5],
}

impl Log {
    pub(crate) fn ids(&self) -> &[Id] {
        &self.ids[..self.len.into()]
    }

    pub(crate) fn has(&self, id: Id) -> bool {
        self.ids().contains(&id)
    }

    pub(crate) fn and(mut self, id: Id) -> Self {
        self.ids[usize::from(self.len)] = id;
        self.len += 1;
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }
}

impl FromIterator<Id> for Log {
    fn from_iter<I: IntoIterator<Item = Id>>(ids: I) -> Self {
        ids.into_iter().fold(Self::default(), Self::and)
    }
}

/// A partition. Each change gives it a version that never comes back: of the transaction that wrote it, or
/// of the release of its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Partition {
    pub(crate) version: u8,
    /// The transaction whose intent is there.
    pub(crate) holder: Id,
    pub(crate) log: Log,
}

pub(crate) fn written_by(id: Id) -> u8 {
    1 + id
}

pub(crate) fn released_by(id: Id) -> u8 {
    100 + id
}

/// The decision on a transaction, at its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) enum Decision {
    #[default]
    None,
    Aborted,
    /// Committed, with redo.
    Committed,
    /// Committed, and applied everywhere.
    Finished,
}

/// A call of one partition: conditions and changes, all or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Hold {
        txn: Id,
        at: Place,
        version: u8,
    },
    Commit {
        txn: Id,
        version: u8,
    },
    Apply {
        txn: Id,
        at: Place,
    },
    Release {
        txn: Id,
        at: Place,
    },
    Fence {
        txn: Id,
    },
    Finish {
        txn: Id,
    },
    Write {
        writer: Id,
    },
    Update {
        writer: Id,
        version: u8,
        read: Log,
    },
    /// Conditions without a change: the partition is as it was read.
    Check {
        writer: Id,
        read: Log,
    },
}

/// Where a coordinator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    Reads,
    Holds,
    /// It has sent the commit.
    Decides,
    /// It finds out the decision.
    Settles,
    Applies,
    Done,
    GaveUp,
    /// It gave up after the commit was sent, which is a bug.
    GaveUpUnfenced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Coordinator {
    pub(crate) stage: Stage,
    /// The versions and contents that were read, in the order of its partitions.
    pub(crate) read: [(u8, Log); PLACES],
    pub(crate) reads: u8,
    /// The partitions whose calls were answered, as bits.
    pub(crate) answered: u8,
}

/// A visitor of a partition: a writer of one partition, or the sweeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Visitor {
    Idle,
    Sent,
    Meets { holder: Id, at: Place },
    Fenced { holder: Id, at: Place },
    Done,
}

/// A reader of one or several partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reader {
    pub(crate) stage: ReadStage,
    pub(crate) read: [Partition; PLACES],
    pub(crate) reads: u8,
    pub(crate) decisions: [Decision; PLACES],
    pub(crate) asked: u8,
    /// The length of the history when it began.
    pub(crate) start: u8,
    pub(crate) has_begun: bool,
    /// The next partition to look at again.
    pub(crate) next: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReadStage {
    Reads,
    Asks,
    LooksAgain,
    AsksAgain,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    Coordinator(Coordinator),
    Visitor(Visitor),
    Reader(Reader),
    /// A client without transactions, and whether it has written.
    Plain(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) partitions: [Partition; PLACES],
    pub(crate) decisions: [Decision; TRANSACTIONS],
    /// The transactions in the order of the moments at which they were committed. No client sees it.
    pub(crate) history: Log,
    /// All calls that were ever sent, as bits.
    pub(crate) sent: u128,
    pub(crate) clients: [Option<Client>; CLIENTS],
}

/// What went wrong.
pub(crate) type Violation = String;

impl State {
    pub(crate) fn at(&self, place: Place) -> &Partition {
        &self.partitions[usize::from(place)]
    }

    pub(crate) fn with(mut self, place: Place, partition: Partition) -> Self {
        self.partitions[usize::from(place)] = partition;
        self
    }

    /// Returns the contents of a partition with what its holder has committed.
    pub(crate) fn contents(&self, config: &Config, place: Place) -> Log {
        let Partition { holder, log, .. } = *self.at(place);
        let is_committed = holder != NOBODY && self.history.has(holder);
        if is_committed && config.writes(holder, place) {
            log.and(holder)
        } else {
            log
        }
    }

    /// Checks what must hold in every state.
    pub(crate) fn check(&self, config: &Config) -> Result<(), Violation> {
        let ids = self.history.ids();
        if (1..ids.len()).any(|at| ids[..at].contains(&ids[at])) {
            return Err("committed twice".to_owned());
        }
        for place in 0..config.places {
            let expected = before(config, ids, place);
            if self.contents(config, place) != expected {
                return Err(format!(
                    "atomicity: partition {place} is {:?}, expected {expected:?}",
                    self.at(place)
                ));
            }
            let holder = self.at(place).holder;
            if holder == NOBODY {
                continue;
            }
            let decision = self.decisions[config.record_of(holder)];
            let fits = match decision {
                Decision::Committed => self.history.has(holder),
                Decision::None | Decision::Aborted => !self.history.has(holder),
                Decision::Finished => false,
            };
            if !fits {
                return Err(format!(
                    "no visitor can free partition {place} of {holder}: {decision:?}"
                ));
            }
        }
        for (id, client) in (0..).zip(&self.clients) {
            let Some(Client::Coordinator(Coordinator { stage, .. })) = client else {
                continue;
            };
            let is_committed = self.history.has(id);
            match stage {
                Stage::Applies | Stage::Done if !is_committed => {
                    return Err("told committed, and is not".to_owned());
                }
                Stage::GaveUp if is_committed => return Err("told aborted, and is committed".to_owned()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the contents of a partition after these transactions.
pub(crate) fn before(config: &Config, history: &[Id], place: Place) -> Log {
    let ids = history.iter().copied();
    ids.filter(|id| config.writes(*id, place)).collect()
}

/// What the arrival of a call does. `None` if its conditions do not hold.
pub(crate) fn arrive(config: &Config, state: &State, call: Call) -> Result<Option<State>, Violation> {
    let bug = config.bug;
    let mut next = *state;
    match call {
        Call::Hold { txn, at, version } => {
            let partition = *state.at(at);
            let is_as_read = partition.version == version || bug == Bug::HoldWithoutVersion;
            if partition.holder != NOBODY || !is_as_read {
                return Ok(None);
            }
            next = next.with(
                at,
                Partition {
                    holder: txn,
                    ..partition
                },
            );
        }
        Call::Commit { txn, version } => {
            let home = config.transactions[usize::from(txn)].home();
            let (partition, record) = (*state.at(home), config.record_of(txn));
            let is_as_read = partition.version == version || bug == Bug::CommitWithoutVersion;
            let undecided = if config.transactions[usize::from(txn)].shares_record {
                Decision::Aborted
            } else {
                Decision::None
            };
            if partition.holder != NOBODY || !is_as_read || state.decisions[record] != undecided {
                return Ok(None);
            }
            check_reads(config, state, txn)?;
            next = next.with(home, written(config, partition, txn, home));
            next.decisions[record] = Decision::Committed;
            next.history = next.history.and(txn);
        }
        Call::Apply { txn, at } => {
            let partition = *state.at(at);
            let holds = match bug {
                Bug::ApplyWithoutIntent => [txn, NOBODY].contains(&partition.holder),
                _ => partition.holder == txn,
            };
            if !holds {
                return Ok(None);
            }
            next = next.with(at, written(config, partition, txn, at));
        }
        Call::Release { txn, at } => {
            let partition = *state.at(at);
            let holds = partition.holder == txn || bug == Bug::ReleaseOfAnyIntent;
            if partition.holder == NOBODY || !holds {
                return Ok(None);
            }
            let version = match bug {
                Bug::ReleaseRestoresVersion => partition.version,
                _ => released_by(txn),
            };
            let log = partition.log;
            next = next.with(
                at,
                Partition {
                    version,
                    holder: NOBODY,
                    log,
                },
            );
        }
        Call::Fence { txn } => match state.decisions[config.record_of(txn)] {
            Decision::None => next.decisions[config.record_of(txn)] = Decision::Aborted,
            _ => return Ok(None),
        },
        Call::Finish { txn } => match state.decisions[config.record_of(txn)] {
            Decision::Committed if bug == Bug::FinishDeletesRecord => {
                next.decisions[config.record_of(txn)] = Decision::None;
            }
            Decision::Committed => next.decisions[config.record_of(txn)] = Decision::Finished,
            _ => return Ok(None),
        },
        Call::Write { writer } => {
            let at = config.place_of(writer);
            let partition = *state.at(at);
            let is_refused = partition.holder != NOBODY && bug != Bug::WriterIgnoresIntent;
            if is_refused || state.history.has(writer) {
                return Ok(None);
            }
            let (version, log) = (written_by(writer), partition.log.and(writer));
            next = next.with(
                at,
                Partition {
                    version,
                    log,
                    ..partition
                },
            );
            next.history = next.history.and(writer);
        }
        Call::Update {
            writer,
            version,
            read,
        } => {
            let at = config.place_of(writer);
            let partition = *state.at(at);
            if partition.holder != NOBODY || partition.version != version || partition.log.has(writer) {
                return Ok(None);
            }
            check_contents(config, state, at, read)?;
            let (version, log) = (written_by(writer), partition.log.and(writer));
            next = next.with(
                at,
                Partition {
                    version,
                    log,
                    ..partition
                },
            );
            next.history = next.history.and(writer);
        }
        Call::Check { writer, read } => {
            let at = config.place_of(writer);
            let partition = *state.at(at);
            let is_refused = partition.holder != NOBODY && bug != Bug::CheckIgnoresIntent;
            if is_refused || partition.log != read {
                return Ok(None);
            }
            check_contents(config, state, at, read)?;
        }
    }
    Ok((next != *state || matches!(call, Call::Check { .. })).then_some(next))
}

/// Returns a partition after what a transaction writes there; it is free.
fn written(config: &Config, partition: Partition, txn: Id, place: Place) -> Partition {
    let log = if config.writes(txn, place) {
        partition.log.and(txn)
    } else {
        partition.log
    };
    let (version, holder) = (written_by(txn), NOBODY);
    Partition { version, holder, log }
}

/// Checks at the moment of its commit that what a transaction has read is true.
fn check_reads(config: &Config, state: &State, txn: Id) -> Result<(), Violation> {
    let Some(Client::Coordinator(coordinator)) = &state.clients[usize::from(txn)] else {
        return Ok(());
    };
    let read = config.transactions[usize::from(txn)]
        .places
        .iter()
        .zip(&coordinator.read);
    for (place, (_, log)) in read {
        check_contents(config, state, *place, *log)?;
    }
    Ok(())
}

fn check_contents(config: &Config, state: &State, place: Place, read: Log) -> Result<(), Violation> {
    let is = state.contents(config, place);
    if is == read {
        Ok(())
    } else {
        Err(format!(
            "read {read:?} of partition {place}, which is {is:?} at the commit"
        ))
    }
}
