//! `hbase-txn barrier`.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use hbase_txn::{
    Level,
    client::TableName,
    latch::{
        Barrier as Parties, BarrierInfo, BarrierOutcome, BarrierPhase, LatchManager, LatchManagerOptions,
        LatchName, MAX_LATCH_TTL, MAX_PARTIES, MIN_LATCH_TTL,
    },
};
use serde::Serialize;

use super::{
    look::LongestWait,
    missing::MissingTable,
    which::{NO_FARM, NameObject, full_name, latch_name, shown},
};
use crate::{
    cmd::{
        missing_table::{self, Missing},
        waiting::{self, Obstacle, Obstacles},
    },
    durations,
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
    values::{self, Ranged},
};

/// Create, show and delete barriers, and wait at one for the other parties
#[derive(Debug, Args)]
pub(crate) struct Barrier {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(Create),
    Arrive(Arrive),
    Enter(Enter),
    Leave(Leave),
    Wait(Wait),
    Show(Show),
    Delete(Delete),
}

#[derive(Debug, Args)]
struct Which {
    /// Latch table, with its namespace if it has one
    table: TableName,
    /// Id of the barrier, unique for its client, or without --client a full name as `latch list`
    /// prints it; \xNN is a byte
    #[arg(value_parser = values::text)]
    id: String,
    /// Client of the barrier: a service, not a process
    #[arg(long, value_name = "C", value_parser = values::text)]
    client: Option<String>,
}

/// A barrier of a table.
struct Named<'a> {
    table: &'a TableName,
    name: LatchName,
}

/// Create a barrier for a number of parties
///
/// The barrier exists until it is deleted.
#[derive(Debug, Args)]
#[command(after_help = CREATE)]
struct Create {
    #[command(flatten)]
    which: Which,
    /// Number of parties, 1 to 1000
    #[arg(value_name = "PARTIES", allow_negative_numbers = true, value_parser = values::whole::<u32>)]
    parties: Ranged<u32>,
    /// Create a double barrier, whose generations are entered and left
    #[arg(long)]
    double: bool,
    /// Lifetime of a generation from its first arrival on, 100ms to 8784h; a generation that is not
    /// full by then is broken. Of a double barrier: time limit of entering, and of leaving
    #[arg(long, value_name = "DURATION", default_value = "1h", allow_hyphen_values = true, value_parser = durations::parse)]
    ttl: Ranged<Duration>,
    #[command(flatten)]
    table: MissingTable,
}

/// Arrive at a barrier, and wait for the other parties
#[derive(Debug, Args)]
#[command(after_help = ARRIVE)]
struct Arrive {
    #[command(flatten)]
    which: Which,
    /// Name of the participant, which counts once in a generation, however often it arrives
    #[arg(long, value_name = "P", value_parser = values::text)]
    participant: String,
    /// Arrive in this generation only, from 1: a repeated arrival is in no other one
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    generation: Option<Ranged<u64>>,
    #[command(flatten)]
    wait: LongestWait,
}

/// Enter a double barrier, and wait until all parties have entered
#[derive(Debug, Args)]
#[command(after_help = ENTER)]
struct Enter {
    #[command(flatten)]
    which: Which,
    /// Name of the participant, which is inside once, however often it enters
    #[arg(long, value_name = "P", value_parser = values::text)]
    participant: String,
    /// Enter this generation only, from 1
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    generation: Option<Ranged<u64>>,
    #[command(flatten)]
    wait: LongestWait,
}

/// Leave a generation of a double barrier, and wait until all parties have left
#[derive(Debug, Args)]
#[command(after_help = LEAVE)]
struct Leave {
    #[command(flatten)]
    which: Which,
    /// Name under which the participant has entered
    #[arg(long, value_name = "P", value_parser = values::text)]
    participant: String,
    /// Number of the generation, as `barrier enter` printed it
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    generation: Ranged<u64>,
    #[command(flatten)]
    wait: LongestWait,
}

/// Wait for the end of a generation, without arriving
#[derive(Debug, Args)]
#[command(after_help = WAIT)]
struct Wait {
    #[command(flatten)]
    which: Which,
    /// Number of the generation, from 1
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    generation: Ranged<u64>,
    #[command(flatten)]
    wait: LongestWait,
}

/// Show a barrier's parties, its generation and the arrivals in it
#[derive(Debug, Args)]
#[command(after_help = SHOW)]
struct Show {
    #[command(flatten)]
    which: Which,
}

/// Delete a barrier
///
/// Waiting parties are notified that it is absent.
#[derive(Debug, Args)]
#[command(after_help = DELETE)]
struct Delete {
    #[command(flatten)]
    which: Which,
}

