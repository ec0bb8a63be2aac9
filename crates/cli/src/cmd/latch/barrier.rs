//! `hbase-txn barrier`.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use hbase_txn::{
    BytesBinary, TableName,
    latch::{
        Barrier as Parties, BarrierInfo, BarrierOutcome, LatchManagerOptions, LatchName, MAX_LATCH_TTL,
        MAX_PARTIES, MIN_LATCH_TTL,
    },
};
use serde::Serialize;

use super::{look::WAIT_TIME, missing::MissingTable, which::NO_FARM};
use crate::{
    cmd::missing_table,
    durations,
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
    values::{self, Ranged},
};

/// Create, show and delete barriers, or arrive at one and wait for the others
#[derive(Debug, Args)]
pub(crate) struct Barrier {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(Create),
    Arrive(Arrive),
    Wait(Wait),
    Show(Show),
    Delete(Delete),
}

#[derive(Debug, Args)]
struct Which {
    /// Latch table, with its namespace if it has one
    table: TableName,
    /// Id of the barrier, unique for its client; \xNN is a byte
    #[arg(value_parser = values::text)]
    id: String,
    /// Client of the barrier: a service, not a process
    #[arg(long, value_name = "C", value_parser = values::text)]
    client: String,
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
    /// Limit of a generation from its first arrival on, 100ms to 8784h; a generation that is not
    /// full by then is broken
    #[arg(long, value_name = "DURATION", default_value = "1h", allow_hyphen_values = true, value_parser = durations::parse)]
    time: Ranged<Duration>,
    #[command(flatten)]
    table: MissingTable,
}

/// Arrive at a barrier, and wait up to --timeout for the other parties
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
}

/// Wait up to --timeout for the end of a generation, without arriving
#[derive(Debug, Args)]
#[command(after_help = WAIT)]
struct Wait {
    #[command(flatten)]
    which: Which,
    /// Number of the generation, from 1
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    generation: Ranged<u64>,
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

const CREATE: &str = r#"Example: hbase-txn barrier create latches rounds 3 --client billing --time 10m --output json answers

{"barrier":"billing_rounds","parties":3,"time_ms":600000}

Exit status: 0 created; 3 it exists; 1 refused or failed; 4 the answer was lost."#;

const ARRIVE: &str = r#"Example: hbase-txn barrier arrive latches rounds --client billing --participant worker-1 --timeout 10m --output json answers

{"barrier":"billing_rounds","generation":1,"outcome":"opened"}

`outcome` is opened; broken, if the generation was not full in its time; or waiting, if --timeout expired first: the participant has arrived all the same, and the generation may still open.

To repeat an arrival, after a timeout for example, name its generation: --generation 1. If that has opened or broken meanwhile, the command reports so; without the option it would arrive in the next generation.

Exit status: 0 opened; 3 broken, still waiting when --timeout (60s) expired, or no such barrier; 1 refused or failed; 4 the answer was lost, and the participant may have arrived."#;

const WAIT: &str = r#"Example: hbase-txn barrier wait latches rounds --client billing --generation 1 --timeout 10m --output json answers

{"barrier":"billing_rounds","generation":1,"outcome":"opened"}

`outcome` is opened, broken, or waiting if --timeout expired first.

Exit status: 0 opened; 3 broken, still waiting when --timeout (60s) expired, or no such barrier; 1 refused or failed."#;

const SHOW: &str = r#"Example: hbase-txn barrier show latches rounds --client billing --output json answers

{"barrier":"billing_rounds","parties":3,"generation":1,"arrived":2}

`generation` is the one of the next arrival, `arrived` its number of arrivals so far.

Exit status: 0; 3 no such barrier, and nothing is printed; 1 refused or failed."#;

const DELETE: &str = r#"Example: hbase-txn barrier delete latches rounds --client billing --output json answers

{"barrier":"billing_rounds","deleted":true}

`deleted` is false if there was nothing to delete.

Exit status: 0, also if there was nothing; 1 refused or failed."#;

#[derive(Serialize)]
struct Created {
    barrier: String,
    parties: u32,
    time_ms: u64,
}

#[derive(Serialize)]
struct Arrived {
    barrier: String,
    generation: u64,
    outcome: &'static str,
}

#[derive(Serialize)]
struct BarrierObject {
    barrier: String,
    parties: u32,
    generation: u64,
    arrived: u32,
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
            Action::Wait(wait) => wait.run(global).await,
            Action::Show(show) => show.run(global).await,
            Action::Delete(delete) => delete.run(global).await,
        }
    }
}

impl Which {
    /// Checks the name before any call to a server.
    fn options(&self) -> Result<LatchManagerOptions, Failure> {
        LatchName::new(&self.client, &self.id)
            .map_err(|error| Failure::Refused(format!("naming a barrier, table {}: {error}", self.table)))?;
        Ok(LatchManagerOptions::new(&self.client, NO_FARM))
    }