const CREATE: &str = r#"Example: hbase-txn barrier create latches rounds 3 --client billing --ttl 10m --output json answers

{"barrier":"XDC#billing#rounds","parties":3,"double":false,"ttl_ms":600000}

Exit status: 0 created; 3 it exists; 1 refused or failed; 4 the answer was lost."#;

const ARRIVE: &str = r#"Example: hbase-txn barrier arrive latches rounds --client billing --participant worker-1 --wait 10m --output json answers

{"barrier":"XDC#billing#rounds","generation":1,"outcome":"opened"}

`outcome` is opened; broken, if the generation was not full in its time; or waiting, if --wait was over first: the participant has arrived nevertheless, and the generation may still open.

To repeat an arrival, after a timeout for example, name its generation: --generation 1. If that has opened or broken meanwhile, the command reports so; without the option it would arrive in the next generation.

Exit status: 0 opened; 3 broken, still waiting when --wait (60s) was over, or no such barrier; 1 refused or failed; 4 the answer was lost, and the participant may have arrived."#;

const ENTER: &str = r#"Example: hbase-txn barrier enter latches steps --client billing --participant worker-1 --wait 10m --output json answers

{"barrier":"XDC#billing#steps","generation":1,"outcome":"opened"}

`outcome` is opened; broken, if not all had entered in time; waiting, if --wait was over first: the participant has entered nevertheless; or not-entered, if --wait was over while others were leaving the generation before.

The command may be repeated until the participant leaves, by any process.

Exit status: 0 opened; 3 broken, waiting, not entered, or no such double barrier; 1 refused or failed; 4 the answer was lost, and the participant may have entered."#;

const LEAVE: &str = r#"Example: hbase-txn barrier leave latches steps --client billing --participant worker-1 --generation 1 --wait 10m --output json answers

{"barrier":"XDC#billing#steps","generation":1,"outcome":"opened"}

`outcome` is opened, if all have left; broken, if not all had entered or left in time; or waiting, if --wait was over first: the participant has left nevertheless.

The command may be repeated. If all parties died inside, leave for one of them: the generation breaks after --ttl.

Exit status: 0 opened; 3 broken, waiting, or no such double barrier; 1 refused or failed; 4 the answer was lost, and the participant may have left."#;

const WAIT: &str = r#"Example: hbase-txn barrier wait latches rounds --client billing --generation 1 --wait 10m --output json answers

{"barrier":"XDC#billing#rounds","generation":1,"outcome":"opened"}

`outcome` is opened, broken, or waiting if --wait was over first.

Exit status: 0 opened; 3 broken, still waiting when --wait (60s) was over, or no such barrier; 1 refused or failed."#;

const SHOW: &str = r#"Example: hbase-txn barrier show latches rounds --client billing --output json answers

{"barrier":"XDC#billing#rounds","level":"xdc","farm":null,"client":"billing","id":"rounds","parties":3,"generation":1,"phase":null,"arrived":2}

`generation` is the one of the next arrival, `arrived` its number of arrivals so far. `phase` of a double barrier is entering or leaving, and `arrived` the number of parties that have done so.

Exit status: 0; 3 no such barrier, and nothing is printed; 1 refused or failed."#;

const DELETE: &str = r#"Example: hbase-txn barrier delete latches rounds --client billing --output json answers

{"barrier":"XDC#billing#rounds","deleted":true}

`deleted` is false if there was nothing to delete.

Exit status: 0, also if there was nothing; 1 refused or failed."#;

#[derive(Serialize)]
struct Created {
    barrier: String,
    parties: u32,
    double: bool,
    ttl_ms: u64,
}

#[derive(Serialize)]
struct Arrived {
    barrier: String,
    generation: u64,
    outcome: &'static str,
}

#[derive(Serialize)]
pub(super) struct BarrierObject<'a> {
    #[serde(flatten)]
    name: NameObject<'a>,
    parties: u32,
    generation: u64,
    phase: Option<&'static str>,
    arrived: u32,
}

impl<'a> BarrierObject<'a> {
    pub(super) fn new(name: Option<&'a LatchName>, info: &'a BarrierInfo) -> Self {
        Self {
            name: NameObject {
                word: "barrier",
                name,
                farm: None,
                key: &info.key,
            },
            parties: info.parties,
            generation: info.generation,
            phase: info.phase.map(|phase| match phase {
                BarrierPhase::Entering => "entering",
                BarrierPhase::Leaving => "leaving",
            }),
            arrived: info.arrived,
        }
    }
}

#[derive(Serialize)]
struct Deleted {
    barrier: String,
    deleted: bool,
}

impl Barrier {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Create(create) => create.run(global).await,
            Action::Arrive(arrive) => arrive.run(global).await,
            Action::Enter(enter) => enter.run(global).await,
            Action::Leave(leave) => leave.run(global).await,
            Action::Wait(wait) => wait.run(global).await,
            Action::Show(show) => show.run(global).await,
            Action::Delete(delete) => delete.run(global).await,
        }
    }
}

impl Which {
    /// Returns the barrier. Checks its name before any call to a server.
    fn named(&self) -> Result<Named<'_>, Failure> {
        let table = &self.table;
        let name = match &self.client {
            Some(client) => latch_name("barrier", table, client, &self.id)?,
            None => match full_name(&self.id)? {
                name if name.level() == Level::Xdc => latch_name("barrier", table, name.client(), name.id())?,
                name => {
                    return Err(Failure::Unparsable(format!(
                        "{name} names a farm, and a barrier has none: XDC#CLIENT#ID"
                    )));
                }
            },
        };
        Ok(Named { table, name })
    }
}

impl Named<'_> {
    fn options(&self) -> LatchManagerOptions {
        LatchManagerOptions::new(self.name.client(), NO_FARM)
    }

    /// Opens an existing table.
    async fn latches(&self, global: &Global) -> Result<LatchManager, Failure> {
        let connection = global.connect().await?;
        missing_table::open_latches(&connection, self.options(), self.table, Missing::Refused).await
    }

    /// Opens the barrier, in an existing table.
    async fn open(&self, global: &Global) -> Result<Parties, Failure> {
        Ok(self.latches(global).await?.barrier(self.name.id())?)
    }

    /// Returns the name that outputs show.
    fn key(&self) -> String {
        shown(Some(&self.name), None, self.name.key())
    }
}

impl Create {
    async fn run(self, global: &Global) -> Outcome {
        let named = self.which.named()?;
        let (parties, ttl) = (self.parties()?, self.ttl()?);
        let missing = self.table.missing(named.table)?;
        let latches = missing.open(named.options(), global).await?;
        let (id, double) = (named.name.id(), self.double);
        if double {
            latches.double_barrier(id)?.create(parties, ttl).await?;
        } else {
            latches.barrier(id)?.create(parties, ttl).await?;
        }
        let made = Created {
            barrier: named.key(),
            parties,
            double,
            ttl_ms: durations::milliseconds(ttl),
        };
        match global.output {
            Format::Json => output::json(&made)?,
            Format::Table => output::line(&format!(
                "{}: created, {parties} to {} within {}",
                made.barrier,
                if double { "enter and to leave" } else { "arrive" },
                durations::shown(ttl)
            ))?,
        }
        Ok(Exit::Done)
    }

    fn parties(&self) -> Result<u32, Failure> {
        let parties = self.parties.get("PARTIES")?;
        if (1..=MAX_PARTIES).contains(&parties) {
            return Ok(parties);
        }
        Err(Failure::Unparsable(format!(
            "PARTIES {parties} is out of range: 1 to {MAX_PARTIES}"
        )))
    }

    fn ttl(&self) -> Result<Duration, Failure> {
        let ttl = self.ttl.get("--ttl")?;
        if (MIN_LATCH_TTL..=MAX_LATCH_TTL).contains(&ttl) {
            return Ok(ttl);
        }
        Err(Failure::Unparsable(format!(
            "--ttl {} is out of range: a generation lives from {} to {}",
            durations::shown(ttl),
            durations::shown(MIN_LATCH_TTL),
            durations::shown(MAX_LATCH_TTL)
        )))
    }
}

impl Arrive {
    async fn run(self, global: &Global) -> Outcome {
        let time = self.wait.get()?;
        let generation = specified(self.generation.as_ref())?;
        let named = self.which.named()?;
        let barrier = named.open(global).await?;
        let until = Instant::now() + time;
        let arrival = match generation {
            Some(generation) => barrier.arrive_in(&self.participant, generation).await?,
            None => barrier.arrive(&self.participant).await?,
        };
        let rest = until.saturating_duration_since(Instant::now());
        let ended = waiting::shown(arrivals(&barrier), barrier.wait(&arrival, rest)).await?;
        report(global, &named, arrival.generation(), ended, (&ARRIVAL, time))
    }
}

impl Enter {
    async fn run(self, global: &Global) -> Outcome {
        let time = self.wait.get()?;
        let generation = specified(self.generation.as_ref())?;
        let named = self.which.named()?;
        let latches = named.latches(global).await?;
        let (id, participant) = (named.name.id(), &self.participant);
        let double = latches.double_barrier(id)?;
        let entered = async {
            match generation {
                Some(generation) => double.enter_in(participant, generation, time).await,
                None => double.enter(participant, time).await,
            }
        };
        let (entry, ended) = waiting::shown(arrivals(&latches.barrier(id)?), entered).await?;
        report(global, &named, entry.generation(), ended, (&ENTRY, time))
    }
}