    /// Opens the barrier, in an existing table.
    async fn open(&self, global: &Global) -> Result<Parties, Failure> {
        let options = self.options()?;
        let connection = global.connect().await?;
        let latches = missing_table::open_latches(&connection, options, &self.table, None).await?;
        Ok(latches.barrier(&self.id)?)
    }
}

impl Create {
    async fn run(self, global: &Global) -> Outcome {
        let options = self.which.options()?;
        let (parties, time) = (self.parties()?, self.time()?);
        let missing = self.table.missing(&self.which.table)?;
        let latches = missing.open(options, global).await?;
        let barrier = latches.barrier(&self.which.id)?;
        barrier.create(parties, time).await?;
        let made = Created {
            barrier: key(&barrier),
            parties,
            time_ms: durations::milliseconds(time),
        };
        match global.output {
            Format::Json => output::json(&made)?,
            Format::Table => output::line(&format!(
                "{}: created, {parties} to arrive within {}",
                made.barrier,
                durations::shown(time)
            ))?,
        }
        Ok(Exit::Done)
    }

    fn parties(&self) -> Result<u32, Failure> {
        let parties = self.parties.get("PARTIES")?;
        if (1..=MAX_PARTIES).contains(&parties) {
            return Ok(parties);
        }
        Err(Failure::Refused(format!(
            "PARTIES {parties} is out of range: 1 to {MAX_PARTIES}"
        )))
    }

    fn time(&self) -> Result<Duration, Failure> {
        let time = self.time.get("--time")?;
        if (MIN_LATCH_TTL..=MAX_LATCH_TTL).contains(&time) {
            return Ok(time);
        }
        Err(Failure::Refused(format!(
            "--time {} is out of range: a generation may take from {} to {}",
            durations::shown(time),
            durations::shown(MIN_LATCH_TTL),
            durations::shown(MAX_LATCH_TTL)
        )))
    }
}

impl Arrive {
    async fn run(self, global: &Global) -> Outcome {
        let time = global.timeout.unwrap_or(WAIT_TIME);
        let generation = self
            .generation
            .as_ref()
            .map(|number| number.get("--generation"))
            .transpose()?;
        let barrier = self.which.open(global).await?;
        let until = Instant::now() + time;
        let arrival = match generation {
            Some(generation) => barrier.arrive_in(&self.participant, generation).await?,
            None => barrier.arrive(&self.participant).await?,
        };
        let ended = barrier
            .wait(&arrival, until.saturating_duration_since(Instant::now()))
            .await?;
        report(global, &barrier, arrival.generation(), ended, time)
    }
}

impl Wait {
    async fn run(self, global: &Global) -> Outcome {
        let time = global.timeout.unwrap_or(WAIT_TIME);
        let generation = self.generation.get("--generation")?;
        let barrier = self.which.open(global).await?;
        let ended = barrier.wait_for(generation, time).await?;
        report(global, &barrier, generation, ended, time)
    }
}

/// Prints how a generation has ended, or that it has not after this time.
fn report(
    global: &Global,
    barrier: &Parties,
    generation: u64,
    ended: BarrierOutcome,
    time: Duration,
) -> Outcome {
    let (outcome, text) = match ended {
        BarrierOutcome::Opened => ("opened", "opened, all have arrived".to_owned()),
        BarrierOutcome::Broken => (
            "broken",
            "broken, its time was over before all had arrived".to_owned(),
        ),
        BarrierOutcome::TimedOut => (
            "waiting",
            format!("not all have arrived after {}", durations::shown(time)),
        ),
        other => return Err(Failure::Refused(format!("{}: {other:?}", key(barrier)))),
    };
    let barrier = key(barrier);
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
        let barrier = self.which.open(global).await?;
        let Some(BarrierInfo {
            parties,
            generation,
            arrived,
            ..
        }) = barrier.show().await?
        else {
            output::complain(&format!(
                "hbase-txn: there is no barrier {} in table {}",
                key(&barrier),
                self.which.table
            ));
            return Ok(Exit::NotMet);
        };
        let barrier = key(&barrier);
        match global.output {
            Format::Json => output::json(&BarrierObject {
                barrier,
                parties,
                generation,
                arrived,
            })?,
            Format::Table => output::line(&format!(
                "{barrier}: generation {generation}, {arrived} of {parties} have arrived"
            ))?,
        }
        Ok(Exit::Done)
    }
}

impl Delete {
    async fn run(self, global: &Global) -> Outcome {
        let barrier = self.which.open(global).await?;
        let deleted = barrier.delete().await?;
        let barrier = key(&barrier);
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

/// Formats a barrier's key for output.
fn key(barrier: &Parties) -> String {
    BytesBinary(barrier.key().as_bytes()).to_string()
}