impl Leave {
    async fn run(self, global: &Global) -> Outcome {
        let time = self.wait.get()?;
        let generation = self.generation.get("--generation")?;
        let named = self.which.named()?;
        let latches = named.latches(global).await?;
        let id = named.name.id();
        let double = latches.double_barrier(id)?;
        let left = double.leave_in(&self.participant, generation, time);
        let ended = waiting::shown(arrivals(&latches.barrier(id)?), left).await?;
        report(global, &named, generation, ended, (&LEAVING, time))
    }
}

fn specified(generation: Option<&Ranged<u64>>) -> Result<Option<u64>, Failure> {
    generation.map(|number| number.get("--generation")).transpose()
}

impl Wait {
    async fn run(self, global: &Global) -> Outcome {
        let time = self.wait.get()?;
        let generation = self.generation.get("--generation")?;
        let named = self.which.named()?;
        let barrier = named.open(global).await?;
        let ended = waiting::shown(arrivals(&barrier), barrier.wait_for(generation, time)).await?;
        report(global, &named, generation, ended, (&ARRIVAL, time))
    }
}

/// Returns the numbers of arrivals during a wait.
fn arrivals(barrier: &Parties) -> Obstacles {
    let barrier = barrier.clone();
    waiting::polled(move || {
        let barrier = barrier.clone();
        async move {
            let info = barrier.show().await?;
            Ok(Obstacle::State(info.as_ref().map_or_else(String::new, sentence)))
        }
    })
}

pub(super) fn sentence(info: &BarrierInfo) -> String {
    let (double, done) = match info.phase {
        None => ("", "arrived"),
        Some(BarrierPhase::Entering) => ("double, ", "entered"),
        Some(BarrierPhase::Leaving) => ("double, ", "left"),
    };
    format!(
        "{double}generation {}, {} of {} have {done}",
        info.generation, info.arrived, info.parties
    )
}

/// What is reported of a wait: all have arrived, entered or left.
struct Words {
    opened: &'static str,
    done: &'static str,
}

const ARRIVAL: Words = Words {
    opened: "opened, all have arrived",
    done: "arrived",
};
const ENTRY: Words = Words {
    opened: "opened, all have entered",
    done: "entered",
};
const LEAVING: Words = Words {
    opened: "ended, all have left",
    done: "left",
};

/// Prints how a generation has ended, or that it has not after this time.
fn report(
    global: &Global,
    named: &Named<'_>,
    generation: u64,
    ended: BarrierOutcome,
    (words, time): (&Words, Duration),
) -> Outcome {
    let (done, time) = (words.done, durations::shown(time));
    let (outcome, text) = match ended {
        BarrierOutcome::Opened => ("opened", words.opened.to_owned()),
        BarrierOutcome::Broken => (
            "broken",
            format!("broken, its time expired before all had {done}"),
        ),
        BarrierOutcome::TimedOut => ("waiting", format!("not all have {done} after {time}")),
        BarrierOutcome::NotEntered => (
            "not-entered",
            format!("not entered, others were leaving the one before after {time}"),
        ),
        other => return Err(Failure::Refused(format!("{}: {other:?}", named.key()))),
    };
    let barrier = named.key();
    match global.output {
        Format::Json => output::json(&Arrived {
            barrier,
            generation,
            outcome,
        })?,
        Format::Table => output::line(&format!("{barrier}: generation {generation} {text}"))?,
    }
    match ended {
        BarrierOutcome::Opened => Ok(Exit::Done),
        _ => Ok(Exit::NotMet),
    }
}

impl Show {
    async fn run(self, global: &Global) -> Outcome {
        let named = self.which.named()?;
        let Some(info) = named.open(global).await?.show().await? else {
            output::complain(&format!(
                "hbase-txn: there is no barrier {} in table {}",
                named.key(),
                named.table
            ));
            return Ok(Exit::NotMet);
        };
        match global.output {
            Format::Json => output::json(&BarrierObject::new(Some(&named.name), &info))?,
            Format::Table => output::line(&format!("{}: {}", named.key(), sentence(&info)))?,
        }
        Ok(Exit::Done)
    }
}

impl Delete {
    async fn run(self, global: &Global) -> Outcome {
        let named = self.which.named()?;
        let deleted = named.open(global).await?.delete().await?;
        let barrier = named.key();
        match global.output {
            Format::Json => output::json(&Deleted { barrier, deleted })?,
            Format::Table => {
                let what = if deleted {
                    "deleted"
                } else {
                    "there was nothing to delete"
                };
                output::line(&format!("{barrier}: {what}"))?;
            }
        }
        Ok(Exit::Done)
    }
}
